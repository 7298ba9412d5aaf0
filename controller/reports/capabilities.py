"""What devices can run, and with which delegate, from measured outcomes. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from controller.contracts.capability import Capability, of_stored
from controller.contracts.records import StoredFailure, StoredResult


def capabilities(outcomes: Iterable[StoredResult | StoredFailure]) -> list[Capability]:
    """Return the capability shown by the newest outcome of each kind.

    A kind is a task, stack, delegate and number format on one build of one device. The list is
    sorted by device and kind; the builds of a device are in order of first appearance.
    """
    said = [one for outcome in outcomes if (one := of_stored(outcome))]
    said.sort(key=lambda one: one.at)
    seen = dict.fromkeys((one.device, one.build) for one in said)
    places = {build: place for place, build in enumerate(seen)}
    newest = {(*_kind(one), one.build): one for one in said}
    return sorted(newest.values(), key=lambda one: (*_kind(one), places[one.device, one.build]))


def _kind(one: Capability) -> tuple[str, ...]:
    return one.device, one.workload, one.stack, one.delegate, one.numerics
