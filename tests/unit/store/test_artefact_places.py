"""Artefacts at addresses of fsspec: what is taken, refused, and said if the place fails.

tests/unit/store/test_artefact_store.py holds these places to what the folder promises.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from controller.contracts.artefacts import ArtefactPlace, ArtefactRecord
from controller.contracts.errors import StoreDamaged, StoreUnavailable, UserError
from controller.store.artefacts.contents import Contents
from controller.store.artefacts.folder import ArtefactFolder, FolderArtefacts
from controller.store.artefacts.places import (
    PIECE_BYTES,
    FsspecPlace,
    address_in,
    keep_address,
    place_at,
)
from tests.support.artefacts import SWEEP, artefact, noise, send, sending

CONTENT = noise(3 * PIECE_BYTES)
FILE = artefact(CONTENT, "trace.json")


class Refusal(Exception):
    """What a library raises that knows nothing of OSError."""


class Failing(MemoryFileSystem):  # type: ignore[misc] # fsspec has no types
    """A store in memory that fails as it is told."""

    cachable = False
    fails = ""

    def _open(self, path: str, *given: object, **more: object) -> object:
        if self.fails in ("open", "not OSError"):
            wrong = Refusal("no\ncredentials")
            raise OSError("the bucket is gone") if self.fails == "open" else wrong
        return super()._open(path, *given, **more)

    def isfile(self, path: str) -> bool:
        if self.fails == "look":
            raise Refusal("no credentials")
        return bool(super().isfile(path))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "artefacts"


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"memory://{tmp_path}/bucket"


def with_place(folder: Path, place: FsspecPlace) -> FolderArtefacts:
    """Return a store whose contents are at a place."""
    store = FolderArtefacts(folder, room_bytes=0)
    store.__dict__["_contents"] = Contents(folder, place)
    return store


def test_an_address_is_kept_and_serves_every_reader(folder: Path, address: str) -> None:
    assert address_in(folder) == ""
    keep_address(folder, address)
    assert address_in(folder) == address
    store = FolderArtefacts(folder, room_bytes=0)
    send(store, FILE, CONTENT)
    store.close()
    assert list(folder.glob("content/*/*")) == list(folder.glob("arriving/*/*")) == []
    assert place_at(address).names() == [FILE.sha256]
    reader = ArtefactFolder(folder)
    (record,) = map(ArtefactRecord.model_validate, reader.rows("run-1"))
    assert record.where is ArtefactPlace.HEAD
    assert b"".join(reader.read(FILE.sha256, 2 * PIECE_BYTES)) == CONTENT[2 * PIECE_BYTES :]
    keep_address(folder, address)  # once more changes nothing


def test_another_address_is_refused_while_there_are_contents(folder: Path, address: str) -> None:
    store = FolderArtefacts(folder, room_bytes=0)
    send(store, FILE, CONTENT)
    store.close()
    with pytest.raises(UserError, match=r"there are some at .*artefacts/content") as refusal:
        keep_address(folder, address)
    assert "Copy them to memory://" in refusal.value.remedy
    assert address_in(folder) == ""
    assert place_at(address).names() == []


@pytest.mark.parametrize(
    ("given", "why"),
    [
        *(("bucket/x", "it is no address"), ("s3://b\n", "it is no address")),
        *(("nonsense://x", "nonsense"), ("file:///proc/nowhere", "")),
    ],
)
def test_an_address_that_cannot_be_used_is_one_line(folder: Path, given: str, why: str) -> None:
    with pytest.raises(UserError) as refusal:
        keep_address(folder, given)
    assert why in refusal.value.seen
    assert "\n" not in str(refusal.value)
    assert refusal.value.remedy
    assert address_in(folder) == ""


def test_an_address_that_others_may_have_written_is_not_followed(
    folder: Path, address: str
) -> None:
    keep_address(folder, address)
    (folder / "address").chmod(0o644)
    with pytest.raises(StoreUnavailable, match="others can read it"):
        FolderArtefacts(folder, room_bytes=0).offer(FILE, SWEEP, 1.0)
    with pytest.raises(StoreUnavailable, match="others can read it"):
        ArtefactFolder(folder).size_of(FILE.sha256)


@pytest.mark.parametrize(
    ("fails", "said"), [("open", "the bucket is gone"), ("not OSError", "no credentials")]
)
def test_a_content_that_cannot_be_taken_stays_and_is_taken_later(
    folder: Path, tmp_path: Path, fails: str, said: str
) -> None:
    files = Failing()
    place = FsspecPlace(files, f"{tmp_path}/bucket")
    store = with_place(folder, place)
    files.fails = fails
    with pytest.raises(StoreUnavailable, match=said) as refusal:
        send(store, FILE, CONTENT)
    assert "\n" not in str(refusal.value)
    assert len(list(folder.glob("arriving/*/*"))) == 1
    files.fails = ""
    assert place.names() == []
    assert store.offer(FILE, SWEEP, 2.0).whole, "nothing is sent again"
    assert b"".join(Contents(folder, place).read(FILE.sha256)) == CONTENT
    assert list(folder.glob("arriving/*/*")) == []
    files.fails = fails
    with pytest.raises(StoreDamaged, match=said):
        next(Contents(folder, place).read(FILE.sha256))
    files.fails = "look"
    with pytest.raises(StoreUnavailable, match="no credentials"):
        Contents(folder, place).has(FILE.sha256)
    store.close()


def test_an_upload_pauses_between_pieces_and_shows_nothing_before_its_end(
    folder: Path, address: str
) -> None:
    keep_address(folder, address)
    seen: list[list[str]] = []
    store = FolderArtefacts(
        folder, room_bytes=0, pause=lambda: seen.append(place_at(address).names())
    )
    *_, last = sending(store, FILE, CONTENT)
    store.close()
    assert last.whole
    assert seen == [[]] * 4, "3 MiB that can't be compressed, and what frames add"
    assert place_at(address).names() == [FILE.sha256]


def test_what_cannot_be_written_to_a_transaction_is_not_there(folder: Path, address: str) -> None:
    keep_address(folder, address)

    def interrupt() -> None:
        raise OSError("the link is cut")

    store = FolderArtefacts(folder, room_bytes=0, pause=interrupt)
    with pytest.raises(StoreUnavailable, match="the link is cut"):
        send(store, FILE, CONTENT)
    store.close()
    assert place_at(address).names() == []
    again = FolderArtefacts(folder, room_bytes=0)
    assert again.offer(FILE, SWEEP, 2.0).whole
    again.close()
