"""A ^C that arrives in a finaliser, where Python swallows it, is not lost."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator

import pytest

from controller.platform.interrupted import none_swallowed

PATIENCE_S = 30.0


class Raising:
    """Raises an error as it is deleted."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __del__(self) -> None:
        raise self.error


@pytest.fixture(autouse=True)
def _heard() -> Iterator[None]:
    """A shell may have SIGINT ignored."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)


def swallow_one_and_wait() -> None:
    with none_swallowed():
        Raising(KeyboardInterrupt())
        threading.Event().wait(PATIENCE_S)


def test_one_that_python_swallows_comes_again() -> None:
    hook = sys.unraisablehook
    with pytest.raises(KeyboardInterrupt):
        swallow_one_and_wait()
    assert sys.unraisablehook is hook


def test_all_other_errors_are_told_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda swallowed: told.append(swallowed.exc_type))
    with none_swallowed():
        Raising(ValueError("no"))
    assert told == [ValueError]
