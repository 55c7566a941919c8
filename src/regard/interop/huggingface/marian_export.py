"""Export of a Transformer of the paper's shape as a Marian folder, which the transformers library reads.

An imported model gets its own files and ids back. A model trained with Regard keeps its ids; its list of pieces has a
start token, which Marian's own models do not have.

Their tokenizer normalises text differently, and so does their search end: greedy translations of normalised text are
the same, beams may differ.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, assert_never

import numpy as np

from regard.config import TransformerConfig
from regard.config.support import FULL_ONLY, MOE, MultipleOf, Support, any_value
from regard.errors import ConfigError, ModelFolderError
from regard.interop.huggingface.folder import CONFIG, GENERATION, SAFE
from regard.interop.huggingface.marian import ACTIVATIONS, LONGEST, Weights, dimension_order, parts
from regard.model_folder.atomic import atomic_folder
from regard.model_folder.folder import ModelDescription, read_description
from regard.models.load import read_fitting_weights
from regard.tokenizers.listed_sentencepiece import (
    EOS_PIECE,
    PAD_PIECE,
    START_PIECE,
    UNK_PIECE,
    ListedSentencePiece,
    listed_order,
    read_list,
)
from regard.tokenizers.pair import LIST_FILE, SOURCE_SPM, TARGET_LIST_FILE, TARGET_SPM, TokenizerPair
from regard.tokenizers.read import translation_tokenizer
from regard.tokenizers.sentencepiece import SentencePieceModel
from regard.tokenizers.special_ids import BOS, EOS, PAD, UNK

MAX_POSITIONS = 1024  # rows of the sinusoidal table that the library creates
ABSENT = -1  # the id of a BOS that is a copy of another token, and not in their vocabulary

SUPPORT = Support(
    "the export to Marian",
    {
        TransformerConfig: {
            "family": ("transformer",),
            "d_model": MultipleOf(2),
            "position": ("sinusoidal",),
            "norm_order": ("post",),
            "norm": ("layernorm",),
            "ffn": tuple(dict.fromkeys(ACTIVATIONS.values())),
            "tie_embeddings": ("all", "output", "none"),
            "attention": FULL_ONLY,
            "decoder_attention": FULL_ONLY,
            "cross_attention": FULL_ONLY,
            "residual": ("standard",),
            "moe": MOE,
            **any_value("n_heads", "d_ff", "n_encoder_layers", "n_decoder_layers", "max_positions"),
            **any_value("src_vocab_size", "tgt_vocab_size", "output_bias"),
            **any_value("dropout", "attention_dropout", "activation_dropout"),
        }
    },
)


def export_marian(folder: Path, output: Path) -> None:
    """Write the model in `folder` to the new folder `output`."""
    if output.exists():
        raise ModelFolderError(f"{output} exists already; name another folder")
    description = read_description(folder)
    SUPPORT.check(description.model)
    translation_tokenizer(folder, description)
    write_marian(description, read_fitting_weights(folder, description.model), output)


def write_marian(description: ModelDescription, weights: Weights, output: Path) -> None:
    """Write a Marian folder; a ConfigError for a model that Marian has no counterpart for."""
    config = description.model
    SUPPORT.check(config)
    assert isinstance(config, TransformerConfig)
    tokenizer = TokenizerPair.from_files(description.tokenizer, description.lowercase)
    files = tokenizer_files(tokenizer)
    source, target = (marian_ids(one) for one in (tokenizer.src, tokenizer.tgt))
    tensors = to_marian(config, weights, source, target)
    start = start_id(weights, target)
    with atomic_folder(output) as temporary:
        write_json(temporary / CONFIG, marian_settings(config, source, target, start))
        write_json(temporary / GENERATION, generation_settings(description, target, start))
        write_json(temporary / "tokenizer_config.json", tokenizer_settings(description, TARGET_LIST_FILE in files))
        for name, content in files.items():
            (temporary / name).write_bytes(content)
        write_tensors(temporary / SAFE, tensors)


def marian_ids(vocabulary: SentencePieceModel) -> list[int]:
    """For each of our ids, Marian's."""
    if not isinstance(vocabulary, ListedSentencePiece):
        return list(range(vocabulary.size))
    numbers = read_list(vocabulary.listing)
    has_start = START_PIECE in numbers
    return [number if id != BOS or has_start else ABSENT for id, number in enumerate(listed_order(numbers))]


def start_id(weights: Weights, target: list[int]) -> int:
    """The decoder's start token: our BOS, or the token that it is a copy of."""
    if target[BOS] != ABSENT:
        return target[BOS]
    table = weights["tgt_embedding.weight"]
    for id in (PAD, EOS):
        if np.array_equal(table[id], table[BOS]):
            return target[id]
    raise ConfigError("the model starts with a token that its list of pieces does not have; Marian cannot express that")


def tokenizer_files(tokenizer: TokenizerPair) -> dict[str, bytes]:
    if isinstance(tokenizer.src, ListedSentencePiece):
        return tokenizer.files()
    files = {SOURCE_SPM: tokenizer.src.proto, TARGET_SPM: tokenizer.tgt.proto, LIST_FILE: list_pieces(tokenizer.src)}
    return files if tokenizer.joint else {**files, TARGET_LIST_FILE: list_pieces(tokenizer.tgt)}


def list_pieces(vocabulary: SentencePieceModel) -> bytes:
    pieces = vocabulary.pieces(range(vocabulary.size))
    for id, name in ((PAD, PAD_PIECE), (UNK, UNK_PIECE), (BOS, START_PIECE), (EOS, EOS_PIECE)):
        pieces[id] = name
    return json.dumps({piece: id for id, piece in enumerate(pieces)}, ensure_ascii=False).encode()


def to_marian(config: TransformerConfig, weights: Weights, source: list[int], target: list[int]) -> Weights:
    """Our weights by their names."""
    back = np.argsort(dimension_order(config.d_model))  # for each of their dimensions, the index of ours
    tensors: Weights = {}
    for part in parts(config.n_encoder_layers, config.n_decoder_layers):
        match part.kind:
            case "attention":
                rows = np.split(weights[f"{part.ours}.qkv.weight"], 3), np.split(weights[f"{part.ours}.qkv.bias"], 3)
                for letter, weight, bias in zip("qkv", *rows, strict=True):
                    tensors[f"{part.theirs}.{letter}_proj.weight"] = weight[:, back]
                    tensors[f"{part.theirs}.{letter}_proj.bias"] = bias
                tensors[f"{part.theirs}.out_proj.weight"] = weights[f"{part.ours}.out.weight"][back]
                tensors[f"{part.theirs}.out_proj.bias"] = weights[f"{part.ours}.out.bias"][back]
            case "norm":
                for name in ("weight", "bias"):
                    tensors[f"{part.theirs}.{name}"] = weights[f"{part.ours}.{name}"][back]
            case "reads":
                tensors[f"{part.theirs}.weight"] = weights[f"{part.ours}.weight"][:, back]
                tensors[f"{part.theirs}.bias"] = weights[f"{part.ours}.bias"]
            case "writes":
                tensors[f"{part.theirs}.weight"] = weights[f"{part.ours}.weight"][back]
                tensors[f"{part.theirs}.bias"] = weights[f"{part.ours}.bias"][back]
            case _:
                assert_never(part.kind)
    bias = weights.get("output_bias", np.zeros(config.tgt_vocab_size, np.float32))
    tensors["final_logits_bias"] = reordered(bias[:, None], target).T
    names = {"tgt_embedding": "model.shared"} if config.tie_embeddings == "all" else OWN_TABLES
    orders = {"src_embedding": source, "tgt_embedding": target, "output": target}
    for ours, theirs in names.items():
        if f"{ours}.weight" in weights:
            tensors[f"{theirs}.weight"] = reordered(weights[f"{ours}.weight"], orders[ours])[:, back]
    return tensors


OWN_TABLES = {
    "src_embedding": "model.encoder.embed_tokens",
    "tgt_embedding": "model.decoder.embed_tokens",
    "output": "lm_head",
}


def reordered(rows: np.ndarray, numbers: list[int]) -> np.ndarray:
    """The rows in the order of Marian's ids."""
    kept = [(number, id) for id, number in enumerate(numbers) if number != ABSENT]
    return rows[[id for _, id in sorted(kept)]]


def size_of(numbers: list[int]) -> int:
    return sum(number != ABSENT for number in numbers)


def marian_settings(config: TransformerConfig, source: list[int], target: list[int], start: int) -> dict[str, Any]:
    activation = next(theirs for theirs, ours in ACTIVATIONS.items() if ours == config.ffn)
    # The library needs one padding id within both tables; padded positions are masked.
    padding = source[PAD] if size_of(source) <= size_of(target) else target[PAD]
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "vocab_size": size_of(source),
        "decoder_vocab_size": size_of(target),
        "share_encoder_decoder_embeddings": config.tie_embeddings == "all",
        "tie_word_embeddings": config.tie_embeddings != "none",
        "d_model": config.d_model,
        "encoder_layers": config.n_encoder_layers,
        "decoder_layers": config.n_decoder_layers,
        "encoder_attention_heads": config.n_heads,
        "decoder_attention_heads": config.n_heads,
        "encoder_ffn_dim": config.d_ff,
        "decoder_ffn_dim": config.d_ff,
        "activation_function": activation,
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "activation_dropout": config.activation_dropout,
        "scale_embedding": True,
        "static_position_embeddings": True,
        "max_position_embeddings": MAX_POSITIONS,
        "pad_token_id": padding,
        "eos_token_id": target[EOS],
        "forced_eos_token_id": target[EOS],
        "decoder_start_token_id": start,
    }


def generation_settings(description: ModelDescription, target: list[int], start: int) -> dict[str, Any]:
    suppressed = {target[PAD], start} - {target[EOS]}
    if description.decode.beam_rule == "paper":
        suppressed.add(target[UNK])
    return {
        "num_beams": description.decode.beam,
        "length_penalty": description.decode.length_penalty,
        "max_length": LONGEST,
        "pad_token_id": target[PAD],
        "eos_token_id": target[EOS],
        "forced_eos_token_id": target[EOS],
        "decoder_start_token_id": start,
        "bad_words_ids": [[number] for number in sorted(suppressed)],
    }


def tokenizer_settings(description: ModelDescription, separate: bool) -> dict[str, Any]:
    return {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": description.src_lang,
        "target_lang": description.tgt_lang,
        "model_max_length": LONGEST,
        "separate_vocabs": separate,
        "pad_token": PAD_PIECE,
        "unk_token": UNK_PIECE,
        "eos_token": EOS_PIECE,
    }


def write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", "utf-8")


def write_tensors(path: Path, tensors: Weights) -> None:
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    try:
        save_file({name: np.ascontiguousarray(array) for name, array in tensors.items()}, path, {"format": "pt"})
    except SafetensorError as error:  # also raised when the disk is full
        raise OSError(f"{path.name}: {error}") from None
