"""A user's program on every Remote: this host, a phone, and one whose outputs come as one."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from agents.remotes.remote import RUNS
from controller.contracts.base import Scalar
from controller.contracts.result import Blame, Failure, Result
from models.mobile import catalogue
from models.mobile.store import Store
from tests.support.remotes import Place
from tests.support.user_program import RECORDED, SCRIPT, STACK, add, run_on, spec_of
from tests.support.validity import MET_RULES
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.integration
SHELL = "#!/bin/sh"
WEIGHTS = "rate 42.0\n"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("BENCHFARM_MODELS", str(tmp_path / "models"))
    return Store(tmp_path / "models")


def there(place: Place, program: str) -> str:
    """Return a script with the shell that a place has: an old phone has no /bin."""
    return program.replace(SHELL, "#!/system/bin/sh") if place.merged else program


async def require_nothing_left(place: Place, result: Result) -> None:
    """The folder of the run's command has gone, and nothing runs."""
    await place.until_quiet()
    command = result.environment["command"]
    assert isinstance(command, tuple)
    runs = Path(str(command[0])).parents[1] / RUNS
    listed = await place.remote.run(("ls", str(runs)), PATIENCE_S)
    assert listed.stdout.split() == []


async def test_one_yaml_gives_the_same_result_everywhere(
    place: Place, store: Store, tmp_path: Path
) -> None:
    add(store, tmp_path, STACK, program=there(place, SCRIPT), weights=WEIGHTS)
    spec = spec_of(tmp_path, "vendor-bench", {"loops": 7, "quiet": True})
    result = await run_on(place.remote, tmp_path, spec)
    assert isinstance(result, Result), result
    assert result.validity in MET_RULES
    assert result.metrics["latency"].samples == pytest.approx((0.0015, 0.0025, 0.0035))
    assert result.metrics["rate"].value == 42.0
    facts = result.environment
    assert (facts["mode_used"], facts["arguments_seen"]) == ("burst", "7 --quiet")
    assert (tmp_path / "artefacts/output/log.txt").read_text() == "a log\n"
    await require_nothing_left(place, result)


@pytest.mark.parametrize(
    ("program", "knobs", "blame", "kind"),
    [
        (SCRIPT, {"mode": "npu"}, Blame.DEVICE, "no_npu"),
        ("#!/bin/sh\nexit 3\n", {}, Blame.WORKLOAD, "exit"),
        ("#!/bin/sh\nkill -SEGV $$\n", {}, Blame.WORKLOAD, "signal"),
        ("#!/bin/sh\necho took 1 ms\n", {}, Blame.WORKLOAD, "output"),
        ("#!/no/such/shell\n", {}, Blame.DEVICE, "no_exec"),
        ("#!/bin/sh\nno-such-compiler\n", {}, Blame.WORKLOAD, "exit"),
        ("#!/bin/sh\nexit 127\n", {}, Blame.WORKLOAD, "exit"),
        ("#!/bin/sh\nexit 255\n", {}, Blame.WORKLOAD, "exit"),
    ],
)
async def test_each_failure_is_told_alike(
    place: Place,
    store: Store,
    tmp_path: Path,
    program: str,
    knobs: dict[str, Scalar],
    blame: Blame,
    kind: str,
) -> None:
    add(store, tmp_path, STACK, program=there(place, program), weights=WEIGHTS)
    failure = await run_on(place.remote, tmp_path, spec_of(tmp_path, "vendor-bench", knobs))
    assert isinstance(failure, Failure), failure
    assert (failure.blame, failure.kind) == (blame, kind), failure.message


PRINTS = """#!/bin/sh
cat <<"EOF"
{text}EOF
echo "$LD_LIBRARY_PATH" >&2
"""


async def test_a_recorded_program_tells_every_figure(
    place: Place, store: Store, tmp_path: Path
) -> None:
    stack = yaml.safe_load(STACK.replace("vendor-bench", "printing"))
    text = (RECORDED / "llama_bench.json").read_text()
    stack["command"] |= {
        "files": {"program": {"executable": True}, "library": {"filename": "libx.so.1"}},
        "arguments": ["{file:program}"],
        "environment": {"LD_LIBRARY_PATH": "{files}"},
        "figures": {"rate": {"unit": "tokens/s", "json_path": "1.avg_ts"}},
        "facts": {"libraries": "^(?P<value>/.*)"},
        "failures": [],
    }
    stack["facts"] = {"libraries": {"kind": "setting", "means": "folders of its libraries"}}
    add(
        store,
        tmp_path,
        yaml.safe_dump(stack),
        program=there(place, PRINTS.format(text=text)),
        library="elf",
    )
    result = await run_on(place.remote, tmp_path, spec_of(tmp_path, "printing"))
    assert isinstance(result, Result), result
    assert result.metrics["rate"].value == 12.4
    folder = str(result.environment["libraries"])
    listed = await place.remote.run(("ls", folder), PATIENCE_S)
    assert set(listed.stdout.split()) == {b"program", b"libx.so.1"}


async def test_a_changed_program_is_pushed_anew(place: Place, store: Store, tmp_path: Path) -> None:
    add(store, tmp_path, STACK, program=there(place, SCRIPT), weights=WEIGHTS)
    spec = spec_of(tmp_path, "vendor-bench")
    pushed = []
    for weights in (WEIGHTS, WEIGHTS, "rate 43.0\n"):
        (tmp_path / "weights").write_text(weights)
        catalogue.add(store, tmp_path / "weights", "vendor-bench/files/weights")
        result = await run_on(place.remote, tmp_path, spec)
        assert isinstance(result, Result), result
        pushed.append((result.metrics["rate"].value, result.environment["pushed_bytes"] != 0))
    assert pushed == [(42.0, True), (42.0, False), (43.0, True)]
