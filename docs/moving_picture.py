"""Make the README's moving picture of the page: python docs/moving_picture.py. Needs Chromium.

The demo federation is played through its rounds; then an edge goes out, and the last round is
decided again. `images/serve.png` is the last frame, for paper and for readers without motion.
"""

import io
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

IMAGES = Path(__file__).parent / "images"
SIZE = {"width": 1240, "height": 900}
ROUNDS = 30  # of the demo
ROUND_MS, LAST_ROUND_MS, TRIED_MS = 400, 1500, 4000
WIDTH = 930
COLOURS = 128
SAME_DRAWS = "let state = 1; Math.random = () => (state = state * 16807 % 2147483647) / 2147483647"


@contextmanager
def service(folder: Path) -> Iterator[str]:
    """The address of a service with nothing in it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    serve = [sys.executable, "-m", "stagewise", "serve", "--port", port]
    program = subprocess.Popen(
        serve, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while socket.socket().connect_ex(("127.0.0.1", int(port))) != 0:
            assert program.poll() is None, "the service has ended"
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}"
    finally:
        program.terminate()
        program.wait()


def frames(page: Page, address: str) -> Iterator[tuple[Image.Image, int]]:
    """Pictures of the page, and how many milliseconds each is shown."""

    def shot() -> Image.Image:
        page.wait_for_timeout(400)  # until what was drawn last is on the screen
        return Image.open(io.BytesIO(page.screenshot())).convert("RGB")

    page.add_init_script(SAME_DRAWS)
    page.goto(address)
    page.click("#demo")
    shown = ".player output:has-text('round {}')"
    page.wait_for_selector(shown.format(ROUNDS - 1), timeout=300_000)
    page.click("#prove")
    page.wait_for_selector("text=optima: 100.0%", timeout=300_000)
    slider = page.locator(".player input")
    slider.fill("0")
    for number in range(ROUNDS):
        slider.fill(str(number))
        page.wait_for_selector(shown.format(number))
        yield shot(), LAST_ROUND_MS if number == ROUNDS - 1 else ROUND_MS
    page.locator("label:has-text('es3') input").check()
    page.wait_for_selector("text=As tried")
    yield shot(), TRIED_MS


def main() -> None:
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("needs a browser: there is no chromium")
    with tempfile.TemporaryDirectory() as made, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        with service(Path(made)) as address:
            taken = list(frames(browser.new_page(viewport=SIZE), address))
        browser.close()
    last = taken[-1][0]
    last.save(IMAGES / "serve.png", optimize=True)
    height = round(WIDTH * last.height / last.width)
    small = [each.resize((WIDTH, height), Image.Resampling.LANCZOS) for each, _ in taken]
    # One palette for all, so that what stays the same costs nothing.
    ends = Image.new("RGB", (WIDTH, 2 * height))
    ends.paste(small[0])
    ends.paste(small[-1], (0, height))
    palette = ends.quantize(COLOURS, Image.Quantize.FASTOCTREE)
    first, *rest = (each.quantize(palette=palette, dither=Image.Dither.NONE) for each in small)
    first.save(
        IMAGES / "serve.gif",
        save_all=True,
        append_images=rest,
        duration=[shown_ms for _, shown_ms in taken],
        loop=0,
        optimize=True,
    )


if __name__ == "__main__":
    main()
