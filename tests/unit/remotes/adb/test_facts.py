from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import cast

import pytest

from agents.host.facts import boot_id
from agents.phones.recovery.policy import CURABLE
from agents.remotes.adb.facts import (
    BOOT_ID,
    PRESENT,
    device_of,
    on_this_host,
    parse_cores,
    parse_properties,
    read_device,
)
from agents.remotes.remote import Completed, FaultKind, Remote, RemoteFault
from controller.contracts.device import Device, DeviceKind

PIXEL = """[persist.sys.note]: [two
lines]
[ro.serialno]: [29131FDH2000AB]
[ro.product.manufacturer]: [Google]
[ro.product.model]: [Pixel 7]
[ro.soc.model]: [GS201]
[ro.board.platform]: [gs201]
[ro.product.cpu.abi]: [arm64-v8a]
[ro.build.version.release]: [14]
[ro.build.version.sdk]: [34]
[ro.empty]: []
"""
MEMINFO = "MemTotal:        7642536 kB\nMemFree:          210128 kB\n"


def test_properties() -> None:
    properties = parse_properties(PIXEL)
    assert properties["persist.sys.note"] == "two\nlines"
    assert properties["ro.empty"] == ""
    assert properties["ro.product.model"] == "Pixel 7"


def test_a_phone() -> None:
    device = device_of(parse_properties(PIXEL), "0-7\n", MEMINFO, shell_v2=True)
    assert (device.id, device.kind, device.virtual) == (
        "29131FDH2000AB",
        DeviceKind.ANDROID,
        False,
    )
    assert device.host_cores == frozenset()
    assert device.facts == {
        "manufacturer": "Google",
        "model": "Pixel 7",
        "soc": "GS201",
        "abi": "arm64-v8a",
        "android": 14.0,
        "sdk": 34,
        "cores": 8,
        "memory_bytes": 7642536 * 1024,
        "shell_v2": True,
    }


@pytest.mark.parametrize(
    ("said", "virtual"),
    [
        ({"ro.kernel.qemu": "1", "ro.hardware": "ranchu"}, True),
        ({"ro.boot.qemu": "1"}, True),
        ({"ro.hardware": "goldfish"}, True),
        ({"ro.hardware": "cutf_cvm"}, True),
        ({"ro.hardware": "vbox86"}, True),
        ({"ro.hardware": "redroid"}, True),
        ({"ro.boot.hardware": "redroid"}, True),
        ({"ro.product.brand": "waydroid"}, True),
        ({"ro.build.characteristics": "nosdcard,emulator"}, True),
        ({"ro.kernel.qemu": "0", "ro.hardware": "qcom"}, False),
        ({"ro.boot.hardware": "qcom", "ro.product.brand": "google"}, False),
        ({"ro.build.characteristics": "tablet,nosdcard"}, False),
    ],
)
def test_an_emulator_is_a_virtual_device(said: Mapping[str, str], *, virtual: bool) -> None:
    device = device_of({**parse_properties(PIXEL), **said}, "0-7\n", MEMINFO, shell_v2=True)
    assert device.virtual is virtual


def test_a_phone_that_is_not_virtual_claims_no_cores() -> None:
    said = {**parse_properties(PIXEL), "ro.benchfarm.host_cores": "0-3"}
    assert device_of(said, "0-7", MEMINFO, shell_v2=True).host_cores == frozenset()


def virtual_phone(cores: str) -> Device:
    said = {"ro.benchfarm.virtual": "1", "ro.benchfarm.host_cores": cores}
    return device_of({**parse_properties(PIXEL), **said}, "0", MEMINFO, shell_v2=True)


@pytest.mark.parametrize("same_kernel", [False, True])
def test_a_virtual_phone_claims_no_cores_that_its_host_lacks(*, same_kernel: bool) -> None:
    host = frozenset(range(4))
    device = on_this_host(virtual_phone("2,3,4095"), host, same_kernel=same_kernel)
    assert (device.host_cores, device.virtual) == (frozenset({2, 3}), True)


def test_android_in_a_container_is_virtual_and_uses_every_core() -> None:
    host = frozenset(range(4))
    phone = device_of(parse_properties(PIXEL), "0-7", MEMINFO, shell_v2=True)
    assert on_this_host(phone, host, same_kernel=False) == phone
    contained = on_this_host(phone, host, same_kernel=True)
    assert (contained.virtual, contained.host_cores) == (True, host)


def test_a_virtual_phone_occupies_cores_of_its_host() -> None:
    properties = {
        "ro.serialno": "VIRTUAL1",
        "ro.benchfarm.virtual": "1",
        "ro.benchfarm.host_cores": "2,4-5",
        "ro.board.platform": "virtual_soc",
        "ro.build.version.release": "5.1.1",
    }
    device = device_of(properties, "0", "", shell_v2=False)
    assert device.virtual
    assert device.host_cores == frozenset({2, 4, 5})
    assert device.facts["soc"] == "virtual_soc"
    assert device.facts["android"] == 5.1
    assert "memory_bytes" not in device.facts


@pytest.mark.parametrize(
    ("properties", "cores"),
    [({}, "0"), ({"ro.serialno": "R58M"}, "many"), ({"ro.serialno": "; reboot"}, "0")],
)
def test_a_phone_that_does_not_say_what_it_is(properties: dict[str, str], cores: str) -> None:
    with pytest.raises(ValueError, match=r"serialno|invalid literal"):
        device_of(properties, cores, MEMINFO, shell_v2=True)


@pytest.mark.parametrize(
    ("serial", "seen"),
    [
        ("", "has no ro.serialno"),
        ("cpu-8d14a2f2", "ro.serialno cpu-8d14a2f2 begins with cpu-, as only a server's may"),
        ("../../../etc/shadow", "is not an id"),
        ("a/b", "is not an id"),
        (".", "is not an id"),
        ("-rf", "is not an id"),
        ('x" or kind == "cpu_host', "is not an id"),
        ("R58M\n", "is not an id"),
        ("R58M\x1b]0;title\x07", "is not an id"),
        ("R58M\u202e", "is not an id"),
        ("٣٤", "is not an id"),
        ("x" * 129, "is not an id"),
        ("x" * 10_000_000, "is not an id"),
    ],
)
def test_a_serial_number_that_is_no_phones_id(serial: str, seen: str) -> None:
    with pytest.raises(ValueError, match=re.escape(seen)) as refused:
        device_of({"ro.serialno": serial}, "0", MEMINFO, shell_v2=True)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize("serial", ["VIRTUALFLAGSHIP1", "R58M123ABC", "a.b_c:d-e", "CPU", "cpu"])
def test_a_serial_number_is_the_phones_id(serial: str) -> None:
    assert device_of({"ro.serialno": serial}, "0", MEMINFO, shell_v2=True).id == serial


@pytest.mark.parametrize("text", [",".join(["0-4095"] * 150_000), "0," * 501, "9" * 1001])
def test_no_list_of_cores_is_so_long(text: str) -> None:
    with pytest.raises(ValueError, match="characters, more than the limit of 1000"):
        parse_cores(text)


def test_cores() -> None:
    assert parse_cores("0,2-4\n") == frozenset({0, 2, 3, 4})
    assert parse_cores("\n") == frozenset()


class Described:
    """The remote of a phone that can be described."""

    def __init__(self, boot: Completed) -> None:
        self.boot = boot

    async def run(self, argv: Sequence[str], deadline_s: float, stdin: bytes = b"") -> Completed:
        said = {"getprop": PIXEL.encode(), PRESENT: b"0-7\n", "/proc/meminfo": MEMINFO.encode()}
        return self.boot if argv[-1] == BOOT_ID else Completed(0, said[argv[-1]], b"")


@pytest.mark.parametrize(
    ("boot", "virtual"),
    [
        (Completed(0, f"{boot_id()}\n".encode(), b""), True),
        (Completed(0, b"11111111-2222-3333-4444-555555555555\n", b""), False),
        (Completed(0, b"", b""), False),
        (Completed(1, b"", b"cat: Permission denied"), False),
    ],
)
async def test_the_kernel_s_boot_tells_whether_a_phone_is_on_this_host(
    boot: Completed, *, virtual: bool
) -> None:
    assert boot_id(), "Linux has one"
    device = await read_device(cast(Remote, Described(boot)), "R58M", shell_v2=True)
    assert device.virtual is virtual
    assert bool(device.host_cores) is virtual


class Answers:
    """The remote of a phone that says one thing to everything."""

    def __init__(self, *, exit_code: int, stderr: bytes) -> None:
        self.answer = Completed(exit_code, b"", stderr)

    async def run(self, argv: Sequence[str], deadline_s: float, stdin: bytes = b"") -> Completed:
        return self.answer


@pytest.mark.parametrize("code", [1, 126, 127])
async def test_a_program_that_a_phone_lacks_is_no_fault_of_the_way_to_it(code: int) -> None:
    remote = Answers(exit_code=code, stderr=b"sh: getprop: not\x1b found\n")
    with pytest.raises(RemoteFault) as caught:
        await read_device(cast(Remote, remote), "R58M", shell_v2=True)
    assert caught.value.kind is FaultKind.UNSUPPORTED
    assert caught.value.message == f"getprop exited with status {code}: sh: getprop: not found"
    assert caught.value.kind not in CURABLE, "restarting adb would not help"
