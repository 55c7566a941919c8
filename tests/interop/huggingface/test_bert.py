"""An imported BERT of `transformers`: the same output of every head, and the same tokens."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from regard.errors import ModelFolderError
from regard.interop.huggingface.bert import read_ids, rename_norms
from regard.interop.huggingface.folder import HuggingFaceConfig, HuggingFaceTensors
from regard.interop.huggingface.imports import import_folder
from regard.model_folder.folder import read_description
from regard.models.bert import Bert
from regard.models.load import read_model
from regard.pipelines.text_encoder import TextEncoder
from regard.tokenizers.wordpiece import SPECIAL_PIECES

PIECES = [*SPECIAL_PIECES, *"今天气很好的吗abc.!", "##a", "##b", "##c"]
SIZES: dict[str, Any] = {
    "vocab_size": len(PIECES) + 3, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 20, "max_position_embeddings": 24,
}  # fmt: skip
NAMES = {0: "bad", 1: "so-so", 2: "good"}


def save(path: Path, kind: str, lowercase: bool = False, **changes: Any) -> Any:
    torch.manual_seed(1)
    model = getattr(transformers, kind)(transformers.BertConfig(**{**SIZES, **changes})).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # biases of 0 and gains of 1 would hide mistakes
            parameter.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(path)
    numbers = {piece: number for number, piece in enumerate(PIECES)}
    transformers.BertTokenizer(vocab=numbers, do_lower_case=lowercase).save_pretrained(path)
    return model


def load(tmp_path: Path, kind: str, **changes: Any) -> tuple[Any, Bert]:
    theirs = save(tmp_path / "hf", kind, **changes)
    import_folder(tmp_path / "hf", tmp_path / "ours")
    described = read_description(tmp_path / "ours")
    return theirs, read_model(tmp_path / "ours", described.model, Bert, "read")


def batch() -> dict[str, torch.Tensor]:
    """Three texts of different lengths, each of two segments."""
    generator = torch.Generator().manual_seed(2)
    ids = torch.randint(1, SIZES["vocab_size"], (3, 9), generator=generator)
    real = torch.tensor([[1] * 9, [1] * 5 + [0] * 4, [1] * 2 + [0] * 7])
    segments = torch.tensor([[0] * 4 + [1] * 5, [0] * 3 + [1] * 6, [0] * 9])
    return {"input_ids": ids * real, "attention_mask": real, "token_type_ids": segments}


def agree(ours: torch.Tensor, theirs: torch.Tensor, real: torch.Tensor | None = None) -> None:
    assert theirs.std() > 0.1
    if real is not None:
        ours, theirs = ours[real.bool()], theirs[real.bool()]
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize("changes", [{}, {"hidden_act": "gelu_new", "layer_norm_eps": 1e-5, "type_vocab_size": 4}])
def test_pretraining_heads(tmp_path: Path, changes: dict[str, Any]) -> None:
    theirs, ours = load(tmp_path, "BertForPreTraining", **changes)
    inputs = batch()
    with torch.no_grad():
        expected = theirs(**inputs)
        hidden = ours(inputs["input_ids"], inputs["token_type_ids"])
        agree(ours.masked_logits(hidden), expected.prediction_logits, inputs["attention_mask"])
        agree(ours.next_logits(hidden), expected.seq_relationship_logits)
        alone = theirs(inputs["input_ids"][1:2, :5]).prediction_logits[0]
        agree(ours.masked_logits(ours(inputs["input_ids"][1:2, :5]))[0], alone)
    assert ours.config.heads == ("masked", "next")


def test_the_bare_model(tmp_path: Path) -> None:
    theirs, ours = load(tmp_path, "BertModel")
    inputs = batch()
    with torch.no_grad():
        expected = theirs(**inputs)
        hidden = ours(inputs["input_ids"], inputs["token_type_ids"])
        agree(hidden, expected.last_hidden_state, inputs["attention_mask"])
        agree(ours.pool(hidden), expected.pooler_output)
    assert ours.config.heads == ()


@pytest.mark.parametrize(
    ("kind", "head"), [("BertForSequenceClassification", "classes"), ("BertForTokenClassification", "tags")]
)
def test_classes_and_tags(tmp_path: Path, kind: str, head: str) -> None:
    theirs, ours = load(tmp_path, kind, id2label=NAMES, label2id={name: i for i, name in NAMES.items()})
    inputs = batch()
    with torch.no_grad():
        expected = theirs(**inputs).logits
        hidden = ours(inputs["input_ids"], inputs["token_type_ids"])
        if head == "classes":
            agree(ours.class_logits(hidden), expected)
        else:
            agree(ours.tag_logits(hidden), expected, inputs["attention_mask"])
    assert ours.config.heads == (head,)
    assert read_description(tmp_path / "ours").labels == tuple(NAMES.values())


def test_masks_are_filled_as_in_transformers(tmp_path: Path) -> None:
    theirs, _ = load(tmp_path, "BertForMaskedLM")
    text = "今天[MASK]气很[MASK]!"
    tokenizer = transformers.BertTokenizer.from_pretrained(tmp_path / "hf")
    inputs = tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        expected = theirs(**inputs).logits[0].softmax(dim=-1)
    masks = TextEncoder(tmp_path / "ours").fill(text, n=3).masks
    assert [mask.position for mask in masks] == [2, 5]
    for mask in masks:
        for candidate in mask.candidates:
            probability = expected[mask.position + 1, PIECES.index(candidate.piece)]
            assert candidate.probability == pytest.approx(float(probability), abs=1e-5)
        best = expected[mask.position + 1, 5 : len(PIECES)].max()
        assert mask.candidates[0].probability == pytest.approx(float(best), abs=1e-5)


def test_vocabularies_of_both_kinds(tmp_path: Path) -> None:
    save(tmp_path / "hf", "BertModel", lowercase=True)
    assert not (tmp_path / "hf" / "vocab.txt").exists()
    import_folder(tmp_path / "hf", tmp_path / "new")
    (tmp_path / "hf" / "vocab.txt").write_text("".join(f"{piece}\n" for piece in PIECES), "utf-8")
    (tmp_path / "hf" / "tokenizer.json").unlink()
    import_folder(tmp_path / "hf", tmp_path / "old")
    one, other = TextEncoder(tmp_path / "new"), TextEncoder(tmp_path / "old")
    assert one.tokenizer.files() == other.tokenizer.files()
    assert one.tokenizer.lowercase
    assert one.tokenizer.encode(["ABC"]) == [[PIECES.index(piece) for piece in ("a", "##b", "##c")]]


def test_the_first_berts_have_other_names_for_norms(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    theirs = save(tmp_path / "hf", "BertModel")
    path = tmp_path / "hf" / "model.safetensors"
    tensors = load_file(path)
    renamed = {
        f"bert.{name}".replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta"): tensor
        for name, tensor in tensors.items()
    }
    assert "bert.embeddings.LayerNorm.gamma" in renamed
    save_file(renamed, path)
    import_folder(tmp_path / "hf", tmp_path / "ours")
    ours = read_model(tmp_path / "ours", read_description(tmp_path / "ours").model, Bert, "read")
    with torch.no_grad():
        agree(ours(torch.tensor([[2, 5, 6, 3]])), theirs(torch.tensor([[2, 5, 6, 3]])).last_hidden_state)


@pytest.mark.parametrize(
    ("file", "change", "said"),
    [
        ("config.json", {"hidden_act": "tanh"}, "hidden_act = 'tanh' is not supported"),
        ("config.json", {"is_decoder": True}, "is_decoder = True"),
        ("config.json", {"vocab_size": 5}, "the tokenizer has 20 pieces, the model only 5"),
        ("config.json", {"num_hidden_layers": 1}, "tensors that Regard has no use for: encoder.layer.1"),
        ("config.json", {"num_hidden_layers": 3}, "the weights have no encoder.layer.2"),
        ("tokenizer_config.json", {"strip_accents": True, "do_lower_case": False}, "strip_accents = True"),
        ("tokenizer_config.json", {"tokenize_chinese_chars": False}, "tokenize_chinese_chars = False"),
        ("tokenizer.json", {"model": {"type": "BPE"}}, "not a WordPiece tokenizer"),
        ("tokenizer_config.json", {"tokenizer_class": "BertJapaneseTokenizer"}, "BertJapaneseTokenizer"),
    ],
)
def test_unsupported_settings_are_refused(tmp_path: Path, file: str, change: dict[str, Any], said: str) -> None:
    save(tmp_path / "hf", "BertModel")
    path = tmp_path / "hf" / file
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | change), "utf-8")
    with pytest.raises(ModelFolderError, match=said):
        import_folder(tmp_path / "hf", tmp_path / "ours")
    assert not (tmp_path / "ours").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"problem_type": "multi_label_classification"}, "problem_type = 'multi_label_classification'"),
        ({"id2label": ["a", "b", "c"]}, "id2label does not name the model's 3 classes"),
        ({"id2label": {"0": "a", "1": "b"}}, "id2label does not name the model's 3 classes"),
    ],
)
def test_other_answers_than_one_class_of_several_are_refused(tmp_path: Path, change: Any, said: str) -> None:
    save(tmp_path / "hf", "BertForSequenceClassification", num_labels=3)
    path = tmp_path / "hf" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | change), "utf-8")
    with pytest.raises(ModelFolderError, match=said):
        import_folder(tmp_path / "hf", tmp_path / "ours")


def test_a_regression_is_refused(tmp_path: Path) -> None:
    save(tmp_path / "hf", "BertForSequenceClassification", num_labels=1)
    with pytest.raises(ModelFolderError, match="the classifier has one output"):
        import_folder(tmp_path / "hf", tmp_path / "ours")


def test_a_folder_without_a_tokenizer(tmp_path: Path) -> None:
    save(tmp_path / "hf", "BertModel")
    (tmp_path / "hf" / "tokenizer.json").unlink()
    with pytest.raises(ModelFolderError, match=r"it has no vocab\.txt"):
        import_folder(tmp_path / "hf", tmp_path / "ours")


def test_norms_with_both_names_and_ids_that_are_no_numbers_are_refused() -> None:
    names = ("LayerNorm.gamma", "LayerNorm.weight")
    tensors = HuggingFaceTensors({f"a.{name}": np.zeros(1) for name in names}, Path("x"))
    with pytest.raises(ModelFolderError, match=r"x: the weights have some norm both as LayerNorm\.gamma and as Layer"):
        rename_norms(tensors)
    for number in ("1", 1.0, True):
        config = HuggingFaceConfig({"vocab": {"a": 0, "b": number}}, Path("tokenizer.json"))
        with pytest.raises(ModelFolderError, match=r"^tokenizer\.json: model\.vocab must give each piece a whole"):
            read_ids(config)


@pytest.mark.parametrize("name", ["weight", "bias"])
def test_an_output_of_its_own_is_refused(tmp_path: Path, name: str) -> None:
    from safetensors.torch import load_file, save_file

    save(tmp_path / "hf", "BertForMaskedLM")
    path = tmp_path / "hf" / "model.safetensors"
    tensors = load_file(path)
    copied = tensors[{"weight": "bert.embeddings.word_embeddings.weight", "bias": "cls.predictions.bias"}[name]]
    output = f"cls.predictions.decoder.{name}"
    save_file({**tensors, output: copied + 1}, path)
    with pytest.raises(ModelFolderError, match=rf"the output has a separate {name} \({re.escape(output)}\)"):
        import_folder(tmp_path / "hf", tmp_path / "ours")
    assert not (tmp_path / "ours").exists()
    save_file({**tensors, output: copied.clone()}, path)  # a copy is no output of its own
    import_folder(tmp_path / "hf", tmp_path / "ours")
