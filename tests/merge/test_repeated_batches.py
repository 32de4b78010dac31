"""Inputs that send the same rows in the same order: what is found by comparing batches is what
looking for each row by its digest finds. Rows that start after all others are new without
looking."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.repro import merge_streams
from thalweg.model import elements_of
from thalweg.model.batch import Batch
from thalweg.model.digests import Digests
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.rows import Codes
from thalweg.model.time import INFINITY
from thalweg.operators.merging.chains import distinct_digests
from thalweg.operators.merging.identity import Identity
from thalweg.operators.merging.kernel import MergeKernel
from thalweg.operators.merging.keyed import KeyedLevel
from thalweg.operators.merging.level import MergeContext, MergeInput
from thalweg.operators.merging.payloads import Payloads
from thalweg.operators.merging.sent_starts import SentStarts
from thalweg.operators.merging.slot_ranges import Slots, listed
from thalweg.operators.merging.top_tier import TopTier
from thalweg.plan.merging import MergePolicy

SCHEMA = pa.schema([("k", pa.int64()), ("text", pa.string())])
INPUTS = ("a", "b", "c")


class Compared(KeyedLevel):
    """Counts the batches that were found by comparing."""

    found = 0

    def _repeated(
        self, member: MergeInput, batch: Batch, positions: Slots | None, context: MergeContext
    ) -> Slots | None:
        slots = super()._repeated(member, batch, positions, context)
        self.found += slots is not None
        return slots


class Searched(KeyedLevel):
    """Looks for every row."""

    def _repeated(
        self, member: MergeInput, batch: Batch, positions: Slots | None, context: MergeContext
    ) -> Slots | None:
        return None


class Digested(Searched):
    """Makes the digest of every row when it comes."""

    def _after_all(self, batch: Batch, context: MergeContext) -> bool:
        return False


def merge(level: type[KeyedLevel], policy: MergePolicy, groups: tuple[str, ...]) -> MergeKernel:
    kernel = MergeKernel(SCHEMA, policy=policy, groups=groups)
    kernel.level = level(SCHEMA, kernel.identity)
    for name in INPUTS:
        kernel.attach(name)
    return kernel


def stream(random: np.random.Generator, count: int, *, disorder: float = 1.0) -> Batch:
    """Inserts of which some are empty, some moved later; a promise is made with each cut."""
    start = np.sort(random.integers(0, 3 * count, count))
    if disorder < 1:
        start = np.cumsum(random.integers(1, 5, count))
    start += np.where(random.random(count) < disorder, random.integers(0, 9, count), 0)
    end = start + random.integers(0, 40, count)
    texts = [None if n % 11 == 0 else f"text {n}" for n in range(count)]
    payload = pa.RecordBatch.from_arrays(
        [pa.array(np.arange(count)), pa.array(texts)], schema=SCHEMA
    )
    inserted = Batch(payload, start, end)
    moved = random.random(count) < 0.1
    moved &= end > start
    adjusts = Batch(payload, start, end, end + 5, np.ones(count, np.bool_)).filter(moved)
    at = np.concatenate([np.arange(count), np.flatnonzero(moved) + random.integers(1, 30)])
    both = Batch.concat([inserted, adjusts], SCHEMA)
    return both.take(np.argsort(at, kind="stable"))


def cut(whole: Batch, sizes: Codes) -> list[Batch]:
    """The stream in batches, each with the strongest promise that the rest allows."""
    later = np.append(np.minimum.accumulate(whole.sync[::-1])[::-1], INFINITY)
    batches, at = [], 0
    for size in sizes.tolist():
        end = min(at + size, len(whole))
        part = whole.take(np.arange(at, end))
        promised = Progress(int(later[end])) if end % 3 else NO_PROGRESS
        batches.append(part.with_progress(promised if end < len(whole) else Progress(INFINITY)))
        at = end
        if at == len(whole):
            return batches
    raise AssertionError("not enough sizes")


@pytest.mark.parametrize("groups", [(), ("k",)])
@pytest.mark.parametrize("policy", [MergePolicy(), MergePolicy("leader", "every", "keep")])
@pytest.mark.parametrize("seed", range(6))
def test_comparing_finds_what_looking_finds(
    seed: int, policy: MergePolicy, groups: tuple[str, ...]
) -> None:
    random = np.random.default_rng(seed)
    whole = stream(random, 1_600)
    sizes = [random.integers(1, 1_500 if seed % 2 else 40, 1_600) for _ in INPUTS]
    if seed % 3 == 0:  # equal cuts, as replicas in step have them
        sizes = [sizes[0]] * len(INPUTS)
    waiting = {name: cut(whole, own) for name, own in zip(INPUTS, sizes, strict=True)}
    merges = [merge(Compared, policy, groups), merge(Searched, policy, groups)]
    while any(waiting.values()):
        name = INPUTS[int(random.integers(3))]
        batches, waiting[name] = waiting[name][:1], waiting[name][1:]
        for batch in batches:
            one, two = (list(elements_of([each.push(name, batch)])) for each in merges)
            assert one == two
    assert merges[0].figures.left_out == merges[1].figures.left_out


@pytest.mark.parametrize("groups", [(), ("k",)])
@pytest.mark.parametrize("policy", [MergePolicy(), MergePolicy("leader", "every", "keep")])
@pytest.mark.parametrize("seed", range(6))
def test_digests_may_be_made_later(seed: int, policy: MergePolicy, groups: tuple[str, ...]) -> None:
    """Over restarts too; by reference every row is looked for when it comes."""
    random = np.random.default_rng(seed)
    whole = stream(random, 1_200, disorder=(0.0, 0.002, 0.05)[seed % 3])
    sizes = [random.integers(1, 200 if seed % 2 else 20, 1_200) for _ in INPUTS]
    waiting = {name: cut(whole, own) for name, own in zip(INPUTS, sizes, strict=True)}
    levels = (Compared, Searched, Digested)
    merges = [merge(level, policy, groups) for level in levels]
    while any(waiting.values()):
        name = INPUTS[int(random.integers(3))]
        batches, waiting[name] = waiting[name][:1], waiting[name][1:]
        for batch in batches:
            one, two, three = (list(elements_of([each.push(name, batch)])) for each in merges)
            assert two == three
            assert sorted(map(repr, one)) == sorted(map(repr, two))  # restarts renumber slots
        if random.random() < 0.02:
            saved = merges[0].snapshot()
            merges[0] = merge(Compared, policy, groups)
            merges[0].restore(saved)
    assert merges[0].figures.left_out == merges[1].figures.left_out == merges[2].figures.left_out


def test_no_digests_are_made_of_rows_in_order_from_inputs_in_step() -> None:
    start = np.arange(6_000)
    texts = [f"text {n}" for n in range(len(start))]
    payload = pa.RecordBatch.from_arrays([pa.array(start), pa.array(texts)], schema=SCHEMA)
    batches = cut(Batch(payload, start, start + 1_500), np.full(6, 1_000))
    kernel = merge(Compared, MergePolicy(), ())
    for batch in batches[:-1]:
        for name in INPUTS:
            kernel.push(name, batch)
    level = kernel.level
    assert isinstance(level, Compared)
    assert len(level.top) >= 1_500
    assert not len(level.top.table.used())
    late = Batch(payload, start, start + 1_500).take(np.array([4_998, 4_990]))
    assert (level.top.find(level.identity.of_rows(late, level.top)) >= 0).all()
    assert len(level.top.table.used()) == len(level.top)


def test_batches_of_inputs_in_step_are_found_by_comparing() -> None:
    random = np.random.default_rng(1)
    start = np.arange(4_000)
    texts = [f"text {n}" for n in range(len(start))]
    payload = pa.RecordBatch.from_arrays([pa.array(start), pa.array(texts)], schema=SCHEMA)
    whole = Batch(payload, start, start + 500)
    kernel = merge(Compared, MergePolicy(), ())
    waiting = {name: cut(whole, random.integers(20, 60, 4_000)) for name in INPUTS}
    longest = max(map(len, waiting.values()))
    for turn in range(longest):
        for name in INPUTS:
            for batch in waiting[name][turn : turn + 1]:
                kernel.push(name, batch)
    level = kernel.level
    assert isinstance(level, Compared)
    assert level.found > longest / 2


@pytest.mark.parametrize("seed", range(8))
def test_distinct_digests_among_many(seed: int) -> None:
    random = np.random.default_rng(seed)
    low = random.integers(0, 2**63, 3_000).astype(np.uint64)
    high = random.integers(0, 2**63, 3_000).astype(np.uint64)
    for _ in range(seed):  # so many are there twice, or share one of their words
        one, two = random.integers(0, 3_000, 2)
        low[two] = low[one]
        high[two] = high[one] if random.random() < 0.7 else high[two]
    first, codes = distinct_digests(Digests(high, low))
    seen: dict[tuple[int, int], int] = {}
    pairs = list(zip(high.tolist(), low.tolist(), strict=True))
    expected = [seen.setdefault(pair, len(seen)) for pair in pairs]
    assert codes.tolist() == expected
    assert first.tolist() == [expected.index(code) for code in range(len(seen))]


@pytest.mark.parametrize("seed", range(20))
def test_rows_that_never_went_out_are_counted(seed: int) -> None:
    """By definition: an input has more rows at a start than have gone out or were counted
    before."""
    random = np.random.default_rng(seed)
    sent = SentStarts()
    for column in range(3):
        sent.attach(column)
    table: dict[int, int] = {}
    had: list[dict[int, int]] = [{}, {}, {}]
    nexts = [0, 0, 0]
    for _ in range(60):
        column = int(random.integers(3))
        size = int(random.integers(1, 8))
        steps = random.integers(0, 2, size) if seed % 2 else np.ones(size, np.int64)
        starts = nexts[column] + np.cumsum(steps)
        if seed % 4 == 3:
            starts = np.unique(starts)
        nexts[column] = int(starts[-1])
        highest = max(table, default=-1)
        fresh = starts[starts > highest]
        if random.random() < 0.8:
            sent.note(fresh)
            for start in fresh.tolist():
                table[start] = table.get(start, 0) + 1
        expected = 0
        for start in starts.tolist():
            had[column][start] = had[column].get(start, 0) + 1
            if had[column][start] > table.get(start, 0):
                table[start] = had[column][start]
                expected += 1
        assert sent.left_out(column, starts) == expected


@pytest.mark.parametrize("lag", [4, 5, 6])
def test_rows_at_the_edge_of_what_is_held_are_compared(
    monkeypatch: pytest.MonkeyPatch, lag: int
) -> None:
    """An input so far behind that some rows of its batches are settled and gone: the others are
    found where they lie, between the places of those."""
    asked: list[Batch] = []
    digests = Identity.of_rows

    def counted(self: Identity, batch: Batch, top: TopTier) -> Digests:
        asked.append(batch)
        return digests(self, batch, top)

    monkeypatch.setattr(Identity, "of_rows", counted)
    streams = merge_streams.forms(6_000, 2, bytes_=8, disorder=0.2, live=500)
    merge = merge_streams.make_merge("R3+", merge_streams.SCHEMA, 2)
    run = merge_streams.play(merge, streams, lag=lag)
    assert run.elements_out == 6_000 and not run.adjusts
    assert len(asked) <= 62  # those of the first input


def test_what_is_left_of_rows_lies_in_order() -> None:
    payloads = Payloads(pa.schema([("v", pa.int64())]))
    rows = pa.RecordBatch.from_pydict({"v": list(range(10))})
    payloads.add(np.arange(10), rows)
    payloads.remove(np.array([0, 1, 4, 6]))
    left = rows.take(pa.array([2, 3, 5, 7, 8, 9]))
    assert payloads.first(3).tolist() == [2, 3, 5]
    assert _tolist(payloads.lying_at(2, left)) == [2, 3, 5, 7, 8, 9]
    assert _tolist(payloads.lying_at(3, left.slice(1, 3))) == [3, 5, 7]
    assert payloads.lying_at(2, rows.slice(2, 4)) is None  # 4 is gone
    assert payloads.lying_at(0, left) is None


def test_rows_at_positions_are_compared_where_they_lie() -> None:
    payloads = Payloads(pa.schema([("v", pa.int64())]))
    rows = pa.RecordBatch.from_pydict({"v": list(range(10))})
    payloads.add(np.arange(10), rows)
    payloads.remove(np.array([0, 1, 4, 6]))
    living = np.array([2, 3, 5, 7, 8, 9])
    assert _tolist(payloads.lying_at(2, rows, living)) == living.tolist()  # the same gaps
    assert _tolist(payloads.lying_at(3, rows, living[1:4])) == [3, 5, 7]
    others = pa.RecordBatch.from_pydict({"v": [-1, 2, 3, -1, -1, 5, 7]})  # other gaps
    assert _tolist(payloads.lying_at(2, others, np.array([1, 2, 5, 6]))) == [2, 3, 5, 7]
    assert payloads.lying_at(2, others, np.array([1, 2, 4, 6])) is None
    changed = pa.RecordBatch.from_pydict({"v": [0, 1, 2, 3, -4, 5, -6, 7, 8, 9]})
    assert _tolist(payloads.lying_at(2, changed, living)) == living.tolist()  # 4 and 6 are gone
    payloads.add(np.arange(10, 12), pa.RecordBatch.from_pydict({"v": [10, 11]}))
    more = pa.RecordBatch.from_pydict({"v": [8, -1, 9, 10, -1, 11]})
    assert _tolist(payloads.lying_at(8, more, np.array([0, 2, 3, 5]))) == [8, 9, 10, 11]


def test_the_place_of_a_row_that_is_gone_leads_to_what_is_left() -> None:
    """Of rows that lie in a chunk the first ones go, then one from between, then all."""
    payloads = Payloads(pa.schema([("v", pa.int64())]))
    payloads.add(np.arange(100, 200), pa.RecordBatch.from_pydict({"v": list(range(100))}))
    payloads.remove(slice(100, 110))
    rows = pa.RecordBatch.from_pydict({"v": list(range(10, 30))})
    assert [payloads.left_from(slot) for slot in (104, 110, 150)] == [110, 110, 150]
    assert payloads.lying_at(110, rows) == slice(110, 130)
    payloads.remove(np.array([140]))
    assert payloads.left_from(140) == -1  # rows before it are there
    assert payloads.lying_at(110, rows) is not None
    payloads.remove(np.array([*range(110, 140), *range(141, 200)]))
    assert payloads.left_from(104) == -1


def test_what_went_out_does_not_change_when_slots_are_handed_out_again() -> None:
    streams = merge_streams.forms(3_000, 2, bytes_=8, stable=0.01, live=200)
    merge = merge_streams.make_merge("R3+", merge_streams.SCHEMA, 2)
    out = [merge.process(port, one[turn]) for turn in range(30) for port, one in enumerate(streams)]
    rows = [row for batch in out for row in elements_of([batch.with_progress(NO_PROGRESS)])]
    sent = [row for batch in streams[0] for row in elements_of([batch.with_progress(NO_PROGRESS)])]
    assert rows == sent


def _tolist(slots: Slots | None) -> list[int] | None:
    return None if slots is None else listed(slots).tolist()
