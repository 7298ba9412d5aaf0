"""The conditions of measurements: facts that are equal everywhere, and facts that differ. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from controller.contracts.base import Scalar
from controller.contracts.device import DeviceKind
from controller.contracts.facts import OwnFact, unit_of
from controller.contracts.records import OutcomeOrigin, StoredResult
from controller.contracts.suite_session import MEETS, NOT_VERIFIED
from controller.contracts.units import Unit
from controller.reports.figures import fact_label, shown
from controller.reports.groups import Group
from controller.reports.views.model import Conditions, DeviceName, FactRow, FactTable

Value = Scalar | tuple[Scalar, ...] | None

_KINDS = {DeviceKind.CPU_HOST: "Servers", DeviceKind.ANDROID: "Phones"}

FACTS_A_TABLE = 6
"""Most columns that fit on a printed page."""


@dataclass(frozen=True, slots=True)
class Source:
    """A device (in a comparison: of one subject) with each value of a fact in its results."""

    device: DeviceName
    subject: str
    facts: Mapping[str, Sequence[Value]]
    units: Mapping[str, str | None]
    """Of each of them."""


def device_name(origin: OutcomeOrigin, outcomes: Sequence[OutcomeOrigin]) -> DeviceName:
    """Return a device's name, with its model and whether it is emulated, from its outcomes."""
    model = next((text for one in outcomes if (text := _model(one.environment))), "")
    emulated = any(one.emulated for one in outcomes)
    return DeviceName(
        id=origin.device,
        virtual=origin.virtual,
        model=model,
        emulated=emulated,
        name=origin.device_name,
        imported_from=origin.imported_from,
    )


def _model(environment: Mapping[str, Value]) -> str:
    names = ("cpu_model",) if environment.get("cpu_model") else ("manufacturer", "model", "soc")
    return " ".join(str(environment[name]) for name in names if environment.get(name))


def conditions_of(groups: Sequence[Group], own: Mapping[str, OwnFact]) -> tuple[Conditions, ...]:
    """Return the facts of all results that count, VALID or not, for each kind of device.

    own: what the catalogue's stacks and scenarios declare.
    """
    kinds = dict.fromkeys(group.origin.device_kind for group in groups)
    of_kind = ([g for g in groups if g.origin.device_kind is kind] for kind in kinds)
    found = ((kind, _sources(of, own)) for kind, of in zip(kinds, of_kind, strict=True))
    return tuple(_conditions(kind, sources) for kind, sources in found if sources)


def _conditions(kind: DeviceKind, sources: Sequence[Source]) -> Conditions:
    same: list[tuple[str, str]] = []
    between: list[str] = []
    within: list[str] = []
    for name in dict.fromkeys(name for source in sources for name in source.facts):
        found = [source.facts.get(name, ()) for source in sources]
        if all(len(values) == 1 and values == found[0] for values in found):
            same.append((fact_label(name), fact_text(found[0][0], sources[0].units[name])))
            continue
        (within if any(len(values) > 1 for values in found) else between).append(name)
        if everywhere := _in_all(name, sources):
            same.append((f"{name}, in all", ", ".join(sorted(map(str, everywhere)))))
    return Conditions(
        kind=_KINDS[kind],
        devices=tuple({source.device.id: source.device for source in sources}.values()),
        same=tuple(same),
        differing=(
            *_tables("Differs between devices", between, sources),
            *_tables("Changes from run to run", within, sources),
        ),
        note=NOT_VERIFIED if any(True in s.facts.get(MEETS, ()) for s in sources) else "",
    )


def _sources(groups: Sequence[Group], own: Mapping[str, OwnFact]) -> list[Source]:
    results: dict[tuple[str, str], list[StoredResult]] = {}
    for group in groups:
        results.setdefault((group.origin.device, group.subject), []).extend(group.results)
    sources = []
    for (_, subject), of in results.items():
        if of:
            facts = _values(of)
            units = {name: unit_of(name, own) for name in facts}
            sources.append(Source(device_name(of[0], of), subject, facts, units))
    return sources


def _values(results: Iterable[StoredResult]) -> dict[str, list[Value]]:
    values: dict[str, list[Value]] = {}
    for result in results:
        for name, value in result.environment.items():
            known = values.setdefault(name, [])
            if value not in known:
                known.append(value)
    return values


def _tables(title: str, names: Sequence[str], sources: Sequence[Source]) -> list[FactTable]:
    chunks = [tuple(names[n : n + FACTS_A_TABLE]) for n in range(0, len(names), FACTS_A_TABLE)]
    titles = [f"{title}, {n} of {len(chunks)}" for n in range(1, len(chunks) + 1)]
    titles = [title] if len(chunks) == 1 else titles
    return [
        FactTable(name, tuple(map(fact_label, facts)), _rows(facts, sources))
        for name, facts in zip(titles, chunks, strict=True)
    ]


def _rows(facts: Sequence[str], sources: Sequence[Source]) -> tuple[FactRow, ...]:
    return tuple(
        FactRow(s.device, s.subject, tuple(_cell(fact, s, sources) for fact in facts))
        for s in sources
    )


def _cell(name: str, source: Source, sources: Sequence[Source]) -> str:
    values = source.facts.get(name, ())
    if not values:
        return "–"
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    unit = source.units[name]
    if len(values) == len(numbers) > 1:
        return f"{fact_text(min(numbers), unit)} – {fact_text(max(numbers), unit)}"
    everywhere = _in_all(name, sources)
    return ", ".join(_apart(value, unit, everywhere) for value in values)


def _in_all(name: str, sources: Sequence[Source]) -> frozenset[Scalar]:
    """Return the items that every source has in this fact, if its values are lists."""
    lists = [set(v) for s in sources for v in s.facts.get(name, ()) if isinstance(v, tuple)]
    return frozenset(set.intersection(*lists)) if lists else frozenset()


def _apart(value: Value, unit: str | None, everywhere: frozenset[Scalar]) -> str:
    if not isinstance(value, tuple) or not everywhere:
        return fact_text(value, unit)
    rest = [str(item) for item in value if item not in everywhere]
    return f"{len(everywhere)} in all" + "".join(f", {item}" for item in rest)


def fact_text(value: Value, unit: str | None) -> str:
    """Return a fact's value for people, with its declared unit."""
    if value is None:
        return "not readable"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    if unit in (None, Unit.FRACTION) or isinstance(value, str):
        return text
    return shown(value, Unit.BYTES) if unit == Unit.BYTES else f"{text} {unit}"
