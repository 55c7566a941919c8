"""Accessibility: axe-core finds no serious fault in any panel, and the keyboard alone goes through the lesson."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

import regard

BUNDLED = Path(regard.__file__).parent / "bundled"
AXE = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
PANELS = (
    *("translate", "tokens", "overview", "where", "input", "heads", "head"),
    *("residual", "output", "beam", "interventions", "compare", "training"),
)
FAULTS = """
async () => {
  const { violations } = await axe.run(document, { resultTypes: ["violations"] });
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .flatMap(({ id, nodes }) =>
      nodes.map(({ html, failureSummary }) => `${id}: ${html.slice(0, 160)} ${failureSummary.slice(0, 240)}`));
}
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, explore: Any) -> Iterator[str]:
    with explore([BUNDLED / "zh-en", BUNDLED / "en-zh"], tmp_path_factory.mktemp("runs")) as address:
        yield address


@pytest.mark.skipif(not AXE.is_file(), reason="axe-core is not installed: npm ci in web/")
@pytest.mark.parametrize(("language", "theme"), [("en", "light"), ("zh", "dark")])
def test_no_serious_fault_in_any_panel(visit: Any, language: str, theme: str) -> None:
    visit.open("translate", "我爱你。")
    if language == "zh":
        visit.page.keyboard.press("l")
    if theme == "dark":
        visit.page.keyboard.press("d")
    expect(visit.page.locator("html")).to_have_attribute("data-theme", theme)
    visit.page.evaluate(AXE.read_text("utf-8"))  # not a script element: the page's policy allows none
    found = {}
    for panel in PANELS:
        visit.press_panel(panel)
        if faults := visit.page.evaluate(FAULTS):
            found[panel] = faults
    visit.page.evaluate("location.hash = '#overview?text=我爱你。&lesson=7'")
    visit.settle("overview")
    if faults := visit.page.evaluate(FAULTS):
        found["lesson"] = faults
    assert not found, "\n".join(f"{panel}: {fault}" for panel, faults in found.items() for fault in faults)


def test_the_whole_lesson_by_keyboard(visit: Any, messages: Any, lesson_titles: Any) -> None:
    visit.page.goto(visit.address)
    begin = visit.page.get_by_role("button", name="▶ " + messages("en")["lesson.start"], exact=True)
    begin.wait_for()
    for _ in range(60):
        visit.page.keyboard.press("Tab")
        if begin.evaluate("button => button === document.activeElement"):
            break
    visit.page.keyboard.press("Enter")
    titles = lesson_titles("en")
    for title in titles:
        expect(visit.page.locator(".lesson h3")).to_have_text(title)
        visit.page.keyboard.press("ArrowRight")
    expect(visit.page.locator(".lesson h3")).to_have_text(titles[-1])
    done = visit.page.get_by_role("button", name=messages("en")["lesson.done"], exact=True)
    for _ in range(80):
        visit.page.keyboard.press("Tab")
        if done.evaluate("button => button === document.activeElement"):
            break
    visit.page.keyboard.press("Enter")
    expect(visit.page.locator(".lesson")).to_have_count(0)
