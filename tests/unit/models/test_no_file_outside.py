"""A sweep can't name a file outside its models and data sets."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.contracts.catalog import load_catalog
from controller.contracts.errors import SweepInvalid
from controller.contracts.mobile import ModelFile
from controller.contracts.sweep import Sweep
from controller.scheduling.expansion import cells_of
from models.mobile.errors import ContentDiffers
from models.mobile.store import Store, digests, model_file

CATALOG = load_catalog()
OUTSIDE = (
    "../secret",
    "../../../../etc/passwd",
    "/etc/passwd",
    "~/.ssh/id_rsa",
    "file:///etc/passwd",
)
FREE_TEXT = {"cores", "accelerator", "delegate_options"}
"""String knobs without a list of choices: `cores` is read as numbers of CPUs, the others are parts
of arguments of a user's program, and may hold neither `/` nor a space."""
NAMES = {"weights"}
"""String knobs that take a name in the store of models, and so no path."""
FOLDERS = {"data"}
"""String knobs that take the name of a folder inside one of the host's."""
REFUSED = {
    **dict.fromkeys(NAMES, "is no name of weights"),
    **dict.fromkeys(FOLDERS, r"is not allowed\. Give the name of a folder:"),
}
"""What is said of a path; any other knob has its choices named."""
STRING_KNOBS = sorted(
    {
        (workload.name, stack.name, workload.scenarios[0], name)
        for workload in CATALOG.workloads.values()
        for stack in CATALOG.stacks.values()
        if (workload.builder and stack.backend) or (workload.on_device and stack.bundle)
        for name, knob in CATALOG.knobs_of(workload.name, stack.name, workload.scenarios[0]).items()
        if knob.type == "str" and name not in FREE_TEXT
    }
)


def test_no_knob_takes_any_text_but_the_numbers_of_cpus() -> None:
    declared = [
        *(workload.knobs for workload in CATALOG.workloads.values()),
        *(stack.knobs for stack in CATALOG.stacks.values()),
        *(scenario.knobs for scenario in CATALOG.scenarios.values()),
        *(launch.knobs for launch in CATALOG.launch.values()),
    ]
    free = {
        name
        for knobs in declared
        for name, knob in knobs.items()
        if knob.type == "str" and not knob.choices
    }
    assert free == FREE_TEXT | NAMES | FOLDERS
    assert free - {name for *_, name in STRING_KNOBS} == FREE_TEXT
    assert len(STRING_KNOBS) > 20


@pytest.mark.parametrize("path", OUTSIDE)
def test_a_path_is_refused_wherever_a_sweep_takes_a_word(path: str) -> None:
    for workload, stack, scenario, knob in STRING_KNOBS:
        keys = {"name": "x", "workload": workload, "stack": stack, "scenario": scenario}
        refused = REFUSED.get(knob, r"is not allowed\. Give one of:")
        with pytest.raises(SweepInvalid, match=refused):
            cells_of(Sweep.model_validate({**keys, "knobs": {knob: path}}), CATALOG)
    good = {"name": "x", "workload": "kernels", "stack": "torch", "scenario": "training"}
    for key in ("workload", "stack", "scenario"):
        with pytest.raises(SweepInvalid, match="there is no"):
            cells_of(Sweep.model_validate({**good, key: path}), CATALOG)


@pytest.mark.parametrize("way", ["up", "absolute", "symlink", "symlinked folder"])
def test_a_manifest_s_own_file_is_inside_the_package(tmp_path: Path, way: str) -> None:
    package, secret = tmp_path / "models", tmp_path / "secret"
    package.mkdir()
    secret.write_text("nothing of yours")
    (package / "link").symlink_to(secret)
    (package / "folder").symlink_to(tmp_path)
    path = {
        "up": "../secret",
        "absolute": str(secret),
        "symlink": "link",
        "symlinked folder": "folder/secret",
    }[way]
    file = ModelFile(path=path, checksum=digests(secret)["sha256"])
    with pytest.raises(ContentDiffers, match="outside the models package"):
        model_file(Store(tmp_path / "store"), package, file, "x/models/fp32")
    inside = package / "own"
    inside.write_text("ours")
    own = ModelFile(path="own", checksum=digests(inside)["sha256"])
    assert model_file(Store(tmp_path / "store"), package, own, "x/models/fp32").name == "own"
