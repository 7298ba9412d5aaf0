"""The conditions in which two profiles differ, each named once. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from controller.contracts.base import Scalar
from controller.contracts.facts import Equal, declared_facts
from controller.contracts.profile import ProfileOrigin, ProfileSummary
from controller.contracts.profile_diff import Condition
from controller.profiles.advising.units import DENORMAL_SHARE

DENORMALS = "denormal_share"
"""A fact that differs by a little from step to step."""
NOT_OF_A_STEP = frozenset(("steps", "warmup_steps", "policy"))
"""Knobs that say how a run is measured: a step is no slower by them."""
_MALLOC = frozenset(("malloc", "huge_pages"))
_THREADS = frozenset(("threads", "cores", "ranks"))
FOLLOWS: Mapping[str, frozenset[str]] = {
    "affinity": frozenset(("cores", "numa")),
    "rank_cores": _THREADS,
    "OMP_NUM_THREADS": _THREADS,
    "OMP_PROC_BIND": frozenset(("thread_binding",)),
    "OMP_PLACES": frozenset(("thread_binding",)),
    "KMP_BLOCKTIME": frozenset(("openmp",)),
    "GLIBC_TUNABLES": _MALLOC,
    "MALLOC_CONF": _MALLOC,
}
"""Fact, or variable of the fact `settings` → knobs that it follows; if they differ, they say so."""
SETTINGS = "settings"
Value = Scalar | tuple[Scalar, ...] | None


def conditions_of(one: ProfileSummary, other: ProfileSummary) -> list[Condition]:
    """Return what differs between the conditions of A and B: first what was asked for, then facts
    in the order of `facts.yaml`."""
    origins = one.origin or ProfileOrigin(), other.origin or ProfileOrigin()
    asked = {condition.name: condition for condition in _asked(origins)}
    facts = [_own_settings(of, asked) if of.name == SETTINGS else of for of in _facts(origins)]
    # A knob and a fact of one name are one condition, by the knob.
    own = [of for of in facts if of.name not in asked and not _follows(of.name, asked)]
    return [of for of in (*asked.values(), *own) if not _are_equal(of.a, of.b)]


def are_known(summary: ProfileSummary) -> bool:
    """Return whether a profile tells its conditions, as those do that were measured here."""
    origin = summary.origin
    return origin is not None and origin.knobs is not None and bool(origin.environment)


def reading_of(summary: ProfileSummary, name: str) -> float | None:
    """Return a number among the facts of a profile; None if nothing tells it."""
    value = summary.origin.environment.get(name) if summary.origin else None
    return float(value) if isinstance(value, int | float) else None


def _asked(origins: Sequence[ProfileOrigin]) -> Iterator[Condition]:
    for name in ("workload", "stack", "device", "threads"):
        yield from _differing(name, *(getattr(origin, name) for origin in origins))
    knobs = [origin.knobs or {} for origin in origins]
    for name in dict.fromkeys((*knobs[0], *knobs[1])):
        if name not in NOT_OF_A_STEP and name != "threads":  # of the origin: knob 0 means all
            yield from _differing(name, *(of.get(name) for of in knobs))


def _facts(origins: Sequence[ProfileOrigin]) -> Iterator[Condition]:
    stacks = {origin.stack for origin in origins}
    facts = [origin.environment for origin in origins]
    for fact in declared_facts():
        a, b = (of.get(fact.name) for of in facts)
        # Another stack has facts of its own, which the first can't have.
        is_its_own = fact.equal is Equal.STACK and len(stacks) > 1 and None not in stacks
        if fact.equal is None or fact.name == "threads" or (is_its_own and None in (a, b)):
            continue
        yield from _differing(fact.name, a, b)
    runtimes = [of.get("onednn_runtime") for of in facts]
    if None not in runtimes:  # of logs, which tell little else
        yield from _differing("onednn_runtime", *runtimes)
    shares = [of.get(DENORMALS) for of in facts]
    many = [isinstance(share, float) and share >= DENORMAL_SHARE for share in shares]
    if many[0] != many[1]:
        yield Condition(name=DENORMALS, a=shares[0], b=shares[1])


def _differing(name: str, a: Value, b: Value) -> Iterator[Condition]:
    if not _are_equal(a, b):
        yield Condition(name=name, a=a, b=b)


def _are_equal(a: Value, b: Value) -> bool:
    if isinstance(a, tuple) and isinstance(b, tuple):
        return set(a) == set(b)  # such as instruction sets, in any order
    return a == b


def _own_settings(settings: Condition, asked: Collection[str]) -> Condition:
    """Return the variables that follow no knob which differs itself."""
    a, b = (
        tuple(of for of in variables if not _follows(str(of).partition("=")[0], asked))
        if isinstance(variables, tuple)
        else variables
        for variables in (settings.a, settings.b)
    )
    return Condition(name=SETTINGS, a=a, b=b)


def _follows(name: str, asked: Collection[str]) -> bool:
    return not FOLLOWS.get(name, frozenset()).isdisjoint(asked)
