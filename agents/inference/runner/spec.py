"""The spec of a run, sent by the agent: one JSON object."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from pathlib import Path
from typing import Any, Final

from agents.inference.runner.answers import ANSWERS
from agents.inference.runner.faults import spec_invalid
from controller.loadgen.audit_pattern import AUDITS
from models.mobile.pixels import Fitting

AT_ONCE: Final = "samples_at_once"
"""The fact of how many samples of a query are computed together."""
SCENARIOS: Final = ("single_stream", "multi_stream", "offline", "server")
MODES: Final = ("performance", "accuracy")
DELEGATES: Final = ("xnnpack", "none", "auto")
EXECUTORS: Final = ("interpreter", "compiled", "cache", "fp16")
FITS: Final = ("stretch", "center_crop", "resize_then_crop", "pad", "as_is")
_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "scenario": SCENARIOS,
    "mode": MODES,
    "delegate": DELEGATES,
    "executor": EXECUTORS,
    "answer": tuple(ANSWERS),
    "input_fit": FITS,
    "audit": ("", *AUDITS),
}
_AT_LEAST_ONE: Final = (
    "batch_size",
    "min_query_count",
    "performance_sample_count",
    "samples_per_query",
    "threads",
)
_OF_SCENARIO: Final[Mapping[str, str]] = {
    "samples_per_query": "multi_stream",
    "target_qps": "server",
    "target_latency_ms": "server",
}
"""The only scenario that uses a key, and needs it."""
_NOT_NEGATIVE: Final = (
    "first_class",
    "first_samples",
    "input_height",
    "input_width",
    "min_duration_ms",
    "max_duration_ms",
)
_POSITIVE: Final = (
    "input_crop",
    "input_std",
    "offline_expected_qps",
    "target_qps",
    "target_latency_ms",
)
_KINDS: Final[Mapping[str, tuple[type, ...]]] = {
    "str": (str,),
    "int": (int,),
    "float": (float, int),
    "bool": (bool,),
    "float | Sequence[float]": (float, int, list, tuple),
}


@dataclass(frozen=True, slots=True)
class RunSpec:
    """One run of one model on one data set; the keys of the JSON object are the fields."""

    model: str
    """Path of the `.tflite` file."""
    dataset: str
    """Folder of `input_0.npy` …, (n, …) each, or of images; empty: random samples by the model's
    signature."""
    log_dir: str
    """Folder for LoadGen's logs and the raw latencies; made if missing."""
    scenario: str
    """`single_stream`, `multi_stream`, `offline` or `server`."""
    mode: str
    """`performance` or `accuracy`."""
    min_query_count: int
    """Least number of queries; for offline, whose only query has all samples, of samples."""
    min_duration_ms: int
    """Least duration; 0 for offline, where only the number of samples counts."""
    performance_sample_count: int
    """Samples in memory, from which LoadGen draws in performance mode."""
    threads: int
    delegate: str
    """`xnnpack`, `none` for the runtime's own kernels, or `auto` for the runtime's choice."""
    batch_size: int
    """Most samples of a query that are computed at once."""
    executor: str = "interpreter"
    """`interpreter`; `compiled` for CompiledModel, `cache` with packed weights from a
    file, or `fp16` with all computed in FP16."""
    answer: str = "raw"
    """Conversion of outputs to LoadGen's answers: see answers.py."""
    first_class: int = 0
    """Index of a classifier's first output that may be the answer: 1 leaves a background out."""
    input_mean: float | Sequence[float] = 0.0
    """A float model takes (pixel - input_mean) / input_std; a sequence has each channel's mean."""
    input_std: float = 255.0
    first_samples: int = 0
    """Use only so many samples of the data set, the first ones; 0: all."""
    input_height: int = 0
    input_width: int = 0
    """Size to which images are fitted; needed with images."""
    input_fit: str = "as_is"
    """How: `stretch`, `center_crop`, `pad`, or `as_is` for images of that size alone."""
    input_crop: float = 1.0
    """Side of the square that `center_crop` cuts out, as a fraction of the shorter side."""
    offline_expected_qps: float = 1.0
    """LoadGen's estimate for the size of the offline query if `min_duration_ms` > 0."""
    samples_per_query: int = 0
    """Of multi_stream, which needs it."""
    target_qps: float = 0.0
    """Queries a second that server issues, at random times; server needs it."""
    target_latency_ms: float = 0.0
    """What 99 % of server's queries have to keep; server needs it."""
    qsl_rng_seed: int = 0
    sample_index_rng_seed: int = 0
    schedule_rng_seed: int = 0
    max_duration_ms: int = 0
    """Duration after which LoadGen issues no more queries; 0: none."""
    sampling_s: float = 0.0
    """Seconds between samples of the device's conditions in performance mode; 0 takes none."""
    rest_s: float = 0.0
    """Seconds of sampled rest before the model is loaded, in performance mode."""
    watch_host: bool = False
    """Record the use of the cores and the machine's strain in performance mode; for servers."""
    audit: str = ""
    """What the run is an audit of: see controller/loadgen/audit_pattern.py; empty: of nothing."""
    die_with_stdin: bool = False
    """End when standard input closes, since then whoever started the run is gone."""

    @property
    def fitting(self) -> Fitting:
        """How images come to the model's input."""
        return Fitting(
            height=self.input_height,
            width=self.input_width,
            fit=self.input_fit,
            crop=self.input_crop,
            mean=self.input_mean,
            std=self.input_std,
        )

    @property
    def queried_at_once(self) -> int:
        """Samples in a query; in accuracy mode, offline has a query for each set held in memory."""
        if self.scenario == "offline":
            accuracy = self.mode == "accuracy"
            return self.performance_sample_count if accuracy else self.min_query_count
        return self.samples_per_query if self.scenario == "multi_stream" else 1

    @staticmethod
    def read(path: Path) -> RunSpec:
        """Read and check a spec; raises RunnerFault `spec_invalid`."""
        try:
            given = json.loads(path.read_bytes())
        except (OSError, ValueError) as error:
            raise spec_invalid(f"{path}: {error}") from error
        if not isinstance(given, dict):
            raise spec_invalid(f"{path}: not a JSON object")
        return RunSpec.of(given)

    @staticmethod
    def of(given: Mapping[str, Any]) -> RunSpec:
        """Check a JSON object; raises RunnerFault `spec_invalid` with every objection."""
        known = {field.name: field for field in fields(RunSpec)}
        objections = [f"unknown key {key}" for key in given if key not in known]
        objections += [
            objection for field in known.values() if (objection := _objection(field, given))
        ]
        if objections:
            raise spec_invalid("; ".join(objections))
        return RunSpec(**given)


def _objection(field: Field[Any], given: Mapping[str, Any]) -> str | None:
    value = given.get(field.name, MISSING)
    if value is MISSING:
        owner = _OF_SCENARIO.get(field.name)
        unused = owner != given.get("scenario") if owner else field.default is not MISSING
        return None if unused else f"{field.name} is missing"
    kinds = _KINDS[str(field.type)]
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        return f"{field.name} must be {field.type}, not {value!r}"
    return _out_of_range(field.name, value)


def _out_of_range(name: str, value: Any) -> str | None:  # noqa: ANN401 - JSON
    choices = _CHOICES.get(name)
    if choices is not None and value not in choices:
        return f"{name} must be one of {', '.join(choices)}, not {value!r}"
    if name in _AT_LEAST_ONE and value < 1:
        return f"{name} must be at least 1, not {value}"
    if name in _NOT_NEGATIVE and value < 0:
        return f"{name} must not be negative, not {value}"
    if name in _POSITIVE and not value > 0:
        return f"{name} must be positive, not {value}"
    if isinstance(value, list) and [type(one) in (float, int) for one in value] != [True] * 3:
        return f"{name} must have three numbers, not {value!r}"
    return None
