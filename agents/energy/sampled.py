"""Energy of a device from the sampler's readings. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from agents.energy.account import Account, Used, account
from agents.energy.battery import of_charge, of_current
from agents.energy.rails import of_rail, rail_facts, rails_of
from agents.energy.rapl import SAMPLED, of_rapl
from agents.energy.readings import Reading
from agents.energy.trace import EnergyUnknownError, Span
from controller.contracts.units import Unit

Source = Callable[[Sequence[Reading], Span], Used]
"""Returns the energy of a span; raises EnergyUnknownError."""


def energy_of(readings: Sequence[Reading], span: Span, rest: Span | None, queries: int) -> Account:
    """Return a result's energy, from the first source that gives most of it."""
    told = [_account(source, readings, span, rest, queries) for source in _sources(readings)]
    if not told:
        why = "neither a battery nor a counter of energy can be read"
        return Account({}, {"energy_unknown": why})
    rails = rail_facts(readings, span)
    best = max(told, key=lambda found: len(found.metrics))
    if best.metrics:
        return Account(best.metrics, {**best.facts, **rails})
    reasons = dict.fromkeys(str(found.facts["energy_unknown"]) for found in told)
    return Account({}, {"energy_unknown": "; ".join(reasons), **rails})


def _sources(readings: Sequence[Reading]) -> Iterator[Source]:
    names = {name for reading in readings for name in reading.values}
    if rails_of(readings):
        yield of_rail
    if any(name.startswith(SAMPLED) for name in names):
        yield of_rapl
    if any(name.startswith("battery_") for name in names):
        yield of_current
        yield of_charge


def _account(
    source: Source, readings: Sequence[Reading], span: Span, rest: Span | None, queries: int
) -> Account:
    def at_rest() -> Used:
        if rest is None:
            raise EnergyUnknownError("not measured")
        return source(readings, rest)

    return account(lambda: source(readings, span), at_rest, queries, Unit.JOULES_PER_QUERY)
