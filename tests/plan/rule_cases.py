"""Plans before and after each rule, as text: the laws at a glance. A rule that must not apply has
no second text.

`a` has the columns k, v, w and t; `b` has k, x and u.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import dedent

from thalweg.expr import col
from thalweg.plan.aggregates import count, max_, sum_
from thalweg.plan.nodes import ClipBy
from thalweg.stream import Stream, source
from thalweg.udm import operator

A = source("a", {"k": "int64", "v": "int64", "w": "float64", "t": "string"})
B = source("b", {"k": "int64", "x": "int64", "u": "string"})


@operator(
    "rules.big",
    inputs={"k": "int64", "v": "int64"},
    output={"k": "int64", "v": "int64"},
    commutes_with_filter="k",
)
def big(rows: Sequence[Mapping[str, int | None]]) -> list[Mapping[str, int | None]]:
    """The rows with a large v: each for itself, so that a filter on k may come before or after."""
    return [row for row in rows if row["v"] is not None and row["v"] > 1]


@dataclass(frozen=True)
class RuleCase:
    rule: str
    name: str
    query: Stream
    before: str
    after: str | None = None

    @property
    def id(self) -> str:
        return f"{self.rule}-{self.name}"

    @property
    def texts(self) -> tuple[str, str | None]:
        return dedent(self.before).strip(), None if self.after is None else dedent(
            self.after
        ).strip()


CASES = [
    RuleCase(
        "where_below_module",
        "what_commutes",
        A.group_by("t")
        .tumbling(10)
        .apply("rules.big", "k", "v", time_limit=None)
        .where("k = 1 and t = 'a'"),
        """
        where-1  k = 1 AND t = 'a'
          window_apply-1  tumbling(10) by t: rules.big@1(k, v)
            source-1  a
        """,
        """
        window_apply-1  tumbling(10) by t: rules.big@1(k, v)
          where-1  k = 1 AND t = 'a'
            source-1  a
        """,
    ),
    RuleCase(
        "where_below_module",
        "under_another_name",
        A.tumbling(10).apply("rules.big", k="v", v="k", time_limit=None).where("k = 1"),
        """
        where-1  k = 1
          window_apply-1  tumbling(10): rules.big@1(k = v, v = k)
            source-1  a
        """,
        """
        window_apply-1  tumbling(10): rules.big@1(k = v, v = k)
          where-1  v = 1
            source-1  a
        """,
    ),
    RuleCase(
        "where_below_module",
        "what_does_not_commute_stays",
        A.tumbling(10).apply("rules.big", "k", "v", time_limit=None).where("v = 2"),
        """
        where-1  v = 2
          window_apply-1  tumbling(10): rules.big@1(k, v)
            source-1  a
        """,
    ),
    RuleCase(
        "where_below_module",
        "windows_that_rows_make_stay",
        A.snapshot().apply("rules.big", "k", "v", time_limit=None).where("k = 1"),
        """
        where-1  k = 1
          window_apply-1  snapshot: rules.big@1(k, v)
            source-1  a
        """,
    ),
    RuleCase(
        "where_below_module",
        "what_is_computed_stays",
        A.tumbling(10).apply("rules.big", k="k + 1", v="v", time_limit=None).where("k = 1"),
        """
        where-1  k = 1
          window_apply-1  tumbling(10): rules.big@1(k = k + 1, v)
            source-1  a
        """,
    ),
    RuleCase(
        "where_below_union",
        "both_sides",
        A.select("k").union(B.select("k")).where("k > 1"),
        """
        where-1  k > 1
          union-1
            select-1  k
              source-1  a
            select-2  k
              source-2  b
        """,
        """
        union-1
          where-1  k > 1
            select-1  k
              source-1  a
          where-2  k > 1
            select-2  k
              source-2  b
        """,
    ),
    RuleCase(
        "where_below_select",
        "renamed_column",
        A.select(key="k", double="v * 2").where("key > 1 and _start < 30"),
        """
        where-1  key > 1 AND _start < 30
          select-1  key = k, double = v * 2
            source-1  a
        """,
        """
        select-1  key = k, double = v * 2
          where-1  k > 1 AND _start < 30
            source-1  a
        """,
    ),
    RuleCase(
        "where_below_select",
        "computed_column_stays",
        A.select(key="k", double="v * 2").where("double > 1"),
        """
        where-1  double > 1
          select-1  key = k, double = v * 2
            source-1  a
        """,
    ),
    RuleCase(
        "where_below_groups",
        "aggregate",
        A.group_by("k", "t").tumbling(10).aggregate(n=count()).where("k > 1 and t is not null"),
        """
        where-1  k > 1 AND t IS NOT NULL
          window_aggregate-1  tumbling(10) by k, t: n = count()
            source-1  a
        """,
        """
        window_aggregate-1  tumbling(10) by k, t: n = count()
          where-1  k > 1 AND t IS NOT NULL
            source-1  a
        """,
    ),
    RuleCase(
        "where_below_groups",
        "aggregated_column_stays",
        A.group_by("k").tumbling(10).aggregate(n=count()).where("n > 1"),
        """
        where-1  n > 1
          window_aggregate-1  tumbling(10) by k: n = count()
            source-1  a
        """,
    ),
    RuleCase(
        "where_below_groups",
        "start_stays",
        A.group_by("k").tumbling(10).aggregate(n=count()).where("k > _start"),
        """
        where-1  k > _start
          window_aggregate-1  tumbling(10) by k: n = count()
            source-1  a
        """,
    ),
    RuleCase(
        "where_below_groups",
        "filled_groups_stay",
        A.group_by("k").tumbling(10).fill([1, 2]).aggregate(n=count()).where("k > 1"),
        """
        where-1  k > 1
          window_aggregate-1  tumbling(10) by k: n = count(), 2 groups filled
            source-1  a
        """,
    ),
    RuleCase(
        "where_below_groups",
        "floating_key_stays",
        A.group_by("w").tumbling(10).aggregate(n=count()).where("w > 1"),
        """
        where-1  w > 1
          window_aggregate-1  tumbling(10) by w: n = count()
            source-1  a
        """,
    ),
    RuleCase(
        "where_below_groups",
        "what_can_fail_stays",
        A.group_by("k").tumbling(10).aggregate(n=count()).where("10 / nullif(k, 0) > 1"),
        """
        where-1  10 / nullif(k, 0) > 1
          window_aggregate-1  tumbling(10) by k: n = count()
            source-1  a
        """,
    ),
    RuleCase(
        "where_below_groups",
        "top_k",
        A.group_by("k").top_k(2, by="v").where("k = 1"),
        """
        where-1  k = 1
          top_k-1  2 largest v, snapshot by k
            source-1  a
        """,
        """
        top_k-1  2 largest v, snapshot by k
          where-1  k = 1
            source-1  a
        """,
    ),
    RuleCase(
        "where_below_groups",
        "top_k_of_all_stays",
        A.top_k(2, by="v").where("k = 1"),
        """
        where-1  k = 1
          top_k-1  2 largest v, snapshot
            source-1  a
        """,
    ),
    RuleCase(
        "where_below_groups",
        "distinct",
        A.select("k", "t").distinct().where("t = 'a'"),
        """
        where-1  t = 'a'
          distinct-1
            select-1  k, t
              source-1  a
        """,
        """
        distinct-1
          where-1  t = 'a'
            select-1  k, t
              source-1  a
        """,
    ),
    RuleCase(
        "where_below_groups",
        "stitch",
        A.stitch().where("v = 1"),
        """
        where-1  v = 1
          stitch-1
            source-1  a
        """,
        """
        stitch-1
          where-1  v = 1
            source-1  a
        """,
    ),
    RuleCase(
        "where_below_groups",
        "session",
        A.group_by("k").session_lifetime(5, max_duration=20).where("k <> 2"),
        """
        where-1  k <> 2
          session_lifetime-1  timeout 5, at most 20 by k
            source-1  a
        """,
        """
        session_lifetime-1  timeout 5, at most 20 by k
          where-1  k <> 2
            source-1  a
        """,
    ),
    RuleCase(
        "where_below_groups",
        "session_of_others_stays",
        A.group_by("k").session_lifetime(5).where("v = 1"),
        """
        where-1  v = 1
          session_lifetime-1  timeout 5 by k
            source-1  a
        """,
    ),
    RuleCase(
        "where_below_join",
        "left_side",
        A.join(B, on="k").where("v > 1 and k = 2"),
        """
        where-1  v > 1 AND k = 2
          join-1  inner on k: k = l.k, v = l.v, w = l.w, t = l.t, x = r.x, u = r.u
            source-1  a
            source-2  b
        """,
        """
        join-1  inner on k: k = l.k, v = l.v, w = l.w, t = l.t, x = r.x, u = r.u
          where-1  v > 1 AND k = 2
            source-1  a
          source-2  b
        """,
    ),
    RuleCase(
        "where_below_join",
        "side_that_a_left_join_preserves",
        A.left_join(B, on="k", select={"v": "l.v", "x": "r.x"}).where("v > 1"),
        """
        where-1  v > 1
          join-1  left on k: v = l.v, x = r.x
            source-1  a
            source-2  b
        """,
        """
        join-1  left on k: v = l.v, x = r.x
          where-1  v > 1
            source-1  a
          source-2  b
        """,
    ),
    RuleCase(
        "where_below_join",
        "side_that_a_right_join_preserves",
        A.right_join(B, on="k", select={"v": "l.v", "x": "r.x"}).where("x > 1"),
        """
        where-1  x > 1
          join-1  right on k: v = l.v, x = r.x
            source-1  a
            source-2  b
        """,
        """
        join-1  right on k: v = l.v, x = r.x
          source-1  a
          where-1  x > 1
            source-2  b
        """,
    ),
    RuleCase(
        "where_below_join",
        "missing_side_stays",
        A.left_join(B, on="k", select={"v": "l.v", "x": "r.x"}).where("x > 1"),
        """
        where-1  x > 1
          join-1  left on k: v = l.v, x = r.x
            source-1  a
            source-2  b
        """,
    ),
    RuleCase(
        "where_below_join",
        "column_that_a_row_alone_has_otherwise_stays",
        A.join(
            B,
            on="k",
            how="left",
            select={"v": "l.v", "x": "r.x"},
            left_only={"v": "v + 1", "x": "0"},
        ).where("v > 1"),
        """
        where-1  v > 1
          join-1  left on k: v = l.v, x = r.x
            source-1  a
            source-2  b
        """,
    ),
    RuleCase(
        "where_below_join",
        "full_join_stays",
        A.full_join(B, on="k", select={"v": "l.v", "x": "r.x"}).where("v > 1"),
        """
        where-1  v > 1
          join-1  full on k: v = l.v, x = r.x
            source-1  a
            source-2  b
        """,
    ),
    RuleCase(
        "where_below_join",
        "right_side",
        A.join(B, on="k", select={"v": "v", "text": "u"}).where("text = 'a'"),
        """
        where-1  text = 'a'
          join-1  inner on k: v, text = u
            source-1  a
            source-2  b
        """,
        """
        join-1  inner on k: v, text = u
          source-1  a
          where-1  u = 'a'
            source-2  b
        """,
    ),
    RuleCase(
        "where_below_join",
        "both_sides_stay",
        A.join(B, on="k").where("v > x"),
        """
        where-1  v > x
          join-1  inner on k: k = l.k, v = l.v, w = l.w, t = l.t, x = r.x, u = r.u
            source-1  a
            source-2  b
        """,
    ),
    RuleCase(
        "where_below_join",
        "anti",
        A.anti_join(B, on="k").where("v > 1"),
        """
        where-1  v > 1
          join-1  anti on k
            source-1  a
            source-2  b
        """,
        """
        join-1  anti on k
          where-1  v > 1
            source-1  a
          source-2  b
        """,
    ),
    RuleCase(
        "merge_selects",
        "outer_picks",
        A.select(key="k", double="v * 2", since="_start").select("since", twice="double"),
        """
        select-2  since, twice = double
          select-1  key = k, double = v * 2, since = _start
            source-1  a
        """,
        """
        select-1  since = _start, twice = v * 2
          source-1  a
        """,
    ),
    RuleCase(
        "merge_selects",
        "inner_renames",
        A.select(key="k", value="v").select(sum="key + value + _start"),
        """
        select-2  sum = key + value + _start
          select-1  key = k, value = v
            source-1  a
        """,
        """
        select-1  sum = k + v + _start
          source-1  a
        """,
    ),
    RuleCase(
        "merge_selects",
        "both_compute_and_stay",
        A.select(double="v * 2").select(more="double + 1"),
        """
        select-2  more = double + 1
          select-1  double = v * 2
            source-1  a
        """,
    ),
    RuleCase(
        "merge_clip_durations",
        "smaller",
        A.clip_duration(5).clip_duration(9),
        """
        clip_duration-2  to 9
          clip_duration-1  to 5
            source-1  a
        """,
        """
        clip_duration-1  to 5
          source-1  a
        """,
    ),
    RuleCase(
        "merge_set_durations",
        "last",
        A.set_duration(5).set_duration("forever"),
        """
        set_duration-2  forever
          set_duration-1  5
            source-1  a
        """,
        """
        set_duration-1  forever
          source-1  a
        """,
    ),
    RuleCase(
        "merge_set_durations",
        "limit",
        A.clip_duration(5).points(),
        """
        set_duration-1  1
          clip_duration-1  to 5
            source-1  a
        """,
        """
        set_duration-1  1
          source-1  a
        """,
    ),
    RuleCase(
        "merge_set_durations",
        "below_columns",
        A.set_duration(5).select("k", at="_start").set_duration(9),
        """
        set_duration-2  9
          select-1  k, at = _start
            set_duration-1  5
              source-1  a
        """,
        """
        select-1  k, at = _start
          set_duration-2  9
            set_duration-1  5
              source-1  a
        """,
    ),
    RuleCase(
        "merge_set_durations",
        "below_a_shift",
        A.points().shift(3).set_duration(9),
        """
        set_duration-2  9
          shift-1  by 3
            set_duration-1  1
              source-1  a
        """,
        """
        shift-1  by 3
          set_duration-2  9
            set_duration-1  1
              source-1  a
        """,
    ),
    RuleCase(
        "merge_set_durations",
        "a_shift_by_row_stays",
        A.points().shift(col("v")).set_duration(9),
        """
        set_duration-2  9
          shift-1  by v
            set_duration-1  1
              source-1  a
        """,
    ),
    RuleCase(
        "select_from_pairs",
        "renamed",
        A.left_join(B, on="k", select={"v": "l.v + 1", "x": "r.x"}).select("x", more="v"),
        """
        select-1  x, more = v
          join-1  left on k: v = l.v + 1, x = r.x
            source-1  a
            source-2  b
        """,
        """
        join-1  left on k: x = r.x, more = l.v + 1
          source-1  a
          source-2  b
        """,
    ),
    RuleCase(
        "select_from_pairs",
        "twice_stays",
        A.join(B, on="k", select={"v": "l.v"}).select(one="v", two="v"),
        """
        select-1  one = v, two = v
          join-1  inner on k: v = l.v
            source-1  a
            source-2  b
        """,
    ),
    RuleCase(
        "select_from_pairs",
        "a_start_stays",
        A.join(B, on="k", select={"v": "l.v"}).select("v", at="_start"),
        """
        select-1  v, at = _start
          join-1  inner on k: v = l.v
            source-1  a
            source-2  b
        """,
    ),
    RuleCase(
        "merge_shifts",
        "sum",
        A.shift(5).shift(-7),
        """
        shift-2  by -7
          shift-1  by 5
            source-1  a
        """,
        """
        shift-1  by -2
          source-1  a
        """,
    ),
    RuleCase(
        "merge_shifts",
        "by_nothing",
        A.shift(0),
        """
        shift-1  by 0
          source-1  a
        """,
        """
        source-1  a
        """,
    ),
    RuleCase(
        "merge_shifts",
        "by_the_row_stays",
        A.shift(col("v").if_null(0)).shift(5),
        """
        shift-2  by 5
          shift-1  by coalesce(v, 0)
            source-1  a
        """,
    ),
    RuleCase(
        "prune_columns",
        "aggregate",
        A.group_by("k").tumbling(10).aggregate(total=sum_("v"), n=count(where="_start > 3")),
        """
        window_aggregate-1  tumbling(10) by k: total = sum(v), n = count() where _start > 3
          source-1  a
        """,
        """
        window_aggregate-1  tumbling(10) by k: total = sum(v), n = count() where _start > 3
          select-1  k, v
            source-1  a
        """,
    ),
    RuleCase(
        "prune_columns",
        "join",
        A.join(B, on="k", where="w > 0.5", select={"x": "x"}),
        """
        join-1  inner on k where w > 0.5: x
          source-1  a
          source-2  b
        """,
        """
        join-1  inner on k where w > 0.5: x
          select-1  k, w
            source-1  a
          select-2  k, x
            source-2  b
        """,
    ),
    RuleCase(
        "prune_columns",
        "semi",
        A.semi_join(B, on={"v": "x"}, where="l.k <> r.k"),
        """
        join-1  semi on v = x where l.k <> r.k
          source-1  a
          source-2  b
        """,
        """
        join-1  semi on v = x where l.k <> r.k
          source-1  a
          select-1  k, x
            source-2  b
        """,
    ),
    RuleCase(
        "prune_columns",
        "clip_by",
        A.clip_by(B, on="k"),
        """
        clip_by-1  on k
          source-1  a
          source-2  b
        """,
        """
        clip_by-1  on k
          source-1  a
          select-1  k
            source-2  b
        """,
    ),
    RuleCase(
        "prune_columns",
        "cut_by_itself",
        A.clip_by(A, on="k"),
        """
        clip_by-1  on k
          source-1  a
        """,
    ),
    RuleCase(
        "prune_columns",
        "nothing_to_prune",
        Stream(ClipBy(A.node, B.select("k").node, (col("k"),), (col("k"),))),
        """
        clip_by-1  on k
          source-1  a
          select-1  k
            source-2  b
        """,
    ),
]

SEVERAL = [
    RuleCase(
        "optimize",
        "one_duration_below_several_operators",
        A.points().select("k", at="_start").shift(3).set_duration(9),
        """
        set_duration-2  9
          shift-1  by 3
            select-1  k, at = _start
              set_duration-1  1
                source-1  a
        """,
        """
        shift-1  by 3
          select-1  k, at = _start
            set_duration-1  9
              source-1  a
        """,
    ),
    RuleCase(
        "optimize",
        "a_filter_of_an_outer_join",
        A.left_join(B, on="k", select={"v": "l.v", "x": "r.x"}).where("v > 1"),
        """
        where-1  v > 1
          join-1  left on k: v = l.v, x = r.x
            source-1  a
            source-2  b
        """,
        """
        join-1  left on k: v = l.v, x = r.x
          select-1  k, v
            where-1  v > 1
              source-1  a
          select-2  k, x
            source-2  b
        """,
    ),
    RuleCase(
        "optimize",
        "groups_become_keys",
        A.group_apply("k", lambda g: g.tumbling(10).aggregate(n=count()).where("n > 1")).where(
            "k = 1"
        ),
        """
        where-2  k = 1
          group_apply-1  by k
            source-1  a
            where-1  n > 1
              window_aggregate-1  tumbling(10): n = count()
                group_input-1
        """,
        """
        select-2  k = _group1_k, n
          where-2  _group1_k = 1
            where-1  n > 1
              window_aggregate-1  tumbling(10) by _group1_k: n = count()
                select-1  _group1_k = k
                  source-1  a
        """,
    ),
    RuleCase(
        "optimize",
        "there_and_back",
        A.shift(5).shift(-5),
        """
        shift-2  by -5
          shift-1  by 5
            source-1  a
        """,
        """
        source-1  a
        """,
    ),
    RuleCase(
        "optimize",
        "some_column_is_needed",
        B.select("u", "x", "k").snapshot().aggregate(n=count()),
        """
        window_aggregate-1  snapshot: n = count()
          select-1  u, x, k
            source-1  b
        """,
        """
        window_aggregate-1  snapshot: n = count()
          select-1  x
            source-1  b
        """,
    ),
    RuleCase(
        "optimize",
        "all_the_way_down",
        A.join(B, on="k")
        .group_by("k")
        .hopping(10, 5)
        .aggregate(m=max_("x"))
        .where("k = 1")
        .shift(2)
        .shift(3),
        """
        shift-2  by 3
          shift-1  by 2
            where-1  k = 1
              window_aggregate-1  hopping(10 by 5) by k: m = max(x)
                join-1  inner on k: k = l.k, v = l.v, w = l.w, t = l.t, x = r.x, u = r.u
                  source-1  a
                  source-2  b
        """,
        """
        shift-1  by 5
          window_aggregate-1  hopping(10 by 5) by k: m = max(x)
            join-1  inner on k: k = l.k, x = r.x
              select-1  k
                where-1  k = 1
                  source-1  a
              select-2  k, x
                source-2  b
        """,
    ),
    RuleCase(
        "optimize",
        "two_filters_keep_their_order",
        A.select("k", "t").union(A.select("k", "t")).where("t <> 'b'").where("length(t) > 1"),
        """
        where-2  length(t) > 1
          where-1  t <> 'b'
            union-1
              select-1  k, t
                source-1  a
              select-2  k, t
                source-1  (above)
        """,
        """
        union-1
          select-1  k, t
            where-2  length(t) > 1
              where-1  t <> 'b'
                source-1  a
          select-2  k, t
            where-4  length(t) > 1
              where-3  t <> 'b'
                source-1  (above)
        """,
    ),
]

GROUPED = {
    "aggregate": A.group_apply("k", lambda g: g.snapshot().aggregate(s=sum_("v"))),
    "result": A.group_apply(
        {"x": "k", "y": "t"},
        lambda g: g.tumbling(5).aggregate(n=count()),
        select={"n": "n", "sum": "key_x + n"},
    ),
    "top_k": A.group_apply("k", lambda g: g.top_k(1, by="v")),
    "session": A.group_apply("t", lambda g: g.session_lifetime(4, max_duration=12).select("v")),
    "distinct": A.group_apply("k", lambda g: g.select("v").distinct().stitch()),
    "self_join": A.group_apply(
        "k", lambda g: g.shift(1).join(g, on="v", select={"one": "l.w", "two": "r.w"})
    ),
    "outer_join": A.group_apply(
        "k", lambda g: g.where("v > 1").left_join(g, on="v", select={"v": "l.v", "t": "r.t"})
    ),
    "full_join": A.group_apply(
        "k",
        lambda g: g.where("v > 1").full_join(g.shift(2), on="v", select={"v": "l.v", "u": "r.v"}),
    ),
    "anti_join": A.group_apply("k", lambda g: g.anti_join(g.where("v > 1"), on="t")),
    "edges": A.group_apply("k", lambda g: g.edges(on="v").clip_duration(9)),
    "union": A.group_apply("k", lambda g: g.union(g.shift(3)).select("v")),
    "another_stream": A.group_apply("k", lambda g: g.join(B, where="v = x", select={"u": "u"})),
    "nested": A.group_apply(
        "k",
        lambda g: (
            g.group_apply("t", lambda h: h.snapshot().aggregate(n=count()))
            .tumbling(10)
            .aggregate(m=max_("n"))
        ),
    ),
    "same_name": A.group_apply(
        {"v": "k"}, lambda g: g.tumbling(10).aggregate(v=sum_("v"), n=count())
    ),
}
"""Group-and-apply in many shapes, for the law of `ungroup`."""
