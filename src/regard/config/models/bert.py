"""BERT: the encoder-only Transformer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from regard.config.attention import FULL_ATTENTION, AttentionConfig, check_attention
from regard.config.models.base import FeedForwardChoice, TextFamily, TrainingTask, Use, check_heads
from regard.config.models.mixture import DEFAULT_MIXTURE, MixtureConfig
from regard.config.parsing import setting
from regard.errors import ConfigError

BertHead = Literal["masked", "next", "classes", "tags"]


@dataclass(frozen=True)
class BertConfig(TextFamily):
    """The encoder-only Transformer with the heads that it is trained and used with."""

    family: Literal["bert"] = field(default="bert", kw_only=True)
    d_model: int = setting(256, low=1)
    n_heads: int = setting(4, low=1)
    d_ff: int = setting(1024, low=1)
    n_layers: int = setting(4, low=1)
    max_positions: int = setting(512, low=1)  # tokens per text, [CLS] and [SEP] included
    n_segments: int = setting(2, low=1)  # segment embeddings: first and second text
    heads: tuple[BertHead, ...] = ("masked", "next")
    pooler: bool = True  # a layer over the vector of [CLS]; the heads next and classes need it
    n_labels: int = setting(0, low=0)  # of the heads classes and tags; 0: as many as the data has
    ffn: FeedForwardChoice = "gelu"
    norm_eps: float = setting(1e-12, low=0.0)
    dropout: float = setting(0.1, low=0.0, below=1.0)
    attention_dropout: float = setting(0.1, low=0.0, below=1.0)
    vocab_size: int = setting(0, low=0)  # 0: the tokenizer's
    moe: MixtureConfig = DEFAULT_MIXTURE  # used with ffn = "moe"
    attention: AttentionConfig = FULL_ATTENTION

    def __post_init__(self) -> None:
        longest = self.max_positions
        check_attention(self.attention, "encoder", n_layers=self.n_layers, n_heads=self.n_heads, longest=longest)
        check_heads(self.d_model, self.n_heads)
        pooled = [head for head in self.heads if head in ("next", "classes")]
        if pooled and not self.pooler:
            raise ConfigError(f"model.heads has {pooled[0]!r}, which needs the pooler: set model.pooler = true")
        if len(set(self.heads)) < len(self.heads):
            raise ConfigError(f"model.heads = {list(self.heads)} names a head twice")

    presets: ClassVar[dict[str, dict[str, Any]]] = {
        # Turc et al. 2019, with the heads of pre-training
        "bert-mini": {"d_model": 256, "n_heads": 4, "d_ff": 1024, "n_layers": 4, "max_positions": 512},
        # Devlin et al. 2019, without heads
        "bert-base": {
            "d_model": 768, "n_heads": 12, "d_ff": 3072, "n_layers": 12, "max_positions": 512, "heads": (),
        },
    }  # fmt: skip
    preset_vocabularies: ClassVar[dict[str, int]] = {"bert-mini": 30_522, "bert-base": 30_522}

    @property
    def title(self) -> str:
        return "A BERT"

    @property
    def use(self) -> Use:
        if "classes" in self.heads or "tags" in self.heads:
            return Use("classifies text", 'regard classify "…"')
        if "masked" in self.heads:
            return Use("predicts masked tokens", 'regard fill "… [MASK] …"')
        return Use("embeds text", "regard.TextEncoder in Python: without a head it gives vectors only")

    def task(self, running_text: bool) -> TrainingTask | None:
        if "classes" in self.heads:
            return "text_classification"
        return "masked_language_modelling" if "masked" in self.heads else None
