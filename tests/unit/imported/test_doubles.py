"""One run that is in a tree's logs and in the app's JSON is one result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from controller.contracts.imported import ImportedResult, ImportForm
from controller.imported.doubles import sifted
from controller.store.imported import FOLDER
from tests.support.command_line import outcome_of, printed_by
from tests.support.imported_examples import imported
from tests.support.published_trees import app_result, app_session, mobile_round, put

DAY_S = 86_400.0


def of_app(seconds: float = 0.005, **changes: object) -> ImportedResult:
    """Return a result as it comes from the app's JSON alone, of another checksum."""
    own = {"form": ImportForm.APP, "checksum": "1" * 64, "source": "result.json"}
    given: dict[str, Any] = {**own, **changes}
    return imported(seconds, **given)


LOGS = imported()


def later(result: ImportedResult, seconds: float) -> ImportedResult:
    return result.model_copy(update={"started_at": result.started_at + seconds})


@pytest.mark.parametrize(
    "came",
    [
        of_app(),
        of_app(0.005 * (1 + 1e-9)),
        of_app(submitter="ACME", system="Rocket 9"),
        of_app(submitter="Rockets Inc.", system="R-9 (2024)"),
        of_app(round="v4.1"),
        later(of_app(submitter="acme", system="rocket-9"), 40 * DAY_S),
    ],
    ids=["the same", "as printed", "spelled otherwise", "named otherwise", "other round", "later"],
)
def test_a_run_that_is_there_is_not_there_twice(came: ImportedResult) -> None:
    for first, second in ((LOGS, came), (came, LOGS)):
        at_once = sifted([first, second], [])
        assert at_once.kept == (first,)
        assert at_once.doubles == ((second, first),)
        after = sifted([second], [first])
        assert (after.kept, after.doubles) == ((), ((second, first),))


def _mean(result: ImportedResult, factor: float) -> ImportedResult:
    p90 = result.metrics["latency_p90"]
    mean = p90.model_copy(update={"value": p90.value * factor})
    return result.model_copy(update={"metrics": {"latency_p90": p90, "latency_mean": mean}})


@pytest.mark.parametrize(
    ("there", "came"),
    [
        (LOGS, of_app(0.00501)),
        (LOGS, of_app(workload="w2")),
        (LOGS, of_app(suite="MLPerf Inference")),
        (LOGS, later(of_app(system="rocket_8"), 2 * DAY_S)),
        (LOGS, imported(checksum="2" * 64, system="rocket_8")),
        (_mean(LOGS, 0.9), _mean(of_app(), 0.8)),
        (LOGS, of_app().model_copy(update={"metrics": {}})),
    ],
    ids=["figure", "task", "suite", "other phone, later", "both of logs", "mean", "no figure"],
)
def test_another_run_is_kept(there: ImportedResult, came: ImportedResult) -> None:
    assert sifted([came], [there]).kept == (came,)


def test_what_is_known_itself_is_handed_on() -> None:
    assert sifted([LOGS, of_app()], [LOGS, of_app()]).kept == (LOGS, of_app())


@pytest.mark.parametrize("tree_first", [True, False])
def test_a_run_imported_from_its_tree_and_its_json_is_one_row(
    tmp_path: Path, tree_first: bool
) -> None:
    home, tree = tmp_path / "home", mobile_round(tmp_path)
    both = [app_result(), app_result("image_classification_offline", "Offline", 0.75)]
    alone = put(tmp_path / "phone", json.dumps(app_session(*both)), "result.json")
    paths = [tree, alone] if tree_first else [alone, tree]
    printed_by(home, "results", "import", str(paths[0]))
    said, complained, status = outcome_of(home, "results", "import", str(paths[1]))
    assert status == 0
    new = 0 if tree_first else 4
    assert said == f"{new} results imported, 2 are of runs imported before\n"
    lines = complained.splitlines()
    assert len(lines) == 2
    assert all(line.startswith("same run: ") and " as imported-" in line for line in lines)
    listed = json.loads(printed_by(home, "results", "list", "--imported", "--json"))
    assert len(listed) == len(list((home / FOLDER).iterdir())) == 6
    ranked = [r for r in listed if r["workload"] == "mobilenet_edgetpu"]
    assert sorted(r["scenario"] for r in ranked) == ["offline", "single_stream"]


def test_what_logs_of_v2_0_lack_is_said(tmp_path: Path) -> None:
    tree = mobile_round(tmp_path)
    path = tree / "closed/Lone/results/object_detection-performance/mlperf_log_detail.txt"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if '"result_query_count"' not in line))
    home = tmp_path / "home"
    said, complained, status = outcome_of(home, "results", "import", str(tree))
    assert (said, status) == ("6 results imported\n", 0)
    wanted = "number of queries and duration: the log has no result_query_count (1 result)"
    assert complained == f"not known: {wanted}\n"
    listed = json.loads(printed_by(home, "results", "list", "--imported", "--json"))
    told = [one["imported"]["unknown"] for one in listed]
    assert sorted(told) == [[], [], [], [], [], [wanted.removesuffix(" (1 result)")]]
