"""What `benchfarm doctor` makes of a host: each planted violation is named with a remedy."""

from __future__ import annotations

import socket
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from controller.contracts.checks import Health
from controller.contracts.device import DeviceKind
from controller.contracts.doctor import AgentsFacts, LockFolder, Program
from controller.contracts.error_payload import ErrorPayload
from controller.contracts.errors import PhoneUnavailable
from controller.contracts.plugins import LeftOut
from controller.contracts.stacks import StackStatus
from controller.platform.trial import fault_of
from controller.runtime import host_facts as looking
from controller.runtime.disks import GIB, DiskFacts
from controller.runtime.home import Home
from controller.runtime.host_doctor import checks
from controller.runtime.host_facts import FileFacts, HostFacts, port_range

UID = 1000
FOLDER = Path("/home/u/.benchfarm")
TOKEN = FileFacts(FOLDER / "ray-token", UID, stat.S_IFREG | 0o600)
OWN_HOME = FileFacts(FOLDER, UID, stat.S_IFDIR | 0o700)
HOST = HostFacts(
    uid=UID,
    python="3.11.7",
    packages={},
    release="0.2.0",
    farm_release="0.2.0",
    home=FOLDER,
    home_folder=OWN_HOME,
    home_parent=FileFacts(FOLDER.parent, UID, stat.S_IFDIR | 0o755),
    secrets=(TOKEN,),
    disks=(DiskFacts(FOLDER, 50 * GIB, 1_000_000),),
    now=2e9,
    installed_at=1.9e9,
    synchronised=True,
    memory_bytes=16 * GIB,
    memory_limit=None,
    cpus=8,
    cpu_quota=None,
    limits={"address space": None, "open files": 1024, "processes": 30_000},
    ports_free=True,
    port_range=(32_768, 60_999),
    prometheus=Program(path="/usr/bin/prometheus"),
    prometheus_silent=False,
    phone_complaints=(),
)
TORCH = StackStatus(
    name="torch", title="PyTorch", device_kinds=(DeviceKind.CPU_HOST,), ready=True, detail="/venv"
)
LOCKS = LockFolder(path="/run/lock", usual=True, safe=True, writable=True)
AGENTS = AgentsFacts(
    adb=Program(path="/usr/bin/adb"),
    compiler=Program(path="/usr/bin/g++"),
    stacks=(TORCH,),
    locks=LOCKS,
)
BROKEN = ErrorPayload(
    kind="UserError", tried="start stack torch", seen="no libgomp", remedy="Try it."
)
UNREAD = LeftOut(
    noun="manifests", name="x", what="manifest x.yaml", seen="not YAML", remedy="Correct it."
)
TOPICS = {
    *("Python", "home", "tokens", "memory", "limits", "clock", "ports", "Prometheus", "adb"),
    *("compiler", "stack torch", "AMX tiles", "locks", "user namespaces", "disk", "cores"),
}


def test_a_host_that_is_well_has_nothing_to_do() -> None:
    found = checks(HOST, AGENTS)
    assert {check.what for check in found} == TOPICS
    assert {(check.health, check.remedy) for check in found} == {(Health.WELL, "")}


def home(uid: int = UID, mode: int = OWN_HOME.mode, *, writable: bool = True) -> HostFacts:
    return replace(HOST, home_folder=FileFacts(FOLDER, uid, mode, writable))


def token(uid: int = UID, mode: int = TOKEN.mode) -> HostFacts:
    return replace(HOST, secrets=(TOKEN, replace(TOKEN, uid=uid, mode=mode)))


def disk(free_bytes: int, free_files: int | None = None) -> HostFacts:
    return replace(HOST, disks=(DiskFacts(FOLDER, free_bytes, free_files),))


def limits(**changes: int) -> HostFacts:
    named = {name.replace("_", " "): limit for name, limit in changes.items()}
    return replace(HOST, limits={**HOST.limits, **named})


NO_PARENT = replace(HOST.home_parent, writable=False)
COMPLAINT = PhoneUnavailable("reach phone R58M", "its key is unknown", "Confirm it.")


@pytest.mark.parametrize(
    ("host", "what", "health", "seen"),
    [
        (replace(HOST, packages={"ray": ("2.60.0", None)}), "Python", "mend", "not installed"),
        (replace(HOST, packages={"ray": ("2.60.0", "2.1")}), "Python", "mend", "2.1 is installed"),
        (replace(HOST, farm_release="0.1.0"), "farm", "mend", "runs 0.1.0, installed is 0.2.0"),
        (replace(HOST, home_folder=None, home_parent=NO_PARENT), "home", "mend", "can't be made"),
        (home(mode=stat.S_IFREG | 0o600), "home", "mend", "is no folder"),
        (home(uid=7), "home", "mend", "another user (uid 7)"),
        (home(writable=False), "home", "mend", "is not writable"),
        (home(mode=stat.S_IFDIR | 0o777), "home", "mend", "others can write"),
        (token(mode=stat.S_IFREG | 0o644), "tokens", "mend", "mode 644"),
        (token(mode=stat.S_IFLNK | 0o777), "tokens", "mend", "no regular file"),
        (token(uid=7), "tokens", "mend", "another user (uid 7)"),
        (disk(1 << 20), "disk", "mend", "less than 64 MiB"),
        (disk(GIB), "disk", "hint", "1.0 GiB are free"),
        (disk(50 * GIB, 3), "disk", "mend", "3 more files"),
        (replace(HOST, memory_bytes=GIB), "memory", "mend", "1.0 GiB"),
        (replace(HOST, memory_limit=GIB), "memory", "mend", "1.0 GiB by a control group"),
        (replace(HOST, memory_limit=4 * GIB), "memory", "hint", "4.0 GiB by a control group"),
        (replace(HOST, cpu_quota=2.0), "cores", "hint", "2 by a control group, of 8"),
        (replace(HOST, cpu_quota=0.5), "cores", "hint", "0.5 by a control group, of 8"),
        (limits(open_files=256), "limits", "mend", "open files of a process: 256"),
        (limits(processes=100), "limits", "mend", "processes of a process: 100"),
        (limits(address_space=8 * GIB), "limits", "mend", "address space"),
        (replace(HOST, now=1e9), "clock", "mend", "earlier than when benchfarm was installed"),
        (replace(HOST, synchronised=False), "clock", "hint", "NTP doesn't keep it"),
        (replace(HOST, ports_free=False), "ports", "mend", "fewer than 16 ports"),
        (replace(HOST, port_range=(1024, 65_535)), "ports", "hint", "1024 to 65535"),
        (replace(HOST, prometheus=Program(remedy="Get it.")), "Prometheus", "hint", "installed"),
        (
            replace(HOST, prometheus=Program(path="/p", fault="Exec format error")),
            *("Prometheus", "mend", "/p does not work: Exec format error"),
        ),
        (replace(HOST, prometheus_silent=True), "Prometheus", "mend", "doesn't answer"),
        (
            replace(HOST, phone_complaints=(COMPLAINT,)),
            "farm and phones",
            "mend",
            "cannot reach phone R58M",
        ),
    ],
)
def test_what_is_wrong_with_a_host_is_named_first(
    host: HostFacts, what: str, health: str, seen: str
) -> None:
    first = checks(host, AGENTS)[0]
    assert (first.what, first.health) == (what, health)
    assert seen in first.seen
    assert first.remedy


@pytest.mark.parametrize(
    ("changes", "what", "health", "seen"),
    [
        ({"adb": Program(remedy="Get it.")}, "adb", "hint", "not installed"),
        ({"adb": Program(path="/a", fault="it hangs")}, "adb", "mend", "/a does not work"),
        ({"compiler": Program(remedy="Get it.")}, "compiler", "hint", "not installed"),
        ({"compiler": Program(path="/c", fault="no <vector>")}, "compiler", "mend", "no <vector>"),
        ({"stack_faults": {"torch": BROKEN}}, "stack torch", "mend", "no libgomp"),
        (
            {"stacks": (TORCH.model_copy(update={"ready": False}),)},
            *("stacks", "mend", "none works on this host"),
        ),
        (
            {"stacks": (TORCH, TORCH.model_copy(update={"name": "ipex", "ready": False}))},
            *("stack ipex", "hint", "can't run here yet"),
        ),
        ({"isa_unusable": ("amx_bf16", "amx_tile")}, "AMX tiles", "hint", "amx_bf16 amx_tile"),
        (
            {"locks": LOCKS.model_copy(update={"writable": False})},
            *("locks", "mend", "is not writable"),
        ),
        (
            {"locks": LOCKS.model_copy(update={"path": "/tmp", "usual": False, "safe": False})},
            *("locks", "mend", "others can rename files in /tmp"),
        ),
        (
            {"locks": LOCKS.model_copy(update={"path": "/var/tmp", "usual": False})},
            *("locks", "hint", "they are in /var/tmp"),
        ),
        ({"namespaces_fault": BROKEN}, "user namespaces", "hint", "no virtual phone starts"),
        ({"left_out": (UNREAD,)}, "manifests", "mend", "manifest x.yaml is left out: not YAML"),
    ],
)
def test_what_the_agents_side_sees_is_named_first(
    changes: dict[str, object], what: str, health: str, seen: str
) -> None:
    first = checks(HOST, AGENTS.model_copy(update=changes))[0]
    assert (first.what, first.health) == (what, health)
    assert seen in first.seen
    assert first.remedy


def test_a_host_whose_agents_side_cannot_be_asked_is_to_be_mended() -> None:
    first = checks(HOST, BROKEN)[0]
    assert (first.what, first.health, first.seen) == ("agents' side", Health.MEND, "no libgomp")


def test_a_clock_of_which_the_kernel_tells_nothing_is_unknown() -> None:
    first = checks(replace(HOST, synchronised=None), AGENTS)[0]
    assert (first.what, first.health) == ("clock", Health.UNKNOWN)


def test_limits_that_do_not_hold_are_no_fault() -> None:
    root = replace(limits(processes=100), uid=0, home_folder=None, secrets=())
    unlimited = replace(root, memory_limit=(1 << 63) - 4096)  # cgroup v1's word for none
    unlimited = replace(unlimited, cpu_quota=8.0)
    assert {check.health for check in checks(unlimited, AGENTS)} == {Health.WELL}


@pytest.mark.parametrize(("text", "ports"), [("1024 65535\n", (1024, 65535)), ("odd\n", None)])
def test_the_range_of_ports_is_read(
    tmp_path: Path, text: str, ports: tuple[int, int] | None
) -> None:
    (tmp_path / "range").write_text(text)
    assert port_range(tmp_path / "range") == ports
    assert port_range(tmp_path / "none") is None


def test_a_home_that_is_not_there_is_looked_at_and_not_made(tmp_path: Path) -> None:
    found = looking.host_facts(Home(tmp_path / "a" / "b"))
    assert (found.home_folder, found.home_parent.path, found.secrets) == (None, tmp_path, ())
    assert found.packages == {}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damage", ["a file", "damaged"])
def test_a_home_that_cannot_be_read_is_told_and_ends_nothing(tmp_path: Path, damage: str) -> None:
    home = Home(tmp_path / "home")
    if damage == "a file":
        home.path.write_text("")
    else:
        home.path.mkdir(mode=0o700)
        home.cluster_file.write_text("{")
    found = checks(looking.host_facts(home), AGENTS)
    first = [check.what for check in found if check.health is Health.MEND]
    assert "farm and phones" in first
    assert ("home" in first) == (damage == "a file")


@pytest.mark.parametrize(
    ("name", "joined", "remedy"),
    [
        ("api-token", False, ["then run `benchfarm down`, then `benchfarm up --listen 10.0.0.1`"]),
        ("api-token", True, ["start the agent again"]),
        ("ray-token", False, ["--listen 10.0.0.1", "copy ray-token to every host"]),
        ("metrics-token", False, [f"and {FOLDER / 'ray-token'}", "copy ray-token to every host"]),
        ("ray-token", True, ["On the head, delete ray-token", "start the agent again"]),
        ("metrics-token", True, ["On the head, delete ray-token", "start the agent again"]),
    ],
)
def test_a_secret_is_replaced_where_it_comes_from(
    name: str, joined: bool, remedy: list[str]
) -> None:
    """Never by a farm of its own on a host that has joined another's."""
    open_ = FileFacts(FOLDER / name, UID, stat.S_IFREG | 0o644)
    command = "`benchfarm down`, then `benchfarm up --listen 10.0.0.1`"
    found = checks(replace(HOST, secrets=(open_,), joined=joined, anew=command), AGENTS)
    (check,) = (each for each in found if each.what == "tokens")
    assert all(words in check.remedy for words in remedy)
    assert ("benchfarm up" in check.remedy) is not joined


def test_exposed_tokens_are_seen_and_stay_as_they_are(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.ray_token.write_text("secret")
    home.ray_token.chmod(0o644)
    found = looking.host_facts(home)
    assert [stat.S_IMODE(file.mode) for file in found.secrets] == [0o644]
    assert stat.S_IMODE(home.ray_token.stat().st_mode) == 0o644


def test_a_farm_s_prometheus_that_is_gone_is_silent(
    tmp_path: Path, unused_port: Callable[[], int]
) -> None:
    home = Home(tmp_path)
    home.prometheus.mkdir()
    home.prometheus_url.write_text(f"http://127.0.0.1:{unused_port()}")
    assert looking.host_facts(home).prometheus_silent


@pytest.fixture
def unused_port() -> Callable[[], int]:
    def bound() -> int:
        with socket.create_server(("127.0.0.1", 0)) as server:
            return int(server.getsockname()[1])

    return bound


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        (("true",), ""),
        (("sh", "-c", "echo one >&2; echo two >&2; exit 3"), "it ended with status 3: two"),
        (("sh", "-c", "exit 1"), "it ended with status 1: it printed no error"),
        (("/nonexistent/adb",), "No such file or directory"),
        (("/etc/passwd",), "Permission denied"),
    ],
)
def test_a_program_that_does_not_work_is_told_with_its_last_line(
    command: tuple[str, ...], fault: str
) -> None:
    assert fault_of(command) == fault
