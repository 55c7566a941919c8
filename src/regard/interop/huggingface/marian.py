"""Import of Marian models, such as all OPUS-MT models (Tiedemann & Thottingal 2020): nearly the paper's Transformer.

The differences, and how they are converted:

- Marian's sinusoids are all sines, then all cosines; ours alternate. The rest of the model does not depend on the
  order of dimensions, so the dimensions of every matrix are permuted.
- Its ids differ: padding is the last one and also the decoder's start token. Embedding rows are permuted by
  `listed_order`, and our BOS is a copy of the padding row whose output is suppressed.
- It adds a bias per token to the logits: `output_bias`.
- Most of its models have swish in place of the paper's ReLU.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple, assert_never

import numpy as np

from regard.config import FeedForwardKind, TiedEmbeddings, TransformerConfig
from regard.errors import ConfigError, ModelFolderError
from regard.interop.huggingface.folder import (
    HuggingFaceConfig,
    HuggingFaceFolder,
    HuggingFaceTensors,
    Imported,
    build_settings,
)
from regard.interop.huggingface.generation import decode_settings
from regard.model_folder.folder import ModelDescription
from regard.tokenizers.listed_sentencepiece import START_PIECE, ListedSentencePiece, listed_order, read_list
from regard.tokenizers.pair import LIST_FILE, SOURCE_SPM, TARGET_LIST_FILE, TARGET_SPM, TokenizerPair
from regard.tokenizers.special_ids import BOS

ACTIVATIONS: dict[str, FeedForwardKind] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "swish": "swish",
    "silu": "swish",
}
SUPPRESSED_LOGIT = -1e9  # the output bias of tokens that Marian does not have; finite, so that no arithmetic gives NaN
LONGEST = 512  # tokens, where a folder does not specify it
Weights = dict[str, np.ndarray]


class Part(NamedTuple):
    """A part of a layer, by our name and by theirs. `reads`: its columns are model dimensions; `writes`: its rows."""

    ours: str
    theirs: str
    kind: Literal["attention", "norm", "reads", "writes"]


def parts(n_encoder_layers: int, n_decoder_layers: int) -> Iterator[Part]:
    """Every part of every layer."""
    for side, count in (("encoder", n_encoder_layers), ("decoder", n_decoder_layers)):
        for i in range(count):
            ours, theirs = f"{side}.{i}", f"model.{side}.layers.{i}"
            yield Part(f"{ours}.attention", f"{theirs}.self_attn", "attention")
            yield Part(f"{ours}.around_attention.norm", f"{theirs}.self_attn_layer_norm", "norm")
            if side == "decoder":
                yield Part(f"{ours}.cross", f"{theirs}.encoder_attn", "attention")
                yield Part(f"{ours}.around_cross.norm", f"{theirs}.encoder_attn_layer_norm", "norm")
            yield Part(f"{ours}.ffn.up", f"{theirs}.fc1", "reads")
            yield Part(f"{ours}.ffn.down", f"{theirs}.fc2", "writes")
            yield Part(f"{ours}.around_ffn.norm", f"{theirs}.final_layer_norm", "norm")


def import_marian(folder: HuggingFaceFolder) -> Imported:
    files = read_tokenizer_files(folder)
    try:
        source = read_list(files[LIST_FILE])
        target = read_list(files.get(TARGET_LIST_FILE, files[LIST_FILE]))
        TokenizerPair.from_files(files, lowercase=False)
        tags = ListedSentencePiece(files[SOURCE_SPM], files[LIST_FILE]).tags
    except ConfigError as error:
        raise ModelFolderError(f"{folder.path}: the tokenizer cannot be read: {error}") from None
    check_sizes(folder.config, source, target)
    src_order, tgt_order = listed_order(source), listed_order(target)
    tgt_order[BOS] = folder.config.token("decoder_start_token_id", len(target), tgt_order[BOS])
    config = marian_config(folder.config, len(src_order), len(tgt_order))
    has_start = START_PIECE in target
    tensors = folder.tensors()
    check_width(tensors, config.d_model)
    weights = marian_weights(tensors, folder.config, config, src_order, tgt_order, has_start)
    tokenizer_config = folder.optional_config("tokenizer_config.json")
    src_lang, tgt_lang = (tokenizer_config.text(name) for name in ("source_lang", "target_lang"))
    decode = decode_settings(folder, beam=4, longest=LONGEST)
    return Imported(ModelDescription(config, decode, src_lang, tgt_lang, False, files, tags), weights)


def read_tokenizer_files(folder: HuggingFaceFolder) -> dict[str, bytes]:
    """The tokenizer's files, unchanged."""
    names = [SOURCE_SPM, TARGET_SPM, LIST_FILE, *([TARGET_LIST_FILE] if folder.has(TARGET_LIST_FILE) else [])]
    return {name: folder.bytes(name) for name in names}


def check_sizes(config: HuggingFaceConfig, source: dict[str, int], target: dict[str, int]) -> None:
    """EOS, the start token and the sizes must agree with the lists of pieces."""
    config.require("eos_token_id", target["</s>"], default=target["</s>"])
    if START_PIECE in target:
        config.require("decoder_start_token_id", target[START_PIECE])
    for size, numbers, side in (("vocab_size", source, "source"), ("decoder_vocab_size", target, "target")):
        if config.number(size, len(numbers)) != len(numbers):
            raise ModelFolderError(
                f"{config.where}: {size} is {config.get(size)}, but the list of {side} pieces has {len(numbers)}"
            )


def marian_config(config: HuggingFaceConfig, src_size: int, tgt_size: int) -> TransformerConfig:
    """Their settings as ours; a setting that changes the mathematics and has no counterpart here is refused."""
    for name in ("normalize_before", "normalize_embedding", "add_final_layer_norm"):
        config.require(name, False, default=False)
    config.require("static_position_embeddings", True, default=True)
    heads, d_ff = config.number("encoder_attention_heads"), config.number("encoder_ffn_dim")
    config.require("decoder_attention_heads", heads)
    config.require("decoder_ffn_dim", d_ff)
    activation = config.require("activation_function", *ACTIVATIONS)
    d_model = config.number("d_model")
    if d_model % 2:
        raise ModelFolderError(f"{config.where}: d_model = {d_model} is odd; Regard imports even sizes only")
    return build_settings(
        TransformerConfig,
        config.where,
        d_model=d_model,
        n_heads=heads,
        d_ff=d_ff,
        n_encoder_layers=config.number("encoder_layers"),
        n_decoder_layers=config.number("decoder_layers"),
        ffn=ACTIVATIONS[activation],
        tie_embeddings=tied_embeddings(config),
        dropout=config.real("dropout", 0.1),
        attention_dropout=config.real("attention_dropout", 0.0),
        activation_dropout=config.real("activation_dropout", 0.0),
        src_vocab_size=src_size,
        tgt_vocab_size=tgt_size,
        output_bias=True,
    )


def tied_embeddings(config: HuggingFaceConfig) -> TiedEmbeddings:
    if not config.flag("scale_embedding", False):
        return "none"  # our input embeddings are scaled: take_embeddings divides them, but not the output
    if not config.flag("tie_word_embeddings", True):
        return "none"
    return "all" if config.flag("share_encoder_decoder_embeddings", True) else "output"


def marian_weights(
    tensors: HuggingFaceTensors,
    theirs: HuggingFaceConfig,
    config: TransformerConfig,
    src_order: list[int],
    tgt_order: list[int],
    has_start: bool,
) -> Weights:
    """Their tensors by our names, all of them used; `has_start`: BOS is a token of their vocabulary."""
    d_model, d_ff, dimensions = config.d_model, config.d_ff, dimension_order(config.d_model)
    check_positions(tensors, d_model)
    weights: Weights = {}
    for part in parts(config.n_encoder_layers, config.n_decoder_layers):
        match part.kind:
            case "attention":
                weights |= take_attention(tensors, part, dimensions)
            case "norm":
                for name in ("weight", "bias"):
                    weights[f"{part.ours}.{name}"] = tensors.take(f"{part.theirs}.{name}", d_model)[dimensions]
            case "reads":
                weights[f"{part.ours}.weight"] = tensors.take(f"{part.theirs}.weight", d_ff, d_model)[:, dimensions]
                weights[f"{part.ours}.bias"] = tensors.take(f"{part.theirs}.bias", d_ff)
            case "writes":
                weights[f"{part.ours}.weight"] = tensors.take(f"{part.theirs}.weight", d_model, d_ff)[dimensions]
                weights[f"{part.ours}.bias"] = tensors.take(f"{part.theirs}.bias", d_model)[dimensions]
            case _:
                assert_never(part.kind)
    weights |= take_embeddings(tensors, theirs, config, src_order, tgt_order)
    size = len(tgt_order) if has_start else len(tgt_order) - 1
    bias = tensors.take_optional("final_logits_bias", 1, size)
    weights["output_bias"] = np.zeros(len(tgt_order), np.float32) if bias is None else bias[0, tgt_order]
    if not has_start:
        weights["output_bias"][BOS] = SUPPRESSED_LOGIT
    tensors.finish()
    return weights


def check_width(tensors: HuggingFaceTensors, d_model: int) -> None:
    """Compare d_model with the weights before anything of that size is computed."""
    tensors.check("model.encoder.layers.0.self_attn.q_proj.weight", d_model, d_model)


def dimension_order(d_model: int) -> np.ndarray:
    """For each of our dimensions, alternating sine and cosine, the index of theirs."""
    return np.arange(d_model).reshape(2, d_model // 2).T.ravel()


def take_attention(tensors: HuggingFaceTensors, part: Part, dimensions: np.ndarray) -> Weights:
    d_model = len(dimensions)
    projections = [f"{part.theirs}.{letter}_proj" for letter in "qkv"]
    rows = np.concatenate([tensors.take(f"{name}.weight", d_model, d_model) for name in projections])
    return {
        f"{part.ours}.qkv.weight": rows[:, dimensions],
        f"{part.ours}.qkv.bias": np.concatenate([tensors.take(f"{name}.bias", d_model) for name in projections]),
        f"{part.ours}.out.weight": tensors.take(f"{part.theirs}.out_proj.weight", d_model, d_model)[dimensions],
        f"{part.ours}.out.bias": tensors.take(f"{part.theirs}.out_proj.bias", d_model)[dimensions],
    }


def take_embeddings(
    tensors: HuggingFaceTensors,
    theirs: HuggingFaceConfig,
    config: TransformerConfig,
    src_order: list[int],
    tgt_order: list[int],
) -> Weights:
    """One table, two or three; some files store a shared table under each of its names."""
    one_table = theirs.flag("share_encoder_decoder_embeddings", True)
    tied = theirs.flag("tie_word_embeddings", True)
    names = ("model.shared", "model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head")
    found = {name: tensors.take_optional(f"{name}.weight") for name in names}
    shared, encoder, decoder, head = names
    if tied and one_table:
        source = target = output = first_of(found, tensors, shared, encoder, decoder, head)
    elif tied:
        source, target = first_of(found, tensors, encoder), first_of(found, tensors, decoder, head)
        output = target
    else:
        source, target = first_of(found, tensors, encoder, shared), first_of(found, tensors, decoder, shared)
        output = first_of(found, tensors, head)
    for matrix, order in ((source, src_order), (target, tgt_order), (output, tgt_order)):
        if matrix.shape != (max(order) + 1, config.d_model):
            raise ModelFolderError(
                f"{tensors.where}: the embeddings have the shape {matrix.shape}, but config.json and the tokenizer "
                f"imply {(max(order) + 1, config.d_model)}"
            )
    dimensions = dimension_order(config.d_model)
    scale = np.float32(1 if theirs.flag("scale_embedding", False) else config.d_model**-0.5)
    weights = {"tgt_embedding.weight": (target * scale)[tgt_order][:, dimensions]}
    if config.tie_embeddings != "all":
        weights["src_embedding.weight"] = (source * scale)[src_order][:, dimensions]
    if config.tie_embeddings == "none":
        weights["output.weight"] = output[tgt_order][:, dimensions]
    return weights


def first_of(found: Mapping[str, np.ndarray | None], tensors: HuggingFaceTensors, *names: str) -> np.ndarray:
    for name in names:
        tensor = found[name]
        if tensor is not None:
            return tensor
    return tensors.take(f"{names[0]}.weight")  # raises: it is missing


def check_positions(tensors: HuggingFaceTensors, d_model: int) -> None:
    """Older files store the sinusoids, which we compute; refuse a table that differs from them."""
    for side in ("encoder", "decoder"):
        name = f"model.{side}.embed_positions.weight"
        table = tensors.take_optional(name)
        if table is None:
            continue
        if table.ndim != 2 or table.shape[1] != d_model:
            raise ModelFolderError(f"{tensors.where}: {name} has the shape {table.shape}, not {d_model} columns")
        angle = np.arange(len(table))[:, None] / 10_000 ** (np.arange(0, d_model, 2) / d_model)
        if not np.allclose(table, np.concatenate([np.sin(angle), np.cos(angle)], axis=1), atol=1e-3):
            raise ModelFolderError(
                f"{tensors.where}: {name} is not the table of sinusoids; learned positions are not supported for Marian"
            )
