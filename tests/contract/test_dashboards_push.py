"""`dashboards push` against a strict stand-in for Grafana's HTTP interface."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from controller.contracts.errors import UserError
from controller.dashboards.alerts import FOLDER, GROUP
from controller.dashboards.files import built_dashboards
from controller.dashboards.grafana import (
    Credential,
    GrafanaRefused,
    GrafanaUnavailable,
    connected,
)
from controller.dashboards.push import EDITED_TAG, OURS, Step, Wish, push
from controller.dashboards.variables import SOURCE_UID
from controller.metrics.rules import ALERTS
from tests.support.grafana_stub import ADMIN, EDITOR, USER, VIEWER, GrafanaStub, running

FLEET = "benchfarm-fleet"
PLAIN = Wish()
UIDS = {str(dashboard["uid"]) for dashboard in built_dashboards()}


@pytest.fixture
def stub() -> Iterator[GrafanaStub]:
    with running(GrafanaStub()) as stub:
        yield stub
    assert stub.unknown == []


def pushed(
    stub: GrafanaStub, wish: Wish = PLAIN, credential: Credential = ADMIN, path: str = ""
) -> list[Step]:
    with connected(stub.url + path, credential) as grafana:
        return list(push(grafana, wish))


@pytest.mark.parametrize("release", ["10.0.0", "11.6.0", "12.3.1+security-01"])
def test_push_brings_folder_source_dashboards_and_alerts(stub: GrafanaStub, release: str) -> None:
    stub.release = release
    steps = pushed(stub, Wish(prometheus_url="http://prometheus:9090"))
    assert all(step.done == "created" for step in steps)
    assert stub.folders[FOLDER]["title"] == "benchfarm"
    assert stub.sources[SOURCE_UID]["url"] == "http://prometheus:9090"
    assert stub.dashboards.keys() == UIDS
    assert {it[-1]["folderUid"] for it in stub.dashboards.values()} == {FOLDER}
    rules = stub.groups[FOLDER, GROUP]["rules"]
    assert {rule["title"] for rule in rules} == {alert.name for alert in ALERTS}


@pytest.mark.parametrize("release", ["10.0.0", "11.6.0", "12.3.1+security-01"])
def test_second_push_changes_nothing(stub: GrafanaStub, release: str) -> None:
    stub.release = release
    pushed(stub)
    stub.writes.clear()
    assert {step.done for step in pushed(stub)} == {"unchanged"}
    assert stub.writes == []


def test_newer_dashboard_replaces_what_was_pushed_before(stub: GrafanaStub) -> None:
    pushed(stub)
    stub.dashboards[FLEET][-1]["message"] = f"{OURS} of-an-older-release"
    steps = {step.what: step.done for step in pushed(stub)}
    assert steps.pop("dashboard Fleet overview") == "updated"
    assert set(steps.values()) == {"unchanged"}
    assert stub.dashboards.keys() == UIDS


@pytest.mark.parametrize("message", ["", "my own columns"])
def test_users_edits_are_kept_apart(stub: GrafanaStub, message: str) -> None:
    pushed(stub)
    ours = stub.dashboards[FLEET][-1]["dashboard"]
    mine: list[object] = [{"type": "text", "id": 1}]
    stub.save_as_user(FLEET, message, panels=mine)
    steps = [step.what for step in pushed(stub) if step.changed]
    assert steps == ["dashboard Fleet overview (edited, version 2)", "dashboard Fleet overview"]
    assert stub.dashboards[FLEET][-1]["dashboard"] == ours
    (copy,) = stub.dashboards[f"{FLEET}-edited-2"]
    assert copy["dashboard"]["panels"] == mine
    assert copy["dashboard"]["tags"] == [EDITED_TAG]
    assert copy["folderUid"] == FOLDER
    stub.writes.clear()
    pushed(stub)
    assert stub.writes == []


def test_edits_of_edits_make_more_copies_and_no_copy_is_written_twice(stub: GrafanaStub) -> None:
    pushed(stub)
    stub.save_as_user(FLEET, panels=[])
    pushed(stub)
    stub.save_as_user(f"{FLEET}-edited-2", panels=["more of mine"])
    stub.save_as_user(FLEET, panels=["again"])
    pushed(stub)
    titles = stub.titles()
    assert titles[f"{FLEET}-edited-4"] == "Fleet overview (edited, version 4)"
    assert stub.dashboards[f"{FLEET}-edited-2"][-1]["dashboard"]["panels"] == ["more of mine"]


def test_push_that_was_interrupted_after_the_copy_goes_on(stub: GrafanaStub) -> None:
    pushed(stub)
    stub.save_as_user(FLEET, panels=["mine"])

    def user_saves_meanwhile() -> None:
        stub.before_save = lambda: stub.save_as_user(FLEET, panels=["mine, later"])

    stub.before_save = user_saves_meanwhile
    with pytest.raises(GrafanaRefused, match=r"changed by someone else\. Push again"):
        pushed(stub)
    pushed(stub)
    kept = [stub.dashboards[f"{FLEET}-edited-{n}"][-1]["dashboard"]["panels"] for n in (2, 3)]
    assert kept == [["mine"], ["mine, later"]]


def test_overwrite_makes_no_copy(stub: GrafanaStub) -> None:
    pushed(stub)
    stub.save_as_user(FLEET, panels=[])
    pushed(stub, Wish(overwrite=True))
    assert stub.dashboards.keys() == UIDS
    assert stub.dashboards[FLEET][-1]["dashboard"]["panels"]


def test_data_source_is_changed_only_on_request(stub: GrafanaStub) -> None:
    pushed(stub)
    stub.sources[SOURCE_UID] |= {"url": "http://mine:9090", "basicAuth": True}
    pushed(stub)
    assert stub.sources[SOURCE_UID]["url"] == "http://mine:9090"


def test_data_source_is_moved_and_keeps_what_else_it_says(stub: GrafanaStub) -> None:
    pushed(stub)
    stub.sources[SOURCE_UID]["jsonData"] = {"timeInterval": "30s"}
    pushed(stub, Wish(prometheus_url="http://other:9090"))
    assert stub.sources[SOURCE_UID]["url"] == "http://other:9090"
    assert stub.sources[SOURCE_UID]["jsonData"] == {"timeInterval": "30s"}


def test_changed_alerts_are_put_right(stub: GrafanaStub) -> None:
    pushed(stub)
    stub.groups[FOLDER, GROUP]["rules"][0]["for"] = "9m"
    steps = {step.what: step.done for step in pushed(stub)}
    assert steps["alerts"] == "updated"
    assert stub.groups[FOLDER, GROUP]["rules"][0]["for"] == ALERTS[0].wait


def test_editor_can_push_to_an_existing_data_source_without_alerts(stub: GrafanaStub) -> None:
    pushed(stub, Wish(source_uid="theirs", alerts=False), EDITOR)
    assert stub.dashboards.keys() == UIDS
    assert stub.groups == {}
    text = json.dumps(stub.dashboards[FLEET][-1]["dashboard"]["templating"])
    assert '"value": "theirs"' in text
    assert SOURCE_UID not in text


def test_user_and_password_do_as_well_as_a_token(stub: GrafanaStub) -> None:
    pushed(stub, credential=USER)
    assert stub.dashboards.keys() == UIDS


@pytest.mark.parametrize(
    ("credential", "words"),
    [
        ("no-such-token", "does not accept the token or password. Create a service account token"),
        (("somebody", "wrong-password"), "does not accept the token or password"),
        (VIEWER, "cannot create folder benchfarm: the account lacks the right: You'll need"),
        (EDITOR, "cannot look up data source benchfarm-prometheus: the account lacks the right"),
    ],
)
def test_refusals_are_one_line_and_tell_no_secret(
    stub: GrafanaStub, credential: Credential, words: str
) -> None:
    with pytest.raises(GrafanaRefused) as refused:
        pushed(stub, credential=credential)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)
    secrets = [credential] if isinstance(credential, str) else [credential[1]]
    assert not any(secret in str(refused.value) for secret in secrets)
    assert stub.dashboards == {}


def test_provisioned_dashboards_are_not_pushed(stub: GrafanaStub) -> None:
    pushed(stub)
    stub.provisioned.add(FLEET)
    with pytest.raises(GrafanaRefused, match="reads it from files"):
        pushed(stub)


@pytest.mark.parametrize("release", ["9.5.21", "8.0.0", ""])
def test_too_old_grafana_is_told_apart(stub: GrafanaStub, release: str) -> None:
    stub.release = release
    shown = release or "of an unknown release"
    with pytest.raises(GrafanaUnavailable, match=rf"it is Grafana {shown}\. Use 10\.0 or newer"):
        pushed(stub)
    assert stub.writes == []


def test_other_servers_are_told_apart(stub: GrafanaStub) -> None:
    with pytest.raises(GrafanaUnavailable, match="what answers there is not Grafana"):
        pushed(stub, path="/some/where")
    stub.unknown.clear()  # the call that found nothing there


@pytest.mark.parametrize(
    "url",
    [
        *("", "localhost:3000", "ftp://localhost", "http://", "http://[::1", "http://h:port"),
        *("http://admin:hunter2@localhost", "http://localhost?token=hunter2"),
    ],
)
def test_wrong_addresses_are_refused_before_anything_is_asked(url: str) -> None:
    with pytest.raises(UserError) as refused, connected(url, ADMIN):
        pytest.fail("connected")
    assert str(refused.value).startswith("cannot use --url: ")
    assert "hunter2" not in str(refused.value)


def test_nobody_listens() -> None:
    with running(GrafanaStub()) as gone:
        pass
    with pytest.raises(GrafanaUnavailable, match="Grafana does not answer at http://"):
        pushed(gone)


def test_grafana_below_a_path_is_found_there() -> None:
    with connected("https://host.example/monitoring/", ADMIN) as grafana:
        assert grafana.address.dashboard("x") == "https://host.example/monitoring/d/x"
        assert grafana._api.client.url == "https://host.example/monitoring/api"
