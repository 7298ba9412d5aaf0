"""Which phones the doctor finds, and what it asks of whom."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from controller.cli.phone import app
from controller.contracts.adb_status import AdbStatus, PhoneResult, RouteStatus
from controller.contracts.checks import Check, Health
from controller.contracts.error_payload import ErrorPayload
from controller.contracts.errors import PhoneUnavailable, UserError
from controller.platform.atomic import write_private
from controller.runtime import phone_doctor
from controller.runtime.adb_agents import AdbAgent
from controller.runtime.home import Cluster, Home

LOCKED = ErrorPayload.of(PhoneUnavailable("reaching phone R58M", "its key", "confirm it"))
MODE = Check(what="mode", health=Health.MEND, seen="it is in recovery", remedy="restart it")
WELL = Check(what="mode", health=Health.WELL, seen="Android answers")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    folder = home.agent / "host-1" / "adb"
    folder.mkdir(parents=True)
    cluster = Cluster(instance="none", ray_address="", dashboard_url="", temp_dir="")
    write_private(home.cluster_file, cluster.model_dump_json())
    status = AdbStatus(server="127.0.0.1:1", routes={"R58M": RouteStatus(complaint=LOCKED)})
    (folder / "status.json").write_text(status.model_dump_json())
    return home


@pytest.mark.parametrize(
    ("name", "listed", "seen"),
    [
        ("R58M", (MODE,), ["it is in recovery"]),
        ("R58M", (WELL,), ["its key", "Android answers"]),
        ("SIDELOADING", (MODE,), ["it is in recovery"]),
    ],
)
def test_a_phone_that_can_not_be_asked_is_found_by_how_adb_lists_it(
    home: Home,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    listed: tuple[Check, ...],
    seen: list[str],
) -> None:
    def ask(_: object, *words: str) -> PhoneResult:
        assert words == ("look", name)
        return PhoneResult(checks=listed)

    monkeypatch.setattr(AdbAgent, "ask", ask)
    assert [c.seen for c in phone_doctor.examined_phone(home, name, "ci").checks] == seen


def test_while_adb_restarts_the_agents_own_complaint_is_shown(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(_: object, *words: str) -> PhoneResult:
        raise PhoneUnavailable("look at phone R58M", "no adb server answers", "Try again.")

    monkeypatch.setattr(AdbAgent, "ask", ask)
    assert [c.seen for c in phone_doctor.examined_phone(home, "R58M", "ci").checks] == ["its key"]


def test_what_nobody_lists_is_not_here(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AdbAgent, "ask", lambda *_: PhoneResult())
    for verb, more in (
        (phone_doctor.examined_phone, ("ci",)),
        (phone_doctor.set_up_phone, ("ci", [])),
        (phone_doctor.restored_phone, ()),
    ):
        with pytest.raises(
            PhoneUnavailable, match=r"NOBODY: it is not here\. Run `benchfarm phone list`"
        ):
            verb(home, "NOBODY", *more)


def test_what_is_still_changed_is_named(home: Home) -> None:
    assert phone_doctor.kept_settings(home) == []
    folder = home.agent / "host-1" / "adb" / "settings"
    folder.mkdir()
    (folder / "R58M.json").touch()
    assert phone_doctor.kept_settings(home) == ["R58M"]


def test_where_nobody_can_be_asked_nothing_is_set() -> None:
    done = CliRunner().invoke(app, ["doctor", "R58M", "--set"])
    assert isinstance(done.exception, UserError)
    assert (
        str(done.exception)
        == "cannot use --set: there is no terminal to confirm it on. Add `--yes`."
    )
