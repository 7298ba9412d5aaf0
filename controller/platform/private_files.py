"""Secrets on disk, read only from files that no other user could have written, and kept private."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from controller.contracts.errors import UserError
from controller.platform.terminal import say

MAX_CHARACTERS = 4096


def read_private(path: Path, tried: str, remedy: str, remedy_for_theirs: str = "") -> str:
    """Return a secret file's text without surrounding white space.

    remedy_for_theirs: what to do about another user's file, in place of replacing it. Raises
    UserError for a link, another user's file, one that others can open, or an unreadable one.
    """
    try:
        # Not blocking, for it may be a FIFO.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags), encoding="utf-8") as file:
            status = os.fstat(file.fileno())
            if seen := _objection(status):
                is_theirs = status.st_uid != os.geteuid()
                mend = remedy_for_theirs if is_theirs else ""
                mend = mend or f"{remedy} Then run `chmod 600 {path}`."
                raise UserError(tried, seen, mend)
            if status.st_mode & 0o077:
                seen = f"others can read it (mode {_mode(status)})"
                mend = f"Run `chmod 600 {path}`; replace the secret if others use this machine."
                raise UserError(tried, seen, mend)
            return file.read(MAX_CHARACTERS).strip()
    except OSError as error:
        is_link = error.errno == errno.ELOOP
        seen = "it is a symbolic link" if is_link else error.strerror or str(error)
        raise UserError(tried, seen, remedy) from error
    except UnicodeDecodeError as error:
        raise UserError(tried, "it is not text", remedy) from error


def require_private_folder(
    folder: Path, tried: str, remedy: str = "Name a folder of your own that only you can write to."
) -> None:
    """Make a folder private, and print that; raises UserError if it cannot be trusted.

    That is another user's folder, or one with content that others could have put there.
    """
    if os.lstat(folder).st_uid not in (os.geteuid(), 0):  # a link of another's leads anywhere
        raise UserError(tried, _of_another(os.lstat(folder)), remedy)
    status = folder.stat()
    if status.st_uid != os.geteuid():
        raise UserError(tried, _of_another(status), remedy)
    if not status.st_mode & 0o077:
        return
    if status.st_mode & 0o022 and any(folder.iterdir()):
        seen = f"others can write to it (mode {_mode(status)})"
        remedy = f"See what is in it, then run `chmod 700 {folder}`."
        raise UserError(tried, seen, remedy)
    folder.chmod(0o700)
    _tell_of(folder, status)


def _objection(status: os.stat_result) -> str:
    if not stat.S_ISREG(status.st_mode):
        return "it is not a regular file"
    if status.st_uid != os.geteuid():
        return _of_another(status)
    if status.st_mode & 0o022:
        return f"others can write to it (mode {_mode(status)})"
    return ""


def _of_another(status: os.stat_result) -> str:
    return f"it belongs to another user (uid {status.st_uid})"


def _mode(status: os.stat_result) -> str:
    return f"{stat.S_IMODE(status.st_mode):03o}"


def _tell_of(path: Path, status: os.stat_result) -> None:
    said = f"{path} was open to other users (mode {_mode(status)}) and is private now"
    say(f"{said}; replace the secrets in it if others have used this machine", err=True)
