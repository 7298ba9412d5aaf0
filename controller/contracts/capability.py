"""What a delegate did in a run that asked for it, from the run's outcome. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Final, Protocol

from controller.contracts.audit import audit_of
from controller.contracts.base import Contract, Scalar, Timestamp
from controller.contracts.device import build_of
from controller.contracts.records import StoredFailure, StoredResult, precision_of
from controller.contracts.result import Blame, Environment, Failure, Outcome
from controller.contracts.run import OutcomeRecord, Run

NONE: Final = "none"
"""The delegate of a run that asks for the runtime's own kernels."""
AUTO: Final = "auto"
"""The delegate of a run that leaves the choice to the runtime."""
SWITCHES = {
    "use_gpu": "gpu",
    "use_nnapi": "nnapi",
    "external_delegate": "external",
}
"""Boolean knobs of `benchmark-model` → the delegate that each asks for."""
DELEGATE_KNOBS = ("delegate", "use_xnnpack", *SWITCHES)
OF_THE_DEVICE = frozenset({Blame.WORKLOAD, Blame.DEVICE})
"""Blames whose failures show what the device can run; failures of the harness or the user don't."""
NOT_SAID = frozenset(
    {
        *("lost", "offline", "unauthorized", "hung", "deadline", "signal"),
        *("disk_full", "storage_full", "corrupt", "shared_serial", "protocol", "no_result"),
        "cores_changed",
    }
)
"""Kinds of such failures that don't show it either: another attempt may end otherwise."""
MAX_NODES: Final = 2**31 - 1
"""TensorFlow Lite numbers the nodes of a graph with a signed integer of 32 bits."""
MAX_WHY: Final = 300
UNTOLD: Final = "how many nodes it took is untold"
_OF_THE_RUNTIME = re.compile(r"(?:tflite)?(gpu|nnapi|xnnpack)", re.IGNORECASE)
"""Names that TensorFlow Lite's delegates give themselves, such as TfLiteGpuDelegateV2."""


class Verdict(StrEnum):
    """The outcome for a delegate that was asked for."""

    WORKS = "works"
    """The delegate took the whole graph, or none was asked for."""
    FALLS_BACK = "falls back"
    """The delegate took a part of the graph, or nothing."""
    FAILS = "fails"


class Rank(IntEnum):
    """A verdict as a number, for Prometheus."""

    FAILS = 0
    FALLS_BACK = 1
    WORKS = 2


class Capability(Contract):
    """One task on one stack with one delegate in one number format, on one build of a device."""

    device: str
    build: str
    """Build of the device's system, see `build_of`; empty if unknown."""
    workload: str
    stack: str
    delegate: str
    """The delegate that the run asked for."""
    numerics: str
    verdict: Verdict
    delegated: int | None = None
    """Nodes that the delegate took; None if unknown, not trustworthy, or no delegate was asked for.
    """
    nodes: int | None = None
    """Nodes of the graph; None where `delegated` is."""
    why: str
    """How many nodes of the graph the delegate took, or why it fails."""
    at: Timestamp
    run_id: str

    @property
    def share(self) -> float | None:
        """The share of the graph's nodes that the delegate took, from 0 to 1."""
        if self.delegated is None or not self.nodes:
            return None
        return self.delegated / self.nodes

    @property
    def rank(self) -> Rank:
        """The verdict as a number."""
        return Rank[self.verdict.name]


class Asked(Protocol):
    """What a run was asked to do: a cell, or a stored outcome."""

    @property
    def workload(self) -> str:
        """The workload's name in the catalogue."""
        ...

    @property
    def stack(self) -> str:
        """The stack's name in the catalogue."""
        ...

    @property
    def knobs(self) -> Mapping[str, Scalar]:
        """All knobs by name."""
        ...


@dataclass(frozen=True, slots=True)
class Origin:
    """The run that an outcome belongs to."""

    device: str
    run_id: str
    at: float


@dataclass(frozen=True, slots=True)
class Taken:
    """The nodes that a result says its delegate took, and all nodes; None where unknown."""

    delegated: int | None
    nodes: int | None
    words: str

    @property
    def whole(self) -> bool:
        """Whether the delegate took all nodes."""
        return self.nodes is not None and self.delegated == self.nodes


def of_stored(stored: StoredResult | StoredFailure) -> Capability | None:
    """Return what a stored outcome shows about its device, or None if it shows nothing."""
    if not stored.counted or stored.versus or audit_of(stored.knobs):
        return None
    return _said(stored, stored, Origin(stored.device, stored.run_id, stored.started_at))


def of_record(run: Run, record: OutcomeRecord) -> Capability | None:
    """Return what a new outcome shows about its device, or None if it shows nothing."""
    if not record.counted or run.cell.versus or audit_of(run.cell.knobs):
        return None
    device = run.attempts[record.attempt - 1].device_id
    return _said(run.cell, record.outcome, Origin(device, run.run_id, record.started_at))


def delegate_of(knobs: Mapping[str, Scalar]) -> str:
    """Return the delegate that a cell asks for; empty if its stack has no delegates."""
    chosen = [name for switch, name in SWITCHES.items() if knobs.get(switch) is True]
    if "use_xnnpack" in knobs and not chosen:
        return "xnnpack" if knobs["use_xnnpack"] else NONE
    asked = knobs.get("delegate")
    return "+".join(chosen) or ("" if asked is None else str(asked))


def _said(
    asked: Asked, outcome: Outcome | StoredResult | StoredFailure, told: Origin
) -> Capability | None:
    delegate = delegate_of(asked.knobs)
    if not delegate:
        return None
    taken = Taken(None, None, "")
    if isinstance(outcome, Failure | StoredFailure):
        if outcome.blame not in OF_THE_DEVICE or outcome.kind in NOT_SAID:
            return None
        verdict, why = Verdict.FAILS, f"{outcome.kind}: {outcome.message}"
    else:
        another = _another(delegate, outcome.environment)
        said = _taken(outcome.environment)
        verdict, why = _judged(delegate, said, another, outcome.reasons)
        taken = taken if another or delegate == NONE else said
    return Capability(
        device=told.device,
        build=build_of(outcome.environment),
        workload=asked.workload,
        stack=asked.stack,
        delegate=delegate,
        numerics=precision_of(asked.knobs) or "",
        verdict=verdict,
        delegated=taken.delegated,
        nodes=taken.nodes,
        why=" ".join(why.split())[:MAX_WHY],
        at=told.at,
        run_id=told.run_id,
    )


def _judged(
    delegate: str, taken: Taken, another: list[str], reasons: tuple[str, ...]
) -> tuple[Verdict, str]:
    objections = [reason for reason in reasons if "delegate" in reason] or another
    said = "on the runtime's own kernels" if delegate == NONE and not objections else taken.words
    why = "; ".join([*objections, said] if said else objections)
    works = not objections and (delegate in (NONE, AUTO) or taken.whole)
    return Verdict.WORKS if works else Verdict.FALLS_BACK, why


def _another(delegate: str, environment: Environment) -> list[str]:
    """Return an objection if the count comes from a delegate other than the one asked for."""
    used = environment.get("delegate")
    known = _OF_THE_RUNTIME.match(used) if isinstance(used, str) else None
    if known is None or delegate == AUTO or known[1].lower() in delegate.split("+"):
        return []
    return [f"the last delegate that took nodes is {used}, not {delegate}"]


def _taken(environment: Environment) -> Taken:
    """Return the node counts in a result; the device that reports them may be hostile."""
    nodes, delegated = environment.get("graph_nodes"), environment.get("delegated_nodes")
    if delegated is None:
        return Taken(None, None, UNTOLD)
    count, total = _count(delegated), _count(nodes)
    if nodes is None and count is not None:
        return Taken(None, None, f"{count} nodes, of how many is untold")
    if count is None or not total or count > total:
        words = f"it says {_short(delegated)} of {_short(nodes)} nodes, which can't be"
        return Taken(None, None, words)
    return Taken(count, total, f"{count} of {total} nodes{_left(environment)}")


def _count(said: object) -> int | None:
    """Return a number of nodes, or None if the value is not one."""
    return said if type(said) is int and 0 <= said <= MAX_NODES else None


def _short(said: object) -> str:
    return ascii(str(said)[:20])[1:-1]


def _left(environment: Environment) -> str:
    """Return the operators that the delegate did not take, as far as known."""
    left = environment.get("undelegated_operators")
    return f", not {', '.join(map(str, left))}" if left and isinstance(left, tuple) else ""
