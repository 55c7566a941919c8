"""Hugging Face folders as the real `transformers` writes them: small configs, random weights, small tokenizers."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
from transformers import MarianConfig, MarianMTModel, T5ForConditionalGeneration

WORDS = (
    *("red", "green", "blue", "house", "tree", "river", "small", "large", "old", "new"),
    *("sees", "finds", "the", "a", "under", "near", "two", "three", "dogs", "cats"),
)


def sentences(count: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(2, 9))) + "." for _ in range(count)]


def train_pieces(texts: Sequence[str], size: int, **options: Any) -> bytes:
    """A SentencePiece model with the special ids that OPUS-MT's have, which are not ours."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=model,
        vocab_size=size,
        hard_vocab_limit=False,
        minloglevel=2,
        **options,
    )
    return model.getvalue()


def pieces_of(proto: bytes) -> list[str]:
    processor = sentencepiece.SentencePieceProcessor(model_proto=proto)
    ids = range(processor.vocab_size())
    return [processor.id_to_piece(i) for i in ids if not processor.is_control(i) and not processor.is_unknown(i)]


def write_list(path: Path, pieces: Sequence[str]) -> dict[str, int]:
    """A vocab.json as OPUS-MT has it: the end first, padding last."""
    numbers = {piece: i for i, piece in enumerate(dict.fromkeys(["</s>", "<unk>", *pieces, "<pad>"]))}
    path.write_text(json.dumps(numbers), "utf-8")
    return numbers


def shake(model: torch.nn.Module) -> None:
    """Random everywhere: biases of 0 and gains of 1 would hide mistakes."""
    with torch.no_grad():
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            if "embed_positions" not in name:
                tensor.add_(torch.randn_like(tensor) * 0.2)


class Foreign:
    sentences = staticmethod(sentences)
    train_pieces = staticmethod(train_pieces)
    pieces_of = staticmethod(pieces_of)
    write_list = staticmethod(write_list)
    shake = staticmethod(shake)


@pytest.fixture(scope="session")
def foreign() -> Foreign:
    return Foreign()


MarianFolder = Callable[..., Path]


@pytest.fixture
def marian_folder(tmp_path: Path) -> MarianFolder:
    """An OPUS-MT folder, as `save_pretrained` writes it.

    `separate`: a list of words for each language. `end`: how much the end is favoured, lest no translation has one.
    """

    def make(
        name: str = "opus",
        separate: bool = False,
        tags: Sequence[str] = (),
        seed: int = 5,
        end: float = 0.0,
        **settings: Any,
    ) -> Path:
        torch.manual_seed(seed)
        folder = tmp_path / name
        folder.mkdir()
        source = train_pieces(sentences(300, 1), 80)
        target = train_pieces([text[::-1] for text in sentences(300, 2)], 60, model_type="bpe")
        (folder / "source.spm").write_bytes(source)
        (folder / "target.spm").write_bytes(target)
        if separate:
            src = write_list(folder / "vocab.json", pieces_of(source))
            tgt = write_list(folder / "target_vocab.json", pieces_of(target))
        else:
            src = tgt = write_list(folder / "vocab.json", [*tags, *pieces_of(source), *pieces_of(target)])
        tokenizer_config = {"source_lang": "en", "target_lang": "ne", "separate_vocabs": separate}
        (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer_config), "utf-8")
        sizes: dict[str, Any] = {
            **{"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48},
            **{"encoder_attention_heads": 4, "decoder_attention_heads": 4, "max_position_embeddings": 128},
            **{"activation_function": "swish", "scale_embedding": True},
        }
        config = MarianConfig(
            vocab_size=len(src),
            decoder_vocab_size=len(tgt),
            pad_token_id=src["<pad>"],
            eos_token_id=tgt["</s>"],
            forced_eos_token_id=tgt["</s>"],
            decoder_start_token_id=tgt["<pad>"],
            **(sizes | settings),
        )
        model = MarianMTModel(config).eval()
        shake(model)
        model.tie_weights()
        model.final_logits_bias[0, tgt["</s>"]] += end
        model.generation_config.update(num_beams=4, max_length=40, bad_words_ids=[[tgt["<pad>"]]])
        model.save_pretrained(folder)
        return folder

    return make


@pytest.fixture
def t5_folder(tmp_path: Path) -> Callable[..., Path]:
    """A T5 folder with a SentencePiece model of T5's kind: padding 0, end 1, unknown 2."""

    def make(
        name: str = "t5", kind: type[T5ForConditionalGeneration] = T5ForConditionalGeneration, **settings: Any
    ) -> Path:
        torch.manual_seed(6)
        folder = tmp_path / name
        folder.mkdir()
        proto = train_pieces(sentences(300, 1), 60, pad_id=0, eos_id=1, unk_id=2, bos_id=-1, pad_piece="<pad>")
        (folder / "spiece.model").write_bytes(proto)
        (folder / "tokenizer_config.json").write_text(json.dumps({"extra_ids": 5}), "utf-8")
        sizes: dict[str, Any] = {
            **{"d_model": 24, "d_kv": 5, "num_heads": 3, "d_ff": 40, "num_layers": 2, "num_decoder_layers": 3},
            **{"vocab_size": 64, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 12},
            **{"decoder_start_token_id": 0, "layer_norm_epsilon": 1e-4, "initializer_factor": 0.3},
        }
        model = kind(kind.config_class(**(sizes | settings))).eval()
        shake(model)
        model.tie_weights()
        model.save_pretrained(folder)
        return folder

    return make
