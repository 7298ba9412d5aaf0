"""`ray up`, `ray submit`, `ray job submit` and the API with servers reached by ssh."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.fleet import BENCHFARM, Fleet
from tests.support.namespaced_hosts import HOME, REPOSITORY, Host, lab
from tests.support.ssh import KEY, serve_ssh
from tests.support.validity import MET_RULES
from tests.support.waiting import eventually

pytestmark = [pytest.mark.integration, pytest.mark.farm, pytest.mark.long]

RAY = str(Path(sys.executable).with_name("ray"))
SCRIPT = "deploy/ray/submit_sweep.py"
QUICK = "sweeps/quick.yaml"


@dataclass(frozen=True, slots=True)
class Launched:
    """A farm that `ray up` has made of two servers, from a third."""

    desk: Host
    fleet: Fleet
    worker: Host
    environment: dict[str, str]

    def ray(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Call ray at the desk, in the repository."""
        command = f'cd {REPOSITORY} && exec {RAY} "$@"'
        return self.desk.run(["bash", "-c", command, "ray", *arguments], **self.environment)

    def submit(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.ray("submit", str(HOME / "local.yaml"), SCRIPT, "--", *arguments)

    def log_in(self) -> dict[str, str]:
        """Serve the API on the head, and return what makes the desk's commands use it."""
        head = self.fleet.head
        served = head.start([BENCHFARM, "api", "serve", "--listen", f"{head.address}:8443"])
        eventually(lambda: "fingerprint" in served.log.read_text(), "the API is served")
        shown = served.log.read_text().partition("SHA-256 ")[2].split()[0]
        token = self.fleet.cli("token", "create", "desk").strip()
        url = f"https://{head.address}:8443"
        login = self.desk.run(
            [BENCHFARM, "login", url, "--fingerprint", shown], BENCHFARM_TOKEN=token
        )
        assert login.returncode == 0, login.stderr
        return {"BENCHFARM_CONTEXT": "default"}


def launch_file(head: Host, worker: Host) -> str:
    """Return deploy/ray/local.yaml for these servers."""
    config = yaml.safe_load((REPOSITORY / "deploy/ray/local.yaml").read_text())
    config["provider"] |= {"head_ip": head.address, "worker_ips": [worker.address]}
    config["auth"] = {"ssh_user": "root", "ssh_private_key": str(KEY)}
    was = "--listen 10.0.0.1 "
    commands = config["head_start_ray_commands"]
    assert sum(was in command for command in commands) == 1
    new = [command.replace(was, f"--listen {head.address} ") for command in commands]
    return yaml.safe_dump(config | {"head_start_ray_commands": new})


@pytest.fixture(scope="module")
def launched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launched]:
    with (
        lab(tmp_path_factory.mktemp("launcher")) as switch,
        switch.host("desk") as desk,
        switch.host("head") as head,
        switch.host("worker") as worker,
    ):
        environment = serve_ssh([desk, head, worker])
        desk.path(HOME / ".benchfarm").mkdir()
        desk.path(HOME / ".benchfarm/ray-token").write_text("0123456789abcdef" * 4)
        desk.path(HOME / ".benchfarm/ray-token").chmod(0o600)
        desk.path(HOME / "local.yaml").write_text(launch_file(head, worker))
        farm = Launched(desk, Fleet.of(head), worker, environment)
        up = farm.ray("up", "-y", "--no-config-cache", str(HOME / "local.yaml"))
        assert up.returncode == 0, up.stdout + up.stderr
        eventually(lambda: farm.fleet.device_of(worker), "the worker node's device is there")
        yield farm


def outcome(results: list[dict[str, Any]], sweep: str) -> list[tuple[object, ...]]:
    """Return what must not depend on how a sweep was submitted."""
    mine = [r for r in results if r["sweep_id"] == sweep]
    keys = ("cell_key", "knobs", "workload", "stack")
    found = [(*(str(r[k]) for k in keys), sorted(r["metrics"])) for r in mine]
    assert len(found) == 2
    return sorted(found)


def losses(results: list[dict[str, Any]], sweep: str) -> dict[str, float]:
    """Return the last loss of each cell; its training begins alike everywhere."""
    mine = (r for r in results if r["sweep_id"] == sweep)
    return {r["cell_key"]: r["metrics"]["loss"]["value"] for r in mine}


def give_one_thread(launched: Launched) -> Path:
    """Change the file of the quick sweep that `ray up` has put on the head; return the desk's copy.

    All three hosts share this machine's cores.
    """
    mounted, copy = launched.fleet.head.path(HOME / QUICK), HOME / "quick.yaml"
    assert mounted.read_bytes() == (REPOSITORY / QUICK).read_bytes()
    sweep = yaml.safe_load(mounted.read_text())
    sweep["knobs"]["threads"] = 1
    for file in (mounted, launched.desk.path(copy)):
        file.write_text(yaml.safe_dump(sweep))
    return copy


def test_all_ways_to_submit_give_the_same_results(launched: Launched) -> None:
    copy = give_one_thread(launched)
    through_ray = launched.submit(QUICK)
    assert through_ray.returncode == 0, through_ray.stdout + through_ray.stderr
    head = launched.fleet.head
    cluster = launched.fleet.home.cluster()
    assert cluster is not None
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(HOME / ".benchfarm/ray-token")}
    again = ("benchfarm", "sweep", "submit", str(HOME / QUICK), "--again", "--wait")
    job = head.run(
        [RAY, "job", "submit", "--address", cluster.dashboard_url, "--", *again], **token
    )
    assert job.returncode == 0, job.stdout + job.stderr
    api = launched.log_in()
    stranger = launched.desk.run(
        [BENCHFARM, "sweep", "submit", str(copy), "--again", "--wait"], **api
    )
    assert stranger.returncode == 0, stranger.stdout + stranger.stderr

    said = launched.fleet.cli("results", "list", "--json")
    read = launched.desk.run([BENCHFARM, "results", "list", "--json"], **api)
    assert (read.returncode, read.stdout) == (0, said), read.stderr
    results = json.loads(said)
    sweeps = sorted({r["sweep_id"] for r in results})
    assert len(sweeps) == 3
    first, second, third = (outcome(results, sweep) for sweep in sweeps)
    assert first == second == third
    ray, *others = (losses(results, sweep) for sweep in sweeps)
    assert others == [pytest.approx(ray, rel=1e-3)] * 2, "kernels may add in another order"
    assert {r["validity"] for r in results} <= MET_RULES
    assert {r["knobs"]["threads"] for r in results} == {1}, "as the changed files have it"


def test_the_exit_status_tells_of_a_failure(launched: Launched) -> None:
    head = launched.fleet.head
    sweep = yaml.safe_load((REPOSITORY / QUICK).read_text())
    sweep |= {"name": "hopeless", "deadline_s": 5, "recipes": {"endless": {"steps": 1_000_000}}}
    del sweep["knobs"]["steps"], sweep["baseline"]
    head.path(HOME / "hopeless.yaml").write_text(yaml.safe_dump(sweep))
    assert launched.submit("hopeless.yaml").returncode != 0
    (failure,) = json.loads(launched.fleet.cli("results", "list", "--failures", "--json"))
    assert failure["kind"] == "deadline"
    assert launched.submit("absent.yaml").returncode != 0
