"""When a cutover switches: the answers of the query in front and its replacement move on."""

from __future__ import annotations

from importlib import import_module
from typing import Any, cast

import pytest

cutover_command: Any = import_module("thalweg.cli.cutover")


def test_a_switch_waits_until_new_is_level_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, status = [0.0], {"cti": 10, "candidate": {"inputs": {"new-0": {"cti": 0}}}}

    class Folder:
        def status(self) -> dict[str, Any]:
            return status

    def at(answer: int, new: int, now: float) -> bool:
        status.update({"cti": answer, "candidate": {"inputs": {"new-0": {"cti": new}}}})
        clock[0] = now
        return replacement._caught_up(joined=False) is not None

    monkeypatch.setattr(cutover_command.time, "monotonic", lambda: clock[0])
    replacement = cutover_command._Replacement(
        cast(Any, Folder()), cast(Any, None), ["old-0"], ["new-0"], [0]
    )
    assert not at(10, 5, 0.0), "behind"
    assert at(10, 10, 0.1), "level"
    assert not at(20, 10, 1.0), "one behind"
    assert not at(30, 10, 2.0), "two behind: the wait begins anew"
    assert not at(30, 20, 3.0) and not at(40, 30, 7.9)
    assert at(40, 30, 8.0), "one behind for five seconds"
