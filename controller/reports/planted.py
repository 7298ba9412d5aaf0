"""Evaluation of the comparison method by comparisons with known truth. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from rich.table import Table

from controller.contracts.base import Contract
from controller.contracts.bench import PlantedTrial


class EffectJudged(Contract):
    """Results of the comparisons with one planted effect; shares are of its trials."""

    effect: float
    trials: int
    coverage: float
    """Share whose interval contains the truth; a trial without an interval counts as a miss."""
    false_verdicts: float
    """Share that showed a difference where there is none, or in the wrong direction."""
    shown: float
    """Share that showed a difference."""
    bias: float
    """Median of ratio / truth, minus 1."""
    pairs: float
    """Median number of pairs."""
    width: float | None
    """Median width of the intervals."""


class MethodJudged(Contract):
    """Results for each effect, and for all together."""

    trials: int
    coverage: float
    false_verdicts: float
    effects: tuple[EffectJudged, ...]


def judged(trials: Sequence[PlantedTrial]) -> MethodJudged:
    """Evaluate comparisons against the truth; raises ValueError without any."""
    if not trials:
        raise ValueError("there is no comparison to judge")
    effects = sorted({trial.effect for trial in trials})
    return MethodJudged(
        trials=len(trials),
        coverage=_share([_covers(t) for t in trials]),
        false_verdicts=_share([_is_false(t) for t in trials]),
        effects=tuple(_judged([t for t in trials if t.effect == e]) for e in effects),
    )


def judged_table(found: MethodJudged) -> Table:
    """Return a table with one row for each effect."""
    table = Table("planted", "trials", "coverage", "false verdicts", "shown", "bias", "pairs")
    for e in found.effects:
        shares = (f"{share:.1%}" for share in (e.coverage, e.false_verdicts, e.shown))
        table.add_row(
            f"{100 * e.effect:g} %", str(e.trials), *shares, f"{e.bias:+.2%}", f"{e.pairs:.0f}"
        )
    return table


def _judged(trials: Sequence[PlantedTrial]) -> EffectJudged:
    widths = [(t.high - t.low) / t.ratio for t in trials if t.low and t.high]
    return EffectJudged(
        effect=trials[0].effect,
        trials=len(trials),
        coverage=_share([_covers(t) for t in trials]),
        false_verdicts=_share([_is_false(t) for t in trials]),
        shown=_share([t.direction != 0 for t in trials]),
        bias=median(t.ratio / t.truth for t in trials) - 1,
        pairs=median(t.pairs for t in trials),
        width=median(widths) if widths else None,
    )


def _covers(trial: PlantedTrial) -> bool:
    if trial.low is None or trial.high is None:
        return False
    return trial.low <= trial.truth <= trial.high


def _is_false(trial: PlantedTrial) -> bool:
    truth = (trial.truth > 1) - (trial.truth < 1)
    return trial.direction not in (0, truth)


def _share(verdicts: Sequence[bool]) -> float:
    return sum(verdicts) / len(verdicts)
