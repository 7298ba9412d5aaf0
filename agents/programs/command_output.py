"""Parsing of a program's output: figures with units, failures with blame, tables. Pure.

The output is untrusted: it may be truncated, long or made to look like figures.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from controller.contracts.base import Scalar
from controller.contracts.command import VALUE, Command, FailureLine, Figure, OpTable, line_pattern
from controller.contracts.documents import DocumentRefused, load_json
from controller.contracts.errors import WorkerFault
from controller.contracts.result import Blame, Failure, Measurement

MAX_DOCUMENT: Final = 8 * 2**20
"""Bytes of a JSON document."""
MAX_SAMPLES: Final = 100_000
MAX_ROWS: Final = 10_000
MAX_FACT: Final = 200
LAST_LINES: Final = 5
"""Last lines of an output to show when nothing matches."""
KIND: Final = "output"
"""Kind of a failure whose figures can't be read."""


class OutputUnreadable(ValueError):
    """A figure that is missing or not a number, or an output that is too long."""


def failure_in(command: Command, text: str) -> Failure | None:
    """Return the failure of the first line that matches a failure pattern, or None."""
    lines = text.splitlines()
    for known in command.failures:
        pattern = line_pattern(known.pattern)
        if found := next((line for line in lines if pattern.search(line)), None):
            return _failure(known, found, text)
    return None


def _failure(known: FailureLine, line: str, text: str) -> Failure:
    said = " ".join(line.split())[:200]
    message = f"the program printed: {said}. {known.remedy}"
    return Failure(blame=known.blame, kind=known.kind, message=message, output=_end(text))


def measured(command: Command, source: Callable[[str], str]) -> dict[str, Measurement]:
    """Return a command's figures; raises WorkerFault naming the first one that can't be read.

    source: returns the text for a name in `reads`; raises OutputUnreadable.
    """
    found: dict[str, Measurement] = {}
    for name, figure in command.figures.items():
        text = ""
        try:
            text = source(figure.reads or command.reads)
            samples = _chosen(figure, [_number(v) * figure.scale for v in _values(figure, text)])
        except OutputUnreadable as error:
            message = f"cannot read figure {name}: {error}"
            raise WorkerFault(unreadable(message, text)) from error
        if samples:
            kept = samples if figure.select == "all" else ()
            value = Measurement.of_samples(tuple(samples), figure.unit).value
            found[name] = Measurement(value=value, unit=figure.unit, samples=tuple(kept))
    return found


def unreadable(message: str, text: str) -> Failure:
    """Return the failure of an output that can't be read, with the output's last lines."""
    return Failure(blame=Blame.WORKLOAD, kind=KIND, message=message, output=_end(text))


def facts_in(command: Command, text: str) -> dict[str, Scalar]:
    """Return each fact from the last line that matches; unmatched facts are left out."""
    found: dict[str, Scalar] = {}
    for name, known in command.facts.items():
        pattern = line_pattern(known)
        said = [m[VALUE] for line in text.splitlines() if (m := pattern.search(line)) and m[VALUE]]
        if said:
            found[name] = int(said[-1]) if said[-1].isdecimal() else said[-1].strip()[:MAX_FACT]
    return found


def objections_in(command: Command, text: str) -> tuple[str, ...]:
    """Return the distinct lines that make a result INVALID."""
    patterns = [line_pattern(known) for known in command.invalid]
    found = (line for line in text.splitlines() if any(p.search(line) for p in patterns))
    said = dict.fromkeys(" ".join(line.split())[:MAX_FACT] for line in found)
    return tuple(f"the program printed: {line}" for line in said)[:LAST_LINES]


def table_in(wanted: OpTable, text: str) -> list[dict[str, str]]:
    """Return the rows of a table, by column; none if its heading is missing."""
    heading, row = line_pattern(wanted.heading), line_pattern(wanted.row)
    rows: list[dict[str, str]] = []
    inside = False
    for line in text.splitlines():
        if heading.search(line):
            rows, inside = [], True
        elif inside and len(rows) < MAX_ROWS and (found := row.search(line)):
            rows.append({name: (value or "").strip() for name, value in found.groupdict().items()})
        elif rows:
            inside = False
    return rows


def _chosen(figure: Figure, numbers: Sequence[float]) -> Sequence[float]:
    if not numbers:
        if figure.required:
            raise OutputUnreadable(f"the output has nothing that matches {_sought(figure)}")
        return ()
    if figure.select == "only" and len(numbers) > 1:
        raise OutputUnreadable(f"{_sought(figure)} matches {len(numbers)} values, not one")
    return {"first": numbers[:1], "last": numbers[-1:]}.get(figure.select, numbers)


def _sought(figure: Figure) -> str:
    for kind, said in (("pattern", figure.pattern), ("json", figure.json_path)):
        if said is not None:
            return f"{kind} {said!r}"
    return f"csv column {figure.csv!r}"


def _values(figure: Figure, text: str) -> Iterator[object]:
    if figure.pattern is not None:
        pattern = line_pattern(figure.pattern)
        found: Iterator[object] = (
            m[VALUE] for line in text.splitlines() for m in pattern.finditer(line)
        )
    elif figure.json_path is not None:
        found = _at(_document(text), figure.json_path.split("."), figure.where)
    else:
        found = _column(text, str(figure.csv), figure.where)
    for number, value in enumerate(found):
        if number == MAX_SAMPLES:
            raise OutputUnreadable(f"{_sought(figure)} matches more than {MAX_SAMPLES} values")
        yield value


def _number(value: object) -> float:
    """Return a figure as a number; raises OutputUnreadable if it is not a usable one."""
    try:
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            raise ValueError(value)
        number = float(value)
    except (ValueError, OverflowError) as error:
        raise OutputUnreadable(f"{str(value)[:60]!r} is not a number") from error
    if not math.isfinite(number) or number < 0:
        raise OutputUnreadable(f"{number} is not a possible measurement")
    return number


def _document(text: str) -> object:
    """Return the JSON document in an output, which may stand between other lines."""
    begins = [at for at in (text.find("["), text.find("{")) if at >= 0]
    for at in sorted(begins):
        body = text[at : max(text.rfind("]"), text.rfind("}")) + 1].encode()
        try:
            return load_json(body, MAX_DOCUMENT)
        except (DocumentRefused, ValueError):
            continue
    limit = f"{MAX_DOCUMENT >> 20} MiB"
    raise OutputUnreadable(f"the output has no JSON document of at most {limit}")


def _at(found: object, path: Sequence[str], where: Mapping[str, str]) -> Iterator[object]:
    if not path:
        yield found
        return
    step, *left = path
    if isinstance(found, Mapping):
        if all(str(found[k]) == v for k, v in where.items() if k in found) and step in found:
            yield from _at(found[step], left, where)
    elif isinstance(found, list):
        chosen = found if step == "*" else found[int(step) :][:1] if step.isdecimal() else []
        for one in chosen:
            yield from _at(one, left, where)


def _cells(line: str) -> list[str]:
    """Return the cells of a line; raises csv.Error for an unclosed quote and a cell too long."""
    return next(csv.reader([line], strict=line.count('"') % 2 == 1), [])


def _column(text: str, heading: str, where: Mapping[str, str]) -> Iterator[object]:
    names: list[str] = []
    for line in text.splitlines():
        try:
            cells = _cells(line)
        except csv.Error as error:
            if not names:  # a log may stand before the table
                continue
            seen = f"a line after csv heading {heading!r} is no row: {error}: {line[:60]!r}"
            raise OutputUnreadable(f"{seen}. Write the table to a file in {{output}}.") from error
        stripped = [cell.strip() for cell in cells]
        if heading in stripped:
            names = stripped
        elif names and len(cells) == len(names):
            row = dict(zip(names, stripped, strict=True))
            if all(row.get(name) == value for name, value in where.items()):
                yield row[heading]


def _end(text: str) -> str:
    return "\n".join(line[:300] for line in text.splitlines()[-LAST_LINES:])
