"""Kept reference answers: what is not whole, or not of its key, counts as missing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from agents.inference.reference_answers import ANSWERS, RECORD, ReferenceAnswers


def add(kept: ReferenceAnswers, key: str, size: int = 10) -> None:
    kept.emptied(key).write_bytes(key.encode() * size)
    kept.keep(key, "litert 1", 3)


def keys(kept: ReferenceAnswers) -> set[str]:
    return {place.name for place in kept.folder.iterdir()}


def test_what_was_kept_is_found_again_with_its_answers(tmp_path: Path) -> None:
    kept = ReferenceAnswers(tmp_path / "references")
    assert kept.find("a") is None
    add(kept, "a")
    found = ReferenceAnswers(tmp_path / "references").find("a")
    assert found
    assert (found.key, found.by, found.samples) == ("a", "litert 1", 3)
    assert kept.path("a").read_bytes() == b"a" * 10


def of_another_model(place: Path) -> None:
    shutil.rmtree(place)
    shutil.copytree(place.with_name("b"), place)


def other_answers(place: Path) -> None:
    shutil.copyfile(place.with_name("b") / ANSWERS, place / ANSWERS)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "a reference of another model": of_another_model,
    "answers of another model": other_answers,
    "answers cut off": lambda place: os.truncate(place / ANSWERS, 3),
    "no answers": lambda place: (place / ANSWERS).unlink(),
    "no record": lambda place: (place / RECORD).unlink(),
    "a record cut off": lambda place: os.truncate(place / RECORD, 9),
    "an empty record": lambda place: os.truncate(place / RECORD, 0),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_or_exchanged_reference_is_missing_until_it_is_computed_again(
    tmp_path: Path, damage: str
) -> None:
    kept = ReferenceAnswers(tmp_path)
    add(kept, "a")
    add(kept, "b")
    DAMAGE[damage](tmp_path / "a")
    assert kept.find("a") is None
    assert kept.find("b"), "the other one is whole"
    add(kept, "a")
    assert kept.find("a")
    assert kept.path("a").read_bytes() == b"a" * 10


def test_those_used_longest_ago_are_removed_beyond_the_bound(tmp_path: Path) -> None:
    kept = ReferenceAnswers(tmp_path, most_bytes=2_500)
    for number, key in enumerate("abc"):
        add(kept, key, 500)
        os.utime(tmp_path / key / RECORD, (number, number))
    assert kept.find("a"), "it is used again"
    kept.emptied("unfinished").write_bytes(b"cut off")
    add(kept, "d", 1_500)
    assert keys(kept) == {"a", "d"}


def test_one_that_is_larger_than_the_bound_is_kept_alone(tmp_path: Path) -> None:
    kept = ReferenceAnswers(tmp_path, most_bytes=100)
    add(kept, "a")
    add(kept, "b", 5_000)
    assert keys(kept) == {"b"}
    assert kept.find("b")
