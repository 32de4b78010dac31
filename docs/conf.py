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

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
myst_enable_extensions = ["colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
nitpicky = False

html_theme = "furo"
html_static_path = ["pictures"]
html_css_files = ["narrow.css"]
# what is copied is what would be typed: no prompts, no answers
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
html_title = "Thalweg"
html_show_sourcelink = False

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True


def _prose(paragraph: str) -> str:
    """Plain text as reStructuredText: `names` in backticks are literals, nothing else means
    anything."""
    parts = paragraph.split("`")
    for at, part in enumerate(parts):
        parts[at] = f"``{part}``\\ " if at % 2 else re.sub(r"([\\*|_<>])", r"\\\1", part)
    return "".join(parts)


def _is_prose(paragraph: str) -> bool:
    return paragraph.count("`") % 2 == 0 and not any(
        line.startswith((" ", ">>>", "|", "- ")) for line in paragraph.splitlines()
    )


def _docstring(
    _app: Sphinx, _what: str, _name: str, _thing: object, _options: object, lines: list[str]
) -> None:
    """Docstrings are plain text: paragraphs become prose; formulas, tables and examples are shown
    as they were written."""
    shown: list[str] = []
    for paragraph in filter(None, re.split(r"\n\s*\n", "\n".join(lines).strip("\n"))):
        body = paragraph.splitlines()
        if _is_prose(paragraph):
            shown += [*_prose(paragraph).splitlines(), ""]
        else:
            language = "pycon" if body[0].startswith(">>>") else "text"
            shown += [f".. code-block:: {language}", "", *(f"   {line}" for line in body), ""]
    lines[:] = shown


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", _docstring)
