from __future__ import annotations

import asyncio
import errno
import io
import json
import os
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path, PurePosixPath

import numpy as np
import pytest

from agents.attempts import on_device
from agents.attempts.on_device import ANSWERS, LoadGenRunner, modes_of, runner_spec
from agents.attempts.phone import still_fits
from agents.attempts.worker_protocol import MESSAGE_BYTES
from agents.host.cpu_watch import CpuTimes
from agents.inference.bundle import from_source
from agents.inference.bundle.requirements import Requirements
from agents.inference.content import Content, Ready, Runtime, score_answers
from agents.inference.on_device_result import (
    LATENCIES_BYTES,
    PERFORMANCE,
    SAMPLED_BYTES,
    merged,
    with_files,
)
from agents.inference.quality import delegated, judged
from agents.inference.run_length import OFFLINE, run_length
from agents.inference.run_rules import DATASET_ORIGIN
from agents.inference.runner import host_use
from agents.inference.runner.sampler import FILE
from agents.inference.runner.spec import RunSpec
from agents.phones.conditions import battery_facts, environment_of, thermal_facts
from agents.remotes.remote import (
    KILLED,
    NO_ENVIRONMENT,
    Completed,
    Ended,
    FaultKind,
    Pushed,
    RemoteFault,
)
from agents.remotes.tree import Tree
from controller.contracts.base import Scalar
from controller.contracts.catalog import load_catalog
from controller.contracts.device import Device
from controller.contracts.errors import UserError
from controller.contracts.manifests import QualityTarget
from controller.contracts.mobile import OnDevice, RunLengths
from controller.contracts.policy import load_policy
from controller.contracts.result import Blame, Failure, Measurement, Outcome, Result, Validity
from controller.contracts.units import Unit
from controller.contracts.wire import Job, OnDeviceProgram, Progress, WorkerSpec
from controller.loadgen.logs import DetailLog, latency_metrics
from controller.loadgen.own_latencies import FILE as LATENCIES
from models.mobile.preparation import TRUTHS, Scored
from models.mobile.samples import TRUTH_JSON
from tests.support import builders
from tests.support.knobs import scenario_knobs

XNNPACK = {"delegate": "xnnpack", "batch_size": 1}
SHAPES = load_catalog().workloads["shapes_classifier"]
BATTERY = """Current Battery Service state:
  AC powered: false
  USB powered: true
  level: 83
  temperature: 287
"""
BUILDING = Content.runtime
THERMAL = """IsStatusOverride: false
Thermal Status: 3
Cached temperatures:
\tTemperature{mValue=99.0, mType=3, mName=skin, mStatus=0}
HAL Ready: true
Current temperatures from HAL:
\tTemperature{mValue=36.5, mType=3, mName=skin, mStatus=0}
"""


def result(metrics: dict[str, float], *reasons: str) -> Result:
    return Result(
        validity=Validity.INVALID if reasons else Validity.VALID,
        reasons=reasons,
        metrics={n: Measurement(value=v, unit=Unit.FRACTION) for n, v in metrics.items()},
        environment={"mode": "performance", "samples": 64},
        artefacts={f"log_{name}": name for name in metrics},
    )


def test_a_submission_has_every_metric_and_every_reason() -> None:
    performance = result({"latency_p90": 1.0, "peak_memory": 5.0}, "too short")
    accuracy = result({"top1": 0.9, "peak_memory": 7.0})
    both = merged([performance, accuracy], {"pushed_bytes": 3})
    assert (both.validity, both.reasons) == (Validity.INVALID, ("too short",))
    values = {name: m.value for name, m in both.metrics.items()}
    assert values == {"latency_p90": 1.0, "top1": 0.9, "peak_memory": 5.0}
    assert both.environment["pushed_bytes"] == 3
    assert set(both.artefacts) == {"log_latency_p90", "log_peak_memory", "log_top1"}


@pytest.mark.parametrize(("top1", "verdict"), [(0.8, Validity.VALID), (0.79, Validity.INVALID)])
def test_accuracy_below_the_quality_target_is_invalid_with_both_numbers(
    top1: float, verdict: Validity
) -> None:
    found = judged(result({"top1": top1}), QualityTarget(metric="top1", value=0.8))
    assert found.validity is verdict
    expected = ("top1 0.7900 is below the quality target 0.8000",)
    assert found.reasons == (() if verdict is Validity.VALID else expected)


@pytest.mark.parametrize(
    ("used", "wanted", "reasons"),
    [
        ("xnnpack", "xnnpack", ()),
        ("none", "none", ()),
        ("none", "auto", ()),
        ("none", "xnnpack", ("delegate none ran it, not xnnpack",)),
        ("xnnpack", "none", ("delegate xnnpack ran it, not none",)),
    ],
)
def test_a_delegate_that_was_not_asked_for_is_invalid(
    used: str, wanted: str, reasons: tuple[str, ...]
) -> None:
    measured = result({"top1": 0.9}).model_copy(update={"environment": {"delegate": used}})
    found = delegated(measured, wanted)
    assert found.reasons == reasons
    assert found.validity is (Validity.INVALID if reasons else Validity.VALID)
    assert merged([found, found], {}).reasons == reasons


def test_without_an_accuracy_or_a_target_nothing_is_judged() -> None:
    performance = result({"latency_p90": 1.0})
    target = QualityTarget(metric="top1", value=0.8)
    assert judged(performance, target).validity is Validity.VALID
    assert judged(performance, None) == performance


WELL = Ended(0, False, b"")


class FakePhone:
    """Answers every run with a result at once, and notes how long it was given."""

    def __init__(
        self,
        breaks_with: BaseException | None = None,
        ended: Ended = WELL,
        says: Sequence[bytes] = (),
    ) -> None:
        self.breaks_with = breaks_with
        self.says = says
        self.ended = ended
        self.deadlines: list[float] = []
        self.commands: list[tuple[str, ...]] = []

    async def run(self, argv: Sequence[str], deadline_s: float, stdin: bytes = b"") -> Completed:
        self.commands.append(tuple(argv))
        return Completed(0, b"", b"")

    async def stream(
        self,
        argv: Sequence[str],
        deadline_s: float,
        on_line: Callable[[bytes], None],
        environment: Mapping[str, str] = NO_ENVIRONMENT,
    ) -> Ended:
        self.deadlines.append(deadline_s)
        if self.breaks_with:
            raise self.breaks_with
        self.commands.append(tuple(argv))
        metric = "peak_memory" if "accuracy" in argv[-1] else "throughput"
        for line in self.says or [result({metric: 0.9}).model_dump_json().encode()]:
            on_line(line)
        return self.ended

    async def push_tree(self, tree: Tree) -> Pushed:
        return Pushed(PurePosixPath("/there") / tree.digest, 7)

    async def pull(self, source: PurePosixPath, target: Path) -> None:
        target.mkdir()
        np.save(target / LATENCIES, np.arange(1, 65) * 1_000_000)

    async def clean(self) -> int:
        return 0


class DamagedPhone(FakePhone):
    """Sends files that its runner can't have written."""

    def __init__(self, name: str, content: bytes, seconds: float | None = 2.0) -> None:
        measured = result({"throughput": 0.9}).model_copy(
            update={"environment": {"samples": 64, "started_at_uptime_s": 100.0}}
        )
        if seconds is not None:
            metrics = {"duration": Measurement(value=seconds, unit=Unit.SECONDS)}
            measured = measured.model_copy(update={"metrics": metrics})
        super().__init__(says=[measured.model_dump_json().encode()])
        self.file, self.content = name, content

    async def pull(self, source: PurePosixPath, target: Path) -> None:
        await super().pull(source, target)
        (target / self.file).write_bytes(self.content)


ANSWER = (3).to_bytes(8, "little").hex()
ENTRIES = [json.dumps({"seq_id": n, "qsl_idx": n, "data": ANSWER}) for n in range(1024)]
LOG = "[\n" + ",\n".join(ENTRIES) + "]\n"
DAMAGED_LOGS: dict[str, bytes | None] = {
    "cut": LOG[:-100].encode(),
    "not hexadecimal": LOG.replace(ANSWER, "no", 1).encode(),
    "no JSON": b"[\n{\n",
    "no text": b"\xff" * 64,
    "another entry": b"[\n7\n]\n",
    "without answers": LOG.replace('"data"', '"date"').encode(),
    "a cut answer": LOG.replace(ANSWER, ANSWER[:-2], 1).encode(),
    "empty answers": LOG.replace(ANSWER, "").encode(),
    "missing": None,
}


class GarblingPhone(FakePhone):
    """Sends such an accuracy log."""

    def __init__(self, content: bytes | None) -> None:
        super().__init__()
        self.content = content

    async def pull(self, source: PurePosixPath, target: Path) -> None:
        await super().pull(source, target)
        if self.content is not None:
            (target / ANSWERS).write_bytes(self.content)


@pytest.mark.parametrize("case", DAMAGED_LOGS)
async def test_answers_that_no_runner_writes_are_the_device_s_fault(
    spec: WorkerSpec, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_device, "score_answers", score_answers)
    truths = Path(spec.artefact_dir) / TRUTHS
    truths.mkdir()
    (truths / TRUTH_JSON).write_text(json.dumps([3] * 1024))
    await _is_the_device_s_fault(GarblingPhone(DAMAGED_LOGS[case]), spec, f"device: {ANSWERS}: ")


class UnreadablePhone(FakePhone):
    """Its accuracy log comes to lie where this host can't read: EIO."""

    async def pull(self, source: PurePosixPath, target: Path) -> None:
        await super().pull(source, target)
        (target / ANSWERS).symlink_to("/proc/self/mem")


async def test_answers_that_this_host_can_t_read_are_not_the_device_s_fault(
    spec: WorkerSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_device, "score_answers", score_answers)
    truths = Path(spec.artefact_dir) / TRUTHS
    truths.mkdir()
    (truths / TRUTH_JSON).write_text(json.dumps([3] * 1024))
    outcome = await outcome_on(UnreadablePhone(), spec)
    assert isinstance(outcome, Failure), outcome
    assert outcome.blame is not Blame.DEVICE
    assert outcome.message.endswith(
        f"{ANSWERS}: {os.strerror(errno.EIO)}. Check this host's disk."
    ), outcome.message


async def test_answers_of_a_sound_log_are_scored(
    spec: WorkerSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_device, "score_answers", score_answers)
    truths = Path(spec.artefact_dir) / TRUTHS
    truths.mkdir()
    (truths / TRUTH_JSON).write_text(json.dumps([3] * 1024))
    outcome = await outcome_on(GarblingPhone(LOG.encode()), spec)
    assert isinstance(outcome, Result), outcome
    assert outcome.metrics["top1"].value == 1.0


@pytest.mark.parametrize("origin", [None, "samples: md5:0 (a.zip); truth: md5:1 (b.zip)"])
async def test_a_device_does_not_say_what_vouches_for_its_data(
    spec: WorkerSpec, origin: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def task(*_: object) -> Ready:
        return replace(ready_task(Path(spec.artefact_dir)), origin=origin)

    monkeypatch.setattr(Content, "task", task)
    own = {"mode": "performance", "samples": 64, DATASET_ORIGIN: "samples: md5:2 (own.zip)"}
    said = result({"peak_memory": 0.9}).model_copy(update={"environment": own})
    outcome = await outcome_on(FakePhone(says=[said.model_dump_json().encode()]), spec)
    assert isinstance(outcome, Result), outcome
    assert outcome.environment[DATASET_ORIGIN] == origin


def npy(numbers: object) -> bytes:
    file = io.BytesIO()
    np.save(file, np.array(numbers))
    return file.getvalue()


HUGE = npy([1]).replace(b"(1,)", b"(99999999999,)").replace(b" " * 20, b"", 1)
DAMAGED = {
    "no latencies": (LATENCIES, npy(np.zeros(0, np.int64)), "no latency"),
    "not an array": (LATENCIES, b"", "no file of 64-bit integers"),
    "a huge shape": (LATENCIES, HUGE, "no file of 64-bit integers"),
    "floats": (LATENCIES, npy([0.5] * 64), "no file of 64-bit integers"),
    "a table": (LATENCIES, npy([[1, 2]] * 32), "no file of 64-bit integers"),
    "texts": (LATENCIES, npy(["a"] * 64), "no file of 64-bit integers"),
    "negative": (LATENCIES, npy([1] * 63 + [-5]), "-5 ns"),
    "one too few": (LATENCIES, npy([1] * 63), "63 latencies for 64 samples"),
}


@pytest.mark.parametrize("case", DAMAGED)
async def test_a_file_that_no_runner_writes_is_the_device_s_fault(
    spec: WorkerSpec, case: str
) -> None:
    name, content, words = DAMAGED[case]
    await _is_the_device_s_fault(DamagedPhone(name, content), spec, f"{name}: ", words)


async def test_a_folder_in_place_of_a_run_s_file_is_the_device_s_fault(spec: WorkerSpec) -> None:
    for name in (LATENCIES, FILE):

        class Folder(DamagedPhone):
            async def pull(self, source: PurePosixPath, target: Path) -> None:
                await super().pull(source, target)
                (target / self.file).unlink()
                (target / self.file).mkdir()

        folder = Path(spec.artefact_dir) / name
        folder.mkdir()
        again = spec.model_copy(update={"artefact_dir": str(folder)})
        await _is_the_device_s_fault(Folder(name, b""), again, f"{name}: not a regular file")


async def test_a_run_s_files_have_a_size(spec: WorkerSpec) -> None:
    """The files are sparse."""
    for name, most in ((LATENCIES, LATENCIES_BYTES), (FILE, SAMPLED_BYTES)):

        class Endless(DamagedPhone):
            async def pull(self, source: PurePosixPath, target: Path) -> None:
                await super().pull(source, target)
                os.truncate(target / self.file, most + 1)  # noqa: B023

        words = f"{most + 1} bytes, more than the limit of {most}"
        folder = Path(spec.artefact_dir) / name
        folder.mkdir()
        again = spec.model_copy(update={"artefact_dir": str(folder)})
        await _is_the_device_s_fault(Endless(name, b""), again, f"{name}: ", words)


async def test_conditions_of_a_run_without_a_duration_are_the_device_s_fault(
    spec: WorkerSpec,
) -> None:
    for number, seconds in enumerate((None, 0.0)):
        folder = Path(spec.artefact_dir) / str(number)
        folder.mkdir()
        again = spec.model_copy(update={"artefact_dir": str(folder)})
        phone = DamagedPhone(FILE, b"at 101.0\n", seconds)
        await _is_the_device_s_fault(phone, again, "the runner's result: ", "no duration")


@pytest.mark.parametrize(
    ("mode", "metrics"),
    [
        ("performance", {"throughput": 0.9, "top1": 1.0}),
        ("performance", {"throughput": 0.9, "energy": 1.0}),
        ("performance", {"throughput": 0.9, "predicted_throughput": 1.0}),
        ("accuracy", {"peak_memory": 0.9, "top1": 1.0}),
        ("accuracy", {"throughput": 0.9}),
    ],
)
async def test_a_device_does_not_say_its_own_accuracy_or_energy(
    spec: WorkerSpec, mode: str, metrics: dict[str, float]
) -> None:
    job = spec.job.model_copy(update={"knobs": {**spec.job.knobs, "mode": mode}})
    phone = FakePhone(says=[result(metrics).model_dump_json().encode()])
    words = ("the runner's result: a metric ", f" in mode {mode}")
    await _is_the_device_s_fault(phone, spec.model_copy(update={"job": job}), *words)


async def test_a_device_does_not_say_samples_of_loadgen_s_figures(spec: WorkerSpec) -> None:
    told = result({"throughput": 0.9})
    forged = told.metrics["throughput"].model_copy(update={"samples": (9e9,)})
    said = told.model_copy(update={"metrics": {"throughput": forged}})
    phone = FakePhone(says=[said.model_dump_json().encode()])
    await _is_the_device_s_fault(phone, spec, "samples of throughput, which has one value")


def test_all_metrics_of_loadgen_s_log_are_a_runner_s() -> None:
    values: defaultdict[str, object] = defaultdict(lambda: 1.0)
    for key in ("met", "latency_ss", "latency_ms"):
        values[f"early_stopping_{key}"]  # its estimates are looked up only if they are there
    scenarios = ("single_stream", "multi_stream", "server")
    of_log = {name for it in scenarios for name in latency_metrics(DetailLog(values, ()), it)}
    assert of_log | {"duration", "throughput", "peak_memory"} == PERFORMANCE


@pytest.mark.parametrize(
    ("says", "kind"),
    [
        (b"what no runner says", FaultKind.PROTOCOL),
        (b'{"type": "result", "validity": "VALID"}', FaultKind.PROTOCOL),
        (b" " * MESSAGE_BYTES + b"{}", FaultKind.PROTOCOL),
        (Progress(phase="load", done=0, total=1).model_dump_json().encode(), "no_result"),
    ],
)
async def test_a_phone_that_answers_garbage_is_to_blame_and_this_host_is_not(
    spec: WorkerSpec, says: bytes, kind: str
) -> None:
    for beside, blame in ((None, Blame.DEVICE), (CpuTimes(), Blame.HARNESS)):
        phone = FakePhone(ended=replace(WELL, beside=beside), says=[says])
        outcome = await outcome_on(phone, spec)
        assert isinstance(outcome, Failure), outcome
        assert (outcome.blame, outcome.kind) == (blame, kind)


async def _is_the_device_s_fault(phone: FakePhone, spec: WorkerSpec, *words: str) -> None:
    outcome = await outcome_on(phone, spec)
    assert isinstance(outcome, Failure), outcome
    assert (outcome.blame, outcome.kind) == (Blame.DEVICE, FaultKind.PROTOCOL)
    assert all(word in outcome.message for word in words), outcome.message
    assert outcome.message.isprintable()


async def test_a_run_s_files_are_read_beside_the_event_loop(
    spec: WorkerSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lease is renewed meanwhile."""
    threads: list[threading.Thread] = []

    def noted(result: Result, job: Job, mode: str, folder: Path) -> Result:
        threads.append(threading.current_thread())
        return with_files(result, job, mode, folder)

    monkeypatch.setattr(on_device, "with_files", noted)
    assert isinstance(await outcome_on(FakePhone(), spec), Result)
    assert threads
    assert threading.main_thread() not in threads


MODEL_SHA256 = "11" * 32


def ready_task(folder: Path = Path("/nowhere"), *, truth: bool = True) -> Ready:
    assert SHAPES.on_device
    tree = Tree(folder, 0, {"model.tflite": f"file {MODEL_SHA256}"})
    return Ready(tree, SHAPES.on_device, folder, 1024, truth)


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WorkerSpec:
    """A submission, for which no bundle need be built."""

    async def runtime(self: Content, name: str, arch: str) -> Runtime:
        needs = Requirements(kernel=(3, 7, 0), page_bytes=16384, storage_bytes=200 << 20)
        tree, starter = Tree(tmp_path, 0, {"run": name}), Tree(tmp_path, 0, {"libc.so.6": ""})
        return Runtime(f"{name}-{arch}", tree, starter, "ld.so", needs)

    async def task(
        self: Content, name: str, workload: OnDevice, numerics: str, dataset: str | None
    ) -> Ready:
        return ready_task(tmp_path)

    async def score(ready: Ready, answers: Path, repeated: int) -> Scored:
        assert repeated == 0, "a query has one sample"
        return Scored(metrics=result({"top1": 0.9}).metrics, objections=())

    monkeypatch.setattr(Content, "runtime", runtime)
    monkeypatch.setattr(Content, "task", task)
    monkeypatch.setattr(on_device, "score_answers", score)
    assert SHAPES.on_device
    program = OnDeviceProgram(
        bundle="litert", workload=SHAPES.on_device, quality_target=SHAPES.quality_target
    )
    knobs = scenario_knobs("offline") | {"threads": 1, "numerics": "int8"} | XNNPACK
    update = {"program": program, "knobs": knobs, "scenario": "offline"}
    job = builders.job(deadline_s=50.0).model_copy(update=update)
    return WorkerSpec(job=job, device=builders.phone(), artefact_dir=str(tmp_path))


async def outcome_on(phone: FakePhone, spec: WorkerSpec) -> Outcome:
    folder = Path(spec.artefact_dir)
    runner = LoadGenRunner(lambda _: phone, Content(folder / "content", folder / "bundles"))
    return await runner.run(spec, lambda _: None)


class LoudHost(FakePhone):
    """Others kept one of two cores busy while it measured."""

    async def pull(self, source: PurePosixPath, target: Path) -> None:
        await super().pull(source, target)
        loud = CpuTimes(10.0, 2, busy_s=15.0, own_s=5.0)
        (target / host_use.FILE).write_text(json.dumps(asdict(loud)))


@pytest.mark.parametrize(
    ("device", "policy", "validity"),
    [
        (builders.cpu(), "ci", Validity.DISTURBED),
        (builders.cpu(), "lab", Validity.INVALID),
        (builders.phone(), "ci", Validity.VALID),
        (builders.phone(), "lab", Validity.VALID),
    ],
)
async def test_a_server_that_is_not_quiet_is_told_and_a_phone_is_not_asked(
    spec: WorkerSpec, device: Device, policy: str, validity: Validity
) -> None:
    knobs = {**spec.job.knobs, "policy": policy, "delegate": "auto"}
    job = spec.job.model_copy(update={"knobs": knobs})
    remote = LoudHost()
    outcome = await outcome_on(remote, spec.model_copy(update={"device": device, "job": job}))
    assert isinstance(outcome, Result), outcome
    assert outcome.validity is validity
    loud = [reason for reason in outcome.reasons if "kept 1.00 of 2 cores busy" in reason]
    assert len(loud) == (validity is not Validity.VALID)
    missed = outcome.environment["run_rules_missed"]
    assert isinstance(missed, tuple)
    assert (str(validity) in missed) == (validity is not Validity.VALID)


async def test_the_deadline_is_that_of_the_whole_submission(spec: WorkerSpec) -> None:
    phone = FakePhone()
    outcome = await outcome_on(phone, spec)
    assert isinstance(outcome, Result), outcome
    predicted = {"predicted_throughput"}  # without an interval: its latencies rise throughout
    assert set(outcome.metrics) == {"throughput", "peak_memory", "top1"} | predicted
    assert outcome.environment["meets_run_rules"] is False
    assert outcome.environment["model_sha256"] == MODEL_SHA256
    assert str(outcome.environment["bundle"]).startswith("litert-")
    assert outcome.environment["pushed_bytes"] == 21  # bundle, the part that is tried first, task
    first, second = phone.deadlines
    assert 0 < second < first <= 50.0


@pytest.mark.parametrize(
    ("out_of_memory", "blame", "kind"),
    [
        (True, Blame.WORKLOAD, "out_of_memory"),
        (False, Blame.HARNESS, "signal"),
        (None, Blame.HARNESS, "signal"),
    ],
)
async def test_a_runner_that_is_killed_for_want_of_memory_is_not_run_again(
    spec: WorkerSpec, out_of_memory: bool | None, blame: Blame, kind: str
) -> None:
    phone = FakePhone(ended=Ended(KILLED, False, b"", out_of_memory=out_of_memory))
    outcome = await outcome_on(phone, spec)
    assert isinstance(outcome, Failure)
    assert (outcome.blame, outcome.kind) == (blame, kind)


async def test_the_runner_is_started_by_a_shell_of_the_device_s_choice(spec: WorkerSpec) -> None:
    phone = FakePhone()
    assert isinstance(await outcome_on(phone, spec), Result)
    started = [argv for argv in phone.commands if argv[1].endswith("/run")]
    assert [argv[0] for argv in started] == ["sh", "sh"]


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("x86_64", "apt-get update: E: Could not resolve deb.example. Give apt package sources"),
        ("riscv64", "its compiler runs on x86_64 only, and this host is riscv64. Connect the"),
    ],
)
async def test_an_arm64_phone_whose_bundle_can_not_be_built_is_one_line(
    spec: WorkerSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, words: str
) -> None:
    """The blame is the user's, so that the run is not tried again and the sweep goes on."""
    monkeypatch.setattr(Content, "runtime", BUILDING)
    monkeypatch.setattr(from_source, "machine", lambda: host)
    apt = tmp_path / "apt-get"
    apt.write_text("#!/bin/sh\necho 'E: Could not resolve deb.example' >&2\nexit 100\n")
    apt.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    device = spec.device.model_copy(update={"facts": {"abi": "arm64-v8a"}})
    phone = FakePhone()
    outcome = await outcome_on(phone, spec.model_copy(update={"device": device}))
    assert isinstance(outcome, Failure)
    assert (outcome.blame, outcome.kind) == (Blame.USER, "setup")
    assert words in outcome.message
    assert "\n" not in outcome.message
    assert phone.commands == []


NOT_FOUND = b"/data/local/tmp/x/run: line 1: /x/lib/ld.so: not found"
REFUSED = b"/data/local/tmp/x/run[20]: /x/lib/ld.so: can't execute: Permission denied"


@pytest.mark.parametrize(
    ("ended", "says", "words"),
    [
        (Ended(127, False, b"warning\n" + NOT_FOUND), (), NOT_FOUND),
        (Ended(126, False, REFUSED + b"\n"), (), REFUSED),
        (Ended(126, False, b"", merged=True), (REFUSED,), REFUSED),
        (Ended(127, False, b""), (), b"exit status 127"),
        (Ended(127, False, NOT_FOUND + bytes(5000)), (), NOT_FOUND),
        (Ended(127, False, b"x" * 5000), (), b"x" * 961),
    ],
)
async def test_a_runner_that_does_not_start_is_the_device_s_fault_in_its_own_words(
    spec: WorkerSpec, ended: Ended, says: Sequence[bytes], words: bytes
) -> None:
    outcome = await outcome_on(FakePhone(ended=ended, says=says or (b"",)), spec)
    assert isinstance(outcome, Failure)
    assert (outcome.blame, outcome.kind) == (Blame.DEVICE, "no_exec")
    assert outcome.message == f"cannot start the runner on the device: {words.decode()}"


@pytest.mark.parametrize("code", [126, 127])
async def test_a_runner_that_has_begun_is_not_excused_by_its_exit_status(
    spec: WorkerSpec, code: int
) -> None:
    begun = Progress(phase="load", done=0, total=1).model_dump_json().encode()
    phone = FakePhone(ended=Ended(code, False, b"a child of it is missing"), says=(begun,))
    outcome = await outcome_on(phone, spec)
    assert isinstance(outcome, Failure)
    assert (outcome.blame, outcome.kind) == (Blame.WORKLOAD, "exit")


def fault(kind: FaultKind) -> RemoteFault:
    return RemoteFault("phone-1", kind, "it broke")


@pytest.mark.parametrize(
    ("breaks_with", "removed"),
    [
        (None, True),
        (fault(FaultKind.TOO_MUCH_OUTPUT), True),
        (asyncio.CancelledError(), True),
        (fault(FaultKind.HUNG), False),
        (fault(FaultKind.ADB_SERVER), False),
    ],
)
async def test_a_runs_folder_goes_with_it_unless_the_phone_is_in_trouble(
    spec: WorkerSpec, breaks_with: BaseException | None, removed: bool
) -> None:
    phone = FakePhone(breaks_with)
    with suppress(asyncio.CancelledError):
        await outcome_on(phone, spec)
    made = [argv[-1] for argv in phone.commands if argv[:2] == ("mkdir", "-p")]
    gone = [argv[-1] for argv in phone.commands if argv[:2] == ("rm", "-rf")]
    assert made == ["/there/runs/run-1-1"]
    assert gone == (made if removed else [])


OF_SCENARIO = ("samples_per_query", "target_qps", "target_latency_ms")
"""Knobs that not all scenarios have."""


@pytest.mark.parametrize("scenario", ["single_stream", "multi_stream", "offline", "server"])
@pytest.mark.parametrize("length", ["rapid", "quick", "normal"])
def test_the_runner_accepts_what_it_is_told(scenario: str, length: str) -> None:
    knobs = scenario_knobs(scenario, length=length) | {"threads": 2, **XNNPACK}
    job = builders.job().model_copy(update={"scenario": scenario, "knobs": knobs})
    files, logs = PurePosixPath("/d/files"), PurePosixPath("/d/logs")
    spec = RunSpec.of(runner_spec(job, ready_task(), files, logs, "performance"))
    assert spec.min_query_count == run_length(scenario, length, RunLengths()).queries
    assert (spec.threads, spec.scenario, spec.die_with_stdin) == (2, scenario, True)
    assert (spec.performance_sample_count, spec.answer) == (1024, "top1")
    told = {name: getattr(spec, name) for name in OF_SCENARIO if getattr(spec, name)}
    assert told == {name: knobs[name] for name in OF_SCENARIO if name in knobs}


def test_lengths_are_the_rules_and_those_of_the_99th_percentile_can_be_estimated() -> None:
    assert OFFLINE["normal"].queries == 24_576
    normal = run_length("single_stream", "normal", RunLengths())
    assert (normal.queries, normal.seconds) == (1024, 60)
    assert run_length("server", "rapid", RunLengths()).queries == 662


@pytest.mark.parametrize(
    ("mode", "truth", "expected"),
    [
        ("submission", True, ("performance", "accuracy")),
        ("submission", False, ("performance",)),
        ("performance", False, ("performance",)),
        ("accuracy", True, ("accuracy",)),
    ],
)
def test_accuracy_is_measured_where_it_can_be_told(
    mode: str, truth: bool, expected: tuple[str, ...]
) -> None:
    job = builders.job().model_copy(update={"knobs": {"mode": mode}})
    assert modes_of(job, ready_task(truth=truth)) == expected


def test_accuracy_that_nobody_can_tell_is_refused() -> None:
    job = builders.job().model_copy(update={"knobs": {"mode": "accuracy"}})
    with pytest.raises(UserError, match="with mode=accuracy: its data set has no ground truth"):
        modes_of(job, ready_task(truth=False))


def test_a_target_of_the_sweeps_own_is_shown_beside_the_tasks() -> None:
    target = QualityTarget.model_validate({"metric": "top1", "fp32": 0.8, "fraction": 0.98})
    lenient = judged(result({"top1": 0.5}), target, own=0.4)
    assert lenient.validity is Validity.VALID
    assert lenient.environment["quality_target"] == 0.784
    assert lenient.environment["own_quality_target"] == 0.4
    strict = judged(result({"top1": 0.9}), target, own=0.95)
    assert strict.reasons == ("top1 0.9000 is below the sweep's own quality target 0.9500",)


def test_battery_as_android_tells_it() -> None:
    expected = {
        "battery_percent": 83,
        "battery_celsius": 28.7,
        "charging": True,
        "battery_overridden": False,
    }
    assert battery_facts(BATTERY) == expected
    assert battery_facts("Can't find service: battery") == {}
    wireless = BATTERY.replace("USB powered: true", "USB powered: false\n  Wireless powered: true")
    assert battery_facts(wireless) == expected


@pytest.mark.parametrize(
    ("after", "objection"),
    [
        ({"charging": True}, "the phone is charging"),
        ({"airplane_mode": False}, "airplane mode is off"),
        ({"screen_brightness": 80}, "brightness 80 is above 10"),
        ({"battery_overridden": True}, "the readings of the battery are overridden"),
        ({"thermal_overridden": True}, "the thermal status is overridden"),
    ],
)
def test_what_a_phone_no_longer_keeps_after_a_run_is_told_where_it_must(
    after: dict[str, Scalar], objection: str
) -> None:
    measured = result({"top1": 0.9})
    strict, lenient = load_policy("mlperf"), load_policy("ci")
    kept: dict[str, Scalar] = {"charging": False, "airplane_mode": True, "screen_brightness": 10}
    assert still_fits(strict, measured, kept) is measured
    assert still_fits(lenient, measured, after) is measured
    found = still_fits(strict, measured, {**kept, **after})
    assert found.reasons == (f"policy mlperf: after the run, {objection}",)


def test_thermal_status_and_present_temperatures() -> None:
    assert thermal_facts(THERMAL) == {
        "thermal_overridden": False,
        "thermal_status": "SEVERE",
        "celsius_skin": 36.5,
    }
    assert thermal_facts("Can't find service: thermalservice") == {}


def test_conditions_are_told_apart_by_their_moment() -> None:
    found = environment_of({"battery_percent": 83}, {"battery_percent": 82})
    assert found == {"battery_percent_before": 83, "battery_percent_after": 82}
