"""Names of artefacts stay below the folder that they are fetched into."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from controller.contracts.artefacts import ArtefactFile, fault_of_name
from tests.support.artefacts import artefact

HOSTILE = [
    *("", ".", "..", "/", "/etc/passwd", "../x", "a/../../x", "a/..", "a//b", "a/", "./a"),
    *("a\0b", "a\nb", "a\x1b[2J", "a\u202eb", "\udcff", "..\\x", "C:\\x", "x" * 201),
    "/".join(["x" * 100] * 6),
]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_refused(name: str) -> None:
    assert fault_of_name(name)
    said = artefact(b"").model_dump()
    with pytest.raises(ValidationError):
        ArtefactFile.model_validate({**said, "name": name})


@pytest.mark.parametrize("name", ["a", "a b", "ä/ö.txt", "...", "-rf", "~", "$(x)", ".hidden/x"])
def test_an_odd_name_is_taken(name: str) -> None:
    assert fault_of_name(name) == ""


@given(st.text(max_size=30) | st.lists(st.sampled_from(["..", ".", "/", "a", "\\"])).map("".join))
def test_whatever_is_taken_stays_below(name: str) -> None:
    if not fault_of_name(name):
        assert os.path.normpath(f"/base/x/{name}").startswith("/base/x/")
        assert name == str(Path(name))
