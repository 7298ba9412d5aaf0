"""Logging in to a farm elsewhere, and its lists: the token goes only to the pinned certificate."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from controller.api.certificate import (
    VALID_FOR,
    Certificate,
    fingerprint_of,
    make_certificate,
    own_certificate,
    tls_of,
)
from controller.api.client import ApiClient
from controller.api.contexts import FarmContext, is_same, keep_context, read_context
from controller.api.options import ApiOptions
from controller.contracts.errors import UserError
from controller.contracts.records import Scope
from controller.metrics.exporter import LOOPBACK
from controller.platform.atomic import write_private
from tests.support.api import SECRETS, UNLIMITED, Served, prepared, served
from tests.support.command_line import complaint_of, printed_by

TOKEN = SECRETS[Scope.VIEWER]


@dataclass(frozen=True, slots=True)
class Laptop:
    """A host without a farm, and the farm elsewhere."""

    home: Path
    config: Path
    api: Served
    files: Certificate

    @property
    def fingerprint(self) -> str:
        return fingerprint_of(self.files.certificate)

    def environ(self, **more: str) -> dict[str, str]:
        return {"XDG_CONFIG_HOME": str(self.config), "BENCHFARM_TOKEN": "", **more}

    def log_in(self, *more: str) -> str:
        call = ("login", self.api.url, "--fingerprint", self.fingerprint, *more)
        return printed_by(self.home, *call, **self.environ(BENCHFARM_TOKEN=TOKEN))

    def prints(self, *call: str) -> str:
        return printed_by(self.home, *call, **self.environ(BENCHFARM_CONTEXT="default"))

    def complains(self, *call: str, **environ: str) -> str:
        return complaint_of(self.home, *call, **self.environ(**environ))


def tls_options(files: Certificate) -> ApiOptions:
    return ApiOptions(LOOPBACK, 0, tls=tls_of(files), rate=UNLIMITED, strangers=UNLIMITED)


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Certificate]]:
    home = prepared(tmp_path_factory.mktemp("farm") / "home")
    files = own_certificate(home.path, LOOPBACK, datetime.now(UTC))
    with served(home, tls_options(files), "https") as api:
        yield api, files


@pytest.fixture
def laptop(tmp_path: Path, farm: tuple[Served, Certificate]) -> Laptop:
    api, files = farm
    return Laptop(tmp_path / "home", tmp_path / "config", api, files)


def test_lists_are_the_same_on_a_laptop_as_on_the_head(laptop: Laptop) -> None:
    assert "export BENCHFARM_CONTEXT=default" in laptop.log_in()
    file = laptop.config / "benchfarm" / "default.json"
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    head = laptop.api.home.path
    for more in ((), ("--device", "phone-1"), ("--last", "5"), ("--validity", "INVALID")):
        call = ("results", "list", "--json", *more)
        here, there = (json.loads(text) for text in (laptop.prints(*call), printed_by(head, *call)))
        assert [one["run_id"] for one in here] == [one["run_id"] for one in there]
        assert here != []
    rows = laptop.prints("results", "list").splitlines()
    assert [row for row in rows if row in printed_by(head, "results", "list").splitlines()] != []
    devices = json.loads(laptop.prints("device", "list", "--json"))
    assert [one["device"]["id"] for one in devices] == ["host-1", "phone-1"]
    assert "phone-1" in laptop.prints("device", "list")


def test_another_fingerprint_is_refused_and_nothing_is_kept(laptop: Laptop) -> None:
    other = laptop.fingerprint.replace("A", "B").replace("0", "1")
    call = ("login", laptop.api.url, "--fingerprint", other)
    said = laptop.complains(*call, BENCHFARM_TOKEN=TOKEN)
    assert laptop.fingerprint in said
    assert not laptop.config.exists()


def test_without_a_terminal_a_fingerprint_is_needed(laptop: Laptop) -> None:
    said = laptop.complains("login", laptop.api.url, BENCHFARM_TOKEN=TOKEN)
    assert "Give --fingerprint" in said


@pytest.mark.parametrize("token", ["", "two words", "tökén", TOKEN[:-1], TOKEN.upper()])
def test_a_token_that_opens_nothing_is_not_kept(laptop: Laptop, token: str) -> None:
    call = ("login", laptop.api.url, "--fingerprint", laptop.fingerprint)
    said = laptop.complains(*call, BENCHFARM_TOKEN=token)
    assert "token" in said
    assert not laptop.config.exists()


def test_a_server_with_another_certificate_gets_no_token(laptop: Laptop, tmp_path: Path) -> None:
    laptop.log_in()
    (tmp_path / "other").mkdir()
    other = own_certificate(tmp_path / "other", LOOPBACK, datetime.now(UTC))
    home = prepared(tmp_path / "impostor", sweeps=1)
    with served(home, tls_options(other), "https") as impostor:
        context = read_context("default", laptop.environ())
        moved = context.model_copy(update={"url": impostor.url})
        keep_context("moved", moved, laptop.environ())
        said = laptop.complains("results", "list", BENCHFARM_CONTEXT="moved")
        assert "its certificate is not the one that `benchfarm login` was shown" in said


def signed_by(authority: Certificate, folder: Path) -> Certificate:
    """Return a new certificate that another one has signed, as only an authority's may."""
    issuer = x509.load_pem_x509_certificate(authority.certificate.read_bytes())
    secret = load_pem_private_key(authority.key.read_bytes(), None)
    assert isinstance(secret, ec.EllipticCurvePrivateKey)
    made = Certificate(folder / "signed.pem", folder / "signed.key")
    _, key = make_certificate(LOOPBACK, datetime.now(UTC))
    public = load_pem_private_key(key.encode(), None).public_key()
    assert isinstance(public, ec.EllipticCurvePublicKey)
    signed = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "signed")]))
        .issuer_name(issuer.subject)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(issuer.not_valid_before_utc)
        .not_valid_after(issuer.not_valid_after_utc)
        .sign(secret, hashes.SHA256())
    )
    write_private(made.certificate, signed.public_bytes(Encoding.PEM).decode())
    write_private(made.key, key)
    return made


def authority_in(folder: Path) -> Certificate:
    """Return a self-signed certificate that may sign others, as openssl makes them unasked."""
    made = Certificate(folder / "ca.pem", folder / "ca.key")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    write_private(made.certificate, certificate.public_bytes(Encoding.PEM).decode())
    write_private(made.key, secret.decode())
    return made


def test_what_the_pinned_certificate_has_signed_is_another_one(tmp_path: Path) -> None:
    pinned = authority_in(tmp_path)
    other = signed_by(pinned, tmp_path)
    home, text = prepared(tmp_path / "home", sweeps=1), pinned.certificate.read_text()
    with served(home, tls_options(pinned), "https") as api:
        ApiClient(FarmContext(url=api.url, token=TOKEN, certificate=text)).check()
    with served(home, tls_options(other), "https") as impostor:
        context = FarmContext(url=impostor.url, token=TOKEN, certificate=text)
        with pytest.raises(UserError, match="is not the one that `benchfarm login` was shown"):
            ApiClient(context).check()


def test_a_certificate_that_has_expired_is_not_called_another_one(tmp_path: Path) -> None:
    home = prepared(tmp_path / "home", sweeps=1)
    old = own_certificate(home.path, LOOPBACK, datetime.now(UTC) - VALID_FOR - timedelta(days=1))
    with served(home, tls_options(old), "https") as api:
        text = old.certificate.read_text()
        with pytest.raises(UserError, match="its certificate has expired"):
            ApiClient(FarmContext(url=api.url, token=TOKEN, certificate=text)).check()


def test_a_certificate_of_a_later_time_is_the_fault_of_a_clock(tmp_path: Path) -> None:
    home = prepared(tmp_path / "home", sweeps=1)
    early = own_certificate(home.path, LOOPBACK, datetime.now(UTC) + timedelta(days=3))
    with served(home, tls_options(early), "https") as api:
        text = early.certificate.read_text()
        with pytest.raises(UserError, match=r"not yet valid by this host's clock\. Set the clock"):
            ApiClient(FarmContext(url=api.url, token=TOKEN, certificate=text)).check()


def test_an_own_certificate_that_has_expired_is_renewed_and_one_of_later_is_kept(
    tmp_path: Path,
) -> None:
    made = datetime(2026, 5, 4, tzinfo=UTC)
    first = fingerprint_of(own_certificate(tmp_path, "10.0.0.5", made).certificate)
    still = own_certificate(tmp_path, "10.0.0.5", made + VALID_FOR)
    assert (fingerprint_of(still.certificate), still.former) == (first, "")
    earlier = own_certificate(tmp_path, "10.0.0.5", made - timedelta(days=9))  # a wrong clock
    assert (fingerprint_of(earlier.certificate), earlier.former) == (first, "")
    late = own_certificate(tmp_path, "127.0.0.1", made + VALID_FOR + timedelta(seconds=1))
    assert late.former == first != fingerprint_of(late.certificate)
    again = own_certificate(tmp_path, "10.0.0.5", made + VALID_FOR + timedelta(days=1))
    assert again.former == "", "the new one is for the former addresses, too"


@pytest.mark.parametrize("scheme", ["HTTPS", "Https"])
def test_the_certificate_is_compared_however_the_address_is_written(
    laptop: Laptop, scheme: str
) -> None:
    address = laptop.api.url.replace("https", scheme)
    other = laptop.fingerprint.replace("A", "B").replace("0", "1")
    said = laptop.complains("login", address, "--fingerprint", other, BENCHFARM_TOKEN=TOKEN)
    assert laptop.fingerprint in said
    assert "Give --fingerprint" in laptop.complains("login", address, BENCHFARM_TOKEN=TOKEN)
    assert not laptop.config.exists()


@pytest.mark.parametrize(
    "url",
    [
        "http://192.0.2.1:8443",
        "HTTP://192.0.2.1:8443",
        "ftp://x:1",
        "farm",
        "https://",
        "https://h:1/api/v1",
        "https://h:1/?x=1",
        "https://h:1#x",
        "https://ann:secret@h:1",
        "https://127.0.0.1:84\n43",
    ],
)
def test_an_address_that_cannot_be_trusted_is_refused(laptop: Laptop, url: str) -> None:
    assert "cannot log in at" in laptop.complains("login", url, BENCHFARM_TOKEN=TOKEN)


def test_a_context_is_read_only_from_the_users_own_whole_files(tmp_path: Path) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    certificate = own_certificate(tmp_path, LOOPBACK, datetime.now(UTC)).certificate.read_text()
    context = FarmContext(url="https://h:1", token="t", certificate=certificate)
    file = keep_context("x", context, environ)
    assert read_context("x", environ) == context
    text = file.read_text()
    (tmp_path / "more").mkdir()
    other = own_certificate(tmp_path / "more", LOOPBACK, datetime.now(UTC)).certificate
    beside = file.with_suffix(".pem")
    beside.write_text(other.read_text())
    with pytest.raises(UserError, match="another one"):
        read_context("x", environ)
    beside.write_text(certificate)
    kept = json.loads(text)
    for damaged in (text[:-1], "{}", json.dumps({**kept, "fingerprint": ""}), "[" * 3000):
        file.write_text(damaged)
        with pytest.raises(UserError, match="damaged"):
            read_context("x", environ)
    file.write_text(text)
    file.chmod(0o644)
    with pytest.raises(UserError, match="others can read it"):
        read_context("x", environ)
    for name in ("", "../x", "a/b", ".x", "x" * 65):
        with pytest.raises(UserError, match="no name of one"):
            read_context(name, environ)


@pytest.mark.parametrize("host", ["a..b", f"{'a' * 70}.example"])
def test_a_host_that_can_be_none_is_one_line(laptop: Laptop, host: str) -> None:
    call = ("login", f"https://{host}:1", "--fingerprint", laptop.fingerprint)
    assert f"cannot connect to https://{host}:1" in laptop.complains(*call, BENCHFARM_TOKEN=TOKEN)


@pytest.mark.parametrize(
    "url", ["HTTPS://h:1", "http://h:1", "HTTP://127.0.0.1:1", "ftp://127.0.0.1:1", "h:1", ""]
)
def test_no_context_sends_its_token_where_others_read_it(tmp_path: Path, url: str) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    file = keep_context("x", FarmContext(url="http://127.0.0.1:1", token="t"), environ)
    assert read_context("x", environ).url == "http://127.0.0.1:1"
    kept = json.loads(file.read_text())
    for damage in ({"url": url}, {"token": "a\nb"}, {"token": "tökén"}, {"token": ""}):
        file.write_text(json.dumps({**kept, **damage}))
        with pytest.raises(UserError, match="damaged"):
            read_context("x", environ)


def test_only_the_pinned_certificate_of_a_file_is_trusted(tmp_path: Path) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    pinned, _ = make_certificate("h", datetime.now(UTC))
    while "=" not in pinned:  # Base64 that ends so hides what follows it
        pinned, _ = make_certificate("h", datetime.now(UTC))
    file = keep_context("x", FarmContext(url="https://h:1", token="t", certificate=pinned), environ)
    other, _ = make_certificate("other", datetime.now(UTC))
    file.with_suffix(".pem").write_text(pinned + other)
    trusted = read_context("x", environ).trust()
    assert isinstance(trusted, ssl.SSLContext)
    assert trusted.get_ca_certs(binary_form=True) == []  # none of them may sign others
    assert trusted.cert_store_stats()["x509"] == 1


@pytest.mark.parametrize(
    "said", ["AB:CD", "ab:cd", "abcd", "SHA-256 AB:CD", "SHA256:ab:cd", "AB CD"]
)
def test_fingerprints_are_compared_without_their_form(said: str) -> None:
    assert is_same("AB:CD", said)
    assert not is_same("AB:CE", said)
