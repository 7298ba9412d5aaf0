"""What `benchfarm phone` makes of an agent that follows several adb servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.contracts.adb_status import AdbStatus, PhoneResult, RouteStatus
from controller.contracts.error_payload import ErrorPayload
from controller.contracts.errors import (
    AdbUnavailable,
    FarmUnavailable,
    PhoneUnavailable,
    UserError,
)
from controller.contracts.phone_addresses import FOLDER, PhoneAddresses
from controller.platform.atomic import write_private
from controller.runtime import adb_agents, phones
from controller.runtime.home import Cluster, Home

ONE, OTHER = "127.0.0.1:5037", "127.0.0.1:5038"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    (home.agent / "host-1" / "adb").mkdir(parents=True)
    cluster = Cluster(instance="none", ray_address="", dashboard_url="", temp_dir="")
    write_private(home.cluster_file, cluster.model_dump_json())
    return home


def tell(home: Home, name: str, status: AdbStatus) -> None:
    (home.agent / "host-1" / "adb" / name).write_text(status.model_dump_json())


@pytest.fixture
def two(home: Home) -> Home:
    tell(home, "status.json", AdbStatus(server=ONE, routes={"A": RouteStatus(device_id="a")}))
    tell(home, "status-1.json", AdbStatus(server=OTHER, routes={"A": RouteStatus(device_id="b")}))
    return home


@pytest.mark.parametrize("server", [None, "127.0.0.1:1"])
def test_of_several_servers_one_has_to_be_named(two: Home, server: str | None) -> None:
    with pytest.raises(UserError) as refused:
        phones.connect_phone(two, "127.0.0.1:5555", server)
    assert str(refused.value) == (
        "cannot connect phone 127.0.0.1:5555: this host's agent uses the adb servers "
        f"{ONE}, {OTHER}. Choose one with `--adb-server SERVER`."
    )


@pytest.mark.parametrize("typed", ["phone.lan", "phone.lan:5555"])
def test_a_phone_is_connected_and_found_by_the_address_that_adb_lists(
    typed: str, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(home, "status.json", AdbStatus(server=ONE))

    def ask(_: object, verb: str, phone: str) -> PhoneResult:
        assert (verb, phone) == ("connect", "phone.lan:5555")
        here = {"phone.lan:5555": RouteStatus(device_id="phone-1")}
        tell(home, "status.json", AdbStatus(server=ONE, routes=here))
        return PhoneResult()

    monkeypatch.setattr(adb_agents.AdbAgent, "ask", ask)
    assert phones.connect_phone(home, typed) == "phone-1"


def test_a_phone_that_was_refused_is_connected_anew_and_its_new_look_waited_for(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = "phone.lan:5555"
    refusal = ErrorPayload.of(PhoneUnavailable("reach phone", "it is locked", "Unlock it."))
    old = RouteStatus(complaint=refusal, look=3)
    now = iter([old, RouteStatus(complaint=refusal, look=3), RouteStatus(device_id="p", look=4)])
    asked: list[tuple[str, ...]] = []

    def read(_: object) -> AdbStatus:
        return AdbStatus(server=ONE, routes={address: next(now) if asked else old})

    def ask(_: object, *words: str) -> PhoneResult:
        asked.append(words)
        return PhoneResult()

    tell(home, "status.json", AdbStatus(server=ONE))
    monkeypatch.setattr(adb_agents.AdbAgent, "read", read)
    monkeypatch.setattr(adb_agents.AdbAgent, "ask", ask)
    assert phones.connect_phone(home, address, retry_s=0.0) == "p"
    assert asked == [("connect", address, "anew")]


@pytest.mark.parametrize("typed", ["phone.lan", "phone.lan:5555", "phone-1"])
def test_a_phone_is_let_go_of_by_its_address_or_id(
    typed: str, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = "phone.lan:5555"
    here = {address: RouteStatus(device_id="phone-1")}
    tell(home, "status.json", AdbStatus(server=ONE, routes=here))
    addresses = PhoneAddresses(home.agent / "host-1" / "adb" / FOLDER)

    def ask(_: object, *words: str) -> PhoneResult:
        assert (words[1], addresses.is_let_go(address)) == (address, words[0] == "disconnect")
        now = here if words[0] == "connect" else {}
        tell(home, "status.json", AdbStatus(server=ONE, routes=now))
        return PhoneResult()

    monkeypatch.setattr(adb_agents.AdbAgent, "ask", ask)
    assert phones.disconnect_phone(home, typed) == address
    assert addresses.is_let_go(address), "else the agent would look for it"
    assert phones.connect_phone(home, address) == "phone-1"
    assert not addresses.is_let_go(address)


def test_a_remembered_phone_that_is_away_is_forgotten(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(home, "status.json", AdbStatus(server=ONE))
    addresses = PhoneAddresses(home.agent / "host-1" / "adb" / FOLDER)
    addresses.remember("phone.lan:5555", "phone-1")
    monkeypatch.setattr(adb_agents.AdbAgent, "ask", lambda *_: PhoneResult())
    assert phones.disconnect_phone(home, "phone.lan") == "phone.lan:5555"
    assert list(addresses) == []


def test_what_cannot_be_let_go_of_is_one_clear_line(home: Home) -> None:
    tell(home, "status.json", AdbStatus(server=ONE, routes={"R58M": RouteStatus(device_id="p")}))
    with pytest.raises(UserError, match="cannot disconnect phone R58M: it is connected by a cable"):
        phones.disconnect_phone(home, "R58M")
    with pytest.raises(
        UserError, match=r"cannot disconnect phone 10\.0\.0\.9: it is not here\. Run"
    ):
        phones.disconnect_phone(home, "10.0.0.9")


def test_what_needs_somebody_is_shown_first(home: Home) -> None:
    locked = ErrorPayload.of(PhoneUnavailable("reach phone Z", "it is locked", "Unlock it."))
    routes = {"A": RouteStatus(device_id="a"), "Z": RouteStatus(complaint=locked)}
    assert phones.complaints_here(home) == []
    tell(home, "status.json", AdbStatus(server=ONE, routes=routes))
    assert [phone.serial for phone in phones.phones_here(home)] == ["Z", "A"]
    assert list(map(str, phones.complaints_here(home))) == [
        "cannot reach phone Z: it is locked. Unlock it."
    ]
    home.cluster_file.unlink()
    assert phones.complaints_here(home) == [], "after down they are nobody's any more"


def test_a_phone_whose_device_is_shown_is_named_once(home: Home) -> None:
    off = ErrorPayload.of(PhoneUnavailable("reaching phone h:1", "it is off", "switch it on"))
    away = RouteStatus(complaint=off, last_device_id="p")
    tell(home, "status.json", AdbStatus(server=ONE, routes={"h:1": away}))
    assert phones.complaints_here(home, {"p"}) == []
    assert len(phones.complaints_here(home, {"q"})) == 1


@pytest.mark.parametrize(
    ("typed", "listed"),
    [
        ("10.0.0.2", "10.0.0.2:5555"),
        ("10.0.0.2:7000", "10.0.0.2:7000"),
        ("fe80::1", "[fe80::1]:5555"),
        ("[fe80::1]", "[fe80::1]:5555"),
        ("[fe80::1]:7000", "[fe80::1]:7000"),
    ],
)
def test_an_address_as_adb_lists_it(typed: str, listed: str) -> None:
    assert phones.with_port(typed) == listed


def test_phones_of_all_servers_are_listed(two: Home) -> None:
    found = [(p.adb_server, p.serial, p.device_id) for p in phones.phones_here(two)]
    assert found == [(ONE, "A", "a"), (OTHER, "A", "b")]


def test_a_server_that_others_run_has_no_key_of_ours(two: Home) -> None:
    assert phones.adb_key(two, OTHER) is None
    with pytest.raises(
        UserError, match=r"that others run is not known\. Name .* `--key adbkey.pub`"
    ):
        phones.key_to_let_in(two, OTHER)


def test_without_an_agent_a_virtual_phone_lets_nobody_in_unnamed(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no agent with one is up here\. .* `--key adbkey\.pub`"):
        phones.key_to_let_in(Home(tmp_path))


def test_a_server_with_a_complaint_is_left_out_unless_it_is_the_only_one(home: Home) -> None:
    error = AdbUnavailable("use the adb server", "it does not answer", "start it")
    tell(home, "status.json", AdbStatus(complaint=ErrorPayload.of(error)))
    with pytest.raises(AdbUnavailable, match="it does not answer"):
        phones.phones_here(home)
    tell(home, "status-1.json", AdbStatus(server=OTHER))
    assert phones.phones_here(home) == []


def test_without_an_agent_it_is_said(tmp_path: Path) -> None:
    with pytest.raises(FarmUnavailable, match="no agent with one is up here"):
        phones.phones_here(Home(tmp_path))
