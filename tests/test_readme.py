"""Every command of the README is run, as it is written there, on small files."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
TRAINED_FOR = ["--set", "train.max_steps=3", "--set", "data.tokenizer.vocab_size=300", "--set", "train.threads=1"]
SENTENCES = ["How are you?", "Good morning.", "I see a dog.", "The dog sees me.", "It is late."]
ANSWERS = ["Wie geht es dir?", "Guten Morgen.", "Ich sehe einen Hund.", "Der Hund sieht mich.", "Es ist spät."]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


def run(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "REGARD_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    return subprocess.run(words, cwd=folder, env=variables, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory, new_cache: Callable[[Path], Path]) -> Path:
    """A folder as the README asks for: sentences in four files, and the recipe."""
    folder = tmp_path_factory.mktemp("readme")
    new_cache(folder / "cache")
    for split, times in (("train", 60), ("valid", 2)):
        (folder / f"{split}.en").write_text("\n".join(SENTENCES * times) + "\n", "utf-8")
        (folder / f"{split}.de").write_text("\n".join(ANSWERS * times) + "\n", "utf-8")
    (folder / "mine.toml").write_text(blocks("toml")[0], "utf-8")
    return folder


def test_every_command_runs(workplace: Path) -> None:
    """In the order of the page: later commands use what earlier ones made."""
    lines = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("regard ")]
    inline = re.findall(r"`(regard [^`\n]*mine\.toml[^`\n]*)`", README)  # of others, some only name a command
    assert (len(lines) >= 8, len(inline)) == (True, 2)
    for line in lines + inline:
        words = [sys.executable, "-m", "regard", *shlex.split(line)[1:]]
        # The only change: a training of three steps shows that the command works.
        result = run(words + (TRAINED_FOR if words[3] == "train" else []), workplace)
        assert result.returncode == 0, f"{line}\n{result.stdout}\n{result.stderr}"
    script = blocks("python")[0]
    result = run([sys.executable, "-c", script], workplace)
    assert result.returncode == 0, result.stderr
    assert re.search(r"\(4, \d+, \d+\)", result.stdout), result.stdout  # heads, target, source


def test_the_first_commands_print_what_the_page_says(workplace: Path) -> None:
    commands = next(block for block in blocks("sh") if block.startswith("regard ")).splitlines()
    printed = [run([sys.executable, "-m", "regard", *shlex.split(line)[1:]], workplace).stdout for line in commands]
    assert "".join(printed).strip().splitlines() == blocks("text")[0].strip().splitlines()


def test_the_two_commands_exist() -> None:
    wanted = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("make ")]
    assert wanted == ["make demo", "make test"]
    for line in wanted:
        result = run(["make", "--dry-run", "--directory", str(ROOT), line.split()[1]], ROOT)
        assert result.returncode == 0, result.stderr


def test_every_link_leads_somewhere() -> None:
    for link in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / link).exists(), link


def test_every_command_is_in_the_guide() -> None:
    result = run([sys.executable, str(ROOT / "docs" / "make_commands.py"), "--check"], ROOT)
    assert result.returncode == 0, result.stderr
