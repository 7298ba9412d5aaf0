"""The answers of an accuracy run (mlperf_log_accuracy.json): which samples, and how often."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from controller.loadgen.logs import ACCURACY, LogUnreadable, each_once
from controller.loadgen.texts import LARGEST, MIB, read_lines

MOST_BYTES: Final = 8192 * MIB
MOST_ANSWERS: Final = 2_000_000
LONGEST: Final = 64 * MIB
"""Of one answer: an upscaled image of 1920 × 1080 pixels has 12 MiB as LoadGen prints it."""


@dataclass(frozen=True, slots=True)
class Answers:
    """What an accuracy log has, without the answers themselves."""

    count: int
    samples: Mapping[int, int]
    """Sample of the data set → how often it was answered."""
    queries: int
    """Distinct numbers of queries' samples, `seq_id`."""


def read_answers(folder: Path) -> Answers | None:
    """Read the log; None if there is none; raises LogUnreadable."""
    path = folder / ACCURACY
    if not path.exists():
        return None
    samples: dict[int, int] = {}
    numbers: set[int] = set()
    count, last = 0, b""
    for line in read_lines(path, MOST_BYTES, LONGEST):
        last = line.strip() or last
        if last in (b"[", b"]", b"[]") or not line.strip():
            continue
        if count >= MOST_ANSWERS:
            raise LogUnreadable(f"{path.name}: more than {MOST_ANSWERS} answers")
        number, sample = _answer(last.lstrip(b"[").rstrip(b",]"), count)
        samples[sample] = samples.get(sample, 0) + 1
        numbers.add(number)
        count += 1
    if not last.endswith(b"]"):
        raise LogUnreadable(f"{path.name}: truncated, or not an accuracy log of LoadGen")
    return Answers(count, samples, len(numbers))


def _answer(line: bytes, count: int) -> tuple[int, int]:
    """Return an answer's number and its sample."""
    where = f"{ACCURACY}: answer {count}"
    try:
        said = json.loads(line, object_pairs_hook=each_once)
        number, sample, data = said["seq_id"], said["qsl_idx"], said["data"]
        bytes.fromhex(data)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise LogUnreadable(f"{where}: {type(error).__name__}: {line[:80]!r}") from error
    for value in (number, sample):
        if type(value) is not int or not 0 <= value < LARGEST:
            raise LogUnreadable(f"{where}: {str(value)[:40]!r} is no number of a sample")
    return number, sample
