from __future__ import annotations

import re
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.remotes.adb.commands import (
    NOTHING,
    Framing,
    Launch,
    end_line,
    new_token,
    others_tags,
    owner_tag,
)
from agents.remotes.adb.shell import V1_REQUEST
from agents.remotes.remote import FaultKind, RemoteFault

TOKEN = "0123456789abcdef"
words = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=40)


def framed(
    body: bytes, code: int | None = 0, *, translated: bool = False, before: bytes = b""
) -> bytes:
    end = b"" if code is None else b"<%s=%d>\n" % (TOKEN.encode(), code)
    said = before + b"<%s:42>\n" % TOKEN.encode() + body + end
    return said.replace(b"\n", b"\r\n") if translated else said


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    pieces = []
    for size in sizes:
        pieces.append(data[:size])
        data = data[size:]
    return [*pieces, data]


@given(
    body=st.binary(max_size=300) | st.sampled_from([b"<0123456789abcdef", b"\r\n\r\r\n", b"<<01"]),
    sizes=st.lists(st.integers(1, 30), max_size=30),
    translated=st.booleans(),
    code=st.integers(0, 255),
)
def test_what_a_program_says_comes_through_however_it_is_cut(
    body: bytes, sizes: list[int], translated: bool, code: int
) -> None:
    framing = Framing(TOKEN)
    said = framed(body, code, translated=translated)
    assert b"".join(framing.feed(piece) for piece in cut(said, sizes)) == body
    assert (framing.group, framing.exit_code) == (42, code)


def test_a_line_is_given_as_soon_as_it_has_come() -> None:
    framing = Framing(TOKEN)
    assert framing.feed(framed(b"one\n", None)) == b"one\n"
    assert framing.feed(b"two\n") == b"two\n"
    assert framing.exit_code is None


def test_what_a_shell_complains_of_is_not_the_program_s() -> None:
    framing = Framing(TOKEN)
    assert framing.feed(framed(b"x", 1, before=b"sh: oh dear\n")) == b"x"
    assert framing.before == b"sh: oh dear\n"


def test_what_comes_after_the_end_is_not_the_program_s() -> None:
    framing = Framing(TOKEN)
    assert framing.feed(framed(b"x", 0) + b"left in the background") == b"x"
    assert framing.feed(b"more") == b""


def test_an_end_that_was_cut_is_no_end() -> None:
    framing = Framing(TOKEN)
    assert framing.feed(framed(b"x", 7)[:-2]) == b"x"
    assert framing.exit_code is None


@given(argv=st.lists(words, min_size=1), value=words)
def test_every_string_reaches_the_shell_quoted(argv: list[str], value: str) -> None:
    line = Launch(TOKEN, argv, {"NAME": value}, NOTHING).line()
    _exec, sh, c, script, name, token, stdin, *rest = shlex.split(line)
    assert (_exec, sh, c, name, token, stdin) == ("exec", "sh", "-c", "benchfarm", TOKEN, NOTHING)
    assert rest == argv
    assert script.startswith(f"export NAME={shlex.quote(value)}\n")


@pytest.mark.parametrize(
    ("argv", "environment"),
    [
        ((), {}),
        (("a\0b",), {}),
        (("a",), {"NAME": "a\0b"}),
        (("a",), {"NA ME": "x"}),
        (("a",), {"x;reboot": "x"}),
        (("a",), {"": "x"}),
        (("a",), {"NAME\n": "x"}),
    ],
)
def test_what_no_shell_can_carry_is_refused(
    argv: tuple[str, ...], environment: dict[str, str]
) -> None:
    with pytest.raises(RemoteFault) as caught:
        Launch(TOKEN, argv, environment, NOTHING).line()
    assert caught.value.kind is FaultKind.PROTOCOL


def test_tokens_tell_their_owner_and_are_new() -> None:
    one, other = new_token("agent-1"), new_token("agent-1")
    assert one != other
    assert one.startswith(owner_tag("agent-1"))
    assert not one.startswith(owner_tag("agent-2"))
    assert re.fullmatch("[0-9a-f]{32}", one)


def test_the_order_to_end_a_program_does_not_find_itself() -> None:
    line = end_line(TOKEN, 42)
    pattern = shlex.split(line)[-2]
    assert TOKEN not in line
    assert re.search(pattern, f"sh -c script benchfarm {TOKEN} program")
    assert re.search(pattern, line) is None


@given(owner=st.text(), other=st.text())
def test_the_order_to_end_others_programs_finds_theirs_and_neither_ours_nor_itself(
    owner: str, other: str
) -> None:
    line = end_line(others_tags(owner))
    patterns = shlex.split(line)[-2].split("\n")

    def is_found(text: str) -> bool:
        return any(re.search(pattern, text) for pattern in patterns)

    assert is_found(f"HOME=/\0BENCHFARM_ATTEMPT={new_token(other)}\0") == (owner != other)
    assert not is_found(Launch(new_token(owner), ("true",), {}, NOTHING).line())
    assert not is_found(line)
    assert len(f"shell:{line}") < V1_REQUEST
