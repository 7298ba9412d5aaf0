"""Every exported metric, in one place for exporters, rules and dashboards.

Names, units and suffixes follow Prometheus's conventions (base units, `_total` for counters).
No label holds a run id, a commit or a hash, since each value of a label is a series for good;
except `work`, a short hash of what a result computed. There are as many as a farm measures
different works, not runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

PREFIX = "benchfarm"


class MetricKind(StrEnum):
    """Prometheus's types, as its text format spells them."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: its exported name, its description, and its labels in order."""

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    """Upper bounds of a histogram's buckets, in the metric's unit."""

    def __str__(self) -> str:
        """Return the name as in PromQL."""
        return self.name

    @property
    def is_recorded(self) -> bool:
        """Whether a recording rule creates it; by Prometheus's convention its name has colons."""
        return ":" in self.name

    @property
    def series_names(self) -> tuple[str, ...]:
        """The names of its series: a histogram has three."""
        if self.kind is not MetricKind.HISTOGRAM:
            return (self.name,)
        return tuple(f"{self.name}_{part}" for part in ("bucket", "sum", "count"))


def _gauge(name: str, help_: str, *labels: str) -> Metric:
    return Metric(f"{PREFIX}_{name}", MetricKind.GAUGE, help_, labels)


def _counter(name: str, help_: str, *labels: str) -> Metric:
    return Metric(f"{PREFIX}_{name}_total", MetricKind.COUNTER, help_, labels)


def _histogram(name: str, help_: str, buckets: tuple[float, ...], *labels: str) -> Metric:
    return Metric(f"{PREFIX}_{name}", MetricKind.HISTOGRAM, help_, labels, buckets)


def _recorded(name: str, help_: str) -> Metric:
    return Metric(f"{PREFIX}:result:{name}", MetricKind.GAUGE, help_, (*RESULT_LABELS, "metric"))


RUN_LABELS = ("device", "workload", "stack", "scenario")
"""Labels of a current run."""
RESULT_LABELS = (*RUN_LABELS, "precision", "work")
"""Labels of the newest result; `precision` is the knob that names the number format.

`work` says what was computed (controller/contracts/work.py). Results are comparable only if it
agrees; that of virtual devices ends in VIRTUAL_WORK.
"""
VIRTUAL_WORK = "-virtual"
DELEGATE_LABELS = ("device", "workload", "stack", "delegate", "precision")
"""Labels of a delegate's outcome, see controller/contracts/capability.py."""

# --- values of labels -------------------------------------------------------------------------

OUTCOMES = ("valid", "disturbed", "invalid", "failed", "lost", "cancelled")
"""How an attempt ends: label `outcome`."""
BLAMELESS = "none"
"""Label `blame` of an attempt that is nobody's fault."""
NO_PRECISION = "default"
"""Label `precision` of a result whose cell has no knob for the number format."""

# --- current run: exported by its agent, gone when the run has ended ----------------------------

RUN_PROGRESS = _gauge(
    "run_progress_ratio",
    "Fraction of the run that is done; restarts with each LoadGen test.",
    *RUN_LABELS,
)
RUN_STEPS = _gauge(
    "run_steps_per_second", "Training steps per second, from the last step.", *RUN_LABELS
)
RUN_QUERIES = _gauge(
    "run_queries_per_second",
    "Queries per second (offline: samples per second), over 5 s.",
    *RUN_LABELS,
)
RUN_LOSS = _gauge("run_loss", "Training loss of the last step.", *RUN_LABELS)

# --- devices and agents -----------------------------------------------------------------------

DEVICE_INFO = _gauge(
    "device_info",
    "Always 1; the labels describe the device.",
    "device",
    "name",
    "kind",
    "model",
    "soc",
    "virtual",
    "host",
    "agent",
)
DEVICE_STATE = _gauge(
    "device_state",
    "Always 1; the label `state` is the device's current state.",
    "device",
    "state",
)
DEVICE_TEMPERATURE = _gauge(
    "device_temperature_celsius", "Last temperature that was read.", "device", "sensor"
)
DEVICE_BATTERY = _gauge(
    "device_battery_ratio", "Last battery charge that was read, 0 to 1.", "device"
)
DEVICE_THERMAL_STATUS = _gauge(
    "device_thermal_status", "Android's thermal status, from 0 (none) to 6 (shutdown).", "device"
)
THROTTLES_FROM = 2
"""Its value, moderate, from which a phone throttles; light goes unnoticed (PowerManager)."""
AGENT_UP = _gauge("agent_up", "1 while the agent answers, 0 once its lease has expired.", "agent")
AGENT_HOLD = _gauge(
    "agent_hold",
    "Always 1; the label `hold` says how a person keeps runs from the agent: drained or revoked.",
    "agent",
    "hold",
)

# --- queue ------------------------------------------------------------------------------------

RUNS_QUEUED = _gauge("runs_queued", "Number of queued runs.")
RUNS_LEASED = _gauge("runs_leased", "Number of leased runs.")
QUEUE_OLDEST = _gauge("queue_oldest_seconds", "Age of the oldest queued run.")
SWEEP_RUNS = _gauge(
    "sweep_open_runs",
    "Queued or leased runs of a sweep, by its name; absent once the sweep is over.",
    "sweep",
    "state",
)
DISPATCH_SECONDS = _histogram(
    "dispatch_seconds",
    "Time from queued to leased.",
    (0.01, 0.1, 1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600),
)
RUNS = _counter(
    "runs",
    "Attempts that have ended, by outcome and cause.",
    "outcome",
    "blame",
)
RUN_SECONDS = _histogram(
    "run_duration_seconds",
    "Time from lease to outcome; exemplars name the run.",
    (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 2 * 3600, 6 * 3600, 24 * 3600),
    "workload",
    "stack",
    "scenario",
)

# --- newest results: a view of the store ------------------------------------------------------

RESULT = _gauge(
    "result",
    "Median of the newest cell's valid runs in its sweep, in the metric's unit "
    "(docs/result-format.md).",
    *RESULT_LABELS,
    "metric",
)
RESULT_TIME = _gauge(
    "result_timestamp_seconds",
    "Time at which the newest valid result was recorded.",
    *RESULT_LABELS,
)
RESULT_INTERVAL = _gauge(
    "result_interval_factor",
    "95 % interval of that median in the ranking metric: value / factor to value * factor.",
    *RESULT_LABELS,
    "metric",
)
WORK_INFO = _gauge(
    "work_info",
    "Always 1; the label `task` says in words what a work is.",
    "work",
    "task",
)
QUALITY_TARGET = _gauge(
    "quality_target",
    "Quality target of a workload at its default knobs, in the unit of its metric.",
    "workload",
    "metric",
)
QUALITY_MISSED = _gauge(
    "quality_target_missed",
    "1 if the newest result with that quality, valid or not, misses its workload's target.",
    *RESULT_LABELS,
)

# --- delegates: a view of the store ------------------------------------------------------------

DEVICE_CAPABILITY = _gauge(
    "device_capability",
    "Outcome of the newest run with the delegate: 0 fails, 1 falls back, 2 works.",
    *DELEGATE_LABELS,
)
DEVICE_DELEGATED = _gauge(
    "device_delegated_ratio",
    "Fraction of the graph's nodes that the delegate ran in that run.",
    *DELEGATE_LABELS,
)

# --- newest profiles: seconds are those of one training step -------------------------------------

PROFILE_PRIMITIVE = _gauge(
    "profile_primitive_seconds",
    "Newest profile: time per step in oneDNN primitives of one kind and direction.",
    *RESULT_LABELS,
    "primitive",
    "direction",
)
PROFILE_EFFICIENCY = _gauge(
    "profile_efficiency_ratio",
    "Newest profile: time of primitives and matrix products run alone, over their time in a step.",
    *RESULT_LABELS,
)
PROFILE_HEADROOM = _gauge(
    "profile_headroom_seconds",
    "Newest profile: time per step beyond the least that the machine's roofline allows.",
    *RESULT_LABELS,
)

# --- baselines, by which the recording rules divide ---------------------------------------------

BASELINE_DEVICE = _gauge(
    "baseline_device_info",
    "Always 1; the device whose newest result is the baseline.",
    *RESULT_LABELS,
)
BASELINE_STACK = _gauge(
    "baseline_stack_info",
    "Always 1; the stack and precision that are the baseline on their device.",
    *RESULT_LABELS,
)
RANKING = _gauge(
    "ranking_direction",
    "The metric that ranks a scenario's results: 1 if higher is better, -1 if lower is.",
    "scenario",
    "metric",
)


# --- recorded by Prometheus (rules.py), not exported --------------------------------------------

RATIO_TO_DEVICE = _recorded(
    "ratio_to_baseline_device",
    "Speed-up of a ranking result over the baseline device's, same work; above 1 is better.",
)
RATIO_TO_DEVICE_LOW = _recorded(
    "ratio_to_baseline_device_low",
    "Lower end of the 95 % interval of ratio_to_baseline_device, if both sides were repeated.",
)
RATIO_TO_DEVICE_HIGH = _recorded(
    "ratio_to_baseline_device_high",
    "Upper end of the 95 % interval of ratio_to_baseline_device, if both sides were repeated.",
)
RATIO_TO_STACK = _recorded(
    "ratio_to_baseline_stack",
    "Speed-up of a ranking result over the baseline stack's on the same device, same work.",
)
RATIO_TO_STACK_LOW = _recorded(
    "ratio_to_baseline_stack_low",
    "Lower end of the 95 % interval of ratio_to_baseline_stack, if both sides were repeated.",
)
RATIO_TO_STACK_HIGH = _recorded(
    "ratio_to_baseline_stack_high",
    "Upper end of the 95 % interval of ratio_to_baseline_stack, if both sides were repeated.",
)


def all_metrics() -> tuple[Metric, ...]:
    """Return every metric, in the order of this file; recorded ones, too."""
    return tuple(value for value in globals().values() if isinstance(value, Metric))
