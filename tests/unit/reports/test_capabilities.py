"""What is told of a device's delegates: by planted results and failures, misleading ones too."""

from __future__ import annotations

import pytest

from controller.cli.capabilities import probes
from controller.contracts.base import Scalar
from controller.contracts.catalog import load_catalog
from controller.contracts.device import Device, DeviceKind
from controller.contracts.records import StoredFailure, StoredResult
from controller.contracts.result import Blame, Environment, Validity
from controller.reports.capabilities import Capability, Verdict, capabilities
from controller.scheduling.expansion import cells_of

BUILD = "google/pixel/9:15/A1"
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
    own = {"blame": blame, "kind": kind, "message": "it\nended", "output": ""}
    return StoredFailure.model_validate(
        {**ORIGIN, **own, "exit_code": 1, "signal": None, "started_at": 200.0, **changes}
    )


def only(*said: StoredResult | StoredFailure) -> Capability | None:
    results = [one for one in said if isinstance(one, StoredResult)]
    failures = [one for one in said if isinstance(one, StoredFailure)]
    found = capabilities(PHONE, results, failures)
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


@pytest.mark.parametrize(
    ("blame", "kind", "is_told"),
    [
        (Blame.WORKLOAD, "model_unusable", True),
        (Blame.DEVICE, "delegate_refused", True),
        (Blame.DEVICE, "no_exec", True),
        (Blame.DEVICE, "offline", False),
        (Blame.DEVICE, "hung", False),
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


@pytest.mark.parametrize(
    "planted",
    [
        result(device="phone-2"),
        result(counted=False),
        result({**TAKEN, "fingerprint": "google/pixel/9:14/A0"}),
        result(knobs={"numerics": "fp32"}),
        failure(Blame.DEVICE, "no_exec", device="phone-2"),
        failure(Blame.DEVICE, "no_exec", counted=False),
    ],
    ids=["another device", "late", "another build", "no delegate", "its failure", "late failure"],
)
def test_what_says_nothing_of_this_device_now(planted: StoredResult | StoredFailure) -> None:
    assert only(planted) is None


def test_failures_from_before_an_update_of_the_phone_are_left_out() -> None:
    former = result({**TAKEN, "fingerprint": "google/pixel/9:14/A0"}, started_at=300.0)
    assert only(former, failure(Blame.DEVICE, "no_exec", started_at=200.0)) is None
    assert only(former, failure(Blame.DEVICE, "no_exec", started_at=400.0)) is not None


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
