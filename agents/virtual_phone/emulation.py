"""Programs of another processor on a virtual phone: the kernel runs them with qemu.

A user namespace around the phone's own has its own table of program formats (binfmt_misc, Linux
6.7), which names qemu; the host's table is unchanged.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from agents.virtual_phone import syscalls
from agents.virtual_phone.errors import PhoneNotRunning

ABIS = {"x86_64": "x86_64", "aarch64": "arm64-v8a", "armv7l": "armeabi-v7a", "i686": "x86"}
"""Machine name of the kernel → Android's ABI."""
_FORMATS = Path("/proc/sys/fs/binfmt_misc")
_ASKED_S = 10.0


@dataclass(frozen=True, slots=True)
class Processor:
    """A processor that can be emulated."""

    program: str
    """Name of qemu's program; in Debian possibly with the suffix `-static`."""
    model: str
    """Name of the model in qemu. The default has SVE, with which XNNPACK's int8 kernels give wrong
    results."""
    magic: bytes
    mask: bytes
    """Mask of the magic: matches executable ELF files (elf(5))."""
    core: str
    """Text of each core in /proc/cpuinfo, by which a runtime chooses its kernels."""


PROCESSORS = {
    "arm64-v8a": Processor(
        program="qemu-aarch64",
        model="cortex-a76",
        magic=b"\x7fELF\x02\x01\x01\x00" + bytes(8) + b"\x02\x00\xb7\x00",
        mask=b"\xff\xff\xff\xff\xff\xff\xff\x00" + b"\xff" * 8 + b"\xfe\xff\xff\xff",
        core="BogoMIPS\t: 50.00\n"
        "Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid"
        " asimdrdm lrcpc dcpop asimddp\n"
        "CPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x4\n"
        "CPU part\t: 0xd0b\nCPU revision\t: 1\n",
    )
}
"""ABI → processor."""


@dataclass(frozen=True, slots=True)
class Emulator:
    """A qemu on this host, for programs of one ABI."""

    processor: Processor
    path: Path
    version: str

    @property
    def words(self) -> str:
        """Its description in results."""
        return f"{self.processor.program} {self.version}, {self.processor.model}"

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables of its programs."""
        return {"QEMU_CPU": self.processor.model}

    def cpuinfo(self, cores: int) -> str:
        """Return a phone's /proc/cpuinfo."""
        return "\n".join(f"processor\t: {n}\n{self.processor.core}" for n in range(cores))

    def register(self) -> None:
        """Register it with the kernel; called in a user namespace of its own.

        The mount must stay as long as programs run. Raises OSError.
        """
        syscalls.mount("phone", _FORMATS, "binfmt_misc")
        magic, mask = (
            "".join(f"\\x{byte:02x}" for byte in bits)
            for bits in (self.processor.magic, self.processor.mask)
        )
        # F opens qemu now, since it is not in a phone's tree.
        line = f":{self.processor.program}:M::{magic}:{mask}:{self.path}:F"
        (_FORMATS / "register").write_text(line)


def emulator_for(abi: str | None) -> Emulator | None:
    """Return the emulator for an ABI; None if it is this host's own, or not given.

    Raises PhoneNotRunning if it is not installed.
    """
    if abi is None or abi == ABIS.get(platform.machine()):
        return None
    tried = f"emulate a phone's processor ({abi})"
    processor = PROCESSORS.get(abi)
    if processor is None:
        known = ", ".join(PROCESSORS)
        raise PhoneNotRunning(tried, "no emulator is known for it", f"Choose among {known}.")
    names = (f"{processor.program}-static", processor.program)
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        seen, remedy = (
            f"{processor.program} is not installed",
            "Run `apt-get install qemu-user-static`.",
        )
        raise PhoneNotRunning(tried, seen, remedy)
    try:
        said = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=_ASKED_S, check=True
        )
        version = said.stdout.split()[2]
    except (OSError, subprocess.SubprocessError, IndexError) as error:
        raise PhoneNotRunning(tried, f"{path}: {error}", "Reinstall qemu-user-static.") from error
    return Emulator(processor, Path(path).resolve(), version)
