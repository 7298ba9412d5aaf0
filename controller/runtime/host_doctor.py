"""The checks of `benchfarm doctor`: what keeps runs from working on a host, and how to fix it.
Pure.

Broken or required things are MEND; missing optional ones are HINT.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from controller.contracts.checks import Check, Health, worst_first
from controller.contracts.device import DeviceKind
from controller.contracts.doctor import AgentsFacts, Program
from controller.contracts.error_payload import ErrorPayload
from controller.platform.ports import PORTS
from controller.runtime.disks import GIB, disk_checks
from controller.runtime.home import Home
from controller.runtime.host_facts import PORTS_WANTED, FileFacts, HostFacts

LEAST_MEMORY_BYTES: Final = 2 * GIB
"""With less, Ray, the controller and an agent leave no memory to a run."""
LEAST_LIMITS: Final = {"open files": 1024, "processes": 1024}
"""Limits below which Ray's processes fail to start, or fail later."""
REINSTALL: Final = "Install benchfarm again: make setup, or pip install with requirements/lock.txt."


def checks(host: HostFacts, agents: AgentsFacts | ErrorPayload) -> list[Check]:
    """Return all checks, the worst first.

    agents: an ErrorPayload if the agents' side could not be asked.
    """
    found = [
        check
        for look in (_python, _farm, _home, _secrets, _disks, _memory, _cores, _limits)
        for check in look(host)
    ]
    found += [check for look in (_clock, _ports, _prometheus, _phones) for check in look(host)]
    if isinstance(agents, ErrorPayload):
        found.append(_mend("agents' side", agents.seen, agents.remedy))
    else:
        found += [check for look in _OF_AGENTS for check in look(agents)]
    return worst_first(found)


def _mend(what: str, seen: str, remedy: str) -> Check:
    return Check(what=what, health=Health.MEND, seen=seen, remedy=remedy)


def _hint(what: str, seen: str, remedy: str) -> Check:
    return Check(what=what, health=Health.HINT, seen=seen, remedy=remedy)


def _well(what: str, seen: str) -> Check:
    return Check(what=what, health=Health.WELL, seen=seen)


def _python(host: HostFacts) -> Iterator[Check]:
    for name, (wanted, installed) in host.packages.items():
        there = f"{installed} is installed" if installed else "it is not installed"
        yield _mend("Python", f"package {name} {wanted} is needed: {there}", REINSTALL)
    if not host.packages:
        yield _well("Python", f"{host.python}, and all packages of benchfarm {host.release}")


def _farm(host: HostFacts) -> Iterator[Check]:
    if host.farm_release not in (None, host.release):
        seen = f"the farm of this home runs {host.farm_release}, installed is {host.release}"
        yield _mend("farm", seen, f"Run {host.anew}.")


def _home(host: HostFacts) -> Iterator[Check]:
    what, home = "home", host.home_folder
    elsewhere = "Or point BENCHFARM_HOME at a folder of your own."
    if home is None:
        if host.home_parent.writable:
            yield _well(what, f"{host.home} is made by the first: benchfarm up")
        else:
            seen = f"{host.home} can't be made: {host.home_parent.path} is not writable"
            yield _mend(what, seen, "Point BENCHFARM_HOME at a folder of your own.")
    elif not (stat.S_ISDIR(home.mode) or stat.S_ISLNK(home.mode)):
        yield _mend(what, f"{home.path} is no folder", f"Move it away. {elsewhere}")
    elif home.uid not in (host.uid, 0):
        seen = f"{home.path} belongs to another user (uid {home.uid})"
        yield _mend(what, seen, elsewhere.removeprefix("Or ").capitalize())
    elif not home.writable:
        remedy = f"Make it writable: chmod u+rwx {home.path}. {elsewhere}"
        yield _mend(what, f"{home.path} is not writable", remedy)
    elif stat.S_ISDIR(home.mode) and home.mode & 0o022:
        seen = f"others can write to {home.path} (mode {stat.S_IMODE(home.mode):03o})"
        yield _mend(what, seen, f"See what is in it, then: chmod 700 {home.path}.")
    else:
        yield _well(what, f"{home.path} is yours")


def _secrets(host: HostFacts) -> Iterator[Check]:
    faults = [(file, fault) for file in host.secrets if (fault := _exposed(file, host.uid))]
    for file, fault in faults:
        yield _mend("tokens", f"{file.path.name}: {fault}", _new_secret(host, file.path))
    if host.secrets and not faults:
        yield _well("tokens", "only you can read them")


def _new_secret(host: HostFacts, file: Path) -> str:
    """Return how a secret that others may know is replaced."""
    home = Home(host.home)
    if file == home.api_token:
        then = "start the agent again" if host.joined else f"run {host.anew}"
        return f"Delete {file}, then {then}, which makes a new one."
    if host.joined:
        return (
            "On the head, delete ray-token, start the farm anew, and copy the new one to every "
            f"host that has joined; here, delete {file} and start the agent again."
        )
    # The token of metrics is derived from the other.
    named = file if file == home.ray_token else f"{file} and {home.ray_token}"
    new = "which makes a new one; copy ray-token to every host that has joined"
    return f"Delete {named}, then run {host.anew}, {new}."


def _exposed(file: FileFacts, uid: int) -> str:
    if not stat.S_ISREG(file.mode):
        return "it is no regular file"
    if file.uid != uid:
        return f"it belongs to another user (uid {file.uid})"
    if file.mode & 0o077:
        return f"other users can open it (mode {stat.S_IMODE(file.mode):03o})"
    return ""


def _disks(host: HostFacts) -> Iterator[Check]:
    for disk in host.disks:
        yield from disk_checks(disk)


def _memory(host: HostFacts) -> Iterator[Check]:
    limit = host.memory_limit
    limited = limit is not None and limit < host.memory_bytes
    bytes_ = min(host.memory_bytes, limit) if limit is not None else host.memory_bytes
    seen = f"{bytes_ / GIB:.1f} GiB"
    if limited:
        seen += f" by a control group, of {host.memory_bytes / GIB:.1f} GiB"
    if bytes_ < LEAST_MEMORY_BYTES:
        remedy = "Raise the limit (memory.max)" if limited else "Use a host with more memory"
        yield _mend("memory", seen, f"{remedy}: a farm alone takes most of it.")
    elif limited:
        remedy = "Raise the limit if runs fail for memory; selectors go by the host's memory."
        yield _hint("memory", seen, remedy)
    else:
        yield _well("memory", seen)


def _cores(host: HostFacts) -> Iterator[Check]:
    what, quota = "cores", host.cpu_quota
    if quota is None or quota >= host.cpus:
        yield _well(what, f"{host.cpus}")
    else:
        seen = f"{quota:g} by a control group, of {host.cpus}"
        remedy = "Remove the quota (cpu.max), or pin to whole cores (cpuset) in its place."
        yield _hint(what, seen, f"{remedy} More threads than it allows disturb runs.")


def _limits(host: HostFacts) -> Iterator[Check]:
    faults = list(_low_limits(host))
    for name, limit in faults:
        remedy = "Raise it: ulimit, /etc/security/limits.conf, or Limit… of the systemd unit."
        yield _mend("limits", f"{name} of a process: {limit}", remedy)
    if not faults:
        yield _well("limits", "address space, open files and processes suffice")


def _low_limits(host: HostFacts) -> Iterator[tuple[str, int]]:
    """Yield limits that are too low: programs of Ray and torch map far more memory than they
    use."""
    for name, limit in host.limits.items():
        if limit is None or (name == "processes" and host.uid == 0):  # doesn't apply to root
            continue
        if name not in LEAST_LIMITS or limit < LEAST_LIMITS[name]:
            yield name, limit


def _clock(host: HostFacts) -> Iterator[Check]:
    if host.now < host.installed_at:
        seen = "it is earlier than when benchfarm was installed"
        yield _mend("clock", seen, "Set it: timedatectl set-time, or let NTP do it.")
    elif host.synchronised is None:
        yield Check(what="clock", health=Health.UNKNOWN, seen="the kernel doesn't tell of NTP")
    elif not host.synchronised:
        remedy = "Let NTP keep it, in a container that of its host: timedatectl set-ntp true."
        yield _hint("clock", "the kernel says that NTP doesn't keep it", remedy)
    else:
        yield _well("clock", "NTP keeps it")


def _ports(host: HostFacts) -> Iterator[Check]:
    ours, given = f"{PORTS[0]} to {PORTS[-1]}", host.port_range
    if not host.ports_free:
        seen = f"fewer than {PORTS_WANTED} ports from {ours} are free on loopback"
        yield _mend("ports", seen, "End what listens there: ss -ltnp names it.")
    elif given and given[0] <= PORTS[-1] and given[1] >= PORTS[0]:
        seen = f"Linux gives {given[0]} to {given[1]} to others, benchfarm takes {ours}"
        remedy = "Keep them apart: sysctl net.ipv4.ip_local_port_range='32768 60999'."
        yield _hint("ports", seen, remedy)
    else:
        yield _well("ports", f"free ones from {ours}")


def _prometheus(host: HostFacts) -> Iterator[Check]:
    if host.prometheus_silent:
        seen = "the farm's Prometheus doesn't answer"
        yield _mend("Prometheus", seen, "Run: benchfarm up --prometheus.")
    needs = "up --prometheus and the demo need it"
    yield _program("Prometheus", host.prometheus, needs)


def _phones(host: HostFacts) -> Iterator[Check]:
    for error in host.phone_complaints:
        yield _mend("farm and phones", f"cannot {error.tried}: {error.seen}", error.remedy)


def _program(what: str, program: Program, needs: str) -> Check:
    """Return the check of a program; needs: what requires it."""
    if program.path is None:
        return _hint(what, f"not installed; {needs}", program.remedy)
    if program.fault:
        remedy = "Install its package again, for this host's processor."
        return _mend(what, f"{program.path} does not work: {program.fault}", remedy)
    return _well(what, program.path)


def _programs(agents: AgentsFacts) -> Iterator[Check]:
    yield _program("adb", agents.adb, "phones need it")
    yield _program("compiler", agents.compiler, "stack torch-compile and our kernels need it")


def _stacks(agents: AgentsFacts) -> Iterator[Check]:
    for stack in agents.stacks:
        what = f"stack {stack.name}"
        if fault := agents.stack_faults.get(stack.name):
            yield _mend(what, f"cannot {fault.tried}: {fault.seen}", fault.remedy)
        elif stack.ready:
            yield _well(what, stack.detail)
        else:
            yield _hint(what, "can't run here yet", stack.detail)
    ready = {s.name for s in agents.stacks if s.ready and DeviceKind.CPU_HOST in s.device_kinds}
    if not ready - agents.stack_faults.keys():
        remedy = "Install one: benchfarm stacks list says how."
        yield _mend("stacks", "none works on this host", remedy)


def _amx(agents: AgentsFacts) -> Iterator[Check]:
    unusable = [name for name in agents.isa_unusable if name.startswith("amx")]
    if unusable:
        seen = f"the CPU announces {' '.join(unusable)}, and no program can use them"
        remedy = "Let the hypervisor pass on tiles (XTILE), or expect bf16 and int8 without them."
        yield _hint("AMX tiles", seen, remedy)
    else:
        yield _well("AMX tiles", "usable" if agents.has_amx else "the CPU has none")


def _locks(agents: AgentsFacts) -> Iterator[Check]:
    what, locks = "locks", agents.locks
    if not locks.writable:
        yield _mend(what, f"{locks.path} is not writable", f"chmod 1777 {locks.path}, as root.")
    elif not locks.safe:
        seen = f"others can rename files in {locks.path}: farms could measure at once"
        yield _mend(what, seen, "chown root /run/lock; chmod 1777 /run/lock, as root.")
    elif not locks.usual:
        seen = f"they are in {locks.path}: /run/lock is not everybody's"
        remedy = "chmod 1777 /run/lock, as root; all farms of a host have to use one folder."
        yield _hint(what, seen, remedy)
    else:
        yield _well(what, locks.path)


def _namespaces(agents: AgentsFacts) -> Iterator[Check]:
    if fault := agents.namespaces_fault:
        seen = f"no virtual phone starts here: cannot {fault.tried}: {fault.seen}"
        yield _hint("user namespaces", seen, fault.remedy)
    else:
        yield _well("user namespaces", "virtual phones can be kept in theirs")


def _left_out(agents: AgentsFacts) -> Iterator[Check]:
    for one in agents.left_out:
        yield _mend(one.noun, one.said, one.remedy)


_OF_AGENTS: Final[tuple[Callable[[AgentsFacts], Iterator[Check]], ...]] = (
    _programs,
    _stacks,
    _amx,
    _locks,
    _namespaces,
    _left_out,
)
