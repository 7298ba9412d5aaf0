"""Which phone is meant by a name, and by what is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.cli.references import phone_of
from controller.contracts.device import DeviceLife
from controller.contracts.errors import UserError
from controller.runtime.options import URL_VARIABLE
from controller.store.sqlite import SqliteStore
from tests.support import store_examples

NAMES = {"R58M1": "left", "R58M2": "twin", "R58M3": "twin", "R58M4": "R58M1"}
"""Phones' ids and names, of which one is another's id, as no command allows."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with those phones, and a server that is named, too."""
    phones = [
        store_examples.PHONE.model_copy(
            update={
                "device": store_examples.PHONE.device.model_copy(update={"id": id_}),
                "life": DeviceLife(name=name),
            }
        )
        for id_, name in NAMES.items()
    ]
    server = store_examples.CPU.model_copy(update={"life": DeviceLife(name="server")})
    store = SqliteStore.open(tmp_path / "store.sqlite")
    store.save_agent(store_examples.AGENT, [*phones, server])
    store.close()
    monkeypatch.setenv("BENCHFARM_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("left", "R58M1"),
        ("R58M1", "R58M1"),
        ("R58M", "R58M"),  # may be the serial of one that is new
        ("lef", "lef"),
        ("server", "server"),
        ("192.168.1.9:5555", "192.168.1.9:5555"),
    ],
)
def test_a_phone_is_meant_by_its_whole_name_and_anything_else_is_as_typed(
    given: str, meant: str
) -> None:
    assert phone_of(given) == meant


@pytest.mark.usefixtures("home")
def test_two_phones_of_one_name_are_named() -> None:
    with pytest.raises(UserError, match=r"2 phones have this name: R58M2, R58M3\. Give its id\."):
        phone_of("twin")


def test_without_a_store_or_with_a_farm_elsewhere_it_is_as_typed(
    home: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "store.sqlite").write_bytes(b"no store")
    assert phone_of("left") == "left"
    monkeypatch.setenv("BENCHFARM_HOME", str(tmp_path_factory.mktemp("empty")))
    assert phone_of("left") == "left"
    monkeypatch.setenv(URL_VARIABLE, "http://127.0.0.1:1")
    assert phone_of("left") == "left"
