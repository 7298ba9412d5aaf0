"""A home that its user may no longer write to, or not even enter."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from agents.host_facts import agents_facts
from controller.cli.results_submission import _new_folder as new_folder
from controller.contracts.catalog import user_tasks
from controller.contracts.errors import HomeUnusable, UserError
from controller.platform.atomic import write_private
from controller.platform.processes import FARM_MARKER
from controller.runtime.health import home_mark
from controller.runtime.home import Cluster, Home
from controller.runtime.host_doctor import checks
from controller.runtime.host_facts import host_facts
from controller.runtime.lifetime import SUPERVISOR, bring_down
from models.images.folder import data_folder
from models.mobile.store import models_folder
from tests.support.command_line import outcome_of
from tests.support.other_user import (
    OTHER_UID,
    call_as_other_user,
    call_without_override,
    needs_other_user,
)
from tests.support.processes import idle_process

CLUSTER = Cluster(
    instance="unwritable-home-test",
    ray_address="127.0.0.1:1",
    dashboard_url="http://127.0.0.1:2",
    temp_dir="/nowhere/of/benchfarm",
)


@pytest.fixture
def theirs() -> Iterator[Path]:
    """A home of the other user, in which there is a farm."""
    with TemporaryDirectory() as shared:
        Path(shared).chmod(0o755)
        home = Home(Path(shared) / "home")
        home.path.mkdir(mode=0o700)
        write_private(home.wanted, "{}")
        write_private(home.cluster_file, CLUSTER.model_dump_json())
        for path in (home.path, home.wanted, home.cluster_file):
            os.chown(path, OTHER_UID, OTHER_UID)
        yield home.path


def ended_by_down(home: Home) -> tuple[str, list[bool]]:
    """Return what `down` says, and which of a supervisor and a process of Ray's have ended."""
    marks = (home_mark(home, SUPERVISOR), CLUSTER.instance)
    environs = [{**os.environ, FARM_MARKER: mark} for mark in marks]
    with idle_process(environs[0]) as supervisor, idle_process(environs[1]) as ray:
        try:
            bring_down(home)
        except HomeUnusable as error:
            return str(error), [each.poll() is not None for each in (supervisor, ray)]
    return "", []


@needs_other_user
def test_down_ends_the_farm_of_a_home_that_is_read_only(theirs: Path) -> None:
    home = Home(theirs)
    theirs.chmod(0o500)
    said, ended = call_as_other_user(lambda: ended_by_down(home))
    assert ended == [True, True]
    seen = "Permission denied; 2 processes were ended, this file remains"
    assert said.startswith(f"cannot delete {home.wanted}: {seen}")
    assert said.endswith("then run `benchfarm down` again.")
    assert home.cluster_file.exists()


def test_down_in_a_home_that_is_a_file_is_one_line(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.path.write_text("")
    with pytest.raises(HomeUnusable, match="Not a directory; 0 processes were ended"):
        bring_down(home)


@needs_other_user
def test_a_token_that_cannot_be_kept_is_one_line(theirs: Path) -> None:
    home = Home(theirs)
    with TemporaryDirectory() as shared:
        Path(shared).chmod(0o755)
        token = Path(shared) / "token"
        write_private(token, "t" * 64)
        os.chown(token, OTHER_UID, OTHER_UID)
        call_as_other_user(home.prepare)
        theirs.chmod(0o500)
        with pytest.raises(HomeUnusable, match=r"Permission denied\. Set BENCHFARM_HOME"):
            call_as_other_user(lambda: home.adopt_token(token))


@needs_other_user
@pytest.mark.parametrize(
    "call",
    [
        ("workload", "list"),
        ("sweep", "validate", "SWEEP"),
        ("sweep", "watch", "quick"),
        ("sweep", "status"),
        ("profile", "show", "run-1"),
        ("results", "list"),
        ("status",),
        ("down",),
    ],
)
def test_a_home_that_may_not_be_entered_is_one_line(theirs: Path, call: tuple[str, ...]) -> None:
    sweep = theirs.with_name("sweep.yaml")
    sweep.write_text("{name: s, workload: resnet18, stack: torch, scenario: training}")
    sweep.chmod(0o644)
    call = (*(str(sweep) if word == "SWEEP" else word for word in call),)
    said, complained, status = call_without_override(lambda: outcome_of(theirs, *call))
    assert (said, status) == ("", 2), complained
    assert complained.startswith("benchfarm: cannot ")
    assert complained.count("\n") == 1
    assert "Permission denied" in complained
    assert str(theirs) in complained


@needs_other_user
@pytest.mark.parametrize("call", [("up",), ("up", "--api", "127.0.0.1:1"), ("demo",)])
def test_no_farm_is_started_in_a_home_that_may_not_be_entered(
    theirs: Path, tmp_path: Path, call: tuple[str, ...]
) -> None:
    (tmp_path / "file").write_text("")
    outcome_of(tmp_path / "file", *call)  # they can't import what it needs
    os.chown(theirs, 0, 0)
    _, complained, status = call_as_other_user(lambda: outcome_of(theirs, *call))
    assert status == 2, complained
    assert complained.startswith("benchfarm: cannot ")
    assert complained.count("\n") == 1
    assert str(theirs) in complained


@needs_other_user
def test_doctor_looks_at_all_else_in_a_home_that_may_not_be_entered(
    theirs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(theirs)
    monkeypatch.setenv("BENCHFARM_HOME", str(theirs))
    found = call_without_override(lambda: checks(host_facts(home), agents_facts(theirs)))
    seen = {check.what: check for check in found}
    assert {"home", "disk", "clock", "adb", "compiler", "locks", "stack litert"} <= seen.keys()
    assert "belongs to another user" in seen["home"].seen
    assert f"cannot read {theirs}/models/tasks: Permission denied" in seen["manifests"].seen


@needs_other_user
def test_a_submission_into_a_folder_that_may_not_be_entered_is_one_line(theirs: Path) -> None:
    os.chown(theirs, 0, 0)
    output = theirs / "submission"

    def write() -> None:
        with new_folder(output):
            raise AssertionError("it may be written")

    with pytest.raises(UserError, match=f"write {output}: Permission denied"):
        call_as_other_user(write)


@pytest.mark.parametrize("call", [("workload", "list"), ("models", "list")])
def test_a_folder_of_a_user_who_is_not_there_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: tuple[str, ...]
) -> None:
    monkeypatch.setenv("BENCHFARM_MODELS", "~nosuch/models")
    said, complained, status = outcome_of(tmp_path, *call)
    seen = "cannot use the folder ~nosuch/models: there is no such user, or none with a home."
    expected = f"benchfarm: {seen} Set BENCHFARM_MODELS to a folder of your own.\n"
    assert (said, complained, status) == ("", expected, 2)


@pytest.mark.parametrize(
    ("variable", "folder"),
    [
        ("BENCHFARM_MODELS", lambda environ: models_folder(Path("/h"), environ)),
        ("BENCHFARM_MODELS", user_tasks),
        ("BENCHFARM_DATA", data_folder),
    ],
)
def test_each_folder_that_is_named_by_a_variable_is_checked(
    variable: str, folder: Callable[[Mapping[str, str]], Path]
) -> None:
    with pytest.raises(UserError, match=f"Set {variable} to a folder"):
        folder({variable: "~nosuch"})
    assert folder({variable: "/x"}).is_relative_to("/x")
