"""Snapshots: maximal intervals of time in which nothing changes.

snapshots   cut the time of each group at every endpoint of its rows; take rows in, revise, answer,
            forget, save: written once, for the kernels below
gate        which windows may answer, and which have
aggregate, top_k, distinct, apply       what the rows alive in a window give
"""
