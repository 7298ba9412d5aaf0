"""Compiles the kernels while hatchling builds the package, and leaves them out where it can't."""

from __future__ import annotations

import sys
import sysconfig
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class KernelsBuildHook(BuildHookInterface[Any]):
    """A wheel with compiled kernels is for this platform, one without for any."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile; hatchling calls this before it collects files, for editable installs, too."""
        sys.path.insert(0, self.root)
        from kernels.build import LIBRARY, NotBuilt, bring_up_to_date

        try:
            bring_up_to_date()
        except NotBuilt as error:
            self.app.display_warning(f"kernels will run in plain torch: {error}")
        else:
            build_data["pure_python"] = False
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["tag"] = f"py3-none-{platform}"
            build_data["artifacts"].append(f"kernels/{LIBRARY.name}")
