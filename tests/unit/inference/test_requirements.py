"""A phone that can't start a bundle is refused by name, before the bundle is pushed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

import pytest

from agents.inference.bundle.requirements import Requirements, derived
from agents.inference.content import Runtime
from agents.inference.requirements import Start, SystemFacts, unmet, untold
from agents.inference.requirements_check import checks_of
from agents.inference.requirements_probe import look, require, told_of_system, with_start
from agents.remotes.remote import (
    NO_ENVIRONMENT,
    Completed,
    Ended,
    FaultKind,
    Pushed,
    RemoteFault,
)
from agents.remotes.tree import Tree
from controller.contracts.checks import Health
from controller.contracts.result import Blame
from tests.unit.inference.test_bundle_elf import elf, note

NEEDS = Requirements(kernel=(3, 7, 0), page_bytes=16384, storage_bytes=230 << 20)
SYSTEM = {
    "kernel": "5.10.110-android13-4-00001-gabcdef",
    "version": "",
    "machine": "aarch64",
    "page_bytes": "4096",
    "page_size": "",
    "selinux": "u:r:shell:s0",
    "seccomp": "Seccomp:\t0",
}
DF = "Filesystem 1K-blocks Used Available Use% Mounted on\n/dev/dm-5 9 1 {} 1% /data\n"
START = {"status": "0", "said": "GNU C Library", "at": "/data/local/tmp/benchfarm/runs"}
MOUNTS = "/dev/dm-0 / ext4 ro,noexec 0 0\n/dev/dm-5 /data f2fs rw,nosuid 0 0\n"
NOEXEC = MOUNTS.replace("rw,nosuid", "rw,nosuid,noexec")
DENIED = "sh: /data/local/tmp/x: can't execute: Permission denied"


def lines(said: Mapping[str, str]) -> str:
    return "".join(f"{name}: {value}\n" for name, value in said.items())


@dataclass
class ScriptedPhone:
    """Answers both questions; notes what is pushed to it."""

    system: Mapping[str, str] = field(default_factory=dict)
    start: Mapping[str, str] = field(default_factory=dict)
    free_kib: int = 1 << 20
    mounts: str = MOUNTS
    refuses: Completed | None = None
    pushed: list[Tree] = field(default_factory=list)

    async def run(self, argv: Sequence[str], deadline_s: float, stdin: bytes = b"") -> Completed:
        if "df" not in argv[2]:
            return Completed(0, lines(SYSTEM | dict(self.system)).encode(), b"")
        if self.refuses:
            return self.refuses
        told = START | dict(self.start)
        mounts = self.mounts if told["status"] != "0" else ""
        text = DF.format(self.free_kib) + f"--\n{lines(told)}--\n{mounts}"
        return Completed(0, text.encode(), b"")

    async def stream(
        self,
        argv: Sequence[str],
        deadline_s: float,
        on_line: Callable[[bytes], None],
        environment: Mapping[str, str] = NO_ENVIRONMENT,
    ) -> Ended:
        raise AssertionError("nothing is measured")

    async def push_tree(self, tree: Tree) -> Pushed:
        self.pushed.append(tree)
        return Pushed(PurePosixPath("/data/local/tmp/benchfarm") / tree.digest, 7)

    async def pull(self, source: PurePosixPath, target: Path) -> None:
        raise AssertionError("nothing is fetched")

    async def clean(self) -> int:
        return 0


def runtime(needs: Requirements = NEEDS) -> Runtime:
    nowhere = Path("/nowhere")
    tree, starter = Tree(nowhere, 0, {"run": "program 1"}), Tree(nowhere, 0, {"ld.so": "file 1"})
    return Runtime("litert-arm64-v8a", tree, starter, "ld.so", needs)


SMALL_PAGES = NEEDS.model_copy(update={"page_bytes": 4096})
BEFORE, AFTER = 0, 1
"""How many trees are pushed before it is found: none, or the small one that is tried."""
VIOLATIONS: Mapping[str, tuple[ScriptedPhone, Requirements, FaultKind, str, int]] = {
    "kernel too old": (
        ScriptedPhone({"kernel": "3.4.113"}),
        NEEDS,
        FaultKind.UNSUPPORTED,
        "kernel 3.4.113 is older than 3.7.0. Use a device with a newer kernel",
        BEFORE,
    ),
    "kernel too old, told by /proc/version": (
        ScriptedPhone({"kernel": "", "version": "Linux version 2.6.35-gfoo (a@b) #1"}),
        NEEDS,
        FaultKind.UNSUPPORTED,
        "kernel 2.6.35 is older than 3.7.0",
        BEFORE,
    ),
    "32-bit kernel": (
        ScriptedPhone({"machine": "armv7l"}),
        NEEDS,
        FaultKind.UNSUPPORTED,
        "its kernel is 32-bit (armv7l). Use a device with a 64-bit system",
        BEFORE,
    ),
    "32-bit userland": (
        ScriptedPhone({"machine": "armv8l"}, {"status": "126", "said": "not executable: ELF"}),
        NEEDS,
        FaultKind.UNSUPPORTED,
        "its userland is 32-bit, and no 64-bit program starts: not executable: ELF",
        AFTER,
    ),
    "16 KiB pages with misaligned segments": (
        ScriptedPhone({"page_bytes": "16384"}),
        SMALL_PAGES,
        FaultKind.UNSUPPORTED,
        "pages have 16384 bytes; the bundle's segments are aligned for 4096 at most",
        BEFORE,
    ),
    "16 KiB pages, without getconf": (
        ScriptedPhone({"page_bytes": "", "page_size": "KernelPageSize:       16 kB"}),
        SMALL_PAGES,
        FaultKind.UNSUPPORTED,
        "pages have 16384 bytes",
        BEFORE,
    ),
    "too little free space": (
        ScriptedPhone(free_kib=100 << 10),
        NEEDS,
        FaultKind.STORAGE_FULL,
        "100 MiB are free, and a push needs 230 MiB. Free space there; on a phone, `benchfarm",
        AFTER,
    ),
    "noexec": (
        ScriptedPhone(start={"status": "126", "said": DENIED}, mounts=NOEXEC),
        NEEDS,
        FaultKind.NO_EXEC,
        f"the folder of runs is mounted noexec: {DENIED}",
        AFTER,
    ),
    "SELinux domain that may not execute": (
        ScriptedPhone(start={"status": "126", "said": DENIED}),
        NEEDS,
        FaultKind.NO_EXEC,
        f"SELinux domain u:r:shell:s0 may not execute pushed files: {DENIED}",
        AFTER,
    ),
    "execution denied, domain not told": (
        ScriptedPhone({"selinux": ""}, {"status": "126", "said": DENIED}),
        NEEDS,
        FaultKind.NO_EXEC,
        "the adb shell (SELinux domain unknown) may not execute",
        AFTER,
    ),
    "seccomp": (
        ScriptedPhone({"seccomp": "Seccomp:\t2"}, {"status": "159", "said": ""}),
        NEEDS,
        FaultKind.NO_EXEC,
        "a seccomp filter killed the bundle's loader (SIGSYS)",
        AFTER,
    ),
    "another signal": (
        ScriptedPhone(start={"status": "139", "said": ""}),
        NEEDS,
        FaultKind.NO_EXEC,
        "the bundle's loader does not start: it died of SIGSEGV",
        AFTER,
    ),
    "the loader's own words": (
        ScriptedPhone(start={"status": "127", "said": "FATAL: kernel too old"}),
        NEEDS,
        FaultKind.NO_EXEC,
        "the bundle's loader does not start: FATAL: kernel too old",
        AFTER,
    ),
}


@pytest.mark.parametrize("name", VIOLATIONS)
async def test_each_violation_is_refused_by_name_before_the_bundle_is_pushed(name: str) -> None:
    planted, needs, kind, words, pushed = VIOLATIONS[name]
    phone, bundle = replace(planted, pushed=[]), runtime(needs)
    with pytest.raises(RemoteFault) as caught:
        await require(phone, bundle, "phone-1")
    fault = caught.value
    assert (fault.kind, fault.blame) == (kind, Blame.DEVICE)
    message = str(fault)
    assert message.startswith("phone-1: cannot run bundle litert-arm64-v8a here: ")
    assert words in message
    assert "\n" not in message
    assert phone.pushed == [bundle.starter][:pushed]


@pytest.mark.parametrize("name", VIOLATIONS)
async def test_the_doctor_says_the_same(name: str) -> None:
    phone, needs, _, words, _ = VIOLATIONS[name]
    found = list(checks_of("bundle", await look(phone, runtime(needs), "phone-1")))
    assert [check.health for check in found] == [Health.MEND]
    assert words.partition(". ")[0] in found[0].seen
    assert found[0].remedy


async def test_a_phone_that_is_well_is_told_with_what_was_seen() -> None:
    phone, bundle = ScriptedPhone(), runtime()
    seen = await require(phone, bundle, "phone-1")
    assert (seen.pushed_bytes, phone.pushed, untold(seen.told)) == (7, [bundle.starter], ())
    (check,) = checks_of("bundle", seen)
    assert check.health is Health.WELL
    assert check.seen == (
        "kernel 5.10.110, pages of 4096 bytes, 1024 MiB free, SELinux domain u:r:shell:s0, "
        "seccomp off, its loader ran"
    )


async def test_a_bundle_that_lies_there_takes_no_more_space() -> None:
    phone = ScriptedPhone(start={"pushed": "yes"}, free_kib=100 << 10)
    assert (await require(phone, runtime(), "phone-1")).told.pushed


async def test_several_lacks_are_one_line() -> None:
    phone = ScriptedPhone({"kernel": "3.4.0", "machine": "armv7l"})
    with pytest.raises(RemoteFault, match=r"3\.4\.0 is older than 3\.7\.0; its kernel is 32-bit"):
        await require(phone, runtime(), "phone-1")


@pytest.mark.parametrize(
    ("system", "start", "names"),
    [
        ({"kernel": "", "version": "Permission denied"}, {}, ["kernel version"]),
        ({"page_bytes": "", "page_size": "?"}, {}, ["page size"]),
        ({}, {"status": "?"}, ["start of a program"]),
        ({"kernel": "9" * 400, "version": "\x1b[31m"}, {}, ["kernel version"]),
        ({"machine": "x86_64", "selinux": "", "seccomp": ""}, {}, []),
    ],
)
async def test_what_is_not_told_is_not_held_against_a_phone_but_is_said(
    system: Mapping[str, str], start: Mapping[str, str], names: list[str]
) -> None:
    seen = await require(ScriptedPhone(system, start), runtime(), "phone-1")
    assert list(untold(seen.told)) == names
    unknown = [c.seen for c in checks_of("b", seen) if c.health is Health.UNKNOWN]
    assert unknown == [f"the phone does not report its {name}" for name in names]


def test_of_a_phone_that_tells_nothing_everything_is_named() -> None:
    told = with_start(told_of_system(""), "df: /data: Permission denied\n--\n--\n")
    assert unmet(NEEDS, told) == []
    assert untold(told) == ("kernel version", "page size", "free storage", "start of a program")


async def test_a_phone_that_takes_no_files_is_refused_in_its_own_words() -> None:
    phone = ScriptedPhone(refuses=Completed(1, b"", b"mkdir: runs: Read-only file system\n"))
    with pytest.raises(RemoteFault, match="cannot start the bundle's loader: mkdir") as caught:
        await require(phone, runtime(), "phone-1")
    assert caught.value.kind is FaultKind.READ_ONLY


def test_a_32_bit_shell_on_which_64_bit_programs_start_is_well() -> None:
    told = SystemFacts(kernel=(4, 9, 0), machine="armv8l", page_bytes=4096, start=Start(0))
    assert unmet(NEEDS, told) == []


def test_the_oldest_kernel_is_that_of_the_neediest_file(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    (bundle / "lib").mkdir(parents=True)
    (bundle / "lib/libc.so.6").write_bytes(note((0, 3, 7, 0)))
    (bundle / "lib/ld.so").write_bytes(note((0, 3, 2, 9)))
    (bundle / "lib/of_hurd.so").write_bytes(note((1, 9, 9, 9)))
    (bundle / "lib/of_nothing.so").write_bytes(elf())
    (bundle / "lib/cut.so").write_bytes(elf()[:-1])
    (bundle / "run").write_text("#!/bin/sh\n")
    archive = tmp_path / "bundle.tar"
    archive.write_bytes(bytes(1 << 20))
    found = derived(bundle, archive, 16384)
    assert (found.kernel, found.page_bytes) == ((3, 7, 0), 16384)
    assert found.storage_bytes > 2 << 20
