"""Installing a stack's environment from wheels made here: no index is asked."""

from __future__ import annotations

import fcntl
import json
import subprocess
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agents.stacks.environments import EnvironmentFolder, InstallState, stacks_folder
from agents.stacks.install import AT_ONCE, WHEELS_VARIABLE, Installation, StackNotInstalled
from agents.stacks.interpreter import command_in, stack_worker
from controller.contracts.errors import WorkerFault
from controller.contracts.manifests import StackEnvironment
from controller.contracts.result import Blame
from controller.contracts.wire import TrainingProgram, WorkerSpec
from controller.platform.programs import python_module
from tests.support import builders


def make_wheel(folder: Path, name: str, version: str = "1.0", *needs: str) -> None:
    """Write a package of one module that says its version."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    metadata = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    files = {
        f"{name}.py": f"VERSION = {version!r}\n",
        f"{info}/METADATA": "\n".join([*metadata, *(f"Requires-Dist: {n}" for n in needs), ""]),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)


@dataclass
class Place:
    """A folder with wheels, a lock and the environment made of them."""

    path: Path
    said: list[str] = field(default_factory=list)
    environ: dict[str, str] = field(default_factory=dict)

    def folder(self, pins: Sequence[str], disk_gb: float = 0.001) -> EnvironmentFolder:
        lock = self.path / "lock.txt"
        lock.write_text("".join(f"{pin}\n" for pin in ("# why", *pins)))
        builds = tuple(pin for pin in pins if pin.startswith("torch"))
        return EnvironmentFolder(
            self.path / "stacks" / "own",
            StackEnvironment(
                packages=(),
                lock=str(lock),
                torch_builds=builds,
                download_gb=0.001,
                disk_gb=disk_gb,
            ),
        )

    def install(self, folder: EnvironmentFolder, at_once: int = AT_ONCE) -> list[str]:
        """Install and return what was said."""
        self.said.clear()
        Installation("own", folder, self.said.append, self.environ, at_once).run()
        return self.said

    def installed(self, folder: EnvironmentFolder) -> list[str]:
        found = folder.path.glob("lib/python*/site-packages/*.dist-info")
        return sorted(path.name.removesuffix(".dist-info") for path in found)


def spec_for(folder: EnvironmentFolder) -> WorkerSpec:
    program = TrainingProgram(
        builder="a:B", arguments={}, backend="c:D", environment=folder.environment
    )
    spec = builders.worker_spec("")
    return spec.model_copy(
        update={"job": spec.job.model_copy(update={"stack": "own", "program": program})}
    )


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    for name in ("alpha", "beta", "nvidia_gamma"):
        make_wheel(tmp_path / "wheels", name)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    return Place(tmp_path)


def test_installs_once_and_runs_our_modules_there(place: Place, tmp_path: Path) -> None:
    folder = place.folder(["beta==1.0", "alpha==1.0"])
    assert not folder.is_installed
    said = place.install(folder)
    assert said[0].startswith("stack own: fetches up to 0.001 GB, takes 0.001 GB on disk in ")
    assert said[1:2] == ["[1/2] beta==1.0, alpha==1.0"]
    assert folder.is_installed
    assert place.installed(folder) == ["alpha-1.0", "beta-1.0"]
    assert place.install(folder) == [f"stack own: is installed in {folder.path}"]

    assert stack_worker(folder.path.parent, spec_for(folder))[0] == str(folder.python)
    # Our packages are found there, wherever it starts, and nothing else of our environment is.
    for module, found in (("controller.contracts.ray_names", True), ("pydantic", False)):
        command = command_in(folder.python, module)
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode == 0) == found, done.stderr


def test_goes_on_where_it_ended_unless_the_lock_has_changed(place: Place) -> None:
    folder = place.folder(["alpha==1.0", "late==1.0"])
    with pytest.raises(StackNotInstalled) as caught:
        place.install(folder, at_once=1)
    assert str(caught.value).count("\n") == 0
    assert "late==1.0" in str(caught.value)
    assert "run it again" in str(caught.value)
    assert not folder.is_installed
    assert folder.state == InstallState(origin=folder.origin, done=("alpha==1.0",))

    make_wheel(place.path / "wheels", "late", "1.0", "alpha>=2")
    with pytest.raises(StackNotInstalled, match=r"late 1\.0 has requirement alpha>=2"):
        place.install(folder)
    assert place.said[1:] == ["continuing after 1 packages", "[2/2] late==1.0"]
    assert not folder.is_installed

    changed = place.folder(["beta==1.0"])
    place.install(changed)
    assert changed.is_installed
    assert place.installed(changed) == ["beta-1.0"]


def test_cuda_libraries_come_with_a_cuda_build(place: Place) -> None:
    make_wheel(place.path / "wheels", "torch", "2.0", "nvidia-gamma")
    folder = place.folder(["torch==2.0", "nvidia-gamma==1.0"])
    place.install(folder)
    assert place.installed(folder) == ["nvidia_gamma-1.0", "torch-2.0"]


def test_cpu_builds_come_from_the_wheels_told_of_and_without_cuda_libraries(place: Place) -> None:
    make_wheel(place.path / "wheels", "torch", "2.0", "nvidia-gamma")
    make_wheel(place.path / "cpu", "torch", "2.0+cpu")
    place.environ[WHEELS_VARIABLE] = str(place.path / "cpu")
    folder = place.folder(["torch==2.0", "nvidia-gamma==1.0"])
    assert f"torch==2.0 from {place.path / 'cpu'}" in place.install(folder)
    assert place.installed(folder) == ["torch-2.0+cpu"]


def test_without_room_nothing_is_begun(place: Place) -> None:
    folder = place.folder(["alpha==1.0"], disk_gb=1e9)
    with pytest.raises(StackNotInstalled, match="BENCHFARM_STACKS"):
        place.install(folder)
    assert not folder.python.exists()


def test_two_do_not_install_at_once(place: Place) -> None:
    folder = place.folder(["alpha==1.0"])
    folder.path.mkdir(parents=True)
    with (folder.path.parent / "own.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(StackNotInstalled, match="another process is installing it"):
            place.install(folder)
    assert folder.state is None


def test_where_environments_are(tmp_path: Path) -> None:
    assert stacks_folder(tmp_path, {}) == tmp_path / "stacks"
    assert stacks_folder(tmp_path, {"BENCHFARM_STACKS": "/srv/stacks"}) == Path("/srv/stacks")


def test_a_worker_of_a_stack_that_is_not_installed(place: Place) -> None:
    folder = place.folder(["alpha==1.0"])
    with pytest.raises(WorkerFault) as caught:
        stack_worker(folder.path.parent, spec_for(folder))
    failure = caught.value.failure
    assert (failure.blame, failure.kind) == (Blame.USER, "stack_not_installed")
    assert failure.message == (
        f"stack own is not installed in {folder.path.parent}. Run `benchfarm stacks install own`."
    )


def test_a_worker_of_a_stack_without_environment_runs_in_ours(tmp_path: Path) -> None:
    command = stack_worker(tmp_path, builders.worker_spec(""))
    assert command == python_module("agents.worker")


def test_our_packages_are_told_by_their_folders() -> None:
    python, safe_path, _entry, told, module = command_in(Path("/x/bin/python"), "agents.worker")
    assert (python, safe_path, module) == ("/x/bin/python", "-P", "agents.worker")
    folders = json.loads(told)
    assert set(folders) == {"controller", "kernels", "models", "agents"}
    assert all(Path(folder, "__init__.py").exists() for f in folders.values() for folder in f[:1])
