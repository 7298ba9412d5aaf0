"""Which files a request to `models fetch` means."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.contracts.errors import UserError
from controller.contracts.models import FetchRequest
from controller.contracts.suite_rules import load_suites
from models.mobile import catalogue
from models.mobile.fetching import fetch as fetching
from models.mobile.fetching.selection import select, tasks_of
from models.mobile.store import Store


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("BENCHFARM_MODELS", str(tmp_path / "store"))
    return Store(tmp_path / "store")


def keys(request: FetchRequest) -> tuple[set[str], set[str]]:
    """Return the keys that are downloaded, and those the user has to get."""
    found = select(tasks_of(request, load_suites()), request, catalogue.entries())
    web = {entry.key for file in found.files for entry in file.entries}
    return web, {each.entry.key for each in found.manual}


def test_by_default_all_models_and_the_sets_that_can_be_fetched_whole() -> None:
    web, manual = keys(FetchRequest(tasks=("mobilebert",)))
    assert web == {
        *("mobilebert/models/int8", "mobilebert/models/fp32", "mobilebert/full/truth"),
        *("mobilebert/lite/samples", "mobilebert/lite/truth", "mobilebert/tiny/samples"),
    }
    assert manual == {"mobilebert/full/samples"}


def test_numerics_and_data_set_may_be_chosen() -> None:
    request = FetchRequest(tasks=("mobilebert",), numerics=("int8",), datasets=("tiny",))
    assert keys(request) == ({"mobilebert/models/int8", "mobilebert/tiny/samples"}, set())


def test_a_suite_is_its_tasks() -> None:
    web, manual = keys(FetchRequest(tasks=(), suite="v4.0"))
    (rules,) = [each for each in load_suites() if each.version == "v4.0"]
    assert {key.partition("/")[0] for key in web} == set(rules.tasks)
    assert {f"{task}/full/samples" for task in rules.tasks} <= manual


def test_what_is_to_be_done_about_a_set_that_nobody_may_publish() -> None:
    request = FetchRequest(tasks=("mobiledet", "edsr"), datasets=("full",))
    found = select(request.tasks, request, catalogue.entries())
    said = {each.entry.key: str(each.error()) for each in found.manual}
    assert said["mobiledet/full/samples"].endswith("run `benchfarm models prepare coco FOLDER`.")
    assert said["edsr/full/truth"].endswith("run `benchfarm models prepare opensr FOLDER`.")


def test_surrogates_come_with_benchfarm() -> None:
    assert keys(FetchRequest(tasks=("edsr_surrogate",))) == (set(), set())


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({"tasks": ("mobilbert",)}, "cannot fetch mobilbert: .*Choose among deeplab"),
        ({"tasks": ("lstm",)}, "cannot fetch lstm: no workload with files"),
        ({"tasks": ("resnet50",), "weights": ("v9",)}, "--weights v9: .* imagenet_v1"),
        ({"tasks": (), "suite": "v9.9"}, "cannot fetch suite v9.9: .*Choose among v0.7"),
        ({"tasks": ("edsr",), "numerics": ("int4",)}, "--numerics int4: .* fp32, int8"),
        ({"tasks": ("edsr",), "datasets": ("huge",)}, "--dataset huge: .* full, lite, tiny"),
        ({"tasks": ("edsr",), "mirror": "ftp://x"}, "no https or http address"),
        ({"tasks": ("edsr",), "mirror": "file:///etc"}, "no https or http address"),
        ({"tasks": ("edsr",), "mirror": "https://x/y?z"}, r"can't follow \? or #"),
        ({"tasks": ("edsr",), "mirror": "https://u:secret@x/#y"}, "fetch from https://x/"),
        ({"tasks": ("edsr",), "mirror": "/nowhere"}, "there is no such folder"),
        ({"tasks": ("edsr",), "mirror": "/" + "x" * 300}, "fetch from /x+: File name too long"),
    ],
)
def test_a_wrong_request_is_one_line(store: Store, request_: dict[str, object], said: str) -> None:
    with pytest.raises(UserError, match=said):
        fetching.fetch(FetchRequest.model_validate(request_), store, print)


def test_every_licence_that_is_not_known_is_known_to_be_so() -> None:
    """Nobody has said under which licence the super-resolution set is."""
    published = (e for e in catalogue.entries() if e.workload and not e.own)
    assert {e.key.partition("/")[0] for e in published if not e.licence} == {"edsr"}
