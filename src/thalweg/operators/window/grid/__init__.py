"""Hopping and tumbling windows, and whatever else lies on a regular grid of time.

build            which store runs a node
grid             windows as integers; which of them are closed, and which may have answered
loop             hold rows, revise, answer, close, save: written once, for the stores below

A store defines how rows are held and how windows are evaluated:

sums             counts and whole sums: what enters and leaves at each window, added up
buckets          partial results of any bounded size, by pane or by window
eager_groups     for which groups of these rows are kept instead, which may take less memory;
                 `adaptation`: by which rules
rows             the rows, for percentiles and the like, and for top-k; `ranges` of partial results
                 where windows overlap much
cells            sums of groups at windows, as one table of whole numbers

Panes, which several windows share:

panes            sums of a batch by pane, and windows over them
merged_panes     the same for partial results that do not add up
pane_table       panes from a table of fixed size, across batches

Around a kernel:

promised_groups  groups that close one by one
deferred         windows over shared panes wait until one of them ends
fill             zero rows for empty windows
"""
