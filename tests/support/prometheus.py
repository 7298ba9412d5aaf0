"""A real Prometheus for tests: given targets and rules, on a free loopback port."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from controller.metrics.prometheus_config import (
    COMPONENT,
    Discovery,
    Intervals,
    prometheus_files,
)
from controller.runtime.prometheus import Prometheus, find_program, start_prometheus

UNPACKED = Path(__file__).parents[2] / ".deps/root/usr/bin"
"""Where `make setup` puts Debian's prometheus; tests find it without `.deps/env`, too."""
EVERY_SECOND = Intervals(agent_s=1.0, controller_s=1.0)
AT_EASE = Intervals(agent_s=5.0, controller_s=5.0)
"""For a generated fleet: scraped every second, its rules would take all of a small machine, and a
scrape that is late beside other tests would be missed."""


def with_programs(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return an environment whose PATH has prometheus and promtool."""
    return {**environ, "PATH": f"{environ.get('PATH', os.defpath)}{os.pathsep}{UNPACKED}"}


def promtool(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
    """Run promtool; its exit status is the caller's to look at."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", with_programs()["PATH"])
        program = find_program("promtool")
    done = subprocess.run([str(program), *arguments], input=stdin, capture_output=True, check=False)
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


def fixed_targets(controller: str, agents: Sequence[str]) -> Discovery:
    """Return targets by HOST:PORT, in the place of the controller's discovery."""
    return {
        "static_configs": [
            {"targets": [controller], "labels": {COMPONENT: "controller"}},
            {"targets": list(agents), "labels": {COMPONENT: "agent"}},
        ]
    }


@contextmanager
def running_prometheus(
    folder: Path,
    discovery: Discovery,
    token_file: Path,
    intervals: Intervals = EVERY_SECOND,
) -> Iterator[Prometheus]:
    """Run Prometheus for a while, with benchfarm's own configuration and rules."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", with_programs()["PATH"])
        files = prometheus_files(discovery, token_file, intervals)
        started = start_prometheus(folder, files, dict(os.environ))
    try:
        yield started.server
    finally:
        started.stop()
