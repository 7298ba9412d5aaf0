"""A result that lacks its figure or contradicts itself is stored, and never counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.contracts.catalog import load_catalog
from controller.contracts.pair import Pair
from controller.contracts.result import Measurement, Result, Validity
from controller.contracts.sweep import Cell, PairedCandidate
from controller.contracts.units import Unit
from controller.scheduling.complete_results import (
    CONTRADICTORY,
    UNEXPLAINED,
    UNPAIRED,
    as_complete,
)
from tests.support import builders
from tests.support.farm import FarmBox

METRIC = "step_time"
PLAIN = builders.cell()
PAIRED = PLAIN.model_copy(update={"versus": PairedCandidate(stack="torch")})
ACCURACY = builders.cell(mode="accuracy")
PAIRS = (Pair(a=(0.2,), b=(0.1,), a_first=True),)
_V, _D, _N = Validity
LACKS = f"it lacks {METRIC}, by which its scenario is ranked"
LACKS_B = f"it lacks {METRIC}_b, by which its scenario is ranked"
LACKS_BOTH = f"it lacks {METRIC}_a and {METRIC}_b, by which its scenario is ranked"


def measured(
    *metrics: str,
    validity: Validity = _V,
    reasons: tuple[str, ...] = (),
    pairs: tuple[Pair, ...] = (),
) -> Result:
    found = {name: Measurement(value=0.2, unit=Unit.SECONDS) for name in metrics}
    return Result(validity=validity, reasons=reasons, metrics=found, environment={}, pairs=pairs)


@pytest.mark.parametrize(
    ("result", "cell"),
    [
        (measured(METRIC), PLAIN),
        (measured(METRIC, validity=_D, reasons=("load",)), PLAIN),
        (measured(METRIC, validity=_N, reasons=("load",)), PLAIN),
        (measured("loss", validity=_N, reasons=("no target reached",)), PLAIN),
        (measured("top1"), ACCURACY),
        (measured(f"{METRIC}_a", f"{METRIC}_b", "ratio", pairs=PAIRS), PAIRED),
    ],
    ids=["VALID", "DISTURBED", "INVALID", "without its figure", "accuracy alone", "paired"],
)
def test_an_honest_result_stays_what_it_is(result: Result, cell: Cell) -> None:
    assert as_complete(result, cell, METRIC) is result


@pytest.mark.parametrize(
    ("result", "cell", "validity", "reasons"),
    [
        (measured(METRIC, validity=_D), PLAIN, _D, (UNEXPLAINED,)),
        (measured(validity=_N), PLAIN, _N, (UNEXPLAINED,)),
        (measured(METRIC, reasons=("load",)), PLAIN, _N, ("load", CONTRADICTORY)),
        (measured(f"{METRIC}_a"), PLAIN, _N, (LACKS,)),
        (measured(validity=_D, reasons=("load",)), PLAIN, _N, ("load", LACKS)),
        (measured(validity=_D), PLAIN, _N, (LACKS,)),
        (measured(f"{METRIC}_a", f"{METRIC}_b"), PAIRED, _N, (UNPAIRED,)),
        (measured(f"{METRIC}_a", pairs=PAIRS), PAIRED, _N, (LACKS_B,)),
        (measured(METRIC), PAIRED, _N, (UNPAIRED, LACKS_BOTH)),
    ],
)
def test_what_a_result_lacks_is_said(
    result: Result, cell: Cell, validity: Validity, reasons: tuple[str, ...]
) -> None:
    kept = as_complete(result, cell, METRIC)
    assert isinstance(kept, Result)
    assert (kept.validity, kept.reasons) == (validity, reasons)
    assert kept.metrics == result.metrics, "nothing is lost"
    assert as_complete(kept, cell, METRIC) == kept, "said once"


def test_without_a_known_metric_only_what_a_result_says_is_judged() -> None:
    assert as_complete(measured(), PLAIN, "") == measured()
    kept = as_complete(measured(reasons=("load",)), PLAIN, "")
    assert isinstance(kept, Result)
    assert kept.validity is _N


def test_a_failure_stays_what_it_is() -> None:
    failure = builders.failure()
    assert as_complete(failure, PLAIN, METRIC) is failure


def test_loadgen_s_scenarios_alone_have_the_knob_of_which_a_value_measures_no_speed() -> None:
    scenarios = load_catalog().scenarios.values()
    having = {s.name for s in scenarios if "mode" in s.knobs}
    assert having == {"single_stream", "multi_stream", "offline", "server"}


def test_the_farm_stores_it_as_invalid(tmp_path: Path) -> None:
    box = FarmBox(tmp_path / "store.sqlite")
    box.farm.register(builders.registration(None, builders.cpu("cpu-1")))
    box.submit(builders.sweep(repeats=3))
    given = (builders.result(), measured("loss"), measured(METRIC, validity=_D))
    for result in given:
        (job,) = box.ask().run
        box.clock.now += 1
        box.report(job.ref, result)
    stored = box.store.results()
    box.close()
    assert [(one.validity, one.reasons) for one in stored] == [
        (_V, ()),
        (_N, (LACKS,)),
        (_D, (UNEXPLAINED,)),
    ]
