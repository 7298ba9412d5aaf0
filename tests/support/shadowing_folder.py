"""A folder that shadows every module that a program of ours could import."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib.metadata import packages_distributions
from pathlib import Path

CUSTOM = ("sitecustomize", "usercustomize")
OURS = ("agents", "controller", "kernels", "models")


@dataclass(frozen=True, slots=True)
class ShadowingFolder:
    """What is imported from it leaves a note."""

    path: Path

    @classmethod
    def make(cls, path: Path) -> ShadowingFolder:
        """Plant all of Python's own modules, all that is installed, and ours."""
        (path / "notes").mkdir(parents=True)
        for name in {*sys.stdlib_module_names, *packages_distributions(), *CUSTOM, *OURS}:
            if name.isidentifier():
                note = path / "notes" / name
                code = f"open({str(note)!r}, 'w').close()\nraise ImportError('planted')\n"
                (path / f"{name}.py").write_text(code)
        for name in OURS:
            (path / name).mkdir()
            (path / f"{name}.py").rename(path / name / "__init__.py")
        return cls(path)

    @property
    def imported(self) -> list[str]:
        """The modules that a program has imported from here, so far."""
        return sorted(note.name for note in (self.path / "notes").iterdir())
