"""A pytest plugin: `--failed-tests FILE` writes the id of each test that failed, one a line.

The file is there whatever ends the session. Where pytest itself fails, the last lines of why are in
it, too: its own output has them in the midst of much else.

Under pytest-xdist, what tests say of a failure comes as UTF-8. A process whose text is none ended
there, its tests were lost, and the session could end well: such text is escaped.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import TypeAlias

import pytest
from _pytest._code.code import ExceptionRepr
from _pytest.terminal import TerminalReporter

LINES = 12
"""How many of the last lines are kept of what pytest says of a failure of its own."""


Data: TypeAlias = "dict[str, Data] | list[Data] | tuple[Data, ...] | str | float | bool | None"
"""What a report is sent as."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--failed-tests", type=Path, metavar="FILE")


def pytest_configure(config: pytest.Config) -> None:
    file: Path | None = config.getoption("failed_tests")
    if file is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Writer(config, file))


class _Writer:
    """Writes the file when the session ends; none of pytest-xdist's own processes has one."""

    def __init__(self, config: pytest.Config, file: Path) -> None:
        self._config = config
        self._file = file
        self._internal: list[str] = []

    def pytest_internalerror(self, excrepr: ExceptionRepr) -> None:
        lines = [line for line in str(excrepr).splitlines() if line.strip()]
        self._internal += [f"INTERNALERROR {line}" for line in lines[-LINES:]]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        assert isinstance(reporter, TerminalReporter)
        reports = (*reporter.stats.get("error", ()), *reporter.stats.get("failed", ()))
        ids = dict.fromkeys(report.nodeid for report in reports)
        self._file.write_text("".join(f"{line}\n" for line in (*ids, *self._internal)))


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Data, Data]:
    """Escape what is no UTF-8 in a report: lone surrogates of names and output of any bytes."""
    return escaped((yield))


def escaped(data: Data) -> Data:
    """Return data whose texts are UTF-8."""
    if isinstance(data, str):
        return data.encode(errors="backslashreplace").decode()
    if isinstance(data, dict):
        return {name: escaped(value) for name, value in data.items()}
    if isinstance(data, (list, tuple)):
        return type(data)(map(escaped, data))
    return data
