"""Prometheus's recording rules and alerts on benchfarm's metrics. Pure.

`deploy/prometheus` has them as files, written by `benchfarm prometheus config`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from controller.metrics import names

RUNBOOKS = "docs/runbooks.md"


def job_name(component: str) -> str:
    """Return Prometheus's label `job` for the targets of a component: controller or agent."""
    return f"{names.PREFIX}-{component}"


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert; its runbook is the section of docs/runbooks.md with its name."""

    name: str
    expr: str
    wait: str
    """How long the expression must hold, as Prometheus's duration."""
    summary: str
    description: str

    @property
    def runbook(self) -> str:
        """The link to the section that says what to do."""
        return f"{RUNBOOKS}#{self.name.lower()}"

    @property
    def rule(self) -> dict[str, Any]:
        """The rule as data for YAML."""
        return {
            "alert": self.name,
            "expr": self.expr,
            "for": self.wait,
            "labels": {"severity": "warning"},
            "annotations": {
                "summary": self.summary,
                "description": self.description,
                "runbook": self.runbook,
            },
        }


_OF_RESULT = ", ".join(names.RESULT_LABELS)
_OF_VALUE = f"{_OF_RESULT}, metric"
SAME_STACK = ("workload", "stack", "scenario", "precision", "work", "metric")
"""Labels that a result and its baseline device's share."""
SAME_DEVICE = ("device", "workload", "scenario", "work", "metric")
"""Labels that a result and its baseline stack's share."""


def _better(baseline: names.Metric, same: tuple[str, ...]) -> str:
    """Return how many times better than the baseline's each ranking result is.

    The exponent -1 inverts ratios of times, so that above 1 is always better. The labels of the
    exporter are dropped, so that dashboards need not do it at each query.
    """
    return f"""\
max by({_OF_VALUE}) (
  (
    ({names.RESULT} and on(scenario, metric) {names.RANKING})
    / on({", ".join(same)}) group_left()
    ({names.RESULT} * on({_OF_RESULT}) group_left() {baseline})
  ) ^ on(scenario, metric) group_left() {names.RANKING}
)
"""


def _end(ratio: names.Metric, op: str, baseline: names.Metric, same: tuple[str, ...]) -> str:
    """Return an end of each ratio's interval; the baseline itself has none.

    The two sides were measured apart, so the squares of their half-widths add up, as logarithms
    (MOVER: Zou & Donner 2008).
    """
    return f"""\
{ratio} {op} on({_OF_VALUE}) exp(sqrt(
  ln({names.RESULT_INTERVAL} unless on({_OF_RESULT}) {baseline}) ^ 2
  + on({", ".join(same)}) group_left()
  ln({names.RESULT_INTERVAL} * on({_OF_RESULT}) group_left() {baseline}) ^ 2
))
"""


RECORDED = {
    names.RATIO_TO_DEVICE: _better(names.BASELINE_DEVICE, SAME_STACK),
    names.RATIO_TO_DEVICE_LOW: _end(names.RATIO_TO_DEVICE, "/", names.BASELINE_DEVICE, SAME_STACK),
    names.RATIO_TO_DEVICE_HIGH: _end(names.RATIO_TO_DEVICE, "*", names.BASELINE_DEVICE, SAME_STACK),
    names.RATIO_TO_STACK: _better(names.BASELINE_STACK, SAME_DEVICE),
    names.RATIO_TO_STACK_LOW: _end(names.RATIO_TO_STACK, "/", names.BASELINE_STACK, SAME_DEVICE),
    names.RATIO_TO_STACK_HIGH: _end(names.RATIO_TO_STACK, "*", names.BASELINE_STACK, SAME_DEVICE),
}
"""Metric → expression, in the order in which they need each other."""

ALERTS = (
    Alert(
        "ExporterDown",
        # Prometheus knows no target before discovery has answered once.
        f'up{{job=~"{job_name("controller")}|{job_name("agent")}"}} == 0 or label_replace('
        f'absent(up{{job="{job_name("controller")}"}}), "instance", "controller", "", "")',
        "1m",
        "{{ $labels.instance }} gives Prometheus no metrics",
        "The last scrapes failed, or discovery never listed it: the process is gone, out of reach,"
        " or has another token.",
    ),
    Alert(
        "AgentDown",
        f"{names.AGENT_UP} == 0 unless on(agent) {names.AGENT_HOLD}",
        "1m",
        "agent {{ $labels.agent }} is down",
        "Its lease ran out; its devices are lost, and its runs went back to the queue.",
    ),
    Alert(
        "DeviceOffline",
        f'{names.DEVICE_STATE}{{state=~"offline|unauthorized|lost"}} == 1 unless on(device) '
        f"({names.DEVICE_INFO} and on(agent) {names.AGENT_HOLD})",
        "5m",
        "device {{ $labels.device }} is {{ $labels.state }}",
        "Nothing runs on it. Runs that only it can do wait.",
    ),
    Alert(
        "DeviceQuarantined",
        f'{names.DEVICE_STATE}{{state="quarantined"}} == 1',
        "0s",
        "device {{ $labels.device }} is quarantined",
        "It failed too often in a row by its own fault, or a person took it out; it gets no runs.",
    ),
    Alert(
        "DeviceThrottling",
        f"{names.DEVICE_THERMAL_STATUS} >= {names.THROTTLES_FROM}",
        "5m",
        "device {{ $labels.device }} throttles: thermal status {{ $value }}",
        "Android holds back its clocks because of heat; what it measures now is too slow.",
    ),
    Alert(
        "QueueStuck",
        f"{names.QUEUE_OLDEST} > 900 and {names.RUNS_LEASED} == 0",
        "5m",
        "runs wait and none runs; the oldest for {{ $value | humanizeDuration }}",
        "No device that is ready may run what is queued.",
    ),
    Alert(
        "QualityTargetMissed",
        f"{names.QUALITY_MISSED} == 1",
        "0s",
        "{{ $labels.workload }} on {{ $labels.device }} misses its quality target",
        "The newest result of {{ $labels.stack }} {{ $labels.precision }}, {{ $labels.scenario }},"
        " is less accurate than the workload's target; its speed counts only if its sweep has a"
        " lower target of its own.",
    ),
)


def recording_rules() -> dict[str, Any]:
    """Return the file of recording rules as data for YAML."""
    rules = [{"record": metric.name, "expr": expr} for metric, expr in RECORDED.items()]
    return {"groups": [{"name": "benchfarm-comparison", "rules": rules}]}


def alert_rules() -> dict[str, Any]:
    """Return the file of alerts as data for YAML."""
    return {"groups": [{"name": "benchfarm-alerts", "rules": [alert.rule for alert in ALERTS]}]}
