"""How quiet a server was while LoadGen ran: the runner records it, the agent judges it."""

from __future__ import annotations

import ast
import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from agents.host import cpu_watch
from agents.host.cpu_watch import CpuTimes
from agents.host.strain import Reading, Strain
from agents.inference.bundle.build import runner_sources
from agents.inference.on_device_result import with_host_use
from agents.inference.runner.host_use import FILE, host_watched
from controller.contracts.policy import load_policy
from controller.contracts.result import Validity
from tests.support import builders

LOUD = CpuTimes(10.0, 2, busy_s=15.0, own_s=5.0, strain=Strain(0.0, 10.0, 0))


def test_the_runner_records_its_own_use_of_the_cores_and_that_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks = iter([CpuTimes(), replace(LOUD, strain=Strain())])
    monkeypatch.setattr(cpu_watch, "read_cpu_times", lambda: next(clocks))
    readings = iter([Reading(0.0, 0, {"a": 1}), Reading(10.0, 0, {"a": 1})])
    monkeypatch.setattr(cpu_watch, "read_strain", lambda: next(readings))
    with host_watched(tmp_path, wanted=True):
        assert list(tmp_path.iterdir()) == []
    result = with_host_use(builders.result(), load_policy("ci"), tmp_path)
    assert result.environment["timed_own_cores"] == 0.5
    assert result.environment["timed_other_cores"] == 1.0
    assert result.environment["timed_throttles"] == 0
    assert result.validity is Validity.DISTURBED


def test_on_a_phone_nothing_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_watch, "read_cpu_times", pytest.fail)
    with host_watched(tmp_path, wanted=False):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("policy", "broken", "validity"),
    [
        ("ci", (), Validity.DISTURBED),
        ("ci", ("LoadGen: too short",), Validity.INVALID),
        ("lab", (), Validity.INVALID),
        ("mlperf", (), Validity.VALID),  # asks nothing of a server
    ],
)
def test_a_disturbed_run_of_loadgen_by_its_policy(
    policy: str, broken: tuple[str, ...], validity: Validity, tmp_path: Path
) -> None:
    (tmp_path / FILE).write_text(json.dumps(asdict(LOUD)))
    update = {"validity": Validity.INVALID if broken else Validity.VALID, "reasons": broken}
    found = with_host_use(
        builders.result().model_copy(update=update), load_policy(policy), tmp_path
    )
    assert found.validity is validity
    assert found.reasons[: len(broken)] == broken
    assert found.environment["timed_other_cores"] == 1.0
    loud = [reason for reason in found.reasons if "kept 1.00 of 2 cores busy" in reason]
    assert len(loud) == (policy != "mlperf")


@pytest.mark.parametrize("damaged", [None, b"", b"{", b"[]", b"\xff", b'{"cores": "all"}'])
def test_a_file_that_is_missing_or_damaged_is_not_judged(
    damaged: bytes | None, tmp_path: Path
) -> None:
    if damaged is not None:
        (tmp_path / FILE).write_bytes(damaged)
    result = builders.result()
    assert with_host_use(result, load_policy("lab"), tmp_path) == result


def test_a_file_without_cores_or_time_is_not_judged(tmp_path: Path) -> None:
    for odd in (CpuTimes(), replace(LOUD, cores=0), replace(LOUD, elapsed_s=-1.0)):
        (tmp_path / FILE).write_text(json.dumps(asdict(odd)))
        found = with_host_use(builders.result(), load_policy("mlperf"), tmp_path)
        assert found.environment["timed_steal_share"] is None


def test_a_bundle_has_all_of_ours_that_the_runner_imports() -> None:
    packed = runner_sources()
    modules = {path.removesuffix(".py").replace("/", ".") for path in packed}
    modules |= {"agents.inference.runner", "agents.host", "controller.loadgen"}
    imported = {
        node.module
        for content in packed.values()
        for node in ast.walk(ast.parse(content))
        if isinstance(node, ast.ImportFrom) and node.module
    }
    ours = {name for name in imported if name.split(".")[0] in ("agents", "controller")}
    assert "agents.host.cpu_watch" in ours
    assert ours <= modules
