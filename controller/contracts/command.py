"""A program of a user's own, as data: what is pushed, how it is called, what its output says."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Annotated, Final, Literal, Self

from pydantic import Field, PositiveFloat, model_validator

from controller.contracts.base import Contract, Name, Scalar
from controller.contracts.facts import declaration_of
from controller.contracts.mobile import ModelFile
from controller.contracts.result import Blame
from controller.contracts.units import Unit

VALUE: Final = "value"
"""The group of a pattern that is the figure."""
MODEL: Final = "model"
OUTPUT: Final = "output"
FILES: Final = "files"
STDOUT: Final = "stdout"
STDERR: Final = "stderr"
_PLACE: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_.:-]*)\}")
_FILE: Final = "file:"
_LINE: Final = 500
"""So many characters of a pattern: it is run over whatever a program prints."""
_NESTED: Final = re.compile(r"[+*}]\)?[+*{]|\?\)[+*{]|\\[1-9]")
"""Repeats of repeats and references back, which can take for ever on a hostile line; what of
such a kind this doesn't see is ended by the deadline of reading."""
_SUBVERTING: Final = re.compile(r"^(LD_(?!LIBRARY_PATH$)|PYTHON|BENCHFARM|RAY_)|^PATH$")
"""Of the environment: what would change how benchfarm itself starts a program. Where its libraries
are, LD_LIBRARY_PATH, is a program's own affair: most of a vendor's bring some."""
Source = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}$")]
"""`stdout`, `stderr` (its last 16 KiB), or the name of a file in `{output}`."""


class CommandFile(ModelFile):
    """A file that is pushed, by its checksum in the store of models; never a path."""

    executable: bool = False
    filename: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._+-]{0,99}$")] | None = None
    """Its name on the device, which the loader may look for: `libvendor.so`; else its key."""

    @model_validator(mode="after")
    def _from_the_store(self) -> Self:
        if self.path:
            raise ValueError("path: it is not allowed; add the file with `benchfarm models add`")
        return self


class When(Contract):
    """Arguments that are there only while a knob has a value."""

    when: str
    equals: Scalar = True
    arguments: tuple[str, ...]


class Figure(Contract):
    """A metric: where the output says it, and in which unit. One of pattern, json_path and csv."""

    unit: Unit
    scale: PositiveFloat = 1.0
    """What is printed, times this, is in the unit: 1e-6 for microseconds."""
    pattern: str | None = None
    """A regular expression for one line, with a group named `value`."""
    json_path: str | None = None
    """Names and indices by dots: `0.avg_ts`; `*` is every element of a list."""
    csv: str | None = None
    """A column's heading; every row is a sample."""
    where: dict[str, str] = {}
    """Of JSON objects and rows, those in which these fields have these values."""
    reads: Source | None = None
    """Where it is, if not where the command's other figures are."""
    select: Literal["first", "last", "only", "all"] = "only"
    """Which, where there are several: `all` are samples, whose median is the value."""
    required: bool = True

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if sum(way is not None for way in (self.pattern, self.json_path, self.csv)) != 1:
            raise ValueError("give exactly one of pattern, json_path and csv")
        if self.pattern is not None and VALUE not in line_pattern(self.pattern).groupindex:
            raise ValueError(f"pattern {self.pattern!r} has no group (?P<{VALUE}>…)")
        return self


class FailureLine(Contract):
    """What a line of the output means, whatever the exit status is."""

    pattern: str
    kind: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,31}$")]
    blame: Blame
    remedy: str
    """What to do."""

    @model_validator(mode="after")
    def _readable(self) -> Self:
        line_pattern(self.pattern)
        return self


class OpTable(Contract):
    """Lines of the output that are kept as a table, such as an operator profile."""

    heading: str
    """A pattern for the line before its rows; the last such line counts."""
    row: str
    """A pattern whose named groups are the columns; the table ends with the first other line."""

    @model_validator(mode="after")
    def _readable(self) -> Self:
        line_pattern(self.heading)
        if not line_pattern(self.row).groupindex:
            raise ValueError(f"row {self.row!r} has no named group, so the table has no column")
        return self


class Command(Contract):
    """How a program is run on a device, and what its output becomes."""

    files: dict[Name, CommandFile] = {}
    arguments: Annotated[tuple[str | When, ...], Field(min_length=1)]
    """The program first. `{KNOB}`, `{file:NAME}`, `{files}` (the folder of all files), `{model}`
    (the workload's) and `{output}` (a folder for what it writes, which is fetched) stand for what
    they name; no shell reads them."""
    environment: dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], str] = {}
    timeout_s: PositiveFloat
    """Or the run's deadline, if that is sooner."""
    reads: Source = STDOUT
    """Where the figures are."""
    figures: Annotated[dict[Name, Figure], Field(min_length=1)]
    result: Name
    """The figure that ranks."""
    facts: dict[Name, str] = {}
    """Of the result's environment, by a pattern with a group `value`: the last line that has it.
    Each is declared, by `facts.yaml` for `programs`, or by the stack's manifest."""
    failures: tuple[FailureLine, ...] = ()
    invalid: tuple[str, ...] = ()
    """Patterns of lines by which a result is INVALID, such as a LoadGen's own verdict."""
    table: OpTable | None = None
    rules: str
    """By which rules its results are valid: never MLPerf's, without LoadGen."""

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        figure = self.figures.get(self.result)
        if figure is None or not figure.required:
            raise ValueError(f"result: {self.result} is not one of the required figures")
        for pattern in self.invalid:
            line_pattern(pattern)
        names = [file.filename or name for name, file in self.files.items()]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"files: two have the name {twice[0]}")
        for name in self.environment:
            if _SUBVERTING.match(name):
                raise ValueError(f"environment: {name} is reserved for benchfarm")
        for name in self.places:
            if name.startswith(_FILE) and name.removeprefix(_FILE) not in self.files:
                raise ValueError(f"arguments: {{{name}}} is not one of files")
        return self

    @model_validator(mode="after")
    def _finds_facts(self) -> Self:
        for name, pattern in self.facts.items():
            if VALUE not in line_pattern(pattern).groupindex:
                raise ValueError(f"facts.{name}: {pattern!r} has no group (?P<{VALUE}>…)")
            declared = declaration_of(name)
            if declared is not None and not declared.programs:
                raise ValueError(f"facts.{name}: benchfarm writes this fact. Take another name.")
        return self

    def own_facts(self) -> set[str]:
        """Return the names of the facts that the stack's manifest has to declare."""
        return {name for name in self.facts if declaration_of(name) is None}

    @cached_property
    def places(self) -> frozenset[str]:
        """What its templates name."""
        return frozenset(name for text in self._templates() for name in _PLACE.findall(text))

    @property
    def takes_model(self) -> bool:
        """Whether it runs a workload's model."""
        return MODEL in self.places

    def knobs_named(self) -> frozenset[str]:
        """Return the knobs that it has to be given."""
        own = {name for name in self.places if not name.startswith(_FILE)} - {MODEL, OUTPUT, FILES}
        return frozenset(own | {a.when for a in self.arguments if isinstance(a, When)})

    def needed(self, knobs: Mapping[str, Scalar]) -> dict[str, CommandFile]:
        """Return the files of a run: all but those that only arguments left out of it name."""
        chosen = _files_in((*self.chosen(knobs), *self.environment.values()))
        left_out = _files_in(self._templates()) - chosen
        return {name: file for name, file in self.files.items() if name not in left_out}

    def chosen(self, knobs: Mapping[str, Scalar]) -> Iterator[str]:
        """Yield the templates of a run's arguments."""
        for argument in self.arguments:
            if isinstance(argument, str):
                yield argument
            elif knobs[argument.when] == argument.equals:
                yield from argument.arguments

    def _templates(self) -> Iterator[str]:
        yield from self.environment.values()
        for argument in self.arguments:
            yield from argument.arguments if isinstance(argument, When) else (argument,)


def _files_in(templates: Iterable[str]) -> set[str]:
    places = {name for text in templates for name in _PLACE.findall(text)}
    return {name.removeprefix(_FILE) for name in places if name.startswith(_FILE)}


def rendered(
    command: Command, knobs: Mapping[str, Scalar], places: Mapping[str, str]
) -> tuple[list[str], dict[str, str]]:
    """Return a command's arguments and environment; places: what stands for what is no knob.

    Raises KeyError for what neither names: the catalogue has seen that there is nothing such.
    """
    known = {**{name: _text(value) for name, value in knobs.items()}, **places}

    def fill(text: str) -> str:
        return _PLACE.sub(lambda place: known[place[1]], text)

    environment = {name: fill(text) for name, text in command.environment.items()}
    return [fill(text) for text in command.chosen(knobs)], environment


def _text(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def line_pattern(text: str) -> re.Pattern[str]:
    """Compile a pattern for one line; raises ValueError for one that could take for ever."""
    if len(text) > _LINE:
        raise ValueError(f"pattern {text[:40]!r}… has {len(text)} characters; the limit is {_LINE}")
    if _NESTED.search(re.sub(r"\\\\|\\[^1-9]|\[[^\]]*\]", "x", text)):
        raise ValueError(f"pattern {text!r} nests repetitions or uses a back-reference")
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(f"pattern {text!r}: {error}") from error
