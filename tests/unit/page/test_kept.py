"""Kept values: one maker at a time, and nothing left of what could not be made."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from controller.contracts.errors import NotFound
from controller.page.kept import Kept
from tests.support.waiting import PATIENCE_S


class Key:
    """What a value is of; found out whether it is still referred to."""


@contextmanager
def running(thread: threading.Thread) -> Iterator[None]:
    thread.start()
    yield
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_nothing_is_left_of_what_could_not_be_made() -> None:
    kept, of = Kept(), Key()

    def make() -> int:
        raise NotFound("find the sweep", "there is none", "-")

    with pytest.raises(NotFound):
        kept.get(of, 0, 60.0, make)
    left = weakref.ref(of)
    del of
    gc.collect()
    assert left() is None


def test_a_value_that_is_evicted_while_it_is_made_anew_has_one_maker() -> None:
    kept, begun, second, go = Kept(most=2), *(threading.Event() for _ in range(3))
    made: list[str] = []

    def first() -> str:
        begun.set()
        assert go.wait(PATIENCE_S)
        made.append("first")
        return "first"

    def other() -> str:
        second.set()
        made.append("other")
        return "other"

    kept.get("a", "old", 60.0, str)
    one = threading.Thread(target=kept.get, args=("a", "new", 60.0, first))
    two = threading.Thread(target=kept.get, args=("a", "new", 60.0, other))
    with running(one):
        assert begun.wait(PATIENCE_S)
        for of in "bc":
            kept.get(of, "new", 60.0, str)
        with running(two):
            beside = second.wait(0.2)  # ends early only where both make it at once
            go.set()
    assert not beside
    assert made == ["first"]
