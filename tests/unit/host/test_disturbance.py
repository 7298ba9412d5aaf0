"""How much others used the cores, and when that makes a run INVALID or DISTURBED."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from agents.host.cpu_watch import (
    TICKS_PER_S,
    CpuTimes,
    CpuWatch,
    cpu_ticks,
    read_cpu_times,
    siblings_of,
)
from agents.host.disturbance import environment_of, objections, validity_of
from agents.host.strain import Strain, own_cores
from controller.contracts.policy import load_policy
from controller.contracts.result import Validity
from tests.support.fake_sysfs import write_files

STAT = """\
cpu  50 1 30 900 7 2 3 4 0 0
cpu0 10 1 10 400 7 1 1 1 0 0
cpu1 40 0 20 500 0 1 2 3 5 0
cpu10 999 0 0 0 0 0 0 99 0 0
intr 1 2 3
"""


SIBLINGS = "devices/system/cpu/cpu{}/topology/thread_siblings_list"
UNSTRAINED = Strain(memory_of_s=10.0)


def timed(other_s: float = 0.0, steal_s: float = 0.0, strain: Strain = UNSTRAINED) -> CpuTimes:
    """Return ten seconds on two cores, of which this process used fifteen CPU seconds."""
    return CpuTimes(10.0, 2, busy_s=15.0 + other_s, steal_s=steal_s, own_s=15.0, strain=strain)


def test_ticks_of_the_cores_that_are_asked_for() -> None:
    assert cpu_ticks(STAT, frozenset({0})) == (23, 1)
    assert cpu_ticks(STAT, frozenset({0, 1})) == (86, 4)
    assert cpu_ticks(STAT, frozenset()) == (0, 0)


def test_what_siblings_do_counts_but_not_what_is_stolen_from_them(tmp_path: Path) -> None:
    lists = {SIBLINGS.format(cpu): "0,2\n" for cpu in (0, 2)}
    write_files(tmp_path, {**lists, SIBLINGS.format(5): "?"})
    assert siblings_of(frozenset({0}), tmp_path) == {2}
    assert siblings_of(frozenset({0, 2, 5, 6}), tmp_path) == frozenset()
    assert cpu_ticks(STAT, frozenset({0}), frozenset({1})) == (86, 1)
    assert cpu_ticks(STAT, frozenset({0}), frozenset({2})) == (23, 1), "it is not there"
    with pytest.raises(ValueError, match="does not have all"):
        cpu_ticks("cpu0 1 2 3 4 5 6 7 8\ncpu1 1 2\n", frozenset({0}), frozenset({1}))


@pytest.mark.parametrize(("sibling", "beside"), [(4095, 1.0), (4094, 0.0)])
def test_a_neighbour_on_a_sibling_disturbs(sibling: int, beside: float, tmp_path: Path) -> None:
    """With `cores: physical`, the worker runs on one CPU of each core, others on the second."""
    own = own_cores()
    write_files(tmp_path, {SIBLINGS.format(core): f"{min(own)},{sibling}" for core in own})

    def after(seconds: int) -> CpuTimes:
        idle = "".join(f"cpu{core} 0 0 0 9 0 0 0 0\n" for core in own)
        stat = tmp_path / "stat"
        stat.write_text(f"{idle}cpu4095 {seconds * TICKS_PER_S} 0 0 9 0 0 0 0\n")
        return replace(read_cpu_times(stat, tmp_path), elapsed_s=100.0 + seconds, own_s=0.0)

    start = after(0)
    found = after(10).since(start)
    assert (found.other_cores, found.steal_share, found.cores) == (beside, 0.0, len(own))
    assert len(objections(found, load_policy("lab"))) == beside


def test_others_are_counted_in_cores_and_what_was_stolen_as_a_share() -> None:
    assert timed(other_s=1.0).other_cores == 0.1
    assert timed(steal_s=0.4).steal_share == 0.02
    assert timed(other_s=-0.1).other_cores == 0.0, "ticks are coarse"
    assert (CpuTimes().other_cores, CpuTimes().steal_share) == (None, None)


def test_timed_sections_add_up() -> None:
    both = CpuTimes().plus(timed(1.0, 0.2)).plus(timed(3.0, 0.4))
    assert (both.elapsed_s, both.cores) == (20.0, 2)
    assert (both.other_cores, both.steal_share) == (0.2, 0.015)


@pytest.mark.parametrize("policy", ["ci", "lab"])
def test_within_the_bounds_nothing_is_objected_to(policy: str) -> None:
    quiet = timed(other_s=10 * 0.15, steal_s=20 * 0.02)
    assert objections(quiet, load_policy(policy)) == ()
    assert objections(CpuTimes(), load_policy(policy)) == ()


def test_beyond_them_the_reason_has_the_figures() -> None:
    (other,) = objections(timed(other_s=2.5), load_policy("lab"))
    assert other == (
        "other processes kept 0.25 of 2 cores busy while it was timed "
        "(2.50 CPU s in 10.00 s); policy lab allows 0.15"
    )
    (more,) = objections(timed(other_s=35), load_policy("lab"))
    assert more.startswith("other processes kept 3.50 cores, siblings of the 2 timed ones among ")
    (steal,) = objections(timed(steal_s=0.8), load_policy("lab"))
    assert "the hypervisor took 4.0% of the cores' time" in steal
    assert len(objections(timed(2.5, 0.8), load_policy("lab"))) == 2


@pytest.mark.parametrize(
    "short",
    [
        CpuTimes(elapsed_s=0.001, cores=2, busy_s=0.02),
        CpuTimes(elapsed_s=0.001, cores=2, steal_s=0.02),
        CpuTimes(elapsed_s=0.001, cores=2, strain=Strain(0.001, 0.001)),
        CpuTimes(elapsed_s=0.001, cores=2, strain=Strain(quota_s=0.001, quota_of_s=0.001)),
    ],
)
def test_a_tick_of_each_core_beside_a_short_run_disturbs_only_where_it_is_enforced(
    short: CpuTimes,
) -> None:
    assert objections(short, load_policy("ci")) == ()
    assert len(objections(short, load_policy("lab"))) == 1


QUIET, LIGHT, ONE_CORE, STOLEN = timed(), timed(4.9), timed(10.0), timed(steal_s=2.1)
SWAPPED, THRASHED = (timed(strain=Strain(waited_s, 10.0)) for waited_s in (0.2, 1.1))
SHORT, STOPPED = (timed(strain=Strain(quota_s=quota_s, quota_of_s=10.0)) for quota_s in (0.2, 60.0))
WITHIN_QUOTA = timed(strain=Strain(quota_s=0.1, quota_of_s=10.0))
HOT = timed(strain=Strain(throttles=3))
SLOWED, HALVED = (
    timed(strain=Strain(first_khz=3_000_000, least_khz=khz)) for khz in (2_600_000, 1_500_000)
)
UNKNOWN = CpuTimes(10.0, 2, unknown_s=10.0)


@pytest.mark.parametrize(
    ("machine", "reason", "ci", "lab"),
    [
        (QUIET, "", Validity.VALID, Validity.VALID),
        (UNKNOWN, "", Validity.VALID, Validity.VALID),
        (LIGHT, "other processes kept 0.49 of 2 cores", Validity.VALID, Validity.INVALID),
        (ONE_CORE, "other processes kept 1.00 of 2", Validity.DISTURBED, Validity.INVALID),
        (STOLEN, "the hypervisor took 10.5% of", Validity.DISTURBED, Validity.INVALID),
        (SWAPPED, "processes waited for memory in 2.0% of", Validity.VALID, Validity.INVALID),
        (THRASHED, "waited for memory in 11.0% of", Validity.DISTURBED, Validity.INVALID),
        (WITHIN_QUOTA, "", Validity.VALID, Validity.VALID),
        (SHORT, "stopped its threads for 0.20 s in 10.00 s", Validity.VALID, Validity.INVALID),
        (
            STOPPED,
            "its threads for 60.00 s in 10.00 s",
            Validity.DISTURBED,
            Validity.INVALID,
        ),
        (HOT, "heat throttled the cores while it was timed (3 ", Validity.VALID, Validity.INVALID),
        (SLOWED, "frequency of the cores fell by 13.3% ", Validity.VALID, Validity.INVALID),
        (HALVED, "from 3000000 to 1500000 kHz", Validity.DISTURBED, Validity.INVALID),
    ],
)
@pytest.mark.parametrize("policy", ["ci", "lab", "mlperf"])
def test_what_a_run_is_called(
    machine: CpuTimes, reason: str, ci: Validity, lab: Validity, policy: str
) -> None:
    limits = load_policy(policy)
    found = objections(machine, limits)
    # Policy mlperf asks nothing of a server.
    validity = {"ci": ci, "lab": lab, "mlperf": Validity.VALID}[policy]
    assert all(reason in one and f"policy {policy} allows" in one for one in found)
    assert len(found) <= 1
    assert validity_of((), found, limits) is validity
    assert validity_of(("its loss is nan",), found, limits) is Validity.INVALID
    assert bool(found) == (validity is not Validity.VALID)


def test_under_ci_the_figures_and_the_limit_are_said_and_recorded() -> None:
    disturbed = timed(other_s=9.0, steal_s=9.0)
    other, steal = objections(disturbed, load_policy("ci"))
    assert "kept 0.90 of 2 cores" in other
    assert other.endswith("policy ci allows 0.5")
    assert steal.endswith("policy ci allows 10%")
    facts = environment_of(disturbed)
    assert facts == {
        "timed_s": 10.0,
        "timed_own_cores": 1.5,
        "timed_other_cores": 0.9,
        "timed_steal_share": 0.45,
        "timed_memory_pressure": 0.0,
        "timed_quota_throttled_s": None,
        "timed_throttles": None,
        "timed_frequency_drop": None,
        "timed_hottest_celsius": None,
    }


def test_of_what_is_not_known_no_figure_is_given() -> None:
    known = {name for name, value in environment_of(UNKNOWN).items() if value is not None}
    assert known == {"timed_s"}


def test_a_watch_counts_this_process_as_own() -> None:
    watch = CpuWatch()
    with watch.timing():
        sum(range(10**6))
    first = watch.timed
    assert 0 < first.own_s <= first.elapsed_s * 1.01 + 0.01
    with watch.timing():
        sum(range(10**6))
    assert watch.timed.own_s > first.own_s
    assert watch.timed.cores == first.cores > 0


@pytest.mark.parametrize(
    "stat",
    [
        "",
        "cpu  1 2\n",
        "\0\xff\n\n",
        "cpu{core} 1 2 3\n",
        "cpu{core} a b c d e f g h i j\n",
        None,
    ],
)
def test_without_a_readable_stat_the_use_of_the_cores_is_not_known(
    stat: str | None, tmp_path: Path
) -> None:
    core = min(os.sched_getaffinity(0))
    path = tmp_path / "stat"
    if stat is not None:
        path.write_text(stat.format(core=core))
    start = read_cpu_times(path)
    found = read_cpu_times(path).since(start)
    assert found.unknown_s == found.elapsed_s > 0
    assert (found.other_cores, found.own_cores, found.steal_share) == (None, None, None)


@pytest.mark.parametrize("end", [{"busy_s": 4.0}, {"steal_s": 0.5}])
def test_a_counter_that_goes_backwards_hides_nothing_of_other_sections(
    end: dict[str, float],
) -> None:
    start = CpuTimes(0.0, 2, busy_s=5.0, steal_s=1.0)
    back = CpuTimes(10.0, 2, **({"busy_s": 6.0, "steal_s": 1.0} | end)).since(start)  # type: ignore[arg-type]
    assert (back.elapsed_s, back.unknown_s, back.other_cores) == (10.0, 10.0, None)
    both = back.plus(ONE_CORE)
    assert (both.elapsed_s, both.other_cores, both.own_cores) == (20.0, 1.0, 1.5)
    assert len(objections(both, load_policy("ci"))) == 1
