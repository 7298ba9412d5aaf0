"""What the agent's own host has and phones have not: its kernel, which can be asked."""

from __future__ import annotations

import sys
from pathlib import Path

from agents.remotes.local import LocalRemote
from agents.remotes.remote import KILLED
from tests.support.memory_limit import limited_memory
from tests.support.processes import OWNER
from tests.support.waiting import PATIENCE_S

LIMIT_BYTES = 64 << 20


async def test_what_runs_is_the_first_to_end_for_memory(tmp_path: Path) -> None:
    remote = LocalRemote.of(tmp_path, OWNER)
    until_offered = 'while read -r score </proc/$$/oom_score_adj; [ "$score" != 1000 ]; do :; done'
    assert (await remote.run(("sh", "-c", until_offered), PATIENCE_S)).exit_code == 0


async def test_that_memory_ran_out_is_told(tmp_path: Path) -> None:
    remote = LocalRemote.of(tmp_path, OWNER)
    greedy = (sys.executable, "-c", f"b'x' * {4 * LIMIT_BYTES}")
    with limited_memory(LIMIT_BYTES) as within:
        ended = await remote.stream((*within, *greedy), PATIENCE_S, lambda _: None)
    assert (ended.exit_code, ended.past_deadline, ended.out_of_memory) == (KILLED, False, True)
    at_ease = await remote.stream(greedy, PATIENCE_S, lambda _: None)
    assert (at_ease.exit_code, at_ease.out_of_memory) == (0, False)
