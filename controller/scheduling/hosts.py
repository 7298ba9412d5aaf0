"""Training on several hosts: which devices train together, and what becomes of their outcomes.
Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from controller.contracts.base import Scalar
from controller.contracts.device import PLUGINS, Device, DeviceKind
from controller.contracts.facts import Equal, compared_facts
from controller.contracts.result import Blame, Failure, Result, Validity, worst
from controller.contracts.run import Attempt, Partner, PartnerVerdict
from controller.contracts.sweep import Cell
from controller.contracts.units import Unit

HOSTS: Final = "hosts"
"""The knob that says over how many hosts a run's ranks are spread."""
ALIKE: Final = (
    *("cpu_model", "architecture", "microcode", "isa", "isa_unusable", "cores", "logical_cpus"),
    *("cpu_quota", "sockets", "numa_nodes", "hypervisor", "os", "kernel", PLUGINS),
)
"""Facts in which hosts that train together must agree. Memory isn't one: the kernel's own part
differs between like machines."""
SOFTWARE: Final = (
    *compared_facts(Equal.STACK, "training", {}),
    *("benchfarm", "data_sha256", "weights_sha256"),
)
"""Facts of results in which the hosts of a run must agree, too."""
_ENERGY: Final = (Unit.JOULES, Unit.JOULES_PER_STEP)


def hosts_of(knobs: Mapping[str, Scalar]) -> int:
    """Return over how many hosts a cell's ranks are spread; cells leave out the default, 1."""
    return int(knobs[HOSTS]) if HOSTS in knobs else 1


def kind_of_host(device: Device) -> tuple[object, ...]:
    """Return what has to be equal for hosts to train together."""
    facts = (device.facts.get(name) for name in ALIKE)
    # Which CPUs of a host its agent may use doesn't matter, but how many.
    return (device.virtual, device.emulated, len(device.host_cores), *facts)


def like_hosts(devices: Iterable[Device]) -> list[list[Device]]:
    """Return the hosts among devices in groups of like ones, largest first; the order stays."""
    groups: dict[tuple[object, ...], list[Device]] = defaultdict(list)
    for device in devices:
        if device.kind is DeviceKind.CPU_HOST:  # of which a host has one
            groups[kind_of_host(device)].append(device)
    return sorted(groups.values(), key=len, reverse=True)


def chosen_hosts(fitting: Sequence[Device], hosts: int) -> list[Device]:
    """Return the devices of a run, its lead first: all that it needs, or none.

    fitting: free devices, the preferred ones first.
    """
    if hosts == 1:
        return [*fitting[:1]]
    groups = [group for group in like_hosts(fitting) if len(group) >= hosts]
    best = min(groups, key=lambda group: max(map(fitting.index, group[:hosts])), default=[])
    return best[:hosts]


def too_few_hosts(cell: Cell, devices: Sequence[Device]) -> str | None:
    """Return why devices that each fit a cell are too few together; None if they are enough."""
    hosts = hosts_of(cell.knobs)
    groups = like_hosts(devices)
    most = len(groups[0]) if groups else 0
    if hosts == 1 or most >= hosts:
        return None
    fit = "1 host fits" if len(devices) == 1 else f"{len(devices)} hosts fit"
    return f"hosts={hosts} needs {hosts} hosts alike; {fit}, of which {most} are alike"


def as_run_failure(failure: Failure, host: str) -> Failure:
    """Return the failure of one of several hosts as that of the run; host: its name."""
    return failure.model_copy(update={"message": f"on host {host}: {failure.message}"})


def lost_partner(host: str) -> Failure:
    """Return the failure of a run that has lost a partner; host: its name."""
    message = f"host {host} was lost while it trained a share of the ranks"
    return Failure(blame=Blame.HARNESS, kind="lost", message=message)


def verdict_of(result: Result) -> PartnerVerdict:
    """Return what the run needs of a partner's own result."""
    software = {n: v for n, v in result.environment.items() if n in SOFTWARE}
    return PartnerVerdict(validity=result.validity, reasons=result.reasons, software=software)


def of_all_hosts(result: Result, attempt: Attempt, names: Mapping[str, str]) -> Result:
    """Return the lead's result as that of all hosts: as valid as the worst of them.

    The lead's energy is left out, since it is not that of the run. names: agent → its host.
    """
    partners = attempt.partners or ()
    if not partners:
        return result
    own = (result.validity, result.reasons)
    others = (_judged(result, p, names.get(p.agent_id, p.agent_id)) for p in partners)
    found = [own, *others]
    return result.model_copy(
        update={
            "validity": worst(validity for validity, _ in found),
            "reasons": tuple(reason for _, reasons in found for reason in reasons),
            "metrics": {n: m for n, m in result.metrics.items() if m.unit not in _ENERGY},
        }
    )


def _judged(lead: Result, partner: Partner, host: str) -> tuple[Validity, tuple[str, ...]]:
    """Return how a partner's verdict counts for the run."""
    verdict = partner.verdict
    if verdict is None:
        raise ValueError(f"host {host} has not reported")
    reasons = tuple(f"on host {host}: {reason}" for reason in verdict.reasons)
    unlike = tuple(
        f"host {host} ran {name} {value}, its lead {lead.environment.get(name)}"
        for name, value in verdict.software.items()
        if value != lead.environment.get(name)
    )
    validity = Validity.INVALID if unlike else verdict.validity
    return validity, reasons + unlike
