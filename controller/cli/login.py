"""`benchfarm login`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from controller.api.client import ApiClient, certificate_of
from controller.api.contexts import (
    USUAL,
    FarmContext,
    fingerprint_of,
    is_private,
    is_same,
    keep_context,
)
from controller.contracts.errors import UserError
from controller.platform.private_files import read_private
from controller.platform.terminal import say
from controller.runtime.addresses import web_address
from controller.runtime.client import TOKEN_VARIABLE
from controller.runtime.options import CONTEXT_VARIABLE


def login(
    url: Annotated[str, typer.Argument(help="Address of `benchfarm api serve`.")],
    name: Annotated[str, typer.Option(help="Name of the context.")] = USUAL,
    fingerprint: Annotated[
        str | None,
        typer.Option(metavar="SHA256", help="Expected fingerprint of the certificate."),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=f"Token file. [default: {TOKEN_VARIABLE}, else asked]"),
    ] = None,
) -> None:
    """Keep the address and token of a farm elsewhere.

    The certificate is pinned: compare its fingerprint with the one that `api serve` printed.
    """
    address = _address(url)
    certificate = ""
    if address.startswith("https:"):
        certificate = certificate_of(address)
        _confirm(address, fingerprint_of(certificate), fingerprint)
    context = FarmContext(url=address, token=_token(token_file), certificate=certificate)
    ApiClient(context).check()
    file = keep_context(name, context, os.environ)
    say(f"kept in {file}; to use it: export {CONTEXT_VARIABLE}={name}")


def _address(url: str) -> str:
    """Return scheme, host and port of an address, as contexts have them; raises UserError."""
    tried, remedy = f"log in at {url!r}", "Write https://HOST:PORT."
    parts = urlsplit(web_address(tried, url))
    if parts.path or parts.query or parts.fragment or "@" in parts.netloc or not url.isprintable():
        raise UserError(tried, "it is more than a host and a port", remedy)
    address = f"{parts.scheme}://{parts.netloc}"  # urlsplit has the scheme in small letters
    if not is_private(address):
        raise UserError(tried, "without TLS, others on the network can read the token", remedy)
    return address


def _confirm(address: str, shown: str, expected: str | None) -> None:
    """Raise UserError unless the certificate is the one that the user expects."""
    tried = f"log in at {address}"
    if expected is not None:
        if not is_same(shown, expected):
            seen = f"its certificate has the fingerprint {shown}"
            raise UserError(tried, seen, "Ask the administrator which is right.")
        return
    if not sys.stdin.isatty():
        seen = "there is no terminal to confirm the fingerprint on"
        raise UserError(tried, seen, "Give --fingerprint as `benchfarm api serve` printed it.")
    say(f"the certificate of {address} has the SHA-256 fingerprint\n{shown}", lines=True)
    if not typer.confirm("Is it the one that `benchfarm api serve` printed?"):
        raise UserError(tried, "its certificate was not confirmed", "Ask the administrator.")


def _token(file: Path | None) -> str:
    if file is not None:
        token = read_private(file, f"read --token-file {file}", "Name a file of your own.")
    else:
        token = os.environ.get(TOKEN_VARIABLE, "").strip()
        if not token and sys.stdin.isatty():
            token = typer.prompt("Token", hide_input=True).strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        remedy = f"Give --token-file FILE, or set {TOKEN_VARIABLE}, to the token as it was printed."
        raise UserError("log in", "there is no token", remedy)
    return token
