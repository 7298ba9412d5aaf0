"""Trees that are made to harm: links, depth, names, endless folders."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from controller.contracts.catalog import load_catalog
from controller.imported import tree
from controller.imported.published import Published, read_published
from tests.support.published_trees import described, facts_of, log_of, mobile_round, put


def read(path: Path) -> Published:
    return read_published(path, load_catalog(), None)


def _link_out(root: Path) -> None:
    secret = put(root.parent / "outside" / "EDSR/SingleStream/log_performance", log_of(facts_of()))
    (root / "closed/Acme/results/rocket_9/EDSR").symlink_to(secret.parents[2] / "EDSR")


def _loop(root: Path) -> None:
    (root / "closed/Acme/results/rocket_9/EDSR").symlink_to(root)


def _deep(root: Path) -> None:
    put(root / "/".join(["d"] * 40), log_of(facts_of()))


def _escape(root: Path) -> None:
    put(root / "closed/Acme\x1b[31m/results/x/EDSR/SingleStream/log_performance", "x")


def _override(root: Path) -> None:
    put(root / "closed/\u202ecimA/results/x/EDSR/SingleStream/log_performance", "x")


def _not_utf8(root: Path) -> None:
    Path(os.fsdecode(os.fsencode(root) + b"/closed/\xff\xfe/results")).mkdir(parents=True)


def _long(root: Path) -> None:
    put(root / f"closed/{'a' * 200}/results/x/EDSR/SingleStream/log_performance", "x")


def _bad_system(root: Path) -> None:
    put(root / "closed/Acme/systems", "[" * 5000, "rocket_9.json")


def _list_system(root: Path) -> None:
    put(root / "closed/Acme/systems", described() + "x", "rocket_9.json")


HOSTILE = [
    (_link_out, "a symbolic link"),
    (_loop, "a symbolic link"),
    (_deep, "nested more than 16 folders deep"),
    (_escape, "control characters"),
    (_override, "control characters"),
    (_not_utf8, "is not text"),
    (_long, "more than 120 characters"),
    (_bad_system, "nested too deeply"),
    (_list_system, "it is not JSON"),
]


@pytest.mark.parametrize(("plant", "why"), HOSTILE, ids=[h[0].__name__ for h in HOSTILE])
def test_a_hostile_tree_is_not_followed_and_the_rest_is_read(
    tmp_path: Path, plant: Callable[[Path], None], why: str
) -> None:
    root = mobile_round(tmp_path)
    plant(root)
    found = read(root)
    assert len(found.results) == 6
    (line,) = found.left_out
    assert why in line


def test_a_tree_of_too_many_entries_ends(tmp_path: Path) -> None:
    for number in range(50):
        put(tmp_path / "t", "x", f"{number}.txt")
    found = tree.read_tree(tmp_path / "t", frozenset({"1.txt", "9.txt"}), "systems", most=10)
    assert found.entries == 11
    assert [str(path) for path in found.files] == ["1.txt"]
    assert "more than 10 entries" in found.refused[0]


def test_names_and_texts_of_a_submitter_stay_data(tmp_path: Path) -> None:
    root = mobile_round(tmp_path)
    said = described(notes={"SoC Product information": "\x1b[2J<script>"})
    put(root / "closed/Acme/systems", said, "rocket_9.json")
    one = next(r for r in read(root).results if r.workload == "mosaic")
    assert one.environment["model"] == "\x1b[2J<script>"
