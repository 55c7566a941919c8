"""An imported GPT-2 of `transformers`: the same logits, the same greedy text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from regard.errors import ModelFolderError
from regard.interop.huggingface.folder import HuggingFaceConfig
from regard.interop.huggingface.gpt2 import merges_of
from regard.interop.huggingface.imports import import_folder
from regard.model_folder.folder import read_description
from regard.models.gpt import Gpt
from regard.models.load import read_model
from regard.pipelines.text_generator import TextGenerator
from regard.tokenizers.byte_level_bpe import END_PIECE, VISIBLE

MERGES = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("c", "a")]
VOCABULARY = {
    piece: number for number, piece in enumerate([*VISIBLE, *(left + right for left, right in MERGES), END_PIECE])
}
SIZES: dict[str, Any] = {"vocab_size": len(VOCABULARY), "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32}
END = VOCABULARY[END_PIECE]


def save(path: Path, **changes: Any) -> Any:
    torch.manual_seed(1)
    settings = {"bos_token_id": END, "eos_token_id": END, **SIZES, **changes}
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**settings)).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # biases of 0 and gains of 1 would hide mistakes
            parameter.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(path)
    transformers.GPT2Tokenizer(vocab=VOCABULARY, merges=MERGES).save_pretrained(path)
    return model


@pytest.mark.parametrize(
    "changes",
    [{}, {"activation_function": "relu", "n_inner": 24, "layer_norm_epsilon": 1e-3}, {"vocab_size": 270}],
    ids=["plain", "other", "more-rows"],
)
def test_the_same_logits(tmp_path: Path, changes: dict[str, Any]) -> None:
    theirs = save(tmp_path / "hf", **changes)
    import_folder(tmp_path / "hf", tmp_path / "ours")
    ours = read_model(tmp_path / "ours", read_description(tmp_path / "ours").model, Gpt, "write")
    ids = torch.randint(len(VOCABULARY), (3, 9), generator=torch.Generator().manual_seed(2))
    real = torch.tensor([[1] * 9, [1] * 6 + [0] * 3, [1] + [0] * 8])
    with torch.no_grad():
        expected = theirs(ids, attention_mask=real).logits
        found = ours(ids)
    assert expected.std() > 0.1
    torch.testing.assert_close(found[real.bool()], expected[real.bool()], rtol=0, atol=1e-5)


@pytest.mark.parametrize("prompt", ["the cat", "", "今天"])
def test_greedy_text_is_the_same(tmp_path: Path, prompt: str) -> None:
    theirs = save(tmp_path / "hf")
    import_folder(tmp_path / "hf", tmp_path / "ours")
    writer = TextGenerator(tmp_path / "ours")
    ids = writer.tokenizer.prompt(prompt)
    tokenizer = transformers.GPT2Tokenizer.from_pretrained(tmp_path / "hf")
    assert ids == (tokenizer(prompt)["input_ids"] or [END])
    with torch.no_grad():
        expected = theirs.generate(torch.tensor([ids]), do_sample=False, max_new_tokens=16, pad_token_id=END)[0]
    [found] = writer.generate(prompt, max_tokens=16, top_k=1)
    assert list(found.tokens) == tokenizer.convert_ids_to_tokens(expected[len(ids) :].tolist())
    assert found.text == tokenizer.decode(expected[len(ids) :], clean_up_tokenization_spaces=False)
    assert "".join(writer.stream(prompt, max_tokens=16, top_k=1)) == found.text


def test_vocabularies_of_both_kinds(tmp_path: Path) -> None:
    save(tmp_path / "hf")
    assert not (tmp_path / "hf" / "vocab.json").exists()
    import_folder(tmp_path / "hf", tmp_path / "new")
    (tmp_path / "hf" / "vocab.json").write_text(json.dumps(VOCABULARY), "utf-8")
    merges = "".join(f"{left} {right}\n" for left, right in MERGES)
    (tmp_path / "hf" / "merges.txt").write_text(f"#version: 0.2\n{merges}", "utf-8")
    (tmp_path / "hf" / "tokenizer.json").unlink()
    import_folder(tmp_path / "hf", tmp_path / "old")
    one, other = TextGenerator(tmp_path / "new").tokenizer, TextGenerator(tmp_path / "old").tokenizer
    assert one.files() == other.files()
    assert one.encode([" the cat"]) == [[VOCABULARY[piece] for piece in ("Ġthe", "Ġ", "ca", "t")]]


@pytest.mark.parametrize(
    ("file", "change", "said"),
    [
        ("config.json", {"activation_function": "tanh"}, "activation_function = 'tanh' is not supported"),
        ("config.json", {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx = True"),
        ("config.json", {"vocab_size": 5}, "the tokenizer has 261 pieces, the model only 5"),
        ("config.json", {"n_layer": 1}, "tensors that Regard has no use for: h.1"),
        ("tokenizer_config.json", {"add_prefix_space": True}, "add_prefix_space = True"),
        ("tokenizer.json", {"model": {"type": "WordPiece"}}, "not a byte-level BPE tokenizer"),
    ],
)
def test_unsupported_settings_are_refused(tmp_path: Path, file: str, change: dict[str, Any], said: str) -> None:
    save(tmp_path / "hf")
    path = tmp_path / "hf" / file
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | change), "utf-8")
    with pytest.raises(ModelFolderError, match=said):
        import_folder(tmp_path / "hf", tmp_path / "ours")


def test_an_output_of_its_own_is_refused(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    save(tmp_path / "hf")
    path = tmp_path / "hf" / "model.safetensors"
    tensors = load_file(path)
    save_file({**tensors, "lm_head.weight": torch.randn(len(VOCABULARY), 16)}, path)
    with pytest.raises(ModelFolderError, match="a separate matrix"):
        import_folder(tmp_path / "hf", tmp_path / "ours")
    save_file({**tensors, "h.0.attn.bias": torch.ones(1, 1, 4, 4)}, path)  # an old folder's mask
    import_folder(tmp_path / "hf", tmp_path / "ours")


def test_merges_of_older_and_newer_files() -> None:
    def merges(*values: Any) -> list[tuple[str, str]]:
        return merges_of(HuggingFaceConfig({"merges": list(values)}, Path("tokenizer.json")))

    assert merges("a b", "Ġ c") == merges(["a", "b"], ["Ġ", "c"]) == [("a", "b"), ("Ġ", "c")]
    assert merges() == []
    for wrong in (["a"], ["a", 1], 3):
        with pytest.raises(ModelFolderError, match=r"tokenizer\.json: model\.merges must be a list of pairs of pieces"):
            merges(["a", "b"], wrong)
