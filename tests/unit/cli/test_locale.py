"""In a locale of another encoding than UTF-8: what is written, printed and sent is the same."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from controller.platform.programs import PYTHON_MODES, installed_beside, python_code

ASCII: Mapping[str, str] = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
"""Python's own remedies for such a locale, which it has for C alone, are off."""
TEXT = "mußte … \ufffd"
MESSAGES = "agents.inference.runner.messages"
PRINTED = f"import sys; sys.stdout.write({TEXT!a})"


def said(command: tuple[str, ...], home: Path, **given: str) -> subprocess.CompletedProcess[bytes]:
    environ = {**os.environ, **ASCII, "BENCHFARM_HOME": str(home), **given}
    return subprocess.run(command, env=environ, capture_output=True, check=False, timeout=120)


def test_such_a_locale_can_not_write_the_text(tmp_path: Path) -> None:
    done = said(python_code(PRINTED), tmp_path)
    assert b"UnicodeEncodeError" in done.stderr


def test_the_command_line_prints_what_it_does_in_utf8(tmp_path: Path) -> None:
    benchfarm = str(installed_beside("benchfarm"))
    done = said((benchfarm, "models", "list"), tmp_path, COLUMNS="60")
    assert (done.returncode, done.stderr) == (0, b"")
    assert "…".encode() in done.stdout
    usual = said((benchfarm, "models", "list"), tmp_path, COLUMNS="60", PYTHONUTF8="1")
    assert done.stdout == usual.stdout


def test_an_argument_that_is_no_utf8_is_refused_in_one_line(tmp_path: Path) -> None:
    benchfarm = os.fsencode(installed_beside("benchfarm"))
    environ = {**os.environ, **ASCII, "BENCHFARM_HOME": str(tmp_path)}
    command = (benchfarm, b"results", b"show", b"mu\xdfte")
    done = subprocess.run(command, env=environ, capture_output=True, check=False, timeout=120)
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1
    assert b"it is not UTF-8" in done.stderr


@pytest.mark.parametrize(
    "code",
    [
        "from controller.platform.atomic import write_private as w; w(path, text)",
        "from agents.worker import _claim_stdout as c; c().write(text)",
        f"import {MESSAGES} as m; m.MessageWriter.claim_stdout()._stream.write(text)",
    ],
)
def test_what_others_read_is_utf8(code: str, tmp_path: Path) -> None:
    path = tmp_path / "written"
    given = f"from pathlib import Path\npath, text = Path({str(path)!r}), {TEXT!a}\n"
    done = said(python_code(given + code), tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (path.read_bytes() if path.exists() else done.stdout) == TEXT.encode()


def test_programs_that_are_started_use_utf8(tmp_path: Path) -> None:
    done = said((sys.executable, "-c", PRINTED), tmp_path, **PYTHON_MODES)
    assert (done.stdout, done.stderr) == (TEXT.encode(), b"")


def test_programs_that_the_command_line_starts_use_utf8_too(tmp_path: Path) -> None:
    code = (
        "import os, sys; from controller.cli import main; main._in_utf8(); "
        "os.write(1, ('PYTHONUTF8=' + os.environ['PYTHONUTF8']).encode())"
    )
    done = said(python_code(code), tmp_path)
    assert (done.stdout, done.stderr) == (b"PYTHONUTF8=1", b"")


def test_an_encoding_that_is_asked_of_python_changes_nothing(tmp_path: Path) -> None:
    """It wins over Python's UTF-8 mode: what the encoding lacks ended in a traceback."""
    benchfarm = str(installed_beside("benchfarm"))
    usual = said((benchfarm, "models", "list"), tmp_path, COLUMNS="60")
    for asked in ("ascii", "latin-1:strict", "utf-8"):
        given = {"LC_ALL": "C.UTF-8", "PYTHONUTF8": "1", "PYTHONIOENCODING": asked}
        done = said((benchfarm, "models", "list"), tmp_path, COLUMNS="60", **given)
        assert (done.returncode, done.stderr, done.stdout) == (0, b"", usual.stdout)
