"""The window engine: one loop for every kind of window that looks at the rows it holds.

engine        take in, compare before and after, release, forget, snapshot: written once
assigner      what a kind of window means at run time: which windows rows make, what a change
              reaches, what a CTI closes
held_rows     the rows, by partition and position
totals        partial results of rows that are gone, for windows over everything so far
values        what the windows give: aggregates of rows, or of partial results
"""
