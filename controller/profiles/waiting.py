"""Calls in a trace that wait: their time is no work of the thread that makes them. Pure.

Of a GPU's runtime they are the ones that return when its work is done. Copies that are not
asynchronous wait, too, and copy meanwhile. Launches, which may wait for room in a queue, can't be
told from work.
"""

from __future__ import annotations

import re

RUNTIME = ("cuda_runtime", "cuda_driver", "xpu_runtime", "privateuse1_runtime", "mtia_runtime")
"""Categories of the calls into a GPU's runtime; AMD's have CUDA's."""
PYTHON = "python_function"

_RUNTIME_WAITS = re.compile(
    r"(?:cuda|hip|cu|musa)(?:Device|Stream|Event|Ctx)Synchronize"
    r"|(?:cuda|hip)Memcpy(?!\w*Async)"
    r"|ur(?:QueueFinish|EventWait)|ze\w+Synchronize|aclrtSynchronize\w+"
)
_PYTHON_WAITS = re.compile(
    r"<built-in (?:method|function) (?:sleep|acquire|poll|select|wait|waitpid|wait4)\b"
)


def is_wait(category: str, name: str) -> bool:
    """Whether an event is a call that waits."""
    if category in RUNTIME:
        return _RUNTIME_WAITS.match(name) is not None
    return category == PYTHON and _PYTHON_WAITS.match(name) is not None
