"""What lets a device out of quarantine: a look at it that finds what makes runs fail."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import pytest

from agents.health.host import HostProbe
from agents.health.phone import PhoneProbe
from agents.health.prober import ProbeResult
from agents.host import arithmetic
from agents.inference.content import Content
from agents.phones.discovery import Phones
from agents.phones.registry import Phone as PresentPhone
from agents.remotes.budget import Budget
from agents.remotes.local import LocalRemote
from agents.remotes.remote import RUNS, FaultKind, RemoteFault
from agents.remotes.self_test import ASK_S, BYTES, examine
from agents.virtual_phone import faults
from tests.support import builders
from tests.support.remotes import OWNER, Phone

pytestmark = pytest.mark.integration
HOST = builders.cpu(cores=frozenset())


async def probe(phone: Phone, folder: Path, ask_s: float = ASK_S) -> ProbeResult:
    async def announce(_: object) -> None:
        return

    phones = Phones(OWNER, folder, announce)
    device = builders.phone()
    phones.present.here[device.id] = PresentPhone(phone.running.address, device, phone.remote)
    return await PhoneProbe(phones, Content(folder, folder), ask_s).probe(device)


async def test_a_phone_that_is_well_passes_and_nothing_is_left(
    phone: Phone, tmp_path: Path
) -> None:
    found = await probe(phone, tmp_path)
    assert found.passed, found
    assert found.why.startswith("4 MiB written and read, a program run, ")
    runs = str(phone.remote.folder / RUNS)
    assert (await phone.remote.run(("ls", "-A", runs), 10)).stdout == b""


@pytest.mark.parametrize(
    ("fault", "seen"),
    [
        (faults.ReadOnly(), "read-only"),
        (faults.FullStorage(), "MiB are free, and a run needs 64"),
        pytest.param(faults.Offline(), "offline", marks=pytest.mark.long),
        pytest.param(faults.Hang(), "answer", marks=pytest.mark.long),
    ],
)
async def test_a_phone_that_would_fail_a_run_fails(
    phone: Phone, tmp_path: Path, fault: faults.Fault, seen: str
) -> None:
    await phone.set_faults(fault)
    found = await probe(phone, tmp_path, ask_s=2.0)
    assert not found.passed
    assert seen in found.why.lower() or seen in found.why, found


async def test_a_phone_that_has_gone_meanwhile_fails(tmp_path: Path) -> None:
    async def announce(_: object) -> None:
        return

    phones, content = Phones(OWNER, tmp_path, announce), Content(tmp_path, tmp_path)
    found = await PhoneProbe(phones, content).probe(builders.phone())
    assert found == ProbeResult(
        False, "phone-1: the phone is not connected; `benchfarm device list` says why"
    )


async def test_storage_that_gives_back_something_else_fails(tmp_path: Path) -> None:
    class Forgetful(LocalRemote):
        async def pull(
            self, source: PurePosixPath, target: Path, budget: Budget | None = None
        ) -> None:
            await super().pull(source, target, budget)
            data = bytearray(target.read_bytes())
            data[-1] ^= 1
            target.write_bytes(data)

    remote = Forgetful.of(tmp_path, OWNER)
    with pytest.raises(RemoteFault, match="reads back differently") as caught:
        await examine(remote, PurePosixPath(tmp_path), "here")
    assert caught.value.kind is FaultKind.CORRUPT


@pytest.mark.parametrize(
    ("damage", "kind", "seen"),
    [
        (lambda data: os.truncate(data, BYTES + 1), FaultKind.TOO_MUCH_OUTPUT, f"{BYTES} bytes"),
        (lambda data: os.truncate(data, BYTES - 1), FaultKind.CORRUPT, "reads back differently"),
        (lambda data: (data.unlink(), data.mkdir()), FaultKind.CORRUPT, "reads back differently"),
    ],
    ids=["longer", "shorter", "a folder"],
)
async def test_storage_that_gives_back_more_or_a_folder_fails(
    damage: Callable[[Path], object], kind: FaultKind, seen: str, tmp_path: Path
) -> None:
    class Odd(LocalRemote):
        async def pull(
            self, source: PurePosixPath, target: Path, budget: Budget | None = None
        ) -> None:
            damage(Path(source))
            await super().pull(source, target, budget)

    with pytest.raises(RemoteFault, match=seen) as caught:
        await examine(Odd.of(tmp_path, OWNER), PurePosixPath(tmp_path), "here")
    assert caught.value.kind is kind


async def test_a_server_passes_if_a_fresh_process_computes_what_is_known(tmp_path: Path) -> None:
    remote = LocalRemote.of(tmp_path, OWNER)
    well = (sys.executable, "-c", "print('3 products right')")
    found = await HostProbe(remote, well).probe(HOST)
    assert found.passed
    assert found.why.endswith("MiB free, 3 products right")
    for code, seen in (
        ("import sys; sys.exit('1 of 3 products is wrong')", "1 of 3 products is wrong"),
        ("import os; os.kill(os.getpid(), 11)", "the arithmetic test exited with status 139"),
    ):
        assert await HostProbe(remote, (sys.executable, "-c", code)).probe(HOST) == ProbeResult(
            False, seen
        )


@pytest.mark.long
async def test_the_arithmetic_is_right_here_and_tells_if_it_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = await HostProbe(LocalRemote.of(tmp_path, OWNER)).probe(HOST)
    assert found.passed, found
    assert found.why.endswith("20 matrix products are right")
    assert arithmetic.main(largest=10**6) == 1, "fp32 can't hold such sums"
    assert capsys.readouterr().err == "20 of 20 matrix products are wrong\n"
