"""How tests are spread over workers: with `--dist loadgroup`, files that say `xdist_group("spark")`
share one, so that one JVM is started.

pytest-xdist reads the marks itself, but writes the group into a name that pytest 9.2 no longer
looks at.
"""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says something about the machine, nothing about the code.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")

GROUP = 'xdist_group("spark")'


def pytest_collection_finish() -> None:
    """Modules and collected tests live until the end: the garbage collector need not go through
    their half a million objects again, nor start after every few hundred new ones."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

    if config.getvalue("dist") != "loadgroup":
        return None
    needs_spark: dict[str, bool] = {}

    class OneJvm(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            if file not in needs_spark:
                needs_spark[file] = GROUP in Path(config.rootpath / file).read_text(
                    encoding="utf-8"
                )
            return "spark" if needs_spark[file] else nodeid

    return OneJvm(config, log)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tests that failed in the first run and pass in the second are named: they are flaky."""
    if os.environ.get("THALWEG_SECOND_TRY"):
        for report in terminalreporter.stats.get("passed", ()):
            terminalreporter.write_line(
                f"FLAKY {report.nodeid}: failed in the first run, passed when it was run by itself"
            )
