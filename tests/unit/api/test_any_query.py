"""Whatever is asked: no server error, and no answer that the description does not have."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.api.paging import cursor_of
from controller.api.queries import PageQuery, ResultQuery
from controller.api.routes import CONTENT, EXPORTS, READS, WRITES
from controller.contracts.records import Scope
from tests.support.api import Described, Served, prepared, served
from tests.support.artefacts import TRACE
from tests.support.store_examples import runs_for, sweep_record

CASES, MANY_CASES = 400, 3000
RECORD = sweep_record(generation=2, repeats=12)
DESCRIBED = Described()

IDS = st.sampled_from(
    [
        *(RECORD.sweep_id, runs_for(RECORD)[0].run_id, runs_for(RECORD)[4].run_id, "phone-1"),
        *("none", "a/b", "\x00", hashlib.sha256(TRACE).hexdigest()),
    ]
)
WORDS = st.one_of(
    st.sampled_from(
        [
            *("", "0", "1", "true", "false", "-1", "200", "201", "1e3", "null", "NaN", "９"),
            *("retinanet", "eager", "training", "phone-1", "host-1", "VALID", "INVALID", "done"),
            *("stored", "-started", "submitted", "cpu_host", "lost", "admin", "demo", "'; --"),
            RECORD.sweep_id,
        ]
    ),
    st.text(max_size=20),
    st.integers().map(str),
)
PARTS = st.one_of(st.integers(), st.floats(), st.text(max_size=5), st.booleans(), st.none())
CURSORS = st.builds(
    lambda kind, parts: cursor_of(kind, tuple(parts)),
    st.sampled_from(
        [PageQuery(), ResultQuery(), ResultQuery(sort="-started"), ResultQuery(limit=1)]
    ),
    st.lists(PARTS, max_size=3),
)
ENDS = st.sampled_from(["", "0", "5", "199999", "200000", "9" * 18, "9" * 30, "x"])
RANGES = st.builds(lambda first, last: f"bytes={first}-{last}", ENDS, ENDS) | st.just("lines=1-2")
GOOD = {
    "limit": ["1", "7", "200"],
    "validity": ["VALID", "INVALID"],
    "virtual": ["true", "false"],
    "samples": ["true"],
    "online": ["false"],
    "state": ["done", "lost"],
    "kind": ["android"],
    "sort": ["stored", "-started", "-submitted"],
    "workload": ["retinanet"],
    "a": ["eager"],
    "b": ["eager"],
    "format": ["jsonl", "parquet"],
    "knobs": ['{"precision": "fp32"}', "{}"],
    "sweep": [RECORD.sweep_id],
}
"""Values that parameters of these names may have."""
ROUTES = [("GET", route.path, [*route.query.model_fields]) for route in READS]
ROUTES += [("GET", route.path, [*route.query.model_fields]) for route in EXPORTS]
ROUTES += [("GET", "/openapi.json", []), ("GET", CONTENT, [])]
WRITTEN = [(write.method, write.path) for write in WRITES]


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(prepared(tmp_path_factory.mktemp("any") / "home")) as served_api:
        yield served_api


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, str, list[tuple[str, str]], dict[str, bytes]]:
    """Draw a route, the path that is asked for, its parameters and headers."""
    _, route, known = draw(st.sampled_from(ROUTES))
    names = st.sampled_from([*known, *known, "cursor", "x"]) | st.text(max_size=5)
    path = route
    path = re.sub(r"\{\w+\}", lambda _: quote(draw(IDS), safe=""), path)
    fitting = [name for name in sorted(GOOD) if name in known]
    odd = st.tuples(names, WORDS | CURSORS)
    good = st.sampled_from(fitting or ["x"]).flatmap(
        lambda name: st.tuples(st.just(name), st.sampled_from(GOOD.get(name, ["x"])))
    )
    pairs = draw(st.lists(good if draw(st.booleans()) else odd, max_size=3))
    if "workload" in known and draw(st.booleans()):
        pairs += [(name, GOOD[name][0]) for name in ("workload", "a", "b") if name in known]
    headers = {}
    if draw(st.booleans()):
        text = st.text(
            st.characters(min_codepoint=32, max_codepoint=255, exclude_characters="\x7f")
        )
        headers["If-None-Match"] = draw(text | st.just("*")).strip().encode("latin-1")
    if route == CONTENT:
        headers["Range"] = draw(RANGES).encode()
    return route, path, pairs, headers


@pytest.mark.parametrize("cases", [CASES, pytest.param(MANY_CASES, marks=pytest.mark.long)])
def test_every_answer_is_documented(api: Served, cases: int) -> None:
    seen = Counter[int]()

    @settings(max_examples=cases, deadline=None, derandomize=True)
    @given(requests())
    def check(asked: tuple[str, str, list[tuple[str, str]], dict[str, bytes]]) -> None:
        route, path, pairs, headers = asked
        answer = api.get(path, params=pairs, headers=headers)
        seen[answer.status_code] += 1
        assert answer.status_code < 500
        assert DESCRIBED.objection("GET", route, answer) == ""

    check()
    assert {200, 304, 404, 422} <= {*seen}, "the queries met more than refusals"
    assert seen[200] >= cases // 10


JSONS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
SWEEP = RECORD.sweep.model_dump(mode="json")
BODIES = JSONS | st.builds(
    lambda name, value: {"sweep": {**SWEEP, name: value}}, st.sampled_from([*SWEEP]), JSONS
)


def test_every_answer_to_a_write_is_documented(api: Served) -> None:
    seen = Counter[int]()

    @settings(max_examples=CASES // 2, deadline=None, derandomize=True)
    @given(st.sampled_from(WRITTEN), BODIES, st.sampled_from([*Scope, None]), IDS)
    def check(route: tuple[str, str], body: object, scope: Scope | None, id_: str) -> None:
        method, template = route
        path = re.sub(r"\{\w+\}", quote(id_, safe=""), template)
        content = json.dumps(body) if method == "POST" else ""
        headers = {"Content-Type": "application/json"} if content else {}
        answer = api.ask(method, path, scope, content=content, headers=headers)
        seen[answer.status_code] += 1
        assert answer.status_code in (401, 403, 404, 422, 503), "no controller runs here"
        assert DESCRIBED.objection(method, template, answer) == ""
        expected = {None: 401, Scope.VIEWER: 403}
        assert answer.status_code == expected.get(scope, answer.status_code)

    check()
    assert {401, 403, 404, 422, 503} == {*seen}
