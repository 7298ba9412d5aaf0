"""A pytest plugin: `--failed-tests FILE` writes the id of each test that failed, one a line."""

from __future__ import annotations

from pathlib import Path

import pytest
from _pytest.terminal import TerminalReporter


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--failed-tests", type=Path, metavar="FILE")


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    file: Path | None = config.getoption("failed_tests")
    if file is not None and not hasattr(config, "workerinput"):
        stats = terminalreporter.stats
        reports = (*stats.get("error", ()), *stats.get("failed", ()))
        file.write_text("".join(f"{id_}\n" for id_ in dict.fromkeys(r.nodeid for r in reports)))
