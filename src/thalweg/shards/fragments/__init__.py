"""Fragments: a plan cut where its rows are exchanged."""
