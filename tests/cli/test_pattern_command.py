from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

WINDOW = """
[[data.train]]
toy = "reverse"
size = 100

[model]
{settings}
"""


def recipe(folder: Path, settings: str) -> Path:
    path = folder / "recipe.toml"
    path.write_text(WINDOW.format(settings=settings), "utf-8")
    return path


def test_a_map_in_the_terminal_and_as_a_figure(regard: Any, tmp_path: Path) -> None:
    window = recipe(tmp_path, '[model.decoder_attention]\nkind = "window"\nwindow = [2]')
    said = regard("pattern", window, "--role", "decoder", "--length", "6")
    assert said.code == 0, said.err
    title, seen, _, *rows = said.out.rstrip().split("\n")
    assert title == "window, decoder, layer 0, head 0, 6 tokens"
    assert seen == "41.7% of the pairs are seen"
    assert rows == ["██", "████", "██████", "  ██████", "    ██████", "      ██████"]
    figure = tmp_path / "new" / "pattern.svg"
    said = regard("pattern", window, "--role", "decoder", "--svg", figure)
    assert said.out == f"wrote {figure}: window, decoder, layer 0, head 0, 512 tokens\n"
    assert figure.read_text("utf-8").startswith("<svg ")


def test_what_cannot_be_drawn_is_refused(regard: Any, tmp_path: Path) -> None:
    linformer = recipe(tmp_path, '[model.attention]\nkind = "linformer"')
    said = regard("pattern", linformer)
    assert said.code == 2
    assert "Linformer has no pattern: every query sees 128 mixtures of all tokens" in said.err
    assert "must end in .svg" in regard("pattern", "base", "--svg", tmp_path / "a.png").err
    assert regard("pattern", "lstm").code == 2


def test_the_spans_that_a_model_has_learnt(regard: Any, random_model: Any) -> None:
    def learn(model: Any, vocabulary: object) -> None:
        for name, parameter in model.named_parameters():
            if name.endswith("span_H"):
                parameter.copy_(torch.tensor([0.0, 1.0]))

    attention = {"kind": "adaptive_span", "max_span": 20, "ramp": 2}
    model = random_model(decoder_attention=attention, change=learn)
    spans = []
    for head in ("0", "1"):
        said = regard("pattern", model, "--role", "decoder", "--length", "12", "--head", head)
        assert said.code == 0, said.err
        spans.append(said.out.rstrip().splitlines()[-1])
    assert len(spans[0].strip()) < len(spans[1].strip()) == 24
