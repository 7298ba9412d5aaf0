"""How torch's inductor compiles in a worker: with which compiler, options and cache."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from agents.host.compiler import (
    WRAPPER,
    compiler,
    headers_folder,
    inductor_environ,
    require_compiler,
    require_private_headers,
)
from controller.contracts.errors import UserError
from controller.platform.user_cache import user_cache

SLP, LOOPS = "-fno-tree-slp-vectorize", "-fno-tree-loop-vectorize"
CACHE = Path("/cache")
LAYS_OUT_ANEW = """
import torch
def anew(x, y):
    return x.contiguous(), y.contiguous()
shape = (2, 64, 24, 24)
tensors = [
    torch.arange(73728).remainder(251 + n).bfloat16().view(shape)
    .contiguous(memory_format=torch.channels_last)
    for n in range(2)
]
for found, wanted in zip(torch.compile(anew)(*tensors), tensors):
    print(int((found != wanted).sum()), "of", found.numel())
"""
"""Two bf16 tensors, from channels-last to contiguous in one compiled kernel."""


def linked(folder: Path, name: str, target: str) -> str:
    """Return the path of a program that is a link to another one."""
    (folder / target).write_text("")
    (folder / name).symlink_to(target)
    return str(folder / name)


def shows_arguments(folder: Path) -> str:
    """Return the path of a compiler that prints what it was called with."""
    program = folder / "g++-12"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize("name", ["g++", "g++-12", "x86_64-linux-gnu-g++-14", "gcc"])
def test_gcc_is_called_by_the_wrapper(name: str) -> None:
    assert inductor_environ(f"/usr/bin/{name}", CACHE) == {
        "TORCHINDUCTOR_CACHE_DIR": "/cache",
        "CXX": str(WRAPPER),
        "BENCHFARM_CXX": f"/usr/bin/{name}",
    }


@pytest.mark.parametrize("cxx", ["/usr/bin/clang++", "/usr/lib/llvm-19/bin/clang++-19", None])
def test_what_is_no_gcc_is_called_as_it_is(cxx: str | None) -> None:
    assert inductor_environ(cxx, CACHE) == {"TORCHINDUCTOR_CACHE_DIR": "/cache"}


@pytest.mark.parametrize(
    ("name", "target", "wrapped"),
    [("c++", "g++", True), ("g++", "ccache", True), ("c++", "clang-19", False)],
)
def test_a_compiler_s_links_are_looked_at(
    tmp_path: Path, name: str, target: str, wrapped: bool
) -> None:
    cxx = linked(tmp_path, name, target)
    assert ("CXX" in inductor_environ(cxx, CACHE)) is wrapped


def test_the_wrapped_compiler_is_the_one_that_is_told(tmp_path: Path) -> None:
    cxx = shows_arguments(tmp_path)
    assert compiler(inductor_environ(cxx, CACHE)) == cxx


@pytest.mark.parametrize(
    ("given", "more"),
    [([LOOPS, "-O3", "a b.cpp"], [SLP]), (["--version"], []), (["-O3", "a.cpp"], [])],
    ids=["a kernel of inductor's", "asked its version", "others' code"],
)
def test_only_kernels_that_inductor_vectorised_are_compiled_otherwise(
    tmp_path: Path, given: list[str], more: list[str]
) -> None:
    environ = inductor_environ(shows_arguments(tmp_path), CACHE)
    called = subprocess.run(
        [environ["CXX"], *given], env=environ, stdout=subprocess.PIPE, text=True, check=True
    )
    assert called.stdout.splitlines() == [*given, *more]


@pytest.mark.long
def test_tensors_that_are_laid_out_anew_in_one_kernel_keep_their_values(tmp_path: Path) -> None:
    """GCC 12.2 got 96 % of them wrong for AVX-512, at -O3 with its SLP vectoriser."""
    environ = {**os.environ, **inductor_environ(compiler(), tmp_path)}
    done = subprocess.run(
        [sys.executable, "-P", "-c", LAYS_OUT_ANEW],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == ["0 of 73728"] * 2, done.stderr
    kernels = [*tmp_path.rglob("*.so")]
    assert kernels, "inductor compiled nothing into the cache that it was given"


def test_the_cache_is_the_user_s_own(tmp_path: Path) -> None:
    ours = tmp_path / "benchfarm" / "inductor"
    assert user_cache("inductor", {"XDG_CACHE_HOME": str(tmp_path)}) == ours
    at_home = Path("~/.cache/benchfarm/inductor").expanduser()
    for useless in ("", "relative/is/ignored"):
        assert user_cache("inductor", {"XDG_CACHE_HOME": useless}) == at_home


def test_headers_are_looked_at_where_torch_keeps_them() -> None:
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    assert str(headers_folder()) == default_cache_dir()


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return where headers would be, in a folder for everybody's files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("LOGNAME", "ann")
    return tmp_path / "torchinductor_ann"


def test_the_folder_of_headers_is_made_private(shared: Path) -> None:
    require_private_headers("kernels bench")
    assert stat.S_IMODE(shared.stat().st_mode) == 0o700
    shared.chmod(0o755)
    (shared / "mine.h").touch()
    require_private_headers("kernels bench")
    assert stat.S_IMODE(shared.stat().st_mode) == 0o700


def test_headers_that_others_may_have_written_are_not_compiled(shared: Path) -> None:
    shared.mkdir()
    (shared / "theirs.h").touch()
    shared.chmod(0o777)
    with pytest.raises(UserError, match=r"stack torch-compile: .*_ann: others can write to it"):
        require_compiler("stack torch-compile")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
@pytest.mark.parametrize("planted", ["folder", "link"])
def test_a_folder_of_headers_that_another_user_made_is_refused(
    shared: Path, tmp_path: Path, planted: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    if planted == "link":
        shared.symlink_to(elsewhere)
    else:
        shared.mkdir()
    os.chown(shared, 65534, 65534, follow_symlinks=False)
    with pytest.raises(UserError) as caught:
        require_compiler("stack torch-compile")
    assert "it belongs to another user (uid 65534)" in str(caught.value)
    assert "set TMPDIR" in str(caught.value)
