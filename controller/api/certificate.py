"""The server's TLS: the user's own certificate, or one that is made at first use."""

from __future__ import annotations

import ipaddress
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from controller.contracts.errors import UserError
from controller.platform.atomic import write_private
from controller.platform.private_files import read_private

VALID_FOR: Final = timedelta(days=3650)
"""Clients trust it by its fingerprint, so nothing is gained by making it anew sooner."""
OURS: Final = "benchfarm"
"""The name of whoever signs a certificate that is made here."""
MOST_NAMES: Final = 20
"""Hosts that a certificate is for."""
SKEW: Final = timedelta(days=1)
"""By so much a client's clock may be behind the server's."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate and its key, both PEM files."""

    certificate: Path
    key: Path
    former: str = ""
    """Fingerprint of the certificate that this one has just replaced; empty if it has not."""


def tls_of(files: Certificate) -> ssl.SSLContext:
    """Return the server's side of TLS 1.2 and later; raises UserError."""
    tried = f"use the certificate {files.certificate} with the key {files.key}"
    read_private(files.key, tried, "Give a key of your own with --tls-key.")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # A password is never asked for: a server has nobody to ask.
        context.load_cert_chain(files.certificate, files.key, password=b"")
    except (OSError, ValueError) as error:
        seen = getattr(error, "strerror", None) or str(error)
        remedy = "Give a PEM certificate and its PEM key without a password."
        raise UserError(tried, seen, remedy) from error
    return context


def fingerprint_of(certificate: Path) -> str:
    """Return the SHA-256 of a PEM file's first certificate as AB:CD:…; raises UserError."""
    try:
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
    except (OSError, ValueError) as error:
        seen = getattr(error, "strerror", None) or str(error)
        remedy = "Give a PEM certificate with --tls-cert."
        raise UserError(f"read the certificate {certificate}", seen, remedy) from error
    return found.fingerprint(hashes.SHA256()).hex(":").upper()


def own_certificate(folder: Path, host: str, now: datetime) -> Certificate:
    """Return the certificate in a private folder, which is made if it isn't there.

    One that was made here and is not for the host, or has expired, so that nobody accepts it any
    more, is replaced by one for the host, and for all that the former was for. One that is not
    valid yet is kept, since this host's clock may be wrong now. host: the address or name at which
    it is served. Raises OSError, UserError.
    """
    files = Certificate(folder / "api-cert.pem", folder / "api-key.pem")
    former: Sequence[str] = ()
    if files.certificate.exists() and files.key.exists():
        former = _names_if_ours(files.certificate)
        if not former or (host in former and now <= _ends(files.certificate)):
            return files
        files = replace(files, former=fingerprint_of(files.certificate))
    certificate, key = make_certificate(host, now, former)
    write_private(files.key, key)
    write_private(files.certificate, certificate)
    return files


def make_certificate(host: str, now: datetime, former: Sequence[str] = ()) -> tuple[str, str]:
    """Return a new self-signed certificate for a host and its key, P-256, both as PEM.

    former: other hosts that it is also for.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, OURS)])
    usual = ("localhost", "127.0.0.1", "::1", socket.gethostname())
    names = [*dict.fromkeys((host, *usual, *former))][:MOST_NAMES]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now.astimezone(UTC) - SKEW)
        .not_valid_after(now.astimezone(UTC) + VALID_FOR)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([*map(_general_name, names)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return certificate.public_bytes(serialization.Encoding.PEM).decode(), secret.decode()


def _general_name(host: str) -> x509.GeneralName:
    with suppress(ValueError):
        return x509.IPAddress(ipaddress.ip_address(host))
    return x509.DNSName(host)


def _ends(certificate: Path) -> datetime:
    """Return until when a certificate that was made here is valid."""
    return x509.load_pem_x509_certificate(certificate.read_bytes()).not_valid_after_utc


def _names_if_ours(certificate: Path) -> Sequence[str]:
    """Return the hosts that a certificate is for; none of one that was not made here, or that
    cannot be read, which is told where it is used."""
    try:
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        (issuer,) = found.issuer.get_attributes_for_oid(NameOID.COMMON_NAME)
    except (OSError, ValueError, x509.ExtensionNotFound):
        return ()
    if issuer.value != OURS or found.subject != found.issuer:
        return ()
    addresses = map(str, names.get_values_for_type(x509.IPAddress))
    return [*names.get_values_for_type(x509.DNSName), *addresses]
