"""The farm of a context, which `benchfarm login` has kept."""

from __future__ import annotations

import os
from collections.abc import Callable

from controller.api.client import ApiClient
from controller.api.contexts import read_context
from controller.api.farm_client import ApiFarmClient
from controller.api.reader import ApiReader
from controller.runtime.home import Home


def client_of(context: str) -> ApiClient:
    """Return the client of a context; raises UserError."""
    return ApiClient(read_context(context, os.environ))


def reader_of(context: str, tell: Callable[[str], None]) -> ApiReader:
    """Return what reads the farm of a context; raises UserError."""
    return ApiReader(read_context(context, os.environ), tell)


def farm_client_of(context: str) -> ApiFarmClient:
    """Return the client of a context's controller; raises UserError."""
    return ApiFarmClient(Home.from_environment(), read_context(context, os.environ))
