"""The tree of a submission to MLPerf Mobile, made of results of the farm's phones. Pure.

It has the form of the rounds' repositories. What only a submitter can say is left blank, and named
in `TO_FILL_IN.md`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from controller.contracts.catalog import Catalog
from controller.contracts.records import precision_of
from controller.contracts.result import Validity
from controller.contracts.suite_rules import SuiteRules
from controller.contracts.suite_session import NOT_VERIFIED, session_rules
from controller.contracts.suite_version import quality_target
from controller.imported.app_export import RunLogs, app_json
from controller.imported.exportable import LOGS, Exportable
from controller.imported.stored_figures import fact_differences
from controller.imported.tasks import ACCURACY_METRIC

DIVISION: Final = "closed"
SUBMITTER: Final = "SUBMITTER"
"""Stands for the submitter's name, as a folder."""
TO_FILL_IN: Final = "TO_FILL_IN.md"
SUMS: Final = "SHA256SUMS"
_GIB: Final = 2**30

Json = dict[str, object]


@dataclass(frozen=True, slots=True)
class Submission:
    """The files of a tree: path → content, in order, without the checksums; and what is missing."""

    files: Mapping[str, bytes]
    to_fill_in: tuple[str, ...]
    """A line each, with the path of what is to be filled in."""


def submission_of(
    chosen: Sequence[Exportable],
    log_files: Mapping[str, Mapping[str, bytes]],
    run_logs: Mapping[str, RunLogs],
    catalog: Catalog,
    version: str,
) -> Submission:
    """Return the tree of results that are all of one round.

    log_files: run id → artefact → content; run_logs: by run id. version: benchfarm's. Raises
    LogUnreadable.
    """
    base = f"{DIVISION}/{SUBMITTER}"
    files: dict[str, bytes] = {}
    lines = [f"{base}: the folder's name is to be yours", *_of_everyone(base)]
    for system in dict.fromkeys(one.system for one in chosen):
        of_phone = [one for one in chosen if one.system == system]
        for one in of_phone:
            files |= dict(_logs_of(one, base, log_files[one.result.run_id]))
            path = f"{base}/measurements/{system}/{one.benchmark}/{one.scenario}/"
            path += f"{system}_{one.result.stack}_{one.scenario}.json"
            measurement = _measurement(one, catalog)
            files[path] = _encoded(measurement)
            lines += _blanks(path, measurement)
            results = f"{base}/results/{system}/{one.benchmark}/{one.scenario}"
            lines += _missing_logs(one, log_files[one.result.run_id], results)
            lines += _doubts(one, run_logs[one.result.run_id], results, catalog)
        app = app_json(of_phone, run_logs, catalog, version)
        files[f"{base}/results/{system}/result.json"] = app.encode()
        path, description = f"{base}/systems/{system}.json", _system(of_phone[0])
        files[path] = _encoded(description)
        lines += _blanks(path, description)
        lines += _missing_tasks(of_phone, f"{base}/results/{system}")
        lines += _mixed(of_phone, f"{base}/results/{system}")
        lines.append(f"{base}/results/{system}: screenshots of the official app's results")
    files[TO_FILL_IN] = _page(chosen[0].rules, lines).encode()
    return Submission(dict(sorted(files.items())), tuple(lines))


def checksums(files: Mapping[str, bytes]) -> str:
    """Return the checksums of files as `sha256sum --check` reads them."""
    return "".join(f"{hashlib.sha256(text).hexdigest()}  {path}\n" for path, text in files.items())


def _logs_of(
    one: Exportable, base: str, of_run: Mapping[str, bytes]
) -> Iterator[tuple[str, bytes]]:
    task = f"{base}/results/{one.system}/{one.benchmark}/{one.scenario}"
    for artefact, content in of_run.items():
        role, name = LOGS[artefact]
        yield f"{task}/log_{role}/{name}", content


def _of_everyone(base: str) -> Iterator[str]:
    yield f"{base}/code: sources of the backend, or where they are, with how they are built"
    yield f"{base}/Calibration.md: how the weights were quantized"


def _measurement(one: Exportable, catalog: Catalog) -> Json:
    known = catalog.workloads.get(one.result.workload)
    numerics = precision_of(one.result.knobs) or ""
    models = known.on_device.models if known and known.on_device else {}
    return {
        "input_data_types": str(one.result.environment.get("input_type") or ""),
        "retraining": "",
        "starting_weights_filename": (models[numerics].source or "") if numerics in models else "",
        "weight_data_types": numerics,
        "weight_transformations": "",
    }


def _system(one: Exportable) -> Json:
    facts = one.result.environment
    said = {name: str(value) for name, value in facts.items() if value is not None}
    memory = facts.get("memory_bytes")
    android, soc = said.get("android", ""), said.get("soc", "")
    phone = f"{said.get('manufacturer', '')} {said.get('model', '')}".strip()
    return {
        "system": {
            "Processor_name": soc,
            "SoC_ID": soc,
            "CPU_type_1": "",
            "CPU_1_cache": "",
            "Graphics": "",
            "Accelerator_type_1": "",
            "Memory": f"{memory / _GIB:.1f} GiB" if isinstance(memory, int) else "",
            "Storage_type_1": "",
        },
        "notes": {
            "Phone summary": "",
            "SoC Product information": phone,
        },
        "software": {
            "OS_version": said.get("fingerprint", ""),
            "Android_version": f"Android {android}" if android else "",
            "TFLite_version": said.get("litert", said.get("tflite", "")),
            "TFLite_delegate_types": said.get("delegate", ""),
            "Vendor SDK": "",
            "Other_notes": "",
        },
    }


def _blanks(path: str, content: Json, within: str = "") -> Iterator[str]:
    for key, value in content.items():
        name = f"{within}.{key}" if within else key
        if isinstance(value, dict):
            yield from _blanks(path, value, name)
        elif value == "":
            yield f"{path}: {name} is blank"


def _doubts(one: Exportable, of_run: RunLogs, path: str, catalog: Catalog) -> Iterator[str]:
    """Yield what a reviewer would refuse in a result."""
    result, rules = one.result, one.rules
    if result.validity is not Validity.VALID:
        yield f"{path}: the result is {result.validity}: {'; '.join(result.reasons)}"
    missed = result.environment.get("run_rules_missed")
    if isinstance(missed, tuple):
        yield from (f"{path}: misses a rule: {rule}" for rule in missed)
    yield from _log_doubts(one, of_run, path)
    said = result.environment.get("loadgen_seeds")
    if rules.seeds and said != rules.seeds.said:
        yield f"{path}: LoadGen had not the seeds of {rules.title}"
    metric = ACCURACY_METRIC[result.workload]
    if metric not in result.metrics:
        yield f"{path}/log_accuracy: there was no accuracy run"
        return
    known = catalog.workloads.get(result.workload)
    target = quality_target(known, result.knobs) if known else None
    if target and result.metrics[metric].value < target.value:
        value = result.metrics[metric].value
        yield f"{path}: {metric} {value:.4f} is below the target {target.value:.4f}"


def _missing_logs(one: Exportable, there: Mapping[str, bytes], path: str) -> Iterator[str]:
    """Yield the mandatory logs that are not at hand; none of an accuracy run that there was not."""
    scored = ACCURACY_METRIC[one.result.workload] in one.result.metrics
    for artefact, (role, name) in LOGS.items():
        if artefact not in there and (scored or role != "accuracy"):
            yield f"{path}/log_{role}/{name}: it is mandatory, and none is at hand"


def _log_doubts(one: Exportable, of_run: RunLogs, path: str) -> Iterator[str]:
    """Yield what its logs say against themselves, and against the facts that are stored."""
    yield from (f"{path}/{doubt}" for doubt in of_run.doubts)
    for odd in fact_differences(one.result, of_run.performance):
        yield f"{path}: not as in its log: {odd}"


def _missing_tasks(of_phone: Sequence[Exportable], path: str) -> Iterator[str]:
    rules = of_phone[0].rules
    there = {(one.result.workload, one.result.scenario) for one in of_phone}
    for task, asked in rules.tasks.items():
        for scenario in asked.required:
            if (task, scenario) not in there:
                yield f"{path}: no result of {task} {scenario}, which {rules.title} asks for"


def _mixed(of_phone: Sequence[Exportable], path: str) -> Iterator[str]:
    """Yield in what a phone's results differ that are to be of one run of the suite.

    Rules 4.0, 2.2: the same system and framework for a set of results in a single context.
    """
    rules = session_rules()
    found: dict[str, set[str]] = {
        "run of the suite": {one.suite_run for one in of_phone},
        "stack": {one.result.stack for one in of_phone},
    }
    for fact in (*rules.build, *rules.framework):
        said = (one.result.environment.get(fact) for one in of_phone)
        found[fact] = {str(value) for value in said if value is not None}
    for name, values in found.items():
        if len(values) > 1:
            told = ", ".join(sorted(values))
            yield f"{path}: its results are to have one {name}, not {len(values)}: {told}"


def _page(rules: SuiteRules, lines: Sequence[str]) -> str:
    listed = "\n".join(f"- {' '.join(line.split())}" for line in lines)
    return (
        f"# To fill in before this is a submission to {rules.title}\n\n"
        f"{NOT_VERIFIED} benchfarm made this tree of what it has measured, with its own "
        "program\nand not with the official app. What it does not know is blank.\n\n"
        f"{listed}\n"
    )


def _encoded(content: Json) -> bytes:
    return (json.dumps(content, indent=2, allow_nan=False) + "\n").encode()
