"""The project around the code: every documented example runs, and what the documents list is what
there is."""

from __future__ import annotations

import doctest
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import thalweg

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
ON_SPARK = ("spark.md", "howto-own-session.md")
FENCE = re.compile(
    r"^(?P<indent>[ ]*)```(?P<info>[^\n]*)\n(?P<body>.*?)^(?P=indent)```[ ]*$",
    re.MULTILINE | re.DOTALL,
)


def _python_blocks(page: Path) -> list[tuple[int, str]]:
    """Line number and text of each fenced Python block."""
    text = page.read_text(encoding="utf-8")
    fences = (
        found for found in FENCE.finditer(text) if found["info"].strip() in {"python", "pycon"}
    )
    return [(text.count("\n", 0, found.start()) + 1, found["body"]) for found in fences]


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(p, marks=pytest.mark.xdist_group("spark") if p.name in ON_SPARK else ())
        for p in PAGES
        if _python_blocks(p)
    ],
    ids=lambda page: page.name,
)
def test_examples_of_a_page_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The blocks of a page are one session, from top to bottom. A block with prompts shows its
    output; one without just runs."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    parser = doctest.DocTestParser()
    failures: list[str] = []
    runner = doctest.DocTestRunner(
        verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    )
    for line, block in _python_blocks(page):
        if ">>>" not in block:
            exec(compile("\n" * line + block, str(page), "exec"), names)  # noqa: S102
            continue
        case = parser.get_doctest(block, names, f"{page.name}:{line}", str(page), line)
        case.globs = (
            names  # one dictionary for all, so that a function sees what later blocks rebind
        )
        runner.run(case, out=failures.append, clear_globs=False)
    assert not failures, "".join(failures)


def test_pages_have_examples() -> None:
    shown = {page.name for page in PAGES if _python_blocks(page)}
    assert {"README.md", "getting-started.md", "concepts.md", "testing.md"} <= shown


def test_every_public_name_is_on_the_api_page() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    missing = [
        name
        for name in getattr(thalweg, "__all__", ())
        if not re.search(rf"\b{re.escape(name)}\b", page)
    ]
    assert not missing, f"docs/api.md does not mention {missing}"


def test_every_operator_is_on_the_operators_page() -> None:
    from thalweg.plan import nodes

    page = (ROOT / "docs" / "operators.md").read_text(encoding="utf-8")
    kinds = [getattr(nodes, name) for name in nodes.__all__]
    named = [
        kind.__name__
        for kind in kinds
        if isinstance(kind, type) and issubclass(kind, nodes.Node) and kind is not nodes.Node
    ]
    missing = [name for name in named if f"`{name}`" not in page]
    assert not missing, f"docs/operators.md does not mention {missing}"


def _tracked() -> list[Path]:
    """Every file that is, or could be, under version control."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    command = [git, "ls-files", "-co", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def test_no_file_names_a_place_on_somebodys_machine() -> None:
    places = re.compile(
        rb"(?<![\w.])/(?:home|root|Users|work|tmp|mnt|opt|private)/[\w.-]+|[A-Z]:\\Users"
    )
    found = []
    for file in _tracked():
        if (
            file.suffix in {".lock", ".png", ".parquet", ".arrow", ".gz"}
            or file == Path(__file__).resolve()
        ):
            continue
        found += [
            f"{file.relative_to(ROOT)}: {match.decode()}"
            for match in places.findall(file.read_bytes())
        ]
    assert not found, found


def test_make_help_lists_every_target() -> None:
    make = shutil.which("make")
    if make is None:
        pytest.skip("make is not here")
    shown = subprocess.run(
        [make, "-s", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    targets = re.findall(
        r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
    )[0].split()
    lines = dict(re.findall(r"^ *make (\w+) +(\S.*)$", shown, re.MULTILINE))
    assert sorted(lines) == sorted(targets)
    assert {
        "help",
        "setup",
        "demo",
        "test",
        "lint",
        "type",
        "docs",
        "bench",
        "fix",
        "clean",
    } <= set(lines)


def test_the_licence_is_whole() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text.splitlines()[1]
    assert "END OF TERMS AND CONDITIONS" in text
    assert "9. Accepting Warranty or Additional Liability" in text
