"""Compiling the library."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kernels import build


def test_no_function_is_shared_between_instruction_sets() -> None:
    """The linker keeps one copy of a weak symbol: perhaps one that an older CPU can't run."""
    listed = subprocess.run(
        ["nm", "--defined-only", str(build.LIBRARY)], stdout=subprocess.PIPE, text=True, check=True
    ).stdout.splitlines()
    assert any(" D sigmoid_focal_loss_forward_f32_avx2" in line for line in listed)
    assert [line for line in listed if line.split()[1] in "WVuwv"] == []


def test_without_a_compiler_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(build.NotBuilt, match=r"C\+\+ compiler no-such-compiler is not installed"):
        build.build(tmp_path / "library.so")
    assert list(tmp_path.iterdir()) == []


def test_on_other_architectures_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    with pytest.raises(build.NotBuilt, match="no kernels exist for aarch64"):
        build.build(tmp_path / "library.so")


def test_a_compiler_that_fails_is_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compiler = tmp_path / "c++"
    compiler.write_text("#!/bin/sh\necho out of ideas >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    with pytest.raises(build.NotBuilt, match="out of ideas"):
        build.build(tmp_path / "library.so")


def test_a_compiler_may_have_arguments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As ccache's: the compiler that it runs is its first one."""
    compiler = tmp_path / "wrapper"
    compiler.write_text('#!/bin/sh\necho "got $1" >&2\nexit 1\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", f"{compiler} c++")
    with pytest.raises(build.NotBuilt, match=r"got c\+\+"):
        build.build(tmp_path / "library.so")
    monkeypatch.setenv("CXX", " ")
    with pytest.raises(build.NotBuilt, match=r"C\+\+ compiler .* is not installed"):
        build.build(tmp_path / "library.so")


def test_what_is_quoted_in_cxx_is_one_word(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "my tools").mkdir()
    compiler = tmp_path / "my tools" / "wrapper"
    compiler.write_text('#!/bin/sh\necho "got $1, $2" >&2\nexit 1\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", f"'{compiler}' \"-DNAME=a b\" c++")
    with pytest.raises(build.NotBuilt, match=r"got -DNAME=a b, c\+\+"):
        build.build(tmp_path / "library.so")
    monkeypatch.setenv("CXX", f'{compiler} "c++')
    with pytest.raises(build.NotBuilt, match="which is no command: No closing quotation"):
        build.build(tmp_path / "library.so")


def test_an_up_to_date_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert build.main() == 0


def test_a_library_of_other_sources_is_built_anew(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(build, "digest", lambda: "0" * 16)
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert build.main() == 1
    assert "cannot compile the kernels: the C++ compiler" in capsys.readouterr().err
