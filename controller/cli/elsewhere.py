"""The farm of a context, which `benchfarm login` has kept."""

from __future__ import annotations

import os
from collections.abc import Callable

from controller.api.brief_reader import BriefReader
from controller.api.client import ApiClient
from controller.api.contexts import read_context
from controller.api.farm_client import ApiFarmClient
from controller.api.reader import ApiReader
from controller.runtime.home import Home


class FarmElsewhere:
    """The ways to ask the farm of a context."""

    def __init__(self, context: str) -> None:
        """Raises UserError if there is no such context."""
        self._context = read_context(context, os.environ)

    def host(self) -> ApiClient:
        """Return what asks its host."""
        return ApiClient(self._context)

    def controller(self) -> ApiFarmClient:
        """Return what asks its controller."""
        return ApiFarmClient(Home.from_environment(), self._context)

    def store(self, tell: Callable[[str], None]) -> ApiReader:
        """Return what reads its store; tell: receives a line about what is damaged there."""
        return ApiReader(self._context, tell)

    def brief(self) -> BriefReader:
        """Return what reads a page of each list of its store."""
        return BriefReader(self._context, lambda _: None)
