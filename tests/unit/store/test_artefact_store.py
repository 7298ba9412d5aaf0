"""The head's artefact store: what is sent comes whole, whatever happens on the way."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controller.contracts.artefacts import ArtefactPlace, ArtefactRecord
from controller.contracts.errors import StoreDamaged, StoreUnavailable
from controller.platform.frames import FRAME_BYTES, packed
from controller.store.artefacts.contents import Contents
from controller.store.artefacts.folder import STALE_S, ArtefactFolder, FolderArtefacts
from controller.store.artefacts.places import ContentPlace, keep_address
from tests.support.artefacts import SWEEP, artefact, noise, part_of, send, sending

CONTENT = noise(3 * 8 * FRAME_BYTES + 1000)
"""Three parts and a bit."""
FILE = artefact(CONTENT, "trace.json")


@pytest.fixture(params=["folder", "file", "memory"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return the folder of a store that keeps contents there, or at an address of fsspec."""
    made = tmp_path / "artefacts"
    if request.param == "file":
        keep_address(made, f"file://{tmp_path}/elsewhere")
    if request.param == "memory":
        keep_address(made, f"memory://{tmp_path}")
    return made


def place_of(folder: Path) -> ContentPlace:
    return Contents.of(folder).place


def put_back(folder: Path, content: bytes, sha256: str) -> None:
    """Have a file of the place of contents be another one."""
    place, file = place_of(folder), folder / "changed"
    file.write_bytes(content)
    place.remove(sha256)
    place.take(file, sha256, lambda: None)


def kept_as(folder: Path, sha256: str) -> bytes:
    """Return the file of a content, as it is kept."""
    with place_of(folder).open(sha256) as file:
        return file.read()


@pytest.fixture
def opened(folder: Path) -> Iterator[Callable[..., FolderArtefacts]]:
    """Opens the store, as a controller does at its start."""
    stores: list[FolderArtefacts] = []

    def open_(free: int = 2**40, most_files: int = 100) -> FolderArtefacts:
        stores.append(FolderArtefacts(folder, 1000, lambda _: free, most_files))
        return stores[-1]

    yield open_
    for store in stores:
        store.close()


@pytest.fixture
def store(opened: Callable[..., FolderArtefacts]) -> FolderArtefacts:
    return opened()


def records(folder: Path, run_id: str = "run-1") -> list[ArtefactRecord]:
    return [*map(ArtefactRecord.model_validate, ArtefactFolder(folder).rows(run_id))]


def read(folder: Path, sha256: str = FILE.sha256, offset: int = 0) -> bytes:
    return b"".join(ArtefactFolder(folder).read(sha256, offset))


def ahead(going: Iterator[object], steps: int) -> None:
    """Let a sending make some requests."""
    for _ in range(steps):
        next(going)


@pytest.mark.parametrize("size", [0, 1, FRAME_BYTES, FRAME_BYTES + 1, 8 * FRAME_BYTES, 1_600_000])
def test_what_is_sent_is_read_from_any_byte_on(
    store: FolderArtefacts, folder: Path, size: int
) -> None:
    content = noise(size // 2) + bytes(size - size // 2)
    file = artefact(content)
    assert send(store, file, content).whole
    (record,) = records(folder)
    assert (record.where, record.path) == (ArtefactPlace.HEAD, "1/output.log")
    assert ArtefactFolder(folder).size_of(file.sha256) == size
    for offset in {0, size // 3, FRAME_BYTES, max(0, size - 1), size}:
        assert read(folder, file.sha256, offset) == content[offset:]


def test_what_can_be_compressed_takes_less(store: FolderArtefacts) -> None:
    content = b"step 1 took 0.25 s\n" * 50_000
    send(store, artefact(content), content)
    assert store.kept_bytes() < len(content) // 20


def test_nothing_is_listed_where_nothing_was_ever_stored(folder: Path) -> None:
    assert records(folder) == []
    assert ArtefactFolder(folder).size_of(FILE.sha256) is None
    assert not (folder / "index.sqlite").exists()


@pytest.mark.parametrize("sha256", ["", "../index.sqlite", "..", FILE.sha256.upper(), "a" * 63])
def test_what_is_no_checksum_leads_nowhere(
    store: FolderArtefacts, folder: Path, sha256: str
) -> None:
    send(store, FILE, CONTENT)
    assert ArtefactFolder(folder).size_of(sha256) is None


def test_what_has_been_announced_is_listed_as_its_agents(
    store: FolderArtefacts, folder: Path
) -> None:
    store.offer(FILE, SWEEP, 1.0)
    assert [(r.name, r.size, r.where) for r in records(folder)] == [
        ("trace.json", len(CONTENT), ArtefactPlace.AGENT)
    ]


def test_a_content_that_is_there_is_not_sent_again(store: FolderArtefacts, folder: Path) -> None:
    send(store, FILE, CONTENT)
    again = artefact(CONTENT, "copy.json", run_id="run-2", agent="host-2")
    assert store.offer(again, SWEEP, 2.0).whole
    (record,) = records(folder, "run-2")
    assert record.where is ArtefactPlace.HEAD
    assert place_of(folder).names() == [FILE.sha256]


def test_two_agents_that_send_one_content_at_once_both_end(
    store: FolderArtefacts, folder: Path
) -> None:
    other = artefact(CONTENT, run_id="run-2", agent="host-2")
    first, second = sending(store, FILE, CONTENT), sending(store, other, CONTENT)
    lasts = [next(first), next(second)]
    for one, two in zip(first, second, strict=True):
        lasts = [one, two]
    assert [one.whole for one in lasts] == [True, True]
    assert read(folder) == CONTENT
    assert list(folder.glob("arriving/*/*")) == []


# --- planted violations --------------------------------------------------------------------------


def test_an_agent_that_lies_spoils_nothing_of_another(store: FolderArtefacts, folder: Path) -> None:
    lie = artefact(CONTENT, run_id="run-2", agent="host-2")
    false = noise(len(CONTENT), seed=9)
    other, honest = sending(store, lie, false), sending(store, FILE, CONTENT)
    ahead(other, 1)
    ahead(honest, 1)
    *_, refusal = other
    assert "not what its checksum says" in refusal.refused
    *_, last = honest
    assert last.whole
    assert read(folder) == CONTENT
    assert store.offer(lie, SWEEP, 2.0).whole, "the content itself is there by now"


def test_a_false_size_is_refused(store: FolderArtefacts, folder: Path) -> None:
    send(store, FILE, CONTENT)
    short = FILE.model_copy(update={"size": 10, "name": "short"})
    assert "checksum" in store.offer(short, SWEEP, 1.0).refused
    assert [record.name for record in records(folder)] == ["trace.json"]


def test_what_has_come_is_not_replaced(store: FolderArtefacts, folder: Path) -> None:
    send(store, FILE, CONTENT)
    assert "has come before" in store.offer(artefact(b"x", "trace.json"), SWEEP, 2.0).refused
    store.remove([FILE.sha256], 3.0)
    assert "has come before" in store.offer(artefact(b"x", "trace.json"), SWEEP, 4.0).refused
    assert store.offer(FILE, SWEEP, 5.0).refused == ""


def test_a_file_that_changes_before_it_has_come_is_replaced(
    store: FolderArtefacts, folder: Path
) -> None:
    store.offer(FILE, SWEEP, 1.0)
    content = b"other"
    assert send(store, artefact(content, "trace.json"), content).whole
    (record,) = records(folder)
    assert record.size == len(content)
    assert store.add(FILE, 0, part_of(CONTENT, 0), 2.0).refused == "it was not announced"


@pytest.mark.parametrize(
    ("offset", "spoil"),
    [
        (8 * FRAME_BYTES, lambda frames: [frames[0][:-1], *frames[1:]]),
        (8 * FRAME_BYTES, lambda frames: [frames[0][:-4] + b"abcd", *frames[1:]]),
        (8 * FRAME_BYTES, lambda frames: [packed(b"short"), *frames[1:]]),
        (8 * FRAME_BYTES, lambda frames: frames * 9),
        (8 * FRAME_BYTES, lambda _: []),
        (0, lambda frames: frames),
        (16 * FRAME_BYTES, lambda frames: frames),
        (8 * FRAME_BYTES + 1, lambda frames: frames),
    ],
    ids=["cut", "damaged", "short", "too much", "empty", "twice", "early", "beside"],
)
def test_a_part_that_is_damaged_or_does_not_follow_changes_nothing(
    store: FolderArtefacts,
    folder: Path,
    offset: int,
    spoil: Callable[[list[bytes]], list[bytes]],
) -> None:
    going = sending(store, FILE, CONTENT)
    ahead(going, 2)
    receipt = store.add(FILE, offset, spoil(part_of(CONTENT, offset)), 1.0)
    assert (receipt.held, receipt.whole) == (8 * FRAME_BYTES, False)
    assert send(store, FILE, CONTENT).whole
    assert read(folder) == CONTENT


def test_what_was_not_announced_is_refused(store: FolderArtefacts, folder: Path) -> None:
    assert store.add(FILE, 0, part_of(CONTENT, 0), 1.0).refused == "it was not announced"
    assert list(folder.glob("arriving/*/*")) == []


def test_an_attempt_has_so_many_files(opened: Callable[..., FolderArtefacts]) -> None:
    store = opened(most_files=2)
    for name in ("a", "b", "a"):
        assert store.offer(artefact(b"x", name), SWEEP, 1.0).refused == ""
    assert "2 files already" in store.offer(artefact(b"x", "c"), SWEEP, 1.0).refused
    assert store.offer(artefact(b"x", "c", attempt=2), SWEEP, 1.0).refused == ""


# --- a head that is killed, and a disk that is full ----------------------------------------------


@pytest.mark.parametrize("torn", [0, 5, 12, 1000, 70_000])
def test_a_killed_head_goes_on_after_the_last_whole_frame(
    opened: Callable[..., FolderArtefacts], folder: Path, torn: int
) -> None:
    going = sending(opened(), FILE, CONTENT)
    ahead(going, 3)
    (arriving,) = folder.glob("arriving/*/*")
    size = arriving.stat().st_size
    os.truncate(arriving, size - torn)
    store = opened()
    held = store.offer(FILE, SWEEP, 2.0).held
    lost = -(-torn // (size // 16)) if torn else 0
    assert held == (16 - lost) * FRAME_BYTES
    assert send(store, FILE, CONTENT).whole
    assert read(folder) == CONTENT


def test_a_head_killed_after_the_last_frame_has_it_whole(
    opened: Callable[..., FolderArtefacts], folder: Path
) -> None:
    content = noise(8 * FRAME_BYTES)
    file = artefact(content)
    store = opened()
    assert send(store, file, content).whole
    (place,) = folder.glob("arriving/*")
    (place / file.sha256).write_bytes(kept_as(folder, file.sha256))  # as it was just before
    place_of(folder).remove(file.sha256)
    assert opened().offer(file, SWEEP, 2.0).whole
    assert read(folder, file.sha256) == content


def test_a_head_killed_before_it_could_say_so_says_it_when_it_is_asked(
    opened: Callable[..., FolderArtefacts], folder: Path
) -> None:
    send(opened(), FILE, CONTENT)
    (folder / "index.sqlite").unlink()
    for rest in folder.glob("index.sqlite-*"):
        rest.unlink()
    assert opened().offer(FILE, SWEEP, 2.0).whole
    assert ArtefactFolder(folder).size_of(FILE.sha256) == len(CONTENT)


def test_a_full_disk_takes_nothing_and_loses_nothing(
    opened: Callable[..., FolderArtefacts], folder: Path
) -> None:
    going = sending(opened(), FILE, CONTENT)
    ahead(going, 2)
    full = opened(free=1000)
    assert full.offer(FILE, SWEEP, 1.0).held == 8 * FRAME_BYTES
    with pytest.raises(StoreUnavailable, match="would be free on its disk"):
        full.add(FILE, 8 * FRAME_BYTES, part_of(CONTENT, 8 * FRAME_BYTES), 1.0)
    assert send(opened(), FILE, CONTENT).whole
    assert read(folder) == CONTENT


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = FolderArtefacts(tmp_path / "file" / "artefacts")
    with pytest.raises(StoreUnavailable) as refusal:
        store.offer(FILE, SWEEP, 1.0)
    assert "\n" not in str(refusal.value)


def test_a_content_that_is_damaged_on_disk_is_said(store: FolderArtefacts, folder: Path) -> None:
    send(store, FILE, CONTENT)
    damaged = bytearray(kept_as(folder, FILE.sha256))
    damaged[len(damaged) // 2] ^= 1
    put_back(folder, bytes(damaged), FILE.sha256)
    with pytest.raises(StoreDamaged, match="an artefact cannot be read"):
        read(folder)


def test_a_damaged_index_is_said(opened: Callable[..., FolderArtefacts], folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "index.sqlite").write_bytes(b"no database at all " * 100)
    with pytest.raises(StoreDamaged):
        opened().offer(FILE, SWEEP, 1.0)
    with pytest.raises(StoreDamaged):
        ArtefactFolder(folder).rows("run-1")


# --- retention -----------------------------------------------------------------------------------


def test_what_is_removed_is_listed_as_expired_and_may_come_again(
    store: FolderArtefacts, folder: Path
) -> None:
    send(store, FILE, CONTENT)
    store.remove([FILE.sha256], 2.0)
    assert [r.where for r in records(folder)] == [ArtefactPlace.EXPIRED]
    assert (store.kept_bytes(), store.kept(())) == (0, [])
    assert ArtefactFolder(folder).size_of(FILE.sha256) is None
    again = artefact(CONTENT, run_id="run-2")
    assert send(store, again, CONTENT, 3.0).whole
    assert [r.where for r in records(folder)] == [ArtefactPlace.HEAD]


def test_a_content_is_as_old_as_its_newest_artefact_and_pinned_with_any(
    store: FolderArtefacts,
) -> None:
    send(store, FILE, CONTENT, 1.0)
    store.offer(artefact(CONTENT, run_id="run-2"), "sweep-2", 5.0)
    ((before, after),) = zip(store.kept(("sweep-1",)), store.kept(("sweep-3",)), strict=True)
    assert (before.used_at, before.pinned) == (5.0, True)
    assert (after.sha256, after.pinned) == (FILE.sha256, False)
    assert after.kept_bytes == store.kept_bytes() > len(CONTENT)


def test_what_was_never_finished_is_forgotten_after_a_week(
    store: FolderArtefacts, folder: Path
) -> None:
    going = sending(store, FILE, CONTENT)
    ahead(going, 2)
    (arriving,) = folder.glob("arriving/*/*")
    changed = arriving.stat().st_mtime
    store.remove([], changed + STALE_S - 1)
    assert arriving.exists()
    store.remove([], changed + STALE_S + 1)
    assert not arriving.exists()
    assert store.offer(FILE, SWEEP, 1.0).held == 0
