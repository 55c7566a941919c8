"""The page over models that are not the paper's, and from one of them to the next."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from playwright.sync_api import Route, expect

from regard.config import DecodeConfig, FamilyConfig, convert
from regard.data.toy import WORDS
from regard.model_folder.atomic import atomic_folder
from regard.model_folder.folder import ModelDescription, write_model
from regard.models.build import build_model
from regard.tokenizers.pair import TokenizerPair
from regard.tokenizers.special_ids import EOS
from regard.tokenizers.training import train_vocabulary

TEXT = "red green blue"
PANELS = (
    *("translate", "tokens", "overview", "input", "heads", "head"),
    *("residual", "output", "beam", "interventions", "compare", "training"),
)
TRANSFORMER = {"n_heads": 2, "d_ff": 32}
MODELS: dict[str, dict[str, Any]] = {
    "deep": {**TRANSFORMER, "n_encoder_layers": 3, "n_decoder_layers": 3, "output_bias": True},
    "shallow": TRANSFORMER,
    "alibi": {**TRANSFORMER, "position": "alibi", "ffn": "gelu"},
    "t5": {"family": "t5", "n_heads": 2, "head_size": 6, "d_ff": 20, "n_buckets": 4, "max_distance": 8},
    "recurrent": {"family": "recurrent"},
    "blind": {"family": "recurrent", "attention": "none"},
    "cased": TRANSFORMER,
    "chinese": TRANSFORMER,
}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, explore: Any) -> Iterator[str]:
    """Models with random weights; the first never ends a sentence."""
    place = tmp_path_factory.mktemp("models")
    vocabulary = train_vocabulary([" ".join(WORDS)] * 4, vocab_size=400)
    sizes = {"src_vocab_size": vocabulary.size, "tgt_vocab_size": vocabulary.size}
    small = {"d_model": 16, "n_encoder_layers": 1, "n_decoder_layers": 1}
    folders = []
    for name, settings in MODELS.items():
        config: FamilyConfig = convert(FamilyConfig, small | sizes | settings, "model")
        torch.manual_seed(7)
        model = build_model(config).requires_grad_(False)
        if name == "deep":
            model.output_bias[EOS] = -50
        decode = DecodeConfig(beam_rule="huggingface" if name == "alibi" else "paper", max_length_extra=4)
        weights = {name: parameter.numpy() for name, parameter in model.named_parameters()}
        languages = ("zh" if name == "chinese" else "en", "xx")
        files = TokenizerPair(vocabulary, vocabulary).files()
        # One has the pieces of the others, and yet another tokenizer: it knows no capital letters.
        description = ModelDescription(config, decode, *languages, name == "cased", files)
        with atomic_folder(place / name) as folder:
            write_model(folder, description, weights, "")
        folders.append(place / name)
    with explore(folders, place) as address:
        yield address


@contextmanager
def holding(visit: Any, pattern: str) -> Iterator[Callable[[], None]]:
    """Requests wait until they are let go."""
    held: list[Route] = []
    visit.page.route(pattern, lambda route: held.append(route))

    def let_go() -> None:
        for route in held:
            route.continue_()
        visit.page.unroute(pattern)

    yield let_go


def refuse(visit: Any, pattern: str) -> None:
    answer = json.dumps({"error": "not today", "hint": ""})
    visit.page.route(pattern, lambda route: route.fulfill(status=422, content_type="application/json", body=answer))


def forgive_refusals(visit: Any) -> None:
    """The browser itself says of every refused request that it was."""
    visit.wrong[:] = [said for said in visit.wrong if "422" not in said]


def difference(visit: Any) -> float:
    digits, _, power = visit.page.locator("[data-difference] b").inner_text().partition(" × 10")
    return float(digits) * 10.0 ** int(power.translate(str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")) or 0)


def number(text: str) -> float:
    return float(text.replace("−", "-"))


# -- from one question to the next


def test_another_language_stops_what_is_being_written(visit: Any, messages: Any) -> None:
    visit.open("translate")
    with holding(visit, "**/api/translate/lines"):
        visit.page.locator("#text").fill(TEXT)
        with visit.page.expect_request("**/api/translate/lines"):
            visit.page.locator("#text").press("Enter")
        with visit.page.expect_event("requestfailed", lambda request: request.url.endswith("/lines")):
            visit.page.get_by_role("combobox", name="Model", exact=True).select_option(label="zh → xx · chinese")
    visit.settle("translate")
    expect(visit.page.locator("main")).to_contain_text(messages("en")["translation-placeholder"])
    assert "text=" not in visit.page.url
    assert visit.page.get_by_role("alert").all_inner_texts() == []


def test_back_to_no_sentence_leaves_no_translation(visit: Any, messages: Any) -> None:
    visit.open("translate")
    visit.translate(TEXT)
    visit.page.go_back()
    expect(visit.page.locator("[data-translation]")).to_have_count(0)
    expect(visit.page.locator("#text")).to_have_value("")
    expect(visit.page.locator("main")).to_contain_text(messages("en")["translation-placeholder"])


def test_a_link_into_a_model_of_more_layers(visit: Any) -> None:
    visit.open("head", TEXT, model="shallow")
    visit.page.evaluate(f"location.hash = '#head?model=deep&text={TEXT}&layer=2'")
    layer = visit.page.get_by_role("group", name="Layer").get_by_role("button", name="3", exact=True)
    expect(layer).to_have_attribute("aria-pressed", "true")
    visit.settle("head")
    # And to a place that the model does not have.
    visit.page.evaluate(f"location.hash = '#head?model=deep&text={TEXT}&layer=9&head=9'")
    expect(layer).to_have_attribute("aria-pressed", "true")
    expect(visit.page.locator("[data-difference]")).to_be_visible()


def test_a_panel_that_cannot_be_drawn_says_so_and_the_page_goes_on(visit: Any, messages: Any) -> None:
    visit.open("translate", TEXT)
    visit.page.route("**/block?*", lambda route: route.fulfill(json={"stages": None, "units": None}))
    visit.page.locator('nav [data-panel="residual"]').click()
    expect(visit.page.get_by_role("alert")).to_contain_text(messages("en")["error.not-displayed"])
    visit.press_panel("heads")
    expect(visit.page.locator("main h2")).to_have_text(messages("en")["panel.heads"])
    visit.page.locator('nav [data-panel="residual"]').click()
    expect(visit.page.get_by_role("alert")).to_be_visible()  # asked again, and answered, before the way is free
    visit.page.unroute("**/block?*")
    visit.page.get_by_role("button", name=messages("en")["try-again"]).click()
    expect(visit.page.locator("main table")).to_be_visible()


# -- every panel, whatever the model


@pytest.mark.parametrize("model", ["shallow", "t5", "alibi", "recurrent", "blind"])
def test_every_panel_opens(visit: Any, messages: Any, model: str) -> None:
    visit.open("translate", TEXT, model=model)
    said = {messages("en")[f"error.{name}"] for name in ("no-stream", "no-heads", "not-a-transformer", "no-attention")}
    for panel in PANELS:
        visit.press_panel(panel)
        expect(visit.page.locator("main .card").first).to_be_visible()
        alerts = {text.strip() for text in visit.page.get_by_role("alert").all_inner_texts()}
        assert alerts <= (said if model in ("recurrent", "blind") else set()), panel
        assert "undefined" not in visit.page.locator("main").inner_text(), panel
        assert not re.search(r"\{\w+\}", visit.page.locator("main").inner_text()), panel
        if panel == "residual":
            sides = 0 if model in ("recurrent", "blind") else 1
            expect(visit.page.get_by_role("group", name=messages("en")["side"], exact=True)).to_have_count(sides)


@pytest.mark.parametrize("model", ["t5", "alibi"])
def test_the_lesson_goes_to_its_end(visit: Any, lesson_titles: Any, model: str) -> None:
    visit.open("overview", TEXT, model=model, lesson=0)
    told = []
    for title in lesson_titles("en"):
        expect(visit.page.locator(".lesson h3")).to_have_text(title)
        text = visit.page.locator(".lesson .body")
        expect(text).not_to_contain_text("…")  # until the numbers are there
        told.append(text.inner_text())
        visit.page.keyboard.press("ArrowRight")
    everything = "\n".join(told)
    assert ("sets negative values to zero" in everything) == (model == "t5")  # T5 has a ReLU
    assert "So every score is divided by" not in everything
    assert ("is looked up and multiplied by √16" in everything) == (model == "alibi")
    assert ("6 numbers each, in each of 2 heads" in everything) == (model == "t5")


# -- comparing


def choose_second(visit: Any, name: str) -> None:
    visit.page.locator("main select").first.select_option(label=f"en → xx · {name}")


def heading(visit: Any, name: str) -> Any:
    return visit.page.locator(".two h3", has_text=re.compile(f"^{name} "))


def test_only_models_of_one_tokenizer_are_compared_word_for_word(visit: Any, messages: Any) -> None:
    visit.open("compare", TEXT, **{"model": "shallow", "decode.beam": 2})
    with visit.page.expect_request("**/api/translate") as request:
        choose_second(visit, "alibi")
    assert request.value.post_data_json["options"] == {"beam": 2}
    same = visit.page.get_by_label(messages("en")["compare.same-translation"])
    same.check()
    expect(heading(visit, "alibi")).to_be_visible()
    # As many pieces, but not the same: its own translation again.
    with visit.page.expect_request("**/api/translate") as request:
        choose_second(visit, "cased")
    assert request.value.post_data_json["options"] == {"beam": 2}
    expect(same).to_have_count(0)
    expect(heading(visit, "cased")).to_be_visible()
    # Tokens that do nothing are no buttons.
    expect(visit.page.locator(".two .chips span").first).to_be_visible()
    expect(visit.page.locator(".two .chips button")).to_have_count(0)


def test_a_model_is_not_shown_with_the_answer_of_another(visit: Any, messages: Any) -> None:
    visit.open("compare", TEXT, model="shallow")
    choose_second(visit, "alibi")
    expect(heading(visit, "alibi")).to_be_visible()
    with holding(visit, "**/api/translate") as let_go:
        choose_second(visit, "t5")
        expect(visit.page.locator(".two")).to_contain_text(messages("en")["computing"])
        expect(visit.page.locator(".two h3")).to_have_count(1)
        let_go()
        expect(heading(visit, "t5")).to_be_visible()
    refuse(visit, "**/api/translate")
    choose_second(visit, "recurrent")
    expect(visit.page.get_by_role("alert")).to_contain_text("not today")
    expect(visit.page.locator(".two")).not_to_contain_text(messages("en")["computing"])
    forgive_refusals(visit)


# -- what if


def test_a_change_that_is_refused_is_not_in_force(visit: Any) -> None:
    visit.open("interventions", TEXT, model="shallow")
    first, second = (visit.page.get_by_role("switch", name=f"Cross-attention, layer 1, head {n}") for n in (1, 2))
    first.click()
    expect(first).to_have_attribute("aria-checked", "false")
    visit.settle("interventions")
    refuse(visit, "**/api/translate")
    second.click()
    expect(visit.page.get_by_role("alert")).to_contain_text("not today")
    expect(second).to_have_attribute("aria-checked", "true")
    expect(first).to_have_attribute("aria-checked", "false")
    assert visit.page.url.count("kind%22") == 1
    forgive_refusals(visit)


def test_a_link_with_a_change_that_is_refused(visit: Any) -> None:
    change = json.dumps([{"kind": "layer", "where": "encoder.9"}])
    visit.open("overview", TEXT, model="shallow", change=change)
    expect(visit.page.get_by_role("alert")).to_contain_text("encoder.9")
    expect(visit.page.get_by_role("status")).to_have_count(0)
    expect(visit.page.locator("[data-diagram]")).to_be_visible()
    assert "change=" not in visit.page.url
    forgive_refusals(visit)


def test_switches_are_those_of_the_model(visit: Any) -> None:
    names = {
        "shallow": {"÷ √d_k", "causal mask", "positional encoding"},
        "t5": {"causal mask", "positional encoding"},
        "recurrent": set(),
    }
    for model, whole in names.items():
        visit.open("interventions", TEXT, model=model)
        expect(visit.page.get_by_role("switch").first).to_be_visible()
        assert {*visit.page.locator(".model-switches [role=switch] .name").all_inner_texts()} == whole
        for name in whole:
            expect(visit.page.get_by_role("switch", name=name, exact=True)).to_be_checked()
    expect(visit.page.get_by_role("switch")).to_have_count(2)
    for name in ("Cross-attention, layer 1", "Cross-attention, layer 1, head 1"):
        switch = visit.page.get_by_role("switch", name=name, exact=True)
        switch.click()
        expect(switch).to_have_attribute("aria-checked", "false")
        visit.settle("interventions")
        assert visit.page.get_by_role("alert").all_inner_texts() == []


def test_components_have_names_and_are_counted_from_1(visit: Any, messages: Any) -> None:
    visit.open("interventions", TEXT, model="deep")
    visit.page.get_by_role("switch", name="Encoder, layer 2, feed-forward network", exact=True).click()
    expect(visit.page.locator("main li")).to_contain_text("Encoder, layer 2, feed-forward network disabled")
    visit.page.keyboard.press("l")
    for name in (
        "解码器，第 3 层",
        "解码器自注意力，第 3 层",
        "交叉注意力，第 3 层，第 2 个头",
        "编码器，第 1 层，残差连接",
    ):
        expect(visit.page.get_by_role("switch", name=name, exact=True)).to_be_visible()


# -- the arithmetic is that of the model


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "mask"},
        {"kind": "scale"},
        {"kind": "head", "where": "decoder.0.attention", "head": 0},
        {"kind": "weight", "where": "decoder.0.attention", "head": 0, "row": 2, "column": 1, "value": 0.75},
    ],
)
def test_a_modified_head_is_recomputed(visit: Any, messages: Any, change: dict[str, Any]) -> None:
    visit.open("head", TEXT, model="shallow", kind="decoder", cell="1.2", change=json.dumps([change]))
    cell = visit.page.locator("[data-cell]")
    assert difference(visit) < 1e-5
    unmasked = change["kind"] == "mask"
    expect(visit.page.locator('[data-matrix="masked"]')).to_have_count(0 if unmasked else 1)
    assert ("−∞" in cell.inner_text()) != unmasked
    assert (float(cell.locator('[data-cell-value="weights"]').get_attribute("data-exact")) > 0) == unmasked
    said = messages("en")["head.softmax-modified"] in cell.inner_text()
    assert said == (change["kind"] in ("head", "weight"))
    assert ("÷ √8" in cell.inner_text()) == (change["kind"] != "scale")


def test_the_lesson_knows_of_the_mask_that_is_gone(visit: Any) -> None:
    change = json.dumps([{"kind": "mask"}])
    visit.open("overview", TEXT, model="shallow", lesson=6, change=change)
    expect(visit.page.locator(".lesson .text")).to_contain_text("Here the mask has been removed")


def test_t5_neither_scales_nor_adds_positions_to_embeddings(visit: Any) -> None:
    visit.open("input", TEXT, model="t5")
    assert re.fullmatch(r"E\[\d+\]", visit.page.locator("[data-embedding]").inner_text())
    expect(visit.page.locator("[data-position]")).to_have_count(0)
    visit.open("input", TEXT, model="shallow")
    assert visit.page.locator("[data-embedding]").inner_text().endswith(" · √16")
    expect(visit.page.locator("[data-position]")).to_have_count(1)


@pytest.mark.parametrize(("model", "divisor"), [("t5", 1.0), ("alibi", 8**0.5)])
def test_positions_that_are_added_to_the_scores(visit: Any, messages: Any, model: str, divisor: float) -> None:
    visit.open("head", TEXT, model=model, kind="encoder", cell="2.0")
    cell = visit.page.locator("[data-cell]")
    terms = {name: cell.locator(f'[data-cell-value="{name}"]') for name in ("products", "scaled", "scores")}
    expect(cell).to_contain_text(f"+ {messages('en')['head.position-bias']}")
    assert ("√" in cell.inner_text()) == (divisor != 1)
    product, score = (number(terms[name].inner_text()) for name in ("products", "scores"))
    if divisor != 1:
        assert number(terms["scaled"].inner_text()) == pytest.approx(product / divisor, abs=2e-4)
        assert score == pytest.approx(product / divisor - 2 * 2**-4, abs=2e-4)  # ALiBi's first slope of two, two places
    assert difference(visit) < 1e-5
    # Cross-attention has no positions.
    visit.open("head", TEXT, model=model, kind="cross", cell="2.0")
    expect(cell).not_to_contain_text(messages("en")["head.position-bias"])
    assert difference(visit) < 1e-5


@pytest.mark.parametrize("model", ["alibi", "shallow"])
def test_a_score_is_divided_as_the_search_divides_it(visit: Any, model: str) -> None:
    visit.open("beam", TEXT, model=model)
    visit.page.locator("ol .text").first.click()
    said = visit.page.locator("[data-score]").inner_text()
    found = re.search(r"(\S+) ÷ (\S+) =\s+(\S+)\s+·", said)
    assert found, said
    total, divisor, score = map(number, found.groups())
    assert total / divisor == pytest.approx(score, abs=2e-3)
    assert ("(5 + " in said) == (model == "shallow")


# -- what was written


def test_a_translation_that_was_cut_has_not_written_its_end(visit: Any) -> None:
    visit.open("translate", TEXT, model="deep")
    expect(visit.page.locator("[data-truncated]")).to_be_visible()
    assert "</s>" not in visit.page.locator(".token.by-probability").all_inner_texts()[-1]
    visit.press_panel("output")
    assert "</s>" not in visit.page.locator("main .bar .line").last.inner_text()


def test_without_attention_no_weights_are_shown(visit: Any) -> None:
    visit.open("translate", TEXT, model="blind")
    expect(visit.page.locator("[data-translation]")).to_be_attached()
    expect(visit.page.locator("[data-cross-attention]")).to_have_count(0)
    visit.page.keyboard.press("]")
    visit.open("translate", TEXT, model="recurrent")
    expect(visit.page.locator("[data-cross-attention]")).to_be_visible()


def test_a_toy_that_ended_unseen_is_offered(visit: Any) -> None:
    visit.open("translate")
    toy = {"run": "toy-reverse-1", "running": False, "error": None}
    visit.page.route("**/api/runs", lambda route: route.fulfill(json={"runs": [], "toy": toy}))
    with visit.page.expect_request("**/api/models"):
        visit.press_panel("training")


# -- to be read by everybody

CONTRASTS = """
() => {
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const light = (colour) => {
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...context.getImageData(0, 0, 1, 1).data].map((one) => one / 255)
      .map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  return [...document.querySelectorAll(".token span")].map((text) => {
    const [a, b] = [getComputedStyle(text).color, getComputedStyle(text.closest(".token")).backgroundColor].map(light);
    return Number(getComputedStyle(text).opacity) * (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  });
}
"""


def test_tinted_words_can_be_read(visit: Any) -> None:
    visit.open("translate", TEXT, model="shallow")
    for _ in ("light", "dark"):
        found = visit.page.evaluate(CONTRASTS)
        assert len(found) > 8
        assert min(found) >= 4.5
        before = visit.page.locator("html").get_attribute("data-theme")
        visit.page.keyboard.press("d")
        expect(visit.page.locator("html")).not_to_have_attribute("data-theme", before)


def test_texts_run_in_their_own_direction(visit: Any) -> None:
    visit.open("translate", "שלום", model="shallow")
    assert visit.page.locator("#text").evaluate("box => getComputedStyle(box).direction") == "rtl"
    expect(visit.page.locator("[data-translation]")).to_have_attribute("dir", "auto")
