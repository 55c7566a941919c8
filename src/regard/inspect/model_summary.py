"""A model's settings, size, tokenizer and card."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.config import to_dict
from regard.inspect.answers import Model, ModelSettings
from regard.inspect.patching import attentions
from regard.model_folder.folder import CARD
from regard.tokenizers.pair import TokenizerPair

if TYPE_CHECKING:
    from regard.inspect.passage import ExplorableTranslator


def describe_model(translator: ExplorableTranslator, id: str, name: str | None, recorded: bool) -> Model:
    """`name`: that of its folder, if None."""
    model, tokenizer, card = translator.model, translator.tokenizer, translator.folder / CARD
    attention = next(iter(attentions(model).values()), None)
    return Model(
        id=id,
        name=name or name_of(translator.folder),
        src_lang=translator.src_lang,
        tgt_lang=translator.tgt_lang,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        config=model_settings(model.config),
        decode=translator.decode,
        vocabulary=tokenizer.tgt.size,
        joint=tokenizer.joint,
        tokenizer=tokenizer.src.kind,
        tokenizer_hash=tokenizer_hash(tokenizer),
        embedding_scale=model.get_submodule("src_embedding").scale,  # type: ignore[arg-type]
        score_scale=None if attention is None else attention.scale,
        head_size=None if attention is None else attention.head_size,
        card=card.read_text("utf-8", errors="replace") if card.is_file() else "",
        recorded=recorded,
        in_page=False,
    )


def model_settings(config: Any) -> ModelSettings:
    settings: ModelSettings = {**config.fixed_settings, **to_dict(config)}  # type: ignore[typeddict-item]
    return settings


def name_of(folder: Path) -> str:
    """The folder's name; for the model of a run, the run's."""
    folder = folder.resolve()
    return folder.parent.name if folder.name == "model" else folder.name


def tokenizer_hash(tokenizer: TokenizerPair) -> str:
    """Equal for equal tokenizers: only then do the ids of one model mean the same to another."""
    content = hashlib.sha256(str(tokenizer.lowercase).encode())
    for name, file in sorted(tokenizer.files().items()):
        content.update(f"{name} {len(file)} ".encode() + file)
    return content.hexdigest()[:24]
