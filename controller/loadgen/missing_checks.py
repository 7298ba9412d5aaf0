"""Entries that a detail log lacks although its release always writes them."""

from __future__ import annotations

from collections.abc import Iterator

from controller.loadgen.checks import Check, judged, unchecked
from controller.loadgen.logs import DETAIL
from controller.loadgen.releases import BOTH, KNOWN_WHOLE, PAIRS, SINCE, TOKENS_APART, always
from controller.loadgen.run_logs import RunLogs


def missing_checks(run: RunLogs) -> Iterator[Check]:
    """Yield a check of each entry that is not there, and of one that contradicts those there."""
    values, kind = run.detail.values, run.kind
    major, minor = kind.release
    by = f"LoadGen {major}.{minor} always writes it"
    expected = dict.fromkeys((*_halves(run), *(always(kind) if run.detail.has_results else ())))
    for key in expected:
        if key not in values:
            yield judged(key, "nothing", "an entry", by, same=False)
    yield from _newer(run)
    if not run.detail.has_results and "power_end" not in values:
        yield unchecked("end", None, f"{DETAIL} has no power_end: it may have been cut")
    if values.get("requested_use_token_latencies") is True and run.is_performance:
        yield from _tokens(run)


def _newer(run: RunLogs) -> Iterator[Check]:
    """Yield the check of a release that did not write all of these entries yet."""
    found = [key for key, since in SINCE.items() if key in run.detail.values]
    newest = max(found, key=lambda key: SINCE[key], default=None)
    if newest is None or run.kind.release >= SINCE[newest] or not run.detail.has_results:
        return
    major, minor = SINCE[newest]
    said = run.detail.values["loadgen_version"]
    by = f"{newest}, which no release before writes"
    yield judged("loadgen_version", said, f"at least {major}.{minor}", by, same=False)


def _halves(run: RunLogs) -> Iterator[str]:
    """Yield the other half of each setting of which the log has one half."""
    known = run.kind.release >= KNOWN_WHOLE
    for taken, asked in PAIRS.items():
        if not known and taken.removeprefix("effective_") not in BOTH:
            continue
        for one, other in ((taken, asked), (asked, taken)):
            if one in run.detail.values:
                yield other


def _tokens(run: RunLogs) -> Iterator[Check]:
    """Yield the check of whether the log's results are those of a run that counts tokens."""
    plain = "early_stopping_result" in run.detail.values and run.kind.release >= TOKENS_APART
    counted = run.counts_tokens and not plain
    by = "the results that are there"
    yield judged("requested_use_token_latencies", True, counted, by, same=counted)
