"""What there is to say of a model itself."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.config import to_dict
from regard.inspect.interventions import attentions
from regard.model_folder.folder import CARD
from regard.tokenizers.pair import TokenizerPair

if TYPE_CHECKING:
    from regard.inspect.explorer import Explored


def card_of(translator: Explored, config: dict[str, Any]) -> dict[str, Any]:
    model, tokenizer, card = translator.model, translator.tokenizer, translator.folder / CARD
    attention = next(iter(attentions(model).values()), None)
    return {
        "name": name_of(translator.folder),
        "src_lang": translator.src_lang,
        "tgt_lang": translator.tgt_lang,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "config": config,
        "decode": to_dict(translator.decode),
        "vocabulary": tokenizer.tgt.size,
        "joint": tokenizer.joint,
        "tokenizer": tokenizer.src.kind,
        "tokenizer_hash": tokenizer_hash(tokenizer),
        "embedding_scale": model.get_submodule("src_embedding").scale,
        "score_scale": attention and attention.scale,
        "head_size": attention and attention.head_size,
        "card": card.read_text("utf-8", errors="replace") if card.is_file() else "",
    }


def name_of(folder: Path) -> str:
    """That of the folder; a run's model has the run's name."""
    folder = folder.resolve()
    return folder.parent.name if folder.name == "model" else folder.name


def tokenizer_hash(tokenizer: TokenizerPair) -> str:
    """The same for the same tokenizer: only then do ids of one model mean the same to another."""
    content = hashlib.sha256(str(tokenizer.lowercase).encode())
    for name, file in sorted(tokenizer.files().items()):
        content.update(f"{name} {len(file)} ".encode() + file)
    return content.hexdigest()[:24]
