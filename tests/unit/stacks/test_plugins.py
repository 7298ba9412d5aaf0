"""Plugins on the host of a run: whether it has them, where they are importable, what is said."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.host.facts import host_facts
from agents.stacks.environments import EnvironmentFolder
from agents.stacks.interpreter import command_in, stack_worker
from agents.stacks.plugins import plugin_facts, plugin_folders
from agents.stacks.resolving import module_named, resolve
from controller.contracts.device import PLUGINS
from controller.contracts.errors import WorkerFault
from controller.contracts.manifests import StackEnvironment
from controller.contracts.plugins import Plugin, installed_plugins
from controller.contracts.result import Blame
from controller.contracts.wire import TrainingProgram, WorkerSpec
from tests.support import builders
from tests.support.plugins import install

CODE = {
    "__init__.py": "",
    "line_fit.py": "class LineFit: ...\n",
    "needy.py": "import a_package_that_nobody_has\n",
    "__main__.py": "import sys, controller.contracts.ray_names, my_farm\nprint(my_farm.__file__)\n",
}
WANTED = Plugin(distribution="my-farm", version="1.0", package="my_farm", digest="0000")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on Python's path; what is imported of it is forgotten."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == "my_farm"]:
        del sys.modules[name]


def spec_with(plugin: Plugin, environment: StackEnvironment | None = None) -> WorkerSpec:
    spec = builders.worker_spec("")
    program = TrainingProgram(
        builder="my_farm.line_fit:LineFit",
        arguments={},
        backend="agents.torch:Backend",
        environment=environment,
        plugins={"workload": plugin},
    )
    job = spec.job.model_copy(update={"program": program, "stack": "own"})
    return spec.model_copy(update={"job": job})


def fault_of(spec: WorkerSpec, stacks: Path) -> str:
    """Return the message of the failure for which no worker is started."""
    with pytest.raises(WorkerFault) as caught:
        stack_worker(stacks, spec)
    failure = caught.value.failure
    assert (failure.blame, failure.kind) == (Blame.USER, "plugin_missing")
    assert failure.message.count("\n") == 0
    return failure.message


def installed() -> Plugin:
    """Return the only plugin of this Python, as the head would name it in a job."""
    (found,), _ = installed_plugins()
    return found.plugin


def test_no_worker_is_started_without_the_plugin(site: Path) -> None:
    assert "package my-farm 1.0 (0000): it is not installed" in fault_of(spec_with(WANTED), site)


def test_no_worker_is_started_with_another_version(site: Path) -> None:
    install(site, version="2.0")
    assert f"(0000): it has {installed().recorded}. Install" in fault_of(spec_with(WANTED), site)


def test_no_worker_is_started_with_changed_code(site: Path) -> None:
    package = install(site, files=CODE)
    wanted = installed()
    assert stack_worker(site, spec_with(wanted))[-1] == "agents.worker"
    (package / "line_fit.py").write_text("class LineFit: 'edited'\n")
    assert f"{wanted.recorded}: it has {installed().recorded}" in fault_of(spec_with(wanted), site)


def test_why_a_plugin_is_left_out_is_said(site: Path) -> None:
    install(site)
    install(site, name="your-farm")
    assert "your-farm 1.0 names package my_farm, too" in fault_of(spec_with(WANTED), site)


def test_a_plugin_is_importable_in_the_environment_of_a_stack(site: Path, tmp_path: Path) -> None:
    package = install(site, files=CODE)
    lock = tmp_path / "lock.txt"
    lock.write_text("")
    environment = StackEnvironment(packages=(), lock=str(lock), download_gb=0, disk_gb=0)
    folder = EnvironmentFolder(tmp_path / "stacks/own", environment)
    folder.path.mkdir(parents=True)
    (folder.path / "install.json").write_text(
        json.dumps({"origin": folder.origin, "lock": folder.lock})
    )
    *_, told, module = stack_worker(
        tmp_path / "stacks", spec_with(installed(), environment=environment)
    )
    assert (json.loads(told)["my_farm"], module) == ([str(package)], "agents.worker")

    command = command_in(Path(sys.executable), "my_farm", plugin_folders([installed()]))
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/")
    assert done.stdout.strip() == str(package / "__init__.py")


def test_the_environment_of_a_stack_has_no_plugin_that_the_job_does_not_need(site: Path) -> None:
    install(site, files=CODE)
    command = command_in(Path(sys.executable), "my_farm")
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    assert "No module named my_farm" in done.stderr


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("my_farm.needy:X", "cannot import my_farm.needy: No module named 'a_package_that_nobody"),
        ("my_farm.gone:X", "cannot import my_farm.gone: No module named 'my_farm.gone'"),
        ("my_farm.line_fit:Other", "cannot import my_farm.line_fit:Other: module"),
    ],
)
def test_what_cannot_be_imported_of_a_plugin_is_one_line(named: str, said: str, site: Path) -> None:
    install(site, files=CODE)
    with pytest.raises(WorkerFault, match=said) as caught:
        resolve(named)
    assert (caught.value.failure.blame, caught.value.failure.kind) == (Blame.USER, "plugin_missing")


def test_what_cannot_be_imported_of_ours_is_no_fault_of_the_user() -> None:
    with pytest.raises(ModuleNotFoundError):
        module_named("agents.scenarios.gone")
    with pytest.raises(AttributeError):
        resolve("agents.stacks.plugins:Gone")


def test_a_result_names_the_files_that_the_worker_imports(site: Path) -> None:
    package = install(site, files=CODE)
    program = spec_with(WANTED).job.program
    assert isinstance(program, TrainingProgram)
    (found,), _ = installed_plugins()
    assert plugin_facts(program) == {"workload_package": found.plugin.recorded}
    (package / "line_fit.py").write_text("class LineFit: 'edited'\n")
    now = plugin_facts(program)["workload_package"]
    assert str(now).startswith("my-farm 1.0 (")
    assert now != found.plugin.recorded


def test_a_host_announces_its_plugins(site: Path) -> None:
    assert PLUGINS not in host_facts()
    install(site)
    (found,), _ = installed_plugins()
    assert host_facts()[PLUGINS] == (found.plugin.recorded,)
