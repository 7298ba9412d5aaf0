"""Contexts: the farms elsewhere that a user has logged in to, each a file that only the user reads.

A context pins the server's certificate: its bytes are kept beside it, and nothing else is trusted.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
import ssl
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from controller.contracts.base import Contract
from controller.contracts.documents import checked_json
from controller.contracts.errors import UserError
from controller.platform.atomic import write_private
from controller.platform.private_files import read_private, require_private_folder

USUAL: Final = "default"
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
MOST_BYTES: Final = 4096


class FarmContext(Contract):
    """How a farm elsewhere is reached."""

    url: str
    """https://HOST:PORT, or http:// of loopback."""
    token: Annotated[str, Field(max_length=200, pattern=r"^[!-~]+$", repr=False)]
    certificate: str = ""
    """The server's certificate, PEM; empty without TLS."""

    @model_validator(mode="after")
    def _is_pinned(self) -> Self:
        if self.url.startswith("https:") and not self.certificate:
            raise ValueError("no certificate is pinned")
        if not is_private(self.url):
            raise ValueError("others could read the token")
        return self

    def trust(self) -> ssl.SSLContext | bool:
        """Return what verifies the server: it has to have exactly this certificate."""
        if not self.certificate:
            return False
        context = ssl.create_default_context(cadata=self.certificate)
        context.check_hostname = False  # the certificate itself is known
        context.sslsocket_class = _only(ssl.PEM_cert_to_DER_cert(self.certificate))
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # also one that another signed
        return context


def _only(pinned: bytes) -> type[ssl.SSLSocket]:
    """Return a kind of connection to none but the server that shows a certificate, DER.

    A context alone would also trust whatever that certificate has signed.
    """

    class Pinned(ssl.SSLSocket):
        def do_handshake(self, block: bool = False) -> None:
            super().do_handshake(block)
            if self.getpeercert(binary_form=True) != pinned:
                raise ssl.SSLCertVerificationError("CERTIFICATE_VERIFY_FAILED: not the pinned one")

    return Pinned


class _Kept(Contract):
    """A context as its file has it."""

    url: str
    token: str
    fingerprint: str = ""
    """SHA-256 of the certificate in the file beside it."""


def fingerprint_of(certificate: str) -> str:
    """Return the SHA-256 of a PEM certificate as AB:CD:…; raises ValueError."""
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate)).digest().hex(":").upper()


def is_private(url: str) -> bool:
    """Return whether nobody else can read what is sent to an address: over TLS, or loopback."""
    if url.startswith("https://"):
        return True
    host = urlsplit(url).hostname or "" if url.startswith("http://") else ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_same(one: str, other: str) -> bool:
    """Return whether two fingerprints are one, however they are written."""
    return _bare(one) == _bare(other)


def _bare(fingerprint: str) -> str:
    words = fingerprint.upper().removeprefix("SHA-256").removeprefix("SHA256")
    return re.sub(r"[:\s]", "", words)


def keep_context(name: str, context: FarmContext, environ: Mapping[str, str]) -> Path:
    """Store a context under a name; return its file. Raises UserError."""
    file = _file_of(name, environ)
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        require_private_folder(file.parent, f"keep contexts in {file.parent}")
        fingerprint = fingerprint_of(context.certificate) if context.certificate else ""
        if context.certificate:
            write_private(_certificate_beside(file), context.certificate)
        kept = _Kept(url=context.url, token=context.token, fingerprint=fingerprint)
        write_private(file, kept.model_dump_json())
    except OSError as error:
        remedy = "Set XDG_CONFIG_HOME to a folder that you can write to."
        raise UserError(f"write {file}", error.strerror or str(error), remedy) from error
    return file


def read_context(name: str, environ: Mapping[str, str]) -> FarmContext:
    """Return the context of a name; raises UserError."""
    file = _file_of(name, environ)
    tried, remedy = f"use the context {name}", f"Run `benchfarm login URL --name {name}`."
    text = read_private(file, tried, remedy)
    try:
        kept = _Kept.model_validate_json(checked_json(text, MOST_BYTES))
        certificate = ""
        if kept.fingerprint:
            beside = _certificate_beside(file).read_text(encoding="ascii")
            if not is_same(fingerprint_of(beside), kept.fingerprint):
                raise UserError(tried, "the certificate beside it is another one", remedy)
            # Without what may follow it there, which the fingerprint leaves out.
            certificate = ssl.DER_cert_to_PEM_cert(ssl.PEM_cert_to_DER_cert(beside))
        return FarmContext(url=kept.url, token=kept.token, certificate=certificate)
    except OSError as error:
        raise UserError(tried, error.strerror or str(error), remedy) from error
    except ValueError as error:  # also pydantic's, and of what is not ASCII
        raise UserError(tried, "its file is damaged", remedy) from error


def _file_of(name: str, environ: Mapping[str, str]) -> Path:
    if not NAME.fullmatch(name):
        remedy = "Use letters, digits, dots, underscores and hyphens, at most 64."
        raise UserError(f"use the context {name!r}", "it is no name of one", remedy)
    base = environ.get("XDG_CONFIG_HOME") or "~/.config"
    folder = Path(base)
    with suppress(RuntimeError):  # nobody's home
        folder = folder.expanduser()
    return folder / "benchfarm" / f"{name}.json"


def _certificate_beside(file: Path) -> Path:
    return file.with_suffix(".pem")
