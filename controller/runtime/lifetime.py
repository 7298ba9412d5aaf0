"""Starting and ending a farm on this machine."""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import NoReturn
from urllib.parse import urlsplit

from pydantic import TypeAdapter

from controller.contracts.documents import read_json
from controller.contracts.errors import FarmUnavailable, HomeUnusable, UserError
from controller.contracts.quota import Quota
from controller.contracts.retention import Retention
from controller.contracts.unreadable import UNREADABLE, reason
from controller.metrics.exporter import LOOPBACK, listening
from controller.metrics.prometheus_config import CONFIG, Intervals
from controller.platform.atomic import write_private
from controller.platform.inherited import inherited_to_fetch
from controller.platform.locks import exclusive_now
from controller.platform.processes import FARM_MARKER, end_marked
from controller.platform.programs import PYTHON_MODES, python_module
from controller.platform.terminal import say
from controller.runtime import cluster as clusters
from controller.runtime.api_beside import MARK as API_MARK
from controller.runtime.api_beside import ApiBeside, end_api, have_api
from controller.runtime.client import TIMINGS, Patience, Timings
from controller.runtime.cluster import Head
from controller.runtime.health import home_mark, is_supervised, names_of_ended, process_of
from controller.runtime.home import Cluster, Home
from controller.runtime.joining import GRACE_S, instance_of, no_supervisor
from controller.runtime.options import QUARANTINE_AFTER, ControllerOptions
from controller.runtime.prometheus import running_beside, start_beside
from controller.runtime.supervising import HEAD_SUPERVISOR, IN_FOREGROUND
from controller.store.sqlite import SqliteStore

SUPERVISOR = "supervisor"
SUPERVISOR_GRACE_S = 2.0
STARTED_AGAIN = replace(TIMINGS, restart_s=600.0)
"""For a farm that its supervisor starts again: on a busy host, Ray alone may take minutes."""


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
    """Whether this call started it; else it was running."""


@dataclass(frozen=True, slots=True)
class UpOptions:
    """Options of `benchfarm up`."""

    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of this host."""
    with_agent: bool = True
    metrics_address: str = LOOPBACK
    api_port: int = 0
    """0 for a free port."""
    head: Head = field(default_factory=Head)
    quarantine_after: int = QUARANTINE_AFTER
    quota: Quota = field(default_factory=Quota)
    """As in controller.runtime.options."""
    retention: Retention = field(default_factory=Retention)
    """How long the head keeps artefacts."""
    phone_power_cycle: tuple[str, ...] = ()
    """Command that switches a phone of this host off and on."""
    meter: tuple[str, ...] = ()
    """Command of a power meter for this host's devices."""
    prometheus: bool = False
    """Whether Prometheus is started beside the farm."""
    api: ApiBeside | None = None
    """Where the API for the team is served beside the farm; None: nowhere."""
    supervised: bool = False
    """Whether the farm is restarted when a part of it ends."""
    block: bool = False
    """Whether this process becomes the supervisor once the farm is up."""


_OPTIONS = TypeAdapter(UpOptions)


def bring_up(home: Home, options: UpOptions, timings: Timings = TIMINGS) -> FarmUp:
    """Start Ray, the controller and this host's agent, or find them running.

    A farm that was lost, rather than ended by `bring_down`, is started with its stored options.

    Raises FarmUnavailable, HomeUnusable, or UserError for an address or a port that can't be had,
    for options other than those of a farm that is up or was lost, or if this host has joined
    another; what was started is ended again then. A farm that is up stays so if its API or
    Prometheus can't be started, for which UserError is raised.
    """
    home.prepare()
    with _alone(home, "start the farm"), no_supervisor(home):
        former, stored = home.cluster(), wanted(home)
        if former and _is_up(home, former, timings):
            require_same(former, options)
            beside = options  # what was asked for earlier is the supervisor's matter
            options = with_stored(options, stored)
            farm = FarmUp(former, home.endpoint().url, None, started=False)
        else:
            beside = options = with_stored(options, stored)
            farm = _start_in_place_of(former, home, options)
        if options.supervised:
            _look_after(home, options)
        _have_beside(home, farm, beside)
        return farm


def bring_up_as_wanted(home: Home) -> None:
    """Start a farm with the stored options of `up`, if there are any; raises as `bring_up`."""
    if options := wanted(home):
        bring_up(home, options)


def wanted(home: Home) -> UpOptions | None:
    """Return the options for restarting a home's farm; None if it is not to be restarted."""
    try:
        return read_json(_OPTIONS, home.wanted)
    except FileNotFoundError:
        return None
    except UNREADABLE as error:
        seen = f"it is damaged: {reason(error)}"
        remedy = "Start the farm anew: run `benchfarm down`, then `benchfarm up`."
        raise HomeUnusable(f"read {home.wanted}", seen, remedy) from error


def with_stored(options: UpOptions, stored: UpOptions | None) -> UpOptions:
    """Return the options of a call with those that its farm is to be restarted with, if any.

    Raises UserError for one that contradicts these; Prometheus and the API may be added.
    """
    if stored is None:
        return options
    remedy = "Run `benchfarm up` without it, or `benchfarm down` first."
    _require_same(non_default_options(stored), options, "the farm of this home was started", remedy)
    return replace(
        stored,
        prometheus=options.prometheus or stored.prometheus,
        api=options.api or stored.api,
        supervised=options.supervised or stored.supervised,
        block=options.block,
    )


def _look_after(home: Home, options: UpOptions) -> None:
    """Store the farm's options, and start its supervisor."""
    config = options.head.autoscaling
    head = replace(options.head, autoscaling=config and config.absolute())
    kept = replace(options, head=head, block=False)
    write_private(home.wanted, _OPTIONS.dump_json(kept).decode())
    if options.block:  # this process will be the supervisor
        end_marked(FARM_MARKER, home_mark(home, SUPERVISOR), grace_s=0.0)
    elif not is_supervised(home):
        with (home.logs / "supervisor.log").open("ab") as log:
            subprocess.Popen(
                python_module(HEAD_SUPERVISOR),
                env=supervisor_environment(home),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )


def be_supervisor(home: Home) -> NoReturn:
    """Become the supervisor, after an `up` with `block`."""
    command = python_module(HEAD_SUPERVISOR, IN_FOREGROUND)
    os.execve(command[0], command, supervisor_environment(home))


def supervisor_environment(home: Home) -> dict[str, str]:
    """Return the environment of a home's supervisor."""
    own = {FARM_MARKER: home_mark(home, SUPERVISOR), "BENCHFARM_HOME": str(home.path)}
    return {**inherited_to_fetch(os.environ), **own, **PYTHON_MODES}


def _have_beside(home: Home, farm: FarmUp, wanted: UpOptions) -> None:
    """Start what is wanted beside a farm; raises the last error, and says one before.

    The API first: people work with it, and Prometheus may take minutes to fail.
    """
    failed: UserError | None = None
    try:
        if wanted.api:
            have_api(home, wanted.api)
    except UserError as error:
        failed = error
    try:
        if wanted.prometheus:
            _have_prometheus(home, farm)
    except UserError as error:
        if failed:
            say(f"benchfarm: {failed}", err=True)
        failed = error
    if failed:
        raise failed


def _have_prometheus(home: Home, farm: FarmUp) -> None:
    """Start Prometheus unless one watches this controller; raises as `start_beside`."""
    config = home.prometheus / CONFIG
    if running_beside(home) and farm.url in config.read_text(errors="replace"):
        return
    # One that is stuck or was left behind holds the data.
    end_marked(FARM_MARKER, home_mark(home, "prometheus"), grace_s=5.0)
    started = start_beside(home, Intervals())
    write_private(home.prometheus_process, process_of(started.process.pid).model_dump_json())


def _start_in_place_of(former: Cluster | None, home: Home, options: UpOptions) -> FarmUp:
    if former:
        clusters.clear(home, former, grace_s=0.0)  # the remains of a crash
    _require_startable(options)
    SqliteStore.open(home.store).close()  # reports what is wrong with the store, if anything
    return _start(home, options, former)


def _start(home: Home, options: UpOptions, former: Cluster | None) -> FarmUp:
    """Start a farm; former: the one that was lost here, if any."""
    # Redis knows the hosts of the lost farm, which keep measuring without their head; a supervisor
    # retries after any error.
    kept = former and ((former.redis and options.head.redis) or home.wanted.exists())
    lost = former.instance if former and kept else None
    cluster = clusters.start_head(home, options.head, lost)
    try:
        cluster = cluster.model_copy(update={"options": non_default_options(options)})
        write_private(home.cluster_file, cluster.model_dump_json())
        # The agent starts beside the controller: it waits until it can register.
        address = options.metrics_address
        said = (options.labels, address, options.phone_power_cycle, options.meter)
        starting = _spawn_agent(home, cluster, *said) if options.with_agent else None
        controller = ControllerOptions(
            str(home.path),
            address,
            options.api_port or _former_port(former),
            options.quarantine_after,
            options.quota,
            former.metrics_port if former else 0,
            options.retention,
        )
        url = clusters.start_controller(home, cluster, controller)
        ports = {
            "api_port": urlsplit(url).port,
            "metrics_port": home.endpoint().metrics_port,
        }
        cluster = cluster.model_copy(update=ports)
        write_private(home.cluster_file, cluster.model_dump_json())
        started = _await_agent(home, starting) if starting else None
    except BaseException:
        if cluster.instance == lost:
            clusters.clear(home, cluster)  # the next `up` takes over the hosts
        else:
            with suppress(UserError):  # report the first error
                clusters.stop(home, cluster)
        raise
    return FarmUp(cluster, url, started, started=True)


def _former_port(former: Cluster | None) -> int:
    """Return the controller's former port if it is free, else 0."""
    try:
        _require_free(former.api_port if former else 0)
    except UserError:
        return 0
    return former.api_port if former else 0


@contextmanager
def _alone(home: Home, tried: str) -> Iterator[None]:
    """Hold the lock of a home's only `up` or `down`; raises FarmUnavailable.

    Waits while a supervisor restarts the farm.
    """
    where = f"of {home.path}, which is being started again"
    patience = Patience(where, timings=STARTED_AGAIN)
    seen = "another `benchfarm up` or `benchfarm down` is at work here"
    at_work = FarmUnavailable(f"{tried} in {home.path}", seen, "Wait until it has ended.")
    while True:
        with exclusive_now(home.up_lock) as free:
            if free:
                yield
                return
        if not is_supervised(home):
            raise at_work
        patience.wait(at_work)


def non_default_options(options: UpOptions) -> dict[str, str]:
    """Return the options that differ from their defaults, as texts by name."""
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
        "--user-runs": _other(options.quota.open_runs, Quota().open_runs),
        "--user-bytes": _other(options.quota.bytes_a_day, Quota().bytes_a_day),
        "--artifact-days": _other(options.retention.days, Retention().days),
        "--artifact-bytes": _other(options.retention.most_bytes, Retention().most_bytes),
        "--quarantine-after": _other(options.quarantine_after, QUARANTINE_AFTER),
        "--phone-power-cycle": shlex.join(options.phone_power_cycle),
        "--meter": shlex.join(options.meter),
    }
    return {option: value for option, value in said.items() if value}


def _other(value: int, usual: int) -> str:
    return str(value) if value != usual else ""


def require_same(cluster: Cluster, options: UpOptions) -> None:
    """Raise UserError if a farm that is up was started with other options."""
    _require_same(cluster.options, options, "a farm is up here", "Run `benchfarm down` first.")


def _require_same(known: Mapping[str, str], options: UpOptions, what: str, remedy: str) -> None:
    for option, value in non_default_options(options).items():
        has = known.get(option)
        if has != value:
            seen = f"{what} with {option} {has}" if has else f"{what} without it"
            raise UserError(f"use {option} {value}", seen, remedy)


def start_agent(
    home: Home,
    labels: Mapping[str, str],
    metrics_address: str,
    phone_power_cycle: Sequence[str] = (),
    meter: Sequence[str] = (),
) -> StartedAgent:
    """Start this host's agent on a farm that is up, or return the one that runs.

    Raises FarmUnavailable, or UserError for an address that is not this host's.
    """
    listening(metrics_address).close()
    cluster = home.cluster()
    if cluster is None:
        raise FarmUnavailable(
            f"start an agent in {home.path}", "no farm is up here", "Run `benchfarm up`."
        )
    said = (labels, metrics_address, phone_power_cycle, meter)
    return _await_agent(home, _spawn_agent(home, cluster, *said))


def bring_down(home: Home) -> int | None:
    """End all of a home's farm; return the number of its processes, None if it was down.

    Raises FarmUnavailable while another `up` is running, and HomeUnusable if the farm's files
    can't be deleted, once its processes have ended.
    """
    try:
        return _bring_down(home) if home.path.exists() else None
    except TimeoutError:  # an OSError, too: a process survives SIGKILL
        raise
    except OSError as error:
        raise _ended_beside_files(home, error) from error


def _bring_down(home: Home) -> int | None:
    home.wanted.unlink(missing_ok=True)  # from now on nobody starts it again
    ended = end_marked(FARM_MARKER, home_mark(home, SUPERVISOR), grace_s=SUPERVISOR_GRACE_S)
    with _alone(home, "end the farm"):
        home.wanted.unlink(missing_ok=True)  # a process that was just ended may have restored it
        if cluster := home.cluster():
            return ended + clusters.stop(home, cluster)
        # A host that has joined another's farm and waits for its head has no cluster.
        ended += end_api(home)
        marked = (FARM_MARKER, instance_of(home))
        return ended + end_marked(*marked, GRACE_S, clusters.is_rays) or None


def _ended_beside_files(home: Home, error: OSError) -> HomeUnusable:
    """End a farm whose files can't be deleted, its supervisor first; return what to raise."""
    ended = end_marked(FARM_MARKER, home_mark(home, SUPERVISOR), grace_s=SUPERVISOR_GRACE_S)
    instance = instance_of(home)
    with suppress(UserError):
        if cluster := home.cluster():
            instance = cluster.instance
    for mark in (instance, home_mark(home, "prometheus"), home_mark(home, API_MARK)):
        ended += end_marked(FARM_MARKER, mark, GRACE_S, clusters.is_rays)
    seen = error.strerror or str(error)
    remedy = "Make the home writable, or be the farm's user; then run `benchfarm down` again."
    said = f"{seen}; {ended} processes were ended, this file remains"
    return HomeUnusable(f"delete {error.filename or home.wanted}", said, remedy)


def _is_up(home: Home, cluster: Cluster, timings: Timings) -> bool:
    """Return whether a farm runs; remains of one, or of a killed `up`, do not count."""
    alive = clusters.is_alive(cluster) and not names_of_ended(cluster.head)
    begun = alive and clusters.has_head(cluster) and home.endpoint_file.exists()
    return begun and clusters.has_controller(home, cluster, timings)


def _require_startable(options: UpOptions) -> None:
    if options.head.listen:
        options.head.listen.require_free("--listen")
    listening(options.metrics_address).close()
    _require_free(options.api_port)
    if (file := options.head.autoscaling) and not file.is_file():
        tried, remedy = (
            f"use --autoscaling-config {file}",
            "Name the file that `ray up` left on this host.",
        )
        raise UserError(tried, "there is no such file", remedy)
    if options.head.redis:
        options.head.redis.require_usable()


def _require_free(port: int) -> None:
    try:
        socket.create_server((LOOPBACK, port)).close()
    except OSError as error:
        raise UserError(
            f"use --api-port {port}", str(error.strerror), "Give a free port, or 0 for any."
        ) from error


def _spawn_agent(
    home: Home,
    cluster: Cluster,
    labels: Mapping[str, str],
    metrics_address: str,
    phone_power_cycle: Sequence[str],
    meter: Sequence[str],
) -> subprocess.Popen[bytes]:
    with (home.logs / "agent-start.log").open("wb") as log:
        process = subprocess.Popen(
            python_module("agents", cluster.ray_address),
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
            "meter": list(meter),
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
        raise FarmUnavailable("start the agent", seen, f"See {home.logs / 'agent-start.log'}.")
    return StartedAgent(answer["agent_id"], answer["revoked"])
