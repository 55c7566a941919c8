"""Language models and encoders on the page: GPT, DeepSeek's mixture of experts, BERT."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from playwright.sync_api import expect

from regard import TextEncoder, TextGenerator
from regard.config import BertConfig, DecodeConfig, DeepSeekConfig, GptConfig
from regard.model_folder.atomic import atomic_folder
from regard.model_folder.folder import ModelDescription, write_model
from regard.models.bert import Bert
from regard.models.deepseek import DeepSeek
from regard.models.gpt import Gpt
from regard.tokenizers.characters import CharacterTokenizer

TEXTS = ["The weather is fine today.", "The cat sat on the mat.", "今天天气很好。", "床前明月光"]
SIZES: dict[str, Any] = {"d_model": 16, "n_heads": 2, "d_ff": 16, "n_layers": 2}


def write_folder(path: Path, config: Any, model: Any, tokenizer: CharacterTokenizer) -> Path:
    model.requires_grad_(False)
    for parameter in model.parameters():
        parameter.add_(torch.randn_like(parameter) * 0.3)
    weights = {name: parameter.numpy() for name, parameter in model.named_parameters()}
    description = ModelDescription(config, DecodeConfig(), "", "", tokenizer.lowercase, tokenizer.files())
    with atomic_folder(path) as folder:
        write_model(folder, description, weights, "")
    return path


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    torch.manual_seed(4)
    root, tokenizer = tmp_path_factory.mktemp("texts"), CharacterTokenizer.of(TEXTS)
    gpt = GptConfig(**SIZES, max_positions=60, vocab_size=tokenizer.size)
    bert = BertConfig(**SIZES, max_positions=60, vocab_size=tokenizer.size)
    deepseek = DeepSeekConfig(**SIZES, vocab_size=tokenizer.size, n_dense_layers=1)
    return {
        "gpt": write_folder(root / "gpt", gpt, Gpt(gpt), tokenizer),
        "bert": write_folder(root / "bert", bert, Bert(bert), tokenizer),
        "deepseek": write_folder(root / "deepseek", deepseek, DeepSeek(deepseek), tokenizer),
    }


@pytest.fixture(scope="module")
def address(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory, explore: Any) -> Iterator[str]:
    with explore(list(folders.values()), tmp_path_factory.mktemp("runs")) as address:
        yield address


def shown(visit: Any) -> list[str]:
    found: list[str] = visit.page.locator("[data-prediction] li").all_inner_texts()
    return found


def choose(visit: Any, family: str) -> None:
    visit.page.get_by_role("combobox", name="Model").last.select_option(label=option(visit, family))
    visit.page.wait_for_selector('[data-prediction][aria-busy="false"]')


def option(visit: Any, family: str) -> str:
    labels = visit.page.locator("option").all_inner_texts()
    return next(label for label in labels if label.startswith(f"{family} ·"))


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_language_model_predicts_and_generates(
    visit: Any, messages: Any, folders: dict[str, Path], language: str
) -> None:
    """The page opens on the text models when there are no others; the likeliest token is the model's."""
    visit.page.goto(visit.address)
    visit.settle("texts")
    if language == "zh":
        visit.page.get_by_role("button", name="中文").click()
    box = visit.page.get_by_label(messages(language)["your-sentence"])
    box.fill("The cat")
    box.press("Enter")
    visit.page.wait_for_selector('[data-read="The cat"]')
    model = TextGenerator(folders["gpt"])
    traced = model.trace("The cat", ("logits", "layers.1.attention.weights"))
    expect(visit.page.locator("[data-tokens] button")).to_have_count(len(traced.tokens))
    expect(visit.page.locator("[data-prediction]")).to_have_attribute("data-prediction", str(len(traced.tokens) - 1))
    best = model.tokenizer.pieces([int(traced["logits"][-1].argmax())])[0]
    first = visit.page.locator("[data-prediction] li button").first
    expect(first).to_have_text(best.strip() or best)
    # One click appends it, and the model reads on.
    first.click()
    visit.page.wait_for_selector('[data-read]:not([data-read="The cat"])')
    expect(visit.page.locator("[data-tokens] button")).to_have_count(len(traced.tokens) + 1)
    assert box.input_value().startswith("The cat")
    # A head of the second layer: the weights of the selected token.
    label = messages(language)["texts.attention"].format(layer=2, head=1)
    visit.page.get_by_role("button", name=label, exact=True).click()
    visit.page.locator("[data-tokens] button").nth(2).click()
    weights_M = traced["layers.1.attention.weights"][0, 2]
    shares = visit.page.locator("[data-looks] .number").all_inner_texts()
    expected = [weight for weight in weights_M.tolist() if np.rint(weight * 255) / 255 > 0.02]
    assert [float(share.rstrip("%")) for share in shares] == pytest.approx([100 * one for one in expected], abs=0.8)


def test_an_encoder_fills_masks(visit: Any, folders: dict[str, Path]) -> None:
    visit.page.goto(f"{visit.address}#texts")
    visit.settle("texts")
    choose(visit, "bert")
    text = "The [MASK]at sat"
    visit.page.get_by_label("Your sentence").fill(text)
    visit.page.get_by_role("button", name="Read", exact=True).click()
    visit.page.wait_for_selector(f'[data-read="{text}"]')
    [mask] = TextEncoder(folders["bert"]).fill(text, 8).masks
    panel = visit.page.locator("[data-prediction]")
    expect(panel).to_have_attribute("data-prediction", str(mask.position + 1))
    first, *_ = shown(visit)
    assert f"{100 * mask.candidates[0].probability:.0f}" in first.replace(".", " ").split("%")[0]
    visit.page.locator("[data-tokens] button").first.click()
    expect(panel.locator("li")).to_have_count(0)


def test_a_mixture_of_experts_shows_its_routing(visit: Any, folders: dict[str, Path]) -> None:
    visit.page.goto(f"{visit.address}#texts")
    visit.settle("texts")
    choose(visit, "deepseek")
    expect(visit.page.locator("[data-router]")).to_have_count(1)
    expect(visit.page.locator("[data-router]")).to_have_attribute("data-router", "layers.1.ffn.router")
    assert visit.page.get_by_role("alert").all_inner_texts() == []
