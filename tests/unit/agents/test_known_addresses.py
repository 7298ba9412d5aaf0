"""Which phones an agent looks for by itself after its adb server's end."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.android.known_addresses import KnownAddresses


def test_an_address_is_known_until_it_is_given_up(tmp_path: Path) -> None:
    file = tmp_path / "adb" / "addresses.json"
    known = KnownAddresses(file)
    for serial in ("10.0.0.7:5555", "[fe80::1]:5555", "R5CT1234"):
        known.came(serial)
    assert list(known) == list(KnownAddresses(file)) == ["10.0.0.7:5555", "[fe80::1]:5555"]
    for serial in ("10.0.0.7:5555", "R5CT1234"):
        known.given_up(serial)
    assert list(known) == list(KnownAddresses(file)) == ["[fe80::1]:5555"]


@pytest.mark.parametrize("content", ["", "{", "{}", "null", '["R5CT1234", 7, null]'])
def test_of_a_damaged_file_nothing_is_taken(tmp_path: Path, content: str) -> None:
    file = tmp_path / "addresses.json"
    file.write_text(content)
    known = KnownAddresses(file)
    assert list(known) == []
    known.came("h:5555")
    assert list(KnownAddresses(file)) == ["h:5555"]


def test_where_nothing_can_be_written_phones_work_on(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    known = KnownAddresses(tmp_path / "file" / "addresses.json")
    known.came("h:5555")
    assert list(known) == ["h:5555"]
