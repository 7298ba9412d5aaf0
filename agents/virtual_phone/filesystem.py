"""The file tree of a phone's commands: its own files, and the host's programs.

From the host: programs and libraries of the system, read-only. Of the phone: /data/local/tmp,
/data/app and /sdcard (in memory, limited in size, gone with the phone), /system/bin, the sensors in
/sys, /dev, /etc, and /proc with only the phone's processes. Nothing else is visible.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agents.virtual_phone import namespaces, syscalls

HIDDEN = Path("/benchfarm")
"""Mount point of the phone's memory file system, parts of which are shown elsewhere."""
STORAGE = HIDDEN / "storage"
SYSFS = HIDDEN / "sys"
SERVICES = HIDDEN / "services"
PROPERTIES = HIDDEN / "properties"
SETTINGS = HIDDEN / "settings"
TMP = Path("/data/local/tmp")
COMMANDS = Path("/system/bin")
SHELL = COMMANDS / "sh"
BIN_API_LEVEL = 29
"""Android 10, the first with /bin; before, scripts that name /bin/sh don't start."""

_SHOWN = {
    TMP: STORAGE / "tmp",
    Path("/data/app"): STORAGE / "app",
    Path("/sdcard"): STORAGE / "sdcard",
    Path("/sys/class/thermal"): SYSFS / "thermal",
    Path("/sys/class/power_supply"): SYSFS / "power_supply",
    Path("/sys/devices/system/cpu"): SYSFS / "cpu",
}
_HOSTS_SHELL = Path("/bin/sh").resolve()
_PROGRAMS = frozenset(map(Path, ("/bin", "/usr/bin")))
_SYSTEM = tuple(
    Path(above) / name
    for above in ("/", "/usr")
    for name in ("bin", "lib", "lib32", "lib64", "libx32")
)
_SYSTEM_FILES = (Path("/etc/alternatives"), Path("/etc/ld.so.cache"))
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_LINKS = {
    Path("/dev/fd"): "/proc/self/fd",
    Path("/dev/ptmx"): "pts/ptmx",
    Path("/dev/stdin"): "fd/0",
    Path("/dev/stdout"): "fd/1",
    Path("/dev/stderr"): "fd/2",
}
_PROC, _TERMINALS, _SHARED_MEMORY = Path("/proc"), Path("/dev/pts"), Path("/dev/shm")
_HOSTS = ("keys", "key-users")
"""Files of /proc about a user instead of a process: the owner's."""
_MOUNT_FLAGS = syscalls.MS_NOSUID | syscalls.MS_NODEV
_SMALL = "size=16m,mode=755"
_SHARED = "size=64m,mode=1777"


@dataclass(frozen=True, slots=True)
class Tree:
    """The contents of a phone's tree."""

    commands: dict[str, str]
    """Name → script in /system/bin."""
    hosts: Sequence[str]
    """Programs of this host to show; empty: all."""
    storage_bytes: int
    api_level: int
    """Selects the layout of Android's own folders."""
    cpuinfo: str | None = None
    """Content of /proc/cpuinfo, if it isn't this host's."""
    meminfo: str | None = None
    """Content of /proc/meminfo, if it isn't this host's."""


def build(root: Path, tree: Tree) -> None:
    """Mount a phone's tree at root and make it this namespace's root; called by its process 1.

    Raises OSError.
    """
    hosts = tree.hosts
    syscalls.mount("phone", root, "tmpfs", _MOUNT_FLAGS, _SMALL)
    _show_system(root, with_bin=tree.api_level >= BIN_API_LEVEL, with_programs=not hosts)
    _show_devices(root)
    _write_commands(_below(root, COMMANDS), tree.commands)
    _show_programs(_below(root, COMMANDS), hosts)
    _write_users(_below(root, Path("/etc")))
    for place in (*_SHOWN, HIDDEN, _PROC, _TERMINALS, _SHARED_MEMORY):
        _below(root, place).mkdir(parents=True, exist_ok=True)
    shell = {} if hosts else {SHELL: str(_HOSTS_SHELL)}
    for link, target in (_LINKS | shell).items():
        _below(root, link).symlink_to(target)
    syscalls.set_restrictions(root, syscalls.READ_ONLY)
    namespaces.mount_proc(_below(root, _PROC))
    for secret in filter(Path.exists, (_below(root, _PROC) / name for name in _HOSTS)):
        syscalls.bind(_below(root, Path("/dev/null")), secret)
    terminals = "newinstance,ptmxmode=666,mode=620"
    syscalls.mount("phone", _below(root, _TERMINALS), "devpts", syscalls.MS_NOSUID, terminals)
    _mount_memory(_below(root, _SHARED_MEMORY), _SHARED)
    _mount_memory(_below(root, HIDDEN), _SMALL)
    _below(root, STORAGE).mkdir()
    _mount_memory(_below(root, STORAGE), _storage_options(tree.storage_bytes))
    for place, source in _SHOWN.items():
        _below(root, source).mkdir(parents=True)
        syscalls.bind(_below(root, source), _below(root, place))
    for own in (SERVICES, PROPERTIES, SETTINGS):
        _below(root, own).mkdir()
    for name, content in (("cpuinfo", tree.cpuinfo), ("meminfo", tree.meminfo)):
        if content is not None:
            own = _below(root, HIDDEN / name)
            own.write_text(content)
            syscalls.bind(own, _below(root, _PROC) / name)
    syscalls.change_root(root)


def restrict_tmp(*, read_only: bool, no_exec: bool) -> None:
    """Forbid or allow writing to /data/local/tmp, and executing files there.

    Raises OSError, EBUSY while files are written.
    """
    forbidden = syscalls.READ_ONLY * read_only | syscalls.NO_PROGRAMS * no_exec
    allowed = (syscalls.READ_ONLY | syscalls.NO_PROGRAMS) & ~forbidden
    syscalls.set_restrictions(TMP, forbidden, allowed)


def limit_storage(size_bytes: int) -> None:
    """Change the size of the phone's storage; raises OSError if more is in use."""
    flags = syscalls.MS_REMOUNT | _MOUNT_FLAGS
    syscalls.mount("phone", STORAGE, "tmpfs", flags, _storage_options(size_bytes))


def storage_in_use() -> int:
    """Return the bytes in use of the phone's storage."""
    found = os.statvfs(STORAGE)
    return (found.f_blocks - found.f_bfree) * found.f_frsize


def _storage_options(size_bytes: int) -> str:
    # 0 would mean unlimited.
    page = os.sysconf("SC_PAGE_SIZE")
    return f"size={max(page, -(-size_bytes // page) * page)},mode=755"


def _mount_memory(target: Path, options: str) -> None:
    syscalls.mount("phone", target, "tmpfs", _MOUNT_FLAGS, options)


def _show_system(root: Path, *, with_bin: bool, with_programs: bool) -> None:
    """Show the host's programs and libraries, merged into /usr or not.

    If they are merged, /bin can be left out; if not, it holds the programs.
    """
    left_out = frozenset[Path]() if with_programs else _PROGRAMS
    restrictions = syscalls.READ_ONLY | syscalls.NO_SETUID | syscalls.NO_DEVICES
    for path in (path for path in (*_SYSTEM, *_SYSTEM_FILES) if path not in left_out):
        if path.is_symlink() and path == Path("/bin") and not with_bin:
            continue
        if path.is_symlink():
            _below(root, path).symlink_to(path.readlink())
        elif path.exists():
            _show(path, _below(root, path), restrictions)


def _show_programs(folder: Path, names: Sequence[str]) -> None:
    """Show some programs of the host, and its shell, each as a separate mount."""
    restrictions = syscalls.READ_ONLY | syscalls.NO_SETUID | syscalls.NO_DEVICES
    for name in ("sh", *names) if names else ():
        found = _HOSTS_SHELL if name == "sh" else shutil.which(name, path="/usr/bin:/bin")
        if found is None:
            raise FileNotFoundError(errno.ENOENT, f"the profile's program {name} is not here")
        _show(Path(found).resolve(), folder / name, restrictions)


def _show_devices(root: Path) -> None:
    restrictions = syscalls.READ_ONLY | syscalls.NO_SETUID | syscalls.NO_PROGRAMS
    for name in _DEVICES:
        _show(Path("/dev") / name, _below(root, Path("/dev")) / name, restrictions)


def _show(source: Path, target: Path, restrictions: int) -> None:
    folder = target if source.is_dir() else target.parent
    folder.mkdir(parents=True, exist_ok=True)
    if folder != target:
        target.touch()
    syscalls.bind(source, target)
    syscalls.restrict(target, restrictions)


def _write_commands(folder: Path, commands: dict[str, str]) -> None:
    folder.mkdir(parents=True)
    for name, script in commands.items():
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)


def _write_users(folder: Path) -> None:
    user, group = os.getuid(), os.getgid()
    folder.mkdir(exist_ok=True)
    (folder / "passwd").write_text(f"shell:x:{user}:{group}::{TMP}:{SHELL}\n")
    (folder / "group").write_text(f"shell:x:{group}:\n")


def _below(root: Path, path: Path) -> Path:
    return root / path.relative_to("/")
