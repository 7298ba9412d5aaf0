"""A comparison from its sides to what came out, on a store that a farm has written."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from controller.cli import comparison_run
from controller.contracts.catalog import load_catalog
from controller.contracts.pair import Pair
from controller.contracts.records import SweepRecord
from controller.contracts.result import Failure, Measurement, Result, Validity
from controller.contracts.sweep import Sweep
from controller.contracts.units import Unit
from controller.contracts.wire import Submission
from controller.runtime.client import FarmClient
from controller.scheduling.binding import runs_of
from controller.scheduling.expansion import cells_of
from controller.store.sqlite import SqliteStore
from tests.support.command_line import outcome_of
from tests.support.store_examples import AGENT, CPU, failure, grant, report

COMPARE = ("compare", "torch:frozen_bn=mul_add", "torch:frozen_bn=fused")
CALL = (*COMPARE, "--workload", "retinanet_resnext50", "--time-limit", "90")


def paired(validity: Validity) -> Result:
    """Return a comparison in which B takes half of A's time."""
    pairs = tuple(
        Pair(a=(1.0 + n % 3 / 1000,), b=(0.5 + n % 3 / 2000,), a_first=n % 2 == 0)
        for n in range(12)
    )
    seconds = {"step_time_a": 1.0, "step_time_b": 0.5}
    return Result(
        validity=validity,
        reasons=() if validity is Validity.VALID else ("too hot",),
        metrics={name: Measurement.of_samples((s,), Unit.SECONDS) for name, s in seconds.items()},
        environment={},
        pairs=pairs,
    )


def answered(monkeypatch: pytest.MonkeyPatch, home: Path, outcome: Result | Failure) -> list[Sweep]:
    """Have a farm end each comparison with this outcome; return what is submitted to it."""
    asked: list[Sweep] = []

    def submit(_: FarmClient, sweep: Sweep, *, again: bool) -> Submission:
        assert again
        asked.append(sweep)
        sweep_id = sweep.sweep_id(1)
        record = SweepRecord(sweep_id=sweep_id, sweep=sweep, generation=1, submitted_at=1000.0)
        (run,) = runs_of(sweep, sweep_id, cells_of(sweep, load_catalog()), now=1000.5)
        with closing(SqliteStore.open(home / "store.sqlite")) as store:
            store.save_agent(AGENT, [CPU])
            store.add_sweep(record, [run])
            leased = grant(run)
            ended = report(leased.run, outcome)
            store.save_runs([leased])
            store.save_runs([ended])
        return Submission(sweep_id=sweep_id, new_runs=1, known_runs=0)

    monkeypatch.setattr(FarmClient, "submit", submit)
    monkeypatch.setattr(comparison_run, "show_sweep", lambda *_: None)
    return asked


@pytest.mark.parametrize(
    ("validity", "status"),
    [(Validity.VALID, 0), (Validity.DISTURBED, 0), (Validity.INVALID, 1)],
)
def test_what_was_measured_is_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, validity: Validity, status: int
) -> None:
    asked = answered(monkeypatch, tmp_path, paired(validity))
    told, complaint, ended = outcome_of(tmp_path, *CALL)
    assert (ended, complaint) == (status, "")
    assert told.startswith("at most 90 s once a device is free")
    assert ("too hot" in told) is (validity is not Validity.VALID)
    (sweep,) = asked
    assert sweep.deadline_s == 90 + comparison_run.ENDING_S
    assert sweep.paired
    assert (sweep.paired.a.knobs, sweep.paired.b[0].knobs) == (
        {"frozen_bn": "mul_add"},
        {"frozen_bn": "fused"},
    )


def test_steps_of_unlike_batches_are_compared_by_samples_per_second(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """B takes half of the time for a step of a quarter of the samples: A trains faster."""
    answered(monkeypatch, tmp_path, paired(Validity.VALID))
    sides = ("torch:batch_size=8", "torch:batch_size=2")
    told, _, ended = outcome_of(tmp_path, "compare", *sides, "--workload", "resnet18")
    assert ended == 0
    verdict = told.splitlines()[-1]
    assert verdict.startswith("A is 2.00")
    assert verdict.endswith("; by samples/s, since batch_size is 8 and 2")


def test_a_failure_is_told_and_nothing_is_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answered(monkeypatch, tmp_path, failure())
    told, complaint, ended = outcome_of(tmp_path, *CALL, "--json")
    assert (told, ended) == ("", 1)
    limit, why, last = complaint.splitlines()
    assert limit.startswith("at most 90 s")
    assert why == "host-1: workload: killed"
    assert last.startswith("nothing was compared; see: benchfarm sweep status compare-")


def test_a_result_without_pairs_is_told_and_nothing_is_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As the controller stores it of an agent that sent none."""
    bare = paired(Validity.INVALID).model_copy(update={"pairs": (), "metrics": {}})
    answered(monkeypatch, tmp_path, bare)
    told, complaint, ended = outcome_of(tmp_path, *CALL, "--json")
    assert (told, ended) == ("", 1)
    _, why, last = complaint.splitlines()
    assert why == "host-1: INVALID: too hot"
    assert last.startswith("nothing was compared; see: benchfarm sweep status compare-")


def test_an_interrupted_one_goes_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    answered(monkeypatch, tmp_path, failure())

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(comparison_run, "show_sweep", interrupted)
    _, complaint, ended = outcome_of(tmp_path, *CALL)
    assert ended == 130
    assert "the comparison continues; cancel it: benchfarm sweep cancel compare-" in complaint
