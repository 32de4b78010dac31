"""The list of functions in the documentation is the one that the parser reads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_is_made_from_the_tables() -> None:
    """In a process of its own: tests may have registered aggregates in this one."""
    command = [sys.executable, "-m", "thalweg.sql.reference"]
    made = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    written = (DOCS / "functions.md").read_text(encoding="utf-8")
    assert written == made, "run python -m thalweg.sql.reference > docs/functions.md"
