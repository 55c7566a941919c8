"""The wheel of a clean checkout, installed in an empty environment: it contains the models, and translates."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MODELS = ("zh-en", "en-zh")
FILES = ("config.json", "weights.safetensors", "tokenizer.model", "README.md", "SHA256SUMS", "probes.safetensors")


def run(command: Sequence[str | Path], folder: Path, **variables: str) -> str:
    environment = {**os.environ, **variables}
    done = subprocess.run([sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    checkout = tmp_path_factory.mktemp("checkout")
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE", "hatch_build.py", ".gitignore"):
        shutil.copy(ROOT / name, checkout / name)
    shutil.copytree(ROOT / "src", checkout / "src", ignore=shutil.ignore_patterns("__pycache__", "page"))
    # The hook builds the explorer's page, which is another matter.
    run(["-m", "hatchling", "build", "-t", "wheel", "-d", "out"], checkout, HATCH_BUILD_NO_HOOKS="true")
    [path] = (checkout / "out").glob("*.whl")
    return path


def test_the_models_are_in_it(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"regard/bundled/{model}/{name}" for model in MODELS for name in FILES} <= names


def test_licence_and_type_marker_are_in_it(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert "regard/py.typed" in names
    assert {name.rpartition("/")[2] for name in names if "/licenses/" in name} == {"LICENSE", "NOTICE"}


def test_the_kernels_are_in_it(wheel: Path) -> None:
    """As source: they are compiled where they are used."""
    sources = [path for ending in ("*.cpp", "*.h") for path in (ROOT / "src" / "regard").rglob(ending)]
    assert sources
    assert {path.relative_to(ROOT / "src").as_posix() for path in sources} <= set(zipfile.ZipFile(wheel).namelist())


def test_installed_it_translates(wheel: Path, tmp_path: Path) -> None:
    run(["-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", tmp_path, wheel], tmp_path)
    found = run(["-c", "import regard; print(regard.__file__)"], tmp_path, PYTHONPATH=str(tmp_path))
    assert Path(found.strip()).parent == tmp_path / "regard"
    for text, translation in [("我爱你", "I love you."), ("I love you.", "我爱你。")]:
        answer = run([tmp_path / "bin" / "regard", "translate", text], tmp_path, PYTHONPATH=str(tmp_path))
        assert answer.strip() == translation
