"""Where a word looks and what each switch does: the numbers on the page are those of the model."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

import regard
from regard.inspect.explorer import Explorer, Question
from regard.inspect.interventions import FeedForwardOff, ScaleOff, WeightSet
from regard.pipelines.model_translator import ModelTranslator

MODEL = Path(regard.__file__).parent / "bundled" / "zh-en"
TEXT = "他昨天买了一本书。"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, explore: Any) -> Iterator[str]:
    with explore([MODEL], tmp_path_factory.mktemp("runs")) as address:
        yield address


@pytest.fixture(scope="module")
def explorer() -> Explorer:
    return Explorer(ModelTranslator(MODEL))


def number(text: str) -> float:
    return float(text.replace("−", "-"))


def test_where_a_word_looks(visit: Any, messages: Any, explorer: Explorer) -> None:
    passage = explorer.passage(Question(TEXT, {}), None)
    trace = explorer.trace(passage).trace
    step = trace.tgt_tokens.index("▁book")
    visit.open("output", TEXT)
    visit.page.locator(".bar .line").last.get_by_role("button", name="book", exact=True).click()
    visit.page.get_by_role("button", name=messages("en")["where.ask"].format(word="book")).click()
    visit.settle("where")
    mean_LM = trace.cross_attention()
    column = int(mean_LM[step].argmax())
    word = trace.src_tokens[column]
    answer = visit.page.locator(".answer")
    expect(answer).to_contain_text(f"“book” looks most at “{word}”: {100 * mean_LM[step, column]:.0f}%")
    n_layers, n_heads = trace["decoder.0.cross.weights"].shape[0], explorer.translator.model.config.n_heads
    n_layers = explorer.translator.model.config.n_decoder_layers
    cut = tuple(
        WeightSet(f"decoder.{layer}.cross", head, step, column, 0.0)
        for layer in range(n_layers)
        for head in range(n_heads)
    )
    effects = explorer.effects(Question(TEXT, {}), passage.tgt_ids, [cut])
    expected = effects.after[0][step] - effects.before[step]
    shown = visit.page.locator(f'[data-link="{word}"] td').nth(1)
    expect(shown).not_to_contain_text("…")
    assert number(shown.inner_text()) == pytest.approx(expected, abs=0.006)
    assert expected < -1  # without the link the model hardly writes the word
    # A word of the source, chosen in the picture.
    visit.page.locator("[data-where] svg text", has_text=word).click()
    expect(answer).to_contain_text(f"“{word}” looks most at")
    expect(answer).to_contain_text("log-probability of the translation")


def test_each_switch_shows_its_effect_before_it_is_pressed(visit: Any, messages: Any, explorer: Explorer) -> None:
    passage = explorer.passage(Question(TEXT, {}), None)
    variants = [(ScaleOff(),), (FeedForwardOff("decoder.0"),)]
    effects = explorer.effects(Question(TEXT, {}), passage.tgt_ids, variants)
    expected = [sum(after) - sum(effects.before) for after in effects.after]
    visit.open("interventions", TEXT)
    for name, change in zip(("÷ √d_k", "Decoder, layer 1, feed-forward network"), expected, strict=True):
        effect = visit.page.get_by_role("switch", name=name, exact=True).locator(".effect")
        assert number(effect.inner_text()) == pytest.approx(change, abs=0.051)
    suggested = visit.page.locator("[data-suggested] button")
    expect(suggested).to_have_count(3)
    suggested.first.click()
    visit.settle("interventions")
    assert visit.page.locator("[data-after]").inner_text() != visit.page.locator("[data-before]").inner_text()
    expect(visit.page.locator("[data-verdict]")).to_contain_text("less likely")


def test_the_verdict_does_not_contradict_the_numbers(visit: Any) -> None:
    change = '[{"kind":"ffn","where":"encoder.0"}]'
    visit.open("interventions", TEXT, change=change)
    same = visit.page.locator("[data-after]").inner_text() == visit.page.locator("[data-before]").inner_text()
    line = visit.page.locator("[data-result]").inner_text()
    before, after = map(number, re.findall(r"([-−]\d+\.\d+) → ([-−]\d+\.\d+)", line)[0])
    verdict = visit.page.locator("[data-verdict]").inner_text()
    assert same == verdict.startswith("The same translation")
    assert ("less likely" in verdict) == (after < before - 0.05)
