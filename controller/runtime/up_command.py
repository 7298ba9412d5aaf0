"""The `benchfarm up` that starts a home's farm with the options it has now."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Final

from controller.contracts.errors import HomeUnusable
from controller.runtime.home import Home

PLAIN: Final = "benchfarm up"
_BETWEEN_LABELS: Final = re.compile(r" (?=[A-Za-z_][A-Za-z0-9_.-]*=)")


def anew(home: Home) -> str:
    """Return the commands that start a home's farm anew, as people are told them.

    Those of a farm that can't be read are without its options.
    """
    try:
        return told(up_command(home))
    except HomeUnusable:
        return told(PLAIN)


def told(command: str) -> str:
    """Return how a farm is started anew with a command, as people are told it."""
    return f"`benchfarm down`, then `{command}`"


def up_command(home: Home) -> str:
    """Return the command that starts a home's farm as it was started; raises HomeUnusable."""
    cluster, api = home.cluster(), home.api_process()
    words = [PLAIN]
    words += map(shlex.quote, _options(cluster.options if cluster else {}))
    if home.prometheus_process.exists():
        words.append("--prometheus")
    words += (shlex.quote(_of_up(argument)) for argument in (api.arguments if api else ()))
    return " ".join(words)


def _options(known: Mapping[str, str]) -> Iterator[str]:
    """Yield options of `up` as words; known: those of a Cluster."""
    for option, value in known.items():
        if option == "--no-agent":
            yield option
        elif option == "--label":
            for label in _BETWEEN_LABELS.split(value):
                yield from (option, label)
        else:
            yield from (option, value)


def _of_up(argument: str) -> str:
    """Return an option of `api serve` as the one of `up`."""
    name, parted, value = argument.partition("=")
    return "--api" + ("" if name == "--listen" else name.removeprefix("-")) + parted + value
