"""The files that docs/adding.md prints, and a copy of the project that they are written into."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]
COPIED = ("controller", "agents", "models", "kernels", "tests/support", "tests/conftest.py")
COPIED_TESTS = ("tests/unit/kernels/conftest.py", "tests/unit/kernels/test_operators.py")

_THREADS = {name: text for name, text in os.environ.items() if name.startswith("OMP_")}
"""Threads beyond the tests' own would spin for a core that others have."""
BEING_WRITTEN = shutil.ignore_patterns("*.pyc.*")
"""Bytecode is copied, too: it is as valid there."""

_FILE = re.compile(r"`(?P<path>[\w./-]+)`:\n\n```\w+\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)


def examples(title: str) -> Mapping[str, str]:
    """Return the files of a section of docs/adding.md: path → text."""
    section = (ROOT / "docs/adding.md").read_text().partition(f"\n## {title}\n")[2]
    section = section.partition("\n## ")[0]
    return {found["path"]: found["text"] for found in _FILE.finditer(section)}


@dataclass(frozen=True, slots=True)
class Project:
    """A copy of the project with a Python that has it installed, and all that this one has."""

    folder: Path

    @property
    def _python(self) -> Path:
        return self.folder / ".venv/bin/python"

    def run(
        self, *arguments: str, given: str | None = None, **environ: str
    ) -> subprocess.CompletedProcess[str]:
        """Run its Python with arguments; `given` is standard input."""
        home = str(self.folder / "home")
        return subprocess.run(
            [str(self._python), "-P", *arguments],
            cwd=self.folder,
            env={**_THREADS, "PATH": "/usr/bin:/bin", "BENCHFARM_HOME": home, **environ},
            input=given,
            capture_output=True,
            text=True,
            check=False,
        )

    def benchfarm(self, *arguments: str, given: str | None = None) -> str:
        """Run a command that succeeds; return what it printed."""
        done = self.run("-m", "controller.cli.main", *arguments, given=given)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def add(self, files: Mapping[str, str]) -> None:
        """Write files, none of which is there."""
        assert files
        for path, text in files.items():
            target = self.folder / path
            assert not target.exists(), f"{path} would be edited"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)


def copy_project(folder: Path) -> Project:
    """Copy the project into a new folder and give it a Python."""
    for name in (*COPIED, *COPIED_TESTS):
        source, target = ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=BEING_WRITTEN)
        else:
            shutil.copy2(source, target)
    shutil.copy2(ROOT / "pyproject.toml", folder)
    venv.create(str(folder / ".venv"), symlinks=True)
    spec = find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    (site,) = (folder / ".venv/lib").glob("python*/site-packages")
    # Folders in a .pth file are searched, but their own .pth files, such as this project's, aren't.
    site.joinpath("copy.pth").write_text(f"{folder}\n{Path(spec.origin).parents[1]}\n")
    return Project(folder)
