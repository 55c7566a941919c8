"""Shared by the tasks on a single text (as opposed to sentence pairs)."""

from __future__ import annotations

from regard.config import RunConfig
from regard.model_folder.folder import ModelDescription
from regard.tokenizers.protocol import Tokenizer


def window_length(run: RunConfig, longest: int | None) -> int:
    """Tokens per window: data.filters.max_tokens, limited by the model's positions."""
    wanted = run.data.filters.max_tokens
    return wanted if longest is None else min(wanted, longest)


def describe_model(run: RunConfig, tokenizer: Tokenizer, labels: tuple[str, ...] = ()) -> ModelDescription:
    data = run.data
    return ModelDescription(
        run.model, run.decode, data.src_lang, data.tgt_lang, tokenizer.lowercase, tokenizer.files(), labels=labels
    )
