"""The query graph: arcs, stations, selection rules, and how a plan becomes one."""

from thalweg.graph.build import build_graph, never_revises
from thalweg.graph.query_graph import QueryGraph

__all__ = ["QueryGraph", "build_graph", "never_revises"]
