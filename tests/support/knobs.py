"""Knobs with the defaults of the project's manifests, for code that needs a value of each."""

from __future__ import annotations

from functools import cache
from typing import Any

from controller.contracts.base import Scalar
from controller.contracts.catalog import Catalog, load_catalog
from controller.contracts.manifests import defaults_of


@cache
def _catalog() -> Catalog:
    return load_catalog()


def launch_knobs(**given: Scalar) -> dict[str, Scalar]:
    """Return how a worker process is started on a server."""
    return {**defaults_of(_catalog().launch["cpu_host"].knobs), **given}


def scenario_knobs(scenario: str, **given: Scalar) -> dict[str, Scalar]:
    """Return a scenario's knobs."""
    return {**defaults_of(_catalog().scenarios[scenario].knobs), **given}


def job_knobs(**given: Scalar) -> dict[str, Scalar]:
    """Return the knobs of a training job, without those of its workload and its stack."""
    return {**launch_knobs(), **scenario_knobs("training"), **given}


def workload_arguments(workload: str, **given: Scalar) -> dict[str, Any]:
    """Return what a workload's builder is called with."""
    return {**defaults_of(_catalog().workloads[workload].knobs), **given}


def retinanet_arguments(**given: Scalar) -> dict[str, Any]:
    """Return what RetinaNetTraining is called with, which is one of its implementations."""
    arguments = workload_arguments("retinanet_resnext50", **given)
    return {name: value for name, value in arguments.items() if name != "implementation"}
