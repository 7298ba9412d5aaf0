"""Settings that are changed on a phone and put back, and everything that may come between."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import pytest

from agents.phones.airplane import AirplaneMode
from agents.phones.kept_settings import KeptFile
from agents.phones.phone_settings import PhoneSettings
from agents.phones.settings import AIRPLANE, BRIGHTNESS, RADIOS, SAVER, STAY_ON, offers
from agents.remotes.remote import Completed, FaultKind, RemoteFault
from controller.contracts.adb_status import Offer
from controller.contracts.checks import Check, Health
from controller.contracts.errors import PhoneUnavailable
from controller.contracts.policy import load_policy

PHONE = "PHONE1"
USUAL = {
    "global/airplane_mode_on": "0",
    "global/airplane_mode_radios": "cell,bluetooth,wifi,nfc",
    "global/low_power": "1",
    "system/screen_brightness": "200",
    "system/screen_brightness_mode": "1",
}


@dataclass
class FakePhone:
    """Android's `settings` and `cmd connectivity`, lost after so many commands."""

    settings: dict[str, str] = field(default_factory=lambda: dict(USUAL))
    lost_at: int | None = None
    refuses: bool = False
    clamps: Mapping[str, str] = field(default_factory=dict)
    asked: list[Sequence[str]] = field(default_factory=list)

    async def run(self, argv: Sequence[str], deadline_s: float, stdin: bytes = b"") -> Completed:
        self.asked.append(argv)
        if self.lost_at is not None and len(self.asked) > self.lost_at:
            raise RemoteFault(PHONE, FaultKind.OFFLINE, "the link broke")
        match argv:
            case ("settings", "get", namespace, key):
                value = self.settings.get(f"{namespace}/{key}", "null")
                return Completed(0, f"{value}\n".encode(), b"")
            case ("settings", "put" | "delete", *_) if self.refuses:
                return Completed(255, b"", b"Permission denial:\x1b[2J writing")
            case ("settings", "put", namespace, key, value):
                name = f"{namespace}/{key}"
                self.settings[name] = self.clamps.get(name, value)
            case ("settings", "delete", namespace, key):
                self.settings.pop(f"{namespace}/{key}", None)
            case ("cmd", "connectivity", "airplane-mode", verb):
                self.settings[AIRPLANE] = str(int(verb == "enable"))
            case ("sh", "-c", *_):
                self.settings[AIRPLANE] = "1"
        return Completed(0, b"", b"")


@dataclass(frozen=True)
class Case:
    phone: FakePhone
    file: KeptFile
    networked: bool = False

    @property
    def settings(self) -> PhoneSettings:
        airplane = AirplaneMode(self.phone, PurePosixPath("/data"), self.networked, settle_s=0)
        return PhoneSettings(self.phone, PHONE, self.file, airplane)

    def offers(self, policy: str = "mlperf", sdk: int = 34) -> list[Offer]:
        told = self.phone.settings
        return offers(load_policy(policy), told, sdk, networked=self.networked)

    async def set(self) -> dict[str, Check]:
        return {check.what: check for check in await self.settings.set(self.offers())}

    async def put_back(self) -> dict[str, Check]:
        return {check.what: check for check in await self.settings.put_back()}


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(FakePhone(), KeptFile(tmp_path / "settings" / f"{PHONE}.json", PHONE))


async def test_everything_a_policy_needs_is_set_and_put_back(case: Case) -> None:
    done = await case.set()
    assert {check.health for check in done.values()} == {Health.WELL}
    assert case.phone.settings[AIRPLANE] == "1"
    assert case.phone.settings[STAY_ON] == "7"
    assert case.phone.settings[RADIOS] == USUAL[RADIOS], "on a cable Wi-Fi may go"
    assert case.offers() == []
    await case.put_back()
    assert case.phone.settings == USUAL
    assert not case.file.path.exists()
    again = await case.put_back()
    assert again["settings"].seen == "nothing to restore"


@pytest.mark.parametrize("policy", ["ci", "lab", "mlperf"])
def test_only_what_a_policy_needs_is_offered(case: Case, policy: str) -> None:
    keys = {offer.key for offer in case.offers(policy)}
    assert (AIRPLANE in keys, BRIGHTNESS in keys, SAVER in keys) == {
        "ci": (False, False, False),
        "lab": (False, False, True),
        "mlperf": (True, True, True),
    }[policy]


def test_before_android_11_airplane_mode_is_not_offered(case: Case) -> None:
    assert AIRPLANE not in {offer.key for offer in case.offers(sdk=29)}
    assert offers(load_policy("mlperf"), {}, 34, networked=False) == [], "it says nothing"


@pytest.mark.parametrize("lost_at", range(15))
async def test_wherever_the_phone_is_lost_everything_is_put_back_later(
    case: Case, lost_at: int
) -> None:
    case.phone.lost_at = lost_at
    with pytest.raises(RemoteFault, match="the link broke"):
        await case.set()
    case.phone.lost_at = None
    await case.put_back()
    assert case.phone.settings == USUAL


async def test_a_phone_lost_while_it_is_put_back_is_put_back_later(case: Case) -> None:
    await case.set()
    case.phone.lost_at = len(case.phone.asked) + 3
    with pytest.raises(RemoteFault):
        await case.put_back()
    case.phone.lost_at = None
    await case.put_back()
    assert case.phone.settings == USUAL


async def test_what_the_phone_refuses_is_said_and_not_kept(case: Case) -> None:
    case.phone.refuses = True
    done = await case.set()
    assert done[SAVER].health is Health.MEND
    assert done[SAVER].seen == "still 1: Permission denial: [2J writing"
    assert [kept.key for kept in case.file.read().kept] == [AIRPLANE], "set by another command"


async def test_what_the_phone_makes_something_else_is_said_and_put_back(case: Case) -> None:
    case.phone.clamps = {BRIGHTNESS: "2"}
    done = await case.set()
    assert (done[BRIGHTNESS].health, done[BRIGHTNESS].seen) == (
        Health.MEND,
        "2, though set to 1",
    )
    case.phone.clamps = {}
    await case.put_back()
    assert case.phone.settings == USUAL


async def test_what_its_user_has_changed_meanwhile_is_left(case: Case) -> None:
    await case.set()
    case.phone.settings[BRIGHTNESS] = "90"
    done = await case.put_back()
    assert done[BRIGHTNESS].seen == "left at 90: changed since it was set to 1"
    assert case.phone.settings == USUAL | {BRIGHTNESS: "90"}


async def test_set_twice_what_was_before_the_first_is_put_back(case: Case) -> None:
    await case.set()
    case.phone.settings[SAVER] = "1"
    await case.set()
    await case.put_back()
    assert case.phone.settings == USUAL


async def test_what_its_user_chose_between_two_is_put_back(case: Case) -> None:
    await case.set()
    case.phone.settings[BRIGHTNESS] = "90"
    await case.set()
    await case.put_back()
    assert case.phone.settings == USUAL | {BRIGHTNESS: "90"}


@pytest.mark.parametrize("value", ["", "a\nb", "\x1b[2J", "x" * 201, "x" * 100_000, "é", " 1"])
async def test_what_could_not_be_put_back_is_not_changed(case: Case, value: str) -> None:
    case.phone.settings[SAVER] = value
    (done,) = await case.settings.set([Offer(key=SAVER, former="1", value="0")])
    assert done.health is Health.MEND
    assert done.seen.startswith("left alone: its value")
    assert done.seen.isprintable()
    assert len(done.seen) < 150
    assert case.phone.settings[SAVER] == value
    assert not case.file.path.exists()


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: text.replace(PHONE, "OTHER"),
        lambda text: text.replace("global/low_power", "secure/adb_keys"),
        lambda text: text.replace('"former":"1"', '"former":"1\\n2"'),
        lambda text: "",
    ],
)
async def test_a_damaged_file_is_named_and_nothing_is_changed(
    case: Case, damage: Callable[[str], str]
) -> None:
    await case.set()
    case.file.path.write_text(damage(case.file.path.read_text()))
    before = dict(case.phone.settings)
    for attempt in (case.settings.put_back, case.set):
        with pytest.raises(PhoneUnavailable, match=r"is damaged: .*then delete the file"):
            await attempt()
    assert case.phone.settings == before


async def test_a_full_disk_changes_nothing_on_the_phone(case: Case, tmp_path: Path) -> None:
    (tmp_path / "settings").write_text("a file where a folder is to be")
    with pytest.raises(PhoneUnavailable):
        await case.set()
    assert case.phone.settings == USUAL


async def test_over_a_network_wifi_is_kept_and_the_phone_guards_itself(tmp_path: Path) -> None:
    case = Case(FakePhone(), KeptFile(tmp_path / f"{PHONE}.json", PHONE), networked=True)
    await case.set()
    assert case.phone.settings[RADIOS] == "cell,bluetooth,nfc"
    assert case.phone.settings[AIRPLANE] == "1"
    guarded = [argv[0] for argv in case.phone.asked if argv[0] != "settings"]
    assert guarded == ["sh", "rm"], "turned on under guard, which is then called off"
    await case.put_back()
    assert case.phone.settings == USUAL


async def test_over_a_network_airplane_mode_stays_off_where_it_would_take_wifi(
    tmp_path: Path,
) -> None:
    case = Case(FakePhone(), KeptFile(tmp_path / f"{PHONE}.json", PHONE), networked=True)
    case.phone.clamps = {RADIOS: USUAL[RADIOS]}
    done = await case.set()
    assert done[AIRPLANE].health is Health.MEND
    assert "it would turn off Wi-Fi, and the phone is reached over Wi-Fi" in done[AIRPLANE].seen
    assert case.phone.settings[AIRPLANE] == "0"


async def test_a_phone_that_airplane_mode_cuts_off_says_that_it_comes_back(tmp_path: Path) -> None:
    case = Case(FakePhone(), KeptFile(tmp_path / f"{PHONE}.json", PHONE), networked=True)
    case.phone.settings = {AIRPLANE: "0", RADIOS: "cell"}
    case.phone.lost_at = 3
    with pytest.raises(RemoteFault, match="it turns that off by itself in 30 s"):
        await case.settings.set([Offer(key=AIRPLANE, former="0", value="1")])
    assert [kept.key for kept in case.file.read().kept] == [AIRPLANE]
