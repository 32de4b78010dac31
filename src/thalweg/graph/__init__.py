"""The query graph: arcs, operators, the state table and its rules, and how a plan becomes one."""

from thalweg.graph.build import build_graph
from thalweg.graph.graph_operator import OperatorFigures
from thalweg.graph.query_graph import QueryGraph
from thalweg.graph.why import Why

__all__ = ["OperatorFigures", "QueryGraph", "Why", "build_graph"]
