"""A pytest plugin for tests that measure: the fixture `figure`, and `--figures`, which prints them.

No test asserts a speed, a time or a tight figure of memory: what a machine with other work gives is
not what a quiet one does. A test tells its figure beside what the documents promise, and asserts
that it is of that order of magnitude, or how it grows. `make bench` runs these tests alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest
from _pytest.terminal import TerminalReporter

Figure: TypeAlias = Callable[[str, float, str], None]
"""What was measured, the value with its unit in the name, and what is promised of it."""
MARKER = "figures"


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> Figure:
    """Tell a figure: to the table of `--figures`, and to the JUnit report."""

    def tell(what: str, value: float, promised: str) -> None:
        record_property(what, f"{value:.4g} (promised: {promised})")

    return tell


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--figures", action="store_true", help="print what tests have measured")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that tell a figure, before those with a marker are chosen."""
    for item in items:
        if figure.__name__ in getattr(item, "fixturenames", ()):
            item.add_marker(MARKER)


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    if not config.getoption("figures"):
        return
    stats = terminalreporter.stats
    reports = (*stats.get("passed", ()), *stats.get("failed", ()))
    rows = [(what, str(value)) for report in reports for what, value in report.user_properties]
    width = max((len(what) for what, _ in rows), default=0)
    terminalreporter.section("figures")
    for what, value in rows:
        terminalreporter.write_line(f"{what:<{width}}  {value}")
