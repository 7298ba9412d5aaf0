"""A folder as a content-addressed tar, and its verification after a push."""

from __future__ import annotations

import hashlib
import io
import os
import stat
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from controller.contracts.base import digest
from controller.contracts.errors import UserError
from controller.platform.atomic import replacing_on_disk

DIRECTORY = "directory"
FEW = 16
"""Most files that are pushed one by one."""

Listing = Mapping[str, str]
"""Path in the tree → `directory`, `link TARGET`, `file SHA256` or `program SHA256`."""


class TreeInvalid(UserError):
    """A folder or tar that can't be pushed."""


def file_entry(sha256: str, *, executable: bool) -> str:
    """Return the listing's entry of a file."""
    return f"{'program' if executable else 'file'} {sha256}"


def link_entry(target: str) -> str:
    """Return the listing's entry of a symbolic link."""
    return f"link {target}"


@dataclass(frozen=True, slots=True)
class Tree:
    """A tar on this host, and the listing of its unpacked files."""

    archive: Path
    archive_bytes: int
    listing: Listing

    @property
    def digest(self) -> str:
        """Digest of the content; trees with equal listings have equal digests."""
        return digest(dict(self.listing), 32)

    @property
    def programs(self) -> list[str]:
        """The paths of executable files."""
        return sorted(p for p, entry in self.listing.items() if entry.startswith("program "))

    @property
    def is_plain(self) -> bool:
        """Whether it is a few files alone: no programs, folders and links."""
        kinds = {entry.split(" ")[0] for entry in self.listing.values()}
        return kinds == {"file"} and len(self.listing) <= FEW

    def contents(self) -> Iterator[tuple[str, IO[bytes]]]:
        """Yield each file's path and content; raises OSError, tarfile.TarError."""
        with tarfile.open(self.archive, "r:") as tar:
            for member in tar:
                content = tar.extractfile(member) if member.isreg() else None
                if content is not None:
                    with content:
                        yield PurePosixPath(member.name).as_posix(), content

    @classmethod
    def of(cls, source: Path, archives: Path) -> Tree:
        """Read a folder, or an uncompressed tar; a folder's tar is kept in `archives`.

        Raises TreeInvalid, also for names and kinds of files that not every remote supports.
        """
        try:
            if not source.is_dir():
                return cls(source, source.stat().st_size, _listing_of_tar(source))
            listing = listing_of_folder(source)
            archive = archives / f"{digest(listing, 32)}.tar"
            if not _is_whole(archive, listing):
                archives.mkdir(parents=True, exist_ok=True)
                _pack(source, listing, archive)
        except (OSError, tarfile.TarError) as error:
            raise _invalid(source, str(error)) from error
        return cls(archive, archive.stat().st_size, listing)

    def unpack(self, folder: Path) -> None:
        """Unpack the archive into a new folder; raises OSError, tarfile.TarError."""
        with tarfile.open(self.archive, "r:") as tar:
            # Debian 12's Python has no filters yet; `of` has checked that no path leads outside.
            tar.extraction_filter = getattr(tarfile, "data_filter", None)
            tar.extractall(folder)


def listing_of_folder(folder: Path) -> dict[str, str]:
    """Return a folder's listing; raises OSError, TreeInvalid."""
    return {name: _entry(folder / name) for name in sorted(_names(folder))}


def differences(wanted: Listing, found: Listing) -> list[str]:
    """Return a line for each path that is missing, superfluous or different."""
    paths = sorted(path for path in wanted.keys() | found.keys() if _differs(wanted, found, path))
    return [_printable(f"{path}: {found.get(path, 'missing')}") for path in paths]


def _differs(wanted: Listing, found: Listing, path: str) -> bool:
    return wanted.get(path) != found.get(path)


def _printable(text: str) -> str:
    """Return the text with escapes for unprintable characters, such as bytes that are no UTF-8."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def _names(folder: Path) -> Iterator[str]:
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = (Path(parent) / name).relative_to(folder).as_posix()
            yield _checked(folder, path)


def _entry(path: Path) -> str:
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return link_entry(_checked_target(path, str(path.readlink())))
    if stat.S_ISDIR(mode):
        return DIRECTORY
    if not stat.S_ISREG(mode):
        raise _invalid(path, "it is neither a file, a folder nor a link")
    with path.open("rb") as file:
        return file_entry(_sha256(file), executable=bool(mode & stat.S_IXUSR))


def _is_whole(archive: Path, listing: Listing) -> bool:
    """Return whether a kept archive has all its files up to their ends; raises OSError.

    Only its headers are read, since the content is verified after each push.
    """
    try:
        with tarfile.open(archive, "r:") as tar:
            return tar.getnames() == list(listing)
    except (FileNotFoundError, tarfile.TarError):
        return False


def _pack(folder: Path, listing: Listing, archive: Path) -> None:
    """Write the same tar for the same content: sorted, without owners and times; on disk, since a
    kept one isn't read again."""
    # GNU's format, since not every phone's tar reads the newer pax headers.
    gnu = tarfile.GNU_FORMAT
    with replacing_on_disk(archive) as new, tarfile.open(fileobj=new, mode="w", format=gnu) as tar:
        for name in listing:
            _add(tar, folder, name)


def _add(tar: tarfile.TarFile, folder: Path, name: str) -> None:
    member = tar.gettarinfo(folder / name, arcname=name)
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    member.mode = 0o755 if member.isdir() or member.mode & stat.S_IXUSR else 0o644
    if member.islnk():  # a hard link is packed as a separate file
        member.type, member.size = tarfile.REGTYPE, (folder / name).stat().st_size
    if member.isreg():
        with (folder / name).open("rb") as content:
            tar.addfile(member, content)
    else:
        tar.addfile(member, io.BytesIO())


def _listing_of_tar(archive: Path) -> dict[str, str]:
    listing: dict[str, str] = {}
    with tarfile.open(archive, "r:") as tar:
        for member in tar:
            name = PurePosixPath(member.name).as_posix()
            if name == ".":
                continue
            _checked(archive, name)
            entries = {str(p): DIRECTORY for p in PurePosixPath(name).parents if str(p) != "."}
            for path, entry in (entries | {name: _member_entry(archive, tar, member)}).items():
                # Otherwise unpacking could write through a link to another place.
                if (other := listing.setdefault(path, entry)) != entry:
                    raise _invalid(archive, f"{path!r} is a {entry} and a {other}")
    return dict(sorted(listing.items()))


def _member_entry(archive: Path, tar: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    if member.issym():
        return link_entry(_checked_target(archive, member.linkname))
    if member.isdir():
        return DIRECTORY
    content = tar.extractfile(member) if member.isreg() else None
    if content is None:
        raise _invalid(archive, f"{member.name} is neither a file, a folder nor a symbolic link")
    with content:
        return file_entry(_sha256(content), executable=bool(member.mode & stat.S_IXUSR))


def _checked(source: Path, name: str) -> str:
    """Return the name if every remote's tools print and read it unchanged; raises TreeInvalid."""
    if name.startswith("/") or ".." in PurePosixPath(name).parts:
        raise _invalid(source, f"{name!r} leads outside it")
    if not name.isprintable() or "\\" in name:
        raise _invalid(source, f"{name!r} has a backslash or an unprintable character")
    return name


def _checked_target(source: Path, target: str) -> str:
    if not target.isprintable():
        raise _invalid(source, f"link to {target!r} has an unprintable character")
    return target


def _invalid(source: Path, seen: str) -> TreeInvalid:
    return TreeInvalid(f"pack {source}", seen, "Give a folder or a plain .tar of files and links.")


def _sha256(file: IO[bytes]) -> str:
    return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
