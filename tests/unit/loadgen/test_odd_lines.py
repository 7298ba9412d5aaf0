"""What LoadGen does not write: keys that are there twice, lines of another form, other digits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from controller.loadgen.checks import Check, Verdict
from controller.loadgen.logs import DETAIL, SUMMARY, LogUnreadable
from controller.loadgen.run_logs import read_run
from controller.loadgen.verifying import verify
from tests.support.altered_logs import RECORDED, copied, in_summary

ARABIC = str.maketrans("0123456789", "٠١٢٣٤٥٦٧٨٩")


def told(folder: Path) -> dict[str, Check]:
    """Return the checks that are not the same, by their figures."""
    found = verify(read_run(folder))
    return {check.figure: check for check in found if check.verdict is not Verdict.SAME}


def twice(folder: Path, key: str, value: str) -> None:
    """Put an entry with another value before the last one of a key."""
    path = folder / DETAIL
    lines = path.read_text().splitlines(keepends=True)
    place = max(n for n, line in enumerate(lines) if f'"key": "{key}"' in line)
    begin, _, rest = lines[place].partition('"value": ')
    end = rest[rest.rindex(', "time_ms"') :]
    lines.insert(place, f'{begin}"value": {value}{end}')
    path.write_text("".join(lines))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("loadgen_version", '"5.0 @ x"'),
        ("loadgen_build_date_utc", '"2020-01-01"'),
        ("sut_name", '"other"'),
        ("test_datetime", '"2026-11-27T09:27:41Z"'),
        ("qsl_name", '"other"'),
        ("qsl_reported_total_count", "50000"),
        ("loaded_qsl_set", "[0]"),
        ("generated_query_count", "1"),
        ("generated_query_duration", "1"),
        ("effective_print_timestamps", "0"),
        ("power_begin", '"11-27-2026 09:27:40.312"'),
    ],
)
def test_a_key_with_two_values_is_named(key: str, value: str, tmp_path: Path) -> None:
    folder = copied("single_stream", tmp_path)
    twice(folder, key, value)
    assert told(folder)[key].verdict is Verdict.DIFFERS


def test_a_key_of_which_nobody_knows_is_named_if_it_has_two_values(tmp_path: Path) -> None:
    folder = copied("single_stream", tmp_path)
    path = folder / DETAIL
    *lines, end = path.read_text().splitlines(keepends=True)
    more = [end.replace('"num_errors", "value": 0', f'"x_y", "value": {n}') for n in (1, 2)]
    path.write_text("".join((*lines, *more, end)))
    assert told(folder).keys() == {"x_y"}


@pytest.mark.parametrize("key", ["sut_name", "requested_scenario", "qsl_name"])
def test_a_key_that_an_accuracy_run_has_once_is_named(key: str, tmp_path: Path) -> None:
    folder = copied("accuracy", tmp_path)
    twice(folder, key, '"other"')
    assert told(folder)[key].verdict is Verdict.DIFFERS


ENTRY = ':::MLLOG {"key": "result_validity", "value": "INVALID", "metadata": {"is_error": false}}'
Edit = Callable[[str], str]
REFUSED: dict[str, Edit] = {
    "leading space": lambda text: f"{text} {ENTRY}\n",
    "after another text": lambda text: f"{text}note {ENTRY}\n",
    "no space": lambda text: f"{text}{ENTRY.replace('MLLOG ', 'MLLOG')}\n",
    "a byte-order mark": lambda text: f"\ufeff{text}",
    "a byte-order mark within": lambda text: f"{text}\ufeff{ENTRY}\n",
    "a line of older releases": lambda text: f'{text}"pid": 1, "tid": 1, "ts": 1ns : x : y\n',
    "carriage return": lambda text: f"{text}x\r{ENTRY}\n",
    "another break": lambda text: f"{text}x\u2028{ENTRY}\n",
}


@pytest.mark.parametrize("kind", REFUSED)
def test_an_entry_in_another_form_is_refused_in_one_line(kind: str, tmp_path: Path) -> None:
    path = copied("single_stream", tmp_path) / DETAIL
    path.write_text(REFUSED[kind](path.read_text()), newline="")
    with pytest.raises(LogUnreadable) as refused:
        read_run(path.parent)
    assert str(refused.value).startswith(DETAIL)
    assert "\n" not in str(refused.value)
    assert "\ufeff" not in str(refused.value)


@pytest.mark.parametrize("name", [DETAIL, SUMMARY])
def test_lines_that_are_not_read_are_counted_and_shown(name: str, tmp_path: Path) -> None:
    path = copied("single_stream", tmp_path) / name
    first, rest = path.read_text().split("\n", 1)
    path.write_text(f"{first}\nhello\n{rest}\n")
    check = told(path.parent)["unread lines"]
    assert (check.says, check.verdict) == ("hello", Verdict.UNCHECKED)
    assert check.by.startswith(f"{name} has 1 lines")


@pytest.mark.parametrize("name", [DETAIL, SUMMARY])
def test_line_ends_of_another_system_are_told(name: str, tmp_path: Path) -> None:
    path = copied("single_stream", tmp_path) / name
    path.write_text(path.read_text(), newline="\r\n")
    found = told(path.parent)
    assert found.keys() == {"line ends"}
    assert name in found["line ends"].by


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (lambda text: f"\ufeff{text}", "byte-order mark"),
        (lambda text: text.replace("Result is", "x\rResult is"), "line break"),
    ],
    ids=["mark", "break"],
)
def test_a_summary_of_another_form_is_refused(edit: Edit, expected: str, tmp_path: Path) -> None:
    path = copied("single_stream", tmp_path) / SUMMARY
    path.write_text(edit(path.read_text()), newline="")
    with pytest.raises(LogUnreadable, match=expected):
        read_run(path.parent)


@pytest.mark.parametrize(
    ("label", "key"),
    [
        ("Mean latency (ns)", "result_mean_latency_ns"),
        ("QPS w/ loadgen overhead", "result_qps_with_loadgen_overhead"),
        ("min_query_count", "effective_min_query_count"),
        ("qsl_rng_seed", "effective_qsl_rng_seed"),
    ],
)
def test_digits_of_another_script_in_a_summary_are_named(
    label: str, key: str, tmp_path: Path
) -> None:
    folder = copied("single_stream", tmp_path)
    in_summary(folder, label, lambda value: value.translate(ARABIC))
    assert told(folder)[key].verdict is Verdict.DIFFERS


def test_a_clock_time_in_digits_of_another_script_is_no_time(tmp_path: Path) -> None:
    path = copied("single_stream", tmp_path) / DETAIL
    said = "09:27:40.313"
    text = path.read_text()
    assert said in text
    path.write_text(text.replace(said, said.translate(ARABIC)))
    found = told(path.parent)["power_begin to power_end (s)"]
    assert found.verdict is Verdict.UNCHECKED


@pytest.mark.parametrize("name", sorted(path.name for path in RECORDED.iterdir()))
def test_logs_as_loadgen_writes_them_have_no_odd_line(name: str) -> None:
    run = read_run(RECORDED / name)
    assert (run.detail.unread, run.detail.has_crlf) == ((), False)
    assert run.summary
    assert (run.summary.unread, run.summary.has_crlf) == ((), False)
