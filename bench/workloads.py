"""Workloads of the benchmarks: model sizes, batches of sentences, model folders with random weights."""

from __future__ import annotations

import gzip
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from regard.config import PRESETS, DecodeConfig, TransformerConfig
from regard.data.batches import Batch, collate
from regard.model_folder.atomic import atomic_folder
from regard.model_folder.folder import ModelDescription, write_model
from regard.models.transformer import Transformer
from regard.tokenizers.pair import TokenizerPair
from regard.tokenizers.special_ids import EOS
from regard.tokenizers.training import train_vocabulary

VOCABULARY, BATCH_TOKENS = 10_000, 4096
TOY_VOCABULARY, TOY_BATCH_TOKENS = 320, 128
TOY = {"d_model": 32, "n_heads": 2, "d_ff": 64, "n_encoder_layers": 1, "n_decoder_layers": 1}
# Equal: nn.Transformer applies dropout to attention weights and activations too, with a single rate.
OPUS_MT = "opus-mt"  # the sizes of OPUS-MT's models
OPUS_MT_VOCABULARY = 65_001
DROPOUTS = {"dropout": 0.1, "attention_dropout": 0.1, "activation_dropout": 0.1}


def config_of(size: str) -> TransformerConfig:
    """The config of 'toy', of a preset, or of OPUS-MT's models, which are `base` with a large vocabulary."""
    if size == OPUS_MT:
        sizes, vocabulary = PRESETS["base"], OPUS_MT_VOCABULARY
    else:
        sizes, vocabulary = (TOY, TOY_VOCABULARY) if size == "toy" else (PRESETS[size], VOCABULARY)
    return TransformerConfig(**{**sizes, **DROPOUTS, "src_vocab_size": vocabulary, "tgt_vocab_size": vocabulary})


def make_batch(rng: np.random.Generator, rows: int, shortest: int, longest: int, vocabulary: int) -> Batch:
    """Random sentences of these lengths, including end of sentence."""
    lengths = rng.integers(shortest - 1, longest, size=(rows, 2))
    pairs = [[rng.integers(4, vocabulary, size=length) for length in pair] for pair in lengths]
    return collate([src for src, _ in pairs], [tgt for _, tgt in pairs])


def make_batches(count: int, size: str, seed: int = 1) -> list[Batch]:
    """Sentences of 9 to 24 tokens, bucketed by length, 4,096 padded tokens per batch."""
    vocabulary, tokens = (TOY_VOCABULARY, TOY_BATCH_TOKENS) if size == "toy" else (VOCABULARY, BATCH_TOKENS)
    rng = np.random.default_rng(seed)
    longest = rng.integers(11, 25, size=count).tolist()
    return [make_batch(rng, tokens // most, most - 2, most, vocabulary) for most in longest]


def multi30k(name: str) -> list[str] | None:
    """The lines of one of Multi30k's files, such as test_2016_flickr.en; None if REGARD_DATA has no such file."""
    path = Path(os.environ.get("REGARD_DATA", "")) / "multi30k" / f"{name}.gz"
    return gzip.decompress(path.read_bytes()).decode("utf-8").splitlines() if path.is_file() else None


def make_tokenizer(texts: Sequence[str] | None, vocabulary: int) -> TokenizerPair:
    """A joint vocabulary of these texts, or of random words."""
    if texts is None:
        letters = np.random.default_rng(1).integers(97, 123, size=(4 * vocabulary, 7)).astype(np.uint8)
        texts = [row.tobytes().decode() for row in letters]
    trained = train_vocabulary(list(texts), "bpe", vocabulary)
    assert trained.size == vocabulary
    return TokenizerPair(trained, trained)


def write_random_model(folder: Path, config: TransformerConfig, tokenizer: TokenizerPair) -> Transformer:
    """Write a model that never generates EOS."""
    torch.manual_seed(1)
    model = Transformer(config).eval().requires_grad_(False)
    model.output.weight.data[EOS] = 0.0  # its logit is 0, and some of the others are always higher
    weights = {name: parameter.numpy() for name, parameter in model.named_parameters()}
    description = ModelDescription(config, DecodeConfig(), "en", "de", False, tokenizer.files())
    with atomic_folder(folder) as path:
        write_model(path, description, weights, "random")
    return model
