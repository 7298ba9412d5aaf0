"""The profile of a run, from the head's copy of its files: as a function and over HTTP."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from controller.api.contexts import FarmContext
from controller.api.reader import ApiReader
from controller.api.run_profile import stored_profile
from controller.async_client import AsyncFarm
from controller.client import Farm
from controller.contracts.errors import CopyDamaged, NotFound
from controller.contracts.records import Scope
from controller.profiles.files import KERNELS, SUMMARY
from controller.runtime.home import Home
from controller.store.protocol import FarmReader
from controller.store.sqlite import SqliteStore
from tests.support.api import SECRETS, Described, Served, served
from tests.support.artefacts import announce, copy_of, swap
from tests.support.brought_home import PROFILE, BroughtHome, brought_home

ROUTE = "/runs/{run_id}/profile"
DESCRIBED = Described()


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> BroughtHome:
    return brought_home(tmp_path_factory.mktemp("profiles") / "home")


@pytest.fixture(scope="module")
def api(farm: BroughtHome) -> Iterator[Served]:
    with served(farm.home) as served_api:
        yield served_api


@pytest.fixture(params=["file", "api"])
def reader(request: pytest.FixtureRequest, api: Served) -> Iterator[FarmReader]:
    """Both implementations of FarmReader."""
    if request.param == "file":
        with closing(SqliteStore.open_reader(api.home.store)) as store:
            yield store
        return
    context = FarmContext(url=api.url, token=SECRETS[Scope.VIEWER])
    with closing(ApiReader(context, pytest.fail)) as elsewhere:
        yield elsewhere


@pytest.fixture
def mine(farm: BroughtHome, tmp_path: Path) -> Path:
    """A copy of the head that a test may damage."""
    return Path(shutil.copytree(farm.home.path, tmp_path / "home"))


def get(api: Served, run_id: str, **options: Any) -> httpx.Response:  # noqa: ANN401
    """GET a profile; the answer is one that is described."""
    answer = api.get(ROUTE.format(run_id=run_id), **options)
    assert DESCRIBED.objection("GET", ROUTE, answer) == ""
    return answer


def test_it_is_the_one_that_the_agent_wrote(reader: FarmReader, farm: BroughtHome) -> None:
    found = stored_profile(reader, farm.profiled)
    assert (found.run_id, found.attempt) == (farm.profiled, 1)
    assert found.profile == PROFILE
    assert stored_profile(reader, farm.profiled, 1) == found


@pytest.mark.parametrize(
    ("run", "attempt", "said"),
    [
        ("none", None, "there is no such run"),
        ("plain", None, "it was not profiled. Submit a sweep"),
        ("logged", None, "it was not profiled"),
        ("awaited", None, "the head has no copy of it. Repeat it later"),
        ("profiled", 2, "the head has no copy of it"),
    ],
)
def test_why_there_is_none_is_said(
    reader: FarmReader, farm: BroughtHome, run: str, attempt: int | None, said: str
) -> None:
    with pytest.raises(NotFound) as told:
        stored_profile(reader, getattr(farm, run, run), attempt)
    assert said in str(told.value)


def test_one_whose_files_have_not_all_come_is_not_read(mine: Path, farm: BroughtHome) -> None:
    announce(mine, f"profile/{SUMMARY}", farm.plain)
    with closing(SqliteStore.open_reader(mine / "store.sqlite")) as store:
        with pytest.raises(NotFound, match="it is still with agent host-1"):
            stored_profile(store, farm.plain)
        copy_of(mine, f"profile/{KERNELS}", farm.profiled).unlink()
        with pytest.raises(NotFound, match=r"kernels\.parquet .*the head has kept it no longer"):
            stored_profile(store, farm.profiled)


@pytest.mark.parametrize("content", [b"PAR1", b"", b'{"a": 1}'])
def test_a_forged_copy_is_refused(mine: Path, farm: BroughtHome, content: bytes) -> None:
    swap(mine, f"profile/{KERNELS}", farm.profiled, content)
    with (
        closing(SqliteStore.open_reader(mine / "store.sqlite")) as store,
        pytest.raises(CopyDamaged, match="not what its checksum says"),
    ):
        stored_profile(store, farm.profiled)


def test_json_has_all_of_it(api: Served, farm: BroughtHome) -> None:
    said = get(api, farm.profiled, params={"timeline": "true"}).json()
    assert said["summary"] == PROFILE.summary.model_dump(mode="json")
    assert len(said["kernels"]) == len(PROFILE.kernels) > 0
    assert len(said["primitives"]) == len(PROFILE.primitives) > 0
    first, row = said["primitives"][0], PROFILE.primitives[0]
    assert first["seconds"] == row.seconds
    assert first["parameters"] == row.parameters
    assert first["place"]["phase"] == row.place.phase
    assert len(said["timeline"]) == len(PROFILE.timeline)
    assert get(api, farm.profiled).json()["timeline"] == []


def test_it_has_an_etag(api: Served, farm: BroughtHome) -> None:
    answer = get(api, farm.profiled)
    again = get(api, farm.profiled, headers={"If-None-Match": answer.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    ("run", "params", "status", "said"),
    [
        ("none", {}, 404, "there is no such run"),
        ("plain", {}, 404, "it was not profiled"),
        ("awaited", {}, 404, "the head has no copy of it"),
        ("profiled", {"attempt": "0"}, 422, "attempt"),
        ("profiled", {"attempt": "x"}, 422, "attempt"),
        ("profiled", {"top": "1"}, 422, "top"),
    ],
)
def test_errors_are_problems(
    api: Served, farm: BroughtHome, run: str, params: dict[str, str], status: int, said: str
) -> None:
    answer = get(api, getattr(farm, run, run), params=params)
    assert answer.status_code == status
    assert said in answer.json()["detail"]


def test_it_takes_a_token_and_a_viewer_s_is_enough(api: Served, farm: BroughtHome) -> None:
    assert get(api, farm.profiled, scope=None).status_code == 401
    assert get(api, farm.profiled, scope=Scope.VIEWER).status_code == 200


def test_a_damaged_copy_is_a_fault_of_the_head_s(mine: Path, farm: BroughtHome) -> None:
    copy = copy_of(mine, f"profile/{KERNELS}", farm.profiled)
    content = bytearray(copy.read_bytes())
    content[-1] ^= 1
    copy.write_bytes(content)
    with served(Home(mine)) as api:
        answer = get(api, farm.profiled)
    assert answer.status_code == 503
    assert "kernels.parquet" in answer.json()["detail"]
    assert str(mine) not in answer.text


def test_programs_get_it_too(api: Served, farm: BroughtHome) -> None:
    client = Farm(FarmContext(url=api.url, token=SECRETS[Scope.VIEWER]))
    found = client.profile(farm.profiled, attempt=1)
    assert found.kernels == PROFILE.kernels
    assert found.primitives == PROFILE.primitives
    assert asyncio.run(AsyncFarm(client).profile(farm.profiled)) == found
    assert json.loads(found.model_dump_json())["attempt"] == 1
    with pytest.raises(NotFound, match="it was not profiled"):
        client.profile(farm.plain)
