"""Every script in examples/ runs as it is, on few steps where it trains."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
# What each script must print. Those that train do so for three steps.
EXPECTED = {
    "translate.py": ([], ["I love you.", "图书馆在哪里？"]),
    "train_toy.py": (["--steps", "3"], ["red green blue  →"]),
    "attention_weights.py": ([], ["decoder.0.cross.weights  (4, ", "row 0 sums to 1.0"]),
    "switch_off_head.py": ([], ["unchanged", "decoder.2.cross head 3"]),
    "generate_text.py": (["--steps", "3"], ["sampled:"]),
    "train_long_text.py": (["--steps", "2"], ["tokens on 1 rank(s)", "sampled:"]),
}


def test_every_script_is_expected_and_listed() -> None:
    scripts = {path.name for path in EXAMPLES.glob("*.py")}
    assert scripts == set(EXPECTED)
    listed = (EXAMPLES / "README.md").read_text("utf-8")
    assert all(f"]({name})" in listed for name in scripts)


@pytest.mark.parametrize("name", EXPECTED)
def test_the_script_runs(name: str, tmp_path: Path, new_cache: Callable[[Path], Path]) -> None:
    arguments, wanted = EXPECTED[name]
    variables = {
        **os.environ,
        "REGARD_CACHE": str(new_cache(tmp_path / "cache")),
        "OMP_NUM_THREADS": "1",
        "PYTHONIOENCODING": "utf-8",
    }
    result = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        cwd=tmp_path,
        env=variables,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert result.returncode == 0, result.stderr
    for text in wanted:
        assert text in result.stdout, result.stdout
