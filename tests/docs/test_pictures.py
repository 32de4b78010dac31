"""The pictures of the documentation are those that `docs/draw.py` draws."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_they_are_drawn_anew(tmp_path: Path) -> None:
    script = str(ROOT / "docs" / "draw.py")
    subprocess.run([sys.executable, script, str(tmp_path)], check=True, cwd=ROOT)
    drawn = sorted(path.name for path in tmp_path.iterdir())
    kept = sorted(path.name for path in (ROOT / "docs" / "pictures").glob("*.svg"))
    assert set(drawn) <= set(kept)
    for name in drawn:
        one, other = (folder / name for folder in (tmp_path, ROOT / "docs" / "pictures"))
        assert one.read_text() == other.read_text(), f"run python docs/draw.py: {name} has changed"
