"""How metrics are named and their values are written for people. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from controller.contracts.suite_rules import UNVERIFIED
from controller.contracts.suite_session import MEETS
from controller.contracts.units import Unit


def _digits(value: float, decimals: int) -> str:
    """Return a value with so many decimals; a small one with three significant digits instead."""
    return f"{value:.{decimals}f}" if value >= 10 ** (2 - decimals) else f"{value:.3g}"


_SHOWN: Mapping[Unit, Callable[[float], str]] = {
    Unit.SECONDS: lambda v: f"{v:.3f} s" if v >= 1 else f"{v * 1e3:.4g} ms",
    Unit.IMAGES_PER_SECOND: lambda v: f"{_digits(v, 2)} images/s",
    Unit.SEQUENCES_PER_SECOND: lambda v: f"{_digits(v, 2)} sequences/s",
    Unit.SAMPLES_PER_SECOND: lambda v: f"{_digits(v, 1)} samples/s",
    Unit.TOKENS_PER_SECOND: lambda v: f"{_digits(v, 2)} tokens/s",
    Unit.FRACTION: lambda v: f"{v:.2%}",
    Unit.BYTES: lambda v: f"{v / 2**30:.2f} GiB" if v >= 2**30 else f"{v / 2**20:.4g} MiB",
    Unit.JOULES: lambda v: f"{v:.4g} J",
    Unit.JOULES_PER_QUERY: lambda v: f"{v:.4g} J/query",
    Unit.JOULES_PER_STEP: lambda v: f"{v:.4g} J/step",
    Unit.LOSS: lambda v: f"{v:.4g}",
    Unit.RATIO: lambda v: f"{v:.3f}×",
    Unit.DECIBELS: lambda v: f"{v:.2f} dB",
}
WEIGHTS, RANDOM = "weights", "random"
"""The fact, and its value, of a result whose model has learnt nothing."""
RULES = "rules"
"""The fact of a result that names its rules, if they are not this project's."""
HEADINGS = {
    "step_time": "step time",
    "latency_p90": "p90 latency",
    "latency_mean": "mean latency",
    "latency_p50": "p50",
    "latency_p99": "p99",
    "throughput": "throughput",
    "load_wait": "wait for data",
    "scaling_efficiency": "scaling efficiency",
    "top1": "top-1",
    "mAP": "mAP",
    "mIoU": "mIoU",
    "F1": "F1",
    "exact_match": "exact match",
    "PSNR": "PSNR",
    "reference_accuracy": "reference",
    "reference_agreement": "agreement",
    "loss": "loss",
    "peak_memory": "peak memory",
    "energy": "energy",
    "energy_gross": "energy with idle",
    "efficiency": "efficiency",
    "headroom": "headroom",
    "eager_ratio": "faster than eager",
    "compile_ratio": "faster than compiled",
    "copy_share": "of copy's speed",
    "eager_copy_share": "eager's of copy's",
}
"""Headings of the main metrics, in order; `results show` lists all metrics."""


def fact_label(name: str) -> str:
    """Return how a fact is called: beside what MLPerf's name is used for stands `unverified`."""
    return f"{name} ({UNVERIFIED})" if name == MEETS else name


def shown(value: float, unit: Unit) -> str:
    """Return a formatted value in the unit's customary form."""
    return _SHOWN[unit](value)
