"""What every Remote does: this host, a phone, and a phone whose daemon knows no exit codes."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path, PurePosixPath

import pytest

from agents.remotes.remote import RUNS, Completed, FaultKind, RemoteFault
from agents.remotes.tree import Tree, listing_of_folder
from controller.contracts.result import Blame
from tests.support.remotes import Heard, Place, make_folder
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.integration
MANY = "sleep 1000 & (sleep 1000 & sh -c 'sleep 1000; true'; true) & echo begun; wait"
"""A program with children and grandchildren."""
HOSTILE = (
    "it's",
    'say "hi"',
    "two\nlines\n",
    "$(echo ran) `echo ran` $HOME ${HOME}",
    "  spaced  out  ",
    "grüße 你好 🙂",
    "a;b&c|d>e<f*g?h[i]j~k!l#m\\n%s",
    "-n",
    "--",
    "",
    "<0123:45>",
    "\udcff\x01\x7f\t",
)


async def shell(place: Place, script: str, stdin: bytes = b"") -> Completed:
    return await place.remote.run(("sh", "-c", script), PATIENCE_S, stdin)


def outputs(place: Place, done: Completed) -> tuple[bytes, bytes]:
    assert done.merged is place.merged
    return done.stdout, done.stderr


@pytest.mark.parametrize("code", [0, 1, 7, 126, 255])
async def test_exit_codes(place: Place, code: int) -> None:
    assert (await shell(place, f"exit {code}")).exit_code == code


async def test_a_signal_is_told_as_a_shell_tells_it(place: Place) -> None:
    assert (await shell(place, "kill -9 $$")).exit_code == 128 + 9


async def test_a_program_that_is_not_there(place: Place) -> None:
    assert (await place.remote.run(("no-such-program",), PATIENCE_S)).exit_code == 127


async def test_outputs_come_apart_where_they_can(place: Place) -> None:
    done = await shell(place, "echo out; echo err >&2")
    expected = (b"out\nerr\n", b"") if place.merged else (b"out\n", b"err\n")
    assert outputs(place, done) == expected


async def test_any_bytes_come_through(place: Place) -> None:
    octal = "".join(f"\\{n:03o}" for n in range(256))
    done = await place.remote.run(("printf", f"{octal}\\r\\n\\r\\r\\n\\n"), PATIENCE_S)
    assert done.stdout == bytes(range(256)) + b"\r\n\r\r\n\n"


async def test_output_without_a_line_end(place: Place) -> None:
    assert (await place.remote.run(("printf", "x"), PATIENCE_S)).stdout == b"x"


async def test_much_output(place: Place) -> None:
    done = await shell(place, "head -c 3000000 /dev/zero")
    assert done.stdout == bytes(3_000_000)


async def test_input_of_any_bytes(place: Place) -> None:
    stdin = bytes(range(256)) * 4000 + b"\x03\x04\n"
    assert (await place.remote.run(("cat",), PATIENCE_S, stdin)).stdout == stdin


async def test_input_that_nobody_reads(place: Place) -> None:
    assert (await place.remote.run(("true",), PATIENCE_S, bytes(1 << 20))).exit_code == 0


async def test_no_input_is_an_empty_input(place: Place) -> None:
    assert (await place.remote.run(("cat",), PATIENCE_S)).stdout == b""


@pytest.mark.parametrize("argument", HOSTILE)
async def test_hostile_arguments_arrive_as_they_are(place: Place, argument: str) -> None:
    done = await place.remote.run(("printf", "%s|", argument, "end"), PATIENCE_S)
    assert done.stdout == os.fsencode(f"{argument}|end|")


async def test_hostile_environment_arrives_as_it_is(place: Place) -> None:
    heard = Heard()
    environment = {"HOSTILE": "it's $(echo ran)\n`ran`"}
    command = ("sh", "-c", 'printf "%s\\n" "$HOSTILE"')
    await place.remote.stream(command, PATIENCE_S, heard.take, environment)
    assert heard.lines == [b"it's $(echo ran)", b"`ran`"]


async def test_what_no_shell_can_carry_is_refused(place: Place) -> None:
    with pytest.raises(RemoteFault) as caught:
        await place.remote.run(("echo", "a\0b"), PATIENCE_S)
    assert (caught.value.kind, caught.value.blame) == (FaultKind.PROTOCOL, Blame.HARNESS)


async def test_a_deadline_kills_the_whole_group(place: Place) -> None:
    with pytest.raises(RemoteFault) as caught:
        await shell_for(place, MANY, 0.5)
    assert (caught.value.kind, caught.value.blame) == (FaultKind.DEADLINE, Blame.WORKLOAD)
    await place.until_quiet()


async def shell_for(place: Place, script: str, deadline_s: float) -> Completed:
    return await place.remote.run(("sh", "-c", script), deadline_s)


async def test_a_stream_s_deadline_kills_the_whole_group(place: Place) -> None:
    heard = Heard()
    ended = await place.remote.stream(("sh", "-c", MANY), 0.7, heard.take)
    assert ended.past_deadline
    assert heard.lines == [b"begun"]
    await place.until_quiet()


async def test_cancelling_kills_the_whole_group(place: Place) -> None:
    heard = Heard()
    stream = asyncio.create_task(place.remote.stream(("sh", "-c", MANY), 60, heard.take))
    await heard.until(b"begun")
    assert await place.processes() >= 3
    stream.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stream
    await place.until_quiet()


async def test_a_listener_that_fails_ends_the_program(place: Place) -> None:
    def fail(line: bytes) -> None:
        raise LookupError(line)

    with pytest.raises(LookupError):
        await place.remote.stream(("sh", "-c", MANY), 60, fail)
    await place.until_quiet()


async def test_what_a_program_leaves_in_the_background_ends_with_it(place: Place) -> None:
    done = await shell(place, "sleep 1000 & sleep 1000 & echo done")
    assert done.stdout == b"done\n"
    await place.until_quiet()


async def test_lines_come_one_by_one_while_the_program_runs(place: Place) -> None:
    heard = Heard()
    script = 'n=0; while [ $n -lt 3 ]; do n=$((n+1)); echo "line $n"; done; printf last; sleep 1000'
    stream = asyncio.create_task(place.remote.stream(("sh", "-c", script), 60, heard.take))
    await heard.until(b"line 3")
    assert not stream.done()
    stream.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stream
    assert heard.lines == [b"line 1", b"line 2", b"line 3"]


async def test_a_stream_tells_its_end(place: Place) -> None:
    heard = Heard()
    script = "echo one; echo oops >&2; printf 'no line end'; exit 3"
    ended = await place.remote.stream(("sh", "-c", script), PATIENCE_S, heard.take)
    assert (ended.exit_code, ended.past_deadline, ended.merged) == (3, False, place.merged)
    assert (b"oops" in heard.lines) is place.merged
    assert ended.stderr == (b"" if place.merged else b"oops\n")
    assert [heard.lines[0], heard.lines[-1]] == [b"one", b"no line end"]


async def test_a_stream_s_input_stays_open(place: Place) -> None:
    heard = Heard()
    stream = asyncio.create_task(
        place.remote.stream(("sh", "-c", "echo begun; cat; echo closed"), 60, heard.take)
    )
    await heard.until(b"begun")
    stream.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stream
    assert heard.lines == [b"begun"]


async def test_long_lines(place: Place) -> None:
    heard = Heard()
    script = "head -c 2000000 /dev/zero | tr '\\0' x; echo; echo end"
    await place.remote.stream(("sh", "-c", script), PATIENCE_S, heard.take)
    assert [len(line) for line in heard.lines] == [2_000_000, 3]


async def test_cleaning_removes_what_runs_left_and_no_tree(place: Place, tmp_path: Path) -> None:
    tree = Tree.of(make_folder(tmp_path / "tree", 1000), tmp_path / "archives")
    root = (await place.remote.push_tree(tree)).path.parent
    await place.remote.run(("mkdir", "-p", str(root / RUNS / "run-1" / "logs")), PATIENCE_S)
    await place.remote.clean()
    listed = await place.remote.run(("ls", "-A", str(root)), PATIENCE_S)
    assert listed.stdout.decode().split() == [tree.digest]


async def test_cleaning_ends_what_a_former_self_left(place: Place) -> None:
    assert await place.remote.clean() == 0
    heard = Heard()
    stream = asyncio.create_task(place.remote.stream(("sh", "-c", MANY), 60, heard.take))
    await heard.until(b"begun")
    assert await place.remote.clean() == 0, "what runs is not what was left"
    assert await place.processes() >= 3
    assert await place.reborn().clean() >= 1
    await place.until_quiet()
    with suppress(RemoteFault):  # an old daemon's link looks broken when its shell was killed
        assert (await stream).exit_code == 128 + 9


async def test_a_tree_of_50_mb_there_and_back(place: Place, tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "tree", 50 << 20)
    tree = Tree.of(folder, tmp_path / "archives")
    pushed = await place.remote.push_tree(tree)
    assert pushed.pushed_bytes == tree.archive_bytes > 50 << 20
    hello = await place.remote.run(("sh", str(pushed.path / "start")), PATIENCE_S)
    assert hello.stdout == b"hello\n"
    await place.remote.pull(pushed.path, tmp_path / "back")
    there, back = listing_of_folder(folder), listing_of_folder(tmp_path / "back")
    assert back == there | {"start": there["bin/hello"]}  # links are followed
    again = await place.remote.push_tree(tree)
    assert (again.path, again.pushed_bytes) == (pushed.path, 0)


async def test_equal_content_has_one_place(place: Place, tmp_path: Path) -> None:
    one = Tree.of(make_folder(tmp_path / "one", 1000), tmp_path / "archives")
    same = Tree.of(one.archive, tmp_path / "archives")
    other = Tree.of(make_folder(tmp_path / "other", 1000, seed=2), tmp_path / "archives")
    path = (await place.remote.push_tree(one)).path
    assert await place.remote.push_tree(same) == (await place.remote.push_tree(one))
    assert (await place.remote.push_tree(other)).path != path


@pytest.mark.parametrize(
    "damage",
    [
        "printf x >>data.bin",
        "printf '#!/bin/sh\\necho HELLO\\n' >bin/hello",
        "rm data.bin",
        "chmod 644 bin/hello",
        "rm start; ln -s data.bin start",
        "echo new >bin/new",
        "rmdir empty",
    ],
)
async def test_what_was_changed_is_pushed_again(place: Place, tmp_path: Path, damage: str) -> None:
    tree = Tree.of(make_folder(tmp_path / "tree", 1000), tmp_path / "archives")
    path = (await place.remote.push_tree(tree)).path
    assert (await shell(place, f"cd {path} && {damage}")).exit_code == 0
    assert (await place.remote.push_tree(tree)).pushed_bytes == tree.archive_bytes
    assert (await place.remote.push_tree(tree)).pushed_bytes == 0


async def test_an_archive_that_changed_after_it_was_read_is_not_installed(
    place: Place, tmp_path: Path
) -> None:
    tree = Tree.of(make_folder(tmp_path / "tree", 1000), tmp_path / "archives")
    data = tree.archive.read_bytes()
    tree.archive.write_bytes(data.replace(b"echo hello", b"echo HELLO"))
    with pytest.raises(RemoteFault) as caught:
        await place.remote.push_tree(tree)
    assert (caught.value.kind, caught.value.blame) == (FaultKind.CORRUPT, Blame.DEVICE)
    tree.archive.write_bytes(data)
    assert (await place.remote.push_tree(tree)).pushed_bytes == len(data)


async def test_pulling_what_is_not_there(place: Place, tmp_path: Path) -> None:
    with pytest.raises(RemoteFault) as caught:
        await place.remote.pull(PurePosixPath("/nowhere/at/all"), tmp_path / "back")
    assert (caught.value.kind, caught.value.blame) == (FaultKind.MISSING_FILE, Blame.WORKLOAD)
    assert list(tmp_path.glob("*back*")) == []


@pytest.mark.parametrize(
    ("target", "kind", "words"),
    [
        (".", FaultKind.PROTOCOL, "Is a directory"),
        ("nowhere", FaultKind.MISSING_FILE, "No such file or directory"),
        ("link", FaultKind.PROTOCOL, "Too many .*symbolic links"),
    ],
)
async def test_a_link_is_pulled_as_the_file_it_leads_to(
    place: Place, tmp_path: Path, target: str, kind: FaultKind, words: str
) -> None:
    """One to a folder is refused, since that may be the folder that it is in."""
    tree = Tree.of(make_folder(tmp_path / "tree", 1000), tmp_path / "archives")
    left = (await place.remote.push_tree(tree)).path.parent / "left"
    assert (await shell(place, f"mkdir {left} && ln -s {target} {left}/link")).exit_code == 0
    with pytest.raises(RemoteFault, match=words) as caught:
        await place.remote.pull(left, tmp_path / "back")
    assert caught.value.kind is kind
    assert list((tmp_path / "back").iterdir()) == []


async def test_many_programs_at_once(place: Place) -> None:
    done = await asyncio.gather(*(shell(place, f"echo {n}; exit {n}") for n in range(12)))
    assert [(d.exit_code, d.stdout) for d in done] == [(n, b"%d\n" % n) for n in range(12)]
