"""What runs left is read from the head's copies: the same on the head and on any other host."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest

from controller.api.connection import Ask, Connection
from controller.api.contexts import FarmContext, keep_context
from controller.api.prefix import EXPORT
from controller.api.reader import ApiReader
from controller.api.run_profile import stored_profile
from controller.contracts.errors import UserError
from controller.contracts.outcome_filter import OutcomeFilter
from controller.contracts.records import Scope
from controller.loadgen.logs import DETAIL
from controller.runtime.home import Home
from controller.runtime.run_files import RunFiles
from tests.support.api import REVOKED, SECRETS, Served, served
from tests.support.artefacts import copy_of, swap
from tests.support.brought_home import BroughtHome, brought_home
from tests.support.command_line import complaint_of, outcome_of

Laptop = Callable[..., tuple[str, str, object]]


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> BroughtHome:
    return brought_home(tmp_path_factory.mktemp("copies") / "home")


@pytest.fixture(scope="module")
def api(farm: BroughtHome) -> Iterator[Served]:
    with served(farm.home) as served_api:
        yield served_api


@pytest.fixture
def mine(farm: BroughtHome, tmp_path: Path) -> Path:
    """A copy of the head that a test may damage."""
    return Path(shutil.copytree(farm.home.path, tmp_path / "mine"))


def environ_of(url: str, folder: Path, token: str = SECRETS[Scope.VIEWER]) -> dict[str, str]:
    """Return the environment of a host that has logged in to a farm."""
    environ = {"XDG_CONFIG_HOME": str(folder / "config")}
    keep_context("team", FarmContext(url=url, token=token), environ)
    return {**environ, "BENCHFARM_CONTEXT": "team"}


@pytest.fixture
def laptop(api: Served, tmp_path: Path) -> Laptop:
    """Calls the command line on a host without a farm, and returns what `outcome_of` does."""
    environ = environ_of(api.url, tmp_path)

    def call(*words: str) -> tuple[str, str, object]:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in environ.items():
                patch.setenv(name, value)
            return outcome_of(tmp_path / "none", *words)

    return call


CALLS = (
    ("results", "verify", "{logged}"),
    ("results", "verify", "{logged}", "--json"),
    ("results", "show", "{logged}", "--provenance"),
    ("results", "show", "{profiled}", "--provenance", "--json"),
    ("profile", "show", "{profiled}"),
    ("profile", "show", "{profiled}", "--json"),
    ("profile", "diff", "{profiled}", "{profiled}", "--json"),
    ("profile", "advise", "{profiled}"),
    ("profile", "budget", "{profiled}"),
)
WRITE = (
    ("profile", "export", "{profiled}", "collapsed", "-o", "OUT"),
    ("profile", "report", "{profiled}", "-o", "OUT"),
    ("profile", "diff", "{profiled}", "{profiled}", "-o", "OUT"),
    ("profile", "advise", "{profiled}", "-o", "OUT"),
    ("profile", "report", "{profiled}", "{profiled}", "-o", "OUT"),
    ("results", "export", "OUT", "--format", "parquet"),
    ("results", "export", "OUT", "--format", "parquet", "--workload", "retinanet"),
)
LACKING = (
    (("results", "verify", "{plain}"), "its results have no logs of LoadGen"),
    (("profile", "show", "{plain}"), "it was not profiled"),
    (("profile", "show", "{awaited}"), "the head has no copy of it. Repeat it later"),
    (("profile", "advise", "{awaited}"), "the head has no copy of it"),
    (("profile", "diff", "{profiled}", "{awaited}"), "the head has no copy of it"),
    (("profile", "budget", "unknown"), "there is no such folder, and no such run. Name a folder"),
    (("results", "verify", "unknown"), "cannot find run unknown: there is no such run"),
)


def words_of(farm: BroughtHome, call: tuple[str, ...]) -> list[str]:
    names = {n: getattr(farm, n) for n in ("logged", "profiled", "plain", "awaited")}
    return [word.format_map(names) for word in call]


@pytest.mark.parametrize("call", CALLS, ids=" ".join)
def test_a_verb_prints_the_same_as_on_the_head(
    farm: BroughtHome, laptop: Laptop, call: tuple[str, ...]
) -> None:
    words = words_of(farm, call)
    here = outcome_of(farm.home.path, *words)
    assert laptop(*words) == here
    printed, complained, status = here
    assert printed
    assert (complained, status) in (("", 0), ("", 1)), "1: a figure is not as a rule has it"


@pytest.mark.parametrize("call", WRITE, ids=" ".join)
def test_a_verb_writes_the_same_file_as_on_the_head(
    farm: BroughtHome, laptop: Laptop, call: tuple[str, ...], tmp_path: Path
) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    words = words_of(farm, call)
    here = outcome_of(farm.home.path, *(str(one) if word == "OUT" else word for word in words))
    there = laptop(*(str(other) if word == "OUT" else word for word in words))
    assert [str(said).replace(str(other), str(one)) for said in there] == [*map(str, here)]
    assert here[2] == 0
    assert one.read_bytes() == other.read_bytes() != b""


def test_a_board_is_published_with_the_same_logs(
    farm: BroughtHome, laptop: Laptop, tmp_path: Path
) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    outcome_of(farm.home.path, "publish", str(one))
    _, _, status = laptop("publish", str(other))
    assert status == 0
    logs = sorted(path.relative_to(one) for path in one.rglob("runs/*/*/*"))
    assert len(logs) >= 3
    assert logs == sorted(path.relative_to(other) for path in other.rglob("runs/*/*/*"))
    for log in logs:
        assert (one / log).read_bytes() == (other / log).read_bytes()


@pytest.mark.parametrize(("call", "said"), LACKING, ids=lambda one: str(one)[:40])
def test_what_the_head_has_not_is_one_line_on_any_host(
    farm: BroughtHome, laptop: Laptop, call: tuple[str, ...], said: str
) -> None:
    words = words_of(farm, call)
    assert said in complaint_of(farm.home.path, *words)
    printed, complained, status = laptop(*words)
    assert (printed, complained.count("\n"), status) == ("", 1, 2)
    assert said in complained


def test_a_forged_copy_is_noticed_on_any_host(
    farm: BroughtHome, mine: Path, tmp_path: Path
) -> None:
    swap(mine, f"performance/{DETAIL}", farm.logged, b":::MLLOG {}\n" * 100_000)
    swap(mine, "profile/kernels.parquet", farm.profiled, b"PAR1" * 100_000)
    with served(Home(mine)) as api:
        environ = environ_of(api.url, tmp_path)
        for call in (("results", "verify", farm.logged), ("profile", "show", farm.profiled)):
            said = "the head's copy is not what its checksum says. Run `benchfarm store check`"
            assert said in complaint_of(mine, *call)
            assert said in complaint_of(tmp_path / "none", *call, **environ)


def test_a_copy_that_is_cut_short_is_noticed_and_nobody_waits(
    farm: BroughtHome, mine: Path
) -> None:
    name = "profile/primitives.parquet"
    copy = copy_of(mine, name, farm.profiled)
    swap(mine, name, farm.profiled, b"x")
    assert copy.stat().st_size < 100
    with served(Home(mine)) as api:
        context = FarmContext(url=api.url, token=SECRETS[Scope.VIEWER])
        with closing(ApiReader(context, pytest.fail, pause_s=0.0)) as reader:
            files = RunFiles(reader, farm.profiled)
            one = files.at_hand(1, name)
            with pytest.raises(UserError) as told:
                b"".join(files.pieces(one))
    assert "store check` on the head" in str(told.value)


def test_without_a_valid_token_nothing_is_read(
    farm: BroughtHome, api: Served, tmp_path: Path
) -> None:
    environ = environ_of(api.url, tmp_path, REVOKED)
    for call in (
        *(("results", "verify", farm.logged), ("profile", "show", farm.profiled)),
        *(("results", "export", str(tmp_path / "x"), "--format", "parquet"),),
    ):
        assert "Run `benchfarm login`" in complaint_of(tmp_path / "none", *call, **environ)
    assert not (tmp_path / "x").exists()


class OlderHead(Connection):
    """A head of a release that has none of some addresses."""

    @contextmanager
    def stream(self, ask: Ask, *, endless: bool = False) -> Iterator[httpx.Response]:
        if ask.path.endswith(("/artefacts", EXPORT)):
            ask = Ask(ask.method, f"/older{ask.path}")
        with super().stream(ask, endless=endless) as response:
            yield response


def test_an_older_head_without_the_addresses_is_said(farm: BroughtHome, api: Served) -> None:
    context = FarmContext(url=api.url, token=SECRETS[Scope.VIEWER])
    with closing(ApiReader(context, pytest.fail)) as reader:
        reader._connection = OlderHead(context)
        for read in (
            lambda: stored_profile(reader, farm.profiled),
            lambda: RunFiles(reader, farm.logged).listed,
            lambda: reader.table(OutcomeFilter()).__enter__(),
        ):
            with pytest.raises(UserError) as told:
                read()
            said = str(told.value)
            assert f"cannot ask the farm at {api.url}: there is no /api/v1/older/" in said
            assert "upgrade its head" in said


def test_an_answer_that_is_no_table_is_not_kept(
    farm: BroughtHome, api: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ApiReader, "table", _lines)
    call = ("results", "export", str(tmp_path / "x"), "--format", "parquet")
    said = complaint_of(tmp_path / "none", *call, **environ_of(api.url, tmp_path))
    assert "its answer is no Parquet file" in said
    assert not (tmp_path / "x").exists()


@contextmanager
def _lines(_: ApiReader, __: OutcomeFilter) -> Iterator[tuple[int, Iterator[bytes]]]:
    """Answer with JSON lines."""
    yield 1, iter([b"{}\n"] * 10)
