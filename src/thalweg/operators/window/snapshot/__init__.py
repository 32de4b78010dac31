"""Snapshots: maximal intervals of time in which nothing changes.

snapshots   cut the time of groups at every endpoint of their rows
kernel      read the rows of a batch, revise and answer, close, save: written once, for those below
gate        which windows may answer, and which have
aggregate, top_k, distinct, apply       what the rows alive in a window give
"""
