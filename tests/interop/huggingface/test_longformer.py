"""An imported Longformer of `transformers`: the same output of every head, with either path of attention."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from regard.errors import ModelFolderError
from regard.interop.huggingface.imports import import_folder
from regard.model_folder.folder import read_description
from regard.models.bert import Bert
from regard.models.load import read_model
from regard.pipelines.text_encoder import TextEncoder
from regard.tokenizers.byte_level_bpe import VISIBLE
from regard.tokenizers.wordpiece import SPECIAL_PIECES

PIECES = [*SPECIAL_PIECES, *"今天气很好的吗abc.!", "##a", "##b", "##c"]
BPE_PIECES = ["<s>", "<pad>", "</s>", "<unk>", *VISIBLE, "Ġa", "ab", "<mask>"]
MERGES = [("Ġ", "a"), ("a", "b")]
SIZES: dict[str, Any] = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 20,
    "attention_window": [4, 8], "max_position_embeddings": 60,
}  # fmt: skip
PADDING = {"wordpiece": 0, "roberta": 1}


def save(path: Path, kind: str, tokenizer: str, **changes: Any) -> Any:
    torch.manual_seed(1)
    pieces = PIECES if tokenizer == "wordpiece" else BPE_PIECES
    numbers = {piece: number for number, piece in enumerate(pieces)}
    sizes = {**SIZES, "vocab_size": len(pieces), "pad_token_id": PADDING[tokenizer], **changes}
    model = getattr(transformers, kind)(transformers.LongformerConfig(**sizes)).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # biases of 0 and gains of 1 would hide mistakes
            parameter.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(path)
    if tokenizer == "wordpiece":
        transformers.BertTokenizer(vocab=numbers, do_lower_case=False).save_pretrained(path)
    else:
        mask = transformers.AddedToken("<mask>", lstrip=True)  # as in the published models
        transformers.RobertaTokenizer(vocab=numbers, merges=MERGES, mask_token=mask).save_pretrained(path)
    return model


def load(tmp_path: Path, kind: str, tokenizer: str, **changes: Any) -> tuple[Any, Bert]:
    theirs = save(tmp_path / "hf", kind, tokenizer, **changes)
    import_folder(tmp_path / "hf", tmp_path / "ours")
    return theirs, read_model(tmp_path / "ours", read_description(tmp_path / "ours").model, Bert, "read")


def batch(tokenizer: str) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Three texts of different lengths, longer than the windows, by their ids and by ours."""
    generator, padding = torch.Generator().manual_seed(2), PADDING[tokenizer]
    ids = torch.randint(2, 20, (3, 30), generator=generator)
    ids[:, 0] = 2
    real = torch.tensor([[1] * 30, [1] * 19 + [0] * 11, [1] * 3 + [0] * 27])
    first = torch.zeros_like(ids)
    first[:, 0] = 1
    theirs = {"input_ids": torch.where(real == 1, ids, padding), "attention_mask": real, "global_attention_mask": first}
    return theirs, torch.where(real == 1, ids, 0)


def agree(ours: torch.Tensor, theirs: torch.Tensor, real: torch.Tensor | None = None) -> None:
    assert theirs.std() > 0.1
    if real is not None:
        ours, theirs = ours[real.bool()], theirs[real.bool()]
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-4)


@pytest.mark.parametrize("dense_up_to", [0, 10**9])
@pytest.mark.parametrize("tokenizer", PADDING)
def test_masked_tokens(tmp_path: Path, tokenizer: str, dense_up_to: int) -> None:
    theirs, ours = load(tmp_path, "LongformerForMaskedLM", tokenizer)
    inputs, ids = batch(tokenizer)
    for layer in ours.layers:
        layer.attention.dense_up_to = dense_up_to
    with torch.no_grad():
        logits = ours.masked_logits(ours(ids))
        if tokenizer == "roberta":  # <s> and <pad> have changed places
            logits = logits[..., [1, 0, *range(2, len(BPE_PIECES))]]
        agree(logits, theirs(**inputs).logits, inputs["attention_mask"])
    assert [layer.attention.patterns[0].size for layer in ours.layers] == [2, 4]


def test_the_bare_model(tmp_path: Path) -> None:
    theirs, ours = load(tmp_path, "LongformerModel", "wordpiece", type_vocab_size=3)
    inputs, ids = batch("wordpiece")
    segments = torch.tensor([[0] * 10 + [2] * 20] * 3)
    with torch.no_grad():
        expected, hidden = theirs(**inputs, token_type_ids=segments), ours(ids, segments)
        agree(hidden, expected.last_hidden_state, inputs["attention_mask"])
        agree(ours.pool(hidden), expected.pooler_output)


@pytest.mark.parametrize(
    ("kind", "head"),
    [("LongformerForSequenceClassification", "classes"), ("LongformerForTokenClassification", "tags")],
)
def test_classes_and_tags(tmp_path: Path, kind: str, head: str) -> None:
    """For classes, `transformers` itself makes the first token global."""
    theirs, ours = load(tmp_path, kind, "roberta", num_labels=3)
    inputs, ids = batch("roberta")
    with torch.no_grad():
        if head == "classes":
            del inputs["global_attention_mask"]
            agree(ours.class_logits(ours(ids)), theirs(**inputs).logits)
        else:
            agree(ours.tag_logits(ours(ids)), theirs(**inputs).logits, inputs["attention_mask"])
    assert ours.config.heads == (head,)


def test_roberta_pieces_and_masks(tmp_path: Path) -> None:
    theirs, _ = load(tmp_path, "LongformerForMaskedLM", "roberta")
    encoder, tokenizer = TextEncoder(tmp_path / "ours"), transformers.RobertaTokenizer.from_pretrained(tmp_path / "hf")
    for text in ("ab a ab  a今", "a <mask>ab", "!"):
        [ids] = encoder.tokenizer.encode([text.replace("<mask>", "[MASK]")])
        assert encoder.tokenizer.pieces(ids) == [piece.strip() for piece in tokenizer.tokenize(text)]
    inputs = tokenizer("ab a <mask>!", return_tensors="pt")
    place = int((inputs["input_ids"][0] == tokenizer.mask_token_id).nonzero())
    first = torch.zeros_like(inputs["input_ids"])
    first[:, 0] = 1
    with torch.no_grad():
        expected = theirs(**inputs, global_attention_mask=first).logits[0, place].softmax(dim=-1)
    [mask] = encoder.fill("ab a [MASK]!", n=3).masks
    assert mask.position == place - 1
    for candidate in mask.candidates:
        assert candidate.probability == pytest.approx(float(expected[BPE_PIECES.index(candidate.piece)]), abs=1e-5)


@pytest.mark.parametrize("changes", [{"attention_window": [4, 5]}, {"pad_token_id": 2}])
def test_what_does_not_fit_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    save(tmp_path / "hf", "LongformerModel", "roberta")
    config = tmp_path / "hf" / "config.json"
    text = config.read_text("utf-8")
    for name, value in changes.items():
        text = text.replace('"pad_token_id": 1', f'"pad_token_id": {value}') if name == "pad_token_id" else text
        text = text.replace("8\n  ]", "5\n  ]") if name == "attention_window" else text
    config.write_text(text, "utf-8")
    with pytest.raises(ModelFolderError, match=r"must be even numbers|but pad_token_id is 2"):
        import_folder(tmp_path / "hf", tmp_path / "ours")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attention_window": [4] * 9}, r"config\.json has settings that Regard does not support: "),
        ({"vocab_size": 5}, r"the tokenizer has \d+ pieces, the model only 5"),
        ({"attention_window": 7}, r"attention_window must be even numbers from 2 on, not 7"),
    ],
)
def test_windows_that_are_not_possible_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    save(tmp_path / "hf", "LongformerModel", "wordpiece")
    config = tmp_path / "hf" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text("utf-8")), **changes}), "utf-8")
    with pytest.raises(ModelFolderError, match=message):
        import_folder(tmp_path / "hf", tmp_path / "ours")
    assert not (tmp_path / "ours").exists()
