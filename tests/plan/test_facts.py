"""What is true of an operator is stated by its class; the base class gives the safe answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import thalweg as tw
from thalweg.errors import PlanError, WindowError
from thalweg.model.rows import Bools
from thalweg.plan import nodes
from thalweg.plan.catalogue import operators_table
from thalweg.plan.nodes import FACTS, Node, find, rebuild, replace, walk
from thalweg.plan.properties import StreamProperties
from thalweg.plan.update_streams import check_update_rules
from thalweg.shards.fragments.cutting import fragments_of
from thalweg.windows import Category, Membership, Tuples, Window, WindowIds, WindowKind


def _subclasses(kind: type[Node]) -> Iterator[type[Node]]:
    for below in kind.__subclasses__():
        yield below
        yield from _subclasses(below)


def _operators() -> list[type[Node]]:
    """Every node class of the package that can stand in a plan: one that has no subclasses, and
    sources, of which a merge of logs is one."""
    found = {
        kind
        for kind in _subclasses(Node)
        if kind.__module__.startswith("thalweg.")
        and (not kind.__subclasses__() or kind is nodes.Source)
    }
    return sorted(found, key=lambda kind: kind.__name__)


@pytest.mark.parametrize("fact", FACTS)
@pytest.mark.parametrize("kind", _operators(), ids=lambda kind: kind.__name__)
def test_every_operator_states_every_fact(kind: type[Node], fact: str) -> None:
    stated = any(fact in vars(base) for base in kind.__mro__ if base is not Node)
    assert stated, f"{kind.__name__} says nothing about {fact!r}; see plan/nodes/base.py."


def test_all_exported_operators_are_examined() -> None:
    exported = [getattr(nodes, name) for name in nodes.__all__ if name != "Node"]
    kinds = {kind for kind in exported if isinstance(kind, type) and issubclass(kind, Node)}
    assert kinds <= set(_operators())


@dataclass(frozen=True, eq=False)
class Mystery(Node):
    """An operator that says nothing about itself, over any number of inputs."""

    sides: tuple[Node, ...]
    setting: int = 1

    def __post_init__(self) -> None:
        self._settle(self.sides[0].schema, StreamProperties())


def _streams(count: int) -> tuple[Node, ...]:
    return tuple(tw.source(f"s{i}", {"k": "int64", "v": "int64"}).node for i in range(count))


def test_an_unknown_operator_gets_the_safe_answers() -> None:
    node = Mystery(_streams(3))
    assert node.inputs == node.sides
    assert not node.row_by_row
    assert not node.before_exchange
    assert node.endless_by is node
    assert not node.never_revises
    assert node.progressing == frozenset()
    assert node.useful_promises((10, 0)) is None
    assert node.divided_by == ((), (), ())
    assert node.columns_read == (None, None, None)
    assert node.state == "everything it has seen"
    assert node.covers_windows
    assert node.reach is None
    assert node.carrying(("k",), lambda below: below) is None
    with pytest.raises(PlanError, match="mystery cannot stand inside a group"):
        node.group_changes(("k",), [("k",)] * 3)


def test_an_unknown_operator_over_three_inputs_runs_in_one_bucket() -> None:
    plan = fragments_of(Mystery(_streams(3)))
    (fragment,) = plan.fragments
    assert fragment.single
    assert [entry.leaf.name for entry in fragment.inputs] == ["s0", "s1", "s2"]


def test_an_unknown_operator_may_be_endless_so_no_join_keeps_its_rows() -> None:
    left, right = _streams(2)
    with pytest.raises(PlanError, match="mystery gives its rows no end"):
        nodes.Join(
            Mystery((left,)), right, (tw.col("k"),), (tw.col("k"),), result=(("k", tw.col("l.k")),)
        )


def test_an_unknown_operator_is_refused_behind_a_source_that_keeps_only_the_newest_rows() -> None:
    quotes = tw.source("q", {"k": "int64", "v": "int64"}, insert_only=True).update_key("k")
    with pytest.raises(PlanError, match=r"mystery over 'q'.*computed from the rows that are left"):
        check_update_rules(Mystery((quotes.node,)))


def test_the_readme_shows_what_the_classes_say() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    assert operators_table() in readme, "put operators_table() into README.md"


# ------------------------------------------------------------------------------------------------
# structure


def test_children_of_a_tuple_are_replaced_in_their_order() -> None:
    a, b, c = _streams(3)
    node = Mystery((a, b), 7)
    assert node.with_children(a, b) is node
    changed = node.with_children(c, b)
    assert (changed.sides, changed.setting) == ((c, b), 7)
    with pytest.raises(PlanError, match="2 children, but 1 were given"):
        node.with_children(a)


def test_a_node_that_is_read_twice_stays_one_node_when_the_plan_is_rebuilt() -> None:
    (a,) = _streams(1)
    shared = nodes.Where(a, tw.col("v") > 1)
    plan = Mystery((shared, nodes.Where(shared, tw.col("k") > 2)))
    other = tw.source("other", {"k": "int64", "v": "int64"}).node
    for changed in (
        rebuild(plan, lambda node: other if node is a else node),
        replace(plan, {a: other}),
    ):
        left, right = changed.inputs
        assert right.inputs == (left,)
        assert [node.name for node in find(changed, nodes.Source)] == ["other"]
        assert len(list(walk(changed))) == len(list(walk(plan)))


def test_a_replacement_may_read_what_it_replaces() -> None:
    (a,) = _streams(1)
    filtered = nodes.Where(a, tw.col("v") > 1)
    changed = replace(Mystery((filtered,)), {filtered: nodes.Describe(filtered)})
    assert [node.label for node in walk(changed)] == ["source", "where", "describe", "mystery"]


def test_a_plan_inside_a_group_is_rebuilt_too() -> None:
    stream = tw.source("s", {"k": "int64", "v": "int64"})
    grouped = stream.group_apply("k", lambda g: g.where("v > 1")).node
    changed = rebuild(
        grouped, lambda node: nodes.Describe(node) if isinstance(node, nodes.Where) else node
    )
    assert "describe" in [node.label for node in walk(changed)]


def test_a_chain_of_many_operators_needs_no_deep_recursion() -> None:
    (node,) = _streams(1)
    for _ in range(5_000):
        node = nodes.Where(node, tw.col("v") > 1)
    assert node.endless_by is None
    assert len(list(walk(rebuild(node, lambda same: same)))) == 5_001


# ------------------------------------------------------------------------------------------------
# facts that were kept in lists elsewhere, and had drifted


def test_promises_that_are_thinned_out_do_not_hide_rows_without_an_end() -> None:
    a = tw.source("a", {"k": "int64"}).set_duration(None)
    b = tw.source("b", {"k": "int64"})
    for endless in (a, a.describe(), a.distinct(), a.number_rows(), a.quantize(10, 10)):
        with pytest.raises(PlanError, match="set_duration gives its rows no end"):
            endless.join(b, "k")


def test_a_projection_keeps_groups_whatever_their_columns_are_called() -> None:
    """A name that is written between quotes, such as `end`, hid them."""
    for name in ("k", "end", "of two words"):
        stream = tw.source("s", {name: "int64", "v": "int64"}, group_ctis=name)
        kept = stream.with_columns(w="v + 1").properties
        assert (kept.group_keys, kept.group_ctis) == ((name,), True)
        assert stream.select("v").properties.group_keys == ()
        renamed = stream.rename({name: "g"}).properties
        assert renamed.group_keys == ()


def test_groups_do_not_hide_rows_without_an_end() -> None:
    """Such a join was built, and refused only when it was to run."""
    a = tw.source("a", {"k": "int64", "v": "int64"}).set_duration(None)
    b = tw.source("b", {"k": "int64", "v": "int64"})
    groups = a.group_apply("k", lambda group: group.where("v > 1").union(group))
    with pytest.raises(PlanError, match="set_duration gives its rows no end"):
        groups.join(b, "k")
    with pytest.raises(PlanError, match="set_duration gives its rows no end"):
        a.group_apply("k", lambda group: group.join(group.rename(v="w"), "k"))
    ending = a.group_apply("k", lambda group: group.set_duration(5).union(group.set_duration(9)))
    tw.Engine(ending.join(b.rename(v="w"), "k"))


def test_the_times_of_a_window_join_still_progress_behind_describe() -> None:
    a, b, c = (tw.source(name, {"k": "int64"}) for name in "abc")
    joined = a.window_join(b, "k", window=tw.band(before=1, after=1))
    for left in (joined, joined.describe(), joined.where("k > 1").describe(every=10)):
        again = left.window_join(
            c, "k", window=tw.band(before=1, after=1), left_time="left_time", times=("x", "y")
        )
        assert {"x", "y"} <= set(again.schema.names)


def test_a_pair_of_endless_rows_is_endless() -> None:
    a, b = (tw.source(name, {"k": "int64"}).set_duration(None) for name in "ab")
    pairs = a.join(b, "k", endless=("left", "right"))
    with pytest.raises(PlanError, match="set_duration gives its rows no end"):
        pairs.join(tw.source("c", {"k": "int64"}), "k")


# ------------------------------------------------------------------------------------------------
# signatures


def test_the_signature_has_every_setting_and_the_columns_that_are_read() -> None:
    stream = tw.source("s", {"k": "int64", "v": "int64"})
    sums = stream.group_by("k").tumbling(10).aggregate(x=tw.sum_("v")).node
    text = sums.signature
    assert text.startswith("WindowAggregate 1(")
    assert "k int64, v int64" in text
    other = stream.group_by("k").hopping(10, 10, offset=3).aggregate(x=tw.sum_("v")).node
    assert sums.details == other.details  # the offset is not shown
    assert other.signature != text  # but state depends on it


def test_what_state_does_not_depend_on_is_not_in_the_signature() -> None:
    a, b = (tw.source(name, {"k": "int64"}) for name in "ab")
    assert a.join(b, "k").node.signature == a.join(b, "k", endless="left").node.signature


# ------------------------------------------------------------------------------------------------
# windows


def test_a_kind_of_window_that_leaves_a_fact_out_cannot_be_made() -> None:
    @dataclass(frozen=True)
    class Silent(Window):
        size: int

    for fact in Window.__abstractmethods__:
        with pytest.raises(TypeError, match=fact):
            Silent(5)  # type: ignore[abstract]
    assert Window.__abstractmethods__ >= {"grid", "firm_ends", "closes_by_group", "only_cut"}


class Unstated(WindowKind):
    """A kind with the three functions, and nothing said about them."""

    def windows(self, tuples: Tuples) -> WindowIds:
        return WindowIds.of(tuples.ts)

    def extent(self, window: int, partition: int, tuples: Tuples) -> Bools:
        inside: Bools = tuples.ts == window
        return inside

    def wids(self, tuples: Tuples) -> Membership:
        return Membership(tuples.ts, tuples.ts)

    def __str__(self) -> str:
        return "unstated"


def test_a_kind_of_window_that_says_nothing_may_depend_on_all_rows_of_its_partition() -> None:
    kind = Unstated()
    assert kind.category is Category.FCA
    assert kind.decided_by == "partition"
    assert (kind.reach, kind.length, kind.strategies) == (None, None, ("rows",))
    (stream,) = _streams(1)
    node = nodes.WidAggregate(stream, kind, (("n", tw.count()),), ("k",))
    assert node.divided_by == ((),)
    with pytest.raises(WindowError, match=r"unstated is FCA .*has no assigner"):
        tw.source("s", {"k": "int64"}).windows(kind)
