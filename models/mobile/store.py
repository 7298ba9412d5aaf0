"""The store of models and data sets: every file under the SHA-256 of its content.

`objects/<sha256>` are the files; the object of a folder is a listing of its files, which stay in
their place. `names/<algorithm>-<digest>` maps a published checksum to an object, and
`pins/<workload>/<dataset>/<part>` maps a part without a published checksum to the object that was
added. `origins/<kind>/<part>/<sha256>` has the published checksums that vouch for an object as such
a part.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from socket import gethostname
from typing import Any, BinaryIO, Final

from controller.contracts.documents import load_json, read_limited
from controller.contracts.folders import named_folder
from controller.contracts.mobile import DatasetPart, ModelFile, OnDevice
from controller.platform.atomic import replacing
from models.mobile.errors import ContentDiffers, FileUnreadable, NotInStore
from models.mobile.remedies import command_for

FOLDER_MARK: Final = "benchfarm folder"
CHUNK_BYTES: Final = 1 << 20
_CHECKSUM: Final = re.compile(rb"sha256:[0-9a-f]{64}|md5:[0-9a-f]{32}")
_VOUCHER: Final = rb"(?:%s) \([\w.-]+\)" % _CHECKSUM.pattern
_ORIGIN: Final = re.compile(rb"%s(?:, %s)*" % (_VOUCHER, _VOUCHER), re.ASCII)
MAX_ORIGIN_BYTES: Final = 1 << 12
LONGEST_PATH: Final = 300
"""Most characters of a path in a message, since it may come from a damaged file."""
MAX_LISTING_BYTES: Final = 1 << 28
"""Largest listing of a folder."""
OnBytes = Callable[[int, int], None]
"""Called with the bytes of a file that are read, and those of the whole."""


def models_folder(home: Path, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the store's folder: BENCHFARM_MODELS, else a folder in the farm's home.

    Raises HomeUnusable.
    """
    return named_folder("BENCHFARM_MODELS", home / "models", environ)


def digests(path: Path, on_bytes: OnBytes = lambda done, total: None) -> dict[str, str]:
    """Return a file's checksums by algorithm, in the format of manifests; raises OSError."""
    with path.open("rb") as file:
        return digests_of(_chunks(file, on_bytes))


def _chunks(file: BinaryIO, on_bytes: OnBytes) -> Iterator[bytes]:
    done, total = 0, os.fstat(file.fileno()).st_size
    on_bytes(done, total)
    while chunk := file.read(CHUNK_BYTES):
        yield chunk
        done += len(chunk)
        on_bytes(done, total)


def digests_of(chunks: Iterable[bytes]) -> dict[str, str]:
    """Return the checksums of a content; see `digests`."""
    found = {"sha256": hashlib.sha256(), "md5": hashlib.md5(usedforsecurity=False)}
    for chunk in chunks:
        for digest in found.values():
            digest.update(chunk)
    return {name: f"{name}:{digest.hexdigest()}" for name, digest in found.items()}


@dataclass(frozen=True, slots=True)
class Store:
    """Files by content; each is written to a temporary file and renamed."""

    folder: Path

    def add(self, path: Path) -> dict[str, str]:
        """Copy a file, or list a folder; return its checksums. Raises OSError."""
        if path.is_dir():
            return self._add_folder(path)
        found = digests(path)
        target = self._object(found["sha256"])
        if not _is_content(target, found):
            with _replacing(target) as new:
                shutil.copyfile(path, new)
            if digests(target) != found:
                target.unlink()
                raise ContentDiffers(
                    f"add {path}", "it changed while it was copied", "Add it again."
                )
        self._name(found["md5"], found["sha256"])
        return found

    def take(self, path: Path) -> dict[str, str]:
        """Move a file of this file system into the store; return its checksums. Raises OSError."""
        found = digests(path)
        target = self._object(found["sha256"])
        target.parent.mkdir(parents=True, exist_ok=True)
        self._name(found["md5"], found["sha256"])  # first: a name alone is no file
        path.replace(target)
        return found

    def pin(self, key: str, checksum: str) -> None:
        """Pin an object as a part without a published checksum."""
        with _replacing(self.folder / "pins" / key) as new:
            new.write_text(checksum)

    def pinned(self, key: str) -> str | None:
        """Return the pinned checksum of a part, or None."""
        path = self.folder / "pins" / key
        return _checksum_in(path) if path.exists() else None

    def vouch(self, what: str, sha256: str, origin: str) -> None:
        """Keep which published checksums vouch for an object; what: KIND/PART of data sets."""
        with _replacing(self._origin(what, sha256)) as new:
            new.write_text(origin)

    def origin(self, what: str, sha256: str) -> str | None:
        """Return what vouches for an object; None: nothing, or its record is damaged."""
        try:
            found = read_limited(self._origin(what, sha256), MAX_ORIGIN_BYTES)
        except (OSError, ValueError):
            return None
        return found.decode() if _ORIGIN.fullmatch(found) else None

    def has(self, checksum: str) -> bool:
        """Return whether a file or folder was added; its content need not be readable."""
        named = checksum.startswith("sha256:") or self._name_of(checksum).exists()
        return named and self._object(self._sha256_of(checksum)).exists()

    def contents(self) -> list[str]:
        """Return the checksums of all files and folders, and the keys of pinned parts.

        Opens none of them; raises OSError.
        """
        objects = (f"sha256-{path.name}" for path in _listed(self.folder / "objects"))
        names = (path.name for path in _listed(self.folder / "names"))
        found = [name.replace("-", ":", 1) for name in (*objects, *names)]
        pins = self.folder / "pins"
        keys = [path.relative_to(pins).as_posix() for path in files_in(pins)]
        return sorted(word for word in found if _CHECKSUM.fullmatch(word.encode())) + keys

    def find(self, checksum: str) -> Path | None:
        """Return the file or folder with a checksum, or None if it was not added."""
        if not self.has(checksum):
            return None
        target = self._object(self._sha256_of(checksum))
        listing = _listing(target)
        return Path(listing["folder"]) if listing else target

    def verify(self, checksum: str, on_bytes: OnBytes = lambda done, total: None) -> str | None:
        """Return what is wrong with an added object, or None if it is intact."""
        sha256 = self._sha256_of(checksum)
        target = self._object(sha256)
        found = digests(target, on_bytes)
        if found["sha256"] != sha256 or checksum not in found.values():
            return f"its checksum is {found[checksum.partition(':')[0]]}"
        listing = _listing(target)
        if listing is None:
            return None
        return next(_differences(Path(listing["folder"]), listing["files"], on_bytes), None)

    def _sha256_of(self, checksum: str) -> str:
        if checksum.startswith("sha256:"):
            return checksum
        return _checksum_in(self._name_of(checksum))

    def _add_folder(self, path: Path) -> dict[str, str]:
        path = path.absolute()
        files = {f.relative_to(path).as_posix(): digests(f)["sha256"] for f in files_in(path)}
        content = {"kind": FOLDER_MARK, "folder": str(path), "files": files}
        text = json.dumps(content, sort_keys=True).encode()
        checksum = f"sha256:{hashlib.sha256(text).hexdigest()}"
        with _replacing(self._object(checksum)) as new:
            new.write_bytes(text)
        return {"sha256": checksum}

    def _name(self, checksum: str, sha256: str) -> None:
        with _replacing(self._name_of(checksum)) as new:
            new.write_text(sha256)

    def _name_of(self, checksum: str) -> Path:
        return self.folder / "names" / checksum.replace(":", "-")

    def _origin(self, what: str, sha256: str) -> Path:
        return self.folder / "origins" / what / sha256.removeprefix("sha256:")

    def _object(self, sha256: str) -> Path:
        return self.folder / "objects" / sha256.removeprefix("sha256:")


def model_file(store: Store, package: Path, model: ModelFile, key: str) -> Path:
    """Return a model's file after checking its checksum; `key` names it: WORKLOAD/models/NUMERICS.

    Raises NotInStore, ContentDiffers, FileUnreadable.
    """
    if model.path is None:
        return stored(store, model, key)
    own, wanted = (package / model.path).resolve(), str(model.checksum)
    if not own.is_relative_to(package.resolve()):
        raise ContentDiffers(
            f"use {model.path} ({key}.path)",
            "it is outside the models package",
            "Add the file with `benchfarm models add` instead.",
        )
    with readable(f"{key}.path", "Reinstall benchfarm, or correct the path in the task."):
        seen = digests(own)[wanted.partition(":")[0]]
    if seen != wanted:
        raise ContentDiffers(
            f"use {own.name} ({key}.checksum)", f"it is {seen}, not {wanted}", "Reinstall it."
        )
    return own


def stored(store: Store, part: ModelFile | DatasetPart, key: str, kind: str | None = None) -> Path:
    """Return a checked file or folder of the store; kind: that of its data set.

    Raises NotInStore, ContentDiffers, FileUnreadable.
    """
    with readable(key):
        checksum = part.checksum or store.pinned(key)
        found = store.find(checksum) if checksum else None
        if checksum is None or found is None:
            raise _missing(key, part, kind)
        _require_whole(store, checksum, found, key)
    return found


@contextmanager
def readable(field: str, remedy: str = "Make it readable, or remove it.") -> Iterator[None]:
    """Convert OSError to FileUnreadable; `field`: the field of the manifest that needs the file."""
    try:
        yield
    except OSError as error:
        tried = f"read {error.filename} ({field})" if error.filename else f"read {field}"
        raise FileUnreadable(tried, error.strerror or str(error), remedy) from error


def pins_of(
    store: Store, name: str, workload: OnDevice, numerics: str, dataset: str | None
) -> dict[str, str]:
    """Return the pinned checksums of a task's files without published ones."""
    parts = workload.datasets[dataset].parts if dataset else {}
    keys = [f"{name}/models/{numerics}", *(f"{name}/{dataset}/{part}" for part in parts)]
    return {key: pinned for key in keys if (pinned := store.pinned(key))}


def _require_whole(store: Store, checksum: str, path: Path, field: str) -> None:
    if seen := store.verify(checksum):
        raise ContentDiffers(
            f"use {str(path)[:LONGEST_PATH]} ({field}.checksum)",
            f"{seen}, not {checksum}",
            "Add it again with `benchfarm models add`, or fetch it again.",
        )


def _missing(key: str, part: ModelFile | DatasetPart, kind: str | None) -> NotInStore:
    host, command = gethostname(), command_for(key, part, kind)
    at = f"; its source is {part.source}" if part.source else ""
    remedy = f"Run `{command}` there{at}."
    return NotInStore(f"find {key}", f"it is not in the store of host {host}", remedy)


def _differences(folder: Path, files: Mapping[str, str], on_bytes: OnBytes) -> Iterator[str]:
    for path in files_in(folder):
        if path.relative_to(folder).as_posix() not in files:
            yield f"{path} is new"
    for name, sha256 in files.items():
        path = folder / name
        if not path.is_file():
            yield f"{path} is gone"
        elif digests(path, on_bytes)["sha256"] != sha256:
            yield f"{path} has changed"


def _is_content(path: Path, wanted: Mapping[str, str]) -> bool:
    """Return whether a file has these checksums; one that can't be read has to be replaced."""
    try:
        return digests(path) == wanted
    except OSError:
        return False


def _listing(path: Path) -> dict[str, Any] | None:
    """Return the listing in a folder's object, or None if the object is a file."""
    with path.open("rb") as file:
        if file.read(1) != b"{":
            return None
    try:
        content = load_json(read_limited(path, MAX_LISTING_BYTES), MAX_LISTING_BYTES)
    except ValueError:
        return None
    if not isinstance(content, dict) or content.get("kind") != FOLDER_MARK:
        return None
    folder, files = content.get("folder"), content.get("files")
    return content if isinstance(folder, str) and isinstance(files, dict) else None


def _checksum_in(path: Path) -> str:
    """Return the checksum in a small file of the store; raises OSError if it is damaged."""
    found = path.read_bytes()
    if not _CHECKSUM.fullmatch(found):
        raise OSError(errno.EIO, "it holds no checksum", str(path))
    return found.decode()


def _listed(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.exists() else []


def files_in(folder: Path) -> list[Path]:
    """Return all files below a folder, sorted."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _replacing(target: Path) -> AbstractContextManager[Path]:
    target.parent.mkdir(parents=True, exist_ok=True)
    return replacing(target)
