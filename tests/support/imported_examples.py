"""Imported results; nothing of it was published by anyone."""

from __future__ import annotations

from controller.contracts.base import Scalar
from controller.contracts.device import DeviceKind
from controller.contracts.imported import (
    ImportedResult,
    ImportForm,
    ImportOrigin,
    imported_cell,
    imported_id,
)
from controller.contracts.result import Measurement, Validity
from controller.contracts.units import Unit

KNOBS: dict[str, Scalar] = {"size": 1}


def origin(**changes: object) -> ImportOrigin:
    """Return where a result of a made-up phone was published, changed by keyword."""
    own: dict[str, object] = {
        "form": ImportForm.LOGS,
        "suite": "MLPerf Mobile",
        "round": "v4.0",
        "division": "closed",
        "submitter": "Acme",
        "system": "rocket_9",
        "benchmark": "mobileNine",
        "source": "closed/Acme/results/rocket_9/mobileNine/SingleStream/log_performance",
        "checksum": "0" * 64,
        "described": {"system.SoC_ID": "R9"},
    }
    return ImportOrigin.model_validate({**own, **changes})


def imported(
    seconds: float = 0.005,
    workload: str = "w1",
    knobs: dict[str, Scalar] | None = None,
    validity: Validity = Validity.VALID,
    **changes: object,
) -> ImportedResult:
    """Return a published single-stream result. changes: of its origin."""
    said, mine = origin(**changes), KNOBS if knobs is None else knobs
    return ImportedResult(
        run_id=imported_id(said, "single_stream"),
        sweep_id=said.sweep_id,
        cell_key=imported_cell(workload, "single_stream", mine),
        repeat=0,
        attempt=1,
        device=said.device,
        device_name=f"{said.submitter} {said.system}",
        device_kind=DeviceKind.ANDROID,
        virtual=False,
        workload=workload,
        stack="acmenn",
        scenario="single_stream",
        knobs=mine,
        started_at=1_700_000_000.0,
        counted=True,
        validity=validity,
        reasons=() if validity is Validity.VALID else ("too short",),
        metrics={"latency_p90": Measurement(value=seconds, unit=Unit.SECONDS)},
        environment={"soc": "R9"},
        artefacts={},
        imported=said,
    )
