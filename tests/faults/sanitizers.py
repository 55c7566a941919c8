"""Run tests with kernels that AddressSanitizer and UndefinedBehaviorSanitizer watch, and stop at the first error:

    python tests/faults/sanitizers.py [pytest's arguments]

Without arguments, all tests of the kernels and of what calls them. The instrumented libraries are stored beside the
others, and compiled only once. This file is also the plugin that pytest is started with.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from regard.kernels import compiler
from regard.processes import child_environment, python_command

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
FLAGS = (
    *("-O1", "-g1", "-fno-omit-frame-pointer"),
    *("-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
)
# What Python and torch keep until they end is no leak of ours.
ADDRESS = "detect_leaks=0:allocator_may_return_null=1:detect_odr_violation=0"
# Tests of what a sanitizer replaces: `new` ends the process where another would throw, a crash ends with a report, the
# memory is not that of the C library, and the compiler has another name.
NOT_HERE = (
    *("into_no_memory", "a_limit_on_memory", "no_more_memory", "the_c_library_keeps_it"),
    *("ends_its_process", "what_does_not_compile", "why_there_are_none"),
)
TESTS = (
    *("tests/kernels", "tests/core/test_int8.py", "tests/core/test_residual.py", "tests/core/test_positions.py"),
    *("tests/core/attention/test_short.py", "tests/core/test_feedforward.py", "tests/train/test_loss_kernels.py"),
    *("tests/decode/test_engine.py", "tests/decode/test_engine_families.py", "tests/decode/test_engine_folder.py"),
    *("tests/decode/test_engine_searches.py", "tests/decode/test_search.py", "tests/decode/test_shortlist.py"),
)


def pytest_configure() -> None:
    """As a plugin: all kernels that this process compiles or loads are instrumented."""
    compiler.FLAGS = (*(flag for flag in compiler.FLAGS if flag != "-O3"), *FLAGS)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [item for item in items if any(part in item.name for part in NOT_HERE)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def runtimes() -> str:
    """The sanitizers' libraries, which must be loaded before all others."""
    names = ("libasan.so", "libubsan.so")
    ask = [compiler.find_compiler()]
    found = [
        subprocess.run([*ask, f"-print-file-name={name}"], capture_output=True, text=True).stdout for name in names
    ]
    return ":".join(str(Path(path.strip()).resolve()) for path in found)


def run(*arguments: str, capture: bool = True) -> subprocess.CompletedProcess[str]:
    """pytest with the instrumented kernels; -s: an error ends the process before pytest shows what it captured."""
    environment = child_environment(
        CXX=str(HERE / "plain_compiler.sh"),
        LD_PRELOAD=runtimes(),
        ASAN_OPTIONS=ADDRESS,
        UBSAN_OPTIONS="print_stacktrace=1",
        OMP_NUM_THREADS="2",
    )
    environment["PYTHONPATH"] = os.pathsep.join([environment.get("PYTHONPATH", ""), str(ROOT)]).strip(os.pathsep)
    command = python_command(
        "-m", "pytest", "-p", "tests.faults.sanitizers", "-p", "no:cacheprovider", "-s", *arguments
    )
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=capture, text=True)


if __name__ == "__main__":
    given = sys.argv[1:] or list(TESTS)
    sys.exit(run("-v", "-m", "", *given, capture=False).returncode)
