"""A submission's tree and the app's JSON of our results give the same figures when imported."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from controller.contracts.device import DeviceKind
from controller.contracts.errors import UserError
from controller.contracts.imported import ImportedResult, ImportForm
from controller.contracts.records import StoredResult
from controller.contracts.result import Environment, Measurement, Validity
from controller.contracts.suite_rules import load_suites
from controller.contracts.work import work_of
from controller.imported.exportable import choose_exportable, system_names
from controller.imported.published import read_published
from controller.imported.tasks import PUBLISHED
from controller.loadgen import logs
from controller.scheduling.suite_plan import Place
from tests.support.artefacts import bring_home
from tests.support.exportable_results import CATALOG, phone_result, write_app_json, write_tree
from tests.support.published_trees import put

V4 = next(rules for rules in load_suites() if rules.version == "v4.0")
ACCURACIES = {"edsr": 33.58123456789}


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCHFARM_HOME", str(tmp_path))


def session(folder: Path) -> list[StoredResult]:
    """Return a result of each task and scenario of v4.0."""
    return [
        phone_result(folder, task, scenario, ACCURACIES.get(task, 0.9), 2_000_003 + 10 * number)
        for number, (task, rules) in enumerate(V4.tasks.items())
        for scenario in rules.scenarios
    ]


def figures(result: StoredResult) -> dict[str, Measurement]:
    return dict(result.metrics)


def by_task(results: list[ImportedResult]) -> dict[tuple[str, str], ImportedResult]:
    return {(r.workload, r.scenario): r for r in results}


def test_the_tree_of_a_session_gives_the_same_figures_again(tmp_path: Path) -> None:
    ours = session(tmp_path)
    write_tree(ours, tmp_path / "out")
    found = read_published(tmp_path / "out", CATALOG, None)
    assert found.left_out == []
    theirs = by_task(found.results)
    assert len(theirs) == len(ours) == len(found.results)
    for mine in ours:
        other = theirs[mine.workload, mine.scenario]
        assert figures(other) == figures(mine)
        assert (other.validity, other.reasons) == (mine.validity, mine.reasons)
        assert other.imported.form is ImportForm.LOGS
        assert other.imported.round == "v4.0"
        assert other.environment["soc"] == "R9"
        assert other.environment["delegate"] == "xnnpack"
        same = [work_of(CATALOG, r.workload, r.scenario, r.stack, r.knobs) for r in (mine, other)]
        assert same[0] == same[1]


def test_the_apps_json_of_a_session_gives_the_same_figures_again(tmp_path: Path) -> None:
    ours = session(tmp_path)
    write_app_json(ours, tmp_path / "result.json")
    found = read_published(tmp_path / "result.json", CATALOG, "v4.0")
    assert found.left_out == []
    theirs = by_task(found.results)
    assert len(theirs) == len(ours)
    for mine in ours:
        other = theirs[mine.workload, mine.scenario]
        assert other.imported.form is ImportForm.APP
        assert other.metrics
        for name, measured in other.metrics.items():
            assert measured == mine.metrics[name]
        assert {"latency_p90", "throughput"} & {*other.metrics}
        assert set(mine.metrics) & {"top1", "mAP", "mIoU", "F1", "PSNR"} <= set(other.metrics)


def test_each_file_has_its_checksum_and_the_logs_are_the_runs_own(tmp_path: Path) -> None:
    one = phone_result(tmp_path)
    write_tree([one], tmp_path / "out")
    lines = (tmp_path / "out/SHA256SUMS").read_text().splitlines()
    told = {path: sum_ for sum_, path in (line.split("  ") for line in lines)}
    files = {p for p in (tmp_path / "out").rglob("*") if p.is_file() and p.name != "SHA256SUMS"}
    assert {str(p.relative_to(tmp_path / "out")) for p in files} == set(told)
    for path in files:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        assert told[str(path.relative_to(tmp_path / "out"))] == digest
    task = tmp_path / "out/closed/SUBMITTER/results/Acme_Rocket_9/mobilenetEdgeTPU/SingleStream"
    assert sorted(p.name for p in (task / "log_accuracy").iterdir()) == [
        "mlperf_log_accuracy.json",
        "mlperf_log_detail.txt",
    ]
    log = Path(one.artefacts["performance_loadgen_detail"]).read_bytes()
    assert (task / "log_performance/mlperf_log_detail.txt").read_bytes() == log


def test_the_json_has_the_apps_fields(tmp_path: Path) -> None:
    write_app_json([phone_result(tmp_path)], tmp_path / "result.json")
    said = json.loads((tmp_path / "result.json").read_text())
    assert set(said) == {"meta", "results", "environment_info", "build_info"}
    (result,) = said["results"]
    assert set(result) == {
        *("benchmark_id", "benchmark_name", "loadgen_scenario", "backend_settings"),
        *("backend_info", "performance_run", "accuracy_run", "min_duration", "min_samples"),
    }
    assert set(result["performance_run"]) == {
        *("throughput", "accuracy", "accuracy2", "dataset", "measured_duration"),
        *("measured_samples", "start_datetime", "loadgen"),
    }
    assert result["benchmark_id"] == "image_classification"
    p90 = result["performance_run"]["loadgen"]["latency90"]
    assert result["performance_run"]["throughput"]["value"] == 1 / p90
    assert result["accuracy_run"]["accuracy"]["formatted"] == "76.12%"
    assert said["environment_info"]["value"]["android"]["manufacturer"] == "Acme"


def test_what_a_submitter_has_to_fill_in_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = phone_result(tmp_path)
    metrics = {n: m for n, m in one.metrics.items() if n != "top1"}
    facts = {**one.environment, "run_rules_missed": ("charging",), "loadgen_seeds": ("1", "2", "3")}
    update = {"metrics": metrics, "environment": facts, "validity": Validity.DISTURBED}
    bad = one.model_copy(update={**update, "reasons": ("other load",)})
    write_tree([bad], tmp_path / "out")
    page = (tmp_path / "out/TO_FILL_IN.md").read_text()
    said = capsys.readouterr().out
    for line in (
        "closed/SUBMITTER: the folder's name is to be yours",
        "closed/SUBMITTER/code: ",
        "closed/SUBMITTER/Calibration.md: ",
        "systems/Acme_Rocket_9.json: system.Graphics is blank",
        "weight_transformations is blank",
        "the result is DISTURBED: other load",
        "misses a rule: charging",
        "LoadGen had not the seeds of MLPerf Mobile v4.0",
        "log_accuracy: there was no accuracy run",
        "no result of mobilebert single_stream, which MLPerf Mobile v4.0 asks for",
    ):
        assert line in page
    assert "not verified by MLCommons" in page
    assert "the folder's name is to be yours" in said
    assert "TO_FILL_IN.md" in said
    assert "system.SoC_ID is blank" not in page


TASK = "closed/SUBMITTER/results/Acme_Rocket_9/mobilenetEdgeTPU/SingleStream"


def trace_of(role: str) -> str:
    """Return a whole trace without events of samples."""
    return f'{{"traceEvents":[{{"name":"{role}"}}],"displayTimeUnit":"ns"}}\n'


def with_traces(one: StoredResult) -> StoredResult:
    """Return a result whose runs were traced."""
    artefacts = dict(one.artefacts)
    for role in ("performance", "accuracy"):
        folder = Path(artefacts[f"{role}_loadgen_detail"]).parent
        artefacts[f"{role}_loadgen_trace"] = str(put(folder, trace_of(role), logs.TRACE))
    return one.model_copy(update={"artefacts": artefacts})


def test_traces_are_in_the_tree(tmp_path: Path) -> None:
    write_tree([with_traces(phone_result(tmp_path))], tmp_path / "out")
    for role in ("performance", "accuracy"):
        found = tmp_path / "out" / TASK / f"log_{role}" / logs.TRACE
        assert found.read_text() == trace_of(role)
    page = (tmp_path / "out/TO_FILL_IN.md").read_text()
    assert logs.TRACE not in page
    assert f"{TASK}/log_accuracy/{logs.SUMMARY}: it is mandatory, and none is at hand" in page


@pytest.mark.parametrize("role", ["performance", "accuracy"])
@pytest.mark.parametrize("form", ["tree", "json"])
def test_a_truncated_trace_is_named(
    role: str, form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = with_traces(phone_result(tmp_path))
    Path(one.artefacts[f"{role}_loadgen_trace"]).write_text("[\n")
    write = write_tree if form == "tree" else write_app_json
    write([one], tmp_path / "out")
    said = capsys.readouterr().out
    assert f"log_{role}: {logs.TRACE}: truncated, or not a trace of LoadGen" in said
    assert said.count(logs.TRACE) == 1


def test_answers_that_an_accuracy_log_lacks_are_named(tmp_path: Path) -> None:
    write_tree([phone_result(tmp_path)], tmp_path / "out")
    page = (tmp_path / "out/TO_FILL_IN.md").read_text()
    assert f"{TASK}/log_accuracy: it contradicts itself: answers says 0, but is 50000" in page


def test_each_missing_trace_is_named(tmp_path: Path) -> None:
    write_tree([phone_result(tmp_path)], tmp_path / "out")
    page = (tmp_path / "out/TO_FILL_IN.md").read_text()
    for role in ("performance", "accuracy"):
        assert f"{TASK}/log_{role}/{logs.TRACE}: it is mandatory, and none is at hand" in page


def test_a_result_whose_trace_is_not_at_hand_yet_is_exported(tmp_path: Path) -> None:
    one = with_traces(phone_result(tmp_path))
    Path(one.artefacts["accuracy_loadgen_trace"]).unlink()
    write_tree([one], tmp_path / "out")
    page = (tmp_path / "out/TO_FILL_IN.md").read_text()
    assert f"{TASK}/log_accuracy/{logs.TRACE}: it is mandatory, and none is at hand" in page
    assert f"{TASK}/log_performance/{logs.TRACE}" not in page


def mixed(folder: Path, facts: Environment, **changes: object) -> list[str]:
    """Return what the page says of two results of one phone that differ so."""
    one = phone_result(folder, sweep_id=sweep_of(1, 0))
    other = phone_result(folder, "edsr", accuracy=34.0, sweep_id=sweep_of(1, 1))
    update = {"environment": {**other.environment, **facts}, **changes}
    other = other.model_copy(update=update)
    write_tree([one, other], folder / "out")
    page = (folder / "out/TO_FILL_IN.md").read_text()
    start = "- closed/SUBMITTER/results/Acme_Rocket_9: its results are to have one "
    return [line.removeprefix(start) for line in page.splitlines() if line.startswith(start)]


def sweep_of(number: int, part: int) -> str:
    """Return the sweep's id of a part in a try of a session."""
    return f"{Place('v4.0-0a1b2c-1', number, part).name}-01234567"


@pytest.mark.parametrize(
    ("facts", "changes", "said"),
    [
        ({}, {}, []),
        ({}, {"stack": "tflite"}, ["stack, not 2: litert, tflite"]),
        ({"litert": "2.4.0"}, {}, ["litert, not 2: 2.3.0, 2.4.0"]),
        ({"fingerprint": "a"}, {}, []),
        (
            {},
            {"sweep_id": sweep_of(2, 1)},
            ["run of the suite, not 2: suite-v4.0-0a1b2c-1.1, suite-v4.0-0a1b2c-1.2"],
        ),
        (
            {},
            {"sweep_id": "edsr-v4.0-01234567"},
            ["run of the suite, not 2: edsr-v4.0-01234567, suite-v4.0-0a1b2c-1.1"],
        ),
    ],
)
def test_results_of_a_phone_that_are_not_of_one_run_of_the_suite_are_named(
    facts: Environment, changes: dict[str, object], said: list[str], tmp_path: Path
) -> None:
    assert mixed(tmp_path, facts, **changes) == said


def test_an_accuracy_below_the_target_is_named(tmp_path: Path) -> None:
    write_tree([phone_result(tmp_path, accuracy=0.5)], tmp_path / "out")
    page = (tmp_path / "out/TO_FILL_IN.md").read_text()
    assert "top1 0.5000 is below the target 0.7467" in page


def _changed(**changes: object) -> Callable[[StoredResult], StoredResult]:
    return lambda result: result.model_copy(update=changes)


LEFT_OUT = [
    (_changed(virtual=True), "virtual or emulated phone"),
    (_changed(environment={"emulated": True}), "virtual or emulated phone"),
    (_changed(counted=False), "late, paired or profiled"),
    (_changed(device_kind=DeviceKind.CPU_HOST), "not of a phone"),
    (_changed(workload="mobiledet_surrogate"), "no task of MLPerf Mobile"),
    (_changed(workload="resnet50"), "no task of MLPerf Mobile"),
    (_changed(knobs={}), "no task of MLPerf Mobile"),
    (_changed(scenario="server"), "no scenario server"),
    (_changed(artefacts={}), "no log of a performance run"),
    (_changed(artefacts={"performance_loadgen_detail": "/nowhere/x"}), "knows of no such file"),
    (_changed(run_id="unsent"), "the head has no copy of it"),
]


@pytest.mark.parametrize(("change", "why"), LEFT_OUT)
@pytest.mark.parametrize("write", [write_tree, write_app_json])
def test_what_no_submission_has_is_left_out_and_nothing_is_written(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[StoredResult], StoredResult],
    why: str,
    write: Callable[[list[StoredResult], Path], None],
) -> None:
    with pytest.raises(UserError, match="none of 1 results"):
        write([change(phone_result(tmp_path))], tmp_path / "out")
    (line,) = capsys.readouterr().err.splitlines()
    assert why in line
    assert not (tmp_path / "out").exists()


def test_of_several_results_the_newest_valid_one_is_taken(tmp_path: Path) -> None:
    one = phone_result(tmp_path)
    first = one.model_copy(update={"run_id": "a"})
    newer = one.model_copy(update={"run_id": "b"})
    bad = one.model_copy(update={"run_id": "c", "validity": Validity.INVALID, "reasons": ("x",)})
    chosen = choose_exportable([first, newer, bad])
    assert [e.result.run_id for e in chosen.kept] == ["b"]
    assert chosen.left_out == (
        "a: b is taken for this task",
        "c: b is taken for this task",
    )
    assert [e.result.run_id for e in choose_exportable([bad, first]).kept] == ["a"]
    assert [e.result.run_id for e in choose_exportable([bad]).kept] == ["c"]


def test_results_of_two_rounds_are_no_tree(tmp_path: Path) -> None:
    two = [phone_result(tmp_path), phone_result(tmp_path, "edsr", accuracy=34.0, round_="v3.1")]
    with pytest.raises(UserError, match=r"rounds v3\.1, v4\.0.*suite_version=v4\.0"):
        write_tree(two, tmp_path / "out")


def test_two_phones_have_two_folders_but_no_one_json(tmp_path: Path) -> None:
    one = phone_result(tmp_path)
    other = phone_result(tmp_path, device="phone-2", device_name="Rocket 2", run_id="r2")
    write_tree([one, other], tmp_path / "out")
    folders = sorted(p.name for p in (tmp_path / "out/closed/SUBMITTER/results").iterdir())
    assert folders == ["Acme_Rocket_9", "Acme_Rocket_9_2"]
    with pytest.raises(UserError, match="one phone, not Rocket, Rocket 2"):
        write_app_json([one, other], tmp_path / "result.json")


def test_a_phones_own_words_make_no_path(tmp_path: Path) -> None:
    facts = {"manufacturer": "../../etc", "model": "/\x1b[31m\u202e"}
    one = phone_result(tmp_path).model_copy(update={"environment": facts})
    assert system_names([one]) == {"phone-1": "etc_31m"}
    assert system_names([one.model_copy(update={"environment": {}})]) == {"phone-1": "phone"}


def kept_in(folder: Path) -> list[Path]:
    """Return all paths below a folder, but for what SQLite keeps beside an open file."""
    return sorted(path for path in folder.rglob("*") if ".sqlite-" not in path.name)


@pytest.mark.parametrize("there", ["file", "folder"])
def test_nothing_is_overwritten(tmp_path: Path, there: str) -> None:
    out = tmp_path / "out"
    if there == "file":
        out.write_text("mine")
    else:
        (out / "mine").mkdir(parents=True)
    one = phone_result(tmp_path)
    bring_home(tmp_path)
    before = kept_in(tmp_path)
    with pytest.raises(UserError, match="it exists already"):
        write_tree([one], out)
    assert kept_in(tmp_path) == before


def test_a_damaged_log_is_no_submission(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = phone_result(tmp_path)
    Path(one.artefacts["performance_loadgen_detail"]).write_text(":::MLLOG {\n")
    with pytest.raises(UserError, match="none of 1 results"):
        write_tree([one], tmp_path / "out")
    assert "its logs" in capsys.readouterr().err


def test_every_task_of_every_round_has_published_names() -> None:
    assert {task for rules in load_suites() for task in rules.tasks} <= set(PUBLISHED)


@pytest.mark.parametrize("artefact", ["performance_loadgen_detail", "accuracy_loadgen_accuracy"])
@pytest.mark.parametrize("kind", ["elsewhere", "of another run"])
def test_an_agent_can_have_no_other_file_exported(
    artefact: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An agent names the files of its attempt, and a submission is published."""
    one = phone_result(tmp_path)
    mine = Path(one.artefacts[artefact])
    secret = tmp_path / mine.name
    secret.write_text("secret")
    if kind == "of another run":
        other = phone_result(tmp_path, run_id="other")
        secret = Path(other.artefacts[artefact])
    told = one.model_copy(update={"artefacts": {**one.artefacts, artefact: str(secret)}})
    with pytest.raises(UserError, match="none of 1 results"):
        write_tree([told], tmp_path / "out")
    assert "the head knows of no such file" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
