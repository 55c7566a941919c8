"""`regard classify` of texts: the labels of the folder, with their probabilities."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.config import BertConfig, BertHead, DecodeConfig
from regard.model_folder.atomic import atomic_folder
from regard.model_folder.folder import ModelDescription, write_model
from regard.models.bert import Bert
from regard.pipelines.text_encoder import TextEncoder
from regard.tokenizers.characters import CharacterTokenizer

LABELS = ("card lost", "other", "天气")
TEXTS = ("I lost my card.", "今天")


def write_folder(path: Path, head: BertHead) -> Path:
    torch.manual_seed(3)
    tokenizer = CharacterTokenizer.of(TEXTS)
    sizes: dict[str, Any] = {"d_model": 16, "n_heads": 2, "d_ff": 16, "n_layers": 1, "max_positions": 32}
    config = BertConfig(**sizes, heads=(head,), n_labels=3, vocab_size=tokenizer.size)
    model = Bert(config).requires_grad_(False)
    for parameter in model.parameters():
        parameter.add_(torch.randn_like(parameter) * 0.3)
    weights = {name: parameter.numpy() for name, parameter in model.named_parameters()}
    description = ModelDescription(config, DecodeConfig(), "", "", False, tokenizer.files(), labels=LABELS)
    with atomic_folder(path) as folder:
        write_model(folder, description, weights, "")
    return path


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("classes") / "m", "classes")


def test_texts(regard: Any, classifier: Path, tmp_path: Path) -> None:
    expected = TextEncoder(classifier).classify(TEXTS)
    said = regard("classify", *TEXTS, "--model", classifier, "--top", 2)
    assert said.code == 0, said.err
    lines = said.out.splitlines()
    assert len(lines) == 6
    assert lines[0] == f"I lost my card.: {expected[0].label}"
    assert f"{expected[0].probability:.1%}" in lines[1]
    file = tmp_path / "texts.txt"
    file.write_text("\n".join(TEXTS) + "\n", "utf-8")
    for said in (
        regard("classify", file, "--model", classifier, "--json"),
        regard("classify", "--model", classifier, "--json", stdin=file.read_bytes()),
    ):
        rows = [json.loads(line) for line in said.out.splitlines()]
        assert [row["input"] for row in rows] == list(TEXTS)
        assert [row["label"] for row in rows] == [one.label for one in expected]
        assert {one["label"] for one in rows[0]["labels"]} == set(LABELS)


def test_the_name_of_an_installed_model(
    regard: Any, classifier: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGARD_MODELS", str(classifier.parent))
    assert regard("classify", *TEXTS, "--model", "m") == regard("classify", *TEXTS, "--model", classifier)
    monkeypatch.delenv("REGARD_MODEL", raising=False)
    said = regard("classify", *TEXTS)
    assert (said.code, "'--model'" in said.err) == (2, True)


def test_tags(regard: Any, tmp_path: Path) -> None:
    tagger = write_folder(tmp_path / "tagger", "tags")
    said = regard("classify", "今天", "--model", tagger)
    assert said.code == 0, said.err
    assert [word.partition("/")[0] for word in said.out.rstrip("\n").split(" ") if "/" in word] == ["今", "天"]
    [row] = [json.loads(line) for line in regard("classify", "今天", "--model", tagger, "--json").out.splitlines()]
    assert [tag["piece"] for tag in row["tags"]] == ["今", "天"]
    assert all(tag["label"] in LABELS for tag in row["tags"])


def test_a_model_that_does_not_classify(regard: Any, tmp_path: Path) -> None:
    said = regard("classify", "今天", "--model", write_folder(tmp_path / "m", "masked"))
    assert (said.code, said.out) == (2, "")
    assert "no head 'classes'; its heads (model.heads): 'masked'" in said.err
