"""Making a result of what was published, in the shape that the farm's own have. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from controller.contracts.base import Scalar
from controller.contracts.catalog import Catalog
from controller.contracts.device import DeviceKind
from controller.contracts.imported import (
    ImportedResult,
    ImportForm,
    ImportOrigin,
    imported_cell,
    imported_id,
)
from controller.contracts.result import Measurement
from controller.imported.app_json import AppResult
from controller.imported.figures import Measured
from controller.imported.system import facts_of
from controller.imported.tasks import knobs_of, workload_of

UNKNOWN_STACK = "unknown"
LONGEST_NAME = 80


@dataclass(frozen=True, slots=True)
class Source:
    """Where a result was read, and what is known of its system."""

    form: ImportForm
    suite: str
    round: str
    division: str
    submitter: str
    system: str
    kind: DeviceKind
    benchmark: str
    path: str
    checksum: str
    described: Mapping[str, Scalar]
    run: int = 0


def result_of(
    source: Source,
    measured: Measured,
    accuracy: tuple[str, Measurement] | None,
    entry: AppResult | None,
    catalog: Catalog,
) -> ImportedResult:
    """Return a result; accuracy: metric and value. entry: what the app says of the same run."""
    origin = _origin(source, measured)
    workload = workload_of(source.suite, source.benchmark, source.round)
    run = entry.accuracy_run if entry else None
    knobs = knobs_of(catalog, workload, source.round, run.measured_samples if run else None)
    metrics = dict(measured.metrics)
    if accuracy:
        metrics[accuracy[0]] = accuracy[1]
    facts = {**facts_of(source.described, source.kind), **measured.environment}
    if entry and "delegate" not in facts:
        said = entry.backend_settings.delegate or entry.backend_settings.accelerator_desc
        facts |= {"delegate": said} if said else {}
    return ImportedResult(
        run_id=imported_id(origin, measured.scenario),
        sweep_id=origin.sweep_id,
        cell_key=imported_cell(workload, measured.scenario, knobs),
        repeat=source.run,
        attempt=1,
        device=origin.device,
        device_name=f"{source.submitter} {source.system}"[:LONGEST_NAME],
        device_kind=source.kind,
        virtual=False,
        workload=workload,
        stack=_stack(entry, source.described),
        scenario=measured.scenario,
        knobs=knobs,
        started_at=measured.started_at,
        counted=True,
        validity=measured.validity,
        reasons=measured.reasons,
        metrics=metrics,
        environment=facts,
        artefacts={},
        imported=origin,
    )


def _origin(source: Source, measured: Measured) -> ImportOrigin:
    return ImportOrigin(
        form=source.form,
        suite=source.suite,
        round=source.round,
        division=source.division,
        submitter=source.submitter,
        system=source.system,
        benchmark=source.benchmark,
        source=source.path,
        checksum=source.checksum,
        described=dict(source.described),
        unknown=measured.unknown,
    )


def _stack(entry: AppResult | None, described: Mapping[str, Scalar]) -> str:
    """Return a name for the published software, as far as it is known."""
    said = entry.backend_info.backend_name or entry.backend_settings.framework if entry else ""
    said = said or str(described.get("software.Vendor SDK") or described.get("framework") or "")
    plain = re.sub(r"[^a-z0-9.]+", "-", said.lower()).strip("-")
    return plain[:LONGEST_NAME] or UNKNOWN_STACK
