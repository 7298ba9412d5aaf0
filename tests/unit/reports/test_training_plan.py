"""Plans of training: what counts, what is multiplied, what is said beside."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import pytest

from controller.contracts.base import Scalar
from controller.contracts.device import DeviceKind
from controller.contracts.facts import Equal, FactKind, OwnFact
from controller.contracts.manifests import Convergence, ConvergencePoint
from controller.contracts.profile import ProfileSummary
from controller.contracts.records import StoredResult
from controller.contracts.result import Measurement, Validity
from controller.contracts.training_plan import PlannedTraining, TrainingPlan
from controller.contracts.units import Unit
from controller.reports.html.training_plan import training_plan_html
from controller.reports.training_plan import Asked, training_plan
from controller.reports.training_plan_table import COLUMNS, curve_lines, remark_lines, rows_of

CONVERGENCE = Convergence(
    source="a paper",
    samples=1_000_001,
    points=tuple(ConvergencePoint(batch=b, epochs=e) for b, e in ((256, 4), (512, 5), (4096, 15))),
    knobs={"image_size": 800},
)
ASKED = Asked("detector")


def stored(
    *steps_s: float,
    run: str = "r",
    device: str = "cpu-1",
    batch: Scalar = 256,
    size: int = 800,
    counted: bool = True,
    virtual: bool = False,
    validity: Validity = Validity.VALID,
    scenario: str = "training",
    **knobs: Scalar,
) -> StoredResult:
    cell = {"batch_size": batch, "image_size": size, **knobs}
    return StoredResult(
        run_id=run,
        sweep_id="s",
        cell_key=repr(sorted(cell.items())),
        repeat=0,
        attempt=1,
        device=device,
        device_kind=DeviceKind.CPU_HOST,
        virtual=virtual,
        workload="detector",
        stack="torch",
        scenario=scenario,
        knobs=cell,
        started_at=0.0,
        counted=counted,
        validity=validity,
        reasons=() if validity is Validity.VALID else ("too loud",),
        metrics={"step_time": Measurement.of_samples(steps_s or (2.0,), Unit.SECONDS)},
        environment={},
        artefacts={},
    )


def plan(*results: StoredResult, asked: Asked = ASKED) -> TrainingPlan:
    return training_plan(CONVERGENCE, results, asked)


def only(*results: StoredResult) -> PlannedTraining:
    (planned,) = plan(*results).planned
    return planned


def test_epochs_times_steps_times_their_time() -> None:
    planned = only(stored(2.0, 2.0))
    steps = 3907  # 1,000,001 samples, 256 at a time: the last step has one
    assert planned.epoch_s.value == pytest.approx(2.0 * steps)
    assert planned.epochs.value == pytest.approx(3.80, abs=0.01)
    assert planned.train_s.value == pytest.approx(planned.epoch_s.value * planned.epochs.value)
    assert planned.runs == 1
    assert planned.unlike_published == ()


def test_errors_of_both_add_as_squares_of_logarithms() -> None:
    planned = only(stored(2.0, run="a"), stored(2.1, run="b"), stored(1.9, run="c"))
    reaches = []
    for one in (planned.step_s, planned.epochs, planned.train_s):
        assert one.high is not None
        assert one.low == pytest.approx(one.value**2 / one.high)
        reaches.append(math.log(one.high / one.value))
    assert reaches[2] == pytest.approx(math.hypot(*reaches[:2]))
    assert planned.notes == ()


def test_one_run_says_that_its_own_error_is_unknown() -> None:
    planned = only(stored(2.0))
    assert planned.step_s.low is None
    assert planned.train_s.low is not None
    assert planned.notes == ("measured by one run: the interval is that of the epochs alone",)


@pytest.mark.parametrize(
    "other",
    [
        stored(0.1, validity=Validity.INVALID),
        stored(0.1, validity=Validity.DISTURBED),
        stored(0.1, counted=False),
        stored(0.1).model_copy(update={"profile": ProfileSummary(steps=1)}),
        stored(0.1, scenario="offline"),
        stored(0.1, batch="many"),
        stored(0.1, batch=True),
        stored(0.1, batch=0),
        stored(0.1, batch=-256),
    ],
    ids=[
        *("INVALID", "DISTURBED", "late", "profiled"),
        *("inference", "a word", "a flag", "none", "negative"),
    ],
)
def test_what_never_counts(other: StoredResult) -> None:
    assert plan(other).planned == ()
    assert only(other, stored(2.0)).step_s.value == 2.0


def test_other_sizes_and_virtual_devices_come_last_and_say_so() -> None:
    found = plan(
        stored(0.1, size=256),
        stored(0.2, device="v", virtual=True),
        stored(3.0, device="slow"),
        stored(2.0),
    )
    single = [one for one in found.planned if len(one.devices) == 1]
    assert [(*one.devices, one.virtual) for one in single] == [
        ("cpu-1", False),
        ("slow", False),
        ("cpu-1", False),
        ("v", True),
    ]
    assert single[2].unlike_published == ("image_size=256, not 800",)
    assert single[3].shown == ("v (virtual)",)
    assert any("image_size=256, not 800" in line for line in remark_lines(found))


@pytest.mark.parametrize(("batch", "said"), [(256, 0), (4096, 0), (255, 1), (4097, 1), (2, 1)])
def test_what_lies_beyond_the_points_is_said(batch: int, said: int) -> None:
    notes = only(stored(2.0, run="a", batch=batch), stored(2.0, run="b", batch=batch)).notes
    assert [f"epochs at batch {batch} are extrapolated" in note for note in notes] == [True] * said
    assert any("taken to be those at 256" in note for note in notes) == (batch < 256)


def test_below_the_points_epochs_stay() -> None:
    """The law would have a training end in a third of an epoch at batch 2."""
    small, least, large = (
        only(stored(2.0, run="a", batch=batch), stored(2.0, run="b", batch=batch)).epochs
        for batch in (2, 256, 4096)
    )
    assert small == least
    assert large.value > 3 * least.value


def test_devices_at_once_take_the_slowest_s_step_and_the_sum_of_batches() -> None:
    found = plan(
        stored(2.0),
        stored(1.0, precision="bf16"),
        stored(3.0, device="slow"),
        stored(0.1, device="tiny", size=256),
        stored(0.1, device="other batch", batch=512),
        stored(0.1, device="v", virtual=True),
    )
    (team,) = [one for one in found.planned if len(one.devices) > 1]
    assert team.devices == ("cpu-1", "slow")
    assert team.batch == 512
    assert team.step_s.value == 3.0
    assert team.epoch_s.value == 3.0 * 1954
    assert team.epochs.value == pytest.approx(5.34, abs=0.02)
    assert any("no exchange of gradients" in note for note in team.notes)
    assert found.planned[-1] == team


def test_a_batch_and_devices_may_be_asked_for() -> None:
    results = (stored(1.0), stored(1.0, batch=512), stored(1.0, device="other"))
    asked = Asked("detector", 256, frozenset({"cpu-1"}))
    (planned,) = plan(*results, asked=asked).planned
    assert (planned.devices, planned.batch) == (("cpu-1",), 256)
    assert plan(*results, asked=Asked("another")).planned == ()


def test_points_and_law_are_said() -> None:
    first, second = curve_lines(plan())
    assert "256 → 4, 512 → 5, 4096 → 15 (a paper; 1,000,001 samples)" in first
    assert "0.253 × batch^0.489" in second
    assert second.endswith(
        "of 3 points, the 95 % interval of the mean of new trainings is ×/÷ 3.5 at best"
    )


def test_whose_interval_it_is_depends_on_whose_points_are_known() -> None:
    """Published ones are means of trainings, own ones are single trainings."""
    own = plan().model_copy(update={"own": True})
    for one, whose in ((plan(), "the mean of new trainings"), (own, "a new training")):
        assert f"the 95 % interval of {whose} is " in curve_lines(one)[1]
        assert f"the 95 % interval of {whose}; circles" in training_plan_html(one)


@pytest.mark.parametrize(("own", "known"), [(False, "published"), (True, "trained")])
def test_the_page_tells_epochs_of_own_trainings_from_published_ones(own: bool, known: str) -> None:
    page = training_plan_html(plan(stored(2.0)).model_copy(update={"own": own}))
    (caption,) = re.findall(r"<caption>(.*?)</caption>", page, re.DOTALL)
    assert caption.startswith(f"Epochs as {known} times measured epochs")


def test_a_cell_without_a_published_knob_is_not_like_it() -> None:
    result = stored(2.0)
    lacking = {name: value for name, value in result.knobs.items() if name != "image_size"}
    planned = only(result.model_copy(update={"knobs": lacking}))
    assert planned.unlike_published == ("image_size is not known, 800 published",)


@pytest.mark.parametrize(
    "points",
    [[], [(256, 4)], [(256, 4), (256, 5)], [(0, 4), (256, 5)], [(256, 0), (512, 5)]],
    ids=["none", "one", "a batch twice", "no batch", "no epochs"],
)
def test_points_that_tell_nothing_are_refused(points: list[tuple[int, float]]) -> None:
    with pytest.raises(ValueError, match="points"):
        Convergence.model_validate(
            {
                "source": "s",
                "samples": 1,
                "points": [{"batch": batch, "epochs": epochs} for batch, epochs in points],
            }
        )


REACHED = Asked("detector", target=0.5)
GOAL: dict[str, Scalar] = {"target": 0.5, "evaluate_every": 25, "seed": 2, "steps": 600}


def took(
    seconds: float, validity: Validity = Validity.VALID, device: str = "cpu-1", **knobs: Scalar
) -> StoredResult:
    ran = stored(2.0, run=f"q{seconds}", device=device, validity=validity)
    return ran.model_copy(
        update={
            "scenario": "training_quality",
            "metrics": {"time_to_target": Measurement(value=seconds, unit=Unit.SECONDS)},
            "knobs": {**ran.knobs, "precision": "fp32", **GOAL, **knobs},
        }
    )


TIMED = stored(2.0, precision="fp32", seed=0, steps=10, warmup_steps=3)


def test_what_trainings_to_the_target_took_stands_beside() -> None:
    found = plan(TIMED, took(90.0), took(110.0, seed=1), took(100.0), asked=REACHED)
    (planned,) = found.planned
    assert planned.took_s is not None
    assert planned.took_s.value == 100
    assert planned.took_s.low is not None
    assert planned.took_runs == 3
    (row,) = rows_of(found)
    assert row[COLUMNS.index("took")].startswith("1.67 min [")
    assert any(line.startswith("took: ") for line in remark_lines(found))


def test_trainings_of_other_software_are_not_beside() -> None:
    before, now = (
        took(seconds).model_copy(update={"environment": {"torch": version}, "started_at": seconds})
        for seconds, version in ((50.0, "2.8"), (90.0, "2.13"))
    )
    (planned,) = plan(TIMED, now, before, asked=REACHED).planned
    assert planned.took_s is not None
    assert (planned.took_s.value, planned.took_runs) == (90.0, 1)
    assert planned.notes[-1] == (
        "trainings to the target left out, as they are unlike the newest one of their cell: "
        "1 of cpu-1 (torch differs: 2.13 and 2.8)"
    )


@pytest.mark.parametrize(
    "other",
    [
        took(1.0, Validity.DISTURBED),
        took(1.0, Validity.INVALID),
        took(1.0, device="cpu-2"),
        took(1.0, precision="bf16"),
        took(1.0, batch_size=512),
        took(1.0, target=0.1),
        took(1.0).model_copy(update={"counted": False}),
        took(1.0).model_copy(update={"stack": "ipex"}),
        took(1.0).model_copy(update={"metrics": {}}),
    ],
    ids=["DISTURBED", "INVALID", "device", "recipe", "batch", "target", "late", "stack", "none"],
)
def test_other_trainings_are_not_beside(other: StoredResult) -> None:
    (planned,) = plan(TIMED, other, asked=REACHED).planned
    assert planned.took_s is None
    (row,) = rows_of(plan(TIMED, other, asked=REACHED))
    assert row[COLUMNS.index("took")] == ""


BOTH = {"hosts": ("cpu-1's", "b"), "host_devices": ("cpu-1", "cpu-b")}


def on_hosts(
    step_s: float, facts: Mapping[str, tuple[str, ...]] = BOTH, device: str = "cpu-1"
) -> StoredResult:
    """Return a result of several hosts; cells of one leave the knob out."""
    ran = stored(step_s, device=device, precision="fp32", hosts=2)
    return ran.model_copy(update={"environment": dict(facts)})


def test_a_training_on_several_hosts_names_them_all() -> None:
    found = plan(on_hosts(2.0))
    (planned,) = found.planned
    assert planned.devices == ("cpu-1", "cpu-b")
    assert planned.shown == ("cpu-1", "b")
    assert planned.stacks == ("torch", "torch")
    assert len(planned.cell_keys) == 2
    (row,) = rows_of(found)
    assert row[:3] == ["cpu-1 + b", "torch hosts=2", "256"]
    assert not any("no exchange" in line for line in remark_lines(found)), "it was counted"


def test_a_host_of_several_is_in_no_team_a_second_time() -> None:
    """Not even with a third device: what its own host does beside is not known."""
    others = (stored(2.0, device="cpu-b"), stored(2.0, device="cpu-c"))
    found = plan(on_hosts(2.0), *others)
    assert [one.devices for one in found.planned if one.batch > 256] == [("cpu-b", "cpu-c")]
    assert ("cpu-1", "cpu-b") in [one.devices for one in found.planned if one.batch == 256]


def test_other_partners_are_another_row() -> None:
    third = {"hosts": ("cpu-1's", "c"), "host_devices": ("cpu-1", "cpu-c")}
    found = plan(on_hosts(2.0), on_hosts(1.0, third))
    assert [(one.shown, one.step_s.value) for one in found.planned] == [
        (("cpu-1", "c"), 1.0),
        (("cpu-1", "b"), 2.0),
    ]


@pytest.mark.parametrize(
    ("devices", "rows"), [({"cpu-1"}, 0), ({"cpu-b"}, 0), ({"cpu-1", "cpu-b"}, 1)]
)
def test_all_hosts_have_to_be_asked_for(devices: set[str], rows: int) -> None:
    asked = Asked("detector", devices=frozenset(devices))
    assert len(plan(on_hosts(2.0), asked=asked).planned) == rows


DEFAULTS: dict[str, Scalar] = {"hosts": 1, "flush_denormals": False, "warmup_steps": 3}


def altered(result: StoredResult, knobs: Mapping[str, Scalar]) -> StoredResult:
    return result.model_copy(update={"knobs": {**result.knobs, **knobs}})


COMPLETE = Asked("detector", target=0.5, defaults={"torch": DEFAULTS})


@pytest.mark.parametrize(
    ("timed", "training", "beside"),
    [
        ({}, {}, True),
        ({}, {"flush_denormals": False}, True),
        ({"warmup_steps": 5}, {}, True),
        ({"hosts": 2}, {}, False),
        ({"flush_denormals": True}, {}, False),
        ({}, {"flush_denormals": True}, False),
        ({"flush_denormals": True}, {"flush_denormals": True}, True),
    ],
)
def test_what_a_cell_leaves_out_is_its_default(
    timed: dict[str, Scalar], training: dict[str, Scalar], beside: bool
) -> None:
    found = plan(altered(TIMED, timed), altered(took(90.0), training), asked=COMPLETE)
    assert [one.took_s is not None for one in found.planned] == [beside]


def test_what_no_interval_is_known_of_has_none() -> None:
    """Two points always lie on a law, and one run has nothing to differ from."""
    two = CONVERGENCE.model_copy(update={"points": CONVERGENCE.points[:2]})
    once = training_plan(two, [stored(2.0)], ASKED).planned[0]
    assert [e.low for e in (once.step_s, once.epoch_s, once.epochs, once.train_s)] == [None] * 4
    assert once.notes == ()
    assert only(stored(2.0)).epoch_s.low is None, "though the epochs have one"
    (row,) = rows_of(plan(stored(2.0)))
    assert row[COLUMNS.index("epoch")] == "2.17 h"
    again = training_plan(two, [stored(2.0, run="a"), stored(2.1, run="b")], ASKED).planned[0]
    ratio = [(e.high or 0.0) / e.value for e in (again.step_s, again.epoch_s)]
    assert ratio == pytest.approx([ratio[0]] * 2)
    assert ratio[0] > 1
    assert (again.train_s.low, again.train_s.high) == (None, None), "epochs differ, by nobody knows"
    assert again.train_s.value == pytest.approx(again.epoch_s.value * again.epochs.value)


def measured_by(torch: str, started_s: float, step_s: float, run: str = "r") -> StoredResult:
    """Return a result of a version of torch."""
    facts = {"torch": torch, "hostname": run}
    return stored(step_s, run=run).model_copy(
        update={"environment": facts, "started_at": started_s}
    )


def test_only_results_like_the_newest_count() -> None:
    """A median over two versions of the software is the time of neither."""
    now = [measured_by("2.13", 10.0 + n, 2.0, f"n{n}") for n in range(3)]
    before = [measured_by("2.8", 1.0 + n, 4.0, f"o{n}") for n in range(4)]
    planned = only(*before, *now)
    assert (planned.step_s.value, planned.runs) == (2.0, 3)
    (note,) = planned.notes
    assert note == (
        "results left out, as they are unlike the newest one of their cell: "
        "4 of cpu-1 (torch differs: 2.13 and 2.8)"
    )
    assert list(remark_lines(plan(*before, *now))) == list(planned.notes)
    assert only(*now).notes == (), "a host's name may differ"
    went_back = only(*before, *now, measured_by("2.8", 99.0, 4.2))
    assert (went_back.step_s.value, went_back.runs) == (4.0, 5)


def test_each_device_has_its_own_newest() -> None:
    found = plan(
        measured_by("2.13", 9.0, 2.0),
        measured_by("2.8", 1.0, 4.0).model_copy(update={"device": "cpu-2"}),
    )
    assert [one.step_s.value for one in found.planned] == [2.0, 4.0, 4.0]
    assert not any("left out" in note for one in found.planned for note in one.notes)


def test_a_stack_s_own_facts_tell_results_apart() -> None:
    declared = OwnFact(kind=FactKind.IDENTITY, equal=Equal.STACK, means="version of a library")
    one, other = (
        stored(step_s, run=f"{step_s}").model_copy(
            update={"environment": {"library": version}, "started_at": step_s}
        )
        for step_s, version in ((2.0, "1"), (4.0, "2"))
    )
    (together,) = plan(one, other).planned
    assert together.runs == 2
    asked = Asked("detector", own={"library": declared})
    (newest,) = plan(one, other, asked=asked).planned
    assert (newest.runs, newest.step_s.value) == (1, 4.0)
