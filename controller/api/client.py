"""The client of the API, for a farm elsewhere."""

from __future__ import annotations

import socket
import ssl
from typing import Final
from urllib.parse import urlsplit

from controller.api.answers import SweepPage
from controller.api.connection import CONNECT_S, Ask, Connection
from controller.api.contexts import FarmContext
from controller.contracts.administration import StoredFiles
from controller.contracts.errors import FarmUnavailable
from controller.contracts.farm_now import FarmNow

ONE: Final = {"limit": "1"}


class ApiClient:
    """Asks a farm over its API for what only its host can tell."""

    def __init__(self, context: FarmContext) -> None:
        self.connection = Connection(context)
        self._words = self.connection.words

    def check(self) -> None:
        """Raise UserError unless the token is valid."""
        self.connection.run(self._words.one(SweepPage, Ask("GET", "/sweeps", ONE)))

    def farm(self) -> FarmNow:
        """Return whether the farm works; raises UserError."""
        return self.connection.run(self._words.one(FarmNow, Ask("GET", "/farm")))

    def files(self) -> StoredFiles:
        """Return what is in the stores of models of online hosts; raises UserError."""
        return self.connection.run(self._words.one(StoredFiles, Ask("GET", "/files")))


def certificate_of(url: str) -> str:
    """Return the certificate of a server, PEM, whoever it is; raises FarmUnavailable."""
    parts = urlsplit(url)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection((parts.hostname, parts.port or 443), CONNECT_S) as plain,
            context.wrap_socket(plain, server_hostname=parts.hostname) as connection,
        ):
            shown = connection.getpeercert(binary_form=True)
    except (OSError, UnicodeError) as error:  # the latter of a host that can be none
        seen = getattr(error, "strerror", None) or str(error)
        remedy = "Check the address, and that it is served."
        raise FarmUnavailable(f"connect to {url}", seen, remedy) from error
    return ssl.DER_cert_to_PEM_cert(shown or b"")
