"""`python -m models.mobile VERB`: work for agents and the command line in a separate process.

`prepare` and `score` read one JSON document from standard input; `list`, `verify` and `add PATH
[KEY]` take the store's folder from BENCHFARM_MODELS or BENCHFARM_HOME. Each prints one JSON
document. So a model or image that crashes the process crashes no agent, and torch is loaded only
where it is needed. Exit status 2: standard output holds an ErrorPayload.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pydantic import TypeAdapter

from controller.contracts.catalog import user_tasks
from controller.contracts.error_payload import USER_ERROR, ErrorPayload
from controller.contracts.errors import UserError
from controller.contracts.models import Added, ModelStatus
from models.mobile import catalogue
from models.mobile.preparation import PrepareOrder, ScoreOrder, prepare, scored
from models.mobile.store import Store

_STATUSES = TypeAdapter(list[ModelStatus])
_ADDED = TypeAdapter(list[Added])


def main() -> int:
    """Run the verb in the arguments."""
    try:
        sys.stdout.write(_done(sys.argv[1], sys.argv[2:]))
    except UserError as error:
        sys.stdout.write(ErrorPayload.of(error).model_dump_json())
        return USER_ERROR
    return 0


def _done(verb: str, arguments: list[str]) -> str:
    if verb == "prepare":
        return prepare(PrepareOrder.model_validate_json(sys.stdin.read())).model_dump_json()
    if verb == "score":
        return scored(ScoreOrder.model_validate_json(sys.stdin.read())).model_dump_json()
    store = Store(user_tasks().parent)
    if verb == "list":
        return _STATUSES.dump_json(catalogue.statuses(store)).decode()
    if verb == "verify":
        return _STATUSES.dump_json(catalogue.verify(store)).decode()
    path, key = Path(arguments[0]), arguments[1] if len(arguments) > 1 else None
    return _ADDED.dump_json(catalogue.add(store, path, key)).decode()


if __name__ == "__main__":
    sys.exit(main())
