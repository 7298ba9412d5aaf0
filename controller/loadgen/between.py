"""Each line of a summary against the detail log, to show where one of the two was edited."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from controller.loadgen.checks import Check, equal, judged, unchecked
from controller.loadgen.digits import FLOATING, TWO_DECIMALS, half_digit
from controller.loadgen.run_logs import RunLogs
from controller.loadgen.summary import SKIPPED, Summary, as_setting
from controller.loadgen.texts import number
from controller.loadgen.time_checks import count_is_waived

BY: Final = "summary against detail log"
_RESULTS: Final = ("_latency_ns", "_queries_met", "_duration_met")
"""How keys of results end that every detail log with results has."""
_ADVICE: Final = "See the detailed log for why this may have occurred."


def between(run: RunLogs) -> Iterator[Check]:
    """Yield the checks of a summary."""
    summary, values = run.summary, run.detail.values
    if summary is None:
        yield unchecked("summary", None, "there is no summary")
        return
    has_all = run.detail.has_results and not run.is_fixed_rate
    for key, texts in summary.values.items():
        if key in values:
            for text in texts:
                same = _agrees(key, text, values[key]) and _skips_rightly(run, key, text)
                yield judged(key, text, values[key], BY, same=same)
        elif has_all and key.endswith(_RESULTS):
            yield judged(key, texts[0], "nothing", BY, same=False)
        elif len(texts) > 1:
            yield judged(key, texts[0], texts[-1], "the summary itself", same=len(set(texts)) == 1)
        else:
            yield unchecked(key, texts[0], "the detail log does not have it")
    for label in summary.unknown:
        yield unchecked(label, None, "a line of the summary that is not known")
    yield from _texts(run, summary)
    for key, text in summary.of_tokens.items():
        if (said := values.get(key)) is not None:
            yield equal(key, words(text), words(str(said)), BY)
    yield equal("errors", summary.counted["error"], len(run.detail.errors), BY)
    yield equal("warnings", summary.counted["warning"], run.detail.warnings, BY)


def _texts(run: RunLogs, summary: Summary) -> Iterator[Check]:
    values = run.detail.values
    said = values.get("early_stopping_result")
    if isinstance(said, str) and (said or summary.early_stopping):
        yield equal("early_stopping_result", words(summary.early_stopping or ""), words(said), BY)
    reason = values.get("result_invalid_reason")
    if reason is not None or summary.recommendations:
        advice = (summary.recommendations or "").replace(_ADVICE, "")
        yield equal("result_invalid_reason", words(advice), words(str(reason or "")), BY)


def _skips_rightly(run: RunLogs, key: str, text: str) -> bool:
    """Return whether the summary skips a least number of queries that was not asked for."""
    if key != "result_min_queries_met" or run.detail.values[key] is not False:
        return True
    return (text == SKIPPED) == count_is_waived(run)


def words(text: str) -> str:
    """Return a text without bullets and line ends; `90.0th` as older releases print it."""
    return re.sub(r"(\d+)\.0th", r"\1th", " ".join(w for w in text.split() if w != "*"))


def _agrees(key: str, text: str, value: object) -> bool:
    """Return whether a summary's text can be the detail log's value."""
    said = as_setting(text)
    if isinstance(value, bool):
        return said == value and str(said) in ("True", "False", "0", "1")
    found, expected = number(said), number(value)
    if isinstance(value, str) or found is None or expected is None:
        return text.replace(" ", "") == str(value).replace(" ", "") or said == value
    if key in TWO_DECIMALS:
        return abs(found - expected) <= 0.005 + half_digit(expected) + 1e-9
    if key in FLOATING:
        return abs(found - expected) <= half_digit(expected)
    return found == expected
