"""A user's own program as data: the files to push, the command line, the meaning of its output."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Annotated, Final, Literal, Self

from pydantic import Field, PositiveFloat, model_validator

from controller.contracts.base import Contract, Name, Scalar, scalar_text
from controller.contracts.facts import declaration_of
from controller.contracts.mobile import ModelFile
from controller.contracts.result import Blame
from controller.contracts.units import Unit

VALUE: Final = "value"
"""The named group of a pattern that holds the figure."""
MODEL: Final = "model"
OUTPUT: Final = "output"
FILES: Final = "files"
NUMERICS: Final = "numerics"
STDOUT: Final = "stdout"
STDERR: Final = "stderr"
_PLACE: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_.:-]*)\}")
_FILE: Final = "file:"
_LINE: Final = 500
"""Maximum length of a pattern in characters: it is matched against all that a program prints."""
_NESTED: Final = re.compile(r"[+*}]\)?[+*{]|\?\)[+*{]|\\[1-9]")
"""Nested repeats and back-references, which can take exponential time on a hostile line. The
deadline for reading ends any that this pattern misses."""
_SUBVERTING: Final = re.compile(r"^(LD_(?!LIBRARY_PATH$)|PYTHON|BENCHFARM|RAY_)|^PATH$")
"""Environment variables that would change how benchfarm itself starts a program. LD_LIBRARY_PATH is
allowed: most programs of vendors bring libraries of their own."""
Source = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}$")]
"""`stdout`, `stderr` (its last 16 KiB), or the name of a file in `{output}`."""


class CommandFile(ModelFile):
    """A file to push, given by its checksum in the store of models; never a path."""

    executable: bool = False
    filename: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._+-]{0,99}$")] | None = None
    """Name of the file on the device, for a loader that looks for it (`libvendor.so`); default: its
    key."""

    @model_validator(mode="after")
    def _from_the_store(self) -> Self:
        if self.path:
            raise ValueError("path: it is not allowed; add the file with `benchfarm models add`")
        return self


class When(Contract):
    """Arguments that are given only while a knob has a certain value."""

    when: str
    equals: Scalar = True
    arguments: tuple[str, ...]


class Figure(Contract):
    """A metric: its place in the output and its unit. Exactly one of pattern, json_path and csv is
    set."""

    unit: Unit
    scale: PositiveFloat = 1.0
    """Factor from the printed number to the unit: 1e-6 for microseconds."""
    pattern: str | None = None
    """A regular expression for one line, with a group named `value`."""
    json_path: str | None = None
    """Names and indices separated by dots, such as `0.avg_ts`; `*` matches every element of a list.
    """
    csv: str | None = None
    """Heading of a column; each row is a sample."""
    where: dict[str, str] = {}
    """Filter: only JSON objects and rows in which these fields have these values."""
    reads: Source | None = None
    """Where to read this figure; default: the command's `reads`."""
    select: Literal["first", "last", "only", "all"] = "only"
    """Which match counts; with `all`, each is a sample and the value is their median."""
    required: bool = True

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if sum(way is not None for way in (self.pattern, self.json_path, self.csv)) != 1:
            raise ValueError("give exactly one of pattern, json_path and csv")
        if self.pattern is not None and VALUE not in line_pattern(self.pattern).groupindex:
            raise ValueError(f"pattern {self.pattern!r} has no group (?P<{VALUE}>…)")
        return self


class FailureLine(Contract):
    """A line of the output that means failure, whatever the exit status is."""

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
    """Lines of the output to keep as a table, such as an operator profile."""

    heading: str
    """Pattern of the line before the rows; the last such line counts."""
    row: str
    """Pattern whose named groups are the columns; the first line that doesn't match ends the table.
    """

    @model_validator(mode="after")
    def _readable(self) -> Self:
        line_pattern(self.heading)
        if not line_pattern(self.row).groupindex:
            raise ValueError(f"row {self.row!r} has no named group, so the table has no column")
        return self


class Command(Contract):
    """How to run a program on a device, and how to read its output."""

    files: dict[Name, CommandFile] = {}
    arguments: Annotated[tuple[str | When, ...], Field(min_length=1)]
    """The program, then its arguments. `{KNOB}`, `{file:NAME}`, `{files}` (the folder of all
    files), `{model}` (the workload's model), beside it `{numerics}` (its number format), and
    `{output}` (a folder that is fetched after the run) are replaced. No shell reads the result."""
    environment: dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], str] = {}
    timeout_s: PositiveFloat
    """Time limit in seconds; the run's deadline applies if it is sooner."""
    reads: Source = STDOUT
    """Where to read the figures."""
    figures: Annotated[dict[Name, Figure], Field(min_length=1)]
    result: Name
    """The figure that ranks results."""
    facts: dict[Name, str] = {}
    """Of the result's environment, by a pattern with a group `value`: the last line that has it.
    Each is declared, by `facts.yaml` for `programs`, or by the stack's manifest."""
    failures: tuple[FailureLine, ...] = ()
    invalid: tuple[str, ...] = ()
    """Patterns of lines that make a result INVALID, such as LoadGen's own verdict."""
    table: OpTable | None = None
    rules: str
    """The rules by which its results are valid; not MLPerf's unless LoadGen runs."""

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
        """The placeholders in its templates."""
        return frozenset(name for text in self._templates() for name in _PLACE.findall(text))

    @property
    def takes_model(self) -> bool:
        """Whether it takes a model of the workload."""
        return MODEL in self.places

    def knobs_named(self) -> frozenset[str]:
        """Return the stack's own knobs that its templates name.

        The one that chooses a model is the workload's, where the command takes that model.
        """
        named = {name for name in self.places if not name.startswith(_FILE)}
        named |= {a.when for a in self.arguments if isinstance(a, When)}
        given = {MODEL, OUTPUT, FILES, NUMERICS} if self.takes_model else {MODEL, OUTPUT, FILES}
        return frozenset(named - given)

    def needed(self, knobs: Mapping[str, Scalar]) -> dict[str, CommandFile]:
        """Return the files that a run needs: all but those named only by arguments that are left
        out."""
        chosen = _files_in((*self.chosen(knobs), *self.environment.values()))
        left_out = _files_in(self._templates()) - chosen
        return {name: file for name, file in self.files.items() if name not in left_out}

    def chosen(self, knobs: Mapping[str, Scalar]) -> Iterator[str]:
        """Yield the argument templates that apply to a run."""
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
    """Return a command's arguments and environment; places: values of placeholders that are no
    knobs.

    Raises KeyError for an unknown placeholder; the catalogue has already refused such a command.
    """
    known = {**{name: scalar_text(value) for name, value in knobs.items()}, **places}

    def fill(text: str) -> str:
        return _PLACE.sub(lambda place: known[place[1]], text)

    environment = {name: fill(text) for name, text in command.environment.items()}
    return [fill(text) for text in command.chosen(knobs)], environment


def line_pattern(text: str) -> re.Pattern[str]:
    """Compile a pattern for one line; raises ValueError if it could take exponential time."""
    if len(text) > _LINE:
        raise ValueError(f"pattern {text[:40]!r}… has {len(text)} characters; the limit is {_LINE}")
    if _NESTED.search(re.sub(r"\\\\|\\[^1-9]|\[[^\]]*\]", "x", text)):
        raise ValueError(f"pattern {text!r} nests repetitions or uses a back-reference")
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(f"pattern {text!r}: {error}") from error
