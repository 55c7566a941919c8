"""`regard completion`: the script, and what the Tab key then gets."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import Any

import pytest


@pytest.mark.parametrize(
    ("shell", "words"),
    [("bash", "complete -o nosort -F _regard_completion regard"), ("zsh", "#compdef regard"), ("fish", "complete ")],
)
def test_the_script(regard: Any, shell: str, words: str) -> None:
    said = regard("completion", shell)
    assert said.code == 0
    assert words in said.out
    assert f"_REGARD_COMPLETE={shell}_complete" in said.out
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=said.out, text=True, check=True)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("regard tr", {"plain,translate", "plain,train"}),
        ("regard config c", {"plain,check"}),
        ("regard average --la", {"plain,--last"}),
        ("regard completion z", {"plain,zsh"}),
        *((f"regard {words} da", {"file,da"}) for words in ("translate", "tokenize", "fill", "classify", "score")),
        *((f"regard {words} da", {"file,da"}) for words in ("score a", "evaluate --src", "evaluate --ref")),
    ],
)
def test_what_is_completed(line: str, expected: set[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from regard.cli.main import main; main()"],
        env=os.environ | {"_REGARD_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))},
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(done.stdout.split()) == expected


def test_another_shell(regard: Any) -> None:
    said = regard("completion", "tcsh")
    assert said.code == 2
    assert "tcsh" in said.err
