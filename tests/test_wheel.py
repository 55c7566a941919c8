"""What a wheel holds: the models that come with the package, if there are any, and the sources."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
FILES = ("config.json", "weights.safetensors", "tokenizer.model", "README.md", "SHA256SUMS", "probes.safetensors")


def test_bundled_models_are_in_it(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "README.md", "hatch_build.py", ".gitignore"):
        shutil.copy(ROOT / name, tmp_path / name)
    bundled = tmp_path / "src" / "regard" / "bundled"
    for model in ("zh-en", "en-zh"):
        (bundled / model).mkdir(parents=True)
        for name in FILES:
            (bundled / model / name).write_bytes(b"x")
    shutil.copy(ROOT / "src" / "regard" / "__init__.py", bundled.parent)
    # The hook builds the explorer's page, which is another matter.
    variables = {**os.environ, "HATCH_BUILD_NO_HOOKS": "true"}
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", "out"]
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    [wheel] = (tmp_path / "out").glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"regard/bundled/{model}/{name}" for model in ("zh-en", "en-zh") for name in FILES} <= names
    assert "regard/__init__.py" in names
