"""`python -m models.mobile VERB`: a helper for what agents and the command line have done apart.

`prepare` serves a PrepareOrder, `score` a ScoreOrder, `compare` a CompareOrder, `fetch` a
FetchRequest, `prepare-set` a SetRequest, any other verb a ModelRequest, on the store that
BENCHFARM_MODELS or BENCHFARM_HOME names. A model or image that ends the process ends no agent, and
torch is loaded where it is needed only.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from controller.contracts.catalog import user_tasks
from controller.contracts.models import Added, FetchRequest, ModelRequest, ModelStatus, SetRequest
from controller.platform.helper_main import Replies, serve
from models.mobile import catalogue
from models.mobile.preparation import (
    CompareOrder,
    PrepareOrder,
    ScoreOrder,
    compared,
    prepare,
    scored,
)
from models.mobile.store import Store


def handle(request: ModelRequest, replies: Replies) -> None:
    """Answer with a ModelStatus for each item, or an Added for each that was added."""
    store = Store(user_tasks().parent)
    if request.verb == "list":
        answers: Sequence[ModelStatus | Added] = catalogue.statuses(store)
    elif request.verb == "verify":
        answers = catalogue.verify(store)
    else:
        assert request.path is not None
        answers = catalogue.add(store, request.path, request.key)
    for answer in answers:
        replies.answer(answer)


def _fetch(request: FetchRequest, replies: Replies) -> None:
    from models.mobile.fetching.fetch import fetch

    fetch(request, Store(user_tasks().parent), replies.answer)


def _prepare_set(request: SetRequest, replies: Replies) -> None:
    from models.mobile.preparing.prepare import prepare_set

    for answer in prepare_set(request, Store(user_tasks().parent), replies.progress):
        replies.answer(answer)


def main(verb: str) -> int:
    """Serve what the verb is for; return the exit status."""
    if verb == "prepare":
        return serve(PrepareOrder, lambda order, replies: replies.answer(prepare(order)))
    if verb == "score":
        return serve(ScoreOrder, lambda order, replies: replies.answer(scored(order)))
    if verb == "compare":
        return serve(CompareOrder, lambda order, replies: replies.answer(compared(order)))
    if verb == "fetch":
        return serve(FetchRequest, _fetch)
    if verb == "prepare-set":
        return serve(SetRequest, _prepare_set)
    return serve(ModelRequest, handle)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
