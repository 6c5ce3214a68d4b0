#!/usr/bin/env python3
"""Makes docs/chaos.gif, the moving picture of the README: the tour of the playground's page, where it crashes a conversation.

cargo build && python3 -m venv /tmp/picture && /tmp/picture/bin/pip install pillow==13.0.0 && /tmp/picture/bin/python docs/moving-picture.py

Needs Debian's chromium and chromium-driver. Takes a free port and a minute.
"""

import base64
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "docs" / "chaos.gif"
WIDTH, HEIGHT = 1180, 700
# Frames a second that are taken, and the seconds that they show.
RATE, SECONDS = 6, 11
# The largest file, in bytes.
MOST = 2_000_000


def started(command, pattern, **options):
    """A program, and what the pattern finds in its output."""
    program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, **options)
    for line in program.stdout:
        if found := re.search(pattern, line):
            return program, found[1]
    sys.exit(f"{command[0]} does not say where it listens")


class Browser:
    def __init__(self, port, home):
        self.base = f"http://127.0.0.1:{port}"
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={home}/profile"]
        wanted = {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": {"args": flags}}}
        self.base += "/session/" + self.ask("/session", {"capabilities": wanted})["sessionId"]

    def ask(self, path, body=None, method=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"content-type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)["value"]

    def run(self, script):
        return self.ask("/execute/sync", {"script": script, "args": []})

    def until(self, expression):
        for _ in range(1200):
            if self.run(f"return Boolean({expression})"):
                return
            time.sleep(0.05)
        sys.exit(f"never came true: {expression}")

    def picture(self):
        return Image.open(io.BytesIO(base64.b64decode(self.ask("/screenshot")))).convert("RGB")


def frames(browser, url):
    size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
    browser.ask("/goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride", "params": size})
    browser.ask("/url", {"url": url})
    browser.until("document.querySelectorAll('#board button.actor').length > 10 && document.querySelector('#board .pill.ready')")
    browser.run("[...document.querySelectorAll('.idea')].find((idea) => idea.innerText === 'take the tour').click()")
    browser.until("document.getElementById('tour-words').textContent.includes('crashes')")
    taken = [browser.picture()]
    begun = time.monotonic()
    while len(taken) < RATE * SECONDS:
        time.sleep(max(0, begun + len(taken) / RATE - time.monotonic()))
        taken.append(browser.picture())
    return taken


def main():
    with tempfile.TemporaryDirectory() as home:
        quiet = {"HOME": home, "PATH": os.environ["PATH"], "TMPDIR": home}
        binary = ROOT / "target" / "debug" / "staffai"
        settings = quiet | {"STAFFAI_HTTP_ADDR": "127.0.0.1:0", "RESPONSE_CHANCE": "0"}
        program, url = started([binary, "--log-format", "json", "playground"], r"listening on (http://[^/]+/)", cwd=home, env=settings)
        driver, port = started(["chromedriver", "--port=0"], r"successfully on port (\d+)", env=quiet)
        try:
            browser = Browser(port, home)
            taken = frames(browser, url)
            browser.ask("", method="DELETE")
        finally:
            driver.terminate()
            program.terminate()
            program.wait()
    # One palette for all, so that what stays the same is the same in each frame.
    # It is made of frames from the whole time: the red of a crash is in few.
    samples = taken[:: max(1, len(taken) // 12)]
    all_colours = Image.new("RGB", (WIDTH, HEIGHT * len(samples)))
    for number, frame in enumerate(samples):
        all_colours.paste(frame, (0, HEIGHT * number))
    palette = all_colours.quantize(96)
    drawn = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in taken]
    drawn[0].save(OUT, save_all=True, append_images=drawn[1:], duration=1000 // RATE, loop=0, optimize=True)
    size = OUT.stat().st_size
    print(f"{OUT}: {len(drawn)} frames, {size} bytes")
    return size > MOST


if __name__ == "__main__":
    sys.exit(main())
