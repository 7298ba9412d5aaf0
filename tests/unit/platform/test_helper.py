"""A helper is asked, and each way in which it can fail is one clear error."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from controller.contracts.error_payload import ErrorPayload
from controller.contracts.errors import NotFound, PhoneUnavailable, UserError
from controller.contracts.helper_reply import HelperReply, read_reply
from controller.platform.helper import Helper
from controller.platform.programs import python_code, python_module
from tests.support.helpers import Count, Way
from tests.support.waiting import PATIENCE_S, eventually

ROOT = Path(__file__).parents[3]
MODULE = "tests.support.helpers"


@pytest.fixture(autouse=True)
def where_tests_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """Have helpers heed ^C, though a shell may have started the tests in the background."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)


def helper(*, quiet: bool = True) -> Helper:
    return Helper(python_module(MODULE), "count", "Count yourself.", PhoneUnavailable, quiet)


def test_an_answer_comes_whole_with_progress_and_whatever_libraries_print(
    capfd: pytest.CaptureFixture[str],
) -> None:
    asked = helper(quiet=False)
    assert asked.ask(Way(way="one"), Count) == Count(count=0, parts=("a", None))
    said = capfd.readouterr()
    lines = {"\\u001b[2Jat work", "a library says hello", "and so does its C code"}
    assert (said.out, set(said.err.splitlines())) == ("", lines)


def test_what_libraries_print_can_be_kept_back(capfd: pytest.CaptureFixture[str]) -> None:
    told: list[str] = []
    asked = Helper(python_module(MODULE), "count", quiet=True, on_progress=told.append)
    assert asked.ask(Way(way="one"), Count).count == 0
    assert (told, capfd.readouterr()) == (["\x1b[2Jat work"], ("", ""))


def test_answers_come_as_they_are_made() -> None:
    assert [one.count for one in helper().stream(Way(way="many"), Count)] == [0, 1, 2]


@pytest.mark.parametrize(
    ("way", "seen"),
    [
        ("fault", "its process ended with status 1: .*disk is full.*"),
        ("raise", "its process ended with status 1: KeyError: 'two'"),
        ("garbage", "its process printed 'no JSON at all', which is no reply"),
        ("other", 'its process printed \'{"answer":{"way":"other".*, which is no reply'),
        ("none", "its process gave 0 answers in place of one"),
        ("many", "its process gave 3 answers in place of one"),
        ("die", "its process ended by SIGKILL"),
    ],
)
def test_whatever_else_it_does_is_one_clear_error(way: str, seen: str) -> None:
    with pytest.raises(PhoneUnavailable, match=f"^cannot count: {seen}. Count yourself.$"):
        helper().ask(Way(way=way), Count)


def test_its_own_error_arrives_with_its_type() -> None:
    with pytest.raises(NotFound, match=r"^cannot find it: it is not there\. Look elsewhere\.$"):
        helper().ask(Way(way="refuse"), Count)


def test_a_request_of_another_release_is_refused() -> None:
    with pytest.raises(
        UserError, match=r"cannot read a Way: way: it is missing; count: there is no such key"
    ):
        helper().ask(Count(count=1), Count)


@pytest.mark.parametrize(
    "code", ["raise SystemExit(3)", "import os; os.close(0); os.close(1); os._exit(3)"]
)
def test_one_that_hears_nothing_ended_with_a_status(code: str) -> None:
    deaf = Helper(python_code(code), "count", "Count yourself.")
    with pytest.raises(UserError, match=r"its process ended with status 3\. Count"):
        deaf.ask(Way(way="x" * 2**20), Count)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_while_the_interpreter_ends_is_passed_over(name: str) -> None:
    code = (
        "import atexit, signal, sys\n"
        f"from {MODULE} import Way, handle\n"
        "from controller.platform.helper_main import serve\n"
        f"atexit.register(signal.raise_signal, signal.{name})\n"
        "sys.exit(serve(Way, handle))\n"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen(python_code(code), stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        process.stdin.write(b'{"way":"refuse"}\n')
        process.stdin.flush()  # and open until its end, which would be a signal, too
        assert b"it is not there" in process.stdout.read()
        assert (process.wait(), process.stderr.read()) == (2, b"")


def test_the_caller_is_interrupted_with_it() -> None:
    with pytest.raises(KeyboardInterrupt):
        helper().ask(Way(way="interrupted"), Count)


def test_the_caller_is_interrupted_with_one_that_was_still_starting() -> None:
    code = "import os, signal; os.kill(os.getpid(), signal.SIGINT); import time; time.sleep(1000)"
    with pytest.raises(KeyboardInterrupt):
        Helper(python_code(code), "count", quiet=True).ask(Way(way="one"), Count)


def test_it_ends_with_what_asked_it_and_clears_up(tmp_path: Path) -> None:
    answers = helper().stream(Way(way="endless", folder=tmp_path), Count)
    process = psutil.Process(next(answers).count)
    answers.close()  # type: ignore[attr-defined] # a generator's
    assert not process.is_running()
    assert (tmp_path / "cleared up").exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_it_ends_however_its_caller_does(tmp_path: Path, number: signal.Signals) -> None:
    code = (
        "import sys; from pathlib import Path; from tests.support.helpers import *; "
        "from controller.platform.helper import Helper; "
        "from controller.platform.programs import python_module; "
        f"asked = Helper(python_module({MODULE!r}), 'count'); "
        "way = Way(way='endless', folder=Path(sys.argv[1])); "
        "[print(one.count, flush=True) for one in asked.stream(way, Count)]"
    )
    command, pipe = python_code(code, str(tmp_path)), subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe) as caller:
        assert caller.stdout
        process = psutil.Process(int(caller.stdout.readline()))
        caller.send_signal(number)
        caller.wait(PATIENCE_S)
        eventually(lambda: not process.is_running(), "the helper has ended")
    assert (tmp_path / "cleared up").exists()


@pytest.mark.parametrize(
    ("way", "numbers", "statuses"),
    [
        ("endless", [signal.SIGTERM], {-signal.SIGTERM}),
        ("endless", [signal.SIGINT], {130}),
        # whichever is heeded first
        ("endless", [signal.SIGINT, signal.SIGTERM], {130, -signal.SIGTERM}),
        ("finalizing", [signal.SIGTERM], {-signal.SIGTERM}),  # no exception gets out of there
        ("finalizing", [signal.SIGINT], {130}),
        ("looping", [], {130}),  # it sends itself one
    ],
)
def test_a_signal_ends_it_without_a_message_once_it_has_cleared_up(
    tmp_path: Path, way: str, numbers: list[signal.Signals], statuses: set[int]
) -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen(python_module(MODULE), stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin
        assert process.stdout
        request = Way(way=way, folder=tmp_path)
        process.stdin.write(request.model_dump_json().encode() + b"\n")
        process.stdin.flush()
        process.stdout.readline()
        for number in numbers:
            process.send_signal(number)
        assert process.wait(PATIENCE_S) in statuses
        assert process.stderr
        assert process.stderr.read() == b""
    assert (tmp_path / "cleared up").exists()


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"progress":"a","answer":{"count":1}}',
        b'{"answer":{"count":1},"more":2}',
        b'{"answer":{"count":"many"}}',
        b'{"answer":[1]}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_reply(line: bytes) -> None:
    with pytest.raises(ValueError, match="validation error"):
        read_reply(line, Count)


def test_replies_are_read_as_they_are_written() -> None:
    count = Count(count=1, parts=(None,))
    answer = HelperReply(answer=count.model_dump(mode="json")).line().encode()
    assert read_reply(answer, Count) == count
    progress = HelperReply(progress="läuft").line().encode("ascii")
    assert read_reply(progress, Count) == "läuft"
    error = HelperReply(error=ErrorPayload.of(NotFound("find", "gone", "Go."))).line().encode()
    with pytest.raises(NotFound):
        read_reply(error, Count)


def test_its_end_is_seen_though_what_it_has_left_holds_its_standard_error() -> None:
    code = (
        "import subprocess, sys; sys.stdin.readline(); "
        "left = subprocess.Popen(['sleep', '1000'], stdout=subprocess.DEVNULL); "
        'print(f\'{{"answer":{{"count":{left.pid}}}}}\', flush=True)'
    )
    asked = Helper(python_code(code), "count", quiet=True)
    found = asked.ask(Way(way="leave"), Count)
    os.kill(found.count, signal.SIGKILL)
