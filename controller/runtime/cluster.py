"""Starting and ending the Ray cluster of one home; nothing else of the machine is touched."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from controller.contracts.errors import FarmUnavailable
from controller.contracts.processes import FARM_MARKER, end_marked, marked_processes
from controller.contracts.ray_names import CONTROLLER, NAMESPACE
from controller.runtime.home import Cluster, Home, write_private

OBJECT_STORE_BYTES = 80_000_000
"""Nothing big goes through Ray: results are small, artefacts stay where they were made."""

_HEAD_PORTS = (
    "ray-client-server-port",
    "dashboard-agent-listen-port",
    "dashboard-agent-grpc-port",
    "runtime-env-agent-port",
    "metrics-export-port",
)


def ray_environment(home: Home) -> dict[str, str]:
    """Return what every process that speaks to this home's Ray must have in its environment."""
    return {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(home.ray_token),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_health_check_initial_delay_ms": "1000",
        "RAY_health_check_period_ms": "1000",
        "RAY_health_check_timeout_ms": "2000",
        "RAY_health_check_failure_threshold": "3",
        "RAY_grpc_client_keepalive_time_ms": "5000",
        "RAY_grpc_client_keepalive_timeout_ms": "5000",
        "RAY_worker_niceness": "0",  # Ray's 15 would be inherited by what we measure
        "BENCHFARM_HOME": str(home.path),
        "PYTHONSAFEPATH": "1",
    }


def start_head(home: Home) -> Cluster:
    """Start Ray's head node on free ports and remember it in the home; raises FarmUnavailable."""
    instance = secrets.token_hex(8)
    temp_dir = tempfile.mkdtemp(prefix="benchfarm-")  # short: Ray puts sockets below it
    port, dashboard_port, *others = _free_ports(2 + len(_HEAD_PORTS) + 2)
    command = [
        str(Path(sys.executable).with_name("ray")),
        *("start", "--head", f"--port={port}", f"--dashboard-port={dashboard_port}"),
        *(f"--{name}={free}" for name, free in zip(_HEAD_PORTS, others[2:], strict=True)),
        *("--num-cpus=0", f"--object-store-memory={OBJECT_STORE_BYTES}", "--disable-usage-stats"),
        *(f"--temp-dir={temp_dir}", "--log-style=record"),
    ]
    environ = {
        **os.environ,
        **ray_environment(home),
        FARM_MARKER: instance,
        "AUTOSCALER_METRIC_PORT": str(others[0]),
        "DASHBOARD_METRIC_PORT": str(others[1]),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
    }
    log = home.logs / "ray-head.log"
    with log.open("wb") as output:
        status = subprocess.run(
            command,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # a Ctrl-C or a timeout of the caller must not reach Ray
        ).returncode
    if status != 0:
        end_marked(FARM_MARKER, instance, grace_s=2.0)
        shutil.rmtree(temp_dir, ignore_errors=True)
        raise FarmUnavailable(
            "starting Ray", f"ray start exited with {status}", f"see what it said in {log}"
        )
    cluster = Cluster(
        instance=instance,
        ray_address=_gcs_address(Path(temp_dir)),
        dashboard_url=f"http://127.0.0.1:{dashboard_port}",
        temp_dir=temp_dir,
    )
    write_private(home.cluster_file, cluster.model_dump_json())
    return cluster


def is_alive(cluster: Cluster) -> bool:
    """Return whether anything of the cluster still runs."""
    return next(marked_processes(FARM_MARKER, cluster.instance), None) is not None


def stop(home: Home, cluster: Cluster) -> int:
    """End every process of the cluster, workers included; return how many there were."""
    ended = end_marked(FARM_MARKER, cluster.instance, grace_s=5.0)
    shutil.rmtree(cluster.temp_dir, ignore_errors=True)
    home.endpoint_file.unlink(missing_ok=True)
    home.prometheus_url.unlink(missing_ok=True)
    for status in home.adb_statuses():
        status.unlink(missing_ok=True)
    home.cluster_file.unlink(missing_ok=True)
    return ended


@contextmanager
def driver(home: Home, cluster: Cluster) -> Iterator[Any]:
    """Connect this process to the cluster for a while and give the `ray` module."""
    os.environ.update(ray_environment(home))
    import ray

    ray.init(
        address=cluster.ray_address,
        namespace=NAMESPACE,
        log_to_driver=False,
        logging_level="ERROR",
        configure_logging=True,
    )
    try:
        yield ray
    finally:
        ray.shutdown()


def start_controller(home: Home, cluster: Cluster, metrics_address: str, api_port: int) -> str:
    """Start the controller actor, or find the one that runs; return its URL."""
    from controller.runtime.controller import Controller, ControllerOptions

    with driver(home, cluster) as ray:
        actor = (
            ray.remote(Controller)
            .options(
                name=CONTROLLER,
                namespace=NAMESPACE,
                lifetime="detached",
                get_if_exists=True,
                max_restarts=-1,
                max_concurrency=10_000,
                num_cpus=0,
            )
            .remote(ControllerOptions(str(home.path), metrics_address, api_port))
        )
        return str(ray.get(actor.ready.remote()))


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("", 0)) for _ in range(count)]
    ports = [int(s.getsockname()[1]) for s in sockets]
    for s in sockets:
        s.close()
    return ports


def _gcs_address(temp_dir: Path) -> str:
    return (temp_dir / "ray_current_cluster").read_text().strip()
