"""Starting and ending the Ray cluster of one home; nothing else of the machine is touched."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from controller.contracts.errors import FarmUnavailable, UserError
from controller.contracts.ray_names import CONTROLLER, NAMESPACE
from controller.platform.atomic import write_private
from controller.platform.inherited import inherited_to_fetch
from controller.platform.ports import PORTS, free_ports
from controller.platform.processes import FARM_MARKER, end_marked, marked_processes, name_of
from controller.platform.programs import (
    PYTHON,
    PYTHON_MODES,
    away_from_current_folder,
    installed_beside,
)
from controller.platform.terminal import errors_appended_to
from controller.runtime.addresses import Address
from controller.runtime.api_beside import end_api
from controller.runtime.client import TIMINGS, Patience, Timings
from controller.runtime.health import head_processes, home_mark, is_listening, names_of_ended
from controller.runtime.home import Cluster, Home
from controller.runtime.options import RECONNECT_TIMEOUT_S, ControllerOptions
from controller.runtime.redis import RedisServer

OBJECT_STORE_BYTES = 80_000_000
"""Little is needed: results are small, and artefacts come in pieces that bypass it."""

LONGEST_TEMP_DIR = 43
"""Bytes that Ray's `/session_…/sockets/plasma_store` leaves of a socket path's 107."""

RAYS = ("gcs_server", "raylet", "ray::", "ray-dashboard")
"""How names begin of Ray's own processes, and of those in which it runs an actor."""

HEAD_STARTS = 3
"""How often a head is started at most. Ray gives a raylet 30 s, which nothing can change."""
_RAYLET_LATE = "The current node timed out during startup"

RECONNECT_TIMEOUT = "RAY_gcs_rpc_server_reconnect_timeout_s"
NO_PORT = "65536"
"""Keeps Ray's servers that would answer without a token from starting."""
# Ray's node waits seconds for its agents to report the ports that it was not given.
_NODE_PORTS = (
    "dashboard-agent-listen-port",
    "dashboard-agent-grpc-port",
    "runtime-env-agent-port",
    "metrics-export-port",  # nothing listens there, since metrics are off
)
_DASHBOARD = "dashboard-port"


def ray_environment(home: Home) -> dict[str, str]:
    """Return the environment variables for every process that uses this home's Ray."""
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
        # Otherwise a node would notice only after 60 s that its head is another one, and spin until
        # then.
        "RAY_raylet_liveness_self_check_interval_ms": "2000",
        "RAY_enable_metrics_collection": "0",
        "AUTOSCALER_METRIC_PORT": NO_PORT,
        "DASHBOARD_METRIC_PORT": NO_PORT,
        "RAY_worker_niceness": "0",  # Ray's 15 would be inherited by measured processes
        # On high memory, Ray would end the controller or an agent, the only processes it knows. The
        # kernel ends the run instead, since agents offer it first.
        "RAY_memory_monitor_refresh_ms": "0",
        "RAY_worker_oom_score_adjustment": "0",
        "BENCHFARM_HOME": str(home.path),
        **PYTHON_MODES,
    }


def node_environment(home: Home, instance: str) -> dict[str, str]:
    """Return the environment of what a farm starts on a host; it has little of the caller's."""
    programs = f"{PYTHON.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    kept = inherited_to_fetch(os.environ)
    return {**kept, **ray_environment(home), FARM_MARKER: instance, "PATH": programs}


def node_ports(
    *further: str, besides: Container[int] = (), among: Sequence[int] = PORTS
) -> dict[str, int]:
    """Return a free port for each server of a node, by Ray's option names."""
    names = (*_NODE_PORTS, *further)
    return dict(zip(names, free_ports(len(names), besides=besides, among=among), strict=True))


def node_command(temp_dir: str, ports: Mapping[str, int]) -> list[str]:
    """Return the command that starts a Ray node; the caller adds its kind."""
    return [
        *(str(installed_beside("ray")), "start"),
        *(f"--{name}={port}" for name, port in ports.items()),
        *("--num-cpus=0", f"--object-store-memory={OBJECT_STORE_BYTES}", "--disable-usage-stats"),
        *(f"--temp-dir={temp_dir}", "--log-style=record"),
        "--include-log-monitor=false",  # our logs are files of our own
    ]


def new_temp_dir(longest: int = LONGEST_TEMP_DIR) -> str:
    """Return a path for Ray's folder, in a new folder that only this user can enter.

    Ray opens its own folder to every user; the folder around it keeps them out. Raises UserError
    if others could replace that folder, or if its path has more than `longest` bytes: too many for
    a socket in it.
    """
    around = Path(tempfile.mkdtemp(prefix="benchfarm-")).resolve()  # of mode 0700
    try:
        require_own(around)
        if len(os.fsencode(around / "ray")) > longest:
            seen = f"its path has more than {longest} bytes, too many for a socket in it"
            raise _no_folder(around, seen)
    except UserError:
        around.rmdir()
        raise
    return str(around / "ray")


def remove_temp_dir(temp_dir: str) -> None:
    """Remove the folder of `new_temp_dir` with everything that Ray has put there."""
    shutil.rmtree(temp_dir, ignore_errors=True)
    with suppress(OSError):  # gone, or of a release that put Ray elsewhere
        Path(temp_dir).parent.rmdir()


def require_own(folder: Path) -> None:
    """Raise UserError unless only this user can enter a folder and replace it."""
    itself = folder.lstat()
    if not stat.S_ISDIR(itself.st_mode) or itself.st_uid != os.geteuid() or itself.st_mode & 0o077:
        raise _no_folder(folder, "others can enter it")
    for place in folder.resolve().parents:
        status = place.stat()
        shared = status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX
        if shared or status.st_uid not in (0, os.geteuid()):
            raise _no_folder(folder, f"others can replace what is in {place}")


def _no_folder(folder: Path, seen: str) -> UserError:
    remedy = "Set TMPDIR to a folder with a short path that only you can write to."
    return UserError(f"make folder {folder} for Ray", seen, remedy)


class RayletLate(FarmUnavailable):
    """A raylet that `ray start` has stopped waiting for."""


@dataclass(frozen=True, slots=True)
class Head:
    """Options of Ray's head node."""

    listen: Address | None = None
    """Address for the farm's other hosts; None for a free port on loopback."""
    autoscaling: Path | None = None
    """Cluster config from `ray up`; lets Ray's autoscaler manage the other hosts."""
    redis: RedisServer | None = None
    """Redis for Ray's tables, so that the other hosts outlive the head."""


def start_head(home: Home, head: Head, instance: str | None = None) -> Cluster:
    """Start Ray's head node and remember it in the home; raises FarmUnavailable.

    Starts it anew where Ray has given up waiting for its raylet, as it does on a busy host.

    instance: marker of the farm whose head was lost, to take its hosts over from Redis.
    """
    instance = instance or secrets.token_hex(8)
    for _ in range(HEAD_STARTS - 1):
        try:
            return _start_head(home, head, instance)
        except RayletLate:
            continue
    return _start_head(home, head, instance)


def _start_head(home: Home, head: Head, instance: str) -> Cluster:
    """Start it once; raises FarmUnavailable, RayletLate included. A failure leaves nothing."""
    temp_dir = new_temp_dir()
    ports = _head_ports(head.listen)
    former = home.cluster()
    cluster = Cluster(
        instance=instance,
        ray_address=str(head.listen or f"127.0.0.1:{ports['port']}"),
        dashboard_url=f"http://127.0.0.1:{ports[_DASHBOARD]}",
        temp_dir=temp_dir,
        redis=head.redis,
    )
    write_private(home.cluster_file, cluster.model_dump_json())  # so that `down` finds what starts
    environ = _head_environment(home, head, instance)
    try:
        _ray_start(_head_command(head, temp_dir, ports), environ, home.logs / "ray-head.log")
        address = cluster.ray_address if head.listen else _gcs_address(Path(temp_dir))
        started = {"ray_address": address, "head": head_processes(instance)}
        cluster = cluster.model_copy(update=started)
        write_private(home.cluster_file, cluster.model_dump_json())
    except BaseException:
        end_marked(FARM_MARKER, instance, grace_s=2.0, expendable=is_rays)
        remove_temp_dir(temp_dir)
        if former:  # replaced at once: who waits for the farm must not find it gone
            write_private(home.cluster_file, former.model_dump_json())
        else:
            home.cluster_file.unlink()
        raise
    return cluster


def _ray_start(command: Sequence[str], environ: Mapping[str, str], log: Path) -> None:
    """Run `ray start`, whose output is to be in a log; raises FarmUnavailable."""
    with log.open("wb") as output:
        status = subprocess.run(
            command,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # a Ctrl-C or a timeout of the caller must not reach Ray
        ).returncode
    if status == 0:
        return
    said = log.read_text(errors="replace")
    last = next((line for line in reversed(said.splitlines()) if line.strip()), "")
    kind = RayletLate if _RAYLET_LATE in said else FarmUnavailable
    seen = f"ray start exited with {status}" + (f": {last}" if last else "")
    raise kind("start Ray", seen, f"See its output in {log}.")


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
    # Version 2 doesn't start the servers whose addresses the launcher is given.
    first = {"RAY_enable_autoscaler_v2": "0"} if head.autoscaling else {}
    kept = head.redis.environment(instance) if head.redis else {}
    return node_environment(home, instance) | first | kept


def is_alive(cluster: Cluster) -> bool:
    """Return whether any process of the cluster still runs."""
    return next(marked_processes(FARM_MARKER, cluster.instance), None) is not None


def has_head(cluster: Cluster) -> bool:
    """Return whether something listens at the address of Ray's GCS."""
    return is_listening(cluster.ray_address)


def has_controller(home: Home, cluster: Cluster, timings: Timings = TIMINGS) -> bool:
    """Return whether something listens at the controller's address.

    Waits for a restart of the controller while there is a head that can start it.
    """
    patience = Patience(f"of {home.path}", timings=timings)
    away = FarmUnavailable(f"use the farm in {home.path}", "its controller is away", "Wait.")
    try:
        while not is_listening(home.endpoint().address):
            if names_of_ended(cluster.head):
                return False
            patience.wait(away)
    except FarmUnavailable:
        return False
    return True


def stop(home: Home, cluster: Cluster) -> int:
    """End a cluster and delete its files; return the number of its processes.

    Deletes its tables in Redis, too. Raises UserError.
    """
    ended = clear(home, cluster)
    ended += end_marked(FARM_MARKER, home_mark(home, "prometheus"), grace_s=5.0)
    ended += end_api(home)
    home.prometheus_url.unlink(missing_ok=True)
    home.prometheus_process.unlink(missing_ok=True)
    home.cluster_file.unlink(missing_ok=True)
    if cluster.redis:
        cluster.redis.forget(cluster.instance)
    return ended


def clear(home: Home, cluster: Cluster, grace_s: float = 5.0) -> int:
    """End every process of the cluster, workers included; return their number."""
    head = {process.pid for process in cluster.head}
    ended = end_marked(
        *(FARM_MARKER, cluster.instance, grace_s),
        lambda process: process.pid in head or is_rays(process),
    )
    remove_temp_dir(cluster.temp_dir)
    home.endpoint_file.unlink(missing_ok=True)
    for status in home.adb_statuses():
        status.unlink(missing_ok=True)
    return ended


def is_rays(process: psutil.Process) -> bool:
    """Return whether a process is Ray's own, or runs an actor.

    Told to end, these wait for each other. They have nothing to put away: the store and what is in
    Redis are written at once, and Ray's folder is removed.
    """
    return name_of(process).startswith(RAYS)


def _forget_others_ray() -> None:
    """Drop the caller's Ray variables, which could import modules or name another farm."""
    for name in [name for name in os.environ if name.startswith("RAY_")]:
        del os.environ[name]


@contextmanager
def driver(home: Home, cluster: Cluster) -> Iterator[Any]:
    """Connect this process to the cluster; yield the `ray` module.

    Meanwhile, standard error goes to a log: Ray's C++ warns there, for example that there is no
    internet.
    """
    with errors_appended_to(home.logs / "ray-driver.log"), _driver(home, cluster) as ray:
        yield ray


@contextmanager
def _driver(home: Home, cluster: Cluster) -> Iterator[Any]:
    _forget_others_ray()
    os.environ.update(ray_environment(home))
    import ray

    former = signal.getsignal(signal.SIGTERM)
    with away_from_current_folder():
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
        with suppress(ValueError):  # of a former head, from Redis
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
