from __future__ import annotations

import inspect
import pickle
import re
import traceback
from dataclasses import fields

import pytest

from agents.link import ControllerAway
from controller.contracts import errors
from controller.contracts.errors import BenchfarmError, UserError, WorkerFault
from controller.contracts.result import Failure
from tests.support import builders

EXAMPLES = {"str": "a fact", "int": 7, "float": 7.5, "Failure": builders.failure()}


def subclasses(kind: type[BenchfarmError]) -> list[type[BenchfarmError]]:
    """Return the classes of the errors module below one, in the order they are written."""
    below = [c for c in kind.__subclasses__() if c.__module__ == errors.__name__]
    return [found for child in below for found in (child, *subclasses(child))]


ALL: list[type[BenchfarmError]] = [BenchfarmError, *subclasses(BenchfarmError)]
ROOTS = (BenchfarmError, errors.AgentRefused)
"""Heads of families, never raised themselves."""


def example(kind: type[BenchfarmError]) -> BenchfarmError:
    return kind(**{f.name: EXAMPLES[str(f.type)] for f in fields(kind)})


@pytest.mark.parametrize("kind", [*ALL, ControllerAway])
def test_an_error_survives_pickle_with_its_facts(kind: type[BenchfarmError]) -> None:
    error = example(kind)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        copy = pickle.loads(pickle.dumps(error, protocol))
        assert type(copy) is kind
        assert str(copy) == str(error)
        for field in fields(kind):
            assert getattr(copy, field.name) == getattr(error, field.name)


@pytest.mark.parametrize("kind", ALL)
def test_an_error_can_be_raised_from_another(kind: type[BenchfarmError]) -> None:
    def fail() -> None:
        try:
            raise OSError("below")
        except OSError as cause:
            raise example(kind) from cause

    with pytest.raises(kind) as caught:
        fail()
    assert "below" in "".join(traceback.format_exception(caught.value))


def test_the_tree_in_the_docstring_is_that_of_the_classes() -> None:
    drawn = re.findall(
        r"^([│├└─ ]*)([A-Z]\w+)(?: {2,}(\S.*))?$", errors.__doc__ or "", re.MULTILINE
    )
    assert [(name, len(indent) // 4) for indent, name, _ in drawn] == [
        (kind.__name__, len(kind.__mro__) - len(BenchfarmError.__mro__)) for kind in ALL
    ]
    for _, name, meaning in drawn[1:]:
        said = inspect.getdoc(getattr(errors, name)) or ""
        assert meaning
        assert said


@pytest.mark.parametrize("kind", [kind for kind in ALL if issubclass(kind, UserError)])
def test_a_users_error_is_one_line(kind: type[UserError]) -> None:
    error = kind(tried="read\na file", seen="it is\n  bad", remedy="Correct it.")
    assert str(error) == "cannot read a file: it is bad. Correct it."


@pytest.mark.parametrize("kind", [k for k in ALL if k not in ROOTS])
def test_an_error_says_its_facts(kind: type[BenchfarmError]) -> None:
    said = str(example(kind))
    for field in fields(kind):
        fact = EXAMPLES[str(field.type)]
        assert (fact.message if isinstance(fact, Failure) else str(fact)) in said


def test_a_worker_fault_carries_its_failure() -> None:
    fault = WorkerFault(builders.failure())
    assert pickle.loads(pickle.dumps(fault)).failure == builders.failure()
