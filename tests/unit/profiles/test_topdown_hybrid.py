"""Top-down shares of CPUs with two kinds of cores: those of one kind, and a note on the other."""

from __future__ import annotations

import re

import pytest

from controller.contracts.topdown import TopDown
from controller.profiles.errors import ProfileUnreadable
from controller.profiles.topdown import topdown_in

P_CORES = {
    "retiring": 0.30,
    "bad_speculation": 0.05,
    "frontend_bound": 0.15,
    "backend_bound": 0.50,
}
E_CORES = {
    "retiring": 0.10,
    "bad_speculation": 0.10,
    "frontend_bound": 0.60,
    "backend_bound": 0.20,
}
EVENTS = """\
100000,,cpu_atom/topdown-retiring/,250000,100.00,,
300000,,cpu_core/topdown-retiring/,250000,100.00,,
50000,,cpu_atom/topdown-bad-spec/,250000,100.00,,
50000,,cpu_core/topdown-bad-spec/,250000,100.00,,
150000,,cpu_atom/topdown-fe-bound/,250000,100.00,,
150000,,cpu_core/topdown-fe-bound/,250000,100.00,,
700000,,cpu_atom/topdown-be-bound/,250000,100.00,,
500000,,cpu_core/topdown-be-bound/,250000,100.00,,
1000000,,cpu_core/slots/,250000,100.00,,
"""
"""perf stat -e slots,topdown-…: each event of both PMUs, but slots only of the P-cores'."""
METRICS = """\
1000,,cpu_core/TOPDOWN.SLOTS/,250000,100.00,50.0,%  tma_backend_bound
,,,,,30.0,%  tma_retiring
,,,,,5.0,%  tma_bad_speculation
,,,,,15.0,%  tma_frontend_bound
1000,,cpu_atom/TOPDOWN_BE_BOUND.ALL/,250000,100.00,20.0,%  tma_backend_bound
,,,,,10.0,%  tma_retiring
,,,,,10.0,%  tma_bad_speculation
,,,,,60.0,%  tma_frontend_bound
"""
"""perf stat --topdown --no-metric-only: a metric without event is of the event above it."""
GROUPS = re.sub(r"^1000,,(cpu_\w+)/.*100\.00", r",,,,,TopdownL1 (\1)\n,,,,", METRICS, flags=re.M)
"""perf stat: metrics that are printed by default, below the name of their group."""
OBJECTS = """\
{"counter-value" : "1000", "event" : "cpu_core/TOPDOWN.SLOTS/", "metric-value" : "50.0", \
"metric-unit" : "%  tma_backend_bound"}
{"metric-value" : "30.0", "metric-unit" : "%  tma_retiring"}
{"metric-value" : "5.0", "metric-unit" : "%  tma_bad_speculation"}
{"metric-value" : "15.0", "metric-unit" : "%  tma_frontend_bound"}
{"counter-value" : "1000", "event" : "cpu_atom/TOPDOWN_BE_BOUND.ALL/", "metric-value" : "20.0", \
"metric-unit" : "%  tma_backend_bound"}
{"metric-value" : "10.0", "metric-unit" : "%  tma_retiring"}
{"metric-value" : "10.0", "metric-unit" : "%  tma_bad_speculation"}
{"metric-value" : "60.0", "metric-unit" : "%  tma_frontend_bound"}
"""
LEFT_OUT = "only of cpu_core; left out 4 values of other kinds of cores: cpu_atom"


def read(text: str) -> TopDown:
    return topdown_in(text.encode(), "counted.csv")


def of_intervals(text: str) -> str:
    return "".join(f"{second}.0,{line}\n" for second in (1, 2) for line in text.splitlines())


def swapped(text: str) -> str:
    """Return a text in which the second half of the lines comes first."""
    lines = text.splitlines(keepends=True)
    return "".join(lines[len(lines) // 2 :] + lines[: len(lines) // 2])


@pytest.mark.parametrize(
    "text",
    [
        EVENTS,
        EVENTS.replace("cpu_core/slots/", "slots"),
        METRICS,
        swapped(METRICS),
        swapped(METRICS).replace("cpu_core/TOPDOWN.SLOTS/", "TOPDOWN.SLOTS"),
        GROUPS,
        OBJECTS,
        swapped(OBJECTS),
    ],
    ids=[
        *("events", "slots without PMU", "metrics", "E-cores first", "P-cores without PMU"),
        *("groups", "JSON", "JSON, E-cores first"),
    ],
)
def test_the_shares_are_those_of_the_p_cores(text: str) -> None:
    found = read(text)
    assert found.shares == pytest.approx(P_CORES)
    assert found.notes == (LEFT_OUT,)


def test_intervals_are_averaged_for_the_p_cores_alone() -> None:
    found = read(of_intervals(METRICS))
    assert found.shares == pytest.approx(P_CORES)
    assert found.notes == (
        LEFT_OUT.replace("4 values", "8 values"),
        "means of 2 intervals or groups of cores, each of which counts alike",
    )


@pytest.mark.parametrize("word", ["<not counted>", "nan"])
def test_a_kind_of_cores_that_did_nothing_needs_no_note(word: str) -> None:
    idle = re.sub(r"^\d+(?=,,cpu_atom)", word, EVENTS, flags=re.MULTILINE)
    assert read(idle) == TopDown(source="perf, counted.csv", shares=P_CORES)


def test_without_values_of_the_p_cores_those_of_the_e_cores_are_read() -> None:
    p_cores, e_cores = METRICS[: METRICS.index("1000,,cpu_atom")], swapped(METRICS)
    idle = re.sub(r"(?m)^1000|[0-9.]+(?=,%)", "nan", p_cores)
    for text in (e_cores[: e_cores.index("1000,,cpu_core")], idle + e_cores[: -len(p_cores)]):
        found = read(text)
        assert found.shares == pytest.approx(E_CORES)
        assert found.notes == ()


def test_events_without_slots_are_refused_for_that() -> None:
    e_cores = "".join(line for line in EVENTS.splitlines(keepends=True) if "cpu_atom" in line)
    with pytest.raises(ProfileUnreadable, match=r"no counts of both slots and topdown-\*"):
        read(e_cores)
