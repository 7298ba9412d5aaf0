"""Where whole contents of artefacts are: a folder of the head, or any address that fsspec knows.

What still arrives is always in the head's folder, since it is written piece by piece; a content
goes to its place once it is whole and checked. The index stays in the folder, too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol

from controller.contracts.errors import UserError
from controller.contracts.retention import FOLDER
from controller.platform.atomic import sync_folder, write_private
from controller.platform.private_files import read_private

if TYPE_CHECKING:
    from fsspec.spec import AbstractFileSystem

WHOLE: Final = "content"
ADDRESS: Final = "address"
"""Name of the file that has the address of contents that are elsewhere."""
PIECE_BYTES: Final = 2**20
MOST_CHARACTERS: Final = 1000


class ContentPlace(Protocol):
    """Where whole contents are, by their SHA-256. Every call may raise OSError."""

    is_near: bool
    """Whether looking for a content costs nothing."""

    def has(self, sha256: str) -> bool:
        """Return whether a content is there; called before each one is taken."""
        ...

    def names(self) -> list[str]:
        """Return the names of all files there, sorted; called by a check."""
        ...

    def kept_bytes(self, sha256: str) -> int:
        """Return the bytes of a content's file; called when it has come."""
        ...

    def take(self, file: Path, sha256: str, pause: Callable[[], None]) -> None:
        """Move a whole file of the head there; it is there whole, or not at all.

        pause: called between pieces; returns when they may go on.
        """
        ...

    def open(self, sha256: str) -> BinaryIO:
        """Open a content for reading from any byte on; called for each that is fetched."""
        ...

    def remove(self, sha256: str) -> None:
        """Remove a content, if it is there; called by retention."""
        ...


class FolderPlace:
    """Implements ContentPlace on the head's disk."""

    is_near = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder / WHOLE

    def __str__(self) -> str:
        return str(self._folder)

    def has(self, sha256: str) -> bool:
        """See ContentPlace."""
        return self.path(sha256).is_file()

    def names(self) -> list[str]:
        """See ContentPlace."""
        return sorted(path.name for path in self._folder.glob("*/*") if path.is_file())

    def kept_bytes(self, sha256: str) -> int:
        """See ContentPlace."""
        return self.path(sha256).stat().st_size

    def take(self, file: Path, sha256: str, pause: Callable[[], None]) -> None:
        """See ContentPlace; it is only renamed, so there is nothing to pause."""
        target = self.path(sha256)
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.replace(target)
        sync_folder(target.parent)

    def open(self, sha256: str) -> BinaryIO:
        """See ContentPlace."""
        return self.path(sha256).open("rb")

    def remove(self, sha256: str) -> None:
        """See ContentPlace; who reads it reads on."""
        self.path(sha256).unlink(missing_ok=True)

    def path(self, sha256: str) -> Path:
        """Return where a content is."""
        return self._folder / sha256[:2] / sha256


class FsspecPlace:
    """Implements ContentPlace on a file system of fsspec."""

    is_near = False

    def __init__(self, files: AbstractFileSystem, root: str) -> None:
        self._files = files
        self._root = f"{root.rstrip('/')}/{WHOLE}"
        protocols = files.protocol
        self._is_local = "file" in ((protocols,) if isinstance(protocols, str) else protocols)

    def __str__(self) -> str:
        return str(self._files.unstrip_protocol(self._root))

    def has(self, sha256: str) -> bool:
        """See ContentPlace."""
        with translated():
            return bool(self._files.isfile(self.path(sha256)))

    def names(self) -> list[str]:
        """See ContentPlace."""
        with translated():
            if not self._files.exists(self._root):
                return []
            return sorted(path.rpartition("/")[2] for path in self._files.find(self._root))

    def kept_bytes(self, sha256: str) -> int:
        """See ContentPlace."""
        with translated():
            return int(self._files.size(self.path(sha256)))

    def take(self, file: Path, sha256: str, pause: Callable[[], None]) -> None:
        """See ContentPlace."""
        target = self.path(sha256)
        with translated():
            self._files.makedirs(target.rpartition("/")[0], exist_ok=True)
            if self._is_local:  # whose transactions may copy, so that a part is seen
                part = f"{target}.part"
                self._copy(file, part, pause)
                self._files.mv(part, target)
            else:
                with self._files.transaction:
                    self._copy(file, target, pause)
        file.unlink(missing_ok=True)

    def _copy(self, file: Path, target: str, pause: Callable[[], None]) -> None:
        with file.open("rb") as source, self._files.open(target, "wb") as there:
            while piece := source.read(PIECE_BYTES):
                pause()
                there.write(piece)
            if self._is_local:
                there.flush()
                os.fsync(there.fileno())

    def open(self, sha256: str) -> BinaryIO:
        """See ContentPlace."""
        with translated():
            opened: BinaryIO = self._files.open(self.path(sha256), "rb")
            return opened

    def remove(self, sha256: str) -> None:
        """See ContentPlace."""
        with translated():
            if self._files.exists(self.path(sha256)):
                self._files.rm_file(self.path(sha256))

    def path(self, sha256: str) -> str:
        """Return where a content is."""
        return f"{self._root}/{sha256[:2]}/{sha256}"


def place_in(folder: Path) -> ContentPlace:
    """Return where the contents of an artefact store are; raises UserError, OSError."""
    address = address_in(folder)
    return place_at(address) if address else FolderPlace(folder)


def place_at(address: str) -> FsspecPlace:
    """Return the place at an address such as s3://BUCKET/PREFIX; raises UserError."""
    tried = f"keep artifacts at {address!r}"
    if not (address.isprintable() and "://" in address and len(address) <= MOST_CHARACTERS):
        raise UserError(tried, "it is no address", "Write PROTOCOL://PATH, as fsspec has them.")
    try:
        # Late: only those whose artifacts are elsewhere need it.
        from fsspec.core import url_to_fs
    except ImportError as error:
        remedy = "Run `pip install benchfarm[artifacts]`."
        raise UserError(tried, "fsspec is not installed", remedy) from error
    try:
        files, root = url_to_fs(address, use_listings_cache=False, skip_instance_cache=True)
    except (ValueError, ImportError, TypeError) as error:
        remedy = "Write an address that fsspec knows, and install what it asks for."
        raise UserError(tried, " ".join(str(error).split()), remedy) from error
    return FsspecPlace(files, root)


def address_in(folder: Path) -> str:
    """Return the address at which the contents of an artefact store are; empty for its own folder.

    Raises UserError for a file that others may have written.
    """
    file = folder / ADDRESS
    if not file.exists():
        return ""
    remedy = "Run `benchfarm up --artifacts ADDRESS`."
    return read_private(file, "find where artifacts are kept", remedy)


def keep_address(folder: Path, address: str) -> None:
    """Have an artefact store keep its contents at an address from now on.

    Raises UserError if it has kept some elsewhere, or if nothing can be written there.
    """
    former = address_in(folder)
    if former == address:
        return
    place, before = place_at(address), place_in(folder)
    tried = f"keep artifacts at {address!r}"
    try:
        if before.names():
            where = folder / ADDRESS
            remedy = f"Copy them to {place}, and write the address to {where} (mode 600)."
            raise UserError(tried, f"there are some at {before}", remedy)
        _try_out(place, folder)
        write_private(folder / ADDRESS, address)
    except OSError as error:
        remedy = "Check the address, and that this user may write there."
        raise UserError(tried, error.strerror or str(error), remedy) from error


def _try_out(place: FsspecPlace, folder: Path) -> None:
    """Write, find and remove a file; raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = f"trial-{os.getpid()}"
    file = folder / name
    file.write_bytes(FOLDER.encode())
    try:
        place.take(file, name, lambda: None)
        found = place.has(name)
        place.remove(name)
    finally:
        file.unlink(missing_ok=True)
    if not found:
        raise OSError("what was written there cannot be found")


@contextmanager
def translated() -> Iterator[None]:
    """Have every error be an OSError: each file system of fsspec raises those of its library."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        said = " ".join(str(error).split()) or type(error).__name__
        raise OSError(said) from error
