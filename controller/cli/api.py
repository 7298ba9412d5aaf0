"""`benchfarm api …`"""

from __future__ import annotations

import asyncio
import ipaddress
import signal
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from controller.api.certificate import Certificate, fingerprint_of, own_certificate, tls_of
from controller.api.options import ApiOptions
from controller.api.prefix import PREFIX
from controller.api.routes import DESCRIPTION
from controller.api.server import serve_api
from controller.cli.common import home, reading_here
from controller.contracts.errors import HomeUnusable, UserError
from controller.contracts.version import installed_version
from controller.page.site import Site
from controller.platform.terminal import log_visibly, say
from controller.runtime.addresses import Address
from controller.runtime.api_beside import renewed_line

app = typer.Typer(no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Serve results to the team over HTTP."""


@app.command()
def serve(
    listen: Annotated[
        str, typer.Option(metavar="IP:PORT", help="This host's address for other hosts.")
    ],
    tls_cert: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="PEM certificate. [default: made at first use]"),
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="PEM key of --tls-cert.")
    ] = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="Serve without TLS; only on loopback.")
    ] = False,
) -> None:
    """Serve results, sweeps and devices until Ctrl-C.

    Works whether or not the farm is up; sweeps are submitted and cancelled only while it is.
    """
    address = Address.to_listen("--listen", listen)
    with reading_here():
        pass  # rather a complaint now than at the first request
    files = certificate_of(address, tls_cert, tls_key, plain=plain)
    options = ApiOptions(
        host=address.host,
        port=address.port,
        tls=None if files is None else tls_of(files),
        front=Site(tls=files is not None),
    )
    log_visibly()
    asyncio.run(_serve(options, files))


def certificate_of(
    address: Address, certificate: Path | None, key: Path | None, *, plain: bool
) -> Certificate | None:
    """Return the certificate to serve with, None for none; raises UserError."""
    require_servable(address, certificate, key, plain=plain)
    if plain:
        return None
    if certificate and key:
        return Certificate(certificate, key)
    try:
        return own_certificate(home().path, address.host, datetime.now(UTC))
    except OSError as error:
        seen, remedy = error.strerror or str(error), "Give --tls-cert and --tls-key."
        raise HomeUnusable(f"make a certificate in {home().path}", seen, remedy) from error


def require_servable(
    address: Address, certificate: Path | None, key: Path | None, *, plain: bool, prefix: str = "--"
) -> None:
    """Raise UserError unless an address may be served so; prefix: of the options' names."""
    tried = f"serve the API on {address}"
    if plain:
        if certificate or key:
            seen = f"{prefix}plain has no certificate"
            raise UserError(tried, seen, "Leave one of them out.")
        if not ipaddress.ip_address(address.host).is_loopback:
            seen = "without TLS, others on the network can read tokens"
            raise UserError(tried, seen, f"Leave out {prefix}plain, or listen on 127.0.0.1.")
    elif bool(certificate) != bool(key):
        seen = "a certificate and its key belong together"
        raise UserError(tried, seen, f"Give both {prefix}tls-cert and {prefix}tls-key, or neither.")
    elif certificate and key:
        tls_of(Certificate(certificate, key))


async def _serve(options: ApiOptions, files: Certificate | None) -> None:
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    server = await serve_api(home(), installed_version(), options)
    try:
        scheme = "http" if files is None else "https"
        served_at = f"{scheme}://{Address(*server.address)}"
        say(f"api          {served_at}{PREFIX}, described at {DESCRIPTION}")
        say(f"page         {served_at}/")
        if files is not None:
            say(f"certificate  {files.certificate}")
            say(f"fingerprint  SHA-256 {fingerprint_of(files.certificate)}")
            if files.former:
                say(renewed_line(files.former))
        await ended.wait()
    finally:
        await server.cleanup()
