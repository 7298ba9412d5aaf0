"""The baseline of the newest results: by device, and by stack on one device. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from typing import TypeVar

from controller.contracts.device import Device
from controller.contracts.manifests import StackManifest
from controller.metrics.newest import ResultKey

BASELINE_LABEL = "baseline"
"""Label by which a device's owner makes it the baseline, with `yes`."""
PLAIN_PRECISION = "fp32"
Order = TypeVar("Order", bound=tuple[object, ...])


def baseline_devices(
    keys: Collection[ResultKey], devices: Mapping[str, Device]
) -> Iterator[ResultKey]:
    """Yield, of each work, stack and precision, the key of the baseline device.

    Nothing if only one device has results. The baseline is the device with label `baseline=yes`,
    else a real one, else the first by name.
    """

    def order(key: ResultKey) -> tuple[bool, bool, str]:
        device = devices[key.device]
        return device.labels.get(BASELINE_LABEL) != "yes", device.virtual, device.id

    return _first_of_each(keys, lambda key: key[1:], order)


def baseline_stacks(
    keys: Collection[ResultKey], stacks: Mapping[str, StackManifest]
) -> Iterator[ResultKey]:
    """Yield, of each device and work, the key of the baseline stack and precision.

    Nothing if there is only one. The baseline is a stack whose manifest sets `baseline`, else the
    first by name; in fp32, else the first precision by name.
    """

    def order(key: ResultKey) -> tuple[bool, str, bool, str]:
        known = stacks.get(key.stack)  # the manifest of its stack may be gone
        is_baseline = known is not None and known.baseline
        return not is_baseline, key.stack, key.precision != PLAIN_PRECISION, key.precision

    return _first_of_each(keys, _device_and_work, order)


def _device_and_work(key: ResultKey) -> tuple[str, ...]:
    return key.device, key.workload, key.scenario, key.work


def _first_of_each(
    keys: Collection[ResultKey],
    group: Callable[[ResultKey], Hashable],
    order: Callable[[ResultKey], Order],
) -> Iterator[ResultKey]:
    groups: defaultdict[Hashable, list[ResultKey]] = defaultdict(list)
    for key in keys:
        groups[group(key)].append(key)
    for members in groups.values():
        if len(members) > 1:
            yield min(members, key=order)
