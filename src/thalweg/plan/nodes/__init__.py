"""Logical nodes: what a query means, without a word about how it runs."""

from thalweg.plan.join_kinds import JOIN_KINDS
from thalweg.plan.nodes.apply import WindowApply
from thalweg.plan.nodes.arrivals import StampArrivals
from thalweg.plan.nodes.base import FACTS, Grid, Named, Node
from thalweg.plan.nodes.chains import Distinct, SessionLifetime, Stitch
from thalweg.plan.nodes.chronicle import Chronicle
from thalweg.plan.nodes.clip_by import ClipBy
from thalweg.plan.nodes.detect import Detect, Register
from thalweg.plan.nodes.group_apply import GroupApply
from thalweg.plan.nodes.join import Join
from thalweg.plan.nodes.lifetimes import (
    AlterLifetime,
    Chop,
    ClipDuration,
    Extend,
    HoppingLifetime,
    PointAtEnd,
    Quantize,
    SetDuration,
    Shift,
)
from thalweg.plan.nodes.merge import Merge
from thalweg.plan.nodes.panes import CombinePanes, Panes
from thalweg.plan.nodes.progress import Describe, InOrder
from thalweg.plan.nodes.retime import Retime
from thalweg.plan.nodes.rows import Select, SelectMany, Where
from thalweg.plan.nodes.schemas import lifetime_schema
from thalweg.plan.nodes.sources import GroupInput, Ingress, MergedSource, Source
from thalweg.plan.nodes.top_k import TopK
from thalweg.plan.nodes.traversal import find, rebuild, replace, walk
from thalweg.plan.nodes.union import Union
from thalweg.plan.nodes.wid import NumberRows, WidAggregate
from thalweg.plan.nodes.wid_apply import WidApply
from thalweg.plan.nodes.window_aggregate import WindowAggregate

__all__ = [
    "FACTS",
    "JOIN_KINDS",
    "AlterLifetime",
    "Chop",
    "Chronicle",
    "ClipBy",
    "ClipDuration",
    "CombinePanes",
    "Describe",
    "Detect",
    "Distinct",
    "Extend",
    "Grid",
    "GroupApply",
    "GroupInput",
    "HoppingLifetime",
    "InOrder",
    "Ingress",
    "Join",
    "Merge",
    "MergedSource",
    "Named",
    "Node",
    "NumberRows",
    "Panes",
    "PointAtEnd",
    "Quantize",
    "Register",
    "Retime",
    "Select",
    "SelectMany",
    "SessionLifetime",
    "SetDuration",
    "Shift",
    "Source",
    "StampArrivals",
    "Stitch",
    "TopK",
    "Union",
    "Where",
    "WidAggregate",
    "WidApply",
    "WindowAggregate",
    "WindowApply",
    "find",
    "lifetime_schema",
    "rebuild",
    "replace",
    "walk",
]
