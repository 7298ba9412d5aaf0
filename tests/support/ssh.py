"""An ssh server on each of some namespaced hosts, and one key that opens all of them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.namespaced_hosts import HOME, REPOSITORY, Host

UNPACKED = REPOSITORY / ".deps/ssh"
"""Where `make test` puts the programs that this machine lacks."""
KEY = HOME / ".ssh/id_ed25519"
_CONFIG = """
Port 22
HostKey {home}/.ssh/host_key
AuthorizedKeysFile {home}/.ssh/authorized_keys
PermitRootLogin yes
PasswordAuthentication no
StrictModes no
PidFile none
SetEnv {environment}
"""


PROGRAMS = HOME / "bin"
"""Where a host finds programs that were unpacked for tests, with their libraries."""


def _environment() -> dict[str, str]:
    """Return what ssh's and benchfarm's programs need; skips the test if there is no server."""
    folders = [Path(sys.executable).parent, UNPACKED / "usr/bin", UNPACKED / "usr/sbin"]
    path = ":".join([*map(str, folders), os.environ.get("PATH", os.defpath), "/usr/sbin"])
    if missing := [p for p in ("sshd", "ssh", "rsync") if not shutil.which(p, path=path)]:
        pytest.skip(f"{', '.join(missing)} not found; make test gets what it can")
    libraries = ":".join(map(str, (UNPACKED / "usr/lib").glob("*-linux-gnu")))
    former = os.environ.get("LD_LIBRARY_PATH")
    return {"PATH": path, "LD_LIBRARY_PATH": f"{libraries}:{former}" if former else libraries}


def serve_ssh(hosts: Sequence[Host]) -> dict[str, str]:
    """Start the servers; return the environment in which the hosts find ssh and benchfarm."""
    environment = _environment()
    found = {name: shutil.which(name, path=environment["PATH"]) for name in ("ssh", "rsync")}
    environment["PATH"] = f"{PROGRAMS}:{environment['PATH']}"
    key = hosts[0].folder / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    pairs = " ".join(f'"{name}={value}"' for name, value in environment.items())
    exports = "".join(f'export {name}="{value}"\n' for name, value in environment.items())
    for host in hosts:
        host.path(KEY.parent).mkdir(mode=0o700)
        host.path(PROGRAMS).mkdir()
        for name, real in found.items():  # a farm hands no LD_LIBRARY_PATH on
            program = host.path(PROGRAMS / name)
            libraries = environment["LD_LIBRARY_PATH"]
            program.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH="{libraries}" exec {real} "$@"\n')
            program.chmod(0o755)
        for name in (KEY.name, "host_key"):
            shutil.copy(key, host.path(KEY.parent / name))  # keeps its mode, 0600
        shutil.copy(key.with_suffix(".pub"), host.path(KEY.parent / "authorized_keys"))
        host.path(KEY.parent / "sshd_config").write_text(
            _CONFIG.format(home=HOME, environment=pairs)
        )
        host.path(HOME / ".profile").write_text(exports)  # /etc/profile has set another PATH
        host.path("/run/sshd").mkdir(mode=0o755)
        _know_user(host, "sshd:x:109:65534::/run/sshd:/usr/sbin/nologin")
        sshd = shutil.which("sshd", path=environment["PATH"])
        server = ("-D", "-e", "-f", str(KEY.parent / "sshd_config"))
        host.start([str(sshd), *server], **environment)
    return environment


def _know_user(host: Host, line: str) -> None:
    """Let a host know a user whom this machine need not have."""
    users = HOME / "passwd"
    host.path(users).write_text(f"{Path('/etc/passwd').read_text()}{line}\n")
    bound = host.run(["mount", "-n", "--bind", str(users), "/etc/passwd"])
    assert bound.returncode == 0, bound.stderr
