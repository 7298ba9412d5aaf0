"""A store with damaged, missing and unreadable files: what is told of it, and what mends it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from controller.contracts.errors import UserError
from controller.contracts.models import FetchEvent, FetchRequest
from models.mobile import catalogue
from models.mobile.errors import ContentDiffers, FileUnreadable, NoRoom
from models.mobile.fetching import fetch as fetching
from models.mobile.store import Store
from tests.support.fetched_task import SHAPES, md5, write_task
from tests.support.file_server import FileServer, Served
from tests.unit.models import test_fetching as made
from tests.unit.models.test_fetching import CONTENT, PATH

server = made.server
NET = "/net.tflite"
ZEROS = "sha256:" + "0" * 64


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("BENCHFARM_MODELS", str(tmp_path / "store"))
    return Store(tmp_path / "store")


def add_two_files(store: Store, server: FileServer, model: str = NET, data: str = PATH) -> None:
    """Add task `mine`, of which a model and then its samples are fetched."""
    made.add_task(store, server.url + data)
    file = store.folder / "tasks/mine.yaml"
    task = yaml.safe_load(file.read_text())
    content = SHAPES.read_bytes()
    server.files[NET] = Served(content)
    source = {"source": server.url + model, "checksum": md5(content)}
    task["on_device"]["models"]["int8"] = source
    file.write_text(yaml.safe_dump(task))


def failure_of(store: Store) -> tuple[UserError, dict[str, str]]:
    """Fetch task `mine`; return the error, and the last event of each file."""
    events: list[FetchEvent] = []
    with pytest.raises(UserError) as caught:
        fetching.fetch(FetchRequest(tasks=("mine",)), store, events.append, made.LIMITS)
    return caught.value, {event.name: event.state for event in events}


# Adding and verifying


def test_a_damaged_object_is_replaced_when_its_file_is_added_again(
    store: Store, tmp_path: Path
) -> None:
    file = tmp_path / "a.bin"
    file.write_bytes(b"content")
    found = store.add(file)
    path = store.find(found["sha256"])
    assert path is not None
    path.write_bytes(b"con")
    assert store.add(file) == found
    assert store.verify(found["sha256"]) is None


def test_a_pinned_file_that_is_gone_is_told(store: Store) -> None:
    gone = ("mosaic/full/truth", "resnet18/weights/mine")
    for key in gone:
        store.pin(key, ZEROS)
    found = {status.key: status for status in catalogue.verify(store)}
    for key in gone:
        assert not found[key].there
        assert str(found[key].trouble).startswith(f"cannot find {key}: it is not in the store of")
    assert {key for key, status in found.items() if status.trouble} == set(gone)


def test_a_path_that_the_system_refuses_is_one_line(store: Store) -> None:
    with pytest.raises(UserError, match=r"cannot add /x+: File name too long"):
        catalogue.add(store, Path("/" + "x" * 300), None)


# Fetching


def test_a_damaged_file_is_fetched_again(store: Store, server: FileServer) -> None:
    made.add_task(store, server.url + PATH)
    made.fetched(store)
    path = store.find(md5(CONTENT))
    assert path is not None
    path.write_bytes(CONTENT[:1000])
    assert made.states(made.fetched(store)) == [
        "checking",
        "sizing",
        "planned",
        "loading",
        "added",
    ]
    assert store.verify(md5(CONTENT)) is None
    assert made.states(made.fetched(store)) == ["checking", "there"]


def test_a_damaged_record_is_told_and_the_other_files_are_fetched(
    store: Store, server: FileServer
) -> None:
    add_two_files(store, server)
    record = store.folder / "names" / md5(SHAPES.read_bytes()).replace(":", "-")
    record.parent.mkdir()
    record.touch()
    error, states = failure_of(store)
    assert isinstance(error, FileUnreadable)
    assert str(error).startswith(f"cannot read {record} (mine/models/int8): it holds no checksum.")
    assert states["images.zip"] == "added"


def test_a_damaged_pin_of_a_file_without_an_address_is_told(store: Store, tmp_path: Path) -> None:
    catalogue.add(store, write_task(tmp_path), None)
    pin = store.folder / "pins/mine/tiny/samples"
    pin.parent.mkdir(parents=True)
    pin.touch()
    error, _ = failure_of(store)
    assert str(error).startswith(f"cannot read {pin} (mine/tiny/samples): it holds no checksum.")


def test_a_file_that_can_t_be_written_ends_no_other(store: Store, server: FileServer) -> None:
    add_two_files(store, server)
    part = store.folder / f"partial/{md5(SHAPES.read_bytes()).replace(':', '-')}.part"
    part.mkdir(parents=True)
    error, states = failure_of(store)
    assert str(error).startswith(f"cannot store the file: Is a directory: {part}.")
    assert not isinstance(error, NoRoom)
    assert states["images.zip"] == "added"


def test_an_address_that_is_none_ends_no_other(store: Store, server: FileServer) -> None:
    add_two_files(store, server)
    file = store.folder / "tasks/mine.yaml"
    task = yaml.safe_load(file.read_text())
    task["on_device"]["models"]["int8"]["source"] = "https://host:port/net.tflite"
    file.write_text(yaml.safe_dump(task))
    error, states = failure_of(store)
    assert str(error) == (
        "cannot fetch mine/models/int8 from 'https://host:port/net.tflite': Invalid port: 'port'. "
        "Correct the key source in the task's file."
    )
    assert (states["images.zip"], states["mine/models/int8"]) == ("added", "failed")
    assert store.has(md5(CONTENT))


def test_two_addresses_that_are_none_have_a_line_each(store: Store, server: FileServer) -> None:
    add_two_files(store, server)
    file = store.folder / "tasks/mine.yaml"
    file.write_text(file.read_text().replace(server.url, "https://host:port"))
    error, states = failure_of(store)
    assert str(error).startswith("cannot fetch 2 files: each has a line above.")
    assert states == {"mine/models/int8": "failed", "mine/tiny/samples": "failed"}


def test_what_failed_before_the_disk_was_full_is_told_too(store: Store, server: FileServer) -> None:
    add_two_files(store, server, model="/gone.tflite")
    server.files[PATH].length = 1 << 60
    error, states = failure_of(store)
    assert str(error).startswith("cannot fetch 2 files: each has a line above.")
    assert (states["gone.tflite"], states["images.zip"]) == ("failed", "failed")


def test_two_failed_files_of_one_name_are_two(store: Store, server: FileServer) -> None:
    add_two_files(store, server, model="/a/x", data="/b/x")
    error, _ = failure_of(store)
    assert str(error).startswith("cannot fetch 2 files: each has a line above.")


def test_weights_that_are_not_the_published_ones_are_not_kept(
    store: Store, server: FileServer
) -> None:
    """Their checksum is known only in part, and the server would call what is here the whole."""
    server.files["/models/resnet18-f37072fd.pth"] = Served(b"damaged")
    for _ in range(2):
        with pytest.raises(ContentDiffers, match="has the checksum sha256:f37072fd…"):
            made.fetched(store, tasks=("resnet18",), weights=("imagenet_v1",), mirror=server.url)
        assert list((store.folder / "partial").glob("*.part")) == []
    assert server.gets == [None, None]


def test_a_name_that_no_folder_can_have_is_one_line(store: Store, tmp_path: Path) -> None:
    made.add_task(store, "https://example.com/" + "x" * 300)
    seen = r"cannot read .*xxx \(mine/tiny/samples\): File name too long"
    with pytest.raises(FileUnreadable, match=seen):
        made.fetched(store, mirror=str(tmp_path))


@pytest.mark.parametrize(
    ("source", "seen"),
    [
        ("https://host:port/x", "Invalid port: 'port'"),
        ("https://[x", "Invalid IPv6 URL"),
        ("https:///x", "it names no host"),
    ],
)
def test_an_address_that_is_none_is_one_line(store: Store, source: str, seen: str) -> None:
    made.add_task(store, source)
    with pytest.raises(UserError) as caught:
        made.fetched(store)
    assert str(caught.value) == (
        f"cannot fetch mine/tiny/samples from {source!r}: {seen}. "
        "Correct the key source in the task's file."
    )
