"""What the tasks of models of one text share."""

from __future__ import annotations

from regard.config import RunConfig
from regard.model_folder.folder import ModelDescription
from regard.tokenizers.protocol import Tokenizer


def window_length(run: RunConfig, longest: int | None) -> int:
    """How many tokens are seen at once: as many as the model can, up to data.filters.max_tokens."""
    wanted = run.data.filters.max_tokens
    return wanted if longest is None else min(wanted, longest)


def describe_model(run: RunConfig, lexicon: Tokenizer, labels: tuple[str, ...] = ()) -> ModelDescription:
    data = run.data
    return ModelDescription(
        run.model, run.decode, data.src_lang, data.tgt_lang, lexicon.lowercase, lexicon.files(), labels=labels
    )
