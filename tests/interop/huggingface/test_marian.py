"""Marian models of the real `transformers`, imported: the same logits, and the same translations token for token."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from transformers import MarianMTModel, MarianTokenizer

from regard.errors import ConfigError
from regard.interop.huggingface.imports import import_folder
from regard.interop.huggingface.marian_export import ABSENT, export_marian, start_id, write_tensors
from regard.model_folder.folder import read_weights
from regard.pipelines.model_translator import ModelTranslator
from regard.tokenizers.listed_sentencepiece import listed_order, read_list
from regard.tokenizers.special_ids import BOS, EOS, PAD, UNK

pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")


def bring_in(folder: Path) -> ModelTranslator:
    ours = folder.parent / f"{folder.name}-ours"
    import_folder(folder, ours)
    return ModelTranslator(ours)


def orders(folder: Path) -> tuple[torch.Tensor, torch.Tensor]:
    source = (folder / "vocab.json").read_bytes()
    target = folder / "target_vocab.json"
    return tuple(  # type: ignore[return-value]
        torch.tensor(listed_order(read_list(content)))
        for content in (source, target.read_bytes() if target.exists() else source)
    )


def random_batch(src_size: int, tgt_size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Our ids, with padding: sources that end with EOS, targets that begin with BOS."""
    torch.manual_seed(2)
    lengths = [9, 4, 1]
    src_BM = torch.randint(4, src_size, (3, 10))
    for row, length in enumerate(lengths):
        src_BM[row, length] = EOS
        src_BM[row, length + 1 :] = PAD
    tgt_BL = torch.randint(4, tgt_size, (3, 7))
    tgt_BL[:, 0] = BOS
    return src_BM, tgt_BL


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"activation_function": "relu", "encoder_layers": 1, "decoder_layers": 3},
        {"activation_function": "gelu", "scale_embedding": False},
        {"separate": True, "share_encoder_decoder_embeddings": False},
        {"share_encoder_decoder_embeddings": True, "tie_word_embeddings": False},
    ],
)
def test_the_logits_are_the_same(marian_folder: Any, settings: dict[str, Any]) -> None:
    folder = marian_folder(**settings)
    theirs = MarianMTModel.from_pretrained(folder).eval()
    ours = bring_in(folder)
    src_order, tgt_order = orders(folder)
    src_BM, tgt_BL = random_batch(len(src_order), len(tgt_order))
    with torch.inference_mode():
        given = theirs(src_order[src_BM], attention_mask=(src_BM != PAD).long(), decoder_input_ids=tgt_order[tgt_BL])
        logits_BLV = ours.model(src_BM, tgt_BL)
    real = torch.arange(len(tgt_order)) != BOS
    wanted = given.logits[:, :, tgt_order]
    torch.testing.assert_close(logits_BLV[:, :, real], wanted[:, :, real], atol=2e-5, rtol=1e-5)
    assert (logits_BLV[:, :, BOS] < -1e8).all()


def their_translations(folder: Path, texts: list[str], **options: Any) -> list[list[str]]:
    """The pieces that `generate` gives for a padded batch, padding and end taken off."""
    theirs = MarianMTModel.from_pretrained(folder).eval()
    tokenizer = MarianTokenizer.from_pretrained(folder)
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    with torch.inference_mode():
        rows = theirs.generate(**batch, **options).tolist()
    special = {tokenizer.pad_token_id, tokenizer.eos_token_id, theirs.config.decoder_start_token_id}
    return [[tokenizer.decoder[i] for i in row if i not in special] for row in rows]


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("beam", [1, 4])
def test_translations_are_the_same(marian_folder: Any, foreign: Any, separate: bool, beam: int) -> None:
    texts, lengths = foreign.sentences(24, seed=9), set()
    for number, (end, length_penalty) in enumerate([(1.5, 1.0), (2.0, 0.4), (3.0, 2.0)]):
        settings = {"separate": separate, "share_encoder_decoder_embeddings": not separate}
        folder = marian_folder(f"opus-{number}", seed=number, end=end + 0.5 * separate, **settings)
        wanted = their_translations(folder, texts, num_beams=beam, length_penalty=length_penalty)
        ours = bring_in(folder)
        assert ours.decode.beam == 4
        found = ours.translate(texts, beam=beam, length_penalty=length_penalty)
        assert [list(one.alternatives[0].tokens) for one in found] == wanted
        lengths.update(map(len, wanted))
    assert len(lengths) > 2, lengths  # some end by themselves


def test_texts_become_the_same_ids_and_ids_the_same_texts(marian_folder: Any, foreign: Any) -> None:
    folder = marian_folder(tags=[">>de<<", ">>fr<<"])
    theirs, ours = MarianTokenizer.from_pretrained(folder), bring_in(folder)
    order = orders(folder)[0].tolist()
    texts = [
        *foreign.sentences(20, seed=1),
        ">>de<< the red house",
        ">>fr<<two dogs",
        "Ünknown ✓ words 123",
        "",
        " a  b ",
    ]
    found = ours.tokenizer.encode_src(texts)
    assert [[order[i] for i in ids] + [theirs.eos_token_id] for ids in found] == theirs(texts).input_ids
    reversed_texts = [text[::-1] for text in texts[:20]]
    targets = ours.tokenizer.encode_tgt(reversed_texts)
    wanted = theirs(text_target=reversed_texts).input_ids
    assert [[order[i] for i in ids] + [theirs.eos_token_id] for ids in targets] == wanted
    said = theirs.batch_decode([[order[i] for i in ids] for ids in targets], use_source_tokenizer=False)
    assert [ours.tokenizer.decode_tgt(ids) for ids in targets] == said


def test_tags_are_tasks_and_go_before_every_part(marian_folder: Any) -> None:
    ours = bring_in(marian_folder(tags=[">>de<<", ">>fr<<"]))
    assert ours.tasks == (">>de<<", ">>fr<<")
    plain, tagged = ours.tokenizer.encode_src(["the red house", ">>fr<<the red house"])
    assert tagged[1:] == plain
    assert ours.for_task("fr").encode_src(["the red house"]) == [tagged]
    with pytest.raises(ConfigError, match="several tasks"):
        ours.translate(["the red house"])
    with pytest.raises(ConfigError, match="no task matches 'xx'"):
        ours.for_task("xx")
    long = ">>de<<" + " ".join(["the red house sees two old dogs."] * 30)
    parts = ours.split(long)
    assert len(parts) > 1
    assert all(part.startswith(">>de<<") for part in parts)
    assert " ".join(part.removeprefix(">>de<<") for part in parts) == long.removeprefix(">>de<<")
    assert ours.tokenizer.src.kind_of(tagged[0]) == "control"


def test_what_is_unknown_is_unknown(marian_folder: Any) -> None:
    ours = bring_in(marian_folder())
    [ids] = ours.tokenizer.encode_src(["✓"])
    assert UNK in ids
    assert ours.tokenizer.src.kind_of(UNK) == "unknown"
    assert ours.tokenizer.src.pieces([PAD, UNK, BOS, EOS]) == ["<pad>", "<unk>", "<decoder-start>", "</s>"]


def test_every_name_of_a_shared_table_and_the_sinusoids(marian_folder: Any, foreign: Any) -> None:
    """As older files have them."""
    folder = marian_folder(end=2.0)
    model = MarianMTModel.from_pretrained(folder).eval()
    tensors = dict(model.state_dict())
    assert {"model.shared.weight", "lm_head.weight", "model.encoder.embed_positions.weight"} <= tensors.keys()
    save_file({name: tensor.clone() for name, tensor in tensors.items()}, folder / "model.safetensors")
    import_folder(folder, folder.parent / "older")
    texts = foreign.sentences(6, seed=3)
    found = [list(one.alternatives[0].tokens) for one in ModelTranslator(folder.parent / "older").translate(texts)]
    assert found == their_translations(marian_folder("again", end=2.0), texts)


def test_traces_and_faster_precisions(marian_folder: Any) -> None:
    folder = marian_folder(end=2.0)
    ours = bring_in(folder)
    trace = ours.trace("the red house sees two dogs.")
    assert trace["decoder.0.cross.weights"].shape[-1] == len(trace.src_tokens)
    assert trace.src_tokens[-1] == "</s>"
    exact = ours.translate(["the red house"])[0].alternatives[0]
    fast = ModelTranslator(ours.folder, "auto").translate(["the red house"])[0].alternatives[0]
    assert fast.log_prob == pytest.approx(exact.log_prob, rel=0.3)


# -- the way out


@pytest.mark.parametrize("separate", [False, True])
def test_an_imported_model_exports_to_the_original(marian_folder: Any, separate: bool) -> None:
    folder = marian_folder(separate=separate, share_encoder_decoder_embeddings=not separate)
    ours = bring_in(folder)
    export_marian(ours.folder, folder.parent / "out")
    for name in ("source.spm", "target.spm", "vocab.json"):
        assert (folder / name).read_bytes() == (folder.parent / "out" / name).read_bytes()
    before, after = (MarianMTModel.from_pretrained(path).state_dict() for path in (folder, folder.parent / "out"))
    assert before.keys() == after.keys()
    for name, tensor in before.items():
        if "embed_positions" in name:  # made anew by whoever loads a model, as long as its settings say
            continue
        torch.testing.assert_close(after[name], tensor, atol=0, rtol=0)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"ffn": "swish", "tie_embeddings": "output", "output_bias": True},
        {"ffn": "gelu", "tie_embeddings": "none", "n_encoder_layers": 2},
    ],
)
def test_an_exported_model_can_be_imported_again(
    random_model: Any, reverse_test: list[tuple[str, str]], tmp_path: Path, settings: dict[str, Any]
) -> None:
    ours = ModelTranslator(random_model(dtype=torch.float32, **settings))
    export_marian(ours.folder, tmp_path / "out")
    theirs = MarianMTModel.from_pretrained(tmp_path / "out").eval()
    tokenizer = MarianTokenizer.from_pretrained(tmp_path / "out")
    texts = [source for source, _ in reverse_test[:12]]
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    src_ids = ours.tokenizer.encode_src(texts)
    assert [[*ids, EOS] for ids in src_ids] == tokenizer(texts).input_ids
    tgt_BL = torch.randint(4, ours.tokenizer.tgt.size, (len(texts), 5))
    with torch.inference_mode():
        wanted = theirs(**batch, decoder_input_ids=tgt_BL).logits
        found = ours.model(batch["input_ids"], tgt_BL)
        rows = theirs.generate(**batch, num_beams=1, max_length=20, bad_words_ids=[[PAD], [BOS]]).tolist()
    torch.testing.assert_close(found, wanted, atol=2e-5, rtol=1e-5)
    greedy = ours.translate(texts, beam=1, beam_rule="huggingface", max_length_ratio=0.0, max_length_extra=19)
    pieces = [[tokenizer.decoder[i] for i in row if i not in (PAD, BOS, EOS)] for row in rows]
    assert [list(one.alternatives[0].tokens) for one in greedy] == pieces
    import_folder(tmp_path / "out", tmp_path / "back")
    weights, back = read_weights(ours.folder), read_weights(tmp_path / "back")
    for name, array in weights.items():
        np.testing.assert_array_equal(back[name], array)
    assert set(back) - set(weights) <= {"output_bias"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"position": "rotary"}, "the export to Marian does not support model.position = 'rotary'"),
        ({"norm_order": "pre"}, "model.norm_order"),
        ({"ffn": "swiglu"}, "it supports 'relu', 'gelu', 'gelu_tanh', 'swish'"),
        ({"family": "recurrent"}, "model.family = 'recurrent'"),
    ],
)
def test_other_shapes_are_not_marian(random_model: Any, tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        export_marian(random_model(**settings), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_start_that_marian_cannot_name_is_refused() -> None:
    table, target = np.eye(5, dtype=np.float32), [9, 8, 7, 6, 5]
    assert start_id({"tgt_embedding.weight": table}, target) == target[BOS]
    target[BOS] = ABSENT
    with pytest.raises(ConfigError, match="starts with a token that its list of pieces does not have; Marian cannot"):
        start_id({"tgt_embedding.weight": table}, target)
    table[BOS] = table[EOS]
    assert start_id({"tgt_embedding.weight": table}, target) == target[EOS]


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"^weights: .*No such file or directory"):
        write_tensors(tmp_path / "absent" / "weights", {"a": np.zeros(1, np.float32)})
