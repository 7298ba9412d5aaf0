"""A farm at an IPv6 address: its certificate, its page, logging in; and certificates renewed."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from cryptography import x509

from controller.api.certificate import (
    Certificate,
    fingerprint_of,
    make_certificate,
    own_certificate,
    tls_of,
)
from controller.api.options import ApiOptions
from controller.cli.api import certificate_of
from controller.cli.farm import api_beside
from controller.contracts.errors import UserError
from controller.contracts.records import Scope
from controller.page.site import Site
from controller.platform.atomic import write_private
from controller.runtime.addresses import Address
from controller.runtime.api_beside import renewed_line
from controller.runtime.health import is_listening
from tests.support.api import SECRETS, UNLIMITED, Served, prepared, served
from tests.support.command_line import printed_by
from tests.support.page import sign_in
from tests.support.waiting import PATIENCE_S

LOOPBACK_6 = "::1"
TOKEN = SECRETS[Scope.VIEWER]
NOW = datetime(2026, 5, 4, tzinfo=UTC)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    folder = tmp_path_factory.mktemp("certificate")
    return own_certificate(folder, LOOPBACK_6, datetime.now(UTC))


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory, files: Certificate) -> Iterator[Served]:
    home = prepared(tmp_path_factory.mktemp("farm") / "home", sweeps=1)
    options = ApiOptions(
        *(LOOPBACK_6, 0),
        tls=tls_of(files),
        rate=UNLIMITED,
        strangers=UNLIMITED,
        front=Site(tls=True),
    )
    with served(home, options, "https") as api:
        yield api


@pytest.fixture
def client(farm: Served, files: Certificate) -> Iterator[httpx.Client]:
    """Give a client that checks the certificate's names, as browsers do."""
    trust = ssl.create_default_context(cafile=files.certificate)
    with httpx.Client(base_url=farm.url, verify=trust, timeout=PATIENCE_S) as found:
        yield found


def names_in(certificate: Path) -> set[str]:
    found = x509.load_pem_x509_certificate(certificate.read_bytes())
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses = names.get_values_for_type(x509.IPAddress)
    return {*names.get_values_for_type(x509.DNSName), *map(str, addresses)}


def test_the_page_is_signed_in_to_and_its_forms_are_its_own(
    farm: Served, client: httpx.Client
) -> None:
    assert farm.url.startswith("https://[::1]:")
    assert sign_in(client, TOKEN).status_code == 303
    assert client.get("/").status_code == 200
    port = farm.url.rpartition(":")[2]
    for other in (f"https://[::2]:{port}", "https://[::1]:1", f"https://localhost:{port}", "null"):
        assert sign_in(client, TOKEN, Origin=other).status_code == 403


def test_a_laptop_logs_in_and_reads(farm: Served, files: Certificate, tmp_path: Path) -> None:
    home, config = tmp_path / "home", str(tmp_path / "config")
    fingerprint = fingerprint_of(files.certificate)
    login = ("login", farm.url, "--fingerprint", fingerprint)
    said = printed_by(home, *login, XDG_CONFIG_HOME=config, BENCHFARM_TOKEN=TOKEN)
    assert "export BENCHFARM_CONTEXT=default" in said
    there = {"XDG_CONFIG_HOME": config, "BENCHFARM_CONTEXT": "default"}
    assert "phone-1" in printed_by(home, "device", "list", **there)


def test_up_takes_an_ipv6_address_in_brackets(farm: Served) -> None:
    beside = api_beside("[fd00::5]:8443", None, None, plain=False)
    assert beside is not None
    assert beside.url == "https://[fd00::5]:8443/"
    assert [*beside.arguments] == ["--listen=[fd00::5]:8443"]
    plain = api_beside("[::1]:8443", None, None, plain=True)
    assert plain is not None
    assert plain.url == "http://[::1]:8443/"
    at = farm.url.removeprefix("https://")
    assert is_listening(at)
    taken = Address.to_listen("--api", at)
    with pytest.raises(UserError, match=r"--api \[::1\]:"):
        taken.require_free("--api")


@pytest.mark.parametrize("address", ["[fe80::1%eth0]:8443", "[::]:8443", "::1:8443", "[::1]"])
def test_up_refuses_what_no_other_host_could_use(address: str) -> None:
    with pytest.raises(UserError, match="--api"):
        api_beside(address, None, None, plain=False)


def test_a_certificate_of_our_own_is_for_the_address_and_this_host(files: Certificate) -> None:
    assert {"::1", "127.0.0.1", "localhost", os.uname().nodename} <= names_in(files.certificate)
    assert files.former == ""


def test_it_is_renewed_for_another_address_and_stays_for_the_former(tmp_path: Path) -> None:
    first = own_certificate(tmp_path, "10.0.0.5", NOW)
    before = fingerprint_of(first.certificate)
    assert own_certificate(tmp_path, "10.0.0.5", NOW) == first
    assert own_certificate(tmp_path, "127.0.0.1", NOW) == first
    renewed = own_certificate(tmp_path, "fd00::5", NOW)
    assert renewed.former == before != fingerprint_of(renewed.certificate)
    assert {"10.0.0.5", "fd00::5"} <= names_in(renewed.certificate)
    tls_of(renewed)
    again = own_certificate(tmp_path, "10.0.0.5", NOW)
    assert again.former == ""
    assert fingerprint_of(again.certificate) == fingerprint_of(renewed.certificate)


def test_many_addresses_do_not_make_it_ever_longer(tmp_path: Path) -> None:
    for number in range(25):
        made = own_certificate(tmp_path, f"10.0.0.{number + 1}", NOW)
        assert f"10.0.0.{number + 1}" in names_in(made.certificate)
    assert len(names_in(made.certificate)) == 20


@pytest.mark.parametrize("content", ["", "nonsense"])
def test_one_that_is_not_ours_is_left_alone(tmp_path: Path, content: str) -> None:
    made = own_certificate(tmp_path, "10.0.0.5", NOW)
    made.certificate.write_text(content)
    assert own_certificate(tmp_path, "fd00::5", NOW).former == ""
    assert made.certificate.read_text() == content


def test_whoever_serves_is_told_that_the_fingerprint_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCHFARM_HOME", str(tmp_path))
    certificate, key = make_certificate("10.0.0.5", NOW)
    write_private(tmp_path / "api-cert.pem", certificate)
    write_private(tmp_path / "api-key.pem", key)
    former = fingerprint_of(tmp_path / "api-cert.pem")
    address = Address.to_listen("--listen", "[fd00::5]:8443")
    found = certificate_of(address, None, None, plain=False)
    assert found is not None
    assert found.former == former
    assert "fd00::5" in names_in(found.certificate)
    assert former in renewed_line(former)
