"""Record docs/pictures/explorer-walk.webp: the walk of one sentence through the bundled Chinese → English model.

    python docs/make_animation.py

Every frame is a screenshot of the real page in headless Chromium. The page's clock is advanced by hand, so that the
recording does not depend on the speed of the machine. Pillow joins the frames.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

from PIL import Image
from playwright.sync_api import FloatRect, Page, sync_playwright

OUTPUT = Path(__file__).parent / "pictures" / "explorer-walk.webp"
TEXT = "我爱你。"
MODEL = Path(__file__).parents[1] / "src" / "regard" / "bundled" / "zh-en"
STEP_MS, SHOWN_MS, HOLD_MS = 240, 120, 2500  # the walk goes twice as fast as on the page
MOST_FRAMES = 400
MOST_BYTES = 2_000_000


def frames(page: Page) -> list[Image.Image]:
    """The walk from its first moment to its last."""
    walk = page.locator("[data-walk]")
    box = walk.bounding_box()
    assert box is not None
    # All frames have the size of the first.
    clip = FloatRect(x=box["x"] - 12, y=box["y"] - 12, width=box["width"] + 24, height=box["height"] + 24)
    found: list[Image.Image] = []
    while len(found) < MOST_FRAMES:
        page.clock.run_for(STEP_MS)
        found.append(Image.open(io.BytesIO(page.screenshot(clip=clip))).convert("RGB"))
        if page.get_by_role("button", name="▶ Play", exact=True).is_visible():  # it has stopped at its end
            return found
    raise SystemExit(f"the walk has not ended after {MOST_FRAMES} frames")


def main() -> None:
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    command = [sys.executable, "-m", "regard", "explore", "--no-browser", "--port", "0", "--model", str(MODEL)]
    command += ["--compute", "server"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server, sync_playwright() as playwright:
        assert server.stdout is not None
        address = re.search(r"http://\S+?/", server.stdout.readline())
        assert address
        browser = playwright.chromium.launch(executable_path=chromium, args=["--headless", "--no-sandbox"])
        page = browser.new_page(viewport={"width": 1040, "height": 800}, reduced_motion="no-preference", locale="en-US")
        page.set_default_timeout(120_000)
        page.clock.install(time=0)
        page.clock.pause_at(1000)
        page.goto(f"{address[0]}#overview?text={quote(TEXT)}")
        page.wait_for_selector("[data-walk]")
        page.wait_for_load_state("networkidle")
        pictures = frames(page)
        browser.close()
        server.terminate()
    durations = [SHOWN_MS] * (len(pictures) - 1) + [HOLD_MS]
    first, *rest = pictures
    first.save(OUTPUT, save_all=True, append_images=rest, duration=durations, loop=0, quality=55, method=4)
    size = OUTPUT.stat().st_size
    print(f"{OUTPUT}: {len(pictures)} frames of {first.width} × {first.height}, {size / 1e6:.2f} MB")
    if size > MOST_BYTES:
        raise SystemExit(f"more than {MOST_BYTES / 1e6:.0f} MB: lower the quality, or show fewer frames")


if __name__ == "__main__":
    main()
