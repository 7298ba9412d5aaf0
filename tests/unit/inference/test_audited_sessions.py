"""Audits under the real LoadGen: planted cheaters are named, an honest system is not.

The clock that times answers is simulated, and what a system does is how far it moves it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

from agents.inference.on_device_result import audited
from agents.inference.runner.audited import (
    AuditedSession,
    batched_session_of,
    batched_warmth_of,
    session_of,
    warmth_of,
)
from agents.inference.runner.dataset import Dataset
from agents.inference.runner.graphs import Sample
from agents.inference.runner.session import Session
from agents.inference.runner.spec import RunSpec
from controller.contracts.audit import LATENCY, SCORED, AuditCheck, AuditVerdict
from controller.contracts.records import StoredResult
from controller.contracts.result import Environment, Measurement
from controller.contracts.units import Unit
from controller.loadgen import logs
from controller.loadgen.audit_pattern import AUDITS, FILE
from controller.loadgen.audit_verdicts import findings_of
from models.mobile.metrics import read_answers
from tests.support.audits import original_result, try_result

HONEST_S: Final = 400e-6
"""Processor time of an answer that is computed."""
CHEAP_S: Final = 40e-6
SAMPLES: Final = 40
DATA: Final = Dataset([np.random.default_rng(3).integers(0, 100, (SAMPLES, 4, 4, 1), np.uint8)])
TRUTH: Final = [int(DATA[index][0].max()) for index in range(SAMPLES)]


class Clock:
    """A clock that only answers move; each takes up to a tenth longer than it costs."""

    def __init__(self) -> None:
        self.now_ns = 0
        self._noise = np.random.default_rng(5)

    def compute(self, seconds: float) -> None:
        self.now_ns += int(seconds * 1e9 * self._noise.uniform(1.0, 1.1))


CLOCK: Final = Clock()


@pytest.fixture(autouse=True)
def simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "perf_counter_ns", lambda: CLOCK.now_ns)
    monkeypatch.setattr(time, "perf_counter", lambda: CLOCK.now_ns / 1e9)


class Honest:
    """Answers with the largest pixel, which always takes as long."""

    def prepare(self, arrays: Sequence[NDArray[Any]]) -> Sample:
        return tuple(arrays)

    def answer(self, sample: Sample) -> NDArray[Any]:
        CLOCK.compute(self.cost_s(sample))
        return np.array([self.value(sample)], np.int64)

    def answers(self, samples: Sequence[Sample]) -> Sequence[NDArray[Any]]:
        return [self.answer(sample) for sample in samples]

    def cost_s(self, sample: Sample) -> float:
        return HONEST_S

    def value(self, sample: Sample) -> int:
        return int(sample[0].max())


class Caching(Honest):
    """Remembers samples from when it has seen them `sights` times."""

    def __init__(self, sights: int = 1) -> None:
        self._sights, self._seen = sights, dict[bytes, int]()

    def cost_s(self, sample: Sample) -> float:
        key = sample[0].tobytes()
        self._seen[key] = self._seen.get(key, 0) + 1
        return CHEAP_S if self._seen[key] > self._sights else HONEST_S


class ByAddress(Honest):
    """Remembers answers by where samples lie in memory, whatever lies there later."""

    def __init__(self) -> None:
        self._seen = set[int]()

    def cost_s(self, sample: Sample) -> float:
        address = sample[0].ctypes.data
        is_known = address in self._seen
        self._seen.add(address)
        return CHEAP_S if is_known else HONEST_S


class KnowsTheData(Honest):
    """Has a table of the answers to the data set."""

    def __init__(self) -> None:
        self._known = {DATA[index][0].tobytes() for index in range(SAMPLES)}

    def cost_s(self, sample: Sample) -> float:
        return CHEAP_S if sample[0].tobytes() in self._known else HONEST_S


class Named:
    """Images whose names the system can see, beside their pixels."""

    def __init__(self) -> None:
        self.name = 0

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> NDArray[Any]:
        self.name = index
        return DATA[index][0]


class KnowsTheNames(Honest):
    """Answers by the names of images."""

    def __init__(self, images: Named) -> None:
        self._images = images

    def prepare(self, arrays: Sequence[NDArray[Any]]) -> Sample:
        return (*arrays, np.array([self._images.name]))

    def value(self, sample: Sample) -> int:
        return TRUTH[int(sample[1][0])]


class SlowCold(Honest):
    """Is three times slower for its first answers."""

    def __init__(self, answers: int) -> None:
        self._left = answers

    def cost_s(self, sample: Sample) -> float:
        self._left -= 1
        return HONEST_S * (3 if self._left >= 0 else 1)


def spec(folder: Path, audit: str, **changes: object) -> RunSpec:
    folder.mkdir(parents=True, exist_ok=True)
    given: dict[str, object] = {
        "model": "none",
        "dataset": "none",
        "log_dir": str(folder),
        "scenario": "single_stream",
        "mode": "performance",
        "min_query_count": 400,
        "min_duration_ms": 0,
        "performance_sample_count": SAMPLES,
        "threads": 1,
        "delegate": "xnnpack",
        "batch_size": 1,
        "audit": audit,
    }
    return RunSpec.of(given | changes)


def run(system: Honest, given: RunSpec, at_once: int = 1) -> Session:
    """Do a run as the runner on a device does it."""
    if at_once > 1:
        session: Session = batched_session_of(system, DATA, given, at_once)
        session.run(batched_warmth_of(given, system, DATA[0], (at_once,)).fastest_s)
    else:
        session = session_of(system, DATA, given)
        session.run(warmth_of(given, system, DATA[0]).fastest_s)
    return session


def try_of(session: Session, folder: Path, check: AuditCheck, at_once: int = 1) -> StoredResult:
    """Return the stored result of an audit's run."""
    np.save(folder / FILE, np.array(session.audit_ns, np.int64))
    facts: Environment = {"performance_samples": SAMPLES, "samples_at_once": at_once}
    return try_result(
        check, {LATENCY: audited(folder / FILE, check)}, {**facts, **session_facts(session)}
    )


def session_facts(session: Session) -> Environment:
    return {name: str(value) for name, value in session.facts().items()}


def verdict(
    system: Honest,
    check: AuditCheck,
    folder: Path,
    at_once: int = 1,
    changes: Mapping[str, object] = MappingProxyType({}),
) -> tuple[AuditVerdict, str]:
    """Return what an audit's first finding, on speed within the run, says of a system."""
    session = run(system, spec(folder, check, **changes), at_once)
    found = findings_of(check, original_result(), [try_of(session, folder, check, at_once)])
    return found[0].verdict, found[0].why


OF_SCENARIO: Final[Mapping[str, Mapping[str, object]]] = {
    "multi_stream": {"samples_per_query": 8, "min_query_count": 60},
    "server": {"target_qps": 1500.0, "target_latency_ms": 100.0},
}


@pytest.mark.parametrize("scenario", ["single_stream", "multi_stream", "server", "offline"])
@pytest.mark.parametrize("check", AuditCheck)
def test_an_honest_system_is_not_named(check: AuditCheck, scenario: str, tmp_path: Path) -> None:
    found, why = verdict(
        Honest(), check, tmp_path, changes={"scenario": scenario, **OF_SCENARIO.get(scenario, {})}
    )
    assert found is not AuditVerdict.REFUSED, why
    assert "[" in why, "it has an interval"


CHEATERS: Final = [
    (AuditCheck.CACHE, Caching, (), "answers are cached"),
    (AuditCheck.CACHE, Caching, (2,), "answers are cached"),
    (AuditCheck.CACHE, ByAddress, (), "answers are cached"),
    (AuditCheck.RANDOM_DATA, KnowsTheData, (), "only known samples are fast"),
    (AuditCheck.COLD_START, SlowCold, (100,), "the speed is reached warm only"),
]


@pytest.mark.parametrize(("check", "kind", "given", "named"), CHEATERS)
def test_a_planted_cheater_is_named(
    check: AuditCheck, kind: type[Honest], given: tuple[int, ...], named: str, tmp_path: Path
) -> None:
    found, why = verdict(kind(*given), check, tmp_path)
    assert found is AuditVerdict.REFUSED, why
    assert why.startswith(f"refused: {named}: ")


def test_a_cache_is_named_in_batches_and_multi_stream(tmp_path: Path) -> None:
    batches = {"scenario": "offline", "min_query_count": 320}
    found, why = verdict(Caching(), AuditCheck.CACHE, tmp_path / "a", 8, batches)
    assert found is AuditVerdict.REFUSED, why
    found, why = verdict(Honest(), AuditCheck.CACHE, tmp_path / "b", 8, batches)
    assert found is not AuditVerdict.REFUSED, why


def test_one_slow_answer_at_the_beginning_is_a_warm_up_and_no_fault(tmp_path: Path) -> None:
    found, why = verdict(SlowCold(1), AuditCheck.COLD_START, tmp_path)
    assert found is not AuditVerdict.REFUSED, why
    assert "the first takes 3" in why or "the first takes 2" in why


def test_accuracy_by_names_is_named_and_by_data_is_not(tmp_path: Path) -> None:
    def top1(system: Honest, audit: str, folder: Path) -> float:
        session_of(system, Dataset([images]), spec(folder, audit, mode="accuracy")).run(1e-3)
        answers = read_answers(folder / logs.ACCURACY, SAMPLES)
        told = [np.frombuffer(answers.by_sample[n], "<i8")[0] for n in range(SAMPLES)]
        right = [int(one) == truth for one, truth in zip(told, TRUTH, strict=True)]
        return sum(right) / SAMPLES

    images = Named()
    systems = ((Honest(), AuditVerdict.PASSES), (KnowsTheNames(images), AuditVerdict.REFUSED))
    for system, expected in systems:
        folder = tmp_path / type(system).__name__
        claimed = top1(system, "", folder / "own")
        random = top1(system, AuditCheck.RANDOM_DATA, folder / "random")
        assert claimed == 1.0
        tried = try_result(
            AuditCheck.RANDOM_DATA,
            {"top1": Measurement(value=random, unit=Unit.FRACTION), LATENCY: times(0.001)},
            {SCORED: SAMPLES},
        )
        original = original_result(top1=claimed)
        found = findings_of(AuditCheck.RANDOM_DATA, original, [tried])[-1]
        assert (found.name, found.verdict) == ("accuracy", expected), found.why


def times(seconds: float) -> Measurement:
    return Measurement.of_samples((seconds,) * 64, Unit.SECONDS)


def test_repeated_samples_are_new_ones_first_in_every_run(tmp_path: Path) -> None:
    seen: list[bytes] = []

    class Noting(Honest):
        def cost_s(self, sample: Sample) -> float:
            seen.append(sample[0].tobytes())
            return 0.0

    runs = []
    for name in ("a", "b"):
        seen.clear()
        session = session_of(Noting(), DATA, spec(tmp_path / name, "cache"))
        session.run(1e-3)
        assert len(session.audit_ns) == len(seen) >= 400
        groups = [seen[n : n + 4] for n in range(0, 400, 4)]
        assert all(len(set(group)) == 1 for group in groups)
        firsts = {group[0] for group in groups}
        assert len(firsts) == 100, "none is answered again later"
        runs.append(firsts | {DATA[index][0].tobytes() for index in range(SAMPLES)})
    assert len(runs[0] & runs[1]) <= SAMPLES + 1, "another run has others"


def test_random_samples_alternate_with_the_run_s_own(tmp_path: Path) -> None:
    own = {DATA[index][0].tobytes() for index in range(SAMPLES)}
    seen: list[bool] = []

    class Noting(Honest):
        def cost_s(self, sample: Sample) -> float:
            seen.append(sample[0].tobytes() in own)
            assert sample[0].max() < 100, "within the range of the sample"
            return 0.0

    session = session_of(Noting(), DATA, spec(tmp_path, "random-data"))
    session.run(1e-3)
    assert seen[:6] == [True, False, True, False, True, False]
    assert sum(seen) == (len(seen) + 1) // 2
    assert isinstance(session, AuditedSession)


def test_an_ordinary_run_has_no_audit(tmp_path: Path) -> None:
    session = session_of(Honest(), DATA, spec(tmp_path, ""))
    assert type(session) is Session
    assert (session.facts(), len(session.audit_ns)) == ({}, 0)


def test_the_checks_are_those_of_the_runner() -> None:
    assert tuple(map(str, AuditCheck)) == AUDITS
