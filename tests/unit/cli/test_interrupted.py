"""^C ends a verb, and the processes it has started, with one line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

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
