"""Which versions a record of the OSV format is about."""

from __future__ import annotations

from typing import Any

import pytest
from packaging.version import Version

from deploy.supply.osv import Affected, RangeUnreadable, Record, affects, findings
from deploy.supply.pins import Pin


def affected(
    *events: dict[str, str], versions: tuple[str, ...] = (), kind: str = "ECOSYSTEM"
) -> Affected:
    ranges = [{"type": kind, "events": events}] if events else []
    return Affected.model_validate({"ranges": ranges, "versions": versions})


def pin(version: str, name: str = "numpy") -> Pin:
    return Pin(name, Version(version), ("requirements/lock.txt",))


def record(id_: str, name: str = "numpy", ecosystem: str = "PyPI", **more: Any) -> Record:  # noqa: ANN401 - any key of a record
    part = {
        "package": {"name": name, "ecosystem": ecosystem},
        "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "2.0"}]}],
    }
    return Record.model_validate({"id": id_, "affected": [part], **more})


def start(version: str) -> dict[str, str]:
    return {"introduced": version}


def fixed(version: str) -> dict[str, str]:
    return {"fixed": version}


def last(version: str) -> dict[str, str]:
    return {"last_affected": version}


@pytest.mark.parametrize(
    ("part", "inside", "outside"),
    [
        (affected(start("0")), ["0.dev0", "0.1", "99", "7!0"], []),
        (affected(start("0"), fixed("1.5")), ["0.dev0", "1.4.9", "1.5rc1"], ["1.5", "1.5.0", "2"]),
        (affected(start("1.0"), fixed("1.5")), ["1.0", "1"], ["0.9", "1.0rc1", "1.5"]),
        (affected(start("0"), last("1.5")), ["1.5", "1.5.0"], ["1.5.post1", "1.5.1"]),
        (affected(start("1.5"), last("1.5")), ["1.5"], ["1.4", "1.5.1"]),
        (
            affected(start("3.0"), fixed("3.2"), start("1.0"), fixed("1.5")),
            ["1.2", "3.1"],
            ["0.9", "2.0", "3.2"],
        ),
        (affected(start("1.0"), fixed("2.0"), start("2.0"), fixed("3.0")), ["2.0"], ["3.0"]),
        (affected(start("1.10"), fixed("1.20")), ["1.12"], ["1.9", "1.2"]),
        (affected(start("0"), fixed("1!1.0")), ["99.0", "1!0.9"], ["1!1.0", "2!0"]),
        (affected(start("0"), {"limit": "2.0"}), ["1.9"], ["2.0", "3"]),
        (affected(start("0"), {"limit": "*"}), ["9"], []),
        (affected(fixed("1.0")), [], ["0.5", "1.0"]),
        (affected(start("0"), kind="GIT"), [], ["1.0"]),
        (affected(start("0"), fixed("2"), kind="SEMVER"), ["1.0"], ["2.0"]),
        (affected(versions=("1.0", "1.2.0", "2004d")), ["1.0", "1.2", "1.0.0"], ["1.1", "2004"]),
        (affected(start("2.0"), versions=("1.0",)), ["1.0", "2.5"], ["1.5"]),
        (affected(), [], ["1.0"]),
    ],
)
def test_a_version_is_inside_or_outside(
    part: Affected, inside: list[str], outside: list[str]
) -> None:
    found = [text for text in (*inside, *outside) if affects(part, Version(text))]
    assert found == inside


def test_the_next_fix_is_named_with_every_id() -> None:
    more = {"aliases": ["CVE-1"], "summary": "It overflows."}
    branches = [start("0"), fixed("1.5"), start("2.0"), fixed("2.4"), start("3.0"), fixed("3.1")]
    part = {
        "package": {"name": "NumPy", "ecosystem": "PyPI"},
        "ranges": [{"type": "ECOSYSTEM", "events": branches}],
    }
    (found,) = findings(
        [pin("2.1")], [Record.model_validate({"id": "GHSA-1", "affected": [part], **more})]
    )
    assert (found.ids, found.fixed, found.summary) == (
        ("GHSA-1", "CVE-1"),
        Version("2.4"),
        "It overflows.",
    )


def test_records_that_are_aliases_make_one_finding() -> None:
    records = [
        record("PYSEC-1", aliases=["CVE-1"]),
        record("GHSA-1", aliases=["CVE-1", "CVE-2"], summary="Said once."),
        record("GHSA-2", aliases=["CVE-2"]),
        record("GHSA-3"),
    ]
    one, other = sorted(findings([pin("1.0")], records), key=lambda found: -len(found.ids))
    assert {*one.ids} == {"PYSEC-1", "GHSA-1", "GHSA-2", "CVE-1", "CVE-2"}
    assert one.summary == "Said once."
    assert other.ids == ("GHSA-3",)


def test_each_pinned_version_counts_for_itself() -> None:
    found = findings([pin("1.0"), pin("2.0"), pin("1.0", "torch")], [record("GHSA-1")])
    assert [one.pin for one in found] == [pin("1.0")]


@pytest.mark.parametrize(
    "other",
    [
        record("GHSA-1", withdrawn="2026-01-01T00:00:00Z"),
        record("GHSA-1", ecosystem="npm"),
        record("GHSA-1", ecosystem="Debian:12"),
        record("GHSA-1", name="numpy-other"),
        Record.model_validate({"id": "GHSA-1", "affected": [{"ranges": []}]}),
        Record.model_validate({"id": "GHSA-1"}),
    ],
)
def test_what_is_of_no_pinned_package_of_pypi_is_left_alone(other: Record) -> None:
    assert findings([pin("1.0")], [other]) == []


@pytest.mark.parametrize(("name", "ecosystem"), [("Num_Py", "PyPI"), ("num.py", "PyPI:x")])
def test_names_are_compared_as_pypi_does(name: str, ecosystem: str) -> None:
    assert findings([pin("1.0", "num-py")], [record("GHSA-1", name, ecosystem)])


def test_a_range_without_an_order_is_an_error_for_a_pinned_package_only() -> None:
    part = {
        "package": {"name": "numpy", "ecosystem": "PyPI"},
        "ranges": [{"type": "ECOSYSTEM", "events": [start("0"), fixed("2004d")]}],
    }
    odd = Record.model_validate({"id": "GHSA-1", "affected": [part]})
    assert findings([pin("1.0", "torch")], [odd]) == []
    with pytest.raises(RangeUnreadable, match="GHSA-1: of numpy, '2004d' is no version by PEP 440"):
        findings([pin("1.0")], [odd])
