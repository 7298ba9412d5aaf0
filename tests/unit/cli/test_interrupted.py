"""^C ends a verb, and the processes it has started, with one line."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from controller.cli import bench
from controller.cli.main import main
from controller.contracts.bench import PlantedTrials
from controller.platform.programs import python_module
from tests.support.waiting import PATIENCE_S


def test_verb_says_so_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: PlantedTrials) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "run_planted", interrupted)
    monkeypatch.setattr(sys, "argv", ["benchfarm", "bench", "compare"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code, capsys.readouterr().err) == (130, "benchfarm: interrupted\n")


def test_a_prompt_that_is_left_is_said_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def left(_: PlantedTrials) -> None:
        raise typer.Abort

    monkeypatch.setattr(bench, "run_planted", left)
    monkeypatch.setattr(sys, "argv", ["benchfarm", "bench", "compare"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code, capsys.readouterr().err) == (130, "benchfarm: interrupted\n")


@pytest.mark.parametrize("key", [b"\x03", b"\x04"], ids=["^C", "^D"])
def test_keys_that_leave_a_prompt(key: bytes, tmp_path: Path) -> None:
    """As a person presses them where `login` asks for the token."""
    environ = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path), "BENCHFARM_HOME": str(tmp_path)}
    environ.pop("BENCHFARM_TOKEN", None)
    command = [sys.executable, "-m", "controller.cli.main", "login", "http://127.0.0.1:9"]
    pid, terminal = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.execve(sys.executable, command, environ)
    try:
        shown = _read(terminal, b"Token: ")  # behind the space, keys are waited for
        os.write(terminal, key)
        shown += _read(terminal)
    finally:
        os.close(terminal)  # which ends what waits there
        _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 130, shown.decode()
    assert b"Traceback" not in shown
    assert shown.split()[-2:] == [b"benchfarm:", b"interrupted"]


def _read(terminal: int, last: bytes | None = None) -> bytes:
    """Return what is shown until it ends with `last`, or until nobody has the terminal open."""
    shown = b""
    while last is None or not shown.endswith(last):
        assert select.select([terminal], [], [], PATIENCE_S)[0], f"nothing after {shown!r}"
        try:
            shown += os.read(terminal, 1024)
        except OSError:  # EIO: it has ended
            break
    return shown


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Have what the test starts heed ^C, though a shell may have started this in the background."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)


def test_processes_of_a_verb_end_without_a_word(interruptible: None) -> None:
    wanted = PlantedTrials(effects=(0.0,), trials=1000, loads=0, width=9, seed=0, time_limit_s=60)
    command = python_module("agents.pairing.planted")
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
    ) as process:
        try:
            assert process.stdin
            assert process.stdout
            process.stdin.write(wanted.model_dump_json().encode() + b"\n")
            process.stdin.flush()
            assert process.stdout.readline()  # it is at work
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does
            assert process.wait(PATIENCE_S)
            _, complained = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
    assert (process.returncode, complained) == (130, b"")
