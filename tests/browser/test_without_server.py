"""The page that computes the model itself: one file from the disk, a static site, and beside a server."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

import regard
from regard.inspect.explorer import Explorer, Question
from regard.inspect.interventions import parse_interventions
from regard.pipelines.model_translator import ModelTranslator

BUNDLED = Path(regard.__file__).parent / "bundled"
TEXT, OTHER = "我爱你。", "我不知道他什么时候回来。"
CUT = [{"kind": "head", "where": "decoder.2.cross", "head": 1}]
PANELS = ("tokens", "overview", "input", "heads", "head", "residual", "output", "where", "beam", "interventions")


def run(*arguments: str | Path) -> str:
    command = [sys.executable, "-m", "regard", *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def zh_en() -> Explorer:
    return Explorer(ModelTranslator(BUNDLED / "zh-en"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("written")


@pytest.fixture(scope="module")
def file(folder: Path) -> Path:
    path = folder / "page.html"
    said = run("explain", TEXT, "--live", "-o", path, "--model", BUNDLED / "zh-en")
    assert re.search(r"MB with zh-en in (int8|bfloat16|float32): [\d.]+ MB", said)
    return path


@pytest.fixture(scope="module")
def site(folder: Path) -> Path:
    path = folder / "site"
    run("site", path, "--model", BUNDLED / "zh-en", "--model", BUNDLED / "en-zh")
    return path


@pytest.fixture
def address() -> str:
    return "about:blank"


def translation(explorer: Explorer, text: str, interventions: Any = ()) -> str:
    question = Question(text, {}, interventions=parse_interventions(interventions))
    return explorer.translate(question, 4).alternatives[0].text


def cut_a_head(visit: Any, texts: dict[str, str]) -> None:
    visit.press_panel("interventions")
    name = texts["head-name"].format(kind=texts["kind.cross"], layer=3, head=2)
    visit.page.get_by_role("switch", name=name, exact=True).click()
    expect(visit.page.get_by_role("switch", name=name, exact=True)).to_have_attribute("aria-checked", "false")
    visit.settle("interventions")
    visit.press_panel("translate")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_one_file_from_the_disk(visit: Any, messages: Any, zh_en: Explorer, file: Path, language: str) -> None:
    """With the network off, another sentence is typed and a head is cut; the translations are those of Python."""
    visit.page.context.set_offline(True)
    visit.page.goto(file.as_uri())
    visit.settle("overview")
    if language == "zh":
        visit.page.get_by_role("button", name="中文").click()
    expect(visit.page.locator("[data-computed-by]")).to_have_attribute("data-computed-by", "page")
    visit.press_panel("translate")
    expect(visit.page.locator("[data-translation]")).to_have_text(translation(zh_en, TEXT))
    assert visit.translate(OTHER) == translation(zh_en, OTHER)
    for panel in PANELS:
        visit.press_panel(panel)
        assert visit.page.get_by_role("alert").all_inner_texts() == [], panel
    cut_a_head(visit, messages(language))
    changed = translation(zh_en, OTHER, CUT)
    assert changed != translation(zh_en, OTHER)
    expect(visit.page.locator("[data-translation]")).to_have_text(changed)


def test_a_static_site(visit: Any, zh_en: Explorer, site: Path) -> None:
    """Served by python -m http.server; a model is fetched when a sentence is translated with it."""
    fetched: list[str] = []
    visit.page.on("request", lambda request: fetched.append(request.url))
    with served(site) as address:
        visit.page.goto(address)
        visit.settle("overview")
        models = [url.rpartition("/")[2] for url in fetched if "/models/" in url]
        assert [name[0] for name in models] == ["0"]
        visit.press_panel("translate")
        assert visit.translate(OTHER) == translation(zh_en, OTHER)
        back = Explorer(ModelTranslator(BUNDLED / "en-zh"))
        assert visit.translate("I love you.") == translation(back, "I love you.")
        models = [url.rpartition("/")[2] for url in fetched if "/models/" in url]
        assert [name[0] for name in models] == ["0", "1"]
        visit.press_panel("training")
        for panel in PANELS:
            visit.press_panel(panel)
            assert visit.page.get_by_role("alert").all_inner_texts() == [], panel
        assert all(url.startswith((address, "blob:", "data:")) for url in fetched if url != "about:blank")


def test_a_site_whose_model_is_gone_says_so(browser: Browser, messages: Any, site: Path, tmp_path: Path) -> None:
    broken = tmp_path / "site"
    broken.mkdir()
    for path in site.rglob("*"):
        if path.is_file() and path.suffix != ".bin":
            target = broken / path.relative_to(site)
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(path.read_bytes())
    page = browser.new_page(locale="en-US")
    with served(broken) as address:
        page.goto(address)
        expect(page.get_by_role("alert")).to_contain_text(messages("en")["error.no-model-file"])
    page.close()


def test_the_page_says_who_computes(visit: Any, zh_en: Explorer, explore: Any, tmp_path: Path) -> None:
    """Beside a server the page computes the small model itself; the server may be told to compute all."""
    asked: list[str] = []
    visit.page.on("request", lambda request: asked.append(request.url.partition("/api/")[2]))
    for compute, by in (("auto", "page"), ("server", "server")):
        asked.clear()
        with explore([BUNDLED / "zh-en"], tmp_path, "--compute", compute) as address:
            visit.address = address
            visit.open("translate")
            expect(visit.page.locator("[data-computed-by]")).to_have_attribute("data-computed-by", by)
            assert visit.translate(OTHER) == translation(zh_en, OTHER)
            assert ("models/0/packed" in asked) == (by == "page")
            assert ("trace" in asked) == (by == "server")


@contextmanager
def served(folder: Path) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-u", "-m", "http.server", "--bind", "127.0.0.1", "--directory", str(folder), str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        assert str(port) in server.stdout.readline()
        try:
            yield f"http://127.0.0.1:{port}/"
        finally:
            server.kill()
