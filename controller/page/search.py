"""Search by a part of a name: sweeps, devices, runs, workloads, stacks and scenarios."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final
from urllib.parse import quote, urlencode

from pydantic import Field

from controller.api.queries import NoQuery
from controller.api.reads import Reading
from controller.contracts.records import SweepRecord

MOST: Final = 20
"""Shown of each kind."""
LEAST_OF_A_RUN: Final = 4
"""Characters from which on runs are searched for."""


class SearchQuery(NoQuery):
    """Parameters of a search."""

    q: str = Field(default="", max_length=100, description="Part of a name.")


@dataclass(frozen=True, slots=True)
class Hit:
    """Something that was found."""

    kind: str
    name: str
    address: str
    more: str = ""


def search(farm: Reading, asked: SearchQuery) -> Sequence[Hit]:
    """Return what has a text in its name, the newest sweeps first."""
    text = asked.q.strip().casefold()
    if not text:
        return ()
    return [
        *islice(_sweeps(farm, text), MOST),
        *islice(_devices(farm, text), MOST),
        *islice(_runs(farm, asked.q.strip()), MOST),
        *islice(_kinds(farm, text), MOST),
    ]


def _has(text: str, words: Iterable[str]) -> bool:
    return any(text in word.casefold() for word in words)


def _sweeps(farm: Reading, text: str) -> Iterator[Hit]:
    said = farm.store.annotations()
    for record in reversed(farm.store.sweeps()):
        tags = said[record.sweep_id].tags if record.sweep_id in said else ()
        if _has(text, (record.sweep_id, record.user, record.sweep.description, *tags)):
            yield Hit("sweep", record.sweep_id, f"/sweeps/{_part(record.sweep_id)}", _of(record))


def _of(record: SweepRecord) -> str:
    return f"{', '.join(record.sweep.workload)} by {record.user}"


def _devices(farm: Reading, text: str) -> Iterator[Hit]:
    for known in farm.store.fleet()[1]:
        device = known.labelled
        labels = [f"{name}={value}" for name, value in device.labels.items()]
        model = str(device.facts.get("cpu_model") or device.facts.get("model") or "")
        if _has(text, (device.id, device.shown, model, *labels)):
            more = " ".join(word for word in (device.likeness.strip(), model) if word)
            yield Hit("device", device.shown, f"/devices/{_part(device.id)}", more)


def _runs(farm: Reading, text: str) -> Iterator[Hit]:
    if len(text) >= LEAST_OF_A_RUN:
        for run_id in farm.store.runs_beginning(text, MOST):
            yield Hit("run", run_id, f"/runs/{_part(run_id)}")


def _kinds(farm: Reading, text: str) -> Iterator[Hit]:
    kinds = farm.store.measured_kinds()
    for kind in ("workload", "stack", "scenario"):
        for name in sorted({getattr(one, kind) for one in kinds}):
            if _has(text, (name,)):
                yield Hit(kind, name, f"/results?{urlencode({kind: name})}")


def _part(id_: str) -> str:
    return quote(id_, safe="")
