"""What docs/adding.md prints works as it stands, and needs no edit of another file."""

from __future__ import annotations

import filecmp
import json
from pathlib import Path

import pytest
import yaml

from controller.contracts.result import Result
from tests.support.docs_examples import COPIED, ROOT, Project, copy_project, examples
from tests.support.validity import MET_RULES

SECTIONS = ("A training workload", "A stack", "A scenario", "A kernel")
PLUGIN = "From a package of your own"
TASK = "A workload that runs on devices"
QUICK_COMPILER = '#!/bin/bash\nexec c++ "${@/-O3/-O0}"\n'
"""Compiles the whole library in a tenth of the time; the sources' digest stays what it is."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The project, with the files of all examples that live in it, and its library compiled."""
    project = copy_project(tmp_path_factory.mktemp("project"))
    for title in (*SECTIONS, PLUGIN):
        project.add(examples(title))
    install = ("--no-index", "--no-deps", "--no-build-isolation", str(project.folder / "my-farm"))
    installed = project.run("-m", "pip", "install", "--no-input", *install)
    assert installed.returncode == 0, installed.stderr
    compiler = project.folder / "quick-c++"
    compiler.write_text(QUICK_COMPILER)
    compiler.chmod(0o755)
    built = project.run("-m", "kernels.build", CXX=str(compiler))
    assert built.returncode == 0, built.stderr
    return project


def outcome_of(project: Project, **sweep: object) -> Result:
    """Check a sweep of one cell by the command line, then run the cell by a real worker."""
    text = yaml.safe_dump({"name": "example", "devices": "any", **sweep})
    project.benchfarm("sweep", "validate", "-", given=text)
    done = project.run("-m", "tests.support.cells", str(project.folder / "run"), given=text)
    assert done.returncode == 0, done.stderr
    result = Result.model_validate_json(done.stdout)
    assert result.validity in MET_RULES, result.reasons
    return result


def test_the_examples_change_no_other_file(project: Project) -> None:
    new = {path for title in SECTIONS for path in examples(title)}
    for folder in (name for name in COPIED if (ROOT / name).is_dir()):
        for copy in (project.folder / folder).rglob("*.*"):
            path = copy.relative_to(project.folder)
            if copy.suffix in {".pyc", ".so"} or not copy.is_file():
                continue
            if str(path) in new:
                assert not (ROOT / path).exists()
            else:
                assert filecmp.cmp(copy, ROOT / path, shallow=False), path


def test_the_examples_are_in_the_projects_style(project: Project) -> None:
    paths = [path for t in (*SECTIONS, PLUGIN) for path in examples(t) if path.endswith(".py")]
    for command in (["check"], ["format", "--check"]):
        done = project.run("-m", "ruff", *command, "--no-cache", *paths)
        assert done.returncode == 0, done.stdout


def test_a_workload(project: Project) -> None:
    knobs = {"threads": 1, "batch_size": 8, "warmup_steps": 0, "steps": 2}
    result = outcome_of(
        project, workload="line_fit", stack="torch", scenario="training", knobs=knobs
    )
    first, second = result.metrics["loss"].samples
    assert second < first


def test_a_stack(project: Project) -> None:
    sizes = {"image_size": 32, "num_classes": 2, "batch_size": 2}
    knobs = {**sizes, "threads": 1, "warmup_steps": 0, "steps": 1}
    result = outcome_of(
        project, workload="resnet18", stack="torch-flush", scenario="training", knobs=knobs
    )
    assert result.environment["flushes_denormals"] is True


def test_a_scenario(project: Project) -> None:
    knobs = {"threads": 1, "image_size": 32, "num_classes": 2, "batch_size": 2}
    result = outcome_of(
        project, workload="resnet50", stack="torch", scenario="first_step", knobs=knobs
    )
    assert result.metrics["first_step_time"].value > 0


def test_a_package_of_ones_own(project: Project) -> None:
    listed = project.benchfarm("workload", "list")
    (row,) = (line for line in listed.splitlines() if "curve_fit" in line)
    assert "my-farm 1.0" in row
    result = outcome_of(
        project, workload="curve_fit", stack="torch", scenario="first_loss", knobs={"batch_size": 8}
    )
    assert result.metrics["loss"].value > 0
    told = json.loads(project.benchfarm("workload", "show", "curve_fit", "--json"))["plugin"]
    origin = f"my-farm 1.0 ({told['digest']})"
    packages = {n: v for n, v in result.environment.items() if n.endswith("_package")}
    assert packages == {"workload_package": origin, "scenario_package": origin}


def test_a_task_for_devices(project: Project) -> None:
    ((name, text),) = examples(TASK).items()
    (project.folder / name).write_text(text)
    project.benchfarm("models", "add", name)
    sweep = {"name": "example", "workload": "shapes_float", "stack": "litert", "devices": "any"}
    printed = project.benchfarm(
        "sweep", "validate", "-", "--json", given=yaml.safe_dump(sweep | {"scenario": "offline"})
    )
    (cell,) = json.loads(printed)
    assert cell["knobs"]["numerics"] == "fp32"


def test_a_kernel_passes_its_tests_and_those_of_every_operator(project: Project) -> None:
    tests = ("tests/unit/kernels/test_hard_swish.py", "tests/unit/kernels/test_operators.py")
    done = project.run("-m", "pytest", "-q", "-p", "no:cacheprovider", *tests)
    assert done.returncode == 0, done.stdout
    assert "skipped" not in done.stdout


def test_a_kernel_is_checked_measured_and_part_of_the_sweep(project: Project) -> None:
    rows = json.loads(
        project.benchfarm("kernels", "check", "hard_swish", "--variant", "scalar", "--json")
    )
    assert {(row["dtype"], tuple(row["objections"])) for row in rows} == {
        ("fp32", ()),
        ("bf16", ()),
    }
    sweep = project.benchfarm("kernels", "sweep")
    project.benchfarm("sweep", "validate", "-", given=sweep)
    recipes = yaml.safe_load(sweep)["recipes"].values()
    assert {"op": "hard_swish", "dtype": "bf16"} in recipes
    result = outcome_of(
        project,
        workload="kernels",
        stack="torch",
        scenario="kernel",
        knobs={"op": "hard_swish", "kernel_width": 0.5, "kernel_time_limit": 0.5},
    )
    assert result.metrics["kernel_time"].value > 0


def test_every_example_is_found() -> None:
    titles = (*SECTIONS, PLUGIN, TASK)
    found = {title: len(examples(title)) for title in titles}
    assert found == dict(zip(titles, (2, 3, 2, 6, 6, 1), strict=True))
    assert all(not Path(path).is_absolute() for title in found for path in examples(title))
