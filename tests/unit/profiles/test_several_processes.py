"""Logs into which several processes have written."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from controller.cli.profile import app
from controller.contracts.errors import UserError
from controller.profiles.importing import import_file
from tests.support.planted_step import REORDER

HEADER = (
    "onednn_verbose,v1,info,oneDNN v3.12.0 (commit N/A)\n"
    "onednn_verbose,v1,info,cpu,runtime:OpenMP,nthr:{}\n"
    "onednn_verbose,v1,info,cpu,isa:Intel {}\n"
)
EXECUTION = f"onednn_verbose,v1,primitive,exec,{REORDER},1.5\n"
PROCESSES = (
    "the log has oneDNN's first lines 2 times: it is of several processes, or of several copies of "
    "oneDNN in one, and their executions are added up"
)
OTHER_SETS = "the instruction set is not known: Intel AVX2 or Intel AVX-512"


@pytest.mark.parametrize(
    ("second", "threads", "isa", "note"),
    [
        ((8, "AVX2"), 8, "Intel AVX2", PROCESSES),
        ((1, "AVX2"), None, "Intel AVX2", f"{PROCESSES}; threads are not known: 8 or 1"),
        (
            (1, "AVX-512"),
            None,
            None,
            f"{PROCESSES}; threads are not known: 8 or 1; {OTHER_SETS}",
        ),
    ],
)
def test_a_log_of_several_processes_is_told(
    tmp_path: Path, second: tuple[int, str], threads: int | None, isa: str | None, note: str
) -> None:
    headers = HEADER.format(8, "AVX2"), HEADER.format(*second)
    path = tmp_path / "two.log"
    path.write_text(headers[0] + 2 * EXECUTION + headers[1] + EXECUTION)
    summary = import_file(path).summary
    assert summary.origin
    assert (summary.origin.threads, summary.isa) == (threads, isa)
    assert summary.origin.environment.get("onednn_isa") == isa
    assert summary.notes == (note,)


@pytest.mark.parametrize("second", [(1, "AVX2"), (8, "AVX-512")])
def test_a_log_of_processes_that_differ_is_not_projected(
    tmp_path: Path, second: tuple[int, str]
) -> None:
    path = tmp_path / "two.log"
    path.write_text(HEADER.format(8, "AVX2") + EXECUTION + HEADER.format(*second) + EXECUTION)
    with pytest.raises(
        UserError, match=r"two\.log: it is of several processes, or .*in one: t.* not known: "
    ) as no:
        CliRunner().invoke(app, ["import", str(path), "--project"], catch_exceptions=False)
    assert "\n" not in str(no.value)


def test_a_log_of_one_process_needs_no_note(tmp_path: Path) -> None:
    path = tmp_path / "one.log"
    path.write_text(HEADER.format(8, "AVX2") + 2 * EXECUTION)
    summary = import_file(path).summary
    assert summary.notes == ()
    assert summary.origin
    assert (summary.origin.threads, summary.isa) == (8, "Intel AVX2")
