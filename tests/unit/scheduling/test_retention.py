from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.contracts.artefacts import KeptContent
from controller.contracts.retention import Retention
from controller.scheduling.retention import DAY_S, LOOK_S, expired, is_due

NOW = 1000 * DAY_S


def kept(name: str, days: float, size: int = 10, *, pinned: bool = False) -> KeptContent:
    return KeptContent(name, size, NOW - days * DAY_S, pinned)


@pytest.mark.parametrize(
    ("contents", "retention", "gone"),
    [
        ([kept("a", 1), kept("b", 2)], Retention(days=3, most_bytes=100), []),
        ([kept("a", 4), kept("b", 2)], Retention(days=3, most_bytes=100), ["a"]),
        ([kept("a", 3)], Retention(days=3, most_bytes=100), []),
        ([kept("a", 4, pinned=True)], Retention(days=3, most_bytes=1), []),
        ([kept("a", 1), kept("b", 2), kept("c", 0)], Retention(days=3, most_bytes=20), ["b"]),
        ([kept("a", 1), kept("b", 2), kept("c", 0)], Retention(3, 15), ["b", "a"]),
        ([kept("a", 2, 50, pinned=True), kept("b", 1)], Retention(3, 50), ["b"]),
        ([kept("a", 9, 1), kept("b", 8, 1), kept("c", 0, 50)], Retention(5, 50), ["a", "b"]),
    ],
)
def test_what_is_old_or_too_much_goes_oldest_first_and_what_is_pinned_stays(
    contents: list[KeptContent], retention: Retention, gone: list[str]
) -> None:
    assert [one.sha256 for one in expired(contents, retention, NOW)] == gone


@given(
    st.lists(
        st.builds(
            KeptContent,
            st.uuids().map(str),
            st.integers(0, 100),
            st.floats(0, NOW),
            st.booleans(),
        ),
        max_size=20,
    ),
    st.integers(1, 2000),
    st.integers(0, 500),
)
def test_what_is_left_fits_unless_it_is_pinned(
    contents: list[KeptContent], days: int, most: int
) -> None:
    gone = expired(contents, Retention(days, most), NOW)
    left = [one for one in contents if one not in gone]
    assert not any(one.pinned for one in gone)
    free = [one for one in left if not one.pinned]
    assert all(one.used_at >= NOW - days * DAY_S for one in free)
    assert not free or sum(one.kept_bytes for one in left) <= most


def test_it_is_looked_for_now_and_then_and_when_the_bytes_are_too_many() -> None:
    limit = Retention(days=1, most_bytes=10)
    assert not is_due(10, NOW, limit, NOW + LOOK_S - 1)
    assert is_due(10, NOW, limit, NOW + LOOK_S)
    assert is_due(11, NOW, limit, NOW)
