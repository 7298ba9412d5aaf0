"""Conditions in which two profiles differ: each is named once, whichever is A."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controller.contracts.profile import ProfileOrigin, ProfileSummary
from controller.contracts.profile_diff import ProfileDiff
from controller.profiles.diff_conditions import conditions_of
from controller.profiles.diffing import diff
from controller.reports.profile_diff_lines import answer_lines, is_same
from tests.support.planted_profile import profile, step

KNOBS: dict[str, Any] = {"threads": 0, "cores": "all", "malloc": "glibc-tuned", "openmp": "gnu"}
FACTS: dict[str, Any] = {
    "cpu_model": "EPYC",
    "isa": ("avx", "avx2"),
    "cores": 2,
    "torch_isa": "AVX2",
    "onednn_isa": "Intel AVX2",
    "affinity": (0, 1),
    "malloc": "glibc 2.36",
    "openmp": ("libgomp.so.1",),
    "settings": ("GLIBC_TUNABLES=glibc.malloc.trim_threshold=8589934592", "OMP_NUM_THREADS=2"),
    "kernels": "avx2",
    "packages": ("torch==2.13.0",),
    "timed_s": 4.7,
}


def summary(knobs: dict[str, Any] | None = None, **facts: object) -> ProfileSummary:
    """Return the summary of a profile that was measured here, with other knobs and facts."""
    known = {"stack": "torch", "threads": 2, **facts}
    told = {
        "workload": "net",
        "stack": known.pop("stack"),
        "device": "here",
        "threads": known["threads"],
        "knobs": {**KNOBS, **(knobs or {})},
        "environment": {**FACTS, **known},
    }
    origin = ProfileOrigin.model_validate(told)
    return ProfileSummary(steps=5, step_s=1.0, origin=origin)


def compared(one: ProfileSummary, other: ProfileSummary) -> ProfileDiff:
    """Return the differences of two profiles that differ in nothing but conditions."""
    steps = profile(step())
    return diff(replace(steps, summary=one), replace(steps, summary=other))


def lines_of(one: ProfileSummary, other: ProfileSummary) -> list[str]:
    lines = answer_lines(compared(one, other), 3)
    return [line for line in lines if line.startswith(("differs", "not known"))]


@pytest.mark.parametrize(
    ("fact", "value", "line"),
    [
        ("isa", ("avx",), "differs: isa (avx2 only in A)"),
        ("isa", ("avx2", "avx"), None),
        ("onednn_isa", "Intel AVX", "differs: onednn_isa Intel AVX2 → Intel AVX"),
        ("torch_isa", "DEFAULT", "differs: torch_isa AVX2 → DEFAULT"),
        ("kernels", "reference", "differs: kernels avx2 → reference"),
        ("cores", 64, "differs: cores 2 → 64"),
        ("malloc", "glibc 2.31", "differs: malloc glibc 2.36 → glibc 2.31"),
        ("affinity", (0,), "differs: affinity (1 only in A)"),
        (
            "openmp",
            ("libiomp5.so",),
            "differs: openmp (libgomp.so.1 only in A, libiomp5.so only in B)",
        ),
        (
            "settings",
            (*FACTS["settings"], "ONEDNN_MAX_CPU_ISA=AVX"),
            "differs: settings (ONEDNN_MAX_CPU_ISA=AVX only in B)",
        ),
        ("weights_sha256", "ee", "differs: weights_sha256 not known → ee"),
        ("packages", ("torch==2.13.0", "mkl==2021"), None),
        ("timed_s", 9.0, None),
    ],
)
def test_facts_that_must_be_equal_are_compared(fact: str, value: object, line: str | None) -> None:
    one, other = summary(), summary(None, **{fact: value})
    assert lines_of(one, other) == ([line] if line else [])
    assert [of.name for of in conditions_of(other, one)] == ([fact] if line else [])


@pytest.mark.parametrize(
    ("knobs", "facts", "line"),
    [
        (
            {"malloc": "jemalloc"},
            {
                "malloc": "libjemalloc.so.2",
                "settings": ("MALLOC_CONF=dirty_decay_ms:-1", "OMP_NUM_THREADS=2"),
            },
            "differs: malloc glibc-tuned → jemalloc",
        ),
        (
            {"threads": 1},
            {"threads": 1, "settings": (FACTS["settings"][0], "OMP_NUM_THREADS=1")},
            "differs: threads 2 → 1",
        ),
        (
            {"openmp": "intel"},
            {
                "openmp": ("libiomp5.so",),
                "settings": ("KMP_BLOCKTIME=1", *FACTS["settings"]),
            },
            "differs: openmp gnu → intel",
        ),
        ({"cores": "physical"}, {"affinity": (0,)}, "differs: cores all → physical"),
    ],
    ids=["malloc", "threads", "openmp", "cores"],
)
def test_a_knob_and_what_follows_it_are_one_condition(
    knobs: dict[str, Any], facts: dict[str, Any], line: str
) -> None:
    one, other = summary(), summary(knobs, **facts)
    assert lines_of(one, other) == [line]
    assert len(conditions_of(other, one)) == 1


def test_a_setting_of_its_own_is_named_beside_a_knob() -> None:
    settings = (FACTS["settings"][0], "KMP_BLOCKTIME=200", "OMP_NUM_THREADS=1")
    other = summary({"threads": 1}, threads=1, settings=settings)
    assert lines_of(summary(), other) == [
        "differs: threads 2 → 1",
        "differs: settings (KMP_BLOCKTIME=200 only in B)",
    ]


def test_how_a_run_is_measured_is_no_condition() -> None:
    other = summary({"steps": 20, "warmup_steps": 9, "policy": "lab"})
    assert conditions_of(summary({"steps": 10, "warmup_steps": 3, "policy": "ci"}), other) == []


def test_another_stack_has_versions_of_its_own() -> None:
    other = summary(stack="ipex", ipex_onednn="3.5", torch_isa="AVX512")
    assert lines_of(summary(), other) == [
        "differs: stack torch → ipex",
        "differs: torch_isa AVX2 → AVX512",
    ]


def test_conditions_that_one_does_not_tell_are_one_line() -> None:
    imported = ProfileSummary(steps=5, origin=ProfileOrigin(file="trace.json", threads=1))
    measured = summary(denormal_share=0.02)
    lines = lines_of(measured, imported)
    assert lines[:2] == ["differs: threads 2 → 1", "differs: denormal_share 0.02 → not known"]
    (line,) = lines[2:]
    assert line == (
        "not known in B: workload, stack, device, cores, malloc, openmp, cpu_model, isa, "
        "torch_isa, onednn_isa, kernels, settings"
    )
    assert lines_of(imported, measured)[2:] == [line.replace("in B", "in A")]


def test_many_names_are_cut() -> None:
    imported = ProfileSummary(steps=5, origin=ProfileOrigin(file="trace.json", threads=2))
    (line,) = lines_of(summary({f"knob{n}": n for n in range(20)}), imported)
    assert line.startswith("not known in B: workload, stack, device, cores, malloc, openmp, knob0")
    assert line.endswith("knob5 and 20 more")


def test_runtimes_of_two_logs_are_compared() -> None:
    def of_log(runtime: str) -> ProfileSummary:
        origin = ProfileOrigin(file="a.log", environment={"onednn_runtime": runtime})
        return ProfileSummary(steps=5, origin=origin)

    assert lines_of(of_log("OpenMP"), of_log("threadpool")) == [
        "differs: onednn_runtime OpenMP → threadpool"
    ]


def test_two_runs_of_a_cell_have_the_same_conditions() -> None:
    one, other = summary(matmul_gflops=100.0), summary(matmul_gflops=90.0, timed_s=2.0)
    assert is_same(compared(one, other))
