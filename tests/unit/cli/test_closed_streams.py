"""The command line without its standard streams, with endless ones, in a folder that is gone."""

from __future__ import annotations

import os
import resource
import subprocess
from pathlib import Path

import pytest

from controller.platform.programs import installed_beside
from tests.support.waiting import PATIENCE_S

BENCHFARM, PYTHON = str(installed_beside("benchfarm")), str(installed_beside("python"))
SWEEP = "{name: x, workload: shapes_classifier, stack: litert, scenario: offline}"
ROOM = 1 << 30
"""Bytes that a call may take; one that reads /dev/zero to its end takes all."""


def called(script: str, home: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Call a line of the shell, in which `$0` is benchfarm."""
    return subprocess.run(
        ("sh", "-c", script, BENCHFARM),
        # Each thread of OpenBLAS reserves memory: a machine with many cores would need more.
        env={**os.environ, "BENCHFARM_HOME": str(home), "OPENBLAS_NUM_THREADS": "1"},
        cwd=home,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (ROOM, ROOM)),
    )


@pytest.mark.parametrize(
    ("script", "status", "complaint"),
    [
        ("--version >&-", 0, ""),
        ("--help >&- 2>&-", 0, ""),
        ("models list <&- >&-", 0, ""),
        ("sweep validate nosuch 2>&-", 2, ""),
        ("sweep validate nosuch <&- >&-", 2, "cannot read sweep nosuch: No such file"),
        ("sweep validate - <&-", 2, "cannot read standard input: the file is empty"),
        ("sweep validate /dev/zero", 2, "it has more than 1048576 bytes"),
        ("sweep validate - </dev/zero", 2, "it has more than 1048576 bytes"),
    ],
)
def test_streams_that_are_closed_or_endless(
    script: str, status: int, complaint: str, tmp_path: Path
) -> None:
    done = called(f'"$0" {script}', tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (status, bool(complaint)), done.stderr
    assert complaint in done.stderr


def test_programs_that_are_started_have_the_streams_too(tmp_path: Path) -> None:
    code = "import os, sys; from controller.platform.terminal import open_missing_streams as f; f()"
    child = "import os; os.write(1, b'x'); assert os.read(0, 1) == b''"
    script = f'''exec <&- >&-; "{PYTHON}" -c "{code}
import subprocess; sys.exit(subprocess.run([sys.executable, '-c', \\"{child}\\"]).returncode)"'''
    done = called(script, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_fifo_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    done = called(f'echo "{SWEEP}" > fifo & "$0" sweep validate fifo', tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    script = 'mkdir gone; cd gone; rmdir ../gone; "$0" sweep validate nosuch.yaml'
    done = called(script, tmp_path)
    assert done.returncode == 2
    assert done.stderr == (
        "benchfarm: cannot read sweep nosuch.yaml: No such file or directory. Name a YAML file; "
        "the current folder is gone.\n"
    )
