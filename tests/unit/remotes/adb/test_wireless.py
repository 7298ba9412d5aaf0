"""Pairing and mDNS, as an adb server tells of them; the answers are those that adb 36 gave."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.remotes.adb.mdns import MAX_ANNOUNCED, is_connectable, parse_services
from agents.remotes.adb.pairing import pair
from agents.remotes.adb.server import server_environment
from agents.remotes.remote import RemoteFault
from controller.contracts.adb_status import Announced, Announcement
from tests.support.hostile_adb_server import block, hostile_server

ADDRESS, CODE = "192.168.1.20:40001", "592781"
NAME = "adb-R58M123-abcdef"


async def answered(folder: Path, answer: bytes, code: str = CODE) -> tuple[str, list[bytes]]:
    async with hostile_server(folder, {b"host:pair:": lambda _: iter([answer])}) as server:
        try:
            return await pair(server.address, ADDRESS, code), server.asked
        except RemoteFault as fault:
            return f"fault: {fault}", server.asked


async def test_a_phone_is_paired_and_says_its_name(tmp_path: Path) -> None:
    said = f"Successfully paired to {ADDRESS} [guid={NAME}]".encode()
    assert await answered(tmp_path, block(said)) == (
        NAME,
        [f"host:pair:{CODE}:{ADDRESS}".encode()],
    )


@pytest.mark.parametrize(
    ("answer", "seen"),
    [
        (
            b"FAIL" + block(b"Failed: Unable to start pairing client."),
            "nothing there listens for pairing",
        ),
        (
            b"FAIL" + block(b"Failed: Wrong password or connection was dropped."),
            "the code is wrong, or what listens there does not pair",
        ),
        (b"FAIL" + block(b"unknown host service 'pair:592781:x'"), "adb 30 or later can"),
        (b"FAIL" + block(b"Failed: something about 592781"), "something about <code>"),
        (block(b"Paired by 592781"), "adb answered 'Paired by <code>'"),
        (block(b"Successfully paired to x [guid=\x1b[2J]"), "adb answered"),
        (b"", "closed the connection"),
        (b"zzzz", "instead of a length"),
    ],
)
async def test_what_fails_is_one_line_without_the_code(
    tmp_path: Path, answer: bytes, seen: str
) -> None:
    said, _ = await answered(tmp_path, answer)
    assert said.startswith("fault: ")
    assert seen in said
    assert CODE not in said
    assert said.isprintable()


@pytest.mark.parametrize("code", ["", "12:127.0.0.1", "1 2", "12\n", "ä", "9" * 65, "\x1b"])
async def test_what_is_no_code_is_not_sent(tmp_path: Path, code: str) -> None:
    said, asked = await answered(tmp_path, b"", code)
    assert "the code must have 1 to 64 letters and digits" in said
    assert asked == []


def test_services_are_read_as_adb_tells_them() -> None:
    text = f"{NAME}\t_adb-tls-connect._tcp\t192.168.1.20:37123\n{NAME}\t_adb-tls-pairing._tcp\t"
    text += "192.168.1.20:40001\nold\t_adb._tcp.\t[fe80::1%eth0]:5555\n"
    found = parse_services(text)
    assert [(one.kind, one.address) for one in found] == [
        (Announcement.CONNECT, "192.168.1.20:37123"),
        (Announcement.PAIR, "192.168.1.20:40001"),
        (Announcement.PLAIN, "[fe80::1%eth0]:5555"),
    ]
    assert [is_connectable(one, NAME) for one in found] == [True, False, False]


@pytest.mark.parametrize(
    "line",
    [
        "name only",
        "name\t_ssh._tcp\t10.0.0.1:22",
        "name\t_adb._tcp\t10.0.0.1",
        "name\t_adb._tcp\t10.0.0.1:0",
        "name\t_adb._tcp\t10.0.0.1:70000",
        "name\t_adb._tcp\t$(reboot):5555",
        "name\t_adb._tcp\t--help:5555",
        "name\t_adb._tcp\t10.0.0.1:5555 x",
        "a\tb\t_adb._tcp\t10.0.0.1:5555",
    ],
)
def test_what_is_no_announcement_of_a_phone_is_left_out(line: str) -> None:
    assert parse_services(line) == []


def test_names_and_their_number_have_limits() -> None:
    text = "".join(f"{'x' * 5000}\t_adb._tcp\t10.0.{n}.1:5555\n" for n in range(200))
    found = parse_services(text)
    assert len(found) == MAX_ANNOUNCED
    assert found[0] == Announced(name="x" * 100, kind=Announcement.PLAIN, address="10.0.0.1:5555")


def test_only_a_server_that_is_thrown_away_listens(tmp_path: Path) -> None:
    usual = server_environment({}, tmp_path, None)
    listening = server_environment({}, tmp_path, None, listens=True)
    assert (usual["ADB_MDNS"], "ADB_USB" in usual) == ("0", False)
    assert (listening["ADB_MDNS"], listening["ADB_USB"]) == ("1", "0")
    assert {usual["ADB_MDNS_AUTO_CONNECT"], listening["ADB_MDNS_AUTO_CONNECT"]} == {"0"}
