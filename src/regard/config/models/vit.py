"""The Vision Transformer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self

from regard.config.attention import FULL_ATTENTION, AttentionConfig, LinformerConfig, check_attention
from regard.config.models.base import FeedForwardChoice, StackFamily, TrainingTask, Use, check_heads
from regard.config.models.mixture import DEFAULT_MIXTURE, MixtureConfig
from regard.config.parsing import divisors, setting
from regard.errors import ConfigError

MOST_PIXEL, LEAST_STD = 1e6, 1e-6  # pixels are from 0 to 1


@dataclass(frozen=True)
class ViTConfig(StackFamily):
    """The Vision Transformer. The defaults are for small grey images."""

    family: Literal["vit"] = field(default="vit", kw_only=True)
    image_size: int = setting(28, low=1)  # images are square
    patch_size: int = setting(4, low=1)
    channels: int = setting(1, low=1, high=4)  # 1: grey; 3: red, green, blue
    mean: tuple[float, ...] = (0.5,)  # pixels (0 to 1) become (pixel − mean) / std; one number, or one per channel
    std: tuple[float, ...] = (0.5,)
    d_model: int = setting(128, low=1)
    n_heads: int = setting(4, low=1)
    d_ff: int = setting(512, low=1)
    n_layers: int = setting(6, low=1)
    ffn: FeedForwardChoice = "gelu"
    norm_eps: float = setting(1e-6, low=0.0)
    dropout: float = setting(0.1, low=0.0, below=1.0)
    attention_dropout: float = setting(0.0, low=0.0, below=1.0)
    n_labels: int = setting(0, low=0)  # 0: as many as the data has
    moe: MixtureConfig = DEFAULT_MIXTURE  # used with ffn = "moe"
    attention: AttentionConfig = FULL_ATTENTION

    def __post_init__(self) -> None:
        if isinstance(self.attention, LinformerConfig):
            raise ConfigError(
                "model.attention.kind = 'linformer' has no weights for patches, and a Vision Transformer shows them: "
                "set another kind"
            )
        places = (self.image_size // self.patch_size) ** 2 + 1
        check_attention(self.attention, "encoder", n_layers=self.n_layers, n_heads=self.n_heads, longest=places)
        check_heads(self.d_model, self.n_heads)
        if self.image_size % self.patch_size:
            raise ConfigError(
                f"model.patch_size = {self.patch_size} does not divide model.image_size = {self.image_size}: "
                f"take one of {divisors(self.image_size)}"
            )
        for name, values in (("mean", self.mean), ("std", self.std)):
            if len(values) not in (1, self.channels):
                raise ConfigError(f"model.{name} has {len(values)} numbers; it needs one, or {self.channels}")
            if not all(abs(value) <= MOST_PIXEL for value in values):
                raise ConfigError(f"model.{name} = {list(values)} is too large; pixels are from 0 to 1")
        if min(self.std) < LEAST_STD:
            raise ConfigError(f"model.std = {list(self.std)} divides the pixels, so it must be at least {LEAST_STD:g}")

    presets: ClassVar[dict[str, dict[str, Any]]] = {
        # Dosovitskiy et al. 2021, ViT-B/16 on ImageNet's 1,000 classes.
        "vit-base": {
            "image_size": 224, "patch_size": 16, "channels": 3, "d_model": 768, "n_heads": 12,
            "d_ff": 3072, "n_layers": 12, "n_labels": 1000,
        },
    }  # fmt: skip

    needs_tokenizer: ClassVar[bool] = False

    @property
    def title(self) -> str:
        return "A Vision Transformer"

    @property
    def use(self) -> Use:
        return Use("classifies images", "regard classify IMAGE")

    @property
    def vocabulary_sizes(self) -> tuple[int, ...]:
        return ()

    def with_vocabulary(self, src: int, tgt: int | None = None) -> Self:
        return self

    def task(self, running_text: bool) -> TrainingTask | None:
        return "image_classification"
