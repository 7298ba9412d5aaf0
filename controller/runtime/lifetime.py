"""Bringing a farm up on this machine, and down again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from controller.contracts.errors import FarmUnavailable
from controller.contracts.processes import FARM_MARKER
from controller.runtime import cluster as clusters
from controller.runtime.home import Cluster, Home


@dataclass(frozen=True, slots=True)
class FarmUp:
    """A farm that runs."""

    cluster: Cluster
    url: str
    agent_id: str | None
    started: bool
    """Whether this call started it, rather than found it running."""


def bring_up(home: Home, labels: Mapping[str, str], *, with_agent: bool) -> FarmUp:
    """Start Ray, the controller and this host's agent, or find them running.

    Raises FarmUnavailable or HomeUnusable; what was started is then ended again.
    """
    home.prepare()
    cluster = home.cluster()
    if cluster and clusters.is_alive(cluster):
        return FarmUp(cluster, home.endpoint().url, None, started=False)
    if cluster:
        clusters.stop(home, cluster)  # the remains of a crash
    cluster = clusters.start_head(home)
    try:
        # The agent starts beside the controller: it waits until it can register.
        starting = _spawn_agent(home, cluster, labels) if with_agent else None
        url = clusters.start_controller(home, cluster)
        agent_id = _await_agent(home, starting) if starting else None
    except BaseException:
        clusters.stop(home, cluster)
        raise
    return FarmUp(cluster, url, agent_id, started=True)


def start_agent(home: Home, labels: Mapping[str, str]) -> str:
    """Start this host's agent on a farm that is up; return its id. Raises FarmUnavailable."""
    cluster = home.cluster()
    if cluster is None:
        raise FarmUnavailable(
            f"starting an agent for {home.path}", "no farm is up here", "run: benchfarm up"
        )
    return _await_agent(home, _spawn_agent(home, cluster, labels))


def bring_down(home: Home) -> int | None:
    """End everything of this home's farm; return how many processes, or None if it was down."""
    cluster = home.cluster()
    return clusters.stop(home, cluster) if cluster else None


def _spawn_agent(
    home: Home, cluster: Cluster, labels: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    environ = {
        **os.environ,
        **clusters.ray_environment(home),
        FARM_MARKER: cluster.instance,
    }
    with (home.logs / "agent-start.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "agents", cluster.ray_address],
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        )
    if process.stdin:
        options = {"home": str(home.path), "labels": dict(labels)}
        process.stdin.write(json.dumps(options).encode())
        process.stdin.close()
        process.stdin = None
    return process


def _await_agent(home: Home, starting: subprocess.Popen[bytes]) -> str:
    output, _ = starting.communicate()
    answer = json.loads(output.splitlines()[-1]) if output.strip() else {}
    if starting.returncode != 0:
        seen = answer.get("error", f"it exited with {starting.returncode}")
        raise FarmUnavailable("starting the agent", seen, f"see {home.logs / 'agent-start.log'}")
    return str(answer["agent_id"])
