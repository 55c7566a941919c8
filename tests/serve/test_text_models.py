"""Language models and encoders over HTTP: what they answer equals what the models compute."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard import TextEncoder, TextGenerator
from regard.config import BertConfig, DecodeConfig, DeepSeekConfig, FamilyConfig, GptConfig
from regard.model_folder.atomic import atomic_folder
from regard.model_folder.folder import ModelDescription, write_model
from regard.models.build import build_model
from regard.serve.text_models import MAX_TOKENS, LoadedTexts, is_text_model
from regard.tokenizers.characters import CharacterTokenizer

TEXT = "The cat sat."
TOKENIZER = CharacterTokenizer.of([TEXT])
SIZES: dict[str, Any] = {"d_model": 16, "n_heads": 2, "d_ff": 16, "n_layers": 2, "vocab_size": TOKENIZER.size}
CONFIGS: dict[str, FamilyConfig] = {
    "gpt": GptConfig(**SIZES, max_positions=300),
    "bert": BertConfig(**SIZES, max_positions=300),
    "deepseek": DeepSeekConfig(**SIZES, n_dense_layers=1),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("texts")
    for name, config in CONFIGS.items():
        torch.manual_seed(4)
        model = build_model(config).requires_grad_(False)
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
        weights = {path: parameter.numpy() for path, parameter in model.named_parameters()}
        with atomic_folder(root / name) as folder:
            write_model(folder, ModelDescription(config, DecodeConfig(), "", "", False, TOKENIZER.files()), weights, "")
    return {name: root / name for name in CONFIGS}


@pytest.fixture(scope="module")
def reader(serve: Any, folders: dict[str, Path], page: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with serve([], tmp_path_factory.mktemp("runs"), page, texts=LoadedTexts(list(folders.values()))) as client:
        yield client


def test_the_list(reader: Any, folders: dict[str, Path], deep_model: Path) -> None:
    models = reader.get("/api/texts").json["models"]
    assert [(one["id"], one["name"], one["family"], one["generates"]) for one in models] == [
        ("text-0", "gpt", "gpt", True),
        ("text-1", "bert", "bert", False),
        ("text-2", "deepseek", "deepseek", True),
    ]
    parameters = sum(one.numel() for one in TextGenerator(folders["gpt"]).model.parameters())
    assert (models[0]["parameters"], models[0]["layers"], models[0]["heads"]) == (parameters, 2, 2)
    assert [is_text_model(folder) for folder in (*folders.values(), deep_model)] == [True, True, True, False]


@pytest.mark.parametrize(("id", "name"), [("text-0", "gpt"), ("text-2", "deepseek")])
def test_the_next_tokens(reader: Any, folders: dict[str, Path], id: str, name: str) -> None:
    header, maps = reader.post("/api/text", {"text": TEXT, "model": id}).arrays()
    model = TextGenerator(folders[name])
    traced = model.trace(TEXT)
    assert (header["text"], tuple(header["tokens"])) == (TEXT, traced.tokens)
    odds_LV = torch.from_numpy(traced["logits"]).softmax(-1)
    assert [one["position"] for one in header["predictions"]] == list(range(len(traced.tokens)))
    for prediction, odds_V in zip(header["predictions"], odds_LV, strict=True):
        best = odds_V.topk(len(prediction["candidates"]))
        assert [one["probability"] for one in prediction["candidates"]] == pytest.approx(best.values.tolist(), abs=1e-5)
        assert prediction["candidates"][0]["piece"] == TOKENIZER.pieces([int(odds_V.argmax())])[0]
    attention = [path for path in maps if path.endswith(".weights")]
    assert len(attention) == 2
    for path in attention:
        np.testing.assert_array_equal(maps[path], np.rint(traced[path] * 255).astype(np.uint8))
    routers = [path for path in maps if path.endswith(".router")]
    assert len(routers) == (name == "deepseek")
    assert all(maps[path].shape[0] == len(traced.tokens) for path in routers)


def test_the_tokens_under_masks(reader: Any, folders: dict[str, Path]) -> None:
    text = "The [MASK]at s[MASK]t."
    header, _ = reader.post("/api/text", {"text": text, "model": "text-1"}).arrays()
    filled = TextEncoder(folders["bert"]).fill(text, 8).masks
    assert [one["position"] for one in header["predictions"]] == [mask.position + 1 for mask in filled]
    for prediction, mask in zip(header["predictions"], filled, strict=True):
        assert [one["piece"] for one in prediction["candidates"]] == [one.piece for one in mask.candidates]
    assert reader.post("/api/text", {"text": TEXT, "model": "text-1"}).arrays()[0]["predictions"] == []


def test_refusals(reader: Any) -> None:
    long = reader.post("/api/text", {"text": "a" * (MAX_TOKENS + 1), "model": "text-0"})
    assert long.status == 422
    assert long.json["error"] == f"the text has {MAX_TOKENS + 1} tokens; the explorer accepts up to {MAX_TOKENS}"
    unknown = reader.post("/api/text", {"text": TEXT, "model": "0"})
    assert (unknown.status, unknown.json["error"]) == (404, "there is no text model '0'")
