"""What a slower step is blamed on: the machine only if neither work nor conditions differ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from controller.contracts.base import Scalar
from controller.profiles.diffing import diff
from controller.profiles.model import KernelRow, Profile
from controller.profiles.parts import WAITING
from controller.reports.profile_diff_lines import answer_lines, is_same
from tests.support.planted_profile import kernel, profile

MANY = [kernel(f"aten::op{n}", 0.01, calls=10.0) for n in range(50)]


def machine(told: Profile, **facts: Scalar) -> Profile:
    """Return a profile that also tells some facts of its machine."""
    assert told.summary.origin
    environment = {"cpu_model": "EPYC", **facts}
    origin = told.summary.origin.model_copy(update={"environment": environment})
    return replace(told, summary=told.summary.model_copy(update={"origin": origin}))


@pytest.mark.parametrize(
    ("rates", "end"),
    [
        ((None, None), "So the machine itself had another speed."),
        (
            (160.0, 120.0),
            (
                "So the machine itself had another speed: matrix products beside the steps ran at "
                "160 GFLOP/s in A, 120 GFLOP/s in B."
            ),
        ),
        (
            (160.0, 158.0),
            (
                "Nothing that is recorded explains it: matrix products beside the steps ran at "
                "160 GFLOP/s in A, 158 GFLOP/s in B."
            ),
        ),
        (
            (120.0, 160.0),
            (
                "Nothing that is recorded explains it: matrix products beside the steps ran at "
                "120 GFLOP/s in A, 160 GFLOP/s in B."
            ),
        ),
    ],
    ids=["no reading", "slower, too", "as fast", "faster"],
)
def test_a_step_that_is_slower_in_all_its_parts_is_the_machines(
    rates: tuple[float | None, float | None], end: str
) -> None:
    slower = [replace(row, self_s=row.self_s * 1.3) for row in MANY]
    profiles = profile(MANY), profile(slower)
    one, other = (
        machine(of, **({} if rate is None else {"matmul_gflops": rate}))
        for of, rate in zip(profiles, rates, strict=True)
    )
    found = diff(one, other)
    assert is_same(found)
    first, *_ = answer_lines(found, 3)
    assert first.startswith("no difference of work or conditions shown: B took 1.30× the time of A")
    assert f"500 ms. {end} `benchfarm compare`" in first
    assert len(answer_lines(found, 3)) == 1, "and nothing that contradicts it"


def test_the_machine_is_not_blamed_where_conditions_are_not_known() -> None:
    slower = [replace(row, self_s=row.self_s * 1.3) for row in MANY]
    bare = [
        replace(of, summary=of.summary.model_copy(update={"origin": None}))
        for of in (profile(MANY), profile(slower))
    ]
    for one, other in (bare, [profile(MANY), profile(slower)]):
        found = diff(one, other)
        assert is_same(found)
        first, *_ = answer_lines(found, 3)
        assert first.startswith("no difference of work shown: B took 1.30× the time of A")
        assert "Not all conditions are known of both" in first
        assert "machine" not in first


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda row: replace(row, calls=row.calls * 1.2), "calls"),
        (lambda row: replace(row, place=replace(row.place, dims="[[3, 16, 32, 32]]")), "shapes"),
        (lambda row: replace(row, place=replace(row.place, dtypes='["double"]')), "data type"),
    ],
    ids=["calls", "shapes", "types"],
)
@pytest.mark.parametrize("times", [1.0, 1.15])
def test_other_work_is_not_blamed_on_the_machine(
    change: Callable[[KernelRow], KernelRow], kind: str, times: float
) -> None:
    """Each change takes less more time than its own noise; together they are all of the step."""
    other = [replace(change(row), self_s=row.self_s * times) for row in MANY]
    found = diff(machine(profile(MANY)), machine(profile(other)))
    assert not is_same(found)
    first, line, *rest = answer_lines(found, 3)
    assert "machine" not in first
    assert "no difference of work" not in first
    assert line == (
        f"+{'75' if times > 1 else '0'} ms  other work, each time too small to tell: "
        f"aten::op0 ({kind}), aten::op1 ({kind}), aten::op2 ({kind}) and 47 more: "
        f"500 ms → {'575' if times > 1 else '500'} ms"
    )
    assert not rest


def test_a_little_other_work_is_told_with_all_that_is_too_small() -> None:
    """One of fifty: 2 % of the step."""
    dims = "[[3, 16, 32, 32]]"
    slower = [replace(row, self_s=row.self_s * 1.15) for row in MANY]
    some = [replace(row, place=replace(row.place, dims=dims)) for row in slower[:1]]
    found = diff(machine(profile(MANY)), machine(profile([*some, *slower[1:]])))
    assert is_same(found)
    assert "the machine itself" in answer_lines(found, 3)[0]


def _slower(times: float, own: dict[str, float]) -> list[KernelRow]:
    """Return all operations slower, some by times of their own."""
    return [replace(row, self_s=row.self_s * own.get(row.place.op, times)) for row in MANY]


def test_a_machine_that_is_slower_in_some_parts_more_is_no_difference() -> None:
    """As where its memory has become slower than its cores, by 1.45 to 2.07 times."""
    large = [kernel("aten::conv2d", 0.3), kernel("aten::mm", 0.2), *MANY[:20]]
    times = {"aten::conv2d": 1.45, "aten::mm": 1.62}
    slower = [replace(r, self_s=r.self_s * times.get(r.place.op, 1.55)) for r in large]
    found = diff(machine(profile(large)), machine(profile(slower)))
    assert is_same(found)
    assert "no difference of work or conditions shown" in answer_lines(found, 3)[0]


@pytest.mark.parametrize("times", [0.7, 1.0, 1.5])
def test_what_is_slower_by_itself_is_told_beside_the_machines_speed(times: float) -> None:
    one = [*MANY, kernel("aten::relu", 0.05)]
    other = [*_slower(times, {}), kernel("aten::relu", 0.25)]
    found = diff(machine(profile(one)), machine(profile(other)))
    assert not is_same(found)
    assert [change.op for change in found.changes if change.resolved] == ["aten::relu"]
    beside = f"5.00× the time, where all of the same work took {times:.2f}×, forward"
    assert any(beside in line for line in answer_lines(found, 3)) == (times != 1.0)
    told = f"50 changes too small to tell beside the machine's own speed: {times:.2f}× the time"
    assert any(told in line for line in answer_lines(found, 3)) == (times != 1.0)


SLOW = {"aten::conv2d": 2.0}


@pytest.mark.parametrize(
    ("share_s", "rates", "is_told"),
    [
        (0.35, {}, True),
        (0.85, {}, True),  # all else took as long as before
        (0.85, {"a": 160.0, "b": 143.0}, True),
        (0.95, {"a": 160.0, "b": 143.0}, True),
        (0.95, {}, False),  # nothing else is there to be compared with
        (0.95, {"a": 160.0, "b": 158.0}, True),
        (0.95, {"a": 160.0, "b": 80.0}, False),
    ],
    ids=[
        *("of a third", "of most", "of most, and the machine a little slower"),
        *("of nearly all, and the machine a little slower", "of nearly all"),
        *("the machine was as fast", "the machine was slower, too"),
    ],
)
def test_what_takes_most_of_a_step_is_the_machines_only_with_all_else(
    share_s: float, rates: dict[str, float], is_told: bool
) -> None:
    rows = [
        kernel("aten::conv2d", share_s),
        *MANY[: 1 if share_s > 0.9 else round((1 - share_s) / 0.01)],
    ]
    other = [replace(r, self_s=r.self_s * SLOW.get(r.place.op, 1.0)) for r in rows]
    facts: list[dict[str, Scalar]] = [
        {"matmul_gflops": rates[name]} if rates else {} for name in ("a", "b")
    ]
    found = diff(machine(profile(rows), **facts[0]), machine(profile(other), **facts[1]))
    assert ("aten::conv2d" in [c.op for c in found.changes if c.resolved]) == is_told
    assert (found.same_work_times == 1.0) == is_told


def test_waiting_is_not_the_machines_speed() -> None:
    one, other = ([kernel(WAITING, seconds), *MANY[:30]] for seconds in (1.6, 3.2))
    found = diff(machine(profile(one)), machine(profile(other)))
    assert found.same_work_times == 1.0
    assert [change.op for change in found.changes if change.resolved] == [WAITING]


def test_waiting_that_stays_is_no_change_on_a_slower_machine() -> None:
    one, other = ([kernel(WAITING, 0.3), *rows] for rows in (MANY, _slower(2.0, {})))
    found = diff(machine(profile(one)), machine(profile(other)))
    assert found.same_work_times == pytest.approx(2.0)
    assert not [change for change in found.changes if change.resolved]


def test_under_other_conditions_nothing_is_the_machines() -> None:
    """As of one thread fewer, which makes all work slower."""
    large = [kernel("aten::conv2d", 0.3), kernel("aten::mm", 0.2)]
    slower = [replace(row, self_s=row.self_s * 2) for row in large]
    found = diff(machine(profile(large)), machine(profile(slower), malloc="glibc 2.36"))
    assert found.conditions
    assert len([change for change in found.changes if change.resolved]) == 2


def test_modules_that_vary_by_themselves_are_of_an_operation_that_is_slower() -> None:
    """Of 53 convolutions, each took 0.4 to 0.8 times as long; together they took 0.56 times."""
    names = [f"layer{n}" for n in range(20)]
    one = [*MANY[:20], *(kernel("aten::conv2d", 0.03, module=name) for name in names)]
    times = {name: 0.56 + (0.2 if n % 2 else -0.2) for n, name in enumerate(names)}
    other = [replace(r, self_s=r.self_s * times.get(r.place.module, 0.56)) for r in one]
    found = diff(machine(profile(one)), machine(profile(other)))
    assert is_same(found)
    assert found.same_work_times == pytest.approx(0.56)


@pytest.mark.parametrize("validity", ["VALID", "DISTURBED"])
def test_rates_beside_a_disturbed_step_do_not_deny_that_the_machine_was_slower(
    validity: str,
) -> None:
    """They are of moments around it: a step of 405 ms took 225 ms beside slower products."""
    one, other = (
        machine(profile(rows), matmul_gflops=rate)
        for rows, rate in ((_slower(1.8, {}), 1177.0), ([*MANY], 955.0))
    )
    told = one.summary.model_copy(update={"validity": validity})
    found = diff(replace(one, summary=told), other)
    assert (found.same_work_times != 1.0) == (validity == "DISTURBED")
    first, *_ = answer_lines(found, 3)
    assert "Nothing that is recorded explains it: matrix products beside the steps ran at" in first


def test_one_module_that_is_slower_is_no_slower_machine() -> None:
    """Its operation has nearly all of the time, and would be its own witness."""
    names = [f"layer{n}" for n in range(20)]
    one = [*MANY[:2], *(kernel("aten::conv2d", 0.03, module=name) for name in names)]
    other = [replace(r, self_s=r.self_s * (10 if r.place.module == "layer0" else 1)) for r in one]
    found = diff(machine(profile(one)), machine(profile(other)))
    assert found.same_work_times == 1.0
    assert [change.op for change in found.changes if change.resolved] == ["aten::conv2d"]
