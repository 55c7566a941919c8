"""`TextGenerator`: generation, scores and traces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard import TextGenerator
from regard.config import DecodeConfig, GptConfig
from regard.errors import ConfigError
from regard.model_folder.atomic import atomic_folder
from regard.model_folder.folder import ModelDescription, write_model
from regard.models.gpt import Gpt
from regard.tokenizers.characters import CharacterTokenizer
from regard.tokenizers.protocol import Tokenizer
from regard.tokenizers.sentencepiece import SentencePieceTokenizer
from regard.tokenizers.training import train_vocabulary

TEXT = "床前明月光，\n疑是地上霜。\n举头望明月，\n低头思故乡。\n"


def write_folder(path: Path, tokenizer: Tokenizer, decode: DecodeConfig | None = None, **sizes: Any) -> Path:
    torch.manual_seed(3)
    wanted: dict[str, Any] = {"d_model": 16, "n_heads": 2, "d_ff": 16, "n_layers": 2, "max_positions": 40}
    config = GptConfig(**wanted | sizes, vocab_size=tokenizer.size)
    model = Gpt(config).requires_grad_(False)
    for parameter in model.parameters():
        parameter.add_(torch.randn_like(parameter) * 0.3)
    weights = {name: parameter.numpy() for name, parameter in model.named_parameters()}
    description = ModelDescription(config, decode or DecodeConfig(), "", "", tokenizer.lowercase, tokenizer.files())
    with atomic_folder(path) as folder:
        write_model(folder, description, weights, "")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("gpt") / "model", CharacterTokenizer.of([TEXT]))


@pytest.fixture(scope="module")
def writer(folder: Path) -> TextGenerator:
    return TextGenerator(folder)


def test_stream_generate_and_call_agree(writer: TextGenerator) -> None:
    parts = list(writer.stream("床前", max_tokens=30, seed=5))
    assert len(parts) > 3
    assert writer("床前", max_tokens=30, seed=5) == "床前" + "".join(parts)
    first, second = writer.generate("床前", n=2, max_tokens=30, seed=5)
    assert first.text == "".join(parts)
    assert second.text != first.text
    assert "".join(first.tokens) == first.text
    assert len(first.token_log_probs) == len(first.tokens) + first.finished
    assert first.log_prob == pytest.approx(sum(first.token_log_probs))


def test_seeds_and_greedy_decoding(writer: TextGenerator) -> None:
    assert writer("床", max_tokens=20, seed=1) == writer("床", max_tokens=20, seed=1)
    assert writer("床", max_tokens=20, seed=1) != writer("床", max_tokens=20, seed=2)
    greedy = {writer("床", max_tokens=20, top_k=1, seed=seed) for seed in range(3)}
    assert len(greedy) == 1


def test_the_settings_of_the_folder_are_the_default(tmp_path: Path, writer: TextGenerator) -> None:
    tokenizer = CharacterTokenizer.of([TEXT])
    deterministic = TextGenerator(write_folder(tmp_path / "deterministic", tokenizer, DecodeConfig(top_k=1)))
    assert deterministic("床", max_tokens=20) == writer("床", max_tokens=20, top_k=1)
    with pytest.raises(ConfigError, match="unknown option topk; did you mean 'top_k'"):
        writer("床", topk=1)
    with pytest.raises(ConfigError, match=r"decode\.top_p = 2"):
        writer("床", top_p=2)


def test_a_text_is_scored_and_traced(writer: TextGenerator) -> None:
    tokens, log_probs = writer.score("床前明")
    assert tokens == tuple("床前明")
    ids = torch.tensor([writer.tokenizer.prompt("床前明")])
    expected = torch.log_softmax(writer.model(ids)[0].double(), dim=-1)
    wanted = [float(expected[place, ids[0, place + 1]]) for place in range(3)]
    np.testing.assert_allclose(log_probs, wanted, atol=1e-6)
    trace = writer.trace("床前明")
    assert trace.tokens == ("<s>", "床", "前", "明")
    assert trace.kernel == "reference"
    assert trace["layers.0.attention.weights"].shape == (2, 4, 4)
    mean = trace.attention()
    assert mean.shape == (4, 4)
    np.testing.assert_allclose(mean.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(trace.attention(1, 0), trace["layers.1.attention.weights"][0])
    with pytest.raises(ConfigError, match="no attention"):
        writer.trace("床", ("logits",)).attention()
    with pytest.raises(ConfigError, match="41 tokens; the model takes at most 40"):
        writer.trace("床" * 40)


def test_with_a_sentencepiece_tokenizer(tmp_path: Path) -> None:
    vocabulary = train_vocabulary(["the cat sat on the mat", "two dogs run"] * 4, "bpe", 290)
    writer = TextGenerator(write_folder(tmp_path / "model", SentencePieceTokenizer(vocabulary)))
    text = writer("the cat", max_tokens=25)
    assert text.startswith("the cat")
    assert len(text) > len("the cat")
    assert not writer("", max_tokens=25, top_k=1).startswith(" ")


def test_other_models_are_refused(random_model: Any) -> None:
    with pytest.raises(ConfigError, match="does not generate text: it translates, with regard translate"):
        TextGenerator(random_model())
