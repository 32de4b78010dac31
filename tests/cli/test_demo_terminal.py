"""`thalweg demo` on a terminal: every byte there is one that the demo wrote, and a newcomer sees
answers come early, change, and become final, today."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.cli.terminal import Shown, on_terminal, plain
from thalweg.cli.demo_screen import day_text
from thalweg.model.time import time_us


def _of_today(text: str) -> bool:
    """Midnight may pass while the demo runs."""
    now = time_us(datetime.now(UTC))
    return day_text(now) in text or day_text(now - 86_400_000_000) in text


def _check(shown: Shown, transcript: Path) -> None:
    assert shown.code == 0, shown.text[-3000:]
    written = transcript.read_bytes().decode()
    assert shown.text.replace("\r\n", "\n") == written.replace("\r\n", "\n"), (
        "another program wrote to the terminal"
    )
    lines = plain(shown.text)
    text = "\n".join(lines)
    assert _of_today(text) and "1970" not in text and "1969" not in text
    for word in ("early: late packets may still come", "revised", "final", "taken back"):
        assert word in text
    assert "█" in text
    assert "\x1b[33m" in shown.text and "\x1b[32m" in shown.text, "early is yellow, final green"


def test_in_process(tmp_path: Path) -> None:
    kept = ("--transcript", str(tmp_path / "bytes"), "--picture", str(tmp_path / "screen.svg"))
    shown = on_terminal("demo", "--in-process", "--packets", "20000", *kept)
    _check(shown, tmp_path / "bytes")
    assert "Making 20,000 packets" in shown.text
    picture = (tmp_path / "screen.svg").read_text(encoding="utf-8")
    assert picture.startswith("<svg") and "10.0.0.64" in picture


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_on_spark(tmp_path: Path) -> None:
    shown = on_terminal("demo", "--packets", "20000", "--transcript", str(tmp_path / "bytes"))
    _check(shown, tmp_path / "bytes")
    text = "\n".join(plain(shown.text))
    steps = ("Making 20,000 packets", "Starting Spark", "Waiting for the first micro-batch")
    places = [text.index(step) for step in steps]
    assert places == sorted(places)
    assert "In-process, the final table is the same." in text
