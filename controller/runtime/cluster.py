"""Starting and ending the Ray cluster of one home; nothing else of the machine is touched."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from controller.contracts.errors import FarmUnavailable
from controller.contracts.ports import free_ports
from controller.contracts.processes import FARM_MARKER, end_marked, marked_processes
from controller.contracts.ray_names import CONTROLLER, NAMESPACE
from controller.runtime.addresses import Address
from controller.runtime.client import Patience
from controller.runtime.home import Cluster, Home, write_private
from controller.runtime.options import RECONNECT_TIMEOUT_S, ControllerOptions
from controller.runtime.redis import RedisServer

CONNECT_S = 2.0
OBJECT_STORE_BYTES = 80_000_000
"""Nothing big goes through Ray: results are small, artefacts stay where they were made."""

RECONNECT_TIMEOUT = "RAY_gcs_rpc_server_reconnect_timeout_s"
NO_PORT = "65536"
"""Keeps those of Ray's servers from starting that would answer without a token."""
# Ray's node waits for its agents to tell of the ports it was not given: seconds of their imports.
_NODE_PORTS = (
    "dashboard-agent-listen-port",
    "dashboard-agent-grpc-port",
    "runtime-env-agent-port",
    "metrics-export-port",  # where nothing listens, since metrics are off
)
_DASHBOARD = "dashboard-port"


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
        RECONNECT_TIMEOUT: str(RECONNECT_TIMEOUT_S),
        # After 60 s else would a node see that its head is another one; it spins until then.
        "RAY_raylet_liveness_self_check_interval_ms": "2000",
        "RAY_enable_metrics_collection": "0",
        "AUTOSCALER_METRIC_PORT": NO_PORT,
        "DASHBOARD_METRIC_PORT": NO_PORT,
        "RAY_worker_niceness": "0",  # Ray's 15 would be inherited by what we measure
        # Ray would end the controller or an agent for the memory that a run takes: it knows no
        # others. The kernel ends the run, since agents offer it first.
        "RAY_memory_monitor_refresh_ms": "0",
        "RAY_worker_oom_score_adjustment": "0",
        "BENCHFARM_HOME": str(home.path),
        "PYTHONSAFEPATH": "1",
    }


def node_environment(home: Home, instance: str) -> dict[str, str]:
    """Return the whole environment of what a farm starts on a host."""
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return {**os.environ, **ray_environment(home), FARM_MARKER: instance, "PATH": programs}


def node_ports(*further: str, besides: Container[int] = ()) -> dict[str, int]:
    """Return a free port for each server of a node, by the names of Ray's options."""
    names = (*_NODE_PORTS, *further)
    return dict(zip(names, free_ports(len(names), besides=besides), strict=True))


def node_command(temp_dir: str, ports: Mapping[str, int]) -> list[str]:
    """Return what starts a Ray node; what sort of node is to be added."""
    return [
        *(str(Path(sys.executable).with_name("ray")), "start"),
        *(f"--{name}={port}" for name, port in ports.items()),
        *("--num-cpus=0", f"--object-store-memory={OBJECT_STORE_BYTES}", "--disable-usage-stats"),
        *(f"--temp-dir={temp_dir}", "--log-style=record"),
        "--include-log-monitor=false",  # our logs are files of our own
    ]


def new_temp_dir() -> str:
    """Make a folder for Ray's files; its path is short, since Ray puts sockets below it."""
    return tempfile.mkdtemp(prefix="benchfarm-")


@dataclass(frozen=True, slots=True)
class Head:
    """How Ray's head node is started."""

    listen: Address | None = None
    """Where the farm's other hosts find it; None for a free port."""
    autoscaling: Path | None = None
    """What `ray up` has left on the head, by which Ray looks after the other hosts."""
    redis: RedisServer | None = None
    """Where Ray keeps what it knows of the other hosts, so that they outlive the head."""


def start_head(home: Home, head: Head, instance: str | None = None) -> Cluster:
    """Start Ray's head node and remember it in the home; raises FarmUnavailable.

    instance: of the farm whose head was lost, if its hosts are to be taken over from Redis.
    """
    instance = instance or secrets.token_hex(8)
    temp_dir = new_temp_dir()
    ports = _head_ports(head.listen)
    log = home.logs / "ray-head.log"
    with log.open("wb") as output:
        try:
            subprocess.run(
                _head_command(head, temp_dir, ports),
                env=_head_environment(home, head, instance),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # a Ctrl-C or a timeout of the caller must not reach Ray
                check=True,
            )
            cluster = Cluster(
                instance=instance,
                ray_address=str(head.listen) if head.listen else _gcs_address(Path(temp_dir)),
                dashboard_url=f"http://127.0.0.1:{ports[_DASHBOARD]}",
                temp_dir=temp_dir,
                redis=head.redis,
            )
            write_private(home.cluster_file, cluster.model_dump_json())
        except BaseException as error:
            end_marked(FARM_MARKER, instance, grace_s=2.0)
            shutil.rmtree(temp_dir, ignore_errors=True)
            if not isinstance(error, subprocess.CalledProcessError):
                raise
            seen = f"ray start exited with {error.returncode}"
            raise FarmUnavailable("starting Ray", seen, f"see what it said in {log}") from error
    return cluster


def _head_ports(listen: Address | None) -> dict[str, int]:
    further = (_DASHBOARD, "ray-client-server-port")
    if not listen:
        return node_ports(*further, "port")
    return node_ports(*further, besides=(listen.port,)) | {"port": listen.port}


def _head_command(head: Head, temp_dir: str, ports: Mapping[str, int]) -> list[str]:
    redis = head.redis
    return [
        *(*node_command(temp_dir, ports), "--head"),
        *((f"--node-ip-address={head.listen.host}",) if head.listen else ()),
        *((f"--autoscaling-config={head.autoscaling}",) if head.autoscaling else ()),
        *((f"--redis-password={redis.password()}",) if redis and redis.password() else ()),
    ]


def _head_environment(home: Home, head: Head, instance: str) -> dict[str, str]:
    # The second version doesn't start the servers that the launcher is given by address.
    first = {"RAY_enable_autoscaler_v2": "0"} if head.autoscaling else {}
    kept = head.redis.environment(instance) if head.redis else {}
    return node_environment(home, instance) | first | kept


def is_alive(cluster: Cluster) -> bool:
    """Return whether anything of the cluster still runs."""
    return next(marked_processes(FARM_MARKER, cluster.instance), None) is not None


def has_head(cluster: Cluster) -> bool:
    """Return whether something listens where the cluster's processes find Ray's GCS."""
    return _listens(cluster.ray_address)


def has_controller(home: Home) -> bool:
    """Return whether something listens where the controller was; a restart is waited for."""
    patience = Patience(f"of {home.path}")
    away = FarmUnavailable(f"benchfarm up in {home.path}", "its controller is away", "wait")
    try:
        while not _listens(urlsplit(home.endpoint().url).netloc):
            patience.wait(away)
    except FarmUnavailable:
        return False
    return True


def _listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), CONNECT_S).close()
    except OSError:
        return False
    return True


def stop(home: Home, cluster: Cluster) -> int:
    """End a cluster and forget it; return how many processes there were. Raises UserError.

    What Redis has of it is deleted, too.
    """
    ended = clear(home, cluster)
    home.cluster_file.unlink(missing_ok=True)
    if cluster.redis:
        cluster.redis.forget(cluster.instance)
    return ended


def clear(home: Home, cluster: Cluster) -> int:
    """End every process of the cluster, workers included; return how many there were."""
    ended = end_marked(FARM_MARKER, cluster.instance, grace_s=5.0)
    shutil.rmtree(cluster.temp_dir, ignore_errors=True)
    home.endpoint_file.unlink(missing_ok=True)
    home.prometheus_url.unlink(missing_ok=True)
    for status in home.adb_statuses():
        status.unlink(missing_ok=True)
    return ended


@contextmanager
def driver(home: Home, cluster: Cluster) -> Iterator[Any]:
    """Connect this process to the cluster for a while and give the `ray` module."""
    os.environ.update(ray_environment(home))
    import ray

    former = signal.getsignal(signal.SIGTERM)
    ray.init(
        address=cluster.ray_address,
        _node_ip_address=cluster.ray_address.rpartition(":")[0],
        namespace=NAMESPACE,
        log_to_driver=False,
        logging_level="ERROR",
        configure_logging=True,
    )
    signal.signal(signal.SIGTERM, former)  # Ray has put its own there
    try:
        yield ray
    finally:
        ray.shutdown()


def start_controller(home: Home, cluster: Cluster, options: ControllerOptions) -> str:
    """Start the controller actor on the head, beside its store; return its URL."""
    from controller.runtime.controller import Controller

    with driver(home, cluster) as ray:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = ray.get_runtime_context().get_node_id()
        with suppress(ValueError):  # a former head's, of which Redis has told
            ray.kill(ray.get_actor(CONTROLLER, namespace=NAMESPACE))
        actor = (
            ray.remote(Controller)
            .options(
                name=CONTROLLER,
                namespace=NAMESPACE,
                lifetime="detached",
                max_restarts=-1,
                max_concurrency=10_000,
                num_cpus=0,
                scheduling_strategy=NodeAffinitySchedulingStrategy(here, soft=False),
            )
            .remote(options)
        )
        return str(ray.get(actor.ready.remote()))


def _gcs_address(temp_dir: Path) -> str:
    return (temp_dir / "ray_current_cluster").read_text().strip()
