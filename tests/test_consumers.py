"""Consumers of model settings fail closed: what one does not state, it refuses, also a field that is added later."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields, make_dataclass, replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import torch

from regard.config import (
    PRESETS,
    BertConfig,
    DecodeConfig,
    FamilyConfig,
    FullAttention,
    GptConfig,
    MixtureConfig,
    RecurrentConfig,
    T5Config,
    TransformerConfig,
    convert,
)
from regard.config.recipe import load_recipe
from regard.config.support import MultipleOf, SomeOf, Support, Table, any_value
from regard.decode import engine_support
from regard.decode.model_engine import build_engine, build_searcher
from regard.decode.search import search
from regard.errors import ConfigError
from regard.inspect import support as explorer_support
from regard.inspect.explorer import Explorer, Question
from regard.inspect.page import explain_page
from regard.interop import ctranslate2
from regard.interop.huggingface import marian_export
from regard.model_folder.folder import ModelDescription
from regard.models import ledger
from regard.models.build import build_model, translation_model
from regard.models.transformer import Transformer
from regard.pipelines.model_translator import ModelTranslator

SUPPORTS: dict[str, Support] = {
    "engine": engine_support.SUPPORT,
    "ctranslate2": ctranslate2.SUPPORT,
    "marian": marian_export.SUPPORT,
    "explorer": explorer_support.SUPPORT,
    "ledger": ledger.SUPPORT,
}
RECIPES = sorted((Path(__file__).parents[1] / "recipes").glob("*.toml"))
SIZES = {"d_model": 16, "n_heads": 2, "d_ff": 32, "n_encoder_layers": 1, "n_decoder_layers": 1}
SMALL = TransformerConfig(**SIZES, src_vocab_size=40, tgt_vocab_size=40)  # type: ignore[arg-type]


def with_future_field(kind: type) -> Any:
    """The dataclass as it may be tomorrow, with a field that no consumer has seen."""
    return make_dataclass(f"Future{kind.__name__}", [("future", int, 0)], bases=(kind,), frozen=True)


@dataclass(frozen=True)
class SpiralAttention:
    roles = ("encoder",)
    kind: str = "spiral"
    width: int = 3


FutureTransformer = with_future_field(TransformerConfig)
UNKNOWN: dict[str, tuple[TransformerConfig, str]] = {
    "field at its default": (FutureTransformer(**SIZES), "model.future = 0"),
    "field with a value": (FutureTransformer(**SIZES, future=7), "model.future = 7"),
    "field of moe": (replace(SMALL, moe=with_future_field(MixtureConfig)()), "model.moe.future = 0"),
    "field of attention": (
        replace(SMALL, attention=with_future_field(FullAttention)()),
        "model.attention.future = 0",
    ),
    "kind of attention": (
        replace(SMALL, attention=SpiralAttention()),
        "model.attention.kind = 'spiral'",
    ),  # type: ignore[arg-type]
    "kind of positions": (replace(SMALL, position="spiral"), "model.position = 'spiral'"),  # type: ignore[arg-type]
    "kind of feed-forward": (replace(SMALL, ffn="maxout"), "model.ffn = 'maxout'"),  # type: ignore[arg-type]
}
Consumer = Callable[[TransformerConfig], object]


@pytest.fixture
def consumers(tmp_path: Path, random_model: Callable[..., Path]) -> dict[str, Consumer]:
    """What each consumer does with the model of a config; the weights are those of a model of today."""

    def describe(config: FamilyConfig) -> ModelDescription:
        return ModelDescription(config, DecodeConfig(), "en", "de", False, {})

    def explore(config: TransformerConfig) -> object:
        translator = ModelTranslator(random_model())
        translator.model.config = config  # type: ignore[assignment]
        return Explorer(translator).passage(Question("apple", {}), [])

    return {
        "engine": lambda config: build_searcher(model_with(config), "int8"),
        "ctranslate2": lambda config: ctranslate2.build_spec(describe(config), {}),
        "marian": lambda config: marian_export.write_marian(describe(config), {}, tmp_path / "out"),
        "explorer": explore,
        "ledger": ledger.ledger,
    }


def model_with(config: TransformerConfig) -> Transformer:
    torch.manual_seed(0)
    model = Transformer(SMALL).eval().requires_grad_(False)
    model.config = config
    return model


@pytest.mark.parametrize("unknown", UNKNOWN)
@pytest.mark.parametrize("name", SUPPORTS)
def test_what_a_consumer_does_not_state_is_refused(name: str, unknown: str, consumers: dict[str, Consumer]) -> None:
    config, setting = UNKNOWN[unknown]
    with pytest.raises(ConfigError, match=re.escape(f"{SUPPORTS[name].consumer} does not support {setting}")):
        consumers[name](config)


@pytest.mark.parametrize("family", get_args(FamilyConfig), ids=lambda kind: kind.family)
def test_a_future_field_of_any_family_is_refused(family: type) -> None:
    config = with_future_field(family)()
    for support in SUPPORTS.values():
        if family in support.table:
            assert "model.future = 0" in str(support.refusal(config))
        else:
            assert f"model.family = {family.family!r}; it supports " in str(support.refusal(config))  # type: ignore[attr-defined]


@pytest.mark.parametrize("unknown", ["field at its default", "field of moe", "field of attention"])
def test_a_model_without_an_engine_searches_by_itself(unknown: str) -> None:
    config = replace(UNKNOWN[unknown][0], src_vocab_size=40, tgt_vocab_size=40)
    assert build_engine(model_with(config), "float32") is None
    model = translation_model(config).eval()
    searcher = build_searcher(model, "float32")
    assert searcher is model
    [[found]] = search(searcher, [[5, 6, 7]], DecodeConfig(beam=2), torch.device("cpu"))
    assert found.token_log_probs


def test_a_model_without_a_page_has_a_trace(random_model: Callable[..., Path], tmp_path: Path) -> None:
    translator = ModelTranslator(random_model())
    translator.model.config = UNKNOWN["field at its default"][0]  # type: ignore[assignment]
    assert translator.trace("apple")["logits"].any()
    (tmp_path / "explain.html").write_text("<head></head>", "utf-8")
    with pytest.raises(ConfigError, match=r"the explorer does not support model\.future = 0"):
        explain_page(Explorer(translator), Question("apple", {}), folder=tmp_path)


def nested_tables(table: Table) -> dict[type, Any]:
    found = dict(table)
    for stated in table.values():
        for values in stated.values():
            if isinstance(values, dict):
                found |= nested_tables(values)
    return found


@pytest.mark.parametrize("name", SUPPORTS)
def test_every_field_of_today_is_stated(name: str) -> None:
    for kind, stated in nested_tables(SUPPORTS[name].table).items():
        assert set(stated) == {field.name for field in fields(kind)}, kind


@pytest.mark.parametrize("name", ["explorer", "ledger"])
@pytest.mark.parametrize("kind", [TransformerConfig, RecurrentConfig, T5Config], ids=lambda kind: kind.family)
def test_explorer_and_ledger_support_every_choice_of_today(name: str, kind: type) -> None:
    for field, values in SUPPORTS[name].table[kind].items():
        choices = get_args(get_type_hints(kind)[field])
        for value in choices if isinstance(values, tuple) else ():
            if (name, value) != ("explorer", "reversible"):  # its picture has one residual stream
                assert value in values, field


def refusing_consumers(config: FamilyConfig) -> set[str]:
    return {name for name, support in SUPPORTS.items() if support.refusal(config)}


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_are_supported(preset: str) -> None:
    config = convert(FamilyConfig, PRESETS[preset], preset)
    assert refusing_consumers(config) == expected_refusals(config)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_recipes_are_supported(recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_DATA", "data")
    config = load_recipe(recipe).model
    assert refusing_consumers(config) == expected_refusals(config)


def expected_refusals(config: FamilyConfig) -> set[str]:
    """The consumers that have never had an answer for the model."""
    match config:
        case TransformerConfig(position="rotary"):
            return {"ctranslate2", "marian"}
        case TransformerConfig():
            return set()
        case T5Config():
            return {"ctranslate2", "marian"}
        case RecurrentConfig():
            return {"engine", "ctranslate2", "marian"}
        case GptConfig(attention=FullAttention(), residual="standard") | BertConfig(attention=FullAttention()):
            return {"ctranslate2", "marian", "explorer"}
        case _:
            return {"engine", "ctranslate2", "marian", "explorer"}


def test_the_ledger_counts_every_family() -> None:
    for kind in get_args(FamilyConfig):
        config = kind().with_vocabulary(40)
        total = sum(parameter.numel() for parameter in build_model(config).parameters())
        assert ledger.ledger(config).total == total


@pytest.mark.parametrize(
    ("values", "inside", "outside", "shown"),
    [
        (MultipleOf(4), 8, 6, "multiples of 4"),
        (SomeOf(("next", "tags")), ("tags",), ("tags", "masked"), "any of 'next', 'tags'"),
        (("a", "b"), "b", "c", "'a', 'b'"),
    ],
)
def test_the_sentence_lists_what_is_supported(values: Any, inside: Any, outside: Any, shown: str) -> None:
    @dataclass
    class Config:
        size: Any

    support = Support("the printer", {Config: {"size": values}})
    assert support.refusal(Config(inside)) is None
    assert support.refusal(Config(outside)) == (
        f"the printer does not support model.size = {outside!r}; it supports {shown}"
    )


def test_a_name_that_is_no_field_is_an_error() -> None:
    with pytest.raises(ValueError, match="FullAttention has no field 'width'"):
        Support("the printer", {TransformerConfig: {"attention": {FullAttention: any_value("width")}}})
