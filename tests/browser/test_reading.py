"""How sentences are read on the page, over the bundled models: words, labels, formulas, the model that fits a text."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

import regard

BUNDLED = Path(regard.__file__).parent / "bundled"
ENGLISH = "A fluffy blue creature roamed the verdant forest."
CHINESE = "他昨天买了一本书。"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, explore: Any) -> Iterator[str]:
    with explore([BUNDLED / "zh-en", BUNDLED / "en-zh"], tmp_path_factory.mktemp("runs")) as address:
        yield address


def sentence(visit: Any, line: int = 0) -> list[str]:
    texts: list[str] = visit.page.locator(".bar .line").nth(line).locator(".tokens button").all_inner_texts()
    return texts


def test_pieces_of_a_word_are_joined(visit: Any) -> None:
    visit.open("heads", ENGLISH)
    assert sentence(visit) == ["A", "fluffy", "blue", "creature", "roamed", "the", "verdant", "forest", ".", "</s>"]
    visit.page.get_by_role("button", name="Pieces", exact=True).click()
    pieces = sentence(visit)
    assert len(pieces) > 10
    assert "".join(pieces).replace("▁", " ").strip() == f"{ENGLISH}</s>"
    # A character without a piece is several bytes.
    visit.open("output", "罅隙。")
    assert any(re.fullmatch("<0x..>", piece) for piece in sentence(visit))
    visit.page.get_by_role("button", name="Words", exact=True).click()
    assert not any(re.search("<0x|�", piece) for piece in sentence(visit))
    visit.page.reload()
    visit.settle("output")
    assert not any("<0x" in piece for piece in sentence(visit))


def test_rows_have_the_same_labels_in_every_panel(visit: Any) -> None:
    visit.open("head", CHINESE, kind="cross")
    labels = visit.page.locator('[data-matrix="weights"] svg text').all_text_contents()
    visit.open("compare", CHINESE)
    compared = visit.page.locator(".two .matrix svg").first.locator("text").all_text_contents()
    assert labels == compared
    written = sentence(visit, 1)
    assert labels[: len(written)] == written  # rows: the token that is written


def test_a_decoder_row_is_named_by_what_is_before_and_what_is_written(visit: Any, messages: Any) -> None:
    visit.open("head", CHINESE, kind="cross", cell="1.0")
    written = sentence(visit, 1)
    name = messages("en")["after-writing"].format(previous=written[0], next=written[1])
    expect(visit.page.locator("[data-cell] h3")).to_contain_text(name)
    visit.page.keyboard.press("l")
    expect(visit.page.locator("[data-cell] h3")).to_contain_text(f"“{written[0]}”之后，写“{written[1]}”")


def test_chinese_above_columns_stands_upright(visit: Any) -> None:
    visit.open("head", CHINESE, kind="encoder")
    texts = visit.page.locator('[data-matrix="weights"] svg text')
    for index in range(texts.count()):
        if re.search("[一-鿿]", texts.nth(index).text_content() or ""):
            assert "rotate" not in (texts.nth(index).get_attribute("transform") or "")


def test_roots_do_not_depend_on_a_font(visit: Any) -> None:
    """Browsers draw the sign of <msqrt> from the first font only, and Noto Sans has none."""
    visit.open("head", CHINESE)
    expect(visit.page.locator("math").first).to_contain_text("√")
    assert visit.page.locator("msqrt").count() == 0


def test_words_are_exchanged_without_a_space(visit: Any) -> None:
    visit.open("interventions", "我爱你。")
    words = visit.page.locator("[data-swap] button")
    first, second = words.nth(0).inner_text(), words.nth(1).inner_text()
    words.nth(0).click()
    words.nth(1).click()
    visit.settle("interventions")
    expect(words.first).to_have_text(second)
    assert f"{second}{first}" in visit.page.evaluate("decodeURIComponent(location.hash)")


def test_the_model_follows_the_script_of_the_text(visit: Any, messages: Any) -> None:
    visit.open("translate", CHINESE)
    model = visit.page.get_by_role("combobox", name="Model", exact=True)
    assert visit.translate("I love you.") != ""
    expect(model.locator("option:checked")).to_contain_text("en → zh")
    # Another model is chosen: the text stays in the box.
    model.select_option(label="zh → en · zh-en")
    expect(visit.page.locator("#text")).to_have_value("I love you.")
    visit.page.locator("#text").fill("Привет, мир")
    expect(visit.page.locator("main form")).to_contain_text(messages("en")["other-language"].format(language="zh"))


def test_the_other_candidates_do_not_repeat_the_translation(visit: Any) -> None:
    visit.open("translate", CHINESE)
    others = visit.page.locator(".others li .plain").all_inner_texts()
    assert others
    assert visit.page.locator("[data-translation]").inner_text() not in others


def test_about_the_model_is_formatted(visit: Any, messages: Any) -> None:
    visit.open("translate")
    visit.page.locator("summary", has_text=messages("en")["about-model"].format(name="zh-en")).click()
    about = visit.page.locator(".about")
    expect(about.locator("h3").first).to_be_visible()
    assert not re.search(r"^#|\*\*|^\|", about.inner_text(), re.MULTILINE)


def test_the_beam_opens_on_the_best_hypothesis(visit: Any) -> None:
    visit.open("beam", CHINESE)
    expect(visit.page.locator("[data-score]")).to_be_visible()
    chosen = visit.page.locator(".tree g.chosen")
    expect(chosen).to_have_count(1)
    expect(chosen).to_be_in_viewport()


def test_slash_goes_to_the_text_box_from_anywhere(visit: Any) -> None:
    visit.open("heads", CHINESE)
    visit.page.keyboard.press("/")
    expect(visit.page.locator("#text")).to_be_focused()


def test_the_button_does_not_cover_a_heading(visit: Any, messages: Any) -> None:
    visit.open("head", CHINESE)
    button = visit.page.get_by_role("button", name=re.compile(messages("en")["head.play"])).bounding_box()
    assert button is not None
    for heading in visit.page.locator(".pipeline h3").all():
        box = heading.bounding_box()
        assert box is not None
        assert box["y"] >= button["y"] + button["height"] or box["x"] >= button["x"] + button["width"]


def test_labels_of_long_sentences_do_not_overlap(visit: Any) -> None:
    visit.open("compare", "他昨天买了一本书，" * 6)
    view = visit.page.locator(".two section").first
    view.get_by_role("button", name="Lines").click()
    boxes = [box for text in view.locator("svg text").all() if (box := text.bounding_box())]
    left = sorted((box["y"], box["height"]) for box in boxes if box["x"] < boxes[0]["x"] + boxes[0]["width"])
    assert len(left) > 20
    assert all(after - before[0] > 0.6 * before[1] for before, (after, _) in itertools.pairwise(left))
