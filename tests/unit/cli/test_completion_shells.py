"""Completion in real shells: names that would be commands, or break a line, are only names."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from controller.store.sqlite import SqliteStore
from tests.support import store_examples
from tests.support.command_line import installed
from tests.support.terminal import interactive
from tests.support.waiting import PATIENCE_S

BIN = Path(sys.executable).parent
NAMES = [
    "a b",
    "b:c d",
    "c=d e",
    "d$(touch planted)",
    "e`touch planted`",
    "f;touch planted",
    "g|touch planted",
    "h&touch planted",
    "i>planted",
    "j'$(touch planted)'",
    'k"$(touch planted)"',
    "l\\$(touch planted)",
    "m*",
    "n{1,2}",
    "o!!",
    "p~",
    "q#r",
    "r[0]",
    "s?",
    "t<(touch planted)",
    "ü",
]
"""Ids of sweeps, each with a first letter of its own. No farm makes them; a store may hold them."""
LEFT_OUT = ["v\ntouch planted", "w\x1b]0;title\x07", "x\ty", "y\r", "z\u202ez", "\x7f"]
SHELLS = {
    "bash": ("bash", "--norc", "--noprofile", "-i"),
    "zsh": ("zsh", "-f", "-i"),
}
SETUP = {
    "bash": "source <(benchfarm completion bash)",
    "zsh": "autoload -Uz compinit; compinit -D; source <(benchfarm completion zsh)",
}

TYPED = {
    "benchfarm sweep cancel d": ["sweep", "cancel", "d$(touch planted)"],
    "benchfarm sweep cancel b:": ["sweep", "cancel", "b:c d"],
    "benchfarm sweep cancel 'f": ["sweep", "cancel", "f;touch planted"],
    "benchfarm sweep cancel v": ["sweep", "cancel", "v"],
    "benchfarm results list --sweep=c=": ["results", "list", "--sweep=c=d e"],
    "benchfarm compare a b --knob=openmp=i": ["compare", "a", "b", "--knob=openmp=intel"],
    "benchfarm compare torch:openmp=i": ["compare", "torch:openmp=intel"],
}
"""What is typed before TAB, and the arguments that it then is."""

DROPPED = [
    "benchfarm sweep cancel $(echo k",
    'benchfarm sweep cancel "k',
    "benchfarm device show '$(touch planted)' $(touch planted) ",
]
"""What is typed before TAB, and then given up."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose store holds sweeps with hostile ids."""
    home = tmp_path_factory.mktemp("home")
    with closing(SqliteStore.open(home / "store.sqlite")) as store:
        for name in [*NAMES, *LEFT_OUT]:
            store.add_sweep(store_examples.sweep_record().model_copy(update={"sweep_id": name}), [])
    return home


@pytest.fixture
def environ(home: Path) -> dict[str, str]:
    path = f"{BIN}:{os.environ['PATH']}"
    return {"BENCHFARM_HOME": str(home), "PATH": path, "LC_ALL": "C.UTF-8"}


def required(shell: str) -> str:
    """Return a shell's program; skips the test where it isn't installed."""
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    return program


def test_bash_reads_all_names_back_as_they_are(environ: dict[str, str], tmp_path: Path) -> None:
    script = (
        "source <(benchfarm completion bash)\n"
        "COMP_LINE='benchfarm sweep cancel ' COMP_POINT=23\n"
        "_benchfarm_completion benchfarm '' cancel\n"
        """eval "set -- ${COMPREPLY[*]}"; printf '%s\\0' "$@"\n"""
    )
    done = subprocess.run(
        ["bash", "--norc", "--noprofile", "-c", script],
        env=environ,
        cwd=tmp_path,
        capture_output=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert done.stderr == b""
    assert sorted(done.stdout.decode().split("\0")[:-1]) == sorted(NAMES)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("shell", SHELLS)
def test_tab_completes_words_and_runs_nothing(
    shell: str, environ: dict[str, str], tmp_path: Path
) -> None:
    required(shell)
    with interactive(SHELLS[shell], tmp_path, environ) as terminal:
        terminal.type(f"{SETUP[shell]}\n")
        terminal.type("""argv_of() { shift; printf '%s\\0' "$@" $'\\n' >>argv; }\n""")
        for typed in TYPED:
            # Ctrl-A: what is completed becomes the arguments of a function.
            terminal.type(f"{typed}\t\x01argv_of \n")
        for typed in DROPPED:  # Ctrl-U
            terminal.type(f"{typed}\t\x15\n")
        terminal.type("exit\n")
        terminal.until_end()
    assert [path.name for path in tmp_path.iterdir()] == ["argv"]
    argvs = (tmp_path / "argv").read_bytes().decode().split("\0\n\0")[:-1]
    assert [argv.split("\0") for argv in argvs] == [*TYPED.values()]


def test_fish_offers_names_as_they_are(environ: dict[str, str], tmp_path: Path) -> None:
    script = "benchfarm completion fish | source; complete -C 'benchfarm sweep cancel '"
    done = subprocess.run(
        [required("fish"), "--no-config", "-c", script],
        env={**environ, "HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert sorted(done.stdout.decode().splitlines()) == sorted(NAMES)
    assert not (tmp_path / "planted").exists()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_printed_for_each_shell(shell: str, tmp_path: Path) -> None:
    printed = installed(tmp_path, "completion", shell)
    assert (printed.returncode, printed.stderr) == (0, b"")
    assert b"_BENCHFARM_COMPLETE=complete_" in printed.stdout
    program = shutil.which(shell)
    if program is not None:
        subprocess.run([program, "-n"], input=printed.stdout, timeout=PATIENCE_S, check=True)


def test_another_shell_is_refused(tmp_path: Path) -> None:
    refused = installed(tmp_path, "completion", "tcsh")
    assert (refused.returncode, refused.stdout) == (2, b"")
    assert refused.stderr.count(b"\n") == 1
