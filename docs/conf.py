"""How the documentation is built: Sphinx, MyST, furo; warnings are errors."""

from __future__ import annotations

import re
from importlib.metadata import version as installed_version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "Thalweg"
author = "the Thalweg authors"
copyright = "the Thalweg authors"  # noqa: A001
release = installed_version("thalweg")
version = release

extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_enable_extensions = ["colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
nitpicky = False

html_theme = "furo"
html_title = "Thalweg"
html_show_sourcelink = False

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True


def _docstring(_app: Sphinx, _what: str, _name: str, _thing: object, _options: object, lines: list[str]) -> None:
    """Docstrings are plain text with `names` in backticks: the first paragraph is prose, the rest is shown as it was written."""
    text = "\n".join(lines).strip("\n")
    if not text.strip():
        return
    first, _, rest = text.partition("\n\n") if not text.lstrip().startswith(">>>") else ("", "", text)
    prose = re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``", re.sub(r"([*|\\_](?=\W|$))", r"\\\1", first))
    shown = [*prose.splitlines(), ""]
    if rest.strip():
        language = "pycon" if rest.lstrip().startswith(">>>") else "text"
        shown += [f".. code-block:: {language}", "", *(f"   {line}" for line in rest.splitlines()), ""]
    lines[:] = shown


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", _docstring)
