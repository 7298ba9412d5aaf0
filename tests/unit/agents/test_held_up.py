"""What an agent tells of attempts that wait for another farm."""

from __future__ import annotations

from agents.held_up import LONGEST, HeldUpAttempts
from controller.contracts.wire import WAIT_FOR_CORE, HeldUp, Progress
from tests.support import builders

REF = builders.ref("run-1")


def progress(phase: str) -> Progress:
    return Progress(phase=phase, done=0, total=1)


def test_it_lasts_until_the_attempt_goes_on_or_ends() -> None:
    found, why = HeldUpAttempts(), f"{WAIT_FOR_CORE} 3, which process 7 of user eve holds"
    found.progressed(REF, progress("warm-up"))
    assert found.now() == ()
    found.progressed(REF, progress(why))
    assert found.now() == (HeldUp(ref=REF, why=why),) == found.now()
    found.progressed(REF, progress("warm-up"))
    assert found.now() == ()
    found.progressed(REF, progress(why))
    found.ended(REF)
    assert found.now() == ()


def test_a_phase_that_nobody_would_print_cannot_end_the_exchange() -> None:
    found, phase = HeldUpAttempts(), f"{WAIT_FOR_CORE}\n\x1b[2J\x00{'x' * 9000}"
    found.progressed(REF, progress("").model_copy(update={"phase": phase}))
    (said,) = found.now()
    assert len(said.why) == LONGEST
    assert said.why.isprintable()
