"""Lessons and prepared examples: played to their end in both languages, opened from a file, as slides, exported."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from playwright.sync_api import expect

import regard
from regard.inspect.explorer import Explorer, Question
from regard.pipelines.model_translator import ModelTranslator

BUNDLED = Path(regard.__file__).parent / "bundled"
LESSONS = Path(__file__).parents[2] / "web" / "src" / "lessons"
EXAMPLES = sorted(path.stem for path in (LESSONS / "en").glob("*.md") if path.stem not in ("the-model", "bahdanau"))

TEXT = "他昨天在学校旁边的书店买了一本关于历史的书。"
OWN = """---
title: A lesson of my own
model: zh-en
sentence: 我爱你。
---

## Without the second layer
@panel interventions
@change {"kind": "layer", "where": "encoder.1"}

The model writes **{output}**, and {effect change=positions} without positions.

## One head
@panel head
@select kind=cross layer=3 head=4 target=love key=你

Look.
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, explore: Any) -> Iterator[str]:
    with explore([BUNDLED / "zh-en", BUNDLED / "en-zh"], tmp_path_factory.mktemp("runs")) as address:
        yield address


def measured(visit: Any) -> str:
    expect(visit.page.locator('.lesson[data-measured="true"]')).to_be_visible(timeout=60_000)
    text: str = visit.page.locator(".lesson .body").inner_text()
    return text


def test_both_languages_have_the_same_lessons() -> None:
    for path in (LESSONS / "en").glob("*.md"):
        english, chinese = path.read_text("utf-8"), (LESSONS / "zh" / path.name).read_text("utf-8")
        for pattern in (r"^@.*$", r"\{[^{}]*\}", r"^(?:model|needs|sentence): .*$"):
            assert sorted(re.findall(pattern, english, re.MULTILINE)) == sorted(
                re.findall(pattern, chinese, re.MULTILINE)
            ), path.name


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_prepared_example_is_measured(visit: Any, messages: Any, language: str) -> None:
    if language == "zh":
        visit.page.add_init_script(
            "location.protocol.startsWith('http') && localStorage.setItem('regard.language', 'zh')"
        )
    visit.page.goto(visit.address)
    for example in EXAMPLES:
        visit.page.locator(f'[data-lesson="{example}"]').click()
        while True:
            said = measured(visit)
            print(f"{example}: {said}")
            assert re.search(r"\d|“", said), said
            assert not re.search(r"[{}…]", said), said
            assert visit.page.get_by_role("alert").all_inner_texts() == [], example
            forward = visit.page.locator(".lesson .moves .main")
            ended = messages(language)["lesson.done"] in forward.inner_text()
            forward.click()
            if ended:
                break
        visit.press_panel("overview")
        assert "change=" not in visit.page.url


def test_what_was_measured_is_what_the_model_gives(visit: Any) -> None:
    explorer = Explorer(ModelTranslator(BUNDLED / "zh-en"))
    trace = explorer.trace(explorer.passage(Question("我爱你。", {}), None)).trace
    share = trace.cross_attention()[trace.tgt_tokens.index("▁love"), 0]
    visit.page.goto(f"{visit.address}#where?lesson=i-love-you.0")
    assert f"Measured: {100 * share:.0f}% of the cross-attention" in measured(visit)
    assert "rank 1 of all" in measured(visit)
    [one, four] = (explorer.translate(Question(TEXT, {"beam": beam})).alternatives[0] for beam in (1, 4))
    visit.page.goto("about:blank")
    visit.page.goto(f"{visit.address}#beam?lesson=beam.0")
    assert f"{one.log_prob:.2f}".replace("-", "−") in measured(visit)
    assert one.text in measured(visit)
    visit.page.keyboard.press("ArrowRight")
    expect(visit.page.locator(".lesson .body")).to_contain_text(four.text)


def test_a_lesson_from_a_file(visit: Any, tmp_path: Path) -> None:
    visit.page.goto(visit.address)
    choose = visit.page.locator('input[type="file"]')
    path = tmp_path / "lesson.md"
    path.write_text(OWN.replace("@panel head", "@panel haed"), "utf-8")
    choose.set_input_files(path)
    expect(visit.page.get_by_role("alert")).to_contain_text("line 14: there is no panel “haed”")
    path.write_text(OWN, "utf-8")
    choose.set_input_files(path)
    said = measured(visit)
    assert "I love you." in said
    assert re.search(r"−\d+\.\d\d without positions", said)
    assert "change=" in visit.page.url
    visit.page.keyboard.press("ArrowRight")
    expect(visit.page.locator("[data-cell] h3")).to_contain_text("love")
    expect(visit.page.locator("[data-cell] h3")).to_contain_text("你")
    for group, pressed in (("Layer", "3"), ("Head", "4")):
        button = visit.page.get_by_role("group", name=group, exact=True).get_by_role("button", name=pressed, exact=True)
        expect(button).to_have_attribute("aria-pressed", "true")
    assert "change=" not in visit.page.url


def test_slides(visit: Any) -> None:
    visit.open("where", "", lesson="two-its.0")
    measured(visit)
    visit.page.keyboard.press("f")
    expect(visit.page.locator("header")).to_be_hidden()
    expect(visit.page.locator("nav")).to_be_hidden()
    visit.page.keyboard.press("ArrowRight")
    expect(visit.page.locator(".lesson h3")).to_contain_text("second")
    visit.page.keyboard.press("Escape")
    expect(visit.page.locator("nav")).to_be_visible()


def test_a_panel_is_saved_as_svg_and_png(visit: Any) -> None:
    visit.open("heads", "我爱你。")
    with visit.page.expect_download() as download:
        visit.page.get_by_role("button", name="SVG", exact=True).click()
    root = ElementTree.fromstring(download.value.path().read_text("utf-8"))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    images = root.findall(".//{http://www.w3.org/1999/xhtml}img")
    assert len(images) == 36  # every head of the three attentions of three layers
    assert len({image.get("src") for image in images}) > 10
    with visit.page.expect_download() as download:
        visit.page.get_by_role("button", name="PNG", exact=True).click()
    assert download.value.path().read_bytes().startswith(b"\x89PNG")
    assert download.value.path().stat().st_size > 20_000
