"""A run begins on a phone of its own: nobody cleans it, and nothing of another host runs on it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import AsyncMock

import pytest

from agents.attempts import phone as phone_attempts
from agents.attempts.phone import PhoneRunner
from agents.health import phone as phone_probe
from agents.health.phone import PhoneProbe
from agents.inference.content import Content
from agents.phone_command import cleaned
from agents.phones.discovery import Phones
from agents.phones.registry import Phone
from agents.remotes.adb import device_tree
from agents.remotes.adb.addresses import HostPort
from agents.remotes.adb.programs import Link, Programs
from agents.remotes.adb.remote import AdbRemote
from agents.remotes.remote import Completed, FaultKind, RemoteFault
from controller.contracts.adb_status import ADB_FOLDER, USES_FOLDER
from controller.contracts.base import Scalar
from controller.contracts.errors import PhoneUnavailable, UserError
from controller.contracts.policy import load_policy
from controller.contracts.result import Blame, Failure, Outcome
from controller.contracts.wire import Progress, WorkerSpec
from controller.platform.locks import exclusive_now
from tests.support import builders

PHONE = builders.phone()
NOBODY = HostPort("127.0.0.1", 1)
TAKEN = RemoteFault("serial", FaultKind.OFFLINE, "another host's run is on it")
ENOUGH = RemoteFault("serial", FaultKind.DEADLINE, "enough is seen")


def test_a_helper_for_a_phone_begins_without_what_only_an_examination_needs() -> None:
    """Each verb of `benchfarm phone` starts one; that import takes over half of its start."""
    script = "import sys, agents.phone_command; print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=True
    )
    assert "agents.phone_command" in run.stdout.split()
    assert "agents.health.examination" not in run.stdout.split()


class NeverRun:
    """An AttemptRunner to which no run comes."""

    async def run(self, spec: WorkerSpec, on_progress: Callable[[Progress], None]) -> Outcome:
        raise AssertionError("it was to end before")

    async def clean(self) -> int:
        return 0


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a run does with its phone, up to its first question."""
    done: list[str] = []

    async def end_others(_: Programs) -> int:
        done.append("others ended")
        return 2

    async def read_conditions(*_: object, **__: object) -> dict[str, Scalar]:
        done.append("asked")
        raise ENOUGH

    async def clean(_: AdbRemote) -> int:
        done.append("cleaned")
        return 0

    async def require_alone(_: AdbRemote) -> None:
        done.append("looked")

    monkeypatch.setattr(Programs, "end_others", end_others)
    monkeypatch.setattr(AdbRemote, "require_alone", require_alone)
    monkeypatch.setattr(AdbRemote, "clean", clean)
    monkeypatch.setattr(phone_attempts, "read_conditions", read_conditions)
    return done


@pytest.fixture
def phones(tmp_path: Path) -> Phones:
    """One phone that is there."""

    async def announce(_: object) -> None: ...

    phones = Phones("owner", tmp_path, announce)
    remote = AdbRemote.of(Link(NOBODY, "serial"), "owner")
    phones.present.here[PHONE.id] = Phone("serial", PHONE, remote)
    return phones


async def run(phones: Phones) -> None:
    spec = WorkerSpec(job=builders.job(device_id=PHONE.id), device=PHONE, artefact_dir="")
    await PhoneRunner(NeverRun(), phones).run(spec, lambda _: None)


async def probed(phones: Phones) -> None:
    nothing = Content(Path("/nowhere"), Path("/nowhere"))
    assert not (await PhoneProbe(phones, nothing).probe(PHONE)).passed


@pytest.mark.parametrize("use", [run, probed])
async def test_it_is_not_cleaned_while_a_run_or_a_probe_is_on_it(
    use: Callable[[Phones], Awaitable[None]],
    phones: Phones,
    done: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lock = tmp_path / ADB_FOLDER / USES_FOLDER / PHONE.id  # where controller.runtime.phones looks
    refused: list[str] = []

    async def ask(*_: object, **__: object) -> str:
        with pytest.raises(PhoneUnavailable) as refusal:
            await cleaned(NOBODY, "serial", str(lock))
        refused.append(str(refusal.value))
        raise ENOUGH

    monkeypatch.setattr(phone_attempts, "read_conditions", ask)
    monkeypatch.setattr(phone_probe, "examine", ask)
    await use(phones)
    seen = "a run or a probe uses it. Wait until it ends, or cancel its sweep."
    assert refused == [f"cannot clean phone {PHONE.id}: {seen}"]
    with exclusive_now(lock) as free:
        assert free, "it is let go of afterwards"


@pytest.mark.parametrize("is_kept", [False, True])
async def test_no_command_is_on_a_phone_that_is_cleaned_as_it_is_taken_in(
    is_kept: bool, phones: Phones, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`phone doctor` puts files on a phone, which the cleanup would remove."""
    lock = tmp_path / ADB_FOLDER / USES_FOLDER / PHONE.id
    refused: list[str] = []

    async def clean(_: AdbRemote) -> int:
        with pytest.raises(PhoneUnavailable) as refusal:
            await cleaned(NOBODY, "serial", str(lock))
        refused.append(refusal.value.seen)
        return 0

    monkeypatch.setattr(AdbRemote, "clean", clean)
    present = phones.present
    coming = present.here.pop(PHONE.id)
    if is_kept:
        async with present.used(PHONE.id):
            pass
        async with present.kept():
            with pytest.raises(RemoteFault, match="adb is being restarted"):
                await present.take_in(coming)
    else:
        await present.take_in(coming)
        assert present.here == {PHONE.id: coming}
    assert refused == ["a run or a probe uses it"]
    with exclusive_now(lock) as free:
        assert free, "it is let go of afterwards"


async def test_another_host_s_programs_are_ended_by_the_first_run_since_the_agent_registered(
    phones: Phones, done: list[str]
) -> None:
    first = ["others ended", "cleaned", "asked"]
    await run(phones)
    assert done == first
    await run(phones)
    later = [*first, "looked", "asked"]
    assert done == later
    phones.leave({PHONE.id: UserError("announcing", "another host has it", "unplug it there")})
    await run(phones)
    later += ["looked", "asked"]
    assert done == later, "what is another's now is not ended"
    phones.leave({})
    await run(phones)
    assert done == [*later, *first]


async def test_a_run_that_waits_ends_when_another_host_s_has_begun(
    phones: Phones, done: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    patient = load_policy("lab").model_copy(update={"ask_every_s": 1e-3})

    async def too_hot(*_: object, **__: object) -> dict[str, Scalar]:
        done.append("asked")
        return {"battery_celsius": 44.0}

    monkeypatch.setattr(phone_attempts, "read_conditions", too_hot)
    monkeypatch.setattr(AdbRemote, "require_alone", AsyncMock(side_effect=TAKEN))
    monkeypatch.setattr(Phones, "suspect", AsyncMock())
    spec = WorkerSpec(job=builders.job(device_id=PHONE.id), device=PHONE, artefact_dir="")
    waiting = PhoneRunner(NeverRun(), phones, policy_of=lambda _: patient)
    outcome = await waiting.run(spec, lambda _: None)
    assert isinstance(outcome, Failure)
    assert (outcome.blame, outcome.message) == (Blame.DEVICE, str(TAKEN))
    assert done == ["others ended", "cleaned", "asked"]


@pytest.mark.parametrize("known", [True, False])
async def test_a_phone_that_comes_as_adb_is_restarted_comes_in_afterwards(
    known: bool, phones: Phones, done: list[str]
) -> None:
    present = phones.present
    new = builders.phone("NEW")
    coming = Phone("new", new, AdbRemote.of(Link(NOBODY, "new"), "owner"))
    if known:
        async with present.used(new.id):
            pass
    async with present.kept():
        with pytest.raises(RemoteFault, match="adb is being restarted") as caught:
            await present.take_in(coming)
        assert new.id not in present.here, "a run would begin on it, and lose it"
        present.here[PHONE.id] = replace(present.here[PHONE.id], serial="back")
    assert caught.value.kind is FaultKind.ADB_SERVER
    await present.take_in(coming)
    assert present.here[new.id] is coming
    assert not present.in_use


async def test_what_measures_does_not_begin_beside_another_host_s_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    began = AsyncMock()
    monkeypatch.setattr(AdbRemote, "_own", AsyncMock(return_value=Completed(1, b"", b"")))
    monkeypatch.setattr(device_tree, "is_shared", lambda _: True)
    monkeypatch.setattr(Programs, "execute", began)
    remote = AdbRemote.of(Link(NOBODY, "serial"), "owner")
    with pytest.raises(RemoteFault, match="another host's run is on it") as caught:
        await remote.stream(("run",), 1.0, lambda _: None)
    assert caught.value.kind is FaultKind.OFFLINE
    began.assert_not_awaited()
