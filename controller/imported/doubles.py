"""One run that was published twice: in LoadGen's logs, and in the app's JSON. Pure."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from controller.contracts.imported import ImportedResult, ImportForm
from controller.contracts.result import Measurement

_RANKING: Final = ("latency_p90", "throughput")
_MORE: Final = "latency_mean"
_CLOSE: Final = 5e-6
"""Half of the last digit of the rates that LoadGen prints, relative to them."""
_DAY_S: Final = 86_400.0
"""The log has UTC, the app its phone's time, which it calls nothing."""

_Task = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Sifted:
    """Results without those that are of a run that is there already."""

    kept: tuple[ImportedResult, ...]
    doubles: tuple[tuple[ImportedResult, ImportedResult], ...]
    """What came, and what is there of the same run."""


def sifted(results: Iterable[ImportedResult], known: Iterable[ImportedResult]) -> Sifted:
    """Return the results that are of no run that is known or came before them.

    A result that is known itself is kept, so that what keeps it says so.
    """
    there: defaultdict[_Task, list[ImportedResult]] = defaultdict(list)
    for result in known:
        there[_task(result)].append(result)
    kept, doubles = [], []
    for result in results:
        others = there[_task(result)]
        if any(other.run_id == result.run_id for other in others):
            kept.append(result)
        elif double := next((other for other in others if _same_run(result, other)), None):
            doubles.append((result, double))
        else:
            kept.append(result)
            others.append(result)
    return Sifted(tuple(kept), tuple(doubles))


def same_figures(one: Mapping[str, Measurement], other: Mapping[str, Measurement]) -> bool:
    """Return whether two runs have the figure that ranks them, and their mean if both say it."""
    ranked = [name for name in _RANKING if name in one and name in other]
    both = [*ranked, *([_MORE] if _MORE in one and _MORE in other else ())]
    return bool(ranked) and all(
        math.isclose(one[name].value, other[name].value, rel_tol=_CLOSE) for name in both
    )


def _task(result: ImportedResult) -> _Task:
    return result.imported.suite, result.workload, result.scenario


def _same_run(one: ImportedResult, other: ImportedResult) -> bool:
    """Return whether one of two results of a task is the app's JSON of the other's run."""
    forms = (one.imported.form, other.imported.form)
    if ImportForm.APP not in forms or not same_figures(one.metrics, other.metrics):
        return False
    begun_together = abs(one.started_at - other.started_at) <= _DAY_S
    return begun_together or _named(one) == _named(other)


def _named(result: ImportedResult) -> tuple[str, str]:
    """Return submitter and system: a folder has `rocket_9`, the app `Rocket 9`."""
    said = (result.imported.submitter, result.imported.system)
    submitter, system = (re.sub(r"[\W_]+", "", name.lower()) for name in said)
    return submitter, system
