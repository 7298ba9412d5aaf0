"""The gauges of one scrape, from the state of farm and store. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from controller.contracts.capability import Capability
from controller.contracts.catalog import Catalog
from controller.contracts.device import (
    EMULATED,
    Device,
    DeviceStatus,
    RegisteredAgent,
    RegisteredDevice,
    build_of,
    likeness,
    shown_names,
)
from controller.contracts.run import Run
from controller.contracts.work import Work
from controller.metrics import names
from controller.metrics.baselines import baseline_devices, baseline_stacks
from controller.metrics.families import Gauge, Sample
from controller.metrics.newest import DelegateKey, Newest, ResultKey, target_of

Results = Mapping[ResultKey, Newest]
Capabilities = Mapping[DelegateKey, Capability]


@dataclass(frozen=True, slots=True)
class NewestOutcomes:
    """The newest outcomes; immutable, like FarmState."""

    results: Results
    capabilities: Capabilities


@dataclass(frozen=True, slots=True)
class FarmState:
    """A farm's agents, devices and open runs; immutable, so that another thread may read it."""

    now: float
    """Seconds since the epoch."""
    agents: tuple[RegisteredAgent, ...]
    devices: tuple[RegisteredDevice, ...]
    open_runs: tuple[Run, ...]
    statuses: Mapping[str, DeviceStatus]
    """Device id → status."""


def farm_gauges(state: FarmState, newest: NewestOutcomes, catalog: Catalog) -> Iterator[Gauge]:
    """Yield every gauge of the controller, including those without a series."""
    devices = {known.device.id: known.labelled for known in state.devices}
    results = of_devices(newest.results, devices)
    yield from _fleet(state)
    yield from _queue(state)
    yield from _results(results, catalog)
    yield from _delegates(newest.capabilities, devices, catalog)
    yield from _profiles(results)
    yield from _comparison(results, devices, catalog)


def of_devices(results: Results, devices: Mapping[str, Device]) -> Results:
    """Return results as they are exported: of devices that are known, virtual ones' work marked.

    A device that no longer exists takes its results with it. Emulated devices have none.
    """
    return {
        key._replace(work=f"{key.work}{names.VIRTUAL_WORK}") if device.virtual else key: it
        for key, it in results.items()
        if (device := devices.get(key.device)) and not device.emulated
    }


def _fleet(state: FarmState) -> Iterator[Gauge]:
    agents = {known.agent.id: known for known in state.agents}
    yield Gauge(names.AGENT_UP, (((id_,), known.online) for id_, known in agents.items()))
    yield Gauge(names.AGENT_HOLD, ((key, 1) for known in state.agents for key in _holds(known)))
    shown = shown_names(known.labelled for known in state.devices)
    yield Gauge(names.DEVICE_INFO, ((_info(known, shown, agents), 1) for known in state.devices))
    states = (((id_, now.state.value), 1) for id_, now in state.statuses.items())
    yield Gauge(names.DEVICE_STATE, states)


def _holds(known: RegisteredAgent) -> Iterator[tuple[str, str]]:
    if known.draining:
        yield known.agent.id, "drained"
    if known.revoked:
        yield known.agent.id, "revoked"


def _info(
    known: RegisteredDevice, shown: Mapping[str, str], agents: Mapping[str, RegisteredAgent]
) -> Sequence[str]:
    device, agent = known.device, agents.get(known.agent_id)
    return (
        device.id,
        shown[device.id],
        device.kind.value,
        str(device.attribute("model") or device.attribute("cpu_model") or "")
        + (f" ({EMULATED})" if device.emulated else ""),
        str(device.attribute("soc") or ""),
        str(device.virtual).lower(),
        agent.agent.host if agent else "",
        known.agent_id,
    )


def _queue(state: FarmState) -> Iterator[Gauge]:
    counts = Counter(run.lease is not None for run in state.open_runs)
    waiting = [run.waits_since for run in state.open_runs if run.lease is None]
    yield Gauge(names.RUNS_QUEUED, [((), counts[False])])
    yield Gauge(names.RUNS_LEASED, [((), counts[True])])
    oldest = max(0.0, state.now - min(waiting, default=state.now))
    yield Gauge(names.QUEUE_OLDEST, [((), oldest)])
    sweeps = Counter((run.sweep_id.rpartition("-")[0], run.state.value) for run in state.open_runs)
    yield Gauge(names.SWEEP_RUNS, sweeps.items())


def _results(results: Results, catalog: Catalog) -> Iterator[Gauge]:
    valid = [(key, it.valid) for key, it in results.items() if it.valid]
    targets = {name: w.quality_target for name, w in catalog.workloads.items() if w.quality_target}
    yield Gauge(names.RESULT, figures_of(results, catalog))
    yield Gauge(names.RESULT_TIME, ((key, result.recorded_at) for key, result in valid))
    yield Gauge(names.RESULT_INTERVAL, _intervals(results, catalog))
    tasks = {key.work: _task(key, it.work, catalog) for key, it in results.items()}
    yield Gauge(names.WORK_INFO, ((told, 1) for told in tasks.items()))
    yield Gauge(names.QUALITY_TARGET, (((name, t.metric), t.value) for name, t in targets.items()))
    judged = (
        (key, it.judged.metrics[target.metric].value < target.value)
        for key, it in results.items()
        if it.judged and (target := target_of(it.judged, catalog))
    )
    yield Gauge(names.QUALITY_MISSED, judged)


def _task(key: ResultKey, work: Work, catalog: Catalog) -> str:
    virtual = key.work.endswith(names.VIRTUAL_WORK)
    return f"{work.title(catalog)}{likeness(virtual=virtual, emulated=False)}"


def figures_of(results: Results, catalog: Catalog) -> Iterator[Sample]:
    """Yield the samples of names.RESULT: of each metric the figure that a sweep's table has."""
    for key, it in results.items():
        medians = dict(it.medians)
        if ranked := it.ranked:
            medians[catalog.ranked_by(key.scenario)] = ranked.median
        for metric, value in medians.items():
            yield (*key, metric), value


def _intervals(results: Results, catalog: Catalog) -> Iterator[Sample]:
    for key, it in results.items():
        if (ranked := it.ranked) and ranked.factor is not None:
            yield (*key, catalog.ranked_by(key.scenario)), ranked.factor


def _delegates(
    capabilities: Capabilities, devices: Mapping[str, Device], catalog: Catalog
) -> Iterator[Gauge]:
    """Yield the delegates' outcomes on the build that each device runs now.

    Delegates that no manifest lists are left out, since free text would create unlimited series.
    """
    known = [
        (key, it)
        for key, it in capabilities.items()
        if (device := devices.get(key.device)) and it.build == build_of(device.facts)
        if _is_listed(key, catalog)
    ]
    yield Gauge(names.DEVICE_CAPABILITY, ((key, it.rank) for key, it in known))
    shares = ((key, it.share) for key, it in known if it.share is not None)
    yield Gauge(names.DEVICE_DELEGATED, shares)


def _is_listed(key: DelegateKey, catalog: Catalog) -> bool:
    stack = catalog.stacks.get(key.stack)
    knob = stack.knobs.get("delegate") if stack else None
    return stack is not None and (knob is None or key.delegate in (knob.choices or ()))


def _profiles(results: Results) -> Iterator[Gauge]:
    found = [
        (key, it.profiled.profile)
        for key, it in results.items()
        if it.profiled and it.profiled.profile
    ]
    primitives = (
        ((*key, top.primitive, top.direction or "none"), top.seconds)
        for key, profile in found
        for top in profile.top
    )
    yield Gauge(names.PROFILE_PRIMITIVE, primitives)
    efficiency = ((key, p.efficiency) for key, p in found if p.efficiency is not None)
    yield Gauge(names.PROFILE_EFFICIENCY, efficiency)
    headroom = ((key, p.headroom_s) for key, p in found if p.headroom_s is not None)
    yield Gauge(names.PROFILE_HEADROOM, headroom)


def _comparison(
    results: Results, devices: Mapping[str, Device], catalog: Catalog
) -> Iterator[Gauge]:
    ranked = [key for key, it in results.items() if it.repeats]
    yield Gauge(names.BASELINE_DEVICE, ((key, 1) for key in baseline_devices(ranked, devices)))
    yield Gauge(names.BASELINE_STACK, ((key, 1) for key in baseline_stacks(ranked, catalog.stacks)))
    yield Gauge(names.RANKING, _directions(results, catalog).items())


def _directions(results: Results, catalog: Catalog) -> dict[tuple[str, str], float]:
    """Return the better direction for each scenario and ranking metric, from the unit.

    Of scenarios that measure no speed there is none, and so no ratio.
    """
    directions: dict[tuple[str, str], float] = {}
    for key, it in results.items():
        scenario = catalog.scenarios.get(key.scenario)
        newest = it.valid or it.latest
        measured = newest.metrics.get(scenario.metric) if scenario and newest else None
        if scenario and scenario.compares_speed and measured:
            better = -1.0 if measured.unit.lower_is_better else 1.0
            directions[scenario.name, scenario.metric] = better
    return directions
