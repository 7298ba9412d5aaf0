"""A user's program from its YAML to a result: pushed, run and read on this host, without Python."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from agents.attempts.command import READING_S
from agents.host.cpu_watch import CpuTimes
from agents.remotes.local import LocalRemote
from agents.remotes.remote import NO_ENVIRONMENT, Ended
from controller.contracts.base import Scalar
from controller.contracts.catalog import load_catalog
from controller.contracts.errors import SweepInvalid, UserError
from controller.contracts.result import Blame, Failure, Result, Validity
from controller.contracts.sweep import Sweep
from controller.contracts.units import Unit
from controller.contracts.wire import WorkerSpec
from controller.scheduling.expansion import cells_of
from models.mobile import catalogue
from models.mobile.store import Store
from tests.support.processes import OWNER
from tests.support.user_program import RECORDED, SCRIPT, STACK, add, changed, run_on, spec_of
from tests.support.validity import MET_RULES
from tests.support.waiting import PATIENCE_S


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store with one program, added as a user does."""
    monkeypatch.setenv("BENCHFARM_MODELS", str(tmp_path / "models"))
    store = Store(tmp_path / "models")
    add(store, tmp_path, STACK, program=SCRIPT, weights="rate 42.0\n")
    return store


async def measured(
    tmp_path: Path, spec: WorkerSpec, reading_s: float = READING_S
) -> Result | Failure:
    remote = LocalRemote.of(tmp_path / "device", OWNER)
    outcome = await run_on(remote, tmp_path, spec, reading_s)
    runs = list((tmp_path / "device").rglob("runs/*"))
    assert runs == [], "nothing of a run is left on the device"
    return outcome


async def test_from_one_yaml_to_a_result(store: Store, tmp_path: Path) -> None:
    result = await measured(
        tmp_path, spec_of(tmp_path, "vendor-bench", {"loops": 7, "quiet": True})
    )
    assert isinstance(result, Result), result
    assert result.validity in MET_RULES
    latency, rate = result.metrics["latency"], result.metrics["rate"]
    assert latency.samples == pytest.approx((0.0015, 0.0025, 0.0035))
    assert latency.value == pytest.approx(0.0025)
    assert latency.unit is Unit.SECONDS
    assert (rate.value, rate.unit) == (42.0, Unit.SAMPLES_PER_SECOND)
    facts = result.environment
    assert (facts["rules"], facts["meets_run_rules"]) == ("the vendor's", False)
    assert (facts["mode_used"], facts["arguments_seen"]) == ("burst", "7 --quiet")
    assert Path(result.artefacts["stderr"]).read_text() == "a warning\n"
    assert (tmp_path / "artefacts/output/log.txt").read_text() == "a log\n"


class _Beside(LocalRemote):
    """A host on which others do what a test says while a program runs."""

    planted: CpuTimes | None = None

    async def stream(
        self,
        argv: Sequence[str],
        deadline_s: float,
        on_line: Callable[[bytes], None],
        environment: Mapping[str, str] = NO_ENVIRONMENT,
    ) -> Ended:
        ended = await super().stream(argv, deadline_s, on_line, environment)
        return replace(ended, beside=self.planted)


QUIET = CpuTimes(10.0, 2, busy_s=15.0, own_s=15.0)


@pytest.mark.parametrize(
    ("beside", "policy", "validity", "said"),
    [
        (QUIET, "lab", Validity.VALID, ""),
        (replace(QUIET, busy_s=29.0), "lab", Validity.INVALID, "kept 1.40 of 2 cores busy"),
        (replace(QUIET, busy_s=29.0), "ci", Validity.DISTURBED, "kept 1.40 of 2 cores busy"),
        (replace(QUIET, steal_s=4.0), "ci", Validity.DISTURBED, "took 20.0% of the cores' time"),
        (replace(QUIET, busy_s=29.0), "mlperf", Validity.VALID, ""),
        (CpuTimes(10.0, 2, unknown_s=10.0), "lab", Validity.VALID, ""),
        (None, "lab", Validity.VALID, ""),
    ],
)
async def test_what_ran_beside_it_disturbs_it(
    store: Store,
    tmp_path: Path,
    beside: CpuTimes | None,
    policy: str,
    validity: Validity,
    said: str,
) -> None:
    class Planted(_Beside):
        planted = beside

    remote = Planted.of(tmp_path / "device", OWNER)
    result = await run_on(remote, tmp_path, spec_of(tmp_path, "vendor-bench", {"policy": policy}))
    assert isinstance(result, Result), result
    assert result.validity is validity
    assert len(result.reasons) == bool(said)
    assert all(said in reason for reason in result.reasons)
    others = beside.other_cores if beside else None
    assert result.environment.get("timed_other_cores") == others
    assert ("timed_s" in result.environment) is (beside is not None)


@pytest.mark.parametrize(
    ("program", "validity"),
    [("echo nothing", Validity.DISTURBED), ("echo objection", Validity.INVALID)],
)
async def test_what_a_program_objects_to_stays_beside_what_disturbed_it(
    store: Store, tmp_path: Path, program: str, validity: Validity
) -> None:
    class Planted(_Beside):
        planted = replace(QUIET, busy_s=29.0)

    (tmp_path / "program").write_text(f"{SCRIPT}{program}\n")
    catalogue.add(store, tmp_path / "program", "vendor-bench/files/program")
    spec = changed(spec_of(tmp_path, "vendor-bench"), invalid=["^objection$"])
    result = await run_on(Planted.of(tmp_path / "device", OWNER), tmp_path, spec)
    assert isinstance(result, Result), result
    assert result.validity is validity
    assert any("cores busy" in reason for reason in result.reasons)


@pytest.mark.parametrize(
    ("program", "knobs", "blame", "kind", "words"),
    [
        (SCRIPT, {"mode": "npu"}, Blame.DEVICE, "no_npu", "Choose a phone that has one."),
        ("#!/bin/sh\nexit 3\n", {}, Blame.WORKLOAD, "exit", "status 3"),
        ("#!/bin/sh\nkill -SEGV $$\n", {}, Blame.WORKLOAD, "signal", "SIGSEGV"),
        ("#!/bin/sh\necho took 1 ms\n", {}, Blame.WORKLOAD, "output", "figure rate"),
        ("#!/bin/sh\necho took 1 ms; cat $1 $1\n", {}, Blame.WORKLOAD, "output", "2 values"),
        ("#!/no/such/shell\n", {}, Blame.DEVICE, "no_exec", ""),
        ("#!/bin/sh\nno-such-compiler\n", {}, Blame.WORKLOAD, "exit", "not found"),
        ("#!/bin/sh\nexit 255\n", {}, Blame.WORKLOAD, "exit", "status 255"),
        ("#!/bin/sh\nexit 129\n", {}, Blame.WORKLOAD, "exit", "status 129"),
    ],
)
async def test_each_way_to_fail_is_told(
    store: Store,
    tmp_path: Path,
    program: str,
    knobs: dict[str, Scalar],
    blame: Blame,
    kind: str,
    words: str,
) -> None:
    (tmp_path / "program").write_text(program)
    catalogue.add(store, tmp_path / "program", "vendor-bench/files/program")
    failure = await measured(tmp_path, spec_of(tmp_path, "vendor-bench", knobs))
    assert isinstance(failure, Failure), failure
    assert (failure.blame, failure.kind) == (blame, kind)
    assert words in failure.message


async def test_a_program_that_takes_too_long_is_ended(store: Store, tmp_path: Path) -> None:
    (tmp_path / "program").write_text("#!/bin/sh\necho begun; exec sleep 1000\n")
    catalogue.add(store, tmp_path / "program", "vendor-bench/files/program")
    spec = changed(spec_of(tmp_path, "vendor-bench"), timeout_s=0.5)
    failure = await measured(tmp_path, spec)
    assert isinstance(failure, Failure)
    assert (failure.blame, failure.kind) == (Blame.WORKLOAD, "deadline")
    assert "begun" in failure.output
    assert failure.message == (
        "not done after 0.5 s. Raise timeout_s in the manifest of stack vendor-bench or make the "
        "run smaller."
    )


async def test_a_program_that_its_runs_deadline_ends_is_told_of_that(
    store: Store, tmp_path: Path
) -> None:
    (tmp_path / "program").write_text("#!/bin/sh\necho begun; exec sleep 1000\n")
    catalogue.add(store, tmp_path / "program", "vendor-bench/files/program")
    spec = changed(spec_of(tmp_path, "vendor-bench"), timeout_s=200.0)
    spec = spec.model_copy(update={"job": spec.job.model_copy(update={"deadline_s": 2.0})})
    failure = await measured(tmp_path, spec)
    assert isinstance(failure, Failure)
    assert "Raise deadline_s or make the run smaller." in failure.message


async def test_patterns_that_never_end_hold_up_no_agent(store: Store, tmp_path: Path) -> None:
    (tmp_path / "program").write_text(f"#!/bin/sh\necho took {'a' * 60}; cat $1\n")
    catalogue.add(store, tmp_path / "program", "vendor-bench/files/program")
    endless = {"pattern": "took (a|aa)+b", "kind": "k", "blame": "device", "remedy": "r"}
    beats = 0

    async def alive() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0.05)
            beats += 1

    beating = asyncio.create_task(alive())
    spec = changed(spec_of(tmp_path, "vendor-bench"), failures=[endless])
    failure = await measured(tmp_path, spec, reading_s=2.0)
    beating.cancel()
    assert isinstance(failure, Failure)
    assert (failure.blame, failure.kind) == (Blame.USER, "patterns")
    assert beats > 10


async def test_a_program_says_that_its_result_is_invalid(store: Store, tmp_path: Path) -> None:
    spec = changed(spec_of(tmp_path, "vendor-bench"), invalid=["^mode burst"])
    result = await measured(tmp_path, spec)
    assert isinstance(result, Result), result
    assert result.validity is Validity.INVALID
    # Of so short a run, a tick of other programs' may be told, too.
    assert result.reasons[0] == "the program printed: mode burst"


async def test_a_file_the_program_did_not_write_is_named(store: Store, tmp_path: Path) -> None:
    failure = await measured(
        tmp_path, changed(spec_of(tmp_path, "vendor-bench"), reads="figures.csv")
    )
    assert isinstance(failure, Failure)
    assert (failure.blame, failure.kind) == (Blame.WORKLOAD, "output")
    assert "the program did not write figures.csv: No such file" in failure.message


async def test_what_a_program_wrote_before_it_failed_is_kept(store: Store, tmp_path: Path) -> None:
    (tmp_path / "program").write_text('#!/bin/sh\necho why >"$2/log.txt"; exit 3\n')
    catalogue.add(store, tmp_path / "program", "vendor-bench/files/program")
    failure = await measured(tmp_path, spec_of(tmp_path, "vendor-bench"))
    assert isinstance(failure, Failure)
    assert (tmp_path / "artefacts/output/log.txt").read_text() == "why\n"


@pytest.mark.parametrize(
    ("target", "seen"),
    [("$1", "a link that leads out of"), ("/", "Is a directory"), (".", "Is a directory")],
)
async def test_a_link_that_a_program_left_leads_nowhere_else(
    store: Store, tmp_path: Path, target: str, seen: str
) -> None:
    (tmp_path / "program").write_text(f'{SCRIPT}ln -s "{target}" "$2/link"\n')
    catalogue.add(store, tmp_path / "program", "vendor-bench/files/program")
    failure = await measured(tmp_path, spec_of(tmp_path, "vendor-bench"))
    assert isinstance(failure, Failure), failure
    assert failure.blame is Blame.WORKLOAD
    assert f"output/link: {seen}" in failure.message
    assert not (tmp_path / "artefacts/output/link").exists()


async def test_an_output_too_long_to_keep_fails_with_its_end(store: Store, tmp_path: Path) -> None:
    program = f"#!/bin/sh\ncat $1; yes 'took 1 ms {'-' * 99}' | head -c 36000000; echo the end\n"
    (tmp_path / "program").write_text(program)
    catalogue.add(store, tmp_path / "program", "vendor-bench/files/program")
    failure = await measured(tmp_path, spec_of(tmp_path, "vendor-bench"))
    assert isinstance(failure, Failure), failure
    assert (failure.blame, failure.kind) == (Blame.WORKLOAD, "output")
    assert "cannot read the output: stdout has more than 32 MiB" in failure.message
    assert failure.output.endswith("the end")


async def test_a_cancelled_run_leaves_nothing(store: Store, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    (tmp_path / "program").write_text(f"#!/bin/sh\n: >{begun}; exec sleep 1000\n")
    catalogue.add(store, tmp_path / "program", "vendor-bench/files/program")
    running = asyncio.create_task(measured(tmp_path, spec_of(tmp_path, "vendor-bench")))
    async with asyncio.timeout(PATIENCE_S):
        while not begun.exists():
            await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert list((tmp_path / "device").rglob("runs/*")) == []


LIBRARIES = """#!/bin/sh
[ -x "$0" ] && echo "took 1 ms"; echo "rate 2"
ls "$LD_LIBRARY_PATH" "$LD_LIBRARY_PATH/images"
"""


async def test_libraries_and_folders_lie_under_their_names(store: Store, tmp_path: Path) -> None:
    stack = yaml.safe_load(STACK.replace("vendor-bench", "linked-bench"))
    stack["command"] |= {
        "files": {
            "program": {"executable": True},
            "library": {"filename": "libvendor.so.1"},
            "images": {},
            "delegate": {},
        },
        "arguments": ["{file:program}", {"when": "quiet", "arguments": ["{file:delegate}"]}],
        "environment": {"LD_LIBRARY_PATH": "{files}"},
    }
    images = tmp_path / "photos"
    images.mkdir()
    (images / "a.jpg").write_text("a")
    add(store, tmp_path, yaml.safe_dump(stack), program=LIBRARIES, library="elf")
    catalogue.add(store, images, "linked-bench/files/images")
    result = await measured(tmp_path, spec_of(tmp_path, "linked-bench"))
    assert isinstance(result, Result), result
    printed = Path(result.artefacts["stdout"]).read_text().split()
    assert {"libvendor.so.1", "program", "a.jpg"} <= set(printed)
    failure = await measured(tmp_path, spec_of(tmp_path, "linked-bench", {"quiet": True}))
    assert isinstance(failure, Failure)
    assert "benchfarm models add PATH --as linked-bench/files/delegate" in failure.message


async def test_a_file_that_was_never_added_is_named(store: Store, tmp_path: Path) -> None:
    add(store, tmp_path, STACK.replace("vendor-bench", "other-bench"), weights="x")
    failure = await measured(tmp_path, spec_of(tmp_path, "other-bench"))
    assert isinstance(failure, Failure)
    assert (failure.blame, failure.kind) == (Blame.USER, "setup")
    assert "benchfarm models add PATH --as other-bench/files/program" in failure.message


async def test_a_file_that_was_changed_in_the_store_is_not_run(
    store: Store, tmp_path: Path
) -> None:
    pinned = str(store.pinned("vendor-bench/files/program"))
    (store.folder / "objects" / pinned.removeprefix("sha256:")).write_text("#!/bin/sh\nreboot\n")
    failure = await measured(tmp_path, spec_of(tmp_path, "vendor-bench"))
    assert isinstance(failure, Failure)
    assert failure.blame is Blame.USER
    assert "its checksum is" in failure.message


async def test_the_shipped_one_runs_a_tasks_model(store: Store, tmp_path: Path) -> None:
    recorded = (RECORDED / "benchmark_model_new.txt").read_text()
    script = '#!/bin/sh\n[ -s "${1#--graph=}" ] || exit 9\necho "$@" >&2\ncat <<"EOF"\n'
    (tmp_path / "program").write_text(f"{script}{recorded}EOF\n")
    catalogue.add(store, tmp_path / "program", "benchmark-model/files/program")
    knobs = {"op_profile": True, "use_gpu": True}
    spec = spec_of(tmp_path, "benchmark-model", knobs, "shapes_classifier")
    result = await measured(tmp_path, spec)
    assert isinstance(result, Result), result
    assert result.metrics["latency_mean"].value == pytest.approx(0.0500342)
    told = Path(result.artefacts["stderr"]).read_text()
    assert "--use_gpu=true --enable_op_profiling=true" in told
    assert "--use_nnapi" not in told
    facts = result.environment
    assert (facts["delegated_nodes"], facts["graph_nodes"]) == (29, 31)
    rows = json.loads(Path(result.artefacts["op_profile"]).read_text())
    assert [row["node_type"] for row in rows] == ["TfLiteXNNPackDelegate", "SOFTMAX"]


CLASSIFIED = {
    "workload": "shapes_classifier",
    "stack": "benchmark-model",
    "scenario": "benchmark-model",
}


@pytest.mark.parametrize(
    ("cell", "seen"),
    [
        ({"scenario": "single_stream"}, "does not run under 'single_stream'"),
        ({"stack": "llama-bench"}, "stack llama-bench is not measured under vendor-bench"),
        ({**CLASSIFIED, "stack": "litert"}, "stack litert is not measured under benchmark-model"),
        ({**CLASSIFIED, "scenario": "offline"}, "Write scenario: benchmark-model."),
        ({"workload": "shapes_classifier"}, "'vendor-bench'"),
        ({"stack": "benchmark-model", "scenario": "benchmark-model"}, "'benchmark-model'"),
        ({"knobs": {"loops": 0}}, "Give at least 1."),
        ({"knobs": {"mode": "/bin/x"}}, "Give one of: burst, npu."),
        ({**CLASSIFIED, "knobs": {"accelerator": "/data/x"}}, "knobs.accelerator"),
        ({**CLASSIFIED, "knobs": {"accelerator": "a --b"}}, "knobs.accelerator"),
        ({"knobs": {"file:program": "/bin/x"}}, "file:program"),
    ],
)
def test_what_no_sweep_can_ask_for(store: Store, cell: dict[str, object], seen: str) -> None:
    keys = {"name": "s", "workload": "program", "stack": "vendor-bench", "scenario": "vendor-bench"}
    with pytest.raises(SweepInvalid) as raised:
        cells_of(Sweep.model_validate(keys | cell), load_catalog())
    assert seen in str(raised.value)


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        (("name: vendor-bench", "name: ../../x"), "name"),
        (("name: vendor-bench", "name: litert"), "a stack or a scenario 'litert' exists"),
        (("name: vendor-bench", "name: offline"), "a stack or a scenario 'offline' exists"),
        (("device_kinds:", "backend: os:system\ndevice_kinds:"), "one of backend, bundle"),
        (("{loops}", "{lops}"), "{lops} is not a knob of the stack"),
        (("timeout_s: 200", "timeout_s: soon"), "timeout_s"),
        (("result: rate", "result: speed"), "not one of the required figures"),
        (("\n", "\n"), "a stack or a scenario 'vendor-bench' exists already"),
    ],
)
def test_a_stack_that_can_not_be_is_refused_in_one_line(
    store: Store, tmp_path: Path, change: tuple[str, str], seen: str
) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(STACK.replace(*change))
    before = set(load_catalog().stacks)
    with pytest.raises((UserError, SweepInvalid)) as raised:
        catalogue.add(store, path, None)
    assert seen in str(raised.value)
    assert "\n" not in str(raised.value)
    assert set(load_catalog().stacks) == before
