"""What Prometheus is told of a sweep: the controller's exposition, after the sweep's own events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml
from prometheus_client.core import Metric as Family

from controller.contracts.catalog import Catalog
from controller.contracts.device import Device, RegisteredDevice
from controller.contracts.records import OutcomeOrigin, StoredFailure, StoredResult
from controller.contracts.result import Failure, Result
from controller.contracts.run import Run, RunState
from controller.contracts.sweep import Cell
from controller.metrics.collector import FarmState
from controller.metrics.exporter import Exposition
from controller.metrics.families import gauge_text
from controller.metrics.farm_metrics import FarmMetrics
from controller.metrics.names import Metric
from controller.metrics.rules import recording_rules
from tests.support.exposition import counted, plain
from tests.support.prometheus import promtool
from tests.support.store_examples import AGENT, grant, report

Labels = frozenset[tuple[str, str]]
Values = dict[str, dict[Labels, float]]
"""Name of a series → labels → value."""
EVERY: Final = "15s"


def exported(
    results: Sequence[StoredResult], failures: Sequence[StoredFailure], catalog: Catalog
) -> Values:
    """Return what a controller exports that has observed these outcomes, in this order."""
    metrics = FarmMetrics(catalog, [])
    for stored in (*results, *failures):
        device = _device(stored)
        granted = grant(_queued(stored), device)
        metrics.observe(_queued(stored), granted)
        metrics.observe(granted.run, report(granted.run, _outcome(stored)))
    known = {stored.device: _device(stored) for stored in (*results, *failures)}
    state = FarmState(0.0, (AGENT,), tuple(known.values()), (), {})
    return _values(metrics.expose(state))


def recorded_as(
    exposed: Values,
    expected: Mapping[tuple[Metric, Labels], float],
    folder: Path,
    tolerance: float,
) -> None:
    """Let Prometheus's own rules record what is exposed, and compare; tolerance: relative.

    Raises AssertionError with promtool's words if something differs.
    """
    series = [
        {"series": _selector(name, labels), "values": f"{value!r}x4"}
        for name, values in exposed.items()
        for labels, value in values.items()
        if name.startswith("benchfarm_") and not name.endswith("_total")
    ]
    asked = [
        {
            "expr": f"abs({_selector(str(metric), labels)} / {value!r} - 1) < bool {tolerance}",
            "eval_time": "30s",
            "exp_samples": [{"labels": _selector("", labels), "value": 1}],
        }
        for (metric, labels), value in expected.items()
    ]
    test = {"interval": EVERY, "input_series": series, "promql_expr_test": asked}
    rules, tests = folder / "rules.yml", folder / "tests.yml"
    rules.write_text(yaml.safe_dump(recording_rules()))
    tests.write_text(
        yaml.safe_dump({"rule_files": [str(rules)], "evaluation_interval": EVERY, "tests": [test]})
    )
    done = promtool("test", "rules", str(tests))
    assert done.returncode == 0, done.stdout + done.stderr


def _selector(name: str, labels: Labels) -> str:
    pairs = ", ".join(f'{label}="{value}"' for label, value in sorted(labels))
    return f"{name}{{{pairs}}}"


def _values(exposition: Exposition) -> Values:
    families: list[Family] = [
        *plain(gauge_text(exposition.gauges)),
        *counted(exposition.counted),
    ]
    found: Values = {}
    for family in families:
        for sample in family.samples:
            found.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
    return found


def _device(stored: OutcomeOrigin) -> RegisteredDevice:
    device = Device(id=stored.device, kind=stored.device_kind, virtual=stored.virtual)
    return RegisteredDevice(device=device, agent_id=AGENT.agent.id, online=True, since=1.0)


def _queued(stored: OutcomeOrigin) -> Run:
    return Run(
        run_id=stored.run_id,
        sweep_id=stored.sweep_id,
        position=0,
        repeat=stored.repeat,
        cell=Cell(
            workload=stored.workload,
            stack=stored.stack,
            scenario=stored.scenario,
            knobs=stored.knobs,
            selector="any",
        ),
        deadline_s=60.0,
        created_at=1000.0,
        state=RunState.QUEUED,
    )


def _outcome(stored: OutcomeOrigin) -> Result | Failure:
    kind: Any = Result if isinstance(stored, StoredResult) else Failure
    fields = kind.model_fields.keys() - {"type"}
    made: Result | Failure = kind.model_validate(
        {name: getattr(stored, name) for name in fields if hasattr(stored, name)}
    )
    return made
