"""What `benchfarm phone pair` and `phone list --nearby` make of this host's agent."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.contracts.adb_status import ANY, AdbStatus, Announced, Announcement, PhoneResult
from controller.contracts.errors import PhoneUnavailable, UserError
from controller.platform.atomic import write_private
from controller.runtime import wireless
from controller.runtime.adb_agents import AdbAgent
from controller.runtime.home import Cluster, Home

NAME, HERE = "adb-R58M123-abcdef", "192.168.1.20"
ANNOUNCED = (
    Announced(name=NAME, kind=Announcement.PAIR, address=f"{HERE}:40001"),
    Announced(name="adb-OTHER-1", kind=Announcement.CONNECT, address="192.168.1.9:37000"),
    Announced(name=NAME, kind=Announcement.CONNECT, address=f"{HERE}:37123"),
    Announced(name="\x1b[2J", kind=Announcement.PLAIN, address="192.168.1.30:5555"),
)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    (home.agent / "host-1" / "adb").mkdir(parents=True)
    cluster = Cluster(instance="none", ray_address="", dashboard_url="", temp_dir="")
    write_private(home.cluster_file, cluster.model_dump_json())
    status = home.agent / "host-1" / "adb" / "status.json"
    status.write_text(AdbStatus(server="127.0.0.1:1").model_dump_json())
    return home


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    words: list[tuple[str, ...]] = []

    def ask(_: object, *said: str, secret: str = "") -> PhoneResult:
        words.append((*said, secret))
        return PhoneResult(name=NAME, announced=ANNOUNCED)

    monkeypatch.setattr(AdbAgent, "ask", ask)
    return words


def test_a_paired_phone_s_own_port_is_told(home: Home, asked: list[tuple[str, ...]]) -> None:
    assert wireless.pair_phone(home, f"{HERE}:40001", "592781") == f"{HERE}:37123"
    assert asked == [("pair", f"{HERE}:40001", "592781\n"), ("listen", NAME, "")]


def test_a_paired_phone_that_is_not_heard_is_paired(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(_: object, verb: str, *more: str, secret: str = "") -> PhoneResult:
        if verb == "listen":
            raise PhoneUnavailable("listen", "this adb is old", "…")
        return PhoneResult(name=NAME)

    monkeypatch.setattr(AdbAgent, "ask", ask)
    assert wireless.pair_phone(home, f"{HERE}:40001", "592781") is None


@pytest.mark.parametrize("address", ["", HERE, f"{HERE}:", f"{HERE}:0", f"{HERE}:99999", ":1"])
def test_without_the_port_of_pairing_nothing_is_asked(
    home: Home, asked: list[tuple[str, ...]], address: str
) -> None:
    with pytest.raises(
        UserError, match=r"it is not HOST:PORT\. Write HOST:PORT as the phone shows"
    ):
        wireless.pair_phone(home, address, "592781")
    assert asked == []


def test_who_announces_itself_is_listed_with_what_to_do(
    home: Home, asked: list[tuple[str, ...]]
) -> None:
    found = wireless.nearby_phones(home, {"192.168.1.9:37000"})
    assert asked == [("listen", ANY, "")]
    assert [str(one.complaint.error()) for one in found if one.complaint] == [
        f"cannot use phone {name!r}: it announces itself here, but is not connected. {what}"
        for name, what in (
            (NAME, f"Run `benchfarm phone pair {HERE}:40001`."),
            (NAME, f"If it is paired, run `benchfarm phone connect {HERE}:37123`."),
            ("\x1b[2J", "Run `benchfarm phone connect 192.168.1.30:5555`."),
        )
    ]
