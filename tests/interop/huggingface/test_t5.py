"""T5 and mT5 models of the real `transformers`, imported: the same logits, and the same greedy texts."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import MT5ForConditionalGeneration, T5ForConditionalGeneration

from regard.data.spans import corrupt_spans
from regard.errors import ModelFolderError
from regard.interop.huggingface.imports import import_folder
from regard.pipelines.model_translator import ModelTranslator
from regard.tokenizers.listed_sentencepiece import ListedSentencePiece, listed_order, read_list
from regard.tokenizers.special_ids import BOS, EOS, PAD


def bring_in(folder: Path) -> ModelTranslator:
    import_folder(folder, folder.parent / "ours")
    return ModelTranslator(folder.parent / "ours")


def order_of(translator: ModelTranslator) -> torch.Tensor:
    """For each of our ids, theirs."""
    return torch.tensor(listed_order(read_list((translator.folder / "vocab.json").read_bytes())))


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (T5ForConditionalGeneration, {}),
        (T5ForConditionalGeneration, {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
        (T5ForConditionalGeneration, {"feed_forward_proj": "gated-silu", "vocab_size": 70}),
        (MT5ForConditionalGeneration, {"feed_forward_proj": "gated-gelu"}),
    ],
)
def test_the_logits_are_the_same(t5_folder: Any, kind: Any, settings: dict[str, Any]) -> None:
    folder = t5_folder(kind=kind, **settings)
    theirs = kind.from_pretrained(folder).eval()
    ours = bring_in(folder)
    order = order_of(ours)
    torch.manual_seed(3)
    src_BM = torch.randint(4, len(order), (3, 31))  # farther apart than the last bucket
    for row, length in enumerate((30, 12, 0)):
        src_BM[row, length], src_BM[row, length + 1 :] = EOS, PAD
    tgt_BL = torch.randint(4, len(order), (3, 20))
    tgt_BL[:, 0] = BOS
    with torch.inference_mode():
        wanted_BLV = theirs(
            order[src_BM], attention_mask=(src_BM != PAD).long(), decoder_input_ids=order[tgt_BL]
        ).logits[:, :, order]
        logits_BLV = ours.model(src_BM, tgt_BL)
    real = torch.arange(len(order)) != BOS
    torch.testing.assert_close(logits_BLV[:, :, real], wanted_BLV[:, :, real], atol=2e-5, rtol=1e-5)
    assert (logits_BLV[:, :, BOS] < -1e8).all()


def test_greedy_texts_are_the_same(t5_folder: Any, foreign: Any) -> None:
    folder = t5_folder(num_decoder_layers=2)
    theirs = T5ForConditionalGeneration.from_pretrained(folder).eval()
    ours = bring_in(folder)
    order = order_of(ours).tolist()
    texts = foreign.sentences(8, seed=4)
    sources = [[order[i] for i in ids] + [1] for ids in ours.tokenizer.encode_src(texts)]
    longest = max(map(len, sources))
    padded = torch.tensor([[*ids, *[0] * (longest - len(ids))] for ids in sources])
    never = [[0], [2]]  # padding, and what is unknown, which Regard writes by another rule only
    rows = theirs.generate(padded, attention_mask=(padded != 0).long(), max_length=20, bad_words_ids=never)
    wanted = [[i for i in row[1:] if i not in (0, 1)] for row in rows.tolist()]
    found = ours.translate(texts, beam=1, beam_rule="paper", max_length_extra=19)
    ids = {piece: number for number, piece in enumerate(ours.tokenizer.tgt.pieces(range(len(order))))}
    assert [[order[ids[piece]] for piece in one.alternatives[0].tokens] for one in found] == wanted
    assert len({one.text for one in found}) > 1


def test_sentinels_are_pieces_wherever_they_stand(t5_folder: Any) -> None:
    ours = bring_in(t5_folder())
    [ids] = ours.tokenizer.encode_src(["the red <extra_id_0> house <extra_id_4>"])
    pieces = ours.tokenizer.src.pieces(ids)
    assert [piece for piece in pieces if "extra" in piece] == ["<extra_id_0>", "<extra_id_4>"]
    assert ours.tokenizer.src.kind_of(ids[pieces.index("<extra_id_0>")]) == "control"
    assert ours.tokenizer.decode_tgt(ours.tokenizer.encode_tgt(["the old house"])[0]) == "the old house"


def test_spans_of_a_text_can_be_taken_out_with_its_sentinels(t5_folder: Any) -> None:
    vocabulary = bring_in(t5_folder()).tokenizer.src
    assert isinstance(vocabulary, ListedSentencePiece)
    assert vocabulary.pieces(vocabulary.sentinels) == [f"<extra_id_{i}>" for i in range(5)]
    [ids] = vocabulary.encode(["the red house sees two old dogs near the river"])
    corrupted = corrupt_spans(ids, vocabulary.sentinels, random.Random(1), rate=0.4)
    assert vocabulary.encode([vocabulary.decode(corrupted.source)]) == [corrupted.source]
    both = [*corrupted.source, *corrupted.target]
    assert sorted(one for one in both if one not in vocabulary.sentinels) == sorted(ids)


def test_missing_tensors_are_named(t5_folder: Any, tmp_path: Path) -> None:
    folder = t5_folder()
    (folder / "spiece.model").unlink()
    with pytest.raises(ModelFolderError, match=r"has no spiece\.model"):
        import_folder(folder, tmp_path / "ours")
    assert not (tmp_path / "ours").exists()


@pytest.mark.parametrize("size", [62, 66])
def test_a_table_of_another_size_is_refused(t5_folder: Any, tmp_path: Path, size: int) -> None:
    folder = t5_folder()
    content = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**content, "vocab_size": size}))
    with pytest.raises(ModelFolderError, match=rf"has the shape \(64, 24\), but config\.json implies \({size}, 24\)"):
        import_folder(folder, tmp_path / "ours")


def test_prefixes_of_the_settings_are_tasks(t5_folder: Any) -> None:
    folder = t5_folder()
    content = json.loads((folder / "config.json").read_text())
    content["task_specific_params"] = {"one": {"prefix": "near: "}, "two": {"prefix": "under: "}, "three": {}}
    (folder / "config.json").write_text(json.dumps(content))
    assert bring_in(folder).tasks == ("near: ", "under: ")


def test_an_output_of_its_own_is_taken_whatever_the_settings_say(t5_folder: Any) -> None:
    """Some folders declare it shared, but store two matrices."""
    folder = t5_folder()
    tied = bring_in(folder)
    tensors = load_file(folder / "model.safetensors")
    shared = tensors["shared.weight"]
    for name, output in (("a-copy", shared.clone()), ("another", torch.randn_like(shared))):
        save_file({**tensors, "lm_head.weight": output}, folder / "model.safetensors", {"format": "pt"})
        import_folder(folder, folder.parent / name)
        ours = ModelTranslator(folder.parent / name)
        src_BM, tgt_BL = torch.tensor([[5, 6, EOS]]), torch.tensor([[BOS, 7]])
        if name == "a-copy":
            torch.testing.assert_close(ours.model(src_BM, tgt_BL), tied.model(src_BM, tgt_BL), rtol=0, atol=0)
        else:
            hidden_BLD, real = ours.model.hidden(src_BM, tgt_BL), torch.arange(len(order_of(ours))) != BOS
            expected = hidden_BLD @ output[order_of(ours)].T
            torch.testing.assert_close(ours.model(src_BM, tgt_BL)[..., real], expected[..., real], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("proto", "message"),
    [
        (b"", r"spiece\.model is not a SentencePiece model, or it is corrupt"),
        (b"damaged", r"spiece\.model is not a SentencePiece model, or it is corrupt"),
        ({"size": 400, "byte_fallback": True}, r"spiece\.model has \d+ pieces, but the model has only 64"),
        ({"pad_id": -1}, r"spiece\.model has no piece <pad>"),
        ({"unk_piece": "<none>"}, r"spiece\.model is not a T5 tokenizer: it has no <unk>, or has duplicate pieces"),
    ],
)
def test_other_lists_of_pieces_are_refused(
    t5_folder: Any, foreign: Any, tmp_path: Path, proto: bytes | dict[str, Any], message: str
) -> None:
    folder = t5_folder()
    if isinstance(proto, dict):
        options = {"size": 50, "pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1, "pad_piece": "<pad>", **proto}
        if options["pad_id"] == -1:
            options |= {"eos_id": 0, "unk_id": 1}
        proto = foreign.train_pieces(foreign.sentences(300, 1), **options)
    (folder / "spiece.model").write_bytes(proto)
    with pytest.raises(ModelFolderError, match=message):
        import_folder(folder, tmp_path / "ours")
    assert not (tmp_path / "ours").exists()
