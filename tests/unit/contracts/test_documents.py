"""YAML and JSON of others is read within limits, and what is refused is not repeated."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from controller.contracts.base import Scalar, scalar_text
from controller.contracts.catalog import MANIFEST_PACKAGES
from controller.contracts.documents import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_DIGITS,
    DocumentRefused,
    JsonGuard,
    checked_json,
    load_json,
    load_yaml,
    read_limited,
    short,
    shown_json,
)
from controller.contracts.sweep import knob_of
from controller.contracts.unreadable import UNREADABLE, reason

ROOT = Path(__file__).parents[3]
TEXTS = st.text().filter(lambda text: not re.fullmatch(r"[-+]?\d+\.?\d*[eE][-+]?\d+", text))
"""PyYAML takes 1e5 for a text, and writes one so."""
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
    max_leaves=20,
)
LAUGHS = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
)


ODD = "ab:-#'\"[]{},|>&*!?%@ \t\n\r\ufeff\x85\u2028\x00é0.~"
WORDS = st.text(st.sampled_from(ODD), max_size=30)


@settings(max_examples=500)
@given(WORDS)
def test_what_is_read_does_not_depend_on_the_parser_that_is_installed(text: str) -> None:
    assert _read(text) == _read_by_pyyaml(text)


@pytest.mark.parametrize(
    "text", ["a:\t1", "a: 1\t# c", "a: [1,\t2]", "a: 1\n\ufeffb: 2", "!", "\ufeff!", "|#", "[a?]"]
)
def test_what_the_parsers_take_otherwise_is_read_alike(text: str) -> None:
    assert _read(text) == _read_by_pyyaml(text)


def _read(text: str) -> object:
    try:
        return repr(load_yaml(text))
    except (yaml.YAMLError, DocumentRefused) as error:
        return type(error)


def _read_by_pyyaml(text: str) -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml, "__with_libyaml__", False)
        return _read(text)


@given(VALUES)
def test_what_json_can_say_is_read(value: object) -> None:
    assert load_json(json.dumps(value)) == value
    assert load_json(json.dumps(value, ensure_ascii=False)) == value


@given(VALUES)
def test_what_yaml_can_say_is_read(value: object) -> None:
    text = yaml.safe_dump(value, default_flow_style=False)
    assert load_yaml(text) == yaml.safe_load(text)


@given(st.floats(allow_nan=False, allow_infinity=False) | st.booleans() | st.integers())
@example(1e-05)
@example(1e16)
def test_a_knob_s_value_is_read_as_it_is_shown(value: Scalar) -> None:
    name, read = knob_of(f"k={scalar_text(value)}")
    assert (name, read, type(read)) == ("k", value, type(value))


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("1e-05", 1e-5),
        ("1e5", 1e5),
        ("-2.E+3", -2000.0),
        ("1e", "1e"),
        ("e5", "e5"),
        ("1e5x", "1e5x"),
        ("52e8091", "52e8091"),
    ],
)
def test_a_number_may_have_an_exponent_without_a_point(word: str, value: object) -> None:
    assert load_yaml(f"{{a: {word}, b: '{word}'}}") == {"a": value, "b": word}
    assert load_yaml(word) == value


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"[" * 1_000_000, "it is nested too deeply, beyond 64 levels"),
        (b'{"a":' * 65 + b"1" + b"}" * 65, "it is nested too deeply, beyond 64 levels"),
        (b'{"a": "\\"' + b"[" * 100 + b'", "b": ' + b"[" * 64, "nested too deeply"),
        (b"1" * 10_000, "a number has more than 1000 digits"),
        (b'{"a": 0.' + b"1" * 10_000 + b"}", "a number has more than 1000 digits"),
        (b'{"a": 1, "b": {"c": 1, "c": 2}}', "key 'c' is given twice"),
        (b'{"' + b"k" * 9000 + b'": 1, "' + b"k" * 9000 + b'": 1}', "…' is given twice"),
        (b'"' + b"x" * MAX_BYTES + b'"', "it has more than 1048576 bytes"),
        (b'{"a": 1', "it is not JSON: "),
        (b"\xff", "it is not JSON: "),
        (b"", "it is not JSON: "),
    ],
)
def test_json_is_refused_in_a_line(raw: bytes, said: str) -> None:
    with pytest.raises(DocumentRefused) as refused:
        checked_json(raw)
    assert said in reason(refused.value)
    assert len(str(refused.value)) < 200


def test_json_at_the_limits_is_read() -> None:
    assert load_json("[" * MAX_DEPTH + "]" * MAX_DEPTH) is not None
    assert load_json("9" * MAX_DIGITS) == int("9" * MAX_DIGITS)
    brackets = "[" * 1000
    assert load_json(json.dumps({"a": f'\\"{brackets}'})) == {"a": f'\\"{brackets}'}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LAUGHS, "it has more than 100000 values"),
        ("a: &a [1, *a]", "an alias refers to a value that contains it"),
        ("a: " + "[" * 500_000, "it is nested too deeply, beyond 64 levels"),
        ("- " * 500_000, "it is nested too deeply, beyond 64 levels"),
        ("a: " + "9" * 10_000, "a number has more than 1000 digits"),
        ("a: 0x" + "9" * 10_000, "a number has more than 1000 digits"),
        ("a: 0." + "9" * 10_000, "a number has more than 1000 digits"),
        ("a: 1\na: 2", "key 'a' is given twice"),
        ("1: 1\n1: 2", "key 1 is given twice"),
        (f"{'k' * 1000}: 1\n{'k' * 1000}: 2", "…' is given twice"),
        (f"a: !{'t' * 100_000} 1", "line 1, column 4: could not determine a constructor"),
        ("a: 2026-02-31", "not YAML: day is out of range for month"),
        ("a: 1\nb: !!bool maybe", "line 2, column 4: a value is not a valid bool"),
        ("a: !!timestamp x", "line 1, column 4: a value is not a valid timestamp"),
        ("a: [1, !!int '']", "line 1, column 8: a value is not a valid int"),
        ("!!float '': 1", "line 1, column 1: a value is not a valid float"),
        (f"a: 1{':0' * 180}.0", "line 1, column 4: a value is not a valid float"),
        (r'a: "\UFFFFFFFF"', "not YAML: "),
        (r'a: "\U00110000"', "not YAML: "),
        ("[a]: 1", "found unhashable key"),
        ("a: [", "expected the node content"),
        ("x" * (MAX_BYTES + 1), "it has more than 1048576 bytes"),
        ("!!python/object/apply:os.system [true]", "could not determine a constructor"),
    ],
)
def test_yaml_is_refused_in_a_line(text: str, said: str) -> None:
    with pytest.raises(UNREADABLE) as refused:
        load_yaml(text)
    assert said in reason(refused.value)
    assert len(reason(refused.value)) < 300


def test_a_pair_of_escapes_is_a_character_as_in_json() -> None:
    said = {"a": "\U0001f680", "\U0001f680": ["x\U00010000\U0010ffff"]}
    assert load_yaml(json.dumps(said)) == said
    with pytest.raises(DocumentRefused, match="is given twice"):
        load_yaml(r'{"\ud83d\ude80": 1, "\U0001f680": 2}')


@pytest.mark.parametrize("package", MANIFEST_PACKAGES)
def test_manifests_are_read_as_by_pyyamls_own_parser(package: str) -> None:
    paths = sorted((ROOT / package / "manifests").rglob("*.yaml"))
    assert paths
    for path in paths:
        assert load_yaml(path.read_bytes()) == yaml.safe_load(path.read_bytes()), path


def test_yaml_within_the_limits_may_use_aliases_and_merges() -> None:
    document = load_yaml("a: &a {x: 1, y: 2}\nb: *a\nc: {<<: *a, x: 3}")
    assert document == {"a": {"x": 1, "y": 2}, "b": {"x": 1, "y": 2}, "c": {"x": 3, "y": 2}}


@given(VALUES, st.integers(1, 7))
def test_a_guard_sees_the_same_however_json_is_cut(value: object, size: int) -> None:
    raw = json.dumps([value]).encode()
    guard = JsonGuard()
    pieces = [raw[at : at + size] for at in range(0, len(raw), size)]
    while pieces:
        piece = pieces.pop(0)
        while piece.endswith(b"\\") and pieces:
            piece += pieces.pop(0)
        guard.feed(piece)
    guard.feed(b"[" * MAX_DEPTH)
    with pytest.raises(DocumentRefused, match="nested too deeply"):
        guard.feed(b"[")


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_guard_sees_a_number_and_a_record_over_several_pieces(size: int) -> None:
    with pytest.raises(DocumentRefused, match="a number has more than 1000 digits"):
        _feed(JsonGuard(), b'["' + b"1" * 3000 + b'", ' + b"1" * 3000, size)
    records = b"[" + b'{"a": [1, 2], "b": "x[]"}, ' * 1000
    _feed(JsonGuard(most_a_record=5000, records_at=1), records, size)
    with pytest.raises(DocumentRefused, match="one of its values has more than 5000 bytes"):
        _feed(JsonGuard(5000, 1), records + b'{"a": "' + b"x" * 10_000, size)


def _feed(guard: JsonGuard, raw: bytes, size: int) -> None:
    for at in range(0, len(raw), size):
        guard.feed(raw[at : at + size])


def test_values_are_shown_without_being_written_out() -> None:
    deep: list[object] = []
    for _ in range(100):
        deep = [deep] * 10
    assert len(short(deep)) < 100
    shown = shown_json({"a": deep}, 160)
    assert (len(shown), shown.startswith('{"a": ' + "[" * 100)) == (160, True)


def test_a_file_is_read_up_to_the_limit(tmp_path: Path) -> None:
    (tmp_path / "small").write_bytes(b"x" * 10)
    assert read_limited(tmp_path / "small", 10) == b"x" * 10
    with pytest.raises(DocumentRefused, match="more than 1048576 bytes"):
        read_limited(Path("/dev/zero"))
