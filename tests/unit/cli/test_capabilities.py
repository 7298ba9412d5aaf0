"""`benchfarm device capabilities` on a store: the present build, an earlier one, all of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from controller.cli.main import app
from controller.contracts.device import Device, DeviceKind
from controller.contracts.errors import NotFound, UserError
from controller.runtime.home import Home
from tests.support import builders
from tests.support.farm import FarmBox


@pytest.fixture(autouse=True)
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FarmBox]:
    """A farm whose phone ran with one delegate before and after an update."""
    monkeypatch.setenv("BENCHFARM_HOME", str(tmp_path))
    box = FarmBox(Home(tmp_path).store)
    for build, taken in (("x/14", 4), ("x/15", 1)):
        phone = Device(
            id="phone-1", kind=DeviceKind.ANDROID, virtual=True, facts={"fingerprint": build}
        )
        box.farm.register(builders.registration(None, phone))
        box.submit(builders.sweep(stack="litert"), again=True)
        (job,) = box.ask().run
        told = {"fingerprint": build, "graph_nodes": 4, "delegated_nodes": taken}
        box.clock.now += 1
        box.report(job.ref, builders.result().model_copy(update={"environment": told}))
    yield box
    box.close()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ([], [("x/15", "falls back", 1)]),
        (["--build", "x/15"], [("x/15", "falls back", 1)]),
        (["--build", "x/14"], [("x/14", "works", 4)]),
        (["--all-builds"], [("x/14", "works", 4), ("x/15", "falls back", 1)]),
    ],
)
def test_builds_are_chosen(options: list[str], told: list[tuple[str, str, int]]) -> None:
    done = CliRunner().invoke(app, ["device", "capabilities", "phone-1", "--json", *options])
    found = json.loads(done.stdout)
    assert [(one["build"], one["verdict"], one["delegated"]) for one in found] == told


def test_the_table_names_builds_and_what_the_device_is_beside_real_ones() -> None:
    done = CliRunner().invoke(app, ["device", "capabilities", "phone-1", "--all-builds"])
    assert "phone-1 (virtual)" in done.stdout
    assert "x/14" in done.stdout
    assert "1 of 4 nodes" in done.stdout


def test_a_build_without_outcomes_and_two_choices_are_refused() -> None:
    command = ["device", "capabilities", "phone-1"]
    unknown = CliRunner().invoke(app, [*command, "--build", "x/16"])
    assert isinstance(unknown.exception, NotFound)
    assert "Builds with outcomes: x/14, x/15." in str(unknown.exception)
    both = CliRunner().invoke(app, [*command, "--build", "x/14", "--all-builds"])
    assert isinstance(both.exception, UserError)
