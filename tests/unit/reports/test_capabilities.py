"""What is told of a device's delegates: by planted results and failures, misleading ones too."""

from __future__ import annotations

import pytest

from controller.cli.capabilities import probes
from controller.contracts.base import Scalar
from controller.contracts.capability import MAX_NODES, Capability, Verdict
from controller.contracts.catalog import load_catalog
from controller.contracts.device import Device, DeviceKind, build_of
from controller.contracts.records import StoredFailure, StoredResult
from controller.contracts.result import Blame, Environment, Validity
from controller.reports.capabilities import capabilities
from controller.scheduling.expansion import cells_of

BUILD = "google/pixel/9:15/A1"
FORMER = "google/pixel/9:14/A0"
PHONE = Device(
    id="phone-1",
    kind=DeviceKind.ANDROID,
    virtual=False,
    facts={"fingerprint": BUILD, "abi": "arm64-v8a"},
)
ORIGIN: dict[str, object] = {
    "run_id": "r1",
    "sweep_id": "s",
    "cell_key": "c",
    "repeat": 0,
    "attempt": 1,
    "device": "phone-1",
    "device_kind": DeviceKind.ANDROID,
    "virtual": False,
    "workload": "edsr",
    "stack": "litert",
    "scenario": "single_stream",
    "knobs": {"delegate": "xnnpack", "numerics": "fp32"},
    "started_at": 100.0,
    "counted": True,
}
TAKEN: Environment = {"graph_nodes": 22, "delegated_nodes": 22, "fingerprint": BUILD}


def result(
    environment: Environment = TAKEN, reasons: tuple[str, ...] = (), **changes: object
) -> StoredResult:
    told = {"fingerprint": BUILD, **environment}
    validity = Validity.INVALID if reasons else Validity.VALID
    own = {"validity": validity, "reasons": reasons, "metrics": {}, "artefacts": {}}
    return StoredResult.model_validate({**ORIGIN, **own, "environment": told, **changes})


def failure(blame: Blame, kind: str, **changes: object) -> StoredFailure:
    told = {"environment": {"fingerprint": BUILD}, "message": "it\nended", "output": ""}
    own = {"blame": blame, "kind": kind, **told}
    return StoredFailure.model_validate(
        {**ORIGIN, **own, "exit_code": 1, "signal": None, "started_at": 200.0, **changes}
    )


def only(*said: StoredResult | StoredFailure) -> Capability | None:
    """Return what is known of the present build of the phone."""
    found = [
        one
        for one in capabilities(said)
        if (one.device, one.build) == (PHONE.id, build_of(PHONE.facts))
    ]
    assert len(found) <= 1
    return found[0] if found else None


@pytest.mark.parametrize(
    ("knobs", "environment", "reasons", "verdict", "why"),
    [
        ({"delegate": "xnnpack"}, TAKEN, (), Verdict.WORKS, "22 of 22 nodes"),
        (
            {"delegate": "xnnpack"},
            {"graph_nodes": 78, "delegated_nodes": 16, "undelegated_operators": ("CONV_2D", "ADD")},
            (),
            Verdict.FALLS_BACK,
            "16 of 78 nodes, not CONV_2D, ADD",
        ),
        (
            {"delegate": "xnnpack"},
            {"graph_nodes": 78, "delegated_nodes": 0, "delegate": "none"},
            ("delegate none ran it, not xnnpack",),
            Verdict.FALLS_BACK,
            "delegate none ran it, not xnnpack; 0 of 78 nodes",
        ),
        (  # a program that doesn't tell: not taken for the whole graph
            {"delegate": "xnnpack"},
            {},
            (),
            Verdict.FALLS_BACK,
            "how many nodes it took is untold",
        ),
        (
            {"delegate": "none"},
            {"graph_nodes": 78, "delegated_nodes": 0},
            (),
            Verdict.WORKS,
            "on the runtime's own kernels",
        ),
        (  # INVALID for another reason says nothing against the delegate
            {"delegate": "xnnpack"},
            TAKEN,
            ("policy lab: it throttled",),
            Verdict.WORKS,
            "22 of 22 nodes",
        ),
        (
            {"use_xnnpack": True, "use_gpu": True, "use_nnapi": False},
            {"graph_nodes": 31, "delegated_nodes": 29},
            (),
            Verdict.FALLS_BACK,
            "29 of 31 nodes",
        ),
    ],
)
def test_what_a_result_says(
    knobs: dict[str, Scalar],
    environment: Environment,
    reasons: tuple[str, ...],
    verdict: Verdict,
    why: str,
) -> None:
    found = only(result(environment, reasons, knobs={**knobs, "numerics": "int8"}))
    assert found
    assert (found.verdict, found.why, found.numerics) == (verdict, why, "int8")
    assert found.delegate == ("gpu" if "use_gpu" in knobs else knobs["delegate"])


Knobs = dict[str, Scalar]
COUNTED: Knobs = {"delegate": "xnnpack", "numerics": "fp32"}
GPU: Knobs = {"use_gpu": True, "use_xnnpack": True, "numerics": "fp32"}


@pytest.mark.parametrize(
    ("asked", "environment", "verdict", "share", "why"),
    [
        (COUNTED, TAKEN, Verdict.WORKS, 1.0, "22 of 22 nodes"),
        (
            COUNTED,
            {"graph_nodes": 22, "delegated_nodes": 0},
            Verdict.FALLS_BACK,
            0.0,
            "0 of 22 nodes",
        ),
        (
            COUNTED,
            {"graph_nodes": 22, "delegated_nodes": 23},
            Verdict.FALLS_BACK,
            None,
            "it says 23 of 22 nodes, which can't be",
        ),
        (
            COUNTED,
            {"graph_nodes": 10**40, "delegated_nodes": 10**40},
            Verdict.FALLS_BACK,
            None,
            f"it says {10**19} of {10**19} nodes, which can't be",
        ),
        (
            COUNTED,
            {"graph_nodes": MAX_NODES + 1, "delegated_nodes": 1},
            Verdict.FALLS_BACK,
            None,
            "it says 1 of 2147483648 nodes, which can't be",
        ),
        (
            COUNTED,
            {"graph_nodes": -1, "delegated_nodes": -1},
            Verdict.FALLS_BACK,
            None,
            "it says -1 of -1 nodes, which can't be",
        ),
        (
            COUNTED,
            {"graph_nodes": 0, "delegated_nodes": 0},
            Verdict.FALLS_BACK,
            None,
            "it says 0 of 0 nodes, which can't be",
        ),
        (
            COUNTED,
            {"graph_nodes": True, "delegated_nodes": True},
            Verdict.FALLS_BACK,
            None,
            "it says True of True nodes, which can't be",
        ),
        (
            COUNTED,
            {"graph_nodes": "\x1b[2J22", "delegated_nodes": "\x1b[2J22"},
            Verdict.FALLS_BACK,
            None,
            r"it says \x1b[2J22 of \x1b[2J22 nodes, which can't be",
        ),
        (
            COUNTED,
            {"delegated_nodes": 29},
            Verdict.FALLS_BACK,
            None,
            "29 nodes, of how many is untold",
        ),
        (
            COUNTED,
            {"graph_nodes": 29},
            Verdict.FALLS_BACK,
            None,
            "how many nodes it took is untold",
        ),
        (
            GPU,
            {"graph_nodes": 31, "delegated_nodes": 31, "delegate": "TfLiteGpuDelegateV2"},
            Verdict.WORKS,
            1.0,
            "31 of 31 nodes",
        ),
        (  # the GPU took nothing, and the CPU's delegate the whole graph
            GPU,
            {"graph_nodes": 31, "delegated_nodes": 31, "delegate": "TfLiteXNNPackDelegate"},
            Verdict.FALLS_BACK,
            None,
            "the last delegate that took nodes is TfLiteXNNPackDelegate, not gpu; 31 of 31 nodes",
        ),
        (
            {"external_delegate": True, "use_xnnpack": True},
            {"graph_nodes": 31, "delegated_nodes": 31, "delegate": "TfLiteQnnDelegate"},
            Verdict.WORKS,
            1.0,
            "31 of 31 nodes",
        ),
        (
            {"delegate": "auto"},
            {"graph_nodes": 78, "delegated_nodes": 16},
            Verdict.WORKS,
            16 / 78,
            "16 of 78 nodes",
        ),
        (
            {"delegate": "none"},
            {"graph_nodes": 78, "delegated_nodes": 0},
            Verdict.WORKS,
            None,
            "on the runtime's own kernels",
        ),
    ],
)
def test_counts_are_shown_where_they_can_be_trusted(
    asked: Knobs,
    environment: Environment,
    verdict: Verdict,
    share: float | None,
    why: str,
) -> None:
    found = only(result(environment, knobs=asked))
    assert found
    assert (found.verdict, found.share, found.why) == (verdict, share, why)


def test_what_another_delegate_took_is_no_ones_share() -> None:
    other: Environment = {
        "graph_nodes": 31,
        "delegated_nodes": 31,
        "delegate": "TfLiteXNNPackDelegate",
    }
    found = only(result(other, knobs=GPU))
    assert found
    assert (found.delegated, found.nodes) == (None, None)


def test_words_of_a_phone_are_one_line_of_bounded_length() -> None:
    left = tuple(f"OP_{n}\n\x1b[31m" for n in range(1000))
    told: Environment = {"graph_nodes": 2, "delegated_nodes": 1, "undelegated_operators": left}
    found = only(result(told))
    assert found
    assert "\n" not in found.why
    assert len(found.why) <= 300


@pytest.mark.parametrize(
    ("blame", "kind", "is_told"),
    [
        (Blame.WORKLOAD, "model_unusable", True),
        (Blame.DEVICE, "delegate_refused", True),
        (Blame.DEVICE, "no_exec", True),
        (Blame.DEVICE, "offline", False),
        (Blame.DEVICE, "hung", False),
        (Blame.DEVICE, "disk_full", False),
        (Blame.DEVICE, "storage_full", False),
        (Blame.DEVICE, "no_result", False),
        (Blame.DEVICE, "cores_changed", False),
        (Blame.HARNESS, "lost", False),
        (Blame.WORKLOAD, "deadline", False),
        (Blame.HARNESS, "adb_server", False),
        (Blame.USER, "setup", False),
    ],
)
def test_which_failures_say_something_of_the_device(
    blame: Blame, kind: str, *, is_told: bool
) -> None:
    found = only(failure(blame, kind))
    assert (found is not None) is is_told
    if found:
        assert (found.verdict, found.why) == (Verdict.FAILS, f"{kind}: it ended")


def test_the_newest_outcome_counts() -> None:
    for at, verdict in ((50.0, Verdict.WORKS), (150.0, Verdict.FAILS)):
        found = only(result(), failure(Blame.DEVICE, "no_exec", started_at=at))
        assert found
        assert found.verdict is verdict


def test_an_outcome_of_a_clock_that_was_ahead_gives_way_to_those_stored_after_it() -> None:
    ahead, refused = 9e9, (Blame.DEVICE, "no_exec")
    partly: Environment = {"graph_nodes": 22, "delegated_nodes": 2}
    found = only(result(started_at=ahead), result(partly))
    assert found
    assert found.verdict is Verdict.FALLS_BACK
    found = only(result(started_at=ahead), result(started_at=150.0), failure(*refused))
    assert found
    assert found.verdict is Verdict.FAILS
    found = only(result(), failure(*refused, started_at=ahead), failure(*refused, started_at=50.0))
    assert found
    assert found.verdict is Verdict.WORKS
    # What is stored of another device says nothing of when this one's was.
    found = only(result(started_at=300.0), result(device="phone-2"), failure(*refused))
    assert found
    assert found.verdict is Verdict.WORKS


@pytest.mark.parametrize(
    "planted",
    [
        result(device="phone-2"),
        result(counted=False),
        result({**TAKEN, "fingerprint": FORMER}),
        result(knobs={"numerics": "fp32"}),
        failure(Blame.DEVICE, "no_exec", device="phone-2"),
        failure(Blame.DEVICE, "no_exec", counted=False),
    ],
    ids=["another device", "late", "another build", "no delegate", "its failure", "late failure"],
)
def test_what_says_nothing_of_this_device_now(planted: StoredResult | StoredFailure) -> None:
    assert only(planted) is None


@pytest.mark.parametrize("at", [50.0, 150.0])
@pytest.mark.parametrize("build", [FORMER, None])
def test_a_failure_is_of_the_build_that_it_records(build: str | None, at: float) -> None:
    environment = {"fingerprint": build} if build else {}  # none: of an earlier release
    told = failure(Blame.DEVICE, "no_exec", environment=environment, started_at=at)
    assert only(told) is None
    kept = only(result(), told)
    assert kept
    assert kept.verdict is Verdict.WORKS


def test_what_an_update_changed_stands_together() -> None:
    before = result({**TAKEN, "fingerprint": FORMER}, started_at=1.0)
    after = failure(Blame.DEVICE, "no_exec", started_at=2.0)
    again = result({**TAKEN, "fingerprint": FORMER}, started_at=3.0)
    other = result({**TAKEN, "fingerprint": BUILD}, device="a-phone", started_at=0.0)
    found = capabilities([after, before, again, other])
    assert [(one.device, one.build, one.verdict, one.at) for one in found] == [
        ("a-phone", BUILD, Verdict.WORKS, 0.0),
        ("phone-1", FORMER, Verdict.WORKS, 3.0),
        ("phone-1", BUILD, Verdict.FAILS, 2.0),
    ]


@pytest.mark.parametrize(
    ("facts", "build"),
    [
        ({"fingerprint": BUILD, "kernel": "6.1"}, BUILD),
        ({"os": "Debian GNU/Linux 12", "kernel": "6.1"}, "Debian GNU/Linux 12, 6.1"),
        ({"kernel": "6.1"}, "6.1"),
        ({}, ""),
    ],
)
def test_what_a_build_is_known_by(facts: dict[str, object], build: str) -> None:
    assert build_of(facts) == build


def test_a_probe_asks_for_all_that_is_there_and_nothing_else() -> None:
    catalog = load_catalog()
    there = ["mosaic_surrogate/models/fp32", "edsr/models/int8", "nothing/models/fp32"]
    sweeps = list(probes(PHONE, catalog, there))
    cells = [cell for sweep in sweeps for cell in cells_of(sweep, catalog)]
    asked = {(c.workload, c.stack, c.knobs["delegate"], c.knobs["numerics"]) for c in cells}
    assert asked == {
        (task, stack, delegate, numerics)
        for task, numerics in (("mosaic_surrogate", "fp32"), ("edsr", "int8"))
        for stack in ("litert", "tflite")
        for delegate in ("xnnpack", "none")
    }
    assert {cell.selector for cell in cells} == {'device == "phone-1"'}
    assert {cell.knobs["mode"] for cell in cells} == {"performance"}
    other = PHONE.model_copy(update={"facts": {"abi": "riscv64"}})
    assert list(probes(other, catalog, there)) == []
