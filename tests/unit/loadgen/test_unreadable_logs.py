"""Logs that can't be read: one line each, and nothing of them is trusted."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from controller.loadgen.checks import Verdict
from controller.loadgen.logs import ACCURACY, DETAIL, SUMMARY, TRACE, LogUnreadable
from controller.loadgen.run_logs import read_run
from controller.loadgen.texts import MIB, read_lines, read_text
from controller.loadgen.verifying import verify
from tests.support.altered_logs import copied, in_detail

Edit = Callable[[str], str]


def _put(value: str) -> Callable[[str], str]:
    return lambda _: value


def _entry(value: str, key: str = '"k"', metadata: str = '{"is_error": false}') -> str:
    return f':::MLLOG {{"key": {key}, "value": {value}, "metadata": {metadata}}}\n'


DETAILS: dict[str, tuple[Edit, str]] = {
    "empty": (_put(""), "not a log of LoadGen: empty"),
    "foreign": (_put("hello\nworld\n"), "not a log of LoadGen"),
    "json": (_put('{"result_validity": "VALID"}\n'), "not a log of LoadGen"),
    "new": (lambda t: t.replace("6.0.16 @", "7.0.0 @"), "LoadGen '7.0.0 @"),
    "older": (lambda t: t.replace("6.0.16 @", "0.4 @"), "LoadGen '0.4 @"),
    "odd version": (lambda t: t.replace("6.0.16 @", "latest @"), "LoadGen 'latest @"),
    "no version": (lambda t: t[t.index("\n") + 1 :], "no loadgen_version"),
    "half a line": (lambda t: t[:-40], "JSONDecodeError"),
    "no end": (lambda t: t.rstrip("\n"), "truncated"),
    "half": (lambda t: "".join(t.splitlines(keepends=True)[:40]), "truncated"),
    "a tenth": (lambda t: "".join(t.splitlines(keepends=True)[:9]), "truncated"),
    "scenario": (lambda t: t.replace('"SingleStream"', '"Triathlon"'), "scenario 'Triathlon'"),
    "nan": (lambda t: t + _entry("NaN"), "NaN is no number"),
    "deep": (lambda t: t + _entry("[" * 200_000), "RecursionError"),
    "digits": (lambda t: t + _entry("9" * 5000), "ValueError"),
    "key": (lambda t: t + _entry("1", key="[1]"), "TypeError"),
    "key number": (lambda t: t + _entry("1", key="1"), "is no key"),
    "metadata": (lambda t: t + _entry("1", metadata="[]"), "TypeError"),
    "twice": (lambda t: t + _entry('1, "value": 2'), "a key is there twice"),
    "twice inside": (
        lambda t: t + _entry("1", metadata='{"is_error": true, "is_error": false}'),
        "a key is there twice",
    ),
}
VALUES = {
    "text": ("result_query_count", '"many"', "no number"),
    "null": ("result_mean_latency_ns", "[]", "no number"),
    "negative": ("result_query_count", "-5", "no count"),
    "fraction": ("effective_min_query_count", "1.5", "no count"),
    "beyond": ("result_query_count", "1" + "0" * 300, "no number"),
    "verdict": ("result_min_queries_met", '"sure"', "neither yes nor no"),
}


def _refused(folder: Path) -> str:
    with pytest.raises(LogUnreadable) as refused:
        verify(read_run(folder))
    said = str(refused.value)
    assert "\n" not in said
    assert len(said) < 600
    return said


@pytest.mark.parametrize("kind", DETAILS)
def test_a_detail_log_is_refused_in_one_line(kind: str, tmp_path: Path) -> None:
    path = copied("single_stream", tmp_path) / DETAIL
    edit, expected = DETAILS[kind]
    path.write_text(edit(path.read_text()))
    said = _refused(path.parent)
    assert expected in said
    assert DETAIL in said


@pytest.mark.parametrize("kind", VALUES)
def test_a_value_of_another_kind_is_refused(kind: str, tmp_path: Path) -> None:
    key, value, expected = VALUES[kind]
    folder = copied("single_stream", tmp_path)
    in_detail(folder, key, _put(value))
    said = _refused(folder)
    assert key in said
    assert expected in said


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (_put(""), "not a summary of LoadGen: empty"),
        (_put("hello\n"), "not a summary of LoadGen"),
        (lambda text: text[: len(text) // 2], "truncated"),
    ],
    ids=["empty", "foreign", "half"],
)
def test_a_summary_is_refused_in_one_line(edit: Edit, expected: str, tmp_path: Path) -> None:
    path = copied("single_stream", tmp_path) / SUMMARY
    path.write_text(edit(path.read_text()))
    assert expected in _refused(path.parent)


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (_put('{"traceEvents": []}\n'), "truncated, or not a trace"),
        (lambda text: text[: text.index("\n", 5000) + 1], "truncated"),
        (lambda text: text.replace('"complete_ns":', '"completed":'), "lacks a field"),
        (lambda text: text.replace('"sample_seq":1,', '"sample_seq":2,'), "twice"),
        (_put("x" * 70_000), "a line of more than"),
    ],
    ids=["foreign", "half", "field", "twice", "long"],
)
def test_a_trace_is_refused_in_one_line(edit: Edit, expected: str, tmp_path: Path) -> None:
    path = copied("single_stream", tmp_path) / TRACE
    path.write_text(edit(path.read_text()))
    assert expected in _refused(path.parent)


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (_put("{}\n"), "KeyError"),
        (lambda text: text[: len(text) // 2], "JSONDecodeError"),
        (lambda text: text.replace("]", ""), "truncated"),
        (lambda text: text.replace('"data" : "', '"data" : "zz'), "ValueError"),
        (lambda text: text.replace('"qsl_idx" : ', '"qsl_idx" : -'), "no number of a sample"),
        (lambda text: text.replace("[", "[[[["), "JSONDecodeError"),
    ],
    ids=["foreign", "half", "no end", "data", "negative", "brackets"],
)
def test_an_accuracy_log_is_refused_in_one_line(edit: Edit, expected: str, tmp_path: Path) -> None:
    path = copied("accuracy", tmp_path) / ACCURACY
    path.write_text(edit(path.read_text()))
    assert expected in _refused(path.parent)


def test_what_is_too_large_is_not_held(tmp_path: Path) -> None:
    path = tmp_path / DETAIL
    with path.open("wb") as file:
        file.truncate(200 * 1024 * MIB)  # sparse
    with pytest.raises(LogUnreadable, match="more than 16 MiB"):
        read_text(path)
    with pytest.raises(LogUnreadable, match="a line of more than 100 bytes"):
        [*read_lines(path, MIB, 100)]


def test_what_is_no_plain_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / DETAIL)
    assert "not a plain file" in _refused(tmp_path)


def test_what_is_not_utf8_is_refused(tmp_path: Path) -> None:
    path = copied("single_stream", tmp_path) / DETAIL
    path.write_bytes(path.read_bytes() + b"\xff\n")
    assert "is not UTF-8" in _refused(path.parent)


def test_a_billion_queries_are_not_worked_out(tmp_path: Path) -> None:
    folder = copied("single_stream_untraced", tmp_path)
    in_detail(folder, "result_query_count", _put(str(10**18)))
    found = {check.figure: check for check in verify(read_run(folder))}
    assert found["early_stopping_met"].verdict is Verdict.UNCHECKED
