"""The command line as tests call it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from controller.cli.main import main
from tests.support.forked_cli import forked
from tests.support.waiting import PATIENCE_S


def printed_by(home: Path, *arguments: str, **environ: str) -> str:
    """Return what a call that succeeds prints; in this process, which is faster."""
    said, complained, status = _called(home, arguments, environ)
    assert (status, complained) == (0, ""), complained
    return said


def complaint_of(home: Path, *arguments: str, **environ: str) -> str:
    """Return the one line of a call that fails with status 2; in this process, which is faster."""
    said, complaint, status = _called(home, arguments, environ)
    assert status == 2, complaint
    assert (complaint.count("\n"), said) == (1, ""), complaint
    return complaint


def outcome_of(home: Path, *arguments: str) -> tuple[str, str, object]:
    """Return what a call prints on standard output and error, and its status; as above."""
    return _called(home, arguments, {})


def _called(
    home: Path, arguments: Sequence[str], environ: Mapping[str, str]
) -> tuple[str, str, object]:
    """Return what a call printed on standard output and error, and its exit status."""
    said, complained = StringIO(), StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(said), redirect_stderr(complained):
        patch.setattr(sys, "argv", ["benchfarm", *arguments])
        for name, value in {"BENCHFARM_HOME": str(home), **environ}.items():
            patch.setenv(name, value)
        with pytest.raises(SystemExit) as ended:
            main()
    return said.getvalue(), complained.getvalue(), ended.value.code or 0


def benchfarm(
    home: Path, *arguments: str, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Call the command line in a process of its own, which need not load it."""
    return forked(arguments, _environ(home), stdin, PATIENCE_S)


def installed(home: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Call the installed command."""
    command = [str(Path(sys.executable).with_name("benchfarm")), *arguments]
    return subprocess.run(
        command, env=_environ(home), input=b"", capture_output=True, timeout=PATIENCE_S
    )


def _environ(home: Path) -> dict[str, str]:
    return {**os.environ, "BENCHFARM_HOME": str(home)}
