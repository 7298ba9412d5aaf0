"""Kept values: one maker at a time, and nothing left of what could not be made."""

from __future__ import annotations

import gc
import threading
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from controller.contracts.errors import NotFound
from controller.page.kept import Kept
from tests.support.waiting import PATIENCE_S


class Key:
    """What a value is of, or a value; found out whether it is still referred to."""


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


def test_what_stands_no_more_is_forgotten() -> None:
    now = [0.0]
    kept = Kept(lambda: now[0])
    left = weakref.ref(kept.get("a", 0, 60.0, Key))
    kept.get("b", 0, 90.0, Key)
    gc.collect()
    assert left() is not None
    now[0] = 60.0
    kept.get("b", 0, 90.0, Key)
    gc.collect()
    assert left() is None


def test_a_shared_rest_bounds_the_share_of_the_time_of_all_values_together() -> None:
    now, made = [0.0], list[str]()
    kept = Kept(lambda: now[0], most=4, shared_rest=True)

    def make(of: str) -> str:
        made.append(of)
        now[0] += 2.0
        return of

    for marker in range(2000):
        for of in "abcd":
            assert kept.get(of, marker, 10.0, partial(make, of), rest=20.0) == of
        now[0] += 1.0
    first_s = 4 * 2.0
    assert 2.0 * len(made) <= first_s + now[0] / 20
    assert Counter(made).keys() == set("abcd")
    assert min(Counter(made).values()) > 5, "each is made anew, in its turn"


def test_what_is_cheap_stays_fresh_beside_what_is_costly() -> None:
    """It rested as long as all together: for minutes beside a few reports of large sweeps."""
    now, costs = [0.0], {"cheap": 0.05, "costly": 5.0, "costly, too": 5.0}
    kept, made = Kept(lambda: now[0], shared_rest=True), Counter[str]()

    def make(of: str) -> None:
        made[of] += 1
        now[0] += costs[of]

    for marker in range(1000):
        for of in costs:
            kept.get(of, marker, 10.0, partial(make, of), rest=20.0)
        now[0] += 1.0
    spent_s = sum(costs[of] * number for of, number in made.items())
    assert spent_s <= sum(costs.values()) + now[0] / 20
    assert made["cheap"] > now[0] / (20 * 3 * 0.05 + 2 * 5.0)
    assert 1 < made["costly"] <= now[0] / (20 * 3 * 5.0) + 1


def test_what_was_shown_long_ago_lengthens_no_shared_rest() -> None:
    now, made = [0.0], list[float]()
    kept = Kept(lambda: now[0], shared_rest=True)

    def make() -> None:
        made.append(now[0])
        now[0] += 2.0

    kept.get("long ago", 0, 10.0, make, rest=20.0)
    now[0] = 100.0
    for marker in range(90):
        kept.get("now", marker, 10.0, make, rest=20.0)
        now[0] += 1.0
    assert made == [0.0, 100.0, 142.0, 184.0]
