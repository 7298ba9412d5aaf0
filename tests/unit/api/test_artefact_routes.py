"""Artefacts over HTTP: lists, whole contents, ranges of them, and reading on after a cut."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import closing, contextmanager

import httpx
import pytest

from controller.api.connection import Ask, Connection
from controller.api.contexts import FarmContext
from controller.api.prefix import CONTENT
from controller.api.problems import RangeBeyond
from controller.api.ranges import Span, cut, span_of
from controller.api.reader import MOST_CUTS, ApiReader
from controller.contracts.errors import FarmUnavailable, NotFound
from controller.contracts.records import Scope
from controller.store.artefacts.folder import FolderArtefacts
from tests.support.api import RUN, SECRETS, Described, Served, prepared, served
from tests.support.artefacts import LOG, RAW, TRACE, artefact, send

SHA256 = hashlib.sha256(TRACE).hexdigest()
DESCRIBED = Described()


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(prepared(tmp_path_factory.mktemp("artefacts") / "home")) as served_api:
        yield served_api


def get(api: Served, sha256: str = SHA256, **headers: str) -> httpx.Response:
    """GET a content; the answer is one that is described."""
    said = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = api.get(CONTENT.format(sha256=sha256), headers=said)
    assert DESCRIBED.objection("GET", CONTENT, answer) == ""
    return answer


def test_a_run_s_artefacts_are_listed_with_where_each_is(api: Served) -> None:
    listed = [(one["attempt"], one["name"], one["size"], one["where"]) for one in page(api, 200)]
    assert listed == [
        (1, "latencies_ns.npy", len(RAW), "expired"),
        (1, "performance/mlperf_log_summary.txt", len(LOG), "head"),
        (2, "late.bin", 10, "agent"),
        (2, "trace.json", len(TRACE), "head"),
    ]
    assert page(api, 1) == page(api, 200)


def page(api: Served, limit: int) -> list[dict[str, object]]:
    return api.every(f"/runs/{RUN}/artefacts", limit=limit)


def test_an_unknown_run_has_no_list(api: Served) -> None:
    answer = api.get("/runs/none/artefacts")
    assert (answer.status_code, answer.json()["type"]) == (404, "urn:benchfarm:problem:not-found")


def test_a_content_is_a_file_whose_etag_is_its_checksum(api: Served) -> None:
    answer = get(api)
    assert (answer.status_code, answer.content) == (200, TRACE)
    assert answer.headers["ETag"] == f'"{SHA256}"'
    assert answer.headers["Accept-Ranges"] == "bytes"
    assert answer.headers["Content-Length"] == str(len(TRACE))
    assert answer.headers["Content-Disposition"] == "attachment"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    again = get(api, If_None_Match=answer.headers["ETag"])
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    ("asked", "first", "end"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=0-99", 0, 100),
        ("bytes=65530-131080", 65530, 131081),
        ("bytes=199999-", 199_999, 200_000),
        ("bytes=-5", 199_995, 200_000),
        ("bytes=-999999999", 0, 200_000),
        ("bytes=150000-999999999", 150_000, 200_000),
    ],
)
def test_a_range_is_that_part(api: Served, asked: str, first: int, end: int) -> None:
    answer = get(api, Range=asked)
    assert (answer.status_code, answer.content) == (206, TRACE[first:end])
    assert answer.headers["Content-Range"] == f"bytes {first}-{end - 1}/{len(TRACE)}"


@pytest.mark.parametrize(
    "asked", ["bytes=5-1", "bytes=-", "bytes=0-1,5-6", "lines=0-1", "bytes=a-b", "0-5", "bytes=٣-"]
)
def test_what_is_no_range_is_answered_with_all(api: Served, asked: str) -> None:
    assert span_of(asked, 10) is None
    if asked.isascii():
        assert get(api, Range=asked).content == TRACE


@pytest.mark.parametrize("asked", ["bytes=200000-", "bytes=200000-200001", "bytes=-0"])
def test_a_range_beyond_the_end_is_a_problem(api: Served, asked: str) -> None:
    answer = get(api, Range=asked)
    assert (answer.status_code, answer.headers["Content-Range"]) == (416, "bytes */200000")


def test_an_empty_content_has_no_range_and_can_be_read(api: Served) -> None:
    store = FolderArtefacts(api.home.artefacts, room_bytes=0)
    with closing(store):
        send(store, artefact(b"", "empty", "other"), b"")
    empty = hashlib.sha256(b"").hexdigest()
    assert get(api, empty).content == b""
    assert get(api, empty, Range="bytes=0-").status_code == 416
    with pytest.raises(RangeBeyond):
        span_of("bytes=-1", 0)


def test_a_range_of_a_content_that_was_another_is_all_of_this(api: Served) -> None:
    assert get(api, Range="bytes=0-1", If_Range='"else"').content == TRACE
    assert get(api, Range="bytes=0-1", If_Range=f'"{SHA256}"').content == TRACE[:2]


@pytest.mark.parametrize(
    "sha256",
    [
        *("none", "..", "..%2F..%2Fstore.sqlite", "%2Fetc%2Fpasswd", SHA256.upper()),
        hashlib.sha256(RAW).hexdigest(),
        f"{SHA256[:2]}%2F{SHA256}",
    ],
)
def test_what_is_not_there_and_hostile_names_are_not_found(api: Served, sha256: str) -> None:
    assert api.get(f"/artefacts/{sha256}").status_code == 404


def test_it_takes_a_token_and_a_viewer_s_is_enough(api: Served) -> None:
    path = CONTENT.format(sha256=SHA256)
    assert api.get(path, None).status_code == 401
    assert api.get(path, Scope.VIEWER).status_code == 200
    assert api.ask("HEAD", path, Scope.VIEWER).status_code == 405


def test_pieces_are_cut_to_a_size() -> None:
    assert [*cut(iter([b"abc", b"def", b"ghi"]), 5)] == [b"abc", b"de"]
    assert [*cut(iter([b"abc"]), 3)] == [b"abc"]
    assert Span(3, 5).size == 2


# --- reading elsewhere ---------------------------------------------------------------------------


class CutConnection(Connection):
    """A connection that is cut after so many bytes, so many times."""

    def __init__(self, context: FarmContext, after: int, times: int) -> None:
        super().__init__(context)
        self.after = after
        self.times = times
        self.ranges: list[str | None] = []

    @contextmanager
    def stream(self, ask: Ask, *, endless: bool = False) -> Iterator[httpx.Response]:
        self.ranges.append(ask.headers.get("Range"))
        with super().stream(ask, endless=endless) as response:
            if self.times:
                self.times -= 1
                yield httpx.Response(200, stream=CutStream(response, self.after))
            else:
                yield response


class CutStream(httpx.SyncByteStream):
    """The beginning of an answer."""

    def __init__(self, whole: httpx.Response, after: int) -> None:
        self._whole = whole
        self._after = after

    def __iter__(self) -> Iterator[bytes]:
        if self._after:
            yield next(self._whole.iter_raw(self._after))
        raise httpx.ReadError("cut")


def reader_of(api: Served, after: int, times: int) -> tuple[ApiReader, CutConnection]:
    context = FarmContext(url=api.url, token=SECRETS[Scope.VIEWER])
    reader = ApiReader(context, pytest.fail, pause_s=0.0)
    reader.close()
    connection = CutConnection(context, after, times)
    reader._connection = connection
    return reader, connection


def test_a_cut_link_is_read_on_where_it_was_cut(api: Served) -> None:
    reader, connection = reader_of(api, 30_000, 3)
    assert b"".join(reader.artefact(SHA256)) == TRACE
    assert connection.ranges == [None, "bytes=30000-", "bytes=60000-", "bytes=90000-"]


def test_a_farm_that_stays_away_is_said(api: Served) -> None:
    reader, connection = reader_of(api, 0, 100)
    with pytest.raises(FarmUnavailable):
        b"".join(reader.artefact(SHA256))
    assert len(connection.ranges) == MOST_CUTS + 1


def test_a_content_that_is_not_there_is_said(api: Served) -> None:
    reader, _ = reader_of(api, 0, 0)
    with pytest.raises(NotFound):
        b"".join(reader.artefact("none"))
