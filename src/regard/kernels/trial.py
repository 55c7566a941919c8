"""The trial of a new library, in a child process: a library that crashes, or computes wrongly, ends nothing but that.

`try_in_child` gives the child the open file, and the layouts and functions that it must have. The child loads it,
compares them, and computes something small with the kernels that it knows, beside numpy or PyTorch (self_test.py).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from regard.kernels.native_library import NoKernelsError, check_layouts, expected_layouts, find, open_handle
from regard.processes import child_environment, python_command

if TYPE_CHECKING:
    from regard.kernels.bindings import Library

SELF_TESTED = ("engine.cpp", "training.cpp", "memory.cpp")
MODULE = "regard.kernels.trial"
LONGEST_SECONDS = 600  # only a library that hangs takes so long


def try_in_child(handle: int, wanted: Library) -> None:
    """Raise NoKernelsError if the library in this open file fails."""
    expected = {"layouts": expected_layouts(wanted), "functions": sorted(wanted.functions)}
    command = python_command("-m", MODULE, str(handle), wanted.source.name)
    try:
        done = subprocess.run(
            command,
            input=json.dumps(expected),
            pass_fds=(handle,),
            env=child_environment(),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LONGEST_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NoKernelsError(f"the self-test of the new library did not end within {LONGEST_SECONDS} s") from None
    except OSError as error:
        raise NoKernelsError(f"no child process could be started for the self-test: {error}") from None
    if done.returncode:
        said = done.stderr.strip().splitlines()
        reason = said[-1] if said and done.returncode > 0 else describe_end(done.returncode)
        raise NoKernelsError(f"the new library fails its self-test: {reason}")


def describe_end(code: int) -> str:
    if code < 0:
        return f"the child process was ended by {signal.Signals(-code).name}"
    return f"the child process ended with {code}"


def main(handle: int, source: str) -> None:
    """The child."""
    expected = json.load(sys.stdin)
    if source == "memory.cpp":
        import torch  # noqa: F401 - the library is linked against torch's
    compiled = open_handle(handle)
    check_layouts(compiled, expected["layouts"])
    for name in ("last_error", *expected["functions"]):
        find(compiled, f"regard_{name}")
    if source in SELF_TESTED:
        from regard.kernels.self_test import self_test

        self_test(compiled, source)


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        main(int(sys.argv[1]), sys.argv[2])
    except NoKernelsError as error:
        sys.exit(str(error))
