"""A signal that ends `up` or `demo` ends what they have started."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from controller.cli.common import unwound
from controller.runtime import cluster
from controller.runtime.cluster import Head, start_head
from controller.runtime.home import Home


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signal_is_an_exception_for_a_while(number: signal.Signals) -> None:
    former = signal.signal(number, signal.SIG_DFL)  # whatever the tests were started with
    try:
        with pytest.raises(SystemExit) as ended, unwound():
            os.kill(os.getpid(), number)
        assert ended.value.code == 128 + number
        assert signal.getsignal(number) == signal.SIG_DFL
    finally:
        signal.signal(number, former)


def test_signal_that_is_ignored_stays_so() -> None:
    former = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        with unwound():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, former)


def test_head_that_is_interrupted_while_it_starts_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "ray"
    ended: list[str] = []

    def interrupted(*_: object, **__: object) -> None:
        raise SystemExit(143)

    def end_marked(_: str, instance: str, **__: object) -> int:
        ended.append(instance)
        return 0

    def new_temp_dir() -> str:
        folder.mkdir()
        return str(folder)

    monkeypatch.setattr(subprocess, "run", interrupted)
    monkeypatch.setattr(cluster, "new_temp_dir", new_temp_dir)
    monkeypatch.setattr(cluster, "end_marked", end_marked)
    home = Home(tmp_path)
    home.prepare()
    with pytest.raises(SystemExit):
        start_head(home, Head(), "abc")
    assert (ended, folder.exists(), home.cluster()) == (["abc"], False, None)
