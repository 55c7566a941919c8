"""The walk: the paper's figure with the numbers of a sentence, moving or step by step."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

import regard

BUNDLED = Path(regard.__file__).parent / "bundled"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, explore: Any) -> Iterator[str]:
    with explore([BUNDLED / "zh-en"], tmp_path_factory.mktemp("runs")) as address:
        yield address


def picture(visit: Any) -> str:
    """What the canvas shows."""
    found: str = visit.page.locator(".walk canvas").evaluate("canvas => canvas.toDataURL()")
    return found


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_page_opens_on_a_translated_sentence_that_moves(
    visit: Any, messages: Any, lesson_titles: Any, language: str
) -> None:
    visit.page.emulate_media(reduced_motion="no-preference")
    if language == "zh":
        visit.page.add_init_script(
            "location.protocol.startsWith('http') && localStorage.setItem('regard.language', 'zh')"
        )
    visit.page.goto(visit.address)
    walk = visit.page.locator("[data-walk]")
    expect(walk).to_have_attribute("data-walk", "embedding")
    before = picture(visit)
    expect(walk).to_have_attribute("data-walk", "project")
    assert picture(visit) != before
    expect(visit.page.locator("[data-caption]")).to_contain_text(messages(language)["walk.stage.project"])
    begin = visit.page.get_by_role("button", name="▶ " + messages(language)["lesson.start"], exact=True)
    expect(begin).to_be_in_viewport(ratio=1)
    begin.click()
    expect(visit.page.locator(".lesson h3")).to_have_text(lesson_titles(language)[0])


def test_without_motion_the_walk_goes_stage_by_stage(visit: Any, messages: Any) -> None:
    visit.open("overview", "我爱你。")
    walk = visit.page.locator("[data-walk]")
    expect(visit.page.get_by_role("button", name=messages("en")["play"])).to_have_count(0)
    forward = visit.page.get_by_role("button", name=messages("en")["walk.forward"])
    seen = []
    while True:
        seen.append((walk.get_attribute("data-walk"), walk.get_attribute("data-step")))
        forward.click()
        if (walk.get_attribute("data-walk"), walk.get_attribute("data-step")) == seen[-1]:
            break
    words = visit.page.locator(".bar .line").last.locator(".tokens button").count()
    assert seen[-1] == ("next", str(words - 1))
    assert [stage for stage, step in seen].count("cross") == words
    assert [stage for stage, step in seen].count("mix") == 1  # the encoder runs once


def test_parts_open_in_place_and_lead_to_their_panels(visit: Any, messages: Any) -> None:
    visit.open("overview", "我爱你。")
    whole = picture(visit)
    panels = {
        "bus": "head",
        "encoder-ffn": "residual",
        "decoder-norm": "residual",
        "embedding": "input",
        "output": "output",
    }
    for part, panel in panels.items():
        visit.page.locator(f'[data-part="{part}"]').click()
        expect(visit.page.locator(f'[data-part-info="{part}"]')).to_be_visible()
        assert picture(visit) != whole
        visit.page.get_by_role("button", name=messages("en")["walk.details"]).click()
        visit.settle(panel)
        visit.press_panel("overview")
    # A closed layer opens.
    visit.page.get_by_role("button", name="Decoder, layer 3", exact=True).click()
    expect(visit.page.get_by_role("button", name="Decoder, layer 1", exact=True)).to_be_visible()
    visit.page.locator('[data-part="cross"]').click()
    visit.page.get_by_role("button", name=messages("en")["walk.details"]).click()
    assert re.search(r"layer=2", visit.page.url)


def test_the_picture_of_the_lesson_is_on_the_first_screen(visit: Any) -> None:
    visit.page.set_viewport_size({"width": 1280, "height": 800})
    visit.open("overview", "我爱你。", lesson=7)
    expect(visit.page.locator(".lesson canvas").first).to_be_in_viewport(ratio=1)
    expect(visit.page.locator(".lesson .moves")).to_be_in_viewport(ratio=1)


def test_the_lesson_follows_a_word_not_a_letter(visit: Any, messages: Any) -> None:
    visit.open("overview", "他昨天买了一本书。")
    visit.page.get_by_role("button", name="▶ " + messages("en")["lesson.start"], exact=True).click()
    text = visit.page.locator(".lesson .body")
    followed = re.search("follows “(.+?)”", text.inner_text())
    assert followed
    assert len(followed[1]) > 1
    # It counts the tokens as the Tokens panel does.
    counted = re.search(r"into (\d+) tokens", text.inner_text())
    visit.press_panel("tokens")
    assert counted
    expect(visit.page.locator(".pieces .piece")).to_have_count(int(counted[1]))
