"""State as slices in a store: what is written, what is read, what a worker may remember, what is
refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.errors import StateError
from thalweg.model.rows import Rows
from thalweg.operators.consistency import Consistency
from thalweg.shards.fragments.cutting import fragments_of
from thalweg.shards.state.signatures import carried_over
from thalweg.shards.state.slices import Memory, SliceStore
from thalweg.shards.state.store import DictStore, read_json, write_json
from thalweg.shards.worker.fragment_runner import FragmentRunner

PLAN = {"where-1": "stateless where", "top_k-1": "top_k by v"}


class Noting(DictStore):
    """A store that notes who was read, written and removed."""

    def __init__(self, entries: dict[str, bytes]) -> None:
        super().__init__(entries)
        self.forget()

    def forget(self) -> None:
        self.read: list[str] = []
        self.written: list[str] = []
        self.removed: list[str] = []

    def get(self, name: str) -> bytes | None:
        self.read.append(name)
        return super().get(name)

    def put(self, name: str, value: bytes) -> None:
        self.written.append(name)
        super().put(name, value)

    def remove(self, name: str) -> None:
        self.removed.append(name)
        super().remove(name)


def rows(*values: int) -> Rows:
    return pa.RecordBatch.from_pydict({"v": pa.array(values, pa.int64())})


def values(slices: dict[str, Rows] | None) -> dict[str, list[int]]:
    assert slices is not None
    return {name: held.column("v").to_pylist() for name, held in slices.items()}


@pytest.fixture
def store() -> Noting:
    return Noting({})


def worker(store: DictStore, memory: Memory | None = None) -> SliceStore:
    return SliceStore(store, Memory() if memory is None else memory, "fragment 0, bucket 3")


FIRST = {"top_k-1|rows": rows(1, 2), "top_k-1|progress": rows(7), "progress": rows(5)}


def saved(store: DictStore, slices: dict[str, Rows] = FIRST) -> Memory:
    memory = Memory()
    mine = worker(store, memory)
    mine.load(PLAN)
    mine.save(slices, PLAN)
    return memory


# ------------------------------------------------------------------------------------------------
# writing and reading


def test_there_is_no_state_before_the_first_batch(store: Noting) -> None:
    mine = worker(store)
    assert mine.load(PLAN) is None
    assert not mine.is_current()


def test_another_worker_reads_what_was_written(store: Noting) -> None:
    saved(store)
    assert values(worker(store).load(PLAN)) == values(FIRST)


def test_only_touched_slices_are_written(store: Noting) -> None:
    mine = worker(store, saved(store))
    store.forget()
    mine.save({**FIRST, "top_k-1|rows": rows(1, 2, 3)}, PLAN)
    assert sorted(store.written) == ["directory", "top_k-1|rows"]
    assert mine.written == len(store.entries["top_k-1|rows"])


def test_a_slice_that_was_made_anew_with_the_same_rows_is_not_written(store: Noting) -> None:
    mine = worker(store, saved(store))
    store.forget()
    mine.save({name: rows(*held.column("v").to_pylist()) for name, held in FIRST.items()}, PLAN)
    assert store.written == ["directory"] and mine.written == 0


def test_slices_that_are_gone_are_removed(store: Noting) -> None:
    mine = worker(store, saved(store))
    store.forget()
    kept = {name: held for name, held in FIRST.items() if name != "top_k-1|rows"}
    mine.save(kept, PLAN)
    assert store.removed == ["top_k-1|rows"]
    assert values(worker(store).load(PLAN)) == values(kept)


def test_in_the_common_case_only_the_directory_is_read(store: Noting) -> None:
    memory = saved(store)
    store.forget()
    mine = worker(store, memory)
    assert mine.is_current() and values(mine.load(PLAN)) == values(FIRST)
    assert set(store.read) == {"directory"} and mine.read == 0


# ------------------------------------------------------------------------------------------------
# memory


def test_a_worker_that_fell_behind_reads_what_changed(store: Noting) -> None:
    old = saved(store)
    other = worker(store)
    slices = other.load(PLAN)
    assert slices is not None
    other.save({**slices, "top_k-1|rows": rows(9), "top_k-1|new": rows(4)}, PLAN)
    store.forget()
    mine = worker(store, old)
    assert not mine.is_current()
    assert values(mine.load(PLAN)) == {**values(FIRST), "top_k-1|rows": [9], "top_k-1|new": [4]}
    assert sorted(set(store.read)) == ["directory", "top_k-1|new", "top_k-1|rows"]
    assert mine.is_current()


def test_a_slice_that_another_worker_removed_is_forgotten(store: Noting) -> None:
    old = saved(store)
    other = worker(store)
    slices = other.load(PLAN)
    assert slices is not None
    other.save({"progress": slices["progress"]}, PLAN)
    assert values(worker(store, old).load(PLAN)) == {"progress": [5]}


def test_nothing_of_a_failed_attempt_is_used(store: Noting) -> None:
    memory = saved(store)
    before = dict(store.entries)
    worker(store, memory).save({**FIRST, "top_k-1|rows": rows(66), "top_k-1|more": rows(67)}, PLAN)
    store.entries.clear()
    store.entries.update(before)  # the attempt failed after all: Spark's store is what it was
    mine = worker(store, memory)
    assert not mine.is_current()
    assert values(mine.load(PLAN)) == values(FIRST)


def test_a_failed_attempt_and_the_one_that_succeeded_are_told_apart(store: Noting) -> None:
    memory = saved(store)
    before = dict(store.entries)
    worker(store, memory).save({**FIRST, "top_k-1|rows": rows(66)}, PLAN)
    store.entries.clear()
    store.entries.update(before)
    other = worker(store)
    slices = other.load(PLAN)
    assert slices is not None
    other.save({**slices, "top_k-1|rows": rows(67)}, PLAN)
    assert values(worker(store, memory).load(PLAN))["top_k-1|rows"] == [67]


def test_a_store_that_was_emptied_empties_the_memory(store: Noting) -> None:
    memory = saved(store)
    store.entries.clear()
    mine = worker(store, memory)
    assert mine.load(PLAN) is None and not memory.rows
    mine.save(FIRST, PLAN)
    assert values(worker(store).load(PLAN)) == values(FIRST)


# ------------------------------------------------------------------------------------------------
# damage


def test_a_missing_slice_is_refused(store: Noting) -> None:
    saved(store)
    del store.entries["top_k-1|rows"]
    with pytest.raises(StateError, match=r"bucket 3: the state lacks the slice 'top_k-1\|rows'"):
        worker(store).load(PLAN)


def test_a_damaged_slice_is_refused(store: Noting) -> None:
    saved(store)
    blob = store.entries["top_k-1|rows"]
    for at in range(len(blob)):
        store.entries["top_k-1|rows"] = blob[:at] + bytes([blob[at] ^ 1]) + blob[at + 1 :]
        with pytest.raises(StateError, match="damaged"):
            worker(store).load(PLAN)


def test_a_damaged_directory_is_refused(store: Noting) -> None:
    saved(store)
    blob = store.entries["directory"]
    for at in range(len(blob)):
        for bit in (1, 16, 32, 128):
            store.entries["directory"] = blob[:at] + bytes([blob[at] ^ bit]) + blob[at + 1 :]
            with pytest.raises(StateError, match="the directory of the state is damaged"):
                worker(store).load(PLAN)


# ------------------------------------------------------------------------------------------------
# changed queries


def test_an_unchanged_plan_carries_everything_over() -> None:
    assert carried_over(PLAN, PLAN, {"top_k-1|rows": 0}) == set()


def test_operators_without_state_may_come_go_and_change() -> None:
    slices = {"top_k-1|rows": 0}
    assert carried_over(PLAN, {"top_k-1": "top_k by v"}, slices) == {"where-1"}
    assert carried_over(PLAN, {**PLAN, "where-1": "stateless where otherwise"}, slices) == set()
    assert carried_over(PLAN, {**PLAN, "select-1": "stateless select"}, slices) == set()


def test_an_operator_with_state_may_go() -> None:
    assert carried_over(PLAN, {"where-1": "stateless where"}, {"top_k-1|rows": 0}) == {"top_k-1"}


def test_an_operator_with_state_may_not_change() -> None:
    with pytest.raises(
        StateError, match="top_k-1 was 'top_k by v' and is now 'top_k by w': its state does not fit"
    ):
        carried_over(PLAN, {**PLAN, "top_k-1": "top_k by w"}, {"top_k-1|rows": 0})


def test_an_operator_that_needs_what_came_before_may_not_be_added() -> None:
    with pytest.raises(StateError, match="join-1 is new in this query"):
        carried_over(PLAN, {**PLAN, "join-1": "join on k"}, {"top_k-1|rows": 0})


def test_the_state_of_an_operator_that_is_gone_is_neither_loaded_nor_kept(store: Noting) -> None:
    saved(store)
    shorter = {"where-1": "stateless where"}
    mine = worker(store)
    slices = mine.load(shorter)
    assert slices is not None and values(slices) == {"progress": [5]}
    mine.save(slices, shorter)
    assert sorted(store.entries) == ["directory", "progress"]


def test_operators_of_a_fragment_say_what_their_state_fits() -> None:
    def signatures(query: tw.Stream) -> dict[str, str]:
        return FragmentRunner(
            fragments_of(query.node).fragments[0], Consistency(), parts={}
        ).signatures

    s = tw.source("s", {"k": "string", "v": "int64"})
    base = signatures(s.shift(1).where("v > 1").group_by("k").snapshot().aggregate(n=tw.count()))
    assert {
        name.partition("-")[0] for name, text in base.items() if text.startswith("stateless ")
    } == {"shift", "where", "select"}
    other = signatures(s.shift(1).where("v > 2").group_by("k").snapshot().aggregate(n=tw.count()))
    assert (
        carried_over(
            base,
            other,
            {f"{name}|x": 0 for name, text in base.items() if not text.startswith("stateless ")},
        )
        == set()
    )
    wider = signatures(s.shift(1).where("v > 1").group_by("k").snapshot().aggregate(n=tw.sum_("v")))
    assert base["window_aggregate-1"] != wider["window_aggregate-1"]


def test_a_checkpoint_of_an_older_version_is_refused_with_what_to_do(store: Noting) -> None:
    SliceStore(store, Memory(), "bucket 1").save({"top_k-1|rows": rows(1)}, PLAN)
    older = read_json(store, "directory", "the directory")
    assert older is not None
    del older["format"]
    write_json(store, "directory", older)
    with pytest.raises(
        StateError, match=r"written by another version \(state format 1; .* new checkpoint"
    ):
        SliceStore(store, Memory(), "bucket 1").load(PLAN)
