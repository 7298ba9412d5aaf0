"""The kinds of process that a farm of a head, a joined host and a virtual phone is made of."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import psutil

from tests.support.namespaced_hosts import Host
from tests.support.processes import is_dead

HEAD, NODE = "head", "node"


@dataclass(frozen=True, slots=True)
class Kind:
    """Processes that a command line tells from others."""

    name: str
    host: str
    pattern: str
    lasts: bool = True
    """Whether a whole farm always has it; what doesn't last comes and goes with runs."""
    place: int = 0
    """Which is meant where there are several, the eldest first."""


CONTROLLER = Kind("controller", HEAD, r"^ray::Controller")
AGENT = Kind("agent", HEAD, r"^ray::AgentActor")
_PYTHON = r"^\S*python\S* "
_SUPERVISOR = r"controller\.runtime\.head_supervisor$"
_RUNNER = r"(performance|accuracy)\.json$"
ANSWERING = Kind("runner on the host", HEAD, r"/runs/.*" + _RUNNER, lasts=False)

KINDS = (
    Kind("GCS", HEAD, r"^\S*/gcs_server "),
    Kind("raylet", HEAD, r"^\S*/raylet/raylet "),
    Kind("autoscaler", HEAD, _PYTHON + r".*autoscaler/_private/monitor\.py"),
    Kind("Ray client server", HEAD, _PYTHON + r".*ray\.util\.client\.server"),
    Kind("dashboard", HEAD, _PYTHON + r"\S*dashboard/dashboard\.py"),
    Kind("dashboard's fork server", HEAD, _PYTHON + r".*multiprocessing\.forkserver"),
    Kind("dashboard's resource tracker", HEAD, _PYTHON + r".*multiprocessing\.resource_tracker"),
    Kind("dashboard's jobs", HEAD, r"^ray-dashboard-JobHead"),
    Kind("dashboard's nodes", HEAD, r"^ray-dashboard-NodeHead"),
    Kind("dashboard agent", HEAD, r"^ray::DashboardAgent"),
    Kind("runtime-env agent", HEAD, r"^ray::RuntimeEnvAgent"),
    CONTROLLER,
    AGENT,
    Kind("first supervisor", HEAD, _SUPERVISOR),
    Kind("second supervisor", HEAD, _SUPERVISOR, place=1),
    Kind("Prometheus", HEAD, r"^\S*prometheus .*--config"),
    Kind("adb server", HEAD, r"/adb .*fork-server server"),
    Kind("virtual phone", HEAD, _PYTHON + r".*agents\.android\.virtual "),
    Kind("runner on the phone", HEAD, r"/data/local/tmp/.*" + _RUNNER, lasts=False),
    ANSWERING,
    Kind("joined supervisor", NODE, r"benchfarm agent start"),
    Kind("joined ray start", NODE, r"/ray start "),
    Kind("joined raylet", NODE, r"^\S*/raylet/raylet "),
    Kind("joined agent", NODE, _PYTHON + r".*agents\.joined"),
    Kind("joined dashboard agent", NODE, r"^ray::DashboardAgent"),
    Kind("joined runtime-env agent", NODE, r"^ray::RuntimeEnvAgent"),
    Kind("worker", NODE, _PYTHON + r".*agents\.worker", lasts=False),
)


def processes_of(kind: Kind, hosts: Mapping[str, Host]) -> list[psutil.Process]:
    """Return the live processes of a kind, the eldest first."""
    return matching(kind, command_lines(hosts[kind.host]))


def matching(kind: Kind, lines: Mapping[psutil.Process, str]) -> list[psutil.Process]:
    """Return which of some processes are of a kind, the eldest first."""
    found = [process for process, line in lines.items() if re.search(kind.pattern, line)]
    return sorted(found, key=lambda process: (process.create_time(), process.pid))


def command_lines(host: Host) -> dict[psutil.Process, str]:
    """Return the command lines of a host's processes, and of what its virtual phones run."""
    found = {process.pid: process for process in host.processes()}
    for process in tuple(found.values()):
        try:
            found.update({child.pid: child for child in process.children(recursive=True)})
        except psutil.NoSuchProcess:
            continue
    return {process: line for process in found.values() if (line := _line(process))}


def _line(process: psutil.Process) -> str:
    try:
        return "" if is_dead(process) else " ".join(process.cmdline()).strip()
    except psutil.NoSuchProcess:
        return ""
