"""Flat results from the columns of their rows, each checked against its checksum. Pure.

A checksum is that of the record's canonical JSON, see sealing.py; here that text is put together
from the columns' own texts. Whatever is not as this release stores a plain result is None here, so
that it is read as a contract, which says what is wrong with it, if anything is: a checksum that
does not match, a comparison, a profile, a word that is unknown.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from itertools import chain
from json.encoder import encode_basestring_ascii as quoted
from types import NoneType
from typing import Any, Final

from controller.contracts.base import parsed_json
from controller.contracts.device import DeviceKind
from controller.contracts.flat_result import FlatMetric, FlatResult
from controller.contracts.result import Result, Validity
from controller.contracts.units import Unit
from controller.store.naming import ShownNames
from controller.store.rows import OUTCOME_COLUMNS
from controller.store.sealing import HEX_DIGITS

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
"""What `flat_result` takes of results of some numbers, which are a JSON list, after the number."""
MEASUREMENTS: Final = f"""
SELECT o.number, m.name, m.value, m.unit, m.samples
FROM outcomes AS o
CROSS JOIN measurements AS m
    ON m.run_id = o.run_id AND m.attempt = o.attempt AND m.counted = o.counted
WHERE {_OF_NUMBERS}
"""
"""What `metrics_by_number` takes."""

DOCUMENT: Final = Result.model_fields.keys() - {"metrics", *OUTCOME_COLUMNS}
_VALIDITIES: Final = frozenset(validity.value for validity in Validity)
_KINDS: Final = frozenset(kind.value for kind in DeviceKind)
_UNITS: Final = frozenset(unit.value for unit in Unit)
_TEXT: Final[frozenset[type]] = frozenset({str})
_SCALARS: Final[frozenset[type]] = frozenset({bool, int, float, str})
_FACTS: Final[frozenset[type]] = _SCALARS | {NoneType, list}
_FLAGS: Final = {0: "false", 1: "true"}
_NUMBERS: Final = b"-+.,0123456789eE"
_encoded: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode
"""As canonical_json, without an encoder for each call."""

Metrics = Sequence[FlatMetric | None]
"""Those of a result by name; None stands for one that is not as this release stores it."""


def metrics_by_number(rows: Iterable[tuple[Any, ...]]) -> Mapping[int, Metrics]:
    """Return the metrics of results by their numbers, from rows of MEASUREMENTS."""
    found: dict[int, list[FlatMetric | None]] = defaultdict(list)
    for number, name, value, unit, samples in rows:
        found[number].append(_metric(name, value, unit, samples))
    return found


def _metric(name: Any, value: Any, unit: Any, samples: Any) -> FlatMetric | None:  # noqa: ANN401
    if type(name) is not str or unit not in _UNITS or type(samples) is not str:
        return None
    numbers = samples.replace(", ", ",")
    # Of anything else, the same text might be put together from other columns.
    if numbers.encode().translate(None, _NUMBERS) != b"[]":
        return None
    return FlatMetric(name, value, unit, numbers)


def flat_result(row: Sequence[Any], metrics: Metrics, shown: ShownNames) -> FlatResult | None:
    """Return the result of a row of OUTCOMES, without its number; None if it is damaged, or not as
    this release stores it."""
    try:
        return _flat_result(row, metrics, shown)
    except (TypeError, ValueError, RecursionError):  # no text, or no JSON
        return None


def _flat_result(row: Sequence[Any], metrics: Metrics, shown: ShownNames) -> FlatResult | None:
    checksum, run_id, sweep_id, cell_key, device, kind, *columns = row
    workload, stack, scenario, validity, repeat, attempt, virtual, counted, started_at = columns[:9]
    said, knobs, known = _document(row[-1]), _knobs(row[-2]), [one for one in metrics if one]
    if said is None or knobs is None or validity not in _VALIDITIES or kind not in _KINDS:
        return None
    document, environment, reasons = said
    text = _sealed_text(row, known, knobs, document)
    if sha256(text.encode()).hexdigest()[:HEX_DIGITS] != checksum or len(known) < len(metrics):
        return None
    return FlatResult(
        *(run_id, sweep_id, cell_key, device, shown.device(device), kind),
        *(workload, stack, scenario, validity, repeat, attempt, virtual == 1, counted == 1),
        *(started_at, reasons, shown.tags(sweep_id), knobs, environment, known),
    )


def _sealed_text(
    row: Sequence[Any], metrics: Iterable[FlatMetric], knobs: str, document: str
) -> str:
    """Return the text that seal_of_outcome digests, from a row and canonical texts.

    Keys are in their order; a value of another type than it should have has another text.
    """
    _, run_id, sweep_id, cell_key, device, kind, workload, stack, scenario, *columns = row
    validity, repeat, attempt, virtual, counted, started_at, recorded_at, _, _ = columns
    measured = [
        f'{quoted(m.name)}:{{"samples":{m.samples},"unit":{quoted(m.unit)},"value":{m.value!r}}}'
        for m in metrics
    ]
    return (
        f'{{"attempt":{attempt!r},"cell_key":{quoted(cell_key)},"counted":{_FLAGS.get(counted)},'
        f'"device_id":{quoted(device)},"device_kind":{quoted(kind)},"document":{document},'
        f'"knobs":{knobs},"metrics":{{{",".join(measured)}}},"recorded_at":{recorded_at!r},'
        f'"repeat":{repeat!r},"run_id":{quoted(run_id)},"scenario":{quoted(scenario)},'
        f'"stack":{quoted(stack)},"started_at":{started_at!r},"sweep_id":{quoted(sweep_id)},'
        f'"type":"result","validity":{quoted(validity)},"virtual":{_FLAGS.get(virtual)},'
        f'"workload":{quoted(workload)}}}'
    )


def _document(stored: Any) -> tuple[str, str, list[str]] | None:  # noqa: ANN401
    """Return the canonical text of a result's document, that of its environment, and its
    reasons."""
    said = parsed_json(stored)
    if type(said) is not dict or said.keys() != DOCUMENT:
        return None
    reasons, pairs = said["reasons"], said["pairs"]
    files, hashes = _scalars(said["artefacts"], _TEXT), _scalars(said["checksums"], _TEXT)
    environment = _scalars(said["environment"], _FACTS)
    if environment is None or files is None or hashes is None or type(reasons) is not list:
        return None
    if pairs != [] or said["profile"] is not None or not _TEXT.issuperset(map(type, reasons)):
        return None
    text = (
        f'{{"artefacts":{files},"checksums":{hashes},"environment":{environment},'
        f'"pairs":[],"profile":null,"reasons":{_encoded(reasons) if reasons else "[]"}}}'
    )
    return (text, environment, reasons) if _has_values(text) else None


@lru_cache(maxsize=4096)
def _knobs(stored: str) -> str | None:
    """Return the canonical text of a cell's knobs; many results are of one cell."""
    text = _scalars(json.loads(stored), _SCALARS)
    return text if text is not None and _has_values(text) else None


def _has_values(text: str) -> bool:
    """Return whether a JSON text has surely no value that contracts refuse: neither NaN nor half a
    character."""
    return not ("NaN" in text or "Infinity" in text or "\\ud" in text)


def _scalars(mapping: Any, types: frozenset[type]) -> str | None:  # noqa: ANN401
    """Return the canonical text of a mapping to values of some types; None if it is another."""
    if type(mapping) is not dict:
        return None
    if not mapping:
        return "{}"
    found = {*map(type, mapping.values())}
    if not found <= types:
        return None
    if list in found:
        lists = [value for value in mapping.values() if type(value) is list]
        if not _SCALARS.issuperset(map(type, chain.from_iterable(lists))):
            return None
    return _encoded(mapping)
