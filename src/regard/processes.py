"""Child processes: how Regard starts another Python.

`python -m` and `python -c` import from the current folder first, so that a file named torch.py that lies there would be
run. A child does not: `-P`, which its own children inherit by PYTHONSAFEPATH.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parent.parent  # of the package


def python_command(*words: str) -> list[str]:
    """The command line of a child process of this Python."""
    return [sys.executable, "-P", *words]


def child_environment(**changes: str) -> dict[str, str]:
    """The environment variables of such a process: this one's, with `changes`."""
    variables = {**os.environ, "PYTHONSAFEPATH": "1"}
    # An empty or relative entry means the current folder, or one in it.
    entries = [entry for entry in variables.pop("PYTHONPATH", "").split(os.pathsep) if os.path.isabs(entry)]
    if str(ROOT) not in {*entries, *(sysconfig.get_path(name) for name in ("purelib", "platlib"))}:
        entries.append(str(ROOT))  # imported from a folder that is not installed
    if entries:
        variables["PYTHONPATH"] = os.pathsep.join(entries)
    return {**variables, **changes}
