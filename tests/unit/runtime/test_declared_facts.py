"""A result with a fact that nobody has declared is stored, and never counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.contracts.facts import FactKind, OwnFact
from controller.contracts.result import Environment, Result, Validity
from controller.scheduling.declared_facts import with_declared_facts
from tests.support import builders
from tests.support.farm import FarmBox

OWN = {"flushes_denormals": OwnFact(kind=FactKind.SETTING, means="denormal numbers are zero")}


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({"torch": "2.13", "a.torch": "2.13", "celsius_skin_before": 40.0}, ()),
        ({"flushes_denormals": True, "b.flushes_denormals": False}, ()),
        ({"my_fact": 1, "torch": "2.13"}, ("my_fact",)),
        ({"c.torch": "2.13", "torchy": "2"}, ("c.torch", "torchy")),
        ({"x\n" * 90: 1}, ("x\\n",)),
        ({f"fact{n}": n for n in range(9)}, ("'fact4' and 4 more",)),
    ],
)
def test_an_undeclared_fact_makes_a_result_invalid(
    environment: Environment, named: tuple[str, ...]
) -> None:
    result = builders.result().model_copy(update={"environment": environment})
    kept = with_declared_facts(result, OWN)
    assert isinstance(kept, Result)
    assert kept.environment == environment
    assert kept.validity is (Validity.INVALID if named else Validity.VALID)
    said = "".join(kept.reasons)
    assert all(name in said for name in named)
    assert len(said) < 400
    assert with_declared_facts(kept, OWN) == kept, "said once"
    sly = kept.model_copy(update={"validity": Validity.VALID})
    assert with_declared_facts(sly, OWN) == kept, "whatever reasons an agent gives"


def test_a_failure_stays_what_it_is() -> None:
    failure = builders.failure()
    assert with_declared_facts(failure, {}) is failure


def test_the_farm_stores_it_as_invalid(tmp_path: Path) -> None:
    box = FarmBox(tmp_path / "store.sqlite")
    box.farm.register(builders.registration(None, builders.cpu("cpu-1")))
    box.submit(builders.sweep(repeats=2))
    for environment in ({"threads": 2}, {"threads": 2, "my_fact": 1}):
        (job,) = box.ask().run
        box.report(job.ref, builders.result().model_copy(update={"environment": environment}))
    valid, invalid = sorted(box.store.results(), key=lambda result: len(result.environment))
    box.close()
    assert (valid.validity, invalid.validity) == (Validity.VALID, Validity.INVALID)
    assert "my_fact" in invalid.reasons[0]
