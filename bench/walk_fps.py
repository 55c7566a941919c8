"""Frames per second of the explorer's walk in headless Chromium.

    python bench/walk_fps.py [TEXT]

The default sentence has about twelve tokens. Counts what requestAnimationFrame delivers while the walk is moving, and
how long the page's own work took for a frame.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from urllib.parse import quote

from playwright.sync_api import sync_playwright

TEXT = "他昨天在学校旁边的书店买了一本关于历史的书。"
SECONDS = 6
COUNT = """
(seconds) => new Promise((done) => {
  const times = [];
  let longest = 0;
  const from = performance.now();
  const tick = (time) => {
    times.push(time);
    if (time - from < 1000 * seconds) requestAnimationFrame(tick);
    else {
      for (let i = 1; i < times.length; i++) longest = Math.max(longest, times[i] - times[i - 1]);
      done({ fps: (1000 * (times.length - 1)) / (times.at(-1) - times[0]), longest });
    }
  };
  requestAnimationFrame(tick);
})
"""


def main() -> None:
    text = sys.argv[1] if len(sys.argv) > 1 else TEXT
    browser_path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    command = [sys.executable, "-m", "regard", "explore", "--no-browser", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server, sync_playwright() as playwright:
        assert server.stdout is not None
        address = re.search(r"http://\S+?/", server.stdout.readline())
        assert address
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--headless", "--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 800}, reduced_motion="no-preference")
        page.goto(f"{address[0]}#overview?text={quote(text)}")
        page.wait_for_selector('[data-walk="project"]')
        for name in ("encoder", "decoder"):
            found = page.evaluate(COUNT, SECONDS)
            tokens = page.locator(".bar .line").first.locator(".tokens button").count()
            print(f"walk {name}, {tokens} tokens: {found['fps']:.1f} frames/s, longest frame {found['longest']:.0f} ms")
            page.wait_for_selector('[data-walk="cross"]')
        browser.close()
        server.terminate()


if __name__ == "__main__":
    main()
