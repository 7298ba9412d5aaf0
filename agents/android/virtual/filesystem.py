"""What a phone's commands see: the host's tree, read-only, and the phone's own places in it.

The phone's own: /data/local/tmp, /data/app and /sdcard (in memory, limited in size, gone with the
phone), /system/bin, the sensors below /sys, /proc with nothing but the phone's processes.
"""

from __future__ import annotations

import os
from pathlib import Path

from agents.android.virtual import namespaces, syscalls

HIDDEN = Path("/benchfarm")
"""The phone's memory file system: what is shown elsewhere lies here."""
STORAGE = HIDDEN / "storage"
SYSFS = HIDDEN / "sys"
SERVICES = HIDDEN / "services"
PROPERTIES = HIDDEN / "properties"
SETTINGS = HIDDEN / "settings"
TMP = Path("/data/local/tmp")
COMMANDS = Path("/system/bin")

_SHOWN = {
    TMP: STORAGE / "tmp",
    Path("/data/app"): STORAGE / "app",
    Path("/sdcard"): STORAGE / "sdcard",
    Path("/sys/class/thermal"): SYSFS / "thermal",
    Path("/sys/class/power_supply"): SYSFS / "power_supply",
    Path("/sys/devices/system/cpu"): SYSFS / "cpu",
}
_OWN = frozenset({*_SHOWN, HIDDEN, COMMANDS, Path("/proc")})
_SHARED_MEMORY = Path("/dev/shm")
_MOUNT_FLAGS = syscalls.MS_NOSUID | syscalls.MS_NODEV
_SMALL = "size=16m,mode=755"


def build(root: Path, commands: dict[str, str], storage_bytes: int) -> None:
    """Mount a phone's tree at root and make it this namespace's; called by its process 1.

    `commands` are the scripts of /system/bin by name. Raises OSError.
    """
    syscalls.mount("phone", root, "tmpfs", _MOUNT_FLAGS, _SMALL)
    _expose(Path("/"), root)
    _write_commands(_below(root, COMMANDS), commands)
    syscalls.set_read_only(root, read_only=True, recursive=True)
    namespaces.mount_proc(_below(root, Path("/proc")))
    _mount_memory(_below(root, HIDDEN), _SMALL)
    _below(root, STORAGE).mkdir()
    _mount_memory(_below(root, STORAGE), _storage_options(storage_bytes))
    for place, source in _SHOWN.items():
        _below(root, source).mkdir(parents=True)
        syscalls.bind(_below(root, source), _below(root, place))
    for own in (SERVICES, PROPERTIES, SETTINGS):
        _below(root, own).mkdir()
    if _below(root, _SHARED_MEMORY).is_dir():
        _mount_memory(_below(root, _SHARED_MEMORY), "mode=1777")
    syscalls.change_root(root)


def set_tmp_read_only(read_only: bool) -> None:
    """Forbid or allow writing to /data/local/tmp; raises OSError, EBUSY while files are written."""
    syscalls.set_read_only(TMP, read_only)


def limit_storage(size_bytes: int) -> None:
    """Change the size of the phone's storage; raises OSError if more is in use."""
    flags = syscalls.MS_REMOUNT | _MOUNT_FLAGS
    syscalls.mount("phone", STORAGE, "tmpfs", flags, _storage_options(size_bytes))


def storage_in_use() -> int:
    """Return how many bytes of the phone's storage are taken."""
    found = os.statvfs(STORAGE)
    return (found.f_blocks - found.f_bfree) * found.f_frsize


def _storage_options(size_bytes: int) -> str:
    # 0 would mean unlimited.
    page = os.sysconf("SC_PAGE_SIZE")
    return f"size={max(page, -(-size_bytes // page) * page)},mode=755"


def _mount_memory(target: Path, options: str) -> None:
    syscalls.mount("phone", target, "tmpfs", _MOUNT_FLAGS, options)


def _expose(host: Path, inside: Path) -> None:
    """Show the host's directory inside, but leave the phone's own places empty."""
    present = {entry.name for entry in host.iterdir()} if host.is_dir() else set()
    wanted = {own.relative_to(host).parts[0] for own in _OWN if host in own.parents}
    for name in sorted(present | wanted):
        path, target = host / name, inside / name
        if path in _OWN:
            target.mkdir()
        elif any(path in own.parents for own in _OWN):
            target.mkdir()
            _expose(path, target)
        elif path.is_symlink():
            target.symlink_to(path.readlink())
        elif path.is_dir():
            target.mkdir()
            syscalls.bind(path, target)
        elif path.is_file():
            target.touch()
            syscalls.bind(path, target)


def _write_commands(folder: Path, commands: dict[str, str]) -> None:
    (folder / "sh").symlink_to("/bin/sh")
    for name, script in commands.items():
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)


def _below(root: Path, path: Path) -> Path:
    return root / path.relative_to("/")
