"""A joined host that only has phones, on two adb servers which others have started."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import adbutils
import pytest

from tests.integration.test_phones import phone_sweep
from tests.support.fleet import BENCHFARM, Fleet, fleet_up
from tests.support.namespaced_hosts import Host, Program, lab
from tests.support.virtual_phone import PHONE
from tests.support.waiting import eventually

pytestmark = [pytest.mark.integration, pytest.mark.farm, pytest.mark.long]

ONE, OTHER = "127.0.0.1:5037", "127.0.0.1:5038"
PROFILES = {"JOINED1": "flagship", "JOINED2": "midrange"}


@dataclass(frozen=True, slots=True)
class PhoneHost:
    """The joined host, its agent, and the addresses of its phones by serial."""

    fleet: Fleet
    host: Host
    agent: Program
    addresses: dict[str, str]

    def phone(self, *arguments: str) -> tuple[int, str, str]:
        """Call `benchfarm phone` there."""
        said = self.host.run([BENCHFARM, "phone", *arguments])
        return said.returncode, said.stdout, said.stderr


def started_phone(host: Host, serial: str, profile: str) -> str:
    """Start a virtual phone on a host; return its address."""
    command = [word for word in PHONE if word != "--until-stdin-closes"]
    phone = host.start([*command, f"--profile={profile}", f"--serial={serial}", "--any-key"])
    eventually(lambda: b"\n" in phone.log.read_bytes(), "the virtual phone says where it is")
    return str(json.loads(phone.log.read_text().splitlines()[0])["address"])


def start_adb(host: Host, server: str) -> None:
    home = Path("/root") / server
    host.path(home).mkdir()
    where = ("-L", server.replace("127.0.0.1", "tcp:localhost"))
    own = {"HOME": str(home), "ADB_MDNS_AUTO_CONNECT": "0", "ADB_EMU": "0"}
    host.start([adbutils.adb_path(), *where, "nodaemon", "server"], **own)


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PhoneHost]:
    with (
        lab(tmp_path_factory.mktemp("phones")) as switch,
        switch.host("head") as head,
        switch.host("pad") as host,
        fleet_up(head, "--no-agent") as fleet,
    ):
        start_adb(host, ONE)
        start_adb(host, OTHER)
        addresses = {serial: started_phone(host, serial, p) for serial, p in PROFILES.items()}
        agent = fleet.join(host, "--no-cpu", "--adb-server", ONE, "--adb-server", OTHER)
        eventually(lambda: "has joined" in agent.log.read_text(), "the agent joins")
        yield PhoneHost(fleet, host, agent, addresses)


def shown(fleet: Fleet) -> dict[str, str]:
    listed = json.loads(fleet.cli("device", "list", "--json"))
    return {status["device"]["id"]: status["state"] for status in listed}


def test_which_of_two_servers_is_meant_has_to_be_said(there: PhoneHost) -> None:
    first, second = there.addresses.values()
    status, out, err = there.phone("connect", first)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert f"uses the adb servers {ONE}, {OTHER}. Choose one with `--adb-server SERVER`." in err
    for address, server in ((first, ONE), (second, OTHER)):
        status, out, err = there.phone("connect", address, "--adb-server", server)
        assert (status, err) == (0, "")
    eventually(
        lambda: shown(there.fleet) == dict.fromkeys(PROFILES, "ready"), "all phones are ready"
    )


def test_a_phone_that_both_servers_reach_is_used_by_the_first(there: PhoneHost) -> None:
    address = there.addresses["JOINED1"]
    status, out, err = there.phone("connect", address, "--adb-server", OTHER)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert (
        f"{address} of the adb server at {ONE} and as {address} of the adb server at {OTHER}" in err
    )

    def listed() -> list[tuple[str, str]]:
        found = json.loads(there.phone("list", "--json")[1])
        return [(phone["device_id"], phone["adb_server"]) for phone in found]

    eventually(
        lambda: listed() == [("JOINED1", ONE), ("JOINED2", OTHER)], "both agents' phones are listed"
    )


def test_runs_on_phones_of_both_servers_and_cleaning_one(there: PhoneHost) -> None:
    sweep_id = there.fleet.submit(
        phone_sweep("joined", list(PROFILES), scenario="offline"), "--wait"
    )
    found = json.loads(there.fleet.cli("results", "list", "--sweep", sweep_id, "--json"))
    assert sorted((r["device"], r["validity"]) for r in found) == [
        (serial, "VALID") for serial in PROFILES
    ]
    status, out, err = there.phone("clean", "JOINED2")
    assert (status, err) == (0, "")
    assert float(out.removeprefix("JOINED2: ").removesuffix(" MB freed\n")) > 10
