"""`models fetch` against a server that cuts, corrupts, lies, redirects and fails."""

from __future__ import annotations

import io
import random
import socket
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
import yaml
from PIL import Image

from controller.contracts.errors import UserError
from controller.contracts.models import FetchEvent, FetchRequest
from models.mobile import catalogue
from models.mobile.errors import ContentDiffers, ModelUnusable
from models.mobile.fetching import fetch as fetching
from models.mobile.fetching.download import Limits, is_allowed
from models.mobile.store import Store
from tests.support.fetched_task import SHAPES, md5, write_task
from tests.support.file_server import FileServer, Served, file_server

CONTENT = random.Random(0).randbytes(3_000_000)
LIMITS = Limits(timeout_s=20, tries=3, pause_s=0)
PATH = "/app/v1/images.zip"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("BENCHFARM_MODELS", str(tmp_path / "store"))
    return Store(tmp_path / "store")


@pytest.fixture
def server() -> Iterator[FileServer]:
    with file_server() as served:
        served.files[PATH] = Served(CONTENT)
        yield served


def png() -> bytes:
    made = io.BytesIO()
    Image.new("RGB", (300, 300)).save(made, "PNG")
    return made.getvalue()


def add_task(store: Store, url: str, **changes: object) -> None:
    """Add task `mine`, whose samples are at the address."""
    part = {"source": url, "checksum": md5(CONTENT)} | changes
    catalogue.add(store, write_task(store.folder.parent, **part), None)


def fetched(store: Store, limits: Limits = LIMITS, **request: object) -> list[FetchEvent]:
    """Fetch task `mine`, and return what was told."""
    events: list[FetchEvent] = []
    asked = FetchRequest.model_validate({"tasks": ("mine",)} | request)
    fetching.fetch(asked, store, events.append, limits)
    return events


def states(events: list[FetchEvent]) -> list[str]:
    return list(dict.fromkeys(event.state for event in events))


def parts(store: Store) -> list[Path]:
    return sorted(store.folder.glob("partial/*.part"))


def test_a_file_is_fetched_checked_and_named_with_its_licence(
    store: Store, server: FileServer
) -> None:
    add_task(store, server.url + PATH)
    events = fetched(store)
    assert states(events) == ["sizing", "planned", "loading", "added"]
    assert (events[1].total, events[2].note) == (len(CONTENT), "licence: CC0-1.0")
    found = store.find(md5(CONTENT))
    assert found is not None
    assert found.read_bytes() == CONTENT
    assert parts(store) == []
    assert states(fetched(store)) == ["checking", "there"]
    assert len(server.gets) == 1


def test_a_file_that_the_store_has_is_named_before_it_is_read(
    store: Store, server: FileServer
) -> None:
    """Reading a data set takes minutes."""
    add_task(store, server.url + PATH)
    fetched(store)
    first, *more = fetched(store)
    size = len(CONTENT)
    assert first == FetchEvent(state="checking", name="images.zip", done=0, total=size)
    assert [event.state for event in more if event.state != "checking"] == ["there"]
    read: list[tuple[int, int]] = []
    assert store.verify(md5(CONTENT), lambda done, total: read.append((done, total))) is None
    assert read == [(done, size) for done in (0, 1 << 20, 2 << 20, size)]


MENDED: dict[str, tuple[Served, list[str | None]]] = {
    "cut": (Served(CONTENT, cuts=[1_000_000, 500_000]), ["0", "1000000", "1500000"]),
    "cut, and ranges without a mark": (
        Served(CONTENT, cuts=[1_000_000], etag=None),
        ["0", "1000000"],
    ),
    "cut, and ranges are ignored": (
        Served(CONTENT, cuts=[1_000_000], ranges=False),
        ["0", "1000000"],
    ),
    "cut, and a weak mark": (Served(CONTENT, cuts=[9], etag='W/"1"'), ["0", "9"]),
    "cut, and ranges from elsewhere": (
        Served(CONTENT, cuts=[1_000_000], shift=1),
        ["0", "1000000", "0"],
    ),
    "500 once": (Served(CONTENT, statuses=[500, 503]), ["0", "0", "0"]),
    "cut, and less than is here": (
        Served(CONTENT, cuts=[1_000], total=10),
        ["0", "1000", "0"],
    ),
    "cut, and a mark that is no ASCII": (
        Served(CONTENT, cuts=[9], etag='"é"'),
        ["0", "9"],
    ),
    "no length": (Served(CONTENT, chunked=True), ["0"]),
    "no length, and cut": (Served(CONTENT, chunked=True, cuts=[1]), ["0", "3000000"]),
    "a length that is too long": (
        Served(CONTENT, length=len(CONTENT) + 1),
        ["0", "3000000"],
    ),
}


@pytest.mark.parametrize("trouble", MENDED)
def test_what_a_server_may_do_without_harm(store: Store, server: FileServer, trouble: str) -> None:
    file, ranges = MENDED[trouble]
    server.files[PATH] = replace(file, cuts=[*file.cuts], statuses=[*file.statuses])
    add_task(store, server.url + PATH)
    assert states(fetched(store))[-1] == "added"
    asked = [(said or "bytes=0-").removeprefix("bytes=").removesuffix("-") for said in server.gets]
    assert asked == ranges
    assert store.verify(md5(CONTENT)) is None


REFUSED: dict[str, tuple[Served, str]] = {
    "wrong content": (Served(CONTENT[:-1] + b"x"), r"it was deleted\. Use --from"),
    "a length that is too short": (Served(CONTENT, length=1_000), "is md5:.*, not md5:"),
    "404": (Served(statuses=[404]), r"the server answered 404\. Use --from"),
    "500 always": (Served(statuses=[500] * 9), "answered 500, 3 times in a row"),
    "redirects in a circle": (Served(location=PATH), "redirects more than 5 times"),
    "redirects to another scheme": (Served(location="ftp://x/y"), "which is not https"),
    "redirects to a file here": (
        Served(location="file:///etc/passwd"),
        "redirects to file:.*etc/passwd, which is not https",
    ),
    "redirects to an open http": (Served(location="http://example.com/y"), "which is not https"),
    "cut at once, always": (Served(CONTENT, cuts=[0] * 9), "3 times in a row"),
    "cut always, and ranges from elsewhere": (
        Served(CONTENT, cuts=[1_000] * 100, shift=1),
        "ranges do not fit|3 times in a row",
    ),
    "wrong content in pieces, always": (
        Served(bytes(3_000_000), cuts=[1_000, None] * 50),
        r"it was deleted\. Use --from",
    ),
    "cut, and more than it says": (
        Served(CONTENT, cuts=[1_000], total=2_000),
        "it sends more than the 2000 bytes it says",
    ),
    "cut, and a size of 5,000 digits": (
        Served(CONTENT, cuts=[1_000] * 9, total=10**4_000),
        "3 times in a row",
    ),
}


@pytest.mark.parametrize("trouble", REFUSED)
def test_what_a_server_may_not_do(store: Store, server: FileServer, trouble: str) -> None:
    file, said = REFUSED[trouble]
    server.files[PATH] = replace(file, cuts=[*file.cuts], statuses=[*file.statuses])
    add_task(store, server.url + PATH)
    with pytest.raises(UserError, match=said) as caught:
        fetched(store)
    assert "\n" not in str(caught.value)
    assert parts(store) == [p for p in parts(store) if not p.stat().st_size]
    assert not store.has(md5(CONTENT))
    assert len(server.asked) < 15


def test_a_link_that_is_cut_here_and_there_for_ever_is_left(
    store: Store, server: FileServer
) -> None:
    """A server that knows no ranges gives the same bytes again and again: that is no progress."""
    server.files[PATH] = Served(CONTENT, cuts=[1_000, 500] * 50, ranges=False)
    add_task(store, server.url + PATH)
    with pytest.raises(UserError, match="3 times in a row"):
        fetched(store)
    assert len(server.gets) == 4


def test_a_silent_server_is_left_after_its_time(store: Store, server: FileServer) -> None:
    server.files[PATH].hold = threading.Event()
    add_task(store, server.url + PATH)
    with pytest.raises(UserError, match=r"timed out, 2 times in a row"):
        fetched(store, Limits(timeout_s=0.2, tries=2, pause_s=0))


def test_the_next_fetch_goes_on_where_the_last_one_ended(store: Store, server: FileServer) -> None:
    server.files[PATH].cuts = [1_000_000]
    server.files[PATH].statuses = []
    add_task(store, server.url + PATH)
    with pytest.raises(UserError, match="in a row"):
        fetched(store, replace(LIMITS, tries=0))
    assert [part.stat().st_size for part in parts(store)] == [1_000_000]
    events = fetched(store)
    assert server.gets == [None, "bytes=1000000-"]
    assert next(e.done for e in events if e.state == "loading") == 1_000_000


def test_pieces_of_two_versions_are_fetched_anew(store: Store, server: FileServer) -> None:
    """The server's mark of the file stayed the same, though the file did not."""
    add_task(store, server.url + PATH)
    former = bytes(1_000_000)
    (store.folder / "partial").mkdir()
    name = md5(CONTENT).replace(":", "-")
    (store.folder / "partial" / f"{name}.part").write_bytes(former)
    assert states(fetched(store))[-1] == "added"
    assert server.gets == ["bytes=1000000-", None]


def test_what_is_here_whole_has_its_licence_told_too(store: Store, server: FileServer) -> None:
    add_task(store, server.url + PATH)
    (store.folder / "partial").mkdir()
    (store.folder / f"partial/{md5(CONTENT).replace(':', '-')}.part").write_bytes(CONTENT)
    events = fetched(store)
    assert states(events) == ["sizing", "planned", "loading", "added"]
    assert events[2].note == "licence: CC0-1.0"
    assert server.gets == [f"bytes={len(CONTENT)}-"]


@pytest.mark.parametrize("known", [True, False])
def test_a_part_from_another_address(store: Store, server: FileServer, *, known: bool) -> None:
    """It is continued only if the file's checksum is known, since that decides at the end."""
    images = io.BytesIO()
    with zipfile.ZipFile(images, "w") as archive:
        archive.writestr("a.png", png())
    content = CONTENT if known else images.getvalue()
    server.files[PATH] = Served(content, cuts=[100])
    server.files[f"/mirror{PATH}"] = Served(content)
    add_task(store, server.url + PATH, checksum=md5(content) if known else None)
    with pytest.raises(UserError, match="in a row"):
        fetched(store, replace(LIMITS, tries=0))
    assert states(fetched(store, mirror=f"{server.url}/mirror"))[-1] == "added"
    assert server.gets == [None, "bytes=100-" if known else None]


def test_two_at_once_download_a_file_once(store: Store, server: FileServer) -> None:
    hold = server.files[PATH].hold = threading.Event()
    add_task(store, server.url + PATH)
    told: list[list[FetchEvent]] = []
    first = threading.Thread(target=lambda: told.append(fetched(store)))
    first.start()
    assert server.began.wait(30)
    waits = threading.Event()

    def fetch_second() -> None:
        events: list[FetchEvent] = []

        def tell(event: FetchEvent) -> None:
            events.append(event)
            if event.state == "waiting":
                waits.set()

        fetching.fetch(FetchRequest(tasks=("mine",)), store, tell, LIMITS)
        told.append(events)

    second = threading.Thread(target=fetch_second)
    second.start()
    assert waits.wait(30)
    hold.set()
    first.join()
    second.join()
    assert len(server.gets) == 1
    assert sorted(states(events)[-1] for events in told) == ["added", "there"]


LIMITED = """
import resource, signal, sys
from controller.contracts.models import FetchRequest
from controller.contracts.errors import UserError
from models.mobile.fetching.fetch import fetch
from models.mobile.store import Store
from pathlib import Path
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
try:
    fetch(FetchRequest(tasks=("mine",)), Store(Path(sys.argv[1])), lambda event: None)
except UserError as error:
    print(error)
"""


def test_a_disk_that_is_full_is_one_line_and_what_is_here_is_kept(
    store: Store, server: FileServer
) -> None:
    add_task(store, server.url + PATH)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(store.folder)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("cannot store the file: File too large in ")
    assert done.stdout.endswith("it goes on from where it was.\n")
    assert done.stdout.count("\n") == 1
    assert [part.stat().st_size for part in parts(store)] == [1_000_000]
    assert states(fetched(store))[-1] == "added"
    assert server.gets == [None, "bytes=1000000-"]


def test_a_file_larger_than_the_disk_is_refused_before_it_is_begun(
    store: Store, server: FileServer
) -> None:
    server.files[PATH].length = 1 << 60
    add_task(store, server.url + PATH)
    with pytest.raises(UserError, match=r"bytes are missing, and \d+ are free"):
        fetched(store)
    assert all(not part.stat().st_size for part in parts(store))


def test_a_file_without_end_is_left(store: Store, server: FileServer) -> None:
    server.files[PATH].chunked = True
    add_task(store, server.url + PATH)
    with pytest.raises(UserError, match="it has no end"):
        fetched(store, replace(LIMITS, largest=1_000_000))
    assert parts(store) == []


def closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def test_without_a_connection_it_says_what_to_copy_where(store: Store) -> None:
    url = f"http://127.0.0.1:{closed_port()}{PATH}"
    add_task(store, url)
    with pytest.raises(UserError) as caught:
        fetched(store)
    said = str(caught.value)
    assert said.startswith("cannot fetch images.zip: no connection to 127.0.0.1: ")
    assert (
        f"Copy images.zip to this host from {url} ({md5(CONTENT)}), then run `benchfarm models add "
        in said
    )


def test_an_address_that_is_not_https_is_refused(store: Store) -> None:
    add_task(store, "http://example.com/images.zip")
    with pytest.raises(UserError, match="its address is not https"):
        fetched(store)


@pytest.mark.parametrize("at", [PATH, "/images.zip"])
def test_a_mirror_has_a_file_below_its_path_or_its_name(
    store: Store, server: FileServer, at: str
) -> None:
    add_task(store, "https://example.com" + PATH)
    server.files = {f"/mirror{at}": Served(CONTENT)}
    assert states(fetched(store, mirror=f"{server.url}/mirror"))[-1] == "added"
    assert server.gets == [None]


@pytest.mark.parametrize("at", [PATH, "/images.zip", "/deep/down/images.zip"])
def test_a_folder_is_a_mirror(store: Store, tmp_path: Path, at: str) -> None:
    add_task(store, "https://example.com" + PATH)
    other = tmp_path / "mirror/another/images.zip"
    other.parent.mkdir(parents=True)
    other.write_bytes(b"of the same name")
    with pytest.raises(
        UserError, match=r"its content differs there\. Copy images\.zip to this host from https"
    ):
        fetched(store, mirror=str(tmp_path / "mirror"))
    file = tmp_path / f"mirror{at}"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(CONTENT)
    assert states(fetched(store, mirror=str(tmp_path / "mirror"))) == [
        "sizing",
        "planned",
        "loading",
        "added",
    ]
    assert file.exists()


def test_a_file_without_a_published_checksum_is_pinned(store: Store, server: FileServer) -> None:
    server.files["/labels"] = Served(SHAPES.read_bytes())
    add_task(store, server.url + "/labels", checksum=None)
    with pytest.raises(UserError, match="File is not a zip file"):
        fetched(store)
    assert parts(store) == []


def test_a_model_of_another_signature_is_refused(store: Store, server: FileServer) -> None:
    add_task(store, server.url + PATH)
    file = store.folder / "tasks/mine.yaml"
    task = yaml.safe_load(file.read_text())
    server.files["/net.tflite"] = Served(SHAPES.read_bytes())
    task["on_device"]["models"]["int8"] = {"source": server.url + "/net.tflite"}
    file.write_text(yaml.safe_dump(task))
    events = fetched(store)
    assert [e.note for e in events if e.name == "net.tflite"][-1].startswith("pinned sha256:")
    pinned = store.pinned("mine/models/int8")
    assert pinned is not None
    stored = store.find(pinned)
    assert stored is not None
    stored.unlink()
    server.files["/net.tflite"] = Served(SHAPES.read_bytes() + b"\0")
    with pytest.raises(ContentDiffers, match=f"and the one added before was {pinned}"):
        fetched(store)
    assert store.pinned("mine/models/int8") == pinned, "no other file takes its place unsaid"
    (store.folder / "pins/mine/models/int8").unlink()
    server.files["/net.tflite"].content = SHAPES.read_bytes()[:100]
    with pytest.raises(ModelUnusable):
        fetched(store)
    assert parts(store) == []


def test_no_name_of_a_server_or_manifest_leaves_the_store(
    store: Store, server: FileServer, tmp_path: Path
) -> None:
    server.files["/..%2f..%2fevil"] = Served(CONTENT)
    add_task(store, server.url + "/..%2f..%2fevil")
    before = {p for p in tmp_path.rglob("*") if store.folder not in p.parents}
    assert states(fetched(store))[-1] == "added"
    assert {p for p in tmp_path.rglob("*") if store.folder not in p.parents} == before


@pytest.mark.parametrize(
    ("url", "origin", "allowed"),
    [
        ("https://a/x", None, True),
        ("http://a/x", None, False),
        ("http://127.0.0.1/x", None, True),
        ("file:///x", None, False),
        ("https://b/x", "https://a/x", True),
        ("http://b/x", "https://a/x", False),
        ("http://b/x", "http://a/x", True),
        ("https://b/x", "http://a/x", True),
        ("http://127.0.0.1/x", "http://127.0.0.1:1/x", True),
        ("http://a/x", "http://127.0.0.1/x", False),
        ("http://127.0.0.1/x", "http://a/x", False),
        ("https://localhost/x", "https://a/x", False),
        ("http://[::1]/x", "http://a/x", False),
        ("file:///x", "http://a/x", False),
        ("https://127.0.0.2/x", "https://a/x", False),
        ("https://0.0.0.0/x", "https://a/x", False),
        ("https://[::]/x", "https://a/x", False),
        ("https://[::ffff:127.0.0.1]/x", "https://a/x", False),
        ("https://127.1/x", "https://a/x", False),
        ("https://0x7f.1/x", "https://a/x", False),
        ("https://localhost./x", "https://a/x", False),
        ("https://a.LOCALHOST/x", "https://a/x", False),
        ("http://[::ffff:127.0.0.1]/x", "http://a/x", False),
        ("http://127.0.0.2/x", "http://localhost/x", True),
        ("https://[::ffff:8.8.8.8]/x", "https://a/x", True),
        ("https://128.0.0.1/x", "https://a/x", True),
        ("https://notlocalhost/x", "https://a/x", True),
    ],
)
def test_where_an_address_may_lead(url: str, origin: str | None, allowed: bool) -> None:
    assert is_allowed(httpx.URL(url), httpx.URL(origin) if origin else None) is allowed


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ALL_PROXY", "socks5://127.0.0.1:1"),
        ("HTTPS_PROXY", "nonsense://x"),
        ("SSL_CERT_FILE", "/nowhere"),
    ],
)
def test_an_environment_that_can_t_be_used_is_one_line(
    store: Store, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    add_task(store, "https://example.com" + PATH)
    monkeypatch.setenv(name, value)
    with pytest.raises(UserError, match=r"cannot fetch over the network: .*Correct the variables"):
        fetched(store)


def test_a_proxy_of_the_environment_is_used(
    store: Store, server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_task(store, "https://example.com" + PATH)
    server.files["http://mirror.invalid" + PATH] = Served(CONTENT)
    monkeypatch.setenv("HTTP_PROXY", server.url)
    assert states(fetched(store, mirror="http://mirror.invalid"))[-1] == "added"
