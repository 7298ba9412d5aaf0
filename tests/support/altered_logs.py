"""LoadGen's logs with a field altered, as a forger or a slip of the pen would."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

from controller.loadgen.logs import DETAIL, SUMMARY
from controller.loadgen.releases import release

RECORDED = Path(__file__).parents[1] / "unit" / "loadgen" / "recorded"
"""Logs of LoadGen 6.0.16 under our runner, with a model that counts time.

`single_stream` … have their trace, of which only samples are kept; the `_untraced` have none. Of
the detail logs, the entries with checksums of LoadGen's sources and its own counters are cut.
"""
NEWER = {
    '"early_stopping_': (2, 0),
    '"result_query_count"': (2, 0),
    '"get_sut_name_duration_ns"': (2, 1),
    "accuracy_sample_count": (5, 0),
    'sample_concatenate_permutation"': (5, 0),
    '"num_errors"': (5, 1),
}
"""Part of an entry's key → the first release that wrote it."""
Change = Callable[[str], str]


def copied(name: str, folder: Path) -> Path:
    """Copy recorded logs into a folder and return theirs."""
    return Path(shutil.copytree(RECORDED / name, folder / name))


def as_release(folder: Path, said: str) -> Path:
    """Make a detail log one of an older release, without what that did not write yet."""
    path, number = folder / DETAIL, release(said)
    newer = [key for key, since in NEWER.items() if number < since]
    lines = path.read_text().replace("6.0.16 @", f"{said} @").splitlines(keepends=True)
    path.write_text("".join(line for line in lines if not any(key in line for key in newer)))
    return folder


def alter(path: Path, pattern: str, change: Change) -> None:
    """Replace the pattern's group `value`; there is at least one match, all are replaced."""
    text = path.read_text()
    found = [*re.finditer(pattern, text, re.MULTILINE)]
    assert found, f"{path.name} has no {pattern}"
    for match in reversed(found):
        new = change(match["value"])
        assert new != match["value"]
        text = text[: match.start("value")] + new + text[match.end("value") :]
    path.write_text(text)


def in_detail(folder: Path, key: str, change: Change) -> None:
    """Alter a value in the detail log."""
    pattern = rf'"key": "{re.escape(key)}", "value": (?P<value>.*?), "time_ms"'
    alter(folder / DETAIL, pattern, change)


def in_summary(folder: Path, label: str, change: Change) -> None:
    """Alter a value in the summary."""
    alter(folder / SUMMARY, rf"^ *{re.escape(label)} *: ?(?P<value>.*)$", change)


def plus(more: int) -> Change:
    """Return a change that adds to a whole number."""
    return lambda value: str(int(value) + more)


def times(factor: float) -> Change:
    """Return a change that multiplies a number, which stays whole if it is so."""
    return lambda value: str(type(_number(value))(_number(value) * factor))


def _number(value: str) -> int | float:
    return int(value) if value.isdecimal() else float(value)


def flipped(value: str) -> str:
    """Return the opposite of a yes or no, in the file's words."""
    pairs = ("true", "false"), ("Yes", "NO"), ("0", "1"), ("VALID", "INVALID")
    opposite = {**dict(pairs), **{b: a for a, b in pairs}}
    quoted = value.startswith('"')
    word = opposite[value.strip('"')]
    return f'"{word}"' if quoted else word


def worded(old: str, new: str) -> Change:
    """Return a change of some words of a text."""

    def change(value: str) -> str:
        assert old in value
        return value.replace(old, new)

    return change
