"""Joins of the fluent API: their arguments are checked, and become nodes."""

from __future__ import annotations

from dataclasses import dataclass

from thalweg.errors import PlanError
from thalweg.expr import Expr, ExprLike, as_expr
from thalweg.model.time import Duration
from thalweg.plan import nodes
from thalweg.plan.join_kinds import ASOF_KINDS, JOIN_KINDS, join_kind
from thalweg.plan.join_windows import JoinWindow
from thalweg.plan.nodes import Named, Node
from thalweg.plan.window_joins import asof_join, is_of_points, one_side, window_join
from thalweg.stream.arguments import (
    Columns,
    On,
    default_result,
    key_pairs,
    named_columns,
    shared_keys,
)
from thalweg.windows.kinds import positive_ticks

__all__ = ["JoinColumns", "asof_join_node", "join_node", "window_join_node"]


@dataclass(frozen=True, slots=True)
class JoinColumns:
    """The columns of a result: of a pair, and of a row that has no partner."""

    select: Columns | None
    left_only: Columns | None
    right_only: Columns | None

    def check(self, how: str) -> None:
        """Refuse columns that this kind of join does not have."""
        kind = JOIN_KINDS[how]
        if kind.only_left_rows:
            _refuse_select("join", how, self.select, self.left_only, self.right_only)
        elif (self.left_only is not None and not kind.left_alone) or (
            self.right_only is not None and not kind.right_alone
        ):
            raise PlanError(
                "join: left_only= is for left and full joins, right_only= for right and full "
                f"joins; this one is {how!r}."
            )


def join_node(
    left: Node,
    right: Node,
    on: On,
    where: ExprLike | None,
    how: str,
    columns: JoinColumns,
    *,
    endless: tuple[str, ...],
) -> Node:
    """Rows that match while both last."""
    kind = join_kind(how, "join")
    if is_of_points(left) and is_of_points(right):
        raise PlanError(
            "join: rows of both streams are points, which meet only at the same instant. Say over "
            "which time: window_join(..., window=tw.band(before='10 min', after='10 min')), or "
            "asof_join(...); for the same instant window=tw.same_window(1); or let rows last, "
            "set_duration('10 min')."
        )
    left_keys, right_keys = key_pairs(on)
    predicate = None if where is None else as_expr(where)
    columns.check(how)
    if kind.only_left_rows:
        return nodes.Join(left, right, left_keys, right_keys, predicate, how, endless=endless)
    result, shared = _result(left, right, (left_keys, right_keys), columns.select)
    left_only: Named = ()
    right_only: Named = ()
    if kind.left_alone:
        left_only = (
            one_side(result, left.schema, right.schema, "l")
            if columns.left_only is None
            else named_columns(columns.left_only)
        )
    if kind.right_alone:
        right_only = (
            one_side(result, right.schema, left.schema, "r", shared)
            if columns.right_only is None
            else named_columns(columns.right_only)
        )
    return nodes.Join(
        left,
        right,
        left_keys,
        right_keys,
        predicate,
        how,
        result,
        left_only,
        right_only,
        endless=endless,
    )


def window_join_node(
    left: Node,
    right: Node,
    on: On,
    where: ExprLike | None,
    how: str,
    select: Columns | None,
    *,
    window: JoinWindow,
    at: str,
    times: tuple[Expr, Expr],
    names: tuple[str, str],
) -> Node:
    """Rows whose times lie in a window together."""
    if not isinstance(window, JoinWindow):
        raise PlanError(
            "window_join: window must be band(...), ranges(...), same_window(...), widjoin(...) or "
            f"a JoinWindow; got {window!r}."
        )
    kind = join_kind(how, "window_join")
    if kind.only_left_rows:
        _refuse_select("window_join", how, select)
    keys = key_pairs(on)
    result, shared = _result(left, right, keys, select)
    return window_join(
        (left, right),
        keys,
        window,
        times=times,
        names=names,
        predicate=None if where is None else as_expr(where),
        how=how,
        result=result,
        shared=shared,
        at=at,
    )


def asof_join_node(
    left: Node,
    right: Node,
    on: On,
    how: str,
    select: Columns | None,
    *,
    within: Duration | None,
    exact: bool,
    names: tuple[str, str],
) -> Node:
    """Each left row with the latest right row that is not later."""
    join_kind(how, "asof_join", ASOF_KINDS)
    keys = key_pairs(on)
    result, _ = _result(left, right, keys, select)
    limit = None if within is None else positive_ticks(within, "asof_join within")
    return asof_join(
        (left, right), keys, within=limit, exact=exact, names=names, how=how, result=result
    )


def _result(
    left: Node, right: Node, keys: tuple[tuple[Expr, ...], tuple[Expr, ...]], select: Columns | None
) -> tuple[Named, set[str]]:
    """The columns of a pair, and those of them that are keys under one name on both sides."""
    if select is not None:
        return named_columns(select), set()
    shared = shared_keys(*keys)
    return default_result(left.schema, right.schema, shared), shared


def _refuse_select(what: str, how: str, *columns: Columns | None) -> None:
    if any(chosen is not None for chosen in columns):
        raise PlanError(
            f"{what}: a {how} join gives rows of the left side as they are; select afterwards."
        )
