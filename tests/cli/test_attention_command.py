from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from regard.cli.attention import draw
from regard.inspect.maps import AttentionMap

MAP = AttentionMap(
    np.array([[0.05, 0.95, 0.0], [0.4, 0.3, 0.3]]), ("Zwei", "狗"), ("two", "我们", "</s>"), "cross-attention, layer 0"
)


def drawn(width: int, coloured: bool = False) -> str:
    console = Console(
        file=io.StringIO(), width=width, color_system="truecolor" if coloured else None, force_terminal=coloured
    )
    draw(MAP, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_map_in_plain_text() -> None:
    assert drawn(80).splitlines() == [
        "cross-attention, layer 0",
        "            <",
        "      t     /",
        "      w  我 s",
        "      o  们 >",
        " Zwei    ██",
        "   狗 ░░ ·· ··",
        "",
    ]


def test_a_narrow_terminal_gets_it_in_parts() -> None:
    lines = drawn(12).splitlines()
    assert lines.count(" Zwei    ██") == 1
    assert [line.split()[0] for line in lines if line.strip().startswith(("Zwei", "狗"))] == ["Zwei", "狗"] * 2
    assert max(map(len, lines[1:])) <= 12


def test_colour_on_a_terminal() -> None:
    text = drawn(80, coloured=True)
    assert "\x1b[38;2;139;92;246m" in text


def test_names_that_look_like_markup() -> None:
    console = Console(file=io.StringIO(), width=80, color_system=None)
    draw(AttentionMap(np.ones((1, 1)), ("[red]",), ("[b]",), "[i]"), console)
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().splitlines()[0] == "[i]"
    assert " [red] ██" in console.file.getvalue()


def test_a_model_without_attention(regard: Any, random_model: Any, tmp_path: Path) -> None:
    model = random_model(family="recurrent", attention="none")
    for words in (("attention", "apple"), ("explain", "apple", "--svg", tmp_path / "map.svg")):
        said = regard(*words, "--model", model)
        assert (said.code, said.out) == (2, "")
        assert said.err.startswith("regard: this model has no attention (model.attention = 'none'), so ")
    assert not (tmp_path / "map.svg").exists()


def test_the_command(regard: Any, make_model: Any, tmp_path: Path) -> None:
    model = make_model(tmp_path / "model")
    said = regard("attention", "the cat", "--model", model)
    assert said.code == 0, said.err
    assert said.out.startswith("cross-attention, mean of 2 layers × 2 heads\n")
    assert "\x1b" not in said.out
    one = regard("attention", "the cat", "--model", model, "--kind", "encoder", "--layer", 1, "--head", 1)
    assert one.out.startswith("encoder self-attention, layer 1, head 1\n")
    wrong = regard("attention", "the cat", "--model", model, "--layer", 3)
    assert (wrong.code, wrong.out) == (2, "")
    assert "there is no layer 3" in wrong.err
