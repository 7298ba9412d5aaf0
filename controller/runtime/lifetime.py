"""Bringing a farm up on this machine, and down again."""

from __future__ import annotations

import fcntl
import json
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from controller.contracts.errors import FarmUnavailable, UserError
from controller.contracts.processes import FARM_MARKER, end_marked
from controller.metrics.exporter import LOOPBACK, listening
from controller.runtime import cluster as clusters
from controller.runtime.cluster import Head
from controller.runtime.home import Cluster, Home, write_private
from controller.runtime.joining import GRACE_S, instance_of, no_supervisor
from controller.runtime.options import QUARANTINE_AFTER, ControllerOptions
from controller.store.sqlite import SqliteStore


@dataclass(frozen=True, slots=True)
class StartedAgent:
    """This host's agent."""

    id: str
    revoked: str
    """Why the controller refuses it; empty if it does not."""


@dataclass(frozen=True, slots=True)
class FarmUp:
    """A farm that runs."""

    cluster: Cluster
    url: str
    agent: StartedAgent | None
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
    head: Head = field(default_factory=Head)
    quarantine_after: int = QUARANTINE_AFTER
    """As in controller.runtime.options."""
    phone_power_cycle: Sequence[str] = ()
    """Words of a command for phones of this host that nothing else brings back."""


def bring_up(home: Home, options: UpOptions) -> FarmUp:
    """Start Ray, the controller and this host's agent, or find them running.

    Raises FarmUnavailable, HomeUnusable, or UserError for an address or a port that can't be had,
    if a farm is up with other options, or if this host has joined another; what was started is
    ended again on any exception.
    """
    home.prepare()
    with _alone(home), no_supervisor(home):
        former = home.cluster()
        if former and _is_up(home, former):
            require_same(former, options)
            return FarmUp(former, home.endpoint().url, None, started=False)
        if former:
            clusters.clear(home, former)  # the remains of a crash
        _require_startable(options)
        SqliteStore.open(home.store).close()  # says what is wrong with it, if anything is
        return _start(home, options, former.instance if former and former.redis else None)


def _start(home: Home, options: UpOptions, lost: str | None) -> FarmUp:
    """lost: the farm whose hosts Redis knows, and who measure on without their head."""
    cluster = clusters.start_head(home, options.head, lost if options.head.redis else None)
    try:
        cluster = cluster.model_copy(update={"options": told(options)})
        write_private(home.cluster_file, cluster.model_dump_json())
        # The agent starts beside the controller: it waits until it can register.
        address = options.metrics_address
        said = (options.labels, address, options.phone_power_cycle)
        starting = _spawn_agent(home, cluster, *said) if options.with_agent else None
        controller = ControllerOptions(
            str(home.path), address, options.api_port, options.quarantine_after
        )
        url = clusters.start_controller(home, cluster, controller)
        started = _await_agent(home, starting) if starting else None
    except BaseException:
        if cluster.instance == lost:
            clusters.clear(home, cluster)  # the next `up` is to find the hosts
        else:
            with suppress(UserError):  # what went wrong before is what to tell
                clusters.stop(home, cluster)
        raise
    return FarmUp(cluster, url, started, started=True)


@contextmanager
def _alone(home: Home) -> Iterator[None]:
    """Hold what only one `up` of a home can; raises UserError."""
    with (home.path / "up.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            seen = "another one is at work here"
            raise UserError(f"benchfarm up in {home.path}", seen, "wait for its end") from error
        yield


def told(options: UpOptions) -> dict[str, str]:
    """Return what differs from the defaults, as `up` is given it."""
    head = options.head
    usual = head.listen.host if head.listen else LOOPBACK
    said = {
        "--label": " ".join(f"{key}={value}" for key, value in sorted(options.labels.items())),
        "--no-agent": "" if options.with_agent else "given",
        "--listen": str(head.listen or ""),
        "--redis": str(head.redis or ""),
        "--redis-password-file": (head.redis and head.redis.password_file) or "",
        "--autoscaling-config": str(head.autoscaling.absolute()) if head.autoscaling else "",
        "--metrics-address": options.metrics_address if options.metrics_address != usual else "",
        "--api-port": str(options.api_port or ""),
        "--quarantine-after": (
            str(options.quarantine_after) if options.quarantine_after != QUARANTINE_AFTER else ""
        ),
        "--phone-power-cycle": shlex.join(options.phone_power_cycle),
    }
    return {option: value for option, value in said.items() if value}


def require_same(cluster: Cluster, options: UpOptions) -> None:
    """Raise UserError if a farm that is up would have to be another for these options."""
    for option, value in told(options).items():
        has = cluster.options.get(option)
        if has != value:
            raise UserError(
                f"benchfarm up {option} {value}",
                f"a farm is up here with {option} {has}" if has else "a farm is up here without it",
                "end it first: benchfarm down",
            )


def start_agent(
    home: Home,
    labels: Mapping[str, str],
    metrics_address: str,
    phone_power_cycle: Sequence[str] = (),
) -> StartedAgent:
    """Start this host's agent on a farm that is up, or find it running.

    Raises FarmUnavailable, or UserError for an address that is not this host's.
    """
    listening(metrics_address).close()
    cluster = home.cluster()
    if cluster is None:
        raise FarmUnavailable(
            f"starting an agent for {home.path}", "no farm is up here", "run: benchfarm up"
        )
    said = (labels, metrics_address, phone_power_cycle)
    return _await_agent(home, _spawn_agent(home, cluster, *said))


def bring_down(home: Home) -> int | None:
    """End everything of this home's farm; return how many processes, or None if it was down."""
    if cluster := home.cluster():
        return clusters.stop(home, cluster)
    # A host that has joined another's farm and waits for its head has no cluster.
    return end_marked(FARM_MARKER, instance_of(home), grace_s=GRACE_S) or None


def _is_up(home: Home, cluster: Cluster) -> bool:
    """Whether a farm runs; what is left of one, or of an `up` that was killed, does not count."""
    alive = clusters.is_alive(cluster) and clusters.has_head(cluster)
    return alive and home.endpoint_file.exists() and clusters.has_controller(home)


def _require_startable(options: UpOptions) -> None:
    if options.head.listen:
        options.head.listen.require_free("--listen")
    listening(options.metrics_address).close()
    _require_free(options.api_port)
    if (file := options.head.autoscaling) and not file.is_file():
        tried = f"option --autoscaling-config {file}"
        raise UserError(tried, "there is no such file", "name what `ray up` has left on this host")
    if options.head.redis:
        options.head.redis.require_usable()


def _require_free(port: int) -> None:
    try:
        socket.create_server((LOOPBACK, port)).close()
    except OSError as error:
        raise UserError(
            f"option --api-port {port}", str(error.strerror), "give a free one, or 0 for any"
        ) from error


def _spawn_agent(
    home: Home,
    cluster: Cluster,
    labels: Mapping[str, str],
    metrics_address: str,
    phone_power_cycle: Sequence[str],
) -> subprocess.Popen[bytes]:
    with (home.logs / "agent-start.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "agents", cluster.ray_address],
            env=clusters.node_environment(home, cluster.instance),
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
            "phone_power_cycle": list(phone_power_cycle),
        }
        process.stdin.write(json.dumps(said).encode())
        process.stdin.close()
        process.stdin = None
    return process


def _await_agent(home: Home, starting: subprocess.Popen[bytes]) -> StartedAgent:
    output, _ = starting.communicate()
    answer = json.loads(output.splitlines()[-1]) if output.strip() else {}
    if starting.returncode != 0:
        seen = answer.get("error", f"it exited with {starting.returncode}")
        raise FarmUnavailable("starting the agent", seen, f"see {home.logs / 'agent-start.log'}")
    return StartedAgent(answer["agent_id"], answer["revoked"])
