"""`TextEncoder`: masked tokens, classes, tags, similarities."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard import TextEncoder
from regard.config import BertConfig, DecodeConfig, WindowAttentionConfig
from regard.errors import ConfigError
from regard.model_folder.atomic import atomic_folder
from regard.model_folder.folder import ModelDescription, write_model
from regard.models.bert import Bert
from regard.tokenizers.characters import CharacterTokenizer
from regard.tokenizers.protocol import Tokenizer
from regard.tokenizers.sentencepiece import SentencePieceTokenizer
from regard.tokenizers.training import train_vocabulary

TEXTS = ["今天天气很好", "明天天气不好", "我", ""]


def write_folder(path: Path, tokenizer: Tokenizer, labels: tuple[str, ...] = (), **sizes: Any) -> Path:
    torch.manual_seed(3)
    wanted: dict[str, Any] = {"d_model": 16, "n_heads": 2, "d_ff": 16, "n_layers": 2, "max_positions": 12}
    wanted |= {"heads": ("masked", "classes", "tags"), "n_labels": 3}
    config = BertConfig(**wanted | sizes, vocab_size=tokenizer.size)
    model = Bert(config).requires_grad_(False)
    for parameter in model.parameters():
        parameter.add_(torch.randn_like(parameter) * 0.3)
    weights = {name: parameter.numpy() for name, parameter in model.named_parameters()}
    decode = DecodeConfig(batch_tokens=20)  # several batches, even of these few
    description = ModelDescription(config, decode, "", "", tokenizer.lowercase, tokenizer.files(), labels=labels)
    with atomic_folder(path) as folder:
        write_model(folder, description, weights, "")
    return path


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> TextEncoder:
    path = tmp_path_factory.mktemp("bert") / "model"
    return TextEncoder(write_folder(path, CharacterTokenizer.of(TEXTS), ("weather", "person", "nothing")))


def test_masks(reader: TextEncoder) -> None:
    found = reader.fill("今天[MASK]气很[MASK]", n=4)
    assert [mask.position for mask in found.masks] == [2, 5]
    tokenizer = reader.tokenizer
    ids = torch.tensor([[tokenizer.begin, *tokenizer.encode(["今天[MASK]气很[MASK]"])[0], tokenizer.end]])
    expected = torch.softmax(reader.model.masked_logits(reader.model(ids)), dim=-1)[0]
    for mask in found.masks:
        row = expected[mask.position + 1]
        values = [candidate.probability for candidate in mask.candidates]
        assert values == sorted(values, reverse=True)
        assert len(values) == 4
        for candidate in mask.candidates:
            assert candidate.piece in "".join(TEXTS)
            assert candidate.probability == pytest.approx(
                float(row[tokenizer.encode([candidate.piece])[0][0]]), abs=1e-6
            )
        assert values[0] == pytest.approx(float(row[5:].max()), abs=1e-6)
    best = [mask.candidates[0].text for mask in found.masks]
    assert found.text == f"今天{best[0]}气很{best[1]}"
    assert len(reader.fill("[MASK]", n=1000).masks[0].candidates) == len(set("".join(TEXTS)))


def test_masks_that_cannot_be_filled(reader: TextEncoder, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing to fill: write \[MASK\]"):
        reader.fill("今天")
    with pytest.raises(ConfigError, match="11 tokens; the model takes at most 10"):
        reader.fill("今" * 10 + "[MASK]")
    with pytest.raises(ConfigError, match="n = 0"):
        reader.fill("[MASK]", 0)
    plain = train_vocabulary(["the cat sat"] * 4, "bpe", 290)
    with pytest.raises(ConfigError, match=r"has no \[MASK\] token, so"):
        TextEncoder(write_folder(tmp_path / "plain", SentencePieceTokenizer(plain))).fill("the [MASK]")
    headless = TextEncoder(write_folder(tmp_path / "headless", CharacterTokenizer.of(TEXTS), heads=()))
    with pytest.raises(ConfigError, match=r"no head 'masked'; its heads .*: none"):
        headless.fill("今[MASK]")
    with pytest.raises(ConfigError, match="no head 'classes'"):
        headless.classify(["今"])


def test_with_a_sentencepiece_tokenizer(tmp_path: Path) -> None:
    vocabulary = train_vocabulary(["the cat sat on the mat", "two dogs run"] * 4, "bpe", 300, symbols=["[MASK]"])
    reader = TextEncoder(write_folder(tmp_path / "model", SentencePieceTokenizer(vocabulary)))
    found = reader.fill("the [MASK] sat")
    assert found.text.startswith("the ")
    assert len(found.masks) == 1
    assert "[MASK]" not in [candidate.piece for candidate in found.masks[0].candidates]


def test_classes(reader: TextEncoder) -> None:
    found = reader.classify(TEXTS)
    assert len(found) == len(TEXTS)
    for text, classification in zip(TEXTS, found, strict=True):
        [alone] = reader.classify([text])
        assert [label for label, _ in alone.labels] == [label for label, _ in classification.labels]
        np.testing.assert_allclose([p for _, p in alone.labels], [p for _, p in classification.labels], atol=1e-6)
        assert sum(p for _, p in classification.labels) == pytest.approx(1)
        assert {label for label, _ in classification.labels} == {"weather", "person", "nothing"}
        assert classification.label == classification.labels[0][0]
        assert classification.probability == max(p for _, p in classification.labels)
    assert reader.classify(["今" * 50]) == reader.classify(["今" * 10])
    assert reader.classify([]) == []


def test_tags(reader: TextEncoder) -> None:
    tags = reader.tag("今天很好")
    assert "".join(tag.piece for tag in tags) == "今天很好"
    assert {tag.label for tag in tags} <= {"weather", "person", "nothing"}
    tokenizer = reader.tokenizer
    ids = torch.tensor([[tokenizer.begin, *tokenizer.encode(["今天很好"])[0], tokenizer.end]])
    expected = torch.softmax(reader.model.tag_logits(reader.model(ids)), dim=-1)[0]
    for place, tag in enumerate(tags):
        assert tag.probability == pytest.approx(float(expected[place + 1].max()), abs=1e-6)
        assert tag.label == reader.labels[int(expected[place + 1].argmax())]


def test_labels_without_names(tmp_path: Path) -> None:
    reader = TextEncoder(write_folder(tmp_path / "model", CharacterTokenizer.of(TEXTS)))
    assert {label for label, _ in reader.classify(["今"])[0].labels} == {"LABEL_0", "LABEL_1", "LABEL_2"}


def test_similarity(reader: TextEncoder) -> None:
    vectors = reader.embed(TEXTS)
    assert vectors.shape == (4, 16)
    np.testing.assert_allclose((vectors**2).sum(axis=1), 1, atol=1e-5)
    assert reader.similarity("今天", "今天") == pytest.approx(1, abs=1e-5)
    assert reader.similarity(TEXTS[0], TEXTS[2]) == pytest.approx(float(vectors[0] @ vectors[2]), abs=1e-5)
    assert reader.similarity(TEXTS[0], TEXTS[2]) < 0.999
    assert reader.embed([]).shape == (0, 16)


def test_traces(reader: TextEncoder) -> None:
    trace = reader.trace("今天")
    assert trace.tokens == ("<s>", "今", "天", "</s>")
    assert trace.attention().shape == (4, 4)
    assert trace["memory"].shape == (4, 16)
    assert "logits" not in trace.values, "no head was asked"


def test_other_models_are_refused(random_model: Any) -> None:
    with pytest.raises(
        ConfigError, match="a transformer model does not encode texts: it translates, with regard translate"
    ):
        TextEncoder(random_model())


def test_a_model_that_the_engine_does_not_support(tmp_path: Path) -> None:
    """PyTorch computes it, and only in float32."""
    tokenizer = CharacterTokenizer.of(TEXTS)
    attention = WindowAttentionConfig(window=(2,))
    folder = write_folder(tmp_path / "window", tokenizer, ("a", "b", "c"), attention=attention)
    reader = TextEncoder(folder)
    text = "今天天气很好"
    ids = torch.tensor([[tokenizer.begin, *tokenizer.encode([text])[0], tokenizer.end]])
    with torch.inference_mode():
        hidden_1LD = reader.model(ids)
        classes_C = reader.model.class_logits(hidden_1LD)[0].softmax(-1)
        tags_LC = reader.model.tag_logits(hidden_1LD)[0]
    found = dict(reader.classify([text])[0].labels)
    assert [found[label] for label in "abc"] == pytest.approx(classes_C.tolist(), abs=1e-6)
    assert [tag.label for tag in reader.tag(text)] == ["abc"[int(row.argmax())] for row in tags_LC[1:-1]]
    for precision in ("int8", "bfloat16"):
        with pytest.raises(ConfigError, match=f"precision {precision} needs the engine, but .*'window'.* Use float32"):
            TextEncoder(folder, precision=precision)
