"""A model for the page to compute itself, as one binary body: its description and the files that it needs.

The page's own model is web/src/model: the paper's Transformer with search, taps and interventions. The server, the live
page and the static site all send models in this form. The characters that normalisation folds come with the model,
since a browser does not know how a character is decomposed.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from regard.config import TransformerConfig
from regard.config.support import FEED_FORWARDS, FULL_ONLY, MOE, Support, any_value
from regard.errors import ConfigError
from regard.inspect.answers import Limits, Model
from regard.inspect.explorer import Explorer
from regard.inspect.passage import ExplorableTranslator
from regard.inspect.wire import pack
from regard.model_folder.folder import WEIGHTS
from regard.model_folder.weights import StoredAs, read_header, read_weights, write_weights
from regard.text.normalise import folded_characters
from regard.tokenizers.listed_sentencepiece import ListedSentencePiece
from regard.tokenizers.model_proto import refusal_of_proto

FORMAT = 1
MOST_BYTES = 64 << 20  # of weights; larger ones are stored in int8, unless another type is asked for
PAGE = "the page's own model"
PAGE_SUPPORT = Support(
    PAGE,
    {
        TransformerConfig: {
            "family": ("transformer",),
            "position": ("sinusoidal", "learned", "rotary", "alibi", "relative", "none"),
            "norm_order": ("post", "pre"),
            "norm": ("layernorm", "rmsnorm"),
            "ffn": FEED_FORWARDS,
            "tie_embeddings": ("all", "output", "none"),
            "attention": FULL_ONLY,
            "decoder_attention": FULL_ONLY,
            "cross_attention": FULL_ONLY,
            "moe": MOE,
            "residual": ("standard",),
            **any_value("d_model", "n_heads", "d_ff", "n_encoder_layers", "n_decoder_layers", "max_positions"),
            **any_value("src_vocab_size", "tgt_vocab_size", "output_bias"),
            **any_value("dropout", "attention_dropout", "activation_dropout"),
        }
    },
)


@dataclass(frozen=True)
class PackedModelHeader:
    """The arrays are the bytes of the model folder's files, by their names."""

    format: int
    model: Model
    limits: Limits
    lowercase: bool
    folding: dict[str, str]  # what normalisation folds characters to


def refusal(translator: ExplorableTranslator) -> str | None:
    """Why the page cannot compute this model itself, in a sentence; None: it can."""
    if reason := PAGE_SUPPORT.refusal(translator.model.config):
        return reason
    if translator.decode.beam_rule != "paper":
        return f"{PAGE} does not support decode.beam_rule = {translator.decode.beam_rule!r}; it supports 'paper'"
    if translator.tasks:
        return f"{PAGE} does not support models with tasks"
    for vocabulary in (translator.tokenizer.src, translator.tokenizer.tgt):
        if isinstance(vocabulary, ListedSentencePiece):
            return f"{PAGE} does not support a tokenizer with a separate list of pieces"
        if reason := refusal_of_proto(vocabulary.proto):
            return f"{PAGE} does not support {reason}"
    return None


def pack_model(explorer: Explorer, described: Model, stored_as: StoredAs | None = None) -> bytes:
    """The body; `stored_as` is the type of the numbers, that of the folder if None."""
    translator = explorer.translator
    if reason := refusal(translator):
        raise ConfigError(reason)
    header = PackedModelHeader(
        FORMAT,
        replace(described, in_page=True),
        explorer.limits,
        translator.tokenizer.lowercase,
        folded_characters(),
    )
    files = {**translator.tokenizer.files(), WEIGHTS: weights_file(translator.folder, stored_as)}
    return pack(header, {name: np.frombuffer(content, np.uint8) for name, content in files.items()})


def weights_file(folder: Path, stored_as: StoredAs | None) -> bytes:
    if stored_as is None or stored_as == type_of_weights(folder):
        return (folder / WEIGHTS).read_bytes()
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / WEIGHTS
        write_weights(path, read_weights(folder, WEIGHTS), stored_as)
        return path.read_bytes()


def type_of_weights(folder: Path) -> StoredAs:
    """The type of a folder's matrices."""
    types = {tensor.type for tensor in read_header(folder, WEIGHTS).weights.values()}
    return "int8" if "I8" in types else "bfloat16" if "BF16" in types else "float32"


def type_to_send(folder: Path, asked: StoredAs | None = None) -> StoredAs:
    """The type asked for; without one, that of the folder, or int8 if its weights are large."""
    if asked is not None:
        return asked
    return type_of_weights(folder) if (folder / WEIGHTS).stat().st_size <= MOST_BYTES else "int8"
