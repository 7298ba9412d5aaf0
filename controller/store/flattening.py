"""Flat results from the columns of their rows, each checked against its checksum. Pure.

A checksum is that of the record's canonical JSON, see sealing.py; here that text is put together
from the columns' own texts, which are canonical. Whatever is not as this release stores a plain
result is left out here, so that it is read as a contract, which says what is wrong with it, if
anything is: a checksum that does not match, a comparison, a profile, a unit that is unknown.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from itertools import compress
from json.encoder import encode_basestring_ascii as quoted
from operator import and_, eq
from typing import Any, Final, NamedTuple

from controller.contracts.flat_result import FlatResult
from controller.contracts.shown_names import ShownNames
from controller.contracts.units import Unit

HEX_DIGITS: Final = 32
"""Length of a checksum: 128 bits of SHA-256."""

# `CROSS JOIN` keeps the order of tables, so that each row is found by a key; `+` keeps the index by
# type out, which has all results of the store.
_OF_NUMBERS: Final = "o.number IN (SELECT value FROM json_each(?))"
OUTCOMES: Final = f"""
SELECT o.number, o.checksum, o.run_id, r.sweep_id, r.cell_key, o.device_id, a.device_kind,
    o.workload, o.stack, o.scenario, o.validity, r.repeat, o.attempt, a.virtual, o.counted,
    o.started_at, o.recorded_at, c.knobs, o.document
FROM outcomes AS o
CROSS JOIN runs AS r ON r.run_id = o.run_id
CROSS JOIN attempts AS a ON a.run_id = o.run_id AND a.number = o.attempt
CROSS JOIN cells AS c ON c.cell_key = r.cell_key
WHERE {_OF_NUMBERS} AND +o.type = 'result' AND c.versus IS NULL
    AND o.blame IS NULL AND o.kind IS NULL AND o.message IS NULL
"""
"""What `flat_results` takes of results of some numbers, which are a JSON list."""
MEASUREMENTS: Final = f"""
SELECT o.number, m.name, m.value, m.unit, m.samples
FROM outcomes AS o
CROSS JOIN measurements AS m
    ON m.run_id = o.run_id AND m.attempt = o.attempt AND m.counted = o.counted
WHERE {_OF_NUMBERS}
"""
"""What `metrics_by_number` takes."""

_UNITS: Final = frozenset(unit.value for unit in Unit)
_FLAGS: Final = {0: "false", 1: "true"}
_NUMBERS: Final = b"-+.,0123456789eE"
_NO_JSON: Final = "?"
"""In place of a text that may not be sealed: no checksum fits it."""


def _in_turn(item: str) -> str:
    return f"(?:{item}(?:,{item})*+)?+"


def _list(item: str) -> str:
    return r"\[" + _in_turn(item) + r"\]"


def _mapping(value: str) -> str:
    return r"\{" + _in_turn(f"{_TEXT}:{value}") + r"\}"


_TEXT: Final = r'"[^"\\]*+(?:\\(?!ud).[^"\\]*+)*+"'  # no half of a character
_SCALAR: Final = f"(?:{_TEXT}|[-0-9][-+.0-9eE]*+|true|false)"  # neither NaN nor Infinity
_KNOBS: Final = re.compile(_mapping(_SCALAR))
_DOCUMENT: Final = re.compile(
    rf'\{{"artefacts":{_mapping(_TEXT)},"checksums":{_mapping(_TEXT)},'
    rf'"environment":({_mapping(f"(?:null|{_SCALAR}|{_list(_SCALAR)})")}),'
    rf'"pairs":\[\],"profile":null,"reasons":({_list(_TEXT)})\}}'
)
"""The form of a plain result's canonical JSON; for the values, the checksum vouches."""


class FlatMetrics(NamedTuple):
    """The metrics of a result by name: a value of each for each metric."""

    metrics: Sequence[str]
    values: Sequence[float]
    units: Sequence[str]
    samples: Sequence[str]
    sealed: str
    """Their members of the sealed text."""


class _Columns(NamedTuple):
    """Those of OUTCOMES, with a value for each result."""

    number: Sequence[int]
    checksum: Sequence[Any]
    run_id: Sequence[Any]
    sweep_id: Sequence[Any]
    cell_key: Sequence[Any]
    device: Sequence[Any]
    device_kind: Sequence[Any]
    workload: Sequence[Any]
    stack: Sequence[Any]
    scenario: Sequence[Any]
    validity: Sequence[Any]
    repeat: Sequence[Any]
    attempt: Sequence[Any]
    virtual: Sequence[Any]
    counted: Sequence[Any]
    started_at: Sequence[Any]
    recorded_at: Sequence[Any]
    knobs: Sequence[Any]
    document: Sequence[Any]


class _Quoted(dict[Any, str]):
    """Texts as JSON, of which many are the same."""

    def __missing__(self, text: Any) -> str:  # noqa: ANN401 - of a damaged row, anything
        self[text] = found = quoted(text) if type(text) is str else _NO_JSON
        return found


_NO_METRICS: Final = FlatMetrics((), (), (), (), "")
_NOT_PLAIN: Final = ("", ())


def metrics_by_number(rows: Sequence[Sequence[Any]]) -> Mapping[int, FlatMetrics]:
    """Return the metrics of results by their numbers, from rows of MEASUREMENTS, where those of a
    result follow each other."""
    if not rows:
        return {}
    numbers, *columns = zip(*rows, strict=True)
    members, found, begin = _members(*columns), {}, 0
    for number, count in Counter(numbers).items():
        own = slice(begin, begin + count)
        begin += count
        names, values, units, samples = (column[own] for column in columns)
        found[number] = FlatMetrics(names, values, units, samples, ",".join(members[own]))
    return found


def _members(
    names: Sequence[Any], values: Sequence[Any], units: Sequence[Any], samples: Sequence[Any]
) -> Sequence[str]:
    quote = _Quoted().__getitem__
    lists: Iterable[str] = samples
    if not _are_lists(samples):
        lists = (each if _are_lists([each]) else _NO_JSON for each in samples)
    known = (unit if unit in _UNITS else None for unit in units)
    columns = map(quote, names), lists, map(quote, known), values
    return [
        f'{name}:{{"samples":{drawn},"unit":{unit},"value":{value!r}}}'
        for name, drawn, unit, value in zip(*columns, strict=True)
    ]


def _are_lists(texts: Sequence[Any]) -> bool:
    """Return whether all are lists of numbers: from anything else, the same sealed text might be
    put together that other columns make."""
    try:
        joined = "\n".join(texts)
    except TypeError:
        return False
    return joined.encode().translate(None, _NUMBERS) == b"\n".join([b"[]"] * len(texts))


def flat_results(
    rows: Sequence[Sequence[Any]], metrics: Mapping[int, FlatMetrics], shown: ShownNames
) -> dict[int, FlatResult]:
    """Return the results of rows of OUTCOMES by number, but for those that are damaged, or not as
    this release stores them."""
    if not rows:
        return {}
    of = _Columns(*zip(*rows, strict=True))
    measured = [metrics.get(number, _NO_METRICS) for number in of.number]
    environments, reasons = zip(*map(_document, of.document), strict=True)
    *of_metrics, sealed = zip(*measured, strict=True)
    columns = (
        *(of.run_id, of.sweep_id, of.cell_key, of.device, map(shown.device, of.device)),
        *(of.device_kind, of.workload, of.stack, of.scenario, of.validity, of.repeat, of.attempt),
        *(map(bool, of.virtual), map(bool, of.counted), of.started_at, reasons),
        *(map(shown.tags, of.sweep_id), of.knobs, environments, *of_metrics),
    )
    sound = map(eq, map(_seal, _sealed_texts(of, sealed)), of.checksum)
    plain = map(_are_plain, environments, of.knobs)
    made = zip(of.number, map(FlatResult._make, zip(*columns, strict=True)), strict=True)
    return dict(compress(made, map(and_, sound, plain)))


def _are_plain(environment: str, knobs: object) -> bool:
    return environment != "" and _are_knobs(knobs)


def _seal(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:HEX_DIGITS]


def _sealed_texts(of: _Columns, metrics: Sequence[str]) -> Sequence[str]:
    """Return the texts that seal_of_outcome digests."""
    quote, flag = _Quoted().__getitem__, _FLAGS.get
    first = (
        *(of.attempt, map(quote, of.cell_key), map(flag, of.counted), map(quote, of.device)),
        *(map(quote, of.device_kind), of.document, of.knobs, metrics, of.recorded_at),
    )
    others = (
        *(of.repeat, map(quote, of.run_id), map(quote, of.scenario), map(quote, of.stack)),
        *(of.started_at, map(quote, of.sweep_id), map(quote, of.validity), map(flag, of.virtual)),
        map(quote, of.workload),
    )
    # A value of another type than it should have makes another text.
    return [
        f'{{"attempt":{attempt!r},"cell_key":{cell_key},"counted":{counted},"device_id":{device},'
        f'"device_kind":{kind},"document":{document},"knobs":{knobs},"metrics":{{{members}}},'
        f'"recorded_at":{recorded_at!r},"repeat":{repeat!r},"run_id":{run_id},'
        f'"scenario":{scenario},"stack":{stack},"started_at":{started_at!r},"sweep_id":{sweep_id},'
        f'"type":"result","validity":{validity},"virtual":{virtual},"workload":{workload}}}'
        for (
            (attempt, cell_key, counted, device, kind, document, knobs, members, recorded_at),
            (repeat, run_id, scenario, stack, started_at, sweep_id, validity, virtual, workload),
        ) in zip(zip(*first, strict=True), zip(*others, strict=True), strict=True)
    ]


def _document(stored: Any) -> tuple[str, Sequence[str]]:  # noqa: ANN401
    """Return the canonical text of the environment in a plain result's document, and the reasons;
    an empty text of another document."""
    said = _DOCUMENT.fullmatch(stored) if type(stored) is str else None
    if said is None:
        return _NOT_PLAIN
    environment, reasons = said.groups()
    try:
        return environment, () if reasons == "[]" else json.loads(reasons)
    except ValueError:  # an escape that JSON does not have
        return _NOT_PLAIN


@lru_cache(maxsize=4096)
def _are_knobs(stored: object) -> bool:
    """Return whether it is a cell's knobs in canonical JSON; many results are of one cell."""
    return type(stored) is str and _KNOBS.fullmatch(stored) is not None
