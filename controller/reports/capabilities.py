"""What devices can run, and on which delegate really: from what was measured on them. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from controller.contracts.capability import Capability, of_stored
from controller.contracts.records import StoredFailure, StoredResult


def capabilities(outcomes: Iterable[StoredResult | StoredFailure]) -> list[Capability]:
    """Return what the newest outcome of each kind says.

    A kind is a task, stack, delegate and number format on one build of one device. The list is in
    the order of devices and kinds; of the builds of a device the one that was seen first is first.
    """
    said = [one for outcome in outcomes if (one := of_stored(outcome))]
    said.sort(key=lambda one: one.at)
    seen = dict.fromkeys((one.device, one.build) for one in said)
    places = {build: place for place, build in enumerate(seen)}
    newest = {(*_kind(one), one.build): one for one in said}
    return sorted(newest.values(), key=lambda one: (*_kind(one), places[one.device, one.build]))


def _kind(one: Capability) -> tuple[str, ...]:
    return one.device, one.workload, one.stack, one.delegate, one.numerics
