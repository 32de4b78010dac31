"""Windows of every kind.

The engine: one loop for every kind of window that is evaluated from held rows.

build             which kernel runs a node, by its kind of window
engine            read the rows of a batch, revise, answer, close, save
assigners/        the kinds of windows at run time: the windows that rows make, those that a change
                  reaches, those that a CTI closes
partitions        the groups of some columns, by number; `partition_values`: a number for each
held_rows         the rows, by partition and position
totals            partial results of forgotten rows, for windows over everything so far
values            the results of windows: aggregates of rows, or of partial results
module_values     the results of windows: the answers of a module from their rows
bins              slide-by-tuple windows in one pass, from partial results instead of rows

Windows whose place does not depend on rows, and those of users' own, have stores that save work:

grid/             hopping and tumbling windows: one loop over sums, partial results or rows; panes
snapshot/         maximal intervals in which nothing changes: aggregates, top-k, distinct
modules/          users' aggregates and operators that keep states or need single events

What all of them use:

window_operator   numbers of groups, and which of them may be used again
extents           which rows are in which windows, as ranges of an order of rows
partials          aggregates that add up, as a table of whole numbers
items             partial results or rows of groups, by position
accumulators      aggregates of any bounded kind, as Arrow columns
ranking           the ranks of a window's rows, for top-k
whole_windows     which answers a query that was added later has seen whole

The loops (`engine`, `grid.loop`, `snapshot`, `bins`, `modules.window_apply`) take the same steps in
the same order, under the same names: read the rows of a batch and hold them; revise the windows
that have answered; answer the windows that may answer now (`compare` does both at once); promise;
close, which forgets what no open window needs, or clear after the last CTI; reuse numbers of
groups. There are several loops because the data between the steps differs: on a grid a range of
integers, in the engine the rows before and after with the windows that an assigner finds in them,
and where windows split and merge one evaluation that revises and answers together. A common loop
would share nothing but the order of the calls.
"""
