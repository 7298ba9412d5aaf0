"""Which phones an agent brings back by itself, and which it leaves alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.contracts.phone_addresses import PhoneAddresses


def test_an_address_is_known_until_it_is_forgotten(tmp_path: Path) -> None:
    addresses = PhoneAddresses(tmp_path / "adb" / "addresses")
    assert list(addresses) == []
    for address in ("[fe80::1]:5555", "10.0.0.7:5555", "a/../b:1"):
        addresses.remember(address, "p")
    assert list(addresses) == ["10.0.0.7:5555", "[fe80::1]:5555", "a/../b:1"]
    for address in ("10.0.0.7:5555", "a/../b:1", "never:1"):
        addresses.forget(address)
    assert list(addresses) == ["[fe80::1]:5555"]
    assert "[fe80::1]:5555" in addresses
    assert "10.0.0.7:5555" not in addresses


def test_which_phone_was_last_reached_at_an_address_is_known(tmp_path: Path) -> None:
    addresses = PhoneAddresses(tmp_path)
    for device in ("p", "p", "other"):
        addresses.remember("h:5555", device)
        assert addresses.device_of("h:5555") == device
    assert addresses.device_of("never:1") is None


@pytest.mark.parametrize("content", [b"", b"\xff", b"not an id", b"../x", b"p" * 1000])
def test_an_address_whose_phone_is_not_told_is_known_all_the_same(
    tmp_path: Path, content: bytes
) -> None:
    """An earlier release's file is empty; another was damaged."""
    addresses = PhoneAddresses(tmp_path)
    (tmp_path / "known-h:5555").write_bytes(content)
    assert (list(addresses), addresses.device_of("h:5555")) == (["h:5555"], None)
    addresses.remember("h:5555", "p")
    assert addresses.device_of("h:5555") == "p"


def test_what_is_let_go_of_is_forgotten_and_not_remembered_until_that_is_taken_back(
    tmp_path: Path,
) -> None:
    addresses = PhoneAddresses(tmp_path)
    addresses.remember("h:5555", "p")
    addresses.let_go("h:5555")
    addresses.remember("h:5555", "p")
    assert (list(addresses), addresses.is_let_go("h:5555")) == ([], True)
    addresses.take_back("h:5555")
    addresses.remember("h:5555", "p")
    assert (list(addresses), addresses.is_let_go("h:5555")) == (["h:5555"], False)


def test_where_nothing_can_be_written_phones_work_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    addresses = PhoneAddresses(tmp_path / "file" / "addresses")
    addresses.remember("h:5555", "p")
    assert list(addresses) == []
    assert "phones' addresses are not remembered" in caplog.text


def test_a_name_that_no_file_can_have_is_none_that_is_known(tmp_path: Path) -> None:
    addresses = PhoneAddresses(tmp_path)
    assert "h" * 300 not in addresses
    assert not addresses.is_let_go("h" * 300)
