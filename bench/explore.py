"""The explorer's sizes and times, in headless Chromium and over HTTP.

    python bench/explore.py                                   # page code, site, page's own model, walk; two minutes
    python bench/explore.py --server runs/multi30k-en-de/model # the server's answers for 20, 64 and 500 pieces

Page: code as sent (gzip); first paint of a static site served by http.server; from Enter to the drawn translation and
its trace in the page's own model, the model loaded; frames per second of the walk, and the longest frame. Server: the
translation, its first line, the trace, and what one head asks for; medians of five sentences, each new, with the bytes
as sent.
"""

from __future__ import annotations

import argparse
import gzip
import http.client
import json
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from playwright.sync_api import Page, sync_playwright

from regard.inspect.built import PAGE

SHORT, TIMES = "我爱你", 5
WALK = "他昨天在学校旁边的书店买了一本关于历史的书。"  # about twelve tokens
LONG = (
    "我昨天晚上在学校旁边的书店里买了三本关于中国历史的书，因为我的老师告诉我们，如果想要了解这个国家，"
    "就必须先了解它的过去；我的朋友也买了两本，他说他打算在这个周末把它们全部看完，然后和我们一起讨论书里的问题。"
)
FRAME_SECONDS = 6
PAINT = """() => new Promise((done) => {
  const read = () => {
    const [entry] = performance.getEntriesByName("first-contentful-paint");
    if (entry) done(entry.startTime);
    else requestAnimationFrame(read);
  };
  read();
})"""
TRANSLATE = """(text) => new Promise((done) => {
  const box = document.getElementById("text");
  box.value = text;
  box.dispatchEvent(new Event("input", { bubbles: true }));
  const from = performance.now();
  // The previous translation leaves the page at once, and the next one appears with its trace.
  let gone = false;
  const look = () => {
    const there = document.querySelector("[data-translation]");
    gone ||= !there;
    if (gone && there) done(performance.now() - from);
    else requestAnimationFrame(look);
  };
  box.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true }));
  look();
})"""
FRAMES = """(seconds) => new Promise((done) => {
  const times = [];
  let longest = 0;
  const from = performance.now();
  const tick = (time) => {
    times.push(time);
    if (time - from < 1000 * seconds) return requestAnimationFrame(tick);
    for (let i = 1; i < times.length; i++) longest = Math.max(longest, times[i] - times[i - 1]);
    done({ fps: (1000 * (times.length - 1)) / (times.at(-1) - times[0]), longest });
  };
  requestAnimationFrame(tick);
})"""
LENGTHS = (20, 64, 500)
WORDS = ("a", "man", "in", "red", "is", "at", "the", "sea", "to", "dog", "on", "an", "car", "by", "his", "big", "up")


# -- the page


def page_code() -> None:
    files = [PAGE / "index.html", *sorted((PAGE / "assets").iterdir())]
    kilobytes = sum(len(gzip.compress(path.read_bytes(), 6)) for path in files) / 1000
    print(f"page code, gzip: {kilobytes:.0f} KB (at most 400)")


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of http.server for this folder."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-u", "-m", "http.server", "--bind", "127.0.0.1", "--directory", str(folder), str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        server.stdout.readline()
        try:
            yield f"http://127.0.0.1:{port}/"
        finally:
            server.terminate()


def first_paint(page: Page, address: str) -> None:
    times = []
    for _ in range(TIMES):
        page.goto("about:blank")
        page.goto(f"{address}#translate")
        times.append(page.evaluate(PAINT))
    print(f"site, first paint: {statistics.median(times):.0f} ms (at most 1000)")


def own_model(page: Page, address: str) -> None:
    page.goto("about:blank")
    page.goto(f"{address}#translate?text={quote('你好')}")
    page.wait_for_selector("[data-translation]")
    for name, text, limit in (("", SHORT, 300), ("long sentence", LONG, 3000)):
        times = []
        for turn in range(TIMES + 1):  # the first is for warming up
            given = text + "。" * (turn % 2)
            times.append(page.evaluate(TRANSLATE, given))
            page.wait_for_selector('[data-view="translate"][aria-busy="false"]')
        tokens = page.locator("[data-translation]").locator("xpath=../..").locator(".token").count()
        milliseconds = statistics.median(times[1:])
        print(f"page's own model, {name or text}, {tokens} tokens: {milliseconds:.0f} ms (at most {limit})")


def walk(page: Page, address: str) -> None:
    page.goto("about:blank")
    page.goto(f"{address}#overview?text={quote(WALK)}")
    page.wait_for_selector('[data-walk="project"]')
    for name in ("encoder", "decoder"):
        found = page.evaluate(FRAMES, FRAME_SECONDS)
        tokens = page.locator(".bar .line").first.locator(".tokens button").count()
        rate, longest = found["fps"], found["longest"]
        print(f"walk, {name}, {tokens} tokens: {rate:.1f} frames/s (at least 50), longest frame {longest:.0f} ms")
        page.wait_for_selector('[data-walk="cross"]')


def measure_page() -> None:
    page_code()
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        subprocess.run([sys.executable, "-m", "regard", "site", folder], check=True, stdout=subprocess.DEVNULL)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--headless", "--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 800}, reduced_motion="no-preference")
        page.set_default_timeout(120_000)
        with served(Path(folder)) as address:
            first_paint(page, address)
            own_model(page, address)
            walk(page, address)
        browser.close()


# -- the server


def ask(port: int, path: str, body: Any = None) -> tuple[bytes, int, float]:
    """(body, bytes on the wire, seconds)"""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    headers = {"Accept-Encoding": "gzip", "Content-Type": "application/json"}
    start = time.perf_counter()
    connection.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body), headers)
    answer = connection.getresponse()
    sent = answer.read()
    seconds = time.perf_counter() - start
    connection.close()
    if answer.status != 200:
        raise SystemExit(f"{path}: {answer.status} {sent[:300]!r}")
    squeezed = answer.getheader("Content-Encoding") == "gzip"
    return gzip.decompress(sent) if squeezed else sent, len(sent), seconds


def first_line(port: int, body: Any) -> tuple[int, float]:
    """(bytes, seconds) until the first word of a translation is there."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    start = time.perf_counter()
    connection.request("POST", "/api/translate/lines", json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    line = answer.readline()
    seconds = time.perf_counter() - start
    answer.read()
    connection.close()
    return len(line), seconds


def sentence(port: int, pieces: int, number: int) -> str:
    """A text of about so many pieces; each number another."""
    words: list[str] = []
    while True:
        words.append(WORDS[(len(words) * (number + 1) + number) % len(WORDS)])
        if len(words) >= pieces - 8:
            found = json.loads(ask(port, "/api/tokens", {"text": " ".join(words)})[0])
            if len(found["pieces"]) >= pieces:
                return " ".join(words)


def measure(port: int, pieces: int) -> dict[str, list[tuple[int, float]]]:
    rows: dict[str, list[tuple[int, float]]] = {}
    for number in range(TIMES + 1):  # the first is for warming up
        text = sentence(port, pieces, number)
        found, *cost = ask(port, "/api/translate", {"text": text, "n_best": 4})
        rows.setdefault("translation", []).append((cost[0], cost[1]))
        rows.setdefault("its first word", []).append(first_line(port, {"text": text, "n_best": 4}))
        whole = cost
        ids = [token["id"] for token in json.loads(found)["alternatives"][0]["tokens"]]
        found, *cost = ask(port, "/api/trace", {"text": text, "tgt_ids": ids})
        rows.setdefault("trace", []).append((cost[0], cost[1]))
        whole = [whole[0] + cost[0], whole[1] + cost[1]]
        header = json.loads(found[4 : 4 + int.from_bytes(found[:4], "little")])
        size, seconds = 0, 0.0
        width = header["taps"]["decoder.0.cross.q"][2]
        place = f"/api/trace/{header['trace']}/tensor?path=decoder.0.cross"
        taps = [f"{place}.{tap}&head=0" for tap in ("q", "k", "v", "scores", "weights", "head_out")]
        for path in (*taps, f"/api/models/0/parameter?columns=0-{width}&name=decoder.0.cross.out.weight"):
            _, sent, took = ask(port, path)
            size, seconds = size + sent, seconds + took
        rows.setdefault("one head, exact", []).append((size, seconds))
        rows.setdefault("click to head", []).append((whole[0] + size, whole[1] + seconds))
        _, sent, took = ask(port, f"/api/trace/{header['trace']}/next?step=0")
        rows.setdefault("next token and lens", []).append((sent, took))
    return {name: values[1:] for name, values in rows.items()}


def measure_server(model: str) -> None:
    command = [sys.executable, "-m", "regard", "explore", "--no-browser", "--port", "0", "--model", model]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            ready = re.search(r":(\d+)/", server.stdout.readline())
            if ready is None:
                raise SystemExit("the explorer did not start")
            print(f"{'pieces':>6}  {'what':<22}{'ms':>8}{'KB':>9}")
            for pieces in LENGTHS:
                for name, values in measure(int(ready[1]), pieces).items():
                    milliseconds = 1000 * statistics.median(seconds for _, seconds in values)
                    kilobytes = statistics.median(size for size, _ in values) / 1000
                    print(f"{pieces:>6}  {name:<22}{milliseconds:>8.0f}{kilobytes:>9.1f}", flush=True)
        finally:
            server.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", metavar="MODEL", help="measure the server's answers with this model instead")
    model = parser.parse_args().server
    if model:
        measure_server(model)
    else:
        measure_page()


if __name__ == "__main__":
    main()
