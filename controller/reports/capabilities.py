"""What a device can run, and on which delegate really: from what was measured on it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from controller.contracts.base import Contract, Scalar, Timestamp
from controller.contracts.device import Device
from controller.contracts.records import StoredFailure, StoredResult, precision_of
from controller.contracts.result import Blame, Validity

FINGERPRINT = "fingerprint"
OF_THE_DEVICE = frozenset({Blame.WORKLOAD, Blame.DEVICE})
"""Whose failures say something of what a device can run; a harness' or a user's don't."""
NOT_SAID = frozenset({"lost", "offline", "unauthorized", "hung", "deadline", "signal"})
"""Kinds of failures of these that say nothing of it, either: another try may end otherwise."""
Key = tuple[str, str, str, str]


class Verdict(StrEnum):
    """What came of a delegate that was asked for."""

    WORKS = "works"
    """It took the whole graph, or none was asked for."""
    FALLS_BACK = "falls back"
    """It took a part of it, or none."""
    FAILS = "fails"


class Capability(Contract):
    """One task on one stack with one delegate in one number format."""

    workload: str
    stack: str
    delegate: str
    """As it was asked for."""
    numerics: str
    verdict: Verdict
    why: str
    """How many nodes of how many a delegate took, or why it fails."""
    at: Timestamp
    run_id: str


def capabilities(
    device: Device, results: Iterable[StoredResult], failures: Iterable[StoredFailure]
) -> list[Capability]:
    """Return what the newest outcome of each kind says, by task, stack, delegate and numerics.

    Results of another build of the device's system (its fingerprint) are left out, and so are
    failures from before the oldest result of this one: which build they are of is not recorded.
    """
    build = device.facts.get(FINGERPRINT)
    own = [r for r in results if r.device == device.id and r.counted and not r.versus]
    here = [r for r in own if r.environment.get(FINGERPRINT) == build and _delegate(r)]
    others = [r.started_at for r in own if r.environment.get(FINGERPRINT) != build]
    since = max(others, default=0.0)
    found: dict[Key, Capability] = {}
    said = [_of_result(result) for result in here]
    of_it = [f for f in failures if f.device == device.id and f.started_at > since]
    said += [_of_failure(failure) for failure in of_it if _says(failure)]
    for one in sorted(said, key=lambda one: one.at):
        found[one.workload, one.stack, one.delegate, one.numerics] = one
    return [found[key] for key in sorted(found)]


def _says(failure: StoredFailure) -> bool:
    known = failure.counted and failure.blame in OF_THE_DEVICE and failure.kind not in NOT_SAID
    return known and bool(_asked(failure.knobs))


def _asked(knobs: Mapping[str, Scalar]) -> str:
    """Return the delegate that a cell asks for; nothing where it can ask for none."""
    chosen = [name.removeprefix("use_") for name in ("use_gpu", "use_nnapi") if knobs.get(name)]
    if "use_xnnpack" in knobs and not chosen:
        return "xnnpack" if knobs["use_xnnpack"] else "none"
    return "+".join(chosen) or str(knobs.get("delegate", ""))


def _delegate(result: StoredResult) -> str:
    return _asked(result.knobs)


def _of_result(result: StoredResult) -> Capability:
    told = result.environment
    nodes, taken = told.get("graph_nodes"), told.get("delegated_nodes")
    asked = _delegate(result)
    none_asked = asked in ("none", "auto")
    whole = none_asked or (nodes is not None and nodes == taken)
    said = f"{taken} of {nodes} nodes" if nodes is not None else "how many nodes it took is untold"
    if left := told.get("undelegated_operators"):
        said += f", not {', '.join(map(str, left))}" if isinstance(left, tuple) else ""
    reasons = [r for r in result.reasons if "delegate" in r]
    why = "; ".join([*reasons, "on the runtime's own kernels" if asked == "none" else said])
    works = whole and not (reasons and result.validity is Validity.INVALID)
    return _capability(result, Verdict.WORKS if works else Verdict.FALLS_BACK, why)


def _of_failure(failure: StoredFailure) -> Capability:
    return _capability(failure, Verdict.FAILS, f"{failure.kind}: {failure.message}")


def _capability(
    origin: StoredResult | StoredFailure,
    verdict: Verdict,
    why: str,
) -> Capability:
    return Capability(
        workload=origin.workload,
        stack=origin.stack,
        delegate=_asked(origin.knobs),
        numerics=precision_of(origin.knobs) or "",
        verdict=verdict,
        why=" ".join(why.split()),
        at=origin.started_at,
        run_id=origin.run_id,
    )
