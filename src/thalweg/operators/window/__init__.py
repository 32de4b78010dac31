"""Windows of every kind.

The engine: one loop for every kind of window that looks at the rows it holds.

engine        hold the rows of a batch, compare before and after, answer, forget, save: written once
assigner      what a kind of window means at run time: which windows rows make, what a change
              reaches, what a CTI closes
held_rows     the rows, by partition and position
totals        partial results of forgotten rows, for windows over everything so far
values        what the windows give: aggregates of rows, or of partial results

Windows whose place does not depend on rows, and those of users' own, have stores that save work:

grid/         hopping and tumbling windows: one loop over sums, panes, bins, hash tables or rows
snapshot/     maximal intervals in which nothing changes: aggregates, top-k, distinct
modules/      users' aggregates and operators that keep states or need single events
"""
