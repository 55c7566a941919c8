"""Import of GPT-2 (Radford et al. 2019).

Its matrices are transposed, with one row per input, as in the original implementation; the rest is renamed.
"""

from __future__ import annotations

import numpy as np

from regard.config import DecodeConfig, GptConfig
from regard.errors import ConfigError, ModelFolderError
from regard.interop.huggingface.bert import (
    ACTIVATIONS,
    TOKENIZER_CONFIG,
    TOKENIZER_JSON,
    read_ids,
    weight_and_bias,
)
from regard.interop.huggingface.folder import (
    HuggingFaceConfig,
    HuggingFaceFolder,
    HuggingFaceTensors,
    Imported,
    build_settings,
)
from regard.model_folder.folder import ModelDescription
from regard.tokenizers.byte_level_bpe import (
    MERGES_FILE,
    VOCABULARY_FILE,
    ByteLevelBpeTokenizer,
    read_files,
    read_merges,
)

Weights = dict[str, np.ndarray]


def import_gpt2(folder: HuggingFaceFolder) -> Imported:
    tokenizer = read_bytelevel(folder)
    config = gpt_config(folder.config)
    if tokenizer.size > config.vocab_size:
        raise ModelFolderError(
            f"{folder.path}: the tokenizer has {tokenizer.size} pieces, the model only {config.vocab_size}"
        )
    tensors = folder.tensors()
    tensors.strip("transformer.")  # noqa: B005
    weights = gpt_weights(tensors, config)
    return Imported(ModelDescription(config, DecodeConfig(), "", "", False, tokenizer.files()), weights)


def gpt_config(config: HuggingFaceConfig) -> GptConfig:
    """Their settings as ours; a setting that changes the mathematics and has no counterpart here is refused."""
    config.require("scale_attn_weights", True, default=True)
    config.require("tie_word_embeddings", True, default=True)
    for name in ("scale_attn_by_inverse_layer_idx", "add_cross_attention"):
        config.require(name, False, default=False)
    d_model = config.number("n_embd")
    residual, embedding = config.real("resid_pdrop", 0.1), config.real("embd_pdrop", 0.1)
    return build_settings(
        GptConfig,
        config.where,
        d_model=d_model,
        n_heads=config.number("n_head"),
        d_ff=config.number("n_inner", 4 * d_model),
        n_layers=config.number("n_layer"),
        max_positions=config.number("n_positions"),
        ffn=ACTIVATIONS[config.require("activation_function", *ACTIVATIONS, default="gelu_new")],
        norm_eps=config.real("layer_norm_epsilon", 1e-5),
        dropout=max(residual, embedding),  # one rate in Regard; it matters only for further training
        attention_dropout=config.real("attn_pdrop", 0.1),
        vocab_size=config.number("vocab_size"),
    )


def gpt_weights(tensors: HuggingFaceTensors, config: GptConfig) -> Weights:
    """Their tensors by our names, all of them used."""
    d_model, d_ff = config.d_model, config.d_ff
    weights: Weights = {
        "embedding.weight": tensors.take("wte.weight", config.vocab_size, d_model),
        "positions.table_LD": tensors.take("wpe.weight", config.max_positions, d_model),
        **weight_and_bias(tensors, "last_norm", "ln_f", d_model),
    }
    for i in range(config.n_layers):
        ours, theirs = f"layers.{i}", f"h.{i}"
        weights |= weight_and_bias(tensors, f"{ours}.around_attention.norm", f"{theirs}.ln_1", d_model)
        weights |= transposed(tensors, f"{ours}.attention.qkv", f"{theirs}.attn.c_attn", d_model, 3 * d_model)
        weights |= transposed(tensors, f"{ours}.attention.out", f"{theirs}.attn.c_proj", d_model, d_model)
        weights |= weight_and_bias(tensors, f"{ours}.around_ffn.norm", f"{theirs}.ln_2", d_model)
        weights |= transposed(tensors, f"{ours}.ffn.up", f"{theirs}.mlp.c_fc", d_model, d_ff)
        weights |= transposed(tensors, f"{ours}.ffn.down", f"{theirs}.mlp.c_proj", d_ff, d_model)
    output = tensors.take_optional("lm_head.weight")
    if output is not None and not np.array_equal(output, weights["embedding.weight"]):
        raise ModelFolderError(
            f"{tensors.where}: the output (lm_head.weight) is a separate matrix; Regard shares the embeddings"
        )
    tensors.discard("h.*.attn.bias", "h.*.attn.masked_bias")  # the causal mask, which older folders store
    tensors.finish()
    return weights


def transposed(tensors: HuggingFaceTensors, ours: str, theirs: str, n_in: int, n_out: int) -> Weights:
    """A linear map stored with one row per input."""
    return {
        f"{ours}.weight": np.ascontiguousarray(tensors.take(f"{theirs}.weight", n_in, n_out).T),
        f"{ours}.bias": tensors.take(f"{theirs}.bias", n_out),
    }


def read_bytelevel(folder: HuggingFaceFolder) -> ByteLevelBpeTokenizer:
    """The tokenizer from vocab.json and merges.txt, or from tokenizer.json in newer folders."""
    folder.optional_config(TOKENIZER_CONFIG).require("add_prefix_space", False, default=False)
    try:
        return ByteLevelBpeTokenizer(*read_bpe(folder))
    except ConfigError as error:
        raise ModelFolderError(f"{folder.path}: the tokenizer cannot be read: {error}") from None


def read_bpe(folder: HuggingFaceFolder) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """The ids of the pieces, and the merges."""
    if folder.has(VOCABULARY_FILE) or not folder.has(TOKENIZER_JSON):
        return read_files({name: folder.bytes(name) for name in (VOCABULARY_FILE, MERGES_FILE)})
    whole = folder.optional_config(TOKENIZER_JSON)
    model, vocabulary = whole.inner("model"), {**read_ids(whole.inner("model"))}
    if model.get("type") != "BPE" or whole.inner("pre_tokenizer").get("type") != "ByteLevel":
        raise ConfigError("tokenizer.json is not a byte-level BPE tokenizer")
    for added in whole.tables("added_tokens"):
        vocabulary.setdefault(added.text("content"), added.number("id"))
    return vocabulary, merges_of(model)


def merges_of(model: HuggingFaceConfig) -> list[tuple[str, str]]:
    """Pairs, or in older files two pieces separated by a space."""
    merges = model.get("merges", [])
    if isinstance(merges, list) and all(isinstance(merge, str) for merge in merges):
        return read_merges(merges)
    pairs = [tuple(merge) for merge in merges if isinstance(merge, list)] if isinstance(merges, list) else []
    if len(pairs) != len(merges) or not all(len(pair) == 2 and all(isinstance(p, str) for p in pair) for pair in pairs):
        raise ModelFolderError(f"{model.where}: model.merges must be a list of pairs of pieces")
    return pairs
