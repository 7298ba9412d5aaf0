from __future__ import annotations

import logging
import sys

import pytest

from controller.metrics.web_server import OncePerPeriod, surplus


@pytest.mark.parametrize(
    ("peers", "gives_way"),
    [([], None), (["a", "b"], None), (["a", "b", "b"], 1), (["a", "b", "c"], 0), (["a"] * 3, 0)],
)
def test_the_oldest_of_the_peer_with_most_connections_gives_way(
    peers: list[str], gives_way: int | None
) -> None:
    assert surplus(peers, 2) == gives_way


def test_one_cause_is_logged_once_in_a_period_and_the_next_line_says_how_often(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = 0.0
    log = logging.getLogger("a test's")
    log.addFilter(OncePerPeriod(60.0, lambda: now))
    for name in ("ann", "ben", "eve"):
        log.warning("refused %s", name)
    log.warning("another")
    for error in (KeyError("x"), ValueError("y"), ValueError("z")):
        try:
            raise error
        except LookupError:
            log.exception("failed")
        except ValueError:
            log.error("failed", exc_info=sys.exc_info())
    now = 61.0
    log.warning("refused %s", "joe")
    assert caplog.messages == [
        "refused ann",
        "another",
        "failed",
        "failed",
        "refused joe (and 2 times since the last such line)",
    ]
