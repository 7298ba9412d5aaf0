"""Bringing a farm up on this machine, and down again."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.contracts.errors import FarmUnavailable, UserError
from controller.contracts.processes import FARM_MARKER
from controller.metrics.exporter import LOOPBACK, listening
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


@dataclass(frozen=True, slots=True)
class UpOptions:
    """How a farm is started."""

    labels: Mapping[str, str] = field(default_factory=dict)
    """Of this host."""
    with_agent: bool = True
    metrics_address: str = LOOPBACK
    api_port: int = 0
    """0 for a free one."""


def bring_up(home: Home, options: UpOptions) -> FarmUp:
    """Start Ray, the controller and this host's agent, or find them running.

    Raises FarmUnavailable, HomeUnusable, or UserError for an address or a port that can't be had;
    what was started is then ended again.
    """
    home.prepare()
    cluster = home.cluster()
    if cluster and clusters.is_alive(cluster):
        return FarmUp(cluster, home.endpoint().url, None, started=False)
    if cluster:
        clusters.stop(home, cluster)  # the remains of a crash
    listening(options.metrics_address).close()
    _require_free(options.api_port)
    cluster = clusters.start_head(home)
    try:
        # The agent starts beside the controller: it waits until it can register.
        address = options.metrics_address
        agent = options.with_agent
        starting = _spawn_agent(home, cluster, options.labels, address) if agent else None
        url = clusters.start_controller(home, cluster, address, options.api_port)
        agent_id = _await_agent(home, starting) if starting else None
    except BaseException:
        clusters.stop(home, cluster)
        raise
    return FarmUp(cluster, url, agent_id, started=True)


def start_agent(home: Home, labels: Mapping[str, str], metrics_address: str) -> str:
    """Start this host's agent on a farm that is up; return its id.

    Raises FarmUnavailable, or UserError for an address that is not this host's.
    """
    listening(metrics_address).close()
    cluster = home.cluster()
    if cluster is None:
        raise FarmUnavailable(
            f"starting an agent for {home.path}", "no farm is up here", "run: benchfarm up"
        )
    return _await_agent(home, _spawn_agent(home, cluster, labels, metrics_address))


def bring_down(home: Home) -> int | None:
    """End everything of this home's farm; return how many processes, or None if it was down."""
    cluster = home.cluster()
    return clusters.stop(home, cluster) if cluster else None


def _require_free(port: int) -> None:
    try:
        socket.create_server((LOOPBACK, port)).close()
    except OSError as error:
        raise UserError(
            f"option --api-port {port}", str(error.strerror), "give a free one, or 0 for any"
        ) from error


def _spawn_agent(
    home: Home, cluster: Cluster, labels: Mapping[str, str], metrics_address: str
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
        said = {
            "home": str(home.path),
            "labels": dict(labels),
            "metrics_address": metrics_address,
            "metrics_token": str(home.metrics_token),
        }
        process.stdin.write(json.dumps(said).encode())
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
