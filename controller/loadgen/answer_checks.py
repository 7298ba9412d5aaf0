"""The accuracy log against the settings: every sample answered once, or none in a timed run."""

from __future__ import annotations

from collections.abc import Iterator

from controller.loadgen.checks import Check, equal, unchecked
from controller.loadgen.logs import ACCURACY
from controller.loadgen.run_logs import RunLogs


def answer_checks(run: RunLogs) -> Iterator[Check]:
    """Yield the checks of the accuracy log."""
    answers = run.answers
    if run.is_performance:
        logged = run.number("effective_accuracy_log_probability")
        wanted = run.number("effective_accuracy_log_sampling_target")
        if answers and not logged and not wanted and run.detail.values.get("effective_test_mode"):
            yield equal("answers", answers.count, 0, "a timed run that logs no answers")
        return
    if answers is None:
        yield unchecked("answers", None, f"there is no {ACCURACY}")
        return
    total = run.count("effective_accuracy_sample_count") or run.count("qsl_reported_total_count")
    if total is None:
        yield unchecked("answers", answers.count, "the detail log does not have their number")
        return
    yield equal("answers", answers.count, total, "the samples of an accuracy run")
    yield equal("answered samples", len(answers.samples), total, "each sample once")
    beyond = sum(sample >= total for sample in answers.samples)
    yield equal("answers of unknown samples", beyond, 0, "the samples of an accuracy run")
    yield equal("answers' numbers", answers.queries, answers.count, "each number once")
