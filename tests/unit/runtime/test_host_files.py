"""What the controller knows of the hosts' stores of models: only what online agents have said."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.runtime.home import Home
from controller.runtime.stored_files import stored_files_now
from tests.support import builders
from tests.support.farm import TTL_S, FarmBox

FILES = ("md5:18ce6df0e4603f4b4ee5d04193708d9c", "edsr/full/truth")


@pytest.fixture
def box(tmp_path: Path) -> Iterator[FarmBox]:
    box = FarmBox(tmp_path / "store.sqlite")
    box.farm.register(builders.registration())
    yield box
    box.close()


def test_only_what_an_online_agent_says_is_known(box: FarmBox) -> None:
    assert box.farm.stored_files() == {}, "it has not said yet"
    box.ask(files=FILES)
    assert box.farm.stored_files() == {"host-1": FILES}
    box.ask(files=())
    assert box.farm.stored_files() == {"host-1": ()}
    box.ask(files=None)
    assert box.farm.stored_files() == {}, "it can't tell"
    box.ask(files=FILES)
    box.restart()
    assert box.farm.stored_files() == {}
    box.ask(files=FILES)
    assert box.farm.stored_files() == {"host-1": FILES}
    box.wait(TTL_S)
    assert box.farm.stored_files() == {}, "it is silent"


def test_nothing_is_known_while_the_farm_is_down(tmp_path: Path) -> None:
    assert stored_files_now(Home(tmp_path)) == {}
