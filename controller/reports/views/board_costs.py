"""What an amount of a task costs on devices whose labels say their prices. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Final

from controller.contracts.catalog import Catalog
from controller.contracts.published import PRICE
from controller.contracts.records import StoredResult
from controller.reports.groups import Group
from controller.reports.training_plan import hosts_of
from controller.reports.views.board_model import Cost

HOUR_S: Final = 3600.0
MILLION: Final = 1_000_000
STEPS: Final = 1000
_NUMBER: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
_BATCH: Final = "batch_size"
_STEP: Final = "step_time"
_MEAN: Final = "latency_mean"
"""Queries come one after another, so a million take a million mean latencies."""
_RATE: Final = "throughput"


@dataclass(frozen=True, slots=True)
class Prices:
    """What an hour costs on each device with a price, by its id; and what is wrong with others."""

    an_hour: Mapping[str, float]
    faults: tuple[str, ...]


def prices_of(labels: Mapping[str, Mapping[str, str]]) -> Prices:
    """Return the prices in the labels of devices. labels: device id → its labels."""
    an_hour, faults = {}, []
    for device, own in sorted(labels.items()):
        if (text := own.get(PRICE)) is None:
            continue
        if _NUMBER.fullmatch(text) and float(text) > 0:
            an_hour[device] = float(text)
        else:
            seen = f"label {PRICE} of {device} is {text!r}, not a number above 0 such as 0.34"
            faults.append(f"No cost: {seen}.")
    return Prices(an_hour, tuple(faults))


def price_of(group: Group, prices: Prices) -> tuple[float | None, str]:
    """Return what an hour on all hosts of a row costs, and why that is unknown though it matters.

    Virtual devices, rows without a VALID result and those without any price have neither.
    """
    if group.origin.virtual or not group.valid:
        return None, ""
    teams = [hosts_of(result) for result in group.shown]
    devices = {device: name for team in teams for device, name in team.items()}
    if not devices.keys() & prices.an_hour.keys():
        return None, ""
    named = f"No cost: {group.origin.device_label} trained"
    if any(len(team) < _hosts(r) for team, r in zip(teams, group.shown, strict=True)):
        return None, f"{named} {group.origin.workload} on hosts that its results do not name."
    if any(team.keys() != devices.keys() for team in teams):
        return None, f"{named} {group.origin.workload} with other hosts in each repeat."
    if missing := [name for device, name in devices.items() if device not in prices.an_hour]:
        lacking = f"no price of {', '.join(missing)} (label {PRICE})"
        return None, f"{named} {group.origin.workload} on {len(devices)} hosts; {lacking}."
    return sum(prices.an_hour[device] for device in devices), ""


def _hosts(result: StoredResult) -> int:
    """Return how many hosts a result is of, by its knobs and by the names that it has."""
    asked, names = result.knobs.get("hosts"), result.environment.get("hosts")
    told = len(names) if isinstance(names, tuple) else 1
    return max(told, asked) if isinstance(asked, int) else told


def costs_of(group: Group, metric: str, price: float | None, catalog: Catalog) -> tuple[Cost, ...]:
    """Return what a row costs; nothing without a price or a VALID result, or on virtual devices.

    metric: the one that ranks the row's scenario. price: see price_of.
    """
    if price is None or group.origin.virtual or not group.valid:
        return ()
    return tuple(
        Cost(price * seconds / HOUR_S, of, price, name, value)
        for seconds, of, name, value in _times(group, metric, catalog)
        if math.isfinite(seconds) and seconds > 0
    )


def _times(group: Group, metric: str, catalog: Catalog) -> Iterator[tuple[float, str, str, float]]:
    """Yield seconds for an amount, the amount, and the metric and value that say it."""
    name = _MEAN if metric.startswith("latency") else metric
    values = group.values(name)
    if not values or (value := median(values)) <= 0:
        return
    if name == _STEP:
        yield value * STEPS, f"{STEPS} steps", name, value
        if steps := _steps_an_epoch(group, catalog):
            yield value * steps, "epoch", name, value
    if name == _MEAN:
        yield value * MILLION, "million queries", name, value
    if name == _RATE:
        yield MILLION / value, "million samples", name, value


def _steps_an_epoch(group: Group, catalog: Catalog) -> int:
    """Return how many steps pass over the training set once; 0 if that is not known."""
    workload = catalog.workloads.get(group.origin.workload)
    batch = group.origin.knobs.get(_BATCH)
    if workload is None or workload.convergence is None:
        return 0
    if not isinstance(batch, int) or isinstance(batch, bool) or batch < 1:
        return 0
    return math.ceil(workload.convergence.samples / batch)
