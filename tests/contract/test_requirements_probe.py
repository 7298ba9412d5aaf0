"""What a bundle requires, asked of real shells: this host's and virtual phones'."""

from __future__ import annotations

import platform
import resource
import shutil
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from agents.health.phone import PhoneProbe
from agents.inference.bundle.requirements import Requirements
from agents.inference.content import LIBC, Content, Runtime
from agents.inference.requirements import untold
from agents.inference.requirements_probe import require
from agents.phones.discovery import Phones
from agents.phones.registry import Phone as PresentPhone
from agents.remotes.local import LocalRemote
from agents.remotes.remote import RUNS, Completed, FaultKind, RemoteFault
from agents.remotes.tree import Tree
from agents.virtual_phone import faults
from tests.support import builders
from tests.support.remotes import OWNER, Phone, Place, make_folder

pytestmark = pytest.mark.integration
NEEDS = Requirements(kernel=(3, 2, 0), page_bytes=1 << 16, storage_bytes=1 << 20)
LOADER = "ld.so"
KILLED_BY_SECCOMP = "#!/bin/sh\nkill -s SYS $$\n"
ELF_OF_NOBODY = b"\x7fELF\x01\x01\x01" + bytes(9) + struct.pack("<HH", 2, 0xFEED) + bytes(32)


def runtime(folder: Path, loader: Path | str | bytes, needs: Requirements = NEEDS) -> Runtime:
    """Return a bundle whose starter is a loader and this host's C library."""
    parts = folder / "starter"
    parts.mkdir()
    if isinstance(loader, Path):
        shutil.copyfile(loader, parts / LOADER)
    else:
        (parts / LOADER).write_bytes(loader if isinstance(loader, bytes) else loader.encode())
    shutil.copyfile(mapped(LIBC), parts / LIBC)
    bundle = Tree.of(make_folder(folder / "bundle", 100), folder / "tars")
    return Runtime("litert-here", bundle, Tree.of(parts, folder / "tars"), LOADER, needs)


def mapped(name: str) -> Path:
    """Return the file of a library that this process has loaded; by the start of its name."""
    paths = (Path(line.split()[-1]) for line in Path("/proc/self/maps").read_text().splitlines())
    return next(path for path in paths if path.name.startswith(name))


async def test_a_place_that_is_well_tells_of_all_and_nothing_is_left_running(
    place: Place, tmp_path: Path
) -> None:
    bundle = runtime(tmp_path, mapped("ld-linux"))
    seen = await require(place.remote, bundle, "here")
    told = seen.told
    assert told.kernel
    assert platform.release().startswith(".".join(map(str, told.kernel)))
    assert told.page_bytes == resource.getpagesize()
    assert (told.start and told.start.exit_code, told.pushed, untold(told)) == (0, False, ())
    # As an archive, or, of few files, one by one.
    content = sum((tmp_path / "starter" / name).stat().st_size for name in (LOADER, LIBC))
    assert content <= seen.pushed_bytes <= bundle.starter.archive_bytes
    pushed = await place.remote.push_tree(bundle.tree)
    again = await require(place.remote, bundle, "here")
    assert (again.told.pushed, again.pushed_bytes) == (True, 0)
    runs = await place.remote.run(("ls", "-A", str(pushed.path.parent / RUNS)), 10)
    assert runs.stdout == b""
    await place.until_quiet()


@pytest.mark.parametrize(
    ("loader", "kind", "words"),
    [
        (KILLED_BY_SECCOMP, FaultKind.NO_EXEC, "a seccomp filter killed the bundle's loader"),
        (ELF_OF_NOBODY, FaultKind.NO_EXEC, "the bundle's loader does not start: .*xec format"),
        ("#!/bin/sh\necho no >&2\nexit 3\n", FaultKind.NO_EXEC, "does not start: no. Correct"),
    ],
)
async def test_a_loader_that_does_not_start_is_told_in_its_shells_words(
    tmp_path: Path, loader: str | bytes, kind: FaultKind, words: str
) -> None:
    remote = LocalRemote.of(tmp_path / "remote", OWNER)
    with pytest.raises(RemoteFault, match=words) as caught:
        await require(remote, runtime(tmp_path, loader), "here")
    assert caught.value.kind is kind


class Noexec(LocalRemote):
    """Runs everything where this remote's folder is mounted noexec, as some phones' storage is."""

    async def run(self, argv: Sequence[str], deadline_s: float, stdin: bytes = b"") -> Completed:
        script = 'mount --bind "$0" "$0" && mount -o remount,bind,noexec "$0" && exec "$@"'
        within = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script)
        return await LocalRemote.run(self, (*within, str(self.folder), *argv), deadline_s, stdin)


async def test_a_folder_mounted_noexec_is_named(tmp_path: Path) -> None:
    remote = Noexec.of(tmp_path / "remote", OWNER)
    bundle = runtime(tmp_path, mapped("ld-linux"))
    remote.folder.mkdir()
    with pytest.raises(RemoteFault, match=r"of runs is mounted noexec: .*denied") as caught:
        await require(remote, bundle, "here")
    assert caught.value.kind is FaultKind.NO_EXEC
    assert not (remote.folder / bundle.tree.digest).exists()


async def test_a_phone_with_too_little_space_is_named(phone: Phone, tmp_path: Path) -> None:
    needs = NEEDS.model_copy(update={"storage_bytes": 200 << 20})
    bundle = runtime(tmp_path, mapped("ld-linux"), needs)
    await phone.set_faults(faults.FullStorage(free_bytes=100 << 20))
    with pytest.raises(RemoteFault, match=r"MiB are free, and a push needs 200 MiB") as caught:
        await require(phone.remote, bundle, "here")
    assert caught.value.kind is FaultKind.STORAGE_FULL


async def test_quarantine_holds_a_phone_on_which_a_bundle_does_not_start(
    phone: Phone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes, keeps and runs files, and would fail every run again."""
    built = [runtime(tmp_path, b"#!/system/bin/sh\nkill -s SYS $$\n")]

    async def runtimes_built(self: Content, arch: str) -> list[Runtime]:
        return built

    async def announce(_: object) -> None:
        return

    monkeypatch.setattr(Content, "runtimes_built", runtimes_built)
    phones = Phones(OWNER, tmp_path, announce)
    device = builders.phone()
    phones.present.here[device.id] = PresentPhone(phone.running.address, device, phone.remote)
    prober = PhoneProbe(phones, Content(tmp_path, tmp_path))
    found = await prober.probe(device)
    assert not found.passed
    assert "litert-here here: a seccomp filter killed the bundle's loader" in found.why
    built.clear()
    assert (await prober.probe(device)).passed


async def test_this_hosts_noexec_is_real(tmp_path: Path) -> None:
    """The remote above does what it says: else its test would pass for another reason."""
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho ran\n")
    program.chmod(0o755)
    remote = Noexec.of(tmp_path, OWNER)
    assert subprocess.run([program], capture_output=True, check=True).stdout == b"ran\n"
    assert (await remote.run((str(program),), 10)).exit_code == 126
