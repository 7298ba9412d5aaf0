"""Signatures of files by an SSH key, made and checked by OpenSSH's `ssh-keygen` (8.2 or newer)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from controller.contracts.errors import UserError

NAMESPACE: Final = "benchfarm"
"""What a signature is for; one made for anything else is none of a board's."""
SUFFIX: Final = ".sig"
_FINGERPRINT: Final = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")
_CHECK: Final = ("-Y", "check-novalidate", "-n", NAMESPACE)


def fingerprint_of(key: Path) -> str:
    """Return the fingerprint of an SSH key, private or public, as `SHA256:…`; raises UserError."""
    return _fingerprint_in(_answer(key, "-l", "-E", "sha256", "-f", str(key.absolute())), key)


def sign(file: Path, key: Path) -> Path:
    """Write the signature of a file beside it, and return its path.

    key: a private key, or the public one of a key that ssh-agent holds; a passphrase is asked for
    on the terminal. Raises UserError, also if the signature is not of the key that
    `fingerprint_of` tells.
    """
    told = fingerprint_of(key)
    _answer(key, "-Y", "sign", "-n", NAMESPACE, "-f", str(key.absolute()), str(file.absolute()))
    signature = file.with_name(file.name + SUFFIX)
    signed = _fingerprint_in(_answer(key, *_CHECK, "-s", str(signature), content=file), key)
    if signed != told:
        seen = f"{key}.pub is another key's: it signs with {signed}, not {told}"
        raise UserError(f"sign with {key}", seen, f"Remove {key}.pub, or make it again.")
    return signature


def _answer(key: Path, *arguments: str, content: Path | None = None) -> str:
    """Return what ssh-keygen says; raises UserError. content: the file on its standard input."""
    tried = f"sign with {key}"
    program = shutil.which("ssh-keygen")
    if program is None:
        raise UserError(tried, "ssh-keygen is not installed", "Install openssh-client.")
    with Path(content or os.devnull).open("rb") as standard_input:
        done = subprocess.run(
            [program, *arguments],
            stdin=standard_input,
            capture_output=True,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
    said = (done.stdout or b"").decode(errors="replace")
    if done.returncode != 0:
        complained = done.stderr.decode(errors="replace").strip() or said.strip()
        seen = " ".join(complained.split()) or f"ssh-keygen ended with {done.returncode}"
        remedy = "Name a private key that only you can read, such as ~/.ssh/id_ed25519."
        raise UserError(tried, seen, remedy)
    return said


def _fingerprint_in(said: str, key: Path) -> str:
    found = _FINGERPRINT.search(said)
    if found is None:
        remedy = "Update OpenSSH to 8.2 or newer."
        raise UserError(f"sign with {key}", "ssh-keygen names no SHA256 fingerprint", remedy)
    return found[0]
