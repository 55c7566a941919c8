"""A real browser, a real server in a process of its own, and a page in the one that asks the other."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest
from playwright.sync_api import Browser, Page, Request, Route, sync_playwright

from regard.inspect.built import HOW_TO_BUILD, PAGE

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
ARGUMENTS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
PATIENCE = 60_000
MESSAGES = Path(__file__).parents[2] / "web" / "src" / "i18n"


@pytest.fixture(scope="session", autouse=True)
def _there_is_something_to_test() -> None:
    if CHROMIUM is None:
        pytest.skip("NO CHROMIUM: the page is NOT tested (apt-get install chromium)")
    if not (PAGE / "index.html").is_file():
        pytest.skip(HOW_TO_BUILD)


@pytest.fixture(scope="session")
def messages() -> Callable[[str], dict[str, str]]:
    """The texts of the page, by language."""

    def read(language: str) -> dict[str, str]:
        found: dict[str, str] = json.loads((MESSAGES / f"{language}.json").read_text("utf-8"))
        return found

    return read


@pytest.fixture(scope="session")
def lesson_titles() -> Callable[[str], list[str]]:
    """The titles of the steps of the main lesson, by language."""

    def read(language: str) -> list[str]:
        text = (MESSAGES.parent / "lessons" / language / "the-model.md").read_text("utf-8")
        return re.findall(r"^## (.+)$", text, re.MULTILINE)

    return read


@contextmanager
def exploring(models: Sequence[Path], runs: Path, *options: str) -> Iterator[str]:
    """The address of a server with these models, which computes them itself unless the options say otherwise."""
    options = options or ("--compute", "server")
    command = [sys.executable, "-m", "regard", "explore", "--no-browser", "--port", "0", "--runs", str(runs), *options]
    for model in models:
        command += ["--model", str(model)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        line = server.stdout.readline()
        found = re.search(r"http://\S+?/", line)
        try:
            assert found, line
            yield found[0]
        finally:
            server.terminate()
            server.stdout.read()


@pytest.fixture(scope="session")
def explore() -> Callable[..., AbstractContextManager[str]]:
    return exploring


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@dataclass
class Visit:
    """A page in a fresh browser, with all that went wrong in it."""

    page: Page
    address: str
    wrong: list[str] = field(default_factory=list)

    def open(self, panel: str, text: str = "", **fields: str | int) -> None:
        given = {"text": text, **fields} if text else fields
        self.page.goto("about:blank")
        self.page.goto(f"{self.address}#{panel}?{urlencode(given)}")
        self.settle(panel)

    def settle(self, panel: str) -> None:
        """Wait until everything that the panel asked for has come."""
        self.page.wait_for_selector(f'[data-view="{panel}"][aria-busy="false"]')
        self.page.wait_for_load_state("networkidle")

    def press_panel(self, panel: str) -> None:
        self.page.locator(f'nav [data-panel="{panel}"]').click()
        self.settle(panel)

    def translate(self, text: str) -> str:
        self.page.locator("#text").fill(text)
        self.page.locator("#text").press("Enter")
        self.page.locator("[data-translation]").wait_for()
        self.settle("translate")
        return self.page.locator("[data-translation]").inner_text()


@pytest.fixture
def visit(browser: Browser, address: str) -> Iterator[Visit]:
    context = browser.new_context(locale="en-US", viewport={"width": 1280, "height": 850}, reduced_motion="reduce")
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    visit = Visit(page, address)

    def stay_here(route: Route, request: Request) -> None:
        """Nothing may leave this machine."""
        place = urlsplit(request.url)
        if place.scheme in ("data", "blob", "file") or place.hostname == "127.0.0.1":
            route.continue_()
        else:
            visit.wrong.append(f"a request to {request.url}")
            route.abort()

    context.route("**/*", stay_here)
    page.on("console", lambda said: visit.wrong.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: visit.wrong.append(str(error)))
    page.on("dialog", lambda dialog: visit.wrong.append(dialog.message))
    yield visit
    context.close()
    assert visit.wrong == []
