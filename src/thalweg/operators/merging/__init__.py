"""Kernels of LMerge: one stream out of many physically different copies of it."""
