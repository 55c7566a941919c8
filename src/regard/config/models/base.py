"""What every model family states about itself, besides its settings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

from regard.config.parsing import divisors
from regard.errors import ConfigError

Position = Literal["sinusoidal", "learned", "rotary", "alibi", "relative", "none"]
NormOrder = Literal["post", "pre"]
ResidualKind = Literal["standard", "reversible"]
NormKind = Literal["layernorm", "rmsnorm"]
FeedForwardKind = Literal["relu", "gelu", "gelu_tanh", "swish", "swiglu", "geglu"]
FeedForwardChoice = Literal[FeedForwardKind, "moe"]
TiedEmbeddings = Literal["all", "output", "none"]
TrainingTask = Literal[
    "translation",
    "span_corruption",
    "language_modelling",
    "masked_language_modelling",
    "text_classification",
    "image_classification",
]

ONE_VOCABULARY = (
    "model.tie_embeddings = 'all' needs one vocabulary for both languages: set data.tokenizer.joint = true, "
    "or model.tie_embeddings = 'output'"
)


@dataclass(frozen=True)
class Use:
    """What a model does, and the command or class that does it."""

    does: str
    command: str

    def __str__(self) -> str:
        return f"it {self.does}, with {self.command}"


class Family(ABC):
    """The facts about a family; its config dataclass inherits from one of the classes below and adds its own."""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]]  # named sizes
    preset_vocabularies: ClassVar[Mapping[str, int]] = {}  # vocabulary sizes published with a preset
    needs_tokenizer: ClassVar[bool] = True  # a model folder of this family is incomplete without one
    fixed_settings: ClassVar[Mapping[str, Any]] = {}  # what other families let a recipe choose, and this one does not
    d_model: int

    @property
    @abstractmethod
    def title(self) -> str:
        """With its article, for model cards: "A Transformer"."""

    @property
    @abstractmethod
    def use(self) -> Use:
        """What the model does, and with which command."""

    @property
    @abstractmethod
    def layers(self) -> str:
        """The number of layers, for model cards."""

    @property
    @abstractmethod
    def sizes(self) -> str:
        """Other sizes, for model cards."""

    @property
    @abstractmethod
    def vocabulary_sizes(self) -> tuple[int, ...]:
        """Source and target, the single vocabulary, or none for images; 0: not known yet."""

    @abstractmethod
    def with_vocabulary(self, src: int, tgt: int | None = None) -> Self:
        """The same model for vocabularies of these sizes; a single vocabulary has size `src`."""

    @abstractmethod
    def task(self, running_text: bool) -> TrainingTask | None:
        """What training teaches this model from running text, or from other data; None: it cannot be trained."""

    def changed(self, **fields: Any) -> Self:
        return replace(self, **fields)  # type: ignore[type-var]


class TranslationFamily(Family):
    """Encoder–decoder models: a source, a target, and a vocabulary size for each."""

    src_vocab_size: int
    tgt_vocab_size: int
    n_encoder_layers: int
    n_decoder_layers: int

    @property
    def use(self) -> Use:
        return Use("translates", 'regard translate "…"')

    @property
    def layers(self) -> str:
        return f"{self.n_encoder_layers}+{self.n_decoder_layers}"

    @property
    def vocabulary_sizes(self) -> tuple[int, ...]:
        return self.src_vocab_size, self.tgt_vocab_size

    def with_vocabulary(self, src: int, tgt: int | None = None) -> Self:
        return self.changed(src_vocab_size=src, tgt_vocab_size=src if tgt is None else tgt)

    def task(self, running_text: bool) -> TrainingTask | None:
        return "translation"


class StackFamily(Family):
    """One stack of layers with attention: encoder-only and decoder-only models."""

    n_heads: int
    d_ff: int
    n_layers: int

    @property
    def layers(self) -> str:
        return str(self.n_layers)

    @property
    def sizes(self) -> str:
        return f"{self.n_heads} heads, d_ff {self.d_ff}"


class TextFamily(StackFamily):
    """Models of one text with one vocabulary."""

    vocab_size: int

    @property
    def vocabulary_sizes(self) -> tuple[int, ...]:
        return (self.vocab_size,)

    def with_vocabulary(self, src: int, tgt: int | None = None) -> Self:
        return self.changed(vocab_size=src)


class LanguageFamily(TextFamily):
    """Decoder-only language models."""

    @property
    def use(self) -> Use:
        return Use("generates text", 'regard generate "…"')

    def task(self, running_text: bool) -> TrainingTask | None:
        return "language_modelling"


def wrong_family(config: Any, purpose: str) -> ConfigError:
    """The error for a model that is of no use here; `purpose` is a verb, such as "translate"."""
    return ConfigError(f"a {config.family} model does not {purpose}: {config.use}")


def check_residual(residual: ResidualKind, ffn: FeedForwardChoice, norm_order: NormOrder = "pre") -> None:
    if residual == "standard":
        return
    if norm_order != "pre":
        raise ConfigError(
            "model.residual = 'reversible' needs norms before the sublayers: set model.norm_order = 'pre'"
        )
    if ffn == "moe":
        raise ConfigError(
            "model.residual = 'reversible' computes every sublayer again in the backward pass, where a mixture of "
            "experts (model.ffn = 'moe') would count its tokens twice: set another model.ffn"
        )


def check_heads(d_model: int, n_heads: int) -> None:
    if d_model % n_heads:
        raise ConfigError(
            f"model.n_heads = {n_heads} does not divide model.d_model = {d_model}: every head gets "
            f"d_model / n_heads dimensions, so take one of {divisors(d_model)}"
        )
