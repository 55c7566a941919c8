"""The explorer's page in a real browser, asking a real server in a process of its own."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from playwright.sync_api import expect

from regard.inspect.built import PAGE
from regard.inspect.explorer import Explorer, Question
from regard.inspect.page import explain_page
from regard.models.build import translation_model
from regard.pipelines.model_translator import ModelTranslator
from regard.train.probes import ProbeHistory, encode, take_snapshot

PANELS = (
    *("translate", "tokens", "overview", "input", "heads", "head"),
    *("residual", "output", "beam", "interventions", "compare", "training"),
)

TEXT = "red green blue"


def attention_history(folder: Path) -> bytes:
    """A history of two snapshots: random weights, and the trained model."""
    learnt = ModelTranslator(folder)
    history = ProbeHistory.begin((TEXT,), learnt.tokenizer, learnt.model)
    torch.manual_seed(1)
    for step, model in ((0, translation_model(learnt.model.config)), (450, learnt.model)):
        history = history.with_snapshot(take_snapshot(model, learnt.tokenizer, history, step))
    return encode(history)


@pytest.fixture(scope="module")
def address(reverse_model: Path, tmp_path_factory: pytest.TempPathFactory, explore: Any) -> Iterator[str]:
    """Two models, so that they can be compared, and the run that one of them is from."""
    second = tmp_path_factory.mktemp("second") / "model"
    shutil.copytree(reverse_model, second)
    (second / "probes.safetensors").write_bytes(attention_history(second))
    with explore([reverse_model, second], reverse_model.parent.parent) as address:
        yield address


def test_a_sentence_is_typed_and_its_translation_read(visit: Any, reverse: ModelTranslator) -> None:
    visit.open("translate")
    assert visit.translate(TEXT) == reverse(TEXT)
    assert f"text={TEXT.replace(' ', '+')}" in visit.page.url
    shown = visit.page.locator(".token.by-probability .share").first.inner_text()
    probability = reverse.trace(TEXT).probabilities[0]
    assert float(shown.rstrip("%")) == pytest.approx(100 * probability, abs=0.6)


# A network that is slower than the machine: what is sent arrives line by line, with time to draw in between.
LINE_BY_LINE = """
const read = ReadableStreamDefaultReader.prototype.read;
ReadableStreamDefaultReader.prototype.read = async function () {
  const drawn = () => new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)));
  await drawn();
  if (!this.lines?.length) {
    const piece = await read.call(this);
    if (piece.done) return piece;
    const text = new TextDecoder().decode(piece.value);
    this.lines = text.split(/(?<=\\n)/).map((line) => new TextEncoder().encode(line));
  }
  return { done: false, value: this.lines.shift() };
};
"""


def test_a_translation_is_seen_while_it_is_written(visit: Any) -> None:
    visit.page.add_init_script(LINE_BY_LINE)
    visit.page.add_init_script(
        """window.seen = [];
        new MutationObserver(() => {
          const writing = document.querySelector("[data-partial]");
          if (writing) window.seen.push(writing.innerText);
        }).observe(document, { subtree: true, childList: true, characterData: true, attributes: true });"""
    )
    visit.open("translate")
    visit.translate("red green blue " * 30)
    seen = visit.page.evaluate("window.seen")
    assert len({*seen}) >= 2
    assert len(seen[0]) < len(seen[-1])
    assert re.search(r"%", seen[0])  # each word with its probability
    expect(visit.page.locator("[data-partial]")).to_have_count(0)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_panel_opens(visit: Any, messages: Any, language: str) -> None:
    catalogue = messages(language)
    visit.open("translate", TEXT)
    visit.page.get_by_role("button", name="中文" if language == "zh" else "English").click()
    for panel in PANELS:
        visit.press_panel(panel)
        expect(visit.page.locator("main h2")).to_have_text(catalogue[f"panel.{panel}"])
        expect(visit.page.locator("main .card").first).to_be_visible()
        assert visit.page.get_by_role("alert").all_inner_texts() == [], panel


def test_a_cell_has_the_number_of_the_tensor(visit: Any, reverse: ModelTranslator) -> None:
    trace = reverse.trace(TEXT)
    weights_LM = trace["decoder.0.cross.weights"][1]
    scores_LM = trace["decoder.0.cross.scores"][1]
    visit.open("head", TEXT, kind="cross", layer=0, head=1)
    cells = visit.page.locator('[data-matrix="weights"] .cells')
    box = cells.bounding_box()
    assert box is not None
    row, column = 2, 1
    n_rows, n_columns = weights_LM.shape
    cells.click(position={"x": (column + 0.5) * box["width"] / n_columns, "y": (row + 0.5) * box["height"] / n_rows})
    cell = visit.page.locator("[data-cell]")
    shown = cell.locator('[data-cell-value="weights"]')
    assert float(shown.get_attribute("data-exact") or "nan") == pytest.approx(weights_LM[row, column], rel=1e-6)
    assert number(shown.inner_text()) == pytest.approx(weights_LM[row, column], abs=5.1e-5)
    assert number(cell.locator('[data-cell-value="scores"]').inner_text()) == pytest.approx(
        scores_LM[row, column], abs=5.1e-5
    )
    visit.page.keyboard.press("ArrowRight")
    assert number(shown.inner_text()) == pytest.approx(weights_LM[row, column + 1], abs=5.1e-5)


def test_the_page_computes_what_the_model_computed(visit: Any) -> None:
    for kind in ("encoder", "decoder", "cross"):
        visit.open("head", TEXT, kind=kind, head=2)
        said = visit.page.locator("[data-difference] b").inner_text()
        digits, _, power = said.partition(" × 10")
        exponent = int(power.translate(str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")) or 0)
        assert float(digits) * 10.0**exponent < 1e-5


def test_heads_are_switched_off_and_the_translation_changes(visit: Any) -> None:
    visit.open("interventions", TEXT)
    before = visit.page.locator("[data-before]").inner_text()
    for head in range(1, 5):
        name = f"Cross-attention, layer 1, head {head}"
        visit.page.get_by_role("switch", name=name, exact=True).click()
        expect(visit.page.get_by_role("switch", name=name, exact=True)).to_have_attribute("aria-checked", "false")
        visit.settle("interventions")
        changes = visit.page.locator(".change").all_inner_texts()
        assert any(float(change.replace("−", "-")) for change in changes), "no probability has changed"
        if visit.page.locator("[data-after]").inner_text() != before:
            break
    assert visit.page.locator("[data-after]").inner_text() != before
    assert "change=" in visit.page.url
    # Elsewhere the page says that the model is not as it was.
    visit.press_panel("overview")
    expect(visit.page.get_by_role("status")).to_be_visible()


def test_the_language_can_be_changed(visit: Any) -> None:
    visit.open("translate")
    visit.page.get_by_role("button", name="中文").click()
    expect(visit.page.locator("main h2")).to_have_text("翻译")
    expect(visit.page.locator("html")).to_have_attribute("lang", "zh-CN")
    visit.page.reload()
    expect(visit.page.locator("main h2")).to_have_text("翻译")
    visit.page.keyboard.press("l")
    expect(visit.page.locator("main h2")).to_have_text("Translate")


def test_a_link_shows_the_same_again(visit: Any) -> None:
    change = json.dumps([{"kind": "head", "where": "decoder.0.cross", "head": 0}])
    visit.open("head", TEXT, kind="decoder", head=3, cell="2.1", step=1, change=change)
    said = visit.page.locator("[data-cell]").inner_text()
    link = visit.page.url
    visit.page.goto("about:blank")
    visit.page.goto(link)
    visit.settle("head")
    assert visit.page.locator("[data-cell]").inner_text() == said
    assert visit.page.url == link
    expect(visit.page.get_by_role("status")).to_be_visible()


@pytest.mark.parametrize(
    ("former", "panel"),
    [("walk", "overview"), ("atlas", "heads"), ("block", "residual"), ("whatif", "interventions")],
)
def test_links_with_former_names_still_open(visit: Any, former: str, panel: str) -> None:
    visit.page.goto(f"{visit.address}#{former}?text=red+green+blue&place=1")
    visit.settle(panel)
    expect(visit.page.locator(".bar .line").first.locator(".tokens [aria-pressed=true]")).to_have_count(1)
    assert f"#{panel}?" in visit.page.url
    assert "position=1" in visit.page.url


def test_both_languages_have_the_same_messages(messages: Any) -> None:
    english, chinese = messages("en"), messages("zh")
    assert english.keys() == chinese.keys()
    for key, text in english.items():
        assert {*re.findall(r"\{\w+\}", text)} == {*re.findall(r"\{\w+\}", chinese[key])}, key


def test_the_lesson_goes_to_its_end(visit: Any, messages: Any, lesson_titles: Any) -> None:
    visit.open("overview", TEXT)
    visit.page.get_by_role("button", name="▶ " + messages("en")["lesson.start"], exact=True).click()
    titles = lesson_titles("en")
    for title in titles:
        expect(visit.page.locator(".lesson h3")).to_have_text(title)
        assert "{" not in visit.page.locator(".lesson .text").inner_text()
        visit.page.keyboard.press("ArrowRight")
    assert len(titles) >= 12


def test_beam_can_be_forced(visit: Any, messages: Any) -> None:
    visit.open("beam", TEXT)
    visit.page.locator('input[type="text"]').fill("dog")
    visit.page.get_by_role("button", name=messages("en")["beam.force"], exact=True).click()
    expect(visit.page.locator("ol .text").first).to_contain_text(re.compile("^dog"))


def test_the_attention_history_of_a_model(visit: Any, messages: Any, reverse: ModelTranslator) -> None:
    visit.open("training")
    runs = visit.page.locator("main select").first
    runs.select_option(runs.locator("option", has_text=messages("en")["training.from-model"]).get_attribute("value"))
    history = visit.page.locator("[data-history]")
    expect(history).to_have_attribute("data-history", "450")
    tokens = reverse.translate([TEXT], beam=1)[0].alternatives[0].tokens
    own = [*(piece.removeprefix("▁") for piece in tokens), "</s>"]
    expect(history.locator(".piece")).to_have_text(own)
    slider = visit.page.get_by_role("slider", name=messages("en")["history.step"])
    slider.press("Home")
    expect(history).to_have_attribute("data-history", "0")
    assert history.locator(".piece").all_inner_texts() != own
    expect(visit.page.locator("figure canvas")).to_have_count(reverse.model.config.n_heads)


def test_one_head_is_little_to_send(visit: Any) -> None:
    """Of W_O only the columns that belong to it."""
    with visit.page.expect_response(lambda answer: "out.weight" in answer.url) as matrix:
        visit.open("head", TEXT, kind="cross", layer=0, head=1)
    assert "columns=16-32" in matrix.value.url


def test_text_is_never_html(visit: Any) -> None:
    visit.open("translate")
    visit.translate('<img src="x" onerror="alert(1)"> <b>red</b>')
    for panel in ("tokens", "overview", "head", "output", "beam"):
        visit.press_panel(panel)
        assert visit.page.locator("main img").count() == 0


def test_too_long_a_text_is_refused_with_a_sentence(visit: Any, messages: Any) -> None:
    visit.open("translate")
    visit.page.locator("#text").fill("red " * 600)
    expect(visit.page.locator("#length")).to_contain_text("2000")
    expect(visit.page.get_by_role("button", name=messages("en")["translate"], exact=True).last).to_be_disabled()


def test_a_narrow_screen_does_not_scroll_sideways(visit: Any) -> None:
    visit.page.set_viewport_size({"width": 390, "height": 800})
    visit.open("translate", "morning coffee brother happy dog")
    for panel in PANELS:
        visit.press_panel(panel)
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= 390, panel


def test_a_file_opens_from_the_disk(visit: Any, reverse: ModelTranslator, tmp_path: Path) -> None:
    path = tmp_path / "explain.html"
    path.write_text(explain_page(Explorer(reverse), Question(TEXT, {})), "utf-8")
    assert path.stat().st_size < 3_000_000
    visit.page.goto(path.as_uri())
    visit.settle("overview")
    visit.press_panel("translate")
    expect(visit.page.locator("[data-translation]")).to_have_text(reverse(TEXT))
    for panel in PANELS:
        visit.press_panel(panel)
        assert visit.page.get_by_role("alert").all_inner_texts() == [], panel
    visit.press_panel("translate")
    left_out = visit.page.locator("[data-omitted]")
    left_out.locator("summary").click()
    expect(left_out.locator(".names")).to_contain_text("logits")
    expect(left_out.locator(".names")).not_to_contain_text("cross.q")
    visit.page.goto(f"{path.as_uri()}#head?kind=cross&head=1&cell=2.1")
    visit.page.reload()
    visit.settle("head")
    shown = visit.page.locator('[data-cell-value="weights"]')
    weights_LM = reverse.trace(TEXT)["decoder.0.cross.weights"][1]
    assert float(shown.get_attribute("data-exact") or "nan") == pytest.approx(weights_LM[2, 1], rel=1e-6)


def test_a_file_without_room_says_what_it_lacks(
    visit: Any, messages: Any, reverse: ModelTranslator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.inspect.page.MAX_BYTES", (PAGE / "explain.html").stat().st_size + 40_000)
    path = tmp_path / "explain.html"
    path.write_text(explain_page(Explorer(reverse), Question(TEXT, {})), "utf-8")
    visit.page.goto(path.as_uri())
    visit.settle("overview")
    visit.press_panel("translate")
    left_out = visit.page.locator("[data-omitted]")
    left_out.locator("summary").click()
    expect(left_out.locator(".names")).to_contain_text("encoder.0.attention.q")
    visit.page.goto(f"{path.as_uri()}#head?kind=encoder")
    visit.page.reload()
    visit.settle("head")
    expect(visit.page.get_by_role("alert")).to_contain_text(messages("en")["error.not-in-file"])


def number(text: str) -> float:
    return float(text.replace("−", "-"))
