"""What devices can run, and with which delegate, from measured outcomes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

from controller.contracts.capability import Capability, of_stored
from controller.contracts.records import StoredFailure, StoredResult


def capabilities(outcomes: Sequence[StoredResult | StoredFailure]) -> list[Capability]:
    """Return the capability shown by the newest outcome of each kind.

    outcomes: the results in the order of storing, and so the failures.

    A kind is a task, stack, delegate and number format on one build of one device. The list is
    sorted by device and kind; the builds of a device are in order of first appearance.
    """
    said = _by_age(outcomes)
    seen = dict.fromkeys((one.device, one.build) for one in said)
    places = {build: place for place, build in enumerate(seen)}
    newest = {(*_kind(one), one.build): one for one in said}
    return sorted(newest.values(), key=lambda one: (*_kind(one), places[one.device, one.build]))


def _by_age(outcomes: Sequence[StoredResult | StoredFailure]) -> list[Capability]:
    """Return what outcomes show, oldest first.

    Between a result and a failure, the times tell, which are by the head's clock. Of those of one
    device, none counts as newer than one stored after it: the clock was ahead then.
    """
    aged: list[tuple[float, Capability]] = []
    ends: dict[tuple[type, str], float] = {}
    for outcome in reversed(outcomes):
        if one := of_stored(outcome):
            of = type(outcome), one.device
            ends[of] = min(one.at, ends.get(of, one.at))
            aged.append((ends[of], one))
    aged.reverse()
    return [one for _, one in sorted(aged, key=itemgetter(0))]


def _kind(one: Capability) -> tuple[str, ...]:
    return one.device, one.workload, one.stack, one.delegate, one.numerics
