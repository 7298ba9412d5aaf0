"""Installing a stack's environment from wheels made here: no index is asked."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import re
import stat
import subprocess
import threading
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest

from agents.stacks.environments import EnvironmentFolder, InstallState, stacks_folder
from agents.stacks.install import AT_ONCE, WHEELS_VARIABLE, Installation, StackNotInstalled
from agents.stacks.interpreter import command_in, stack_worker
from agents.stacks.package_index import INDEX_VARIABLE
from controller.contracts.errors import WorkerFault
from controller.contracts.manifests import StackEnvironment
from controller.contracts.result import Blame
from controller.contracts.wire import TrainingProgram, WorkerSpec
from controller.platform.programs import python_module
from tests.support import builders
from tests.support.other_user import call_as_other_user, needs_other_user

ROOT = Path(__file__).parents[3]
USER, PASSWORD = "ann", "s3:cr@t"
QUOTED = "s3%3Acr%40t"


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


@dataclass
class PrivateIndex:
    """A package index that asks for a password, and the command lines of who asked it."""

    address: str
    command_lines: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://{USER}:{QUOTED}@{self.address}"


@contextmanager
def private_index(folder: Path) -> Iterator[PrivateIndex]:
    """Serve a folder of folders of wheels as one."""
    index = PrivateIndex("")
    allowed = f"Basic {base64.b64encode(f'{USER}:{PASSWORD}'.encode()).decode()}"

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            for process in psutil.Process().children(recursive=True):
                with suppress(psutil.Error):  # it has ended meanwhile
                    index.command_lines.append(" ".join(process.cmdline()))
            if self.headers["Authorization"] == allowed:
                super().do_GET()
                return
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="wheels"')
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    handler = partial(Handler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        index.address = f"127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield index
        finally:
            server.shutdown()
            thread.join()


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


def test_a_password_of_the_index_is_used_and_told_to_nobody(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_wheel(place.path / "wheels", "torch", "2.0", "nvidia-gamma")
    make_wheel(place.path / "index/torch", "torch", "2.0+cpu")
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    folder = place.folder(["torch==2.0"])
    with private_index(place.path / "index") as index:
        place.environ[INDEX_VARIABLE] = index.url
        said = place.install(folder)
    assert place.installed(folder) == ["torch-2.0+cpu"]
    assert f"torch==2.0 from http://****@{index.address}" in said
    assert any("pip" in line for line in index.command_lines)
    assert QUOTED not in "".join(index.command_lines + said)


def test_a_failure_tells_no_password(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    (place.path / "index/torch").mkdir(parents=True)
    monkeypatch.delenv("PIP_NO_INDEX")
    with private_index(place.path / "index") as index:
        place.environ[INDEX_VARIABLE] = index.url
        monkeypatch.delenv("PIP_FIND_LINKS")
        with pytest.raises(StackNotInstalled) as refused:
            place.install(place.folder(["torch==2.0"]))
    assert QUOTED not in str(refused.value)


@pytest.mark.parametrize("index", ["http://ann:s3cr@t@[x", "http://ann:s3cr@t:x/", "s3cr@t", " "])
def test_an_index_that_is_no_address_answers_nothing(place: Place, index: str) -> None:
    make_wheel(place.path / "wheels", "torch", "2.0")
    place.environ[INDEX_VARIABLE] = index
    folder = place.folder(["torch==2.0"])
    said = place.install(folder)
    assert place.installed(folder) == ["torch-2.0"]
    assert "s3cr" not in "".join(said)


def test_the_set_up_asks_the_index_by_name_and_password(tmp_path: Path) -> None:
    make_wheel(tmp_path / "torch", "torch", "2.0+cpu")
    script = (ROOT / "deploy/setup.sh").read_text()
    begins = script.index("torch_index_answers() {")
    function = script[begins : script.index("\n}\n", begins) + 3]
    with private_index(tmp_path) as index:

        def answers(url: str) -> int:
            environ = {**os.environ, INDEX_VARIABLE: url, "python": "python3"}
            command = ["bash", "-c", f"{function}torch_index_answers"]
            return subprocess.run(command, cwd=ROOT, env=environ, check=False).returncode

        assert answers(index.url) == 0
        assert answers(index.url.replace(QUOTED, "wrong")) != 0
    assert index.command_lines
    assert QUOTED not in "".join(index.command_lines)


def test_a_folder_with_other_files_is_kept(place: Place) -> None:
    folder = place.folder(["alpha==1.0"])
    clone = folder.path / ".git"
    clone.mkdir(parents=True)
    with pytest.raises(StackNotInstalled, match=f"{folder.path} holds other files"):
        place.install(folder)
    assert clone.exists()
    clone.rmdir()
    place.install(folder)
    assert folder.is_installed


def test_what_an_interrupted_installation_has_left_is_replaced(place: Place) -> None:
    folder = place.folder(["alpha==1.0"])
    (folder.path / "lib").mkdir(parents=True)
    folder.note(InstallState(origin=""))
    place.install(folder)
    assert folder.is_installed


def test_an_environment_of_another_python_is_replaced(place: Place) -> None:
    folder = place.folder(["alpha==1.0"])
    place.install(folder)
    folder.note(InstallState(origin="another", done=("alpha==1.0",), lock=folder.lock))
    (folder.path / "lib" / "left").touch()
    place.install(folder)
    assert folder.is_installed
    assert not (folder.path / "lib" / "left").exists()


@needs_other_user
def test_farms_of_other_users_share_what_one_has_installed() -> None:
    before = os.umask(0o022)
    try:
        with TemporaryDirectory() as shared:
            Path(shared).chmod(0o755)
            folder = Place(Path(shared)).folder(["alpha==1.0"])
            folder.path.mkdir(parents=True)
            folder.note(InstallState(origin=folder.origin, lock=folder.lock))
            (folder.path.parent / "own.lock").touch(0o600)
            assert stat.S_IMODE((folder.path / "install.json").stat().st_mode) == 0o644
            assert call_as_other_user(lambda: folder.is_installed)
            folder.note(InstallState(origin=folder.origin))
            lock = re.escape(str(folder.path.parent / "own.lock"))
            with pytest.raises(StackNotInstalled, match=f"Permission denied: {lock}"):
                call_as_other_user(lambda: Place(Path(shared)).install(folder))
    finally:
        os.umask(before)


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
