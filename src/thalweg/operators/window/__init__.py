"""Windows of every kind.

The engine: one loop for every kind of window that looks at the rows it holds.

build         which kind of window a node has, and what its windows give
engine        hold the rows of a batch, compare before and after, answer, forget, save: written once
assigner      what a kind of window means at run time: which windows rows make, what a change
              reaches, what a CTI closes
sessions, counts, by_time, by_count, landmark      the assigners, by kind of window
held_rows     the rows, by partition and position
totals        partial results of forgotten rows, for windows over everything so far
values        what the windows give: aggregates of rows, or of partial results; `module_values`:
              what modules make of them

Windows whose place does not depend on rows, and those of users' own, have stores that save work:

grid/         hopping and tumbling windows: one loop over sums, panes, bins, tables or rows
snapshot/     maximal intervals in which nothing changes: aggregates, top-k, distinct
modules/      users' aggregates and operators that keep states or need single events

What all of them use:

extents       which rows are in which windows, as ranges of an order of rows
partials      aggregates that add up, as a table of whole numbers
accumulators  aggregates of any bounded kind, as Arrow columns
ranking       the ranks of a window's rows, for top-k
whole_windows which answers a query that was added later has seen whole
"""
