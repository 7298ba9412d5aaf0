"""The models of a virtual phone: heat, battery, profiles, faults, its part of the host."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

from agents.phones.conditions import thermal_facts
from agents.virtual_phone import __main__ as virtual_main
from agents.virtual_phone import battery, cgroup, profiles
from agents.virtual_phone.battery import Battery, dumpsys_battery
from agents.virtual_phone.cores import choose_cores, parse_cores, sysfs_of
from agents.virtual_phone.emulation import PROCESSORS, Emulator
from agents.virtual_phone.errors import LinkCut, PhoneOptionsInvalid
from agents.virtual_phone.faults import (
    Disconnect,
    Fault,
    Hang,
    Link,
    Offline,
    Slow,
    Unauthorized,
    after_cut,
    parse_fault,
)
from agents.virtual_phone.properties import properties_of
from agents.virtual_phone.thermal import ThermalModel, ThermalStatus, dumpsys_thermalservice

SKIN = {"name": "skin", "type": 3, "resistance_c_per_w": 4.0, "tau_s": 100.0}
MODEL = ThermalModel.model_validate(
    {
        "ambient_c": 25,
        "idle_w": 0.5,
        "core_w": 2.0,
        "zones": [SKIN | {"thresholds_c": [39, 43, 46, 50, 55, 60]}],
    }
)
BATTERY = Battery(capacity_mah=4000, level_percent=50, charging=False, charger_ma=1000)


def test_a_phone_at_rest_stays_as_it_is() -> None:
    rest = MODEL.at_rest()
    assert rest == {"skin": 27.0}
    assert MODEL.after(rest, MODEL.power_w(0), 1000.0) == pytest.approx(rest)


def test_one_time_constant_is_63_percent_of_the_way() -> None:
    goal = 25 + 4.0 * MODEL.power_w(1.0)
    now = MODEL.after(MODEL.at_rest(), MODEL.power_w(1.0), 100.0)["skin"]
    assert now == pytest.approx(27 + (goal - 27) * (1 - math.exp(-1)))


def test_steps_of_any_size_lead_to_the_same_temperature() -> None:
    once = MODEL.after(MODEL.at_rest(), 3.0, 60.0)
    many = MODEL.at_rest()
    for _ in range(600):
        many = MODEL.after(many, 3.0, 0.1)
    assert many["skin"] == pytest.approx(once["skin"], rel=1e-9)


@pytest.mark.parametrize(
    ("celsius", "status"),
    [
        (38.9, ThermalStatus.NONE),
        (39, ThermalStatus.LIGHT),
        (49.9, ThermalStatus.SEVERE),
        (99, ThermalStatus.SHUTDOWN),
    ],
)
def test_thermal_status(celsius: float, status: ThermalStatus) -> None:
    assert MODEL.status({"skin": celsius}) is status
    said = dumpsys_thermalservice(MODEL, {"skin": celsius})
    assert f"Thermal Status: {status.value}\n" in said
    assert f"mValue={celsius:.1f}, mType=3, mName=skin, mStatus={status.value}}}" in said


def test_its_cooling_devices_are_told_as_android_tells_them_and_are_no_sensors() -> None:
    said = dumpsys_thermalservice(MODEL, {"skin": 31.0})
    devices = said.partition("Current cooling devices from HAL:\n")[2].splitlines()[:2]
    assert devices == [
        "\tCoolingDevice{mValue=0, mType=1, mName=battery}",
        "\tCoolingDevice{mValue=0, mType=2, mName=cpu}",
    ]
    assert thermal_facts(said) == {
        "thermal_overridden": False,
        "thermal_status": "NONE",
        "celsius_skin": 31.0,
    }


def test_a_battery_keeps_account_of_its_charge() -> None:
    current = BATTERY.current_ma(2.0)
    assert current == pytest.approx(-1000 * 2.0 / 3.95)
    hour = BATTERY.after(2.0, 3600.0)
    assert hour.level_percent == pytest.approx(50 + 100 * current / 4000)
    charging = BATTERY.model_copy(update={"charging": True})
    assert charging.after(2.0, 3600.0).level_percent > 50
    assert charging.after(0.0, 1e6).level_percent == 100
    assert BATTERY.after(5.0, 1e6).level_percent == 0


def test_what_android_says_of_a_battery() -> None:
    said = dumpsys_battery(BATTERY, 31.26)
    assert "\n  level: 50\n" in said
    assert "\n  status: 3\n" in said
    assert "\n  temperature: 313\n" in said
    assert battery.sysfs(BATTERY, 31.26, 2.0)["current_now"] == str(round(-2e6 / 3.95))


@pytest.mark.parametrize("name", profiles.names())
def test_profiles(name: str) -> None:
    profile = profiles.load(name)
    known = properties_of(profile, "S1", locked=False)
    assert profile.model.startswith("Virtual ")
    assert profile.battery_zone in profile.thermal.at_rest()
    assert (known["ro.benchfarm.virtual"], known["ro.serialno"]) == ("1", "S1")


def test_no_profile_takes_the_mark_of_a_virtual_phone_away() -> None:
    emulator = Emulator(PROCESSORS["arm64-v8a"], Path("/qemu"), "9.1")
    marks = {"ro.benchfarm.virtual": "1", "ro.benchfarm.host_cores": "2,5"}
    marks["ro.benchfarm.emulated"] = emulator.words
    hiding = dict.fromkeys(marks, "0") | {"ro.hardware": "qcom"}
    profile = profiles.load("flagship").model_copy(update={"properties": hiding})
    known = properties_of(profile, "S1", (5, 2), emulator, locked=False)
    assert {name: known[name] for name in marks} == marks
    assert known["ro.hardware"] == "qcom", "all else is replaced"


def test_a_profile_that_says_what_it_may_not(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text((profiles.FOLDER / "old.yaml").read_text() + "\nspeed: 3\n")
    with pytest.raises(PhoneOptionsInvalid, match="speed: there is no such key"):
        profiles.load(str(path))
    path.write_text("a: [")
    with pytest.raises(PhoneOptionsInvalid, match="cannot read profile"):
        profiles.load(str(path))


@pytest.mark.parametrize(
    ("options", "keys", "faults"),
    [
        ("old", (), ()),
        ("old --any-key", None, ()),
        ("locked", (), (Unauthorized(),)),
        ("locked --fault hang", (), (Hang(), Unauthorized())),
        ("restarting", (), (Disconnect(command="/run /data/", away_s=2),)),
    ],
)
def test_a_phone_asks_its_user_for_a_key_unless_told_otherwise_and_has_its_profiles_faults(
    options: str,
    keys: tuple[()] | None,
    faults: tuple[Fault, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "argv", ["phone", *f"--profile {options}".split()])
    setup = virtual_main._setup(virtual_main._options())
    assert (setup.keys, setup.faults) == (keys, faults)


def test_faults_from_a_command_line() -> None:
    assert parse_fault("hang") == Hang()
    assert parse_fault("slow:bytes_per_s=1000") == Slow(bytes_per_s=1000)
    cut = Disconnect(command="model", stay_offline=True)
    assert parse_fault("disconnect:command=model,stay_offline=true") == cut
    with pytest.raises(PhoneOptionsInvalid, match="extra"):
        parse_fault("hang:extra=1")


async def test_a_link_is_cut_once_when_the_bytes_have_passed() -> None:
    link = Link()
    link.set([Disconnect(after_bytes=100)])
    await link.carry(99)
    with pytest.raises(LinkCut):
        await link.carry(1)
    await link.carry(1000)
    assert not link.offline


def test_what_is_left_after_a_cut() -> None:
    assert after_cut([Disconnect(command="x"), Hang()]) == (Hang(),)
    assert after_cut([Disconnect(command="x", stay_offline=True)]) == (Offline(),)


def test_cores() -> None:
    assert parse_cores("0,2-4,3") == (0, 2, 3, 4)
    assert choose_cores(None, 2, {5, 3, 9}) == (3, 5)
    assert choose_cores((9,), 2, {5, 3, 9}) == (9,)
    with pytest.raises(PhoneOptionsInvalid, match=r"cores \[1\].*only \[3, 5\]"):
        choose_cores((1, 3), 1, {5, 3})
    with pytest.raises(PhoneOptionsInvalid, match="give a virtual phone 2 cores"):
        choose_cores(None, 2, {5})


def test_cores_keep_the_hosts_numbers_and_topology(tmp_path: Path) -> None:
    (tmp_path / "cpu7/topology").mkdir(parents=True)
    (tmp_path / "cpu7/topology/core_id").write_text("3\n")
    files = sysfs_of([7], tmp_path)
    assert files[Path("online")] == "7"
    assert files[Path("cpu7/topology/core_id")] == "3"


MOUNTINFO = "35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n"


def test_where_a_cgroup_may_be_made() -> None:
    own = Path("/sys/fs/cgroup/user.slice/run.scope")
    assert cgroup.candidates(MOUNTINFO, "0::/user.slice/run.scope\n") == (own, own.parent)
    assert cgroup.candidates(MOUNTINFO, "0::/\n") == (Path("/sys/fs/cgroup"),)
    assert cgroup.candidates("", "0::/\n") == ()
    assert cgroup.candidates(MOUNTINFO, "3:cpu:/\n") == ()


def test_a_quota_that_cannot_be_set_says_why(tmp_path: Path) -> None:
    assert cgroup.limit("phone", 0.5, ()).reason == "no cgroup of version 2 is mounted"
    (tmp_path / "cgroup.subtree_control").write_text("memory\n")
    refused = cgroup.limit("phone", 0.5, [tmp_path, tmp_path / "nothing"])
    assert not refused.enforced
    (tmp_path / "cgroup.subtree_control").write_text("cpu memory\n")
    made = cgroup.limit("phone", 0.5, [tmp_path])
    assert made.cgroup == tmp_path / "phone"
    assert (tmp_path / "phone/cpu.max").read_text() == "50000 100000"
