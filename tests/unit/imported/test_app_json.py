"""The result JSON of the mobile app: its forms, and each thing that can be wrong with it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from controller.contracts.catalog import load_catalog
from controller.contracts.imported import ImportForm
from controller.imported.published import Published, read_published
from tests.support.published_trees import P90_NS, app_result, app_session, old_session, put

CATALOG = load_catalog()


def read(path: Path) -> Published:
    return read_published(path, CATALOG, None)


FORMS: list[tuple[str, Any, str]] = [
    ("from 3.1", app_session(), "v4.0"),
    ("2.x", old_session(), "v2.1"),
    (
        "3.0",
        app_session(
            app_result(
                performance_run={
                    **app_result()["performance_run"],  # type: ignore[dict-item]
                    "loadgen": None,
                    "loadgen_info": {"validity": True, "duration": 60.0},
                }
            ),
            build_info={"version": "3.0.0", "git_branch": "main"},
        ),
        "v3.0",
    ),
]


@pytest.mark.parametrize(("form", "content", "round_"), FORMS, ids=[f[0] for f in FORMS])
def test_the_apps_json_is_read_in_each_of_its_forms(
    tmp_path: Path, form: str, content: object, round_: str
) -> None:
    path = put(tmp_path, json.dumps(content), f"phone-{form[0]}.json")
    found = read(path)
    assert found.left_out == []
    (one,) = found.results
    assert one.imported.form is ImportForm.APP
    assert (one.imported.round, one.imported.submitter) == (round_, "Acme")
    assert one.workload == "mobilenet_edgetpu"
    assert one.metrics["latency_p90"].value == pytest.approx(P90_NS / 1e9, rel=1e-12)
    assert one.metrics["top1"].value == 0.76
    assert one.metrics["duration"].value == pytest.approx(60.1)
    assert one.environment["min_duration_ms"] == 60000


def test_mobilebert_is_judged_by_the_set_that_the_app_took(tmp_path: Path) -> None:
    bert = app_result("natural_language_processing", accuracy=0.9)
    bert["accuracy_run"] |= {"measured_samples": 100}  # type: ignore[operator]
    (one,) = read(put(tmp_path, json.dumps(app_session(bert)), "a.json")).results
    assert one.knobs["dataset"] == "lite"


Json = dict[str, Any]


def _app(change: Callable[[Json], object]) -> str:
    content: Json = json.loads(json.dumps(app_session()))
    change(content)
    return json.dumps(content)


def _run(content: Json) -> Json:
    run: Json = content["results"][0]["performance_run"]
    return run


APP_VIOLATIONS = [
    ("no JSON", "{", "it is not JSON"),
    ("empty", "", "it is not JSON"),
    ("a list of nothing", "[]", "it is not the result JSON"),
    ("something else", '{"a": 1}', "it is not the result JSON"),
    ("a text", '"x"', "it is not the result JSON"),
    ("nested", "[" * 10_000, "nested too deeply"),
    ("twice", '{"results": [], "results": []}', "given twice"),
    ("huge", " " * (5 * 2**20), "more than 4194304 bytes"),
    ("results no list", _app(lambda c: c.update(results=3)), "results"),
    ("too many", _app(lambda c: c.update(results=c["results"] * 201)), "results"),
    ("NaN", _app(lambda c: _run(c).update(throughput={"value": float("nan")})), "finite"),
    ("text", _app(lambda c: _run(c).update(throughput="fast")), "throughput"),
    ("negative", _app(lambda c: _run(c)["loadgen"].update(latency90=-1)), "no positive number"),
    ("zero", _app(lambda c: _run(c)["loadgen"].update(latency90=0)), "no positive number"),
    ("no verdict", _app(lambda c: _run(c).update(loadgen=None)), "whether LoadGen called"),
    ("no run", _app(lambda c: c["results"][0].update(performance_run=None)), "no performance run"),
    ("no time", _app(lambda c: _run(c).update(start_datetime="noon")), "its time 'noon' is none"),
    ("scenario", _app(lambda c: c["results"][0].update(loadgen_scenario="Server")), "no scenario"),
    ("iOS", _app(lambda c: c["environment_info"].update(platform="ios")), "an iOS device"),
    (
        "no round",
        _app(lambda c: c.update(build_info={"version": "x", "git_branch": "main"})),
        "give it with --round",
    ),
]


@pytest.mark.parametrize(
    ("text", "why"), [v[1:] for v in APP_VIOLATIONS], ids=[v[0] for v in APP_VIOLATIONS]
)
def test_damaged_json_of_the_app_is_left_out_with_one_line(
    tmp_path: Path, text: str, why: str
) -> None:
    found = read(put(tmp_path, text, "result.json"))
    assert found.results == []
    (line,) = found.left_out
    assert why in line
    assert "\n" not in line
    assert len(line) < 900
