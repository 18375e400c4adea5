"""How fast reports open and answer in a browser, and how large they are.

    uv run --no-sync python -m benchmarks.pages

Headless Chromium, without a GPU, on this machine. *opens* is the time from the navigation to the end of its
load event (Navigation Timing Level 2, loadEventEnd); *filter* is the slowest of some words in the filter of
a fleet, from the input event to the next frame that is drawn. The fastest of several rounds, since other
work on the machine only adds. Exit code 1 if a limit is exceeded.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.html import gallery
from tests.html.browser import Browser

ROUNDS = 5
FLEETS = (20, 1000, 10_000)
OPENS_MS = {1000: 2000.0}
FILTER_MS = {10_000: 200.0}
LIMIT_BYTES = {"ubuntu-6.8-h100": 500_000, 10_000: 20_000_000}
WORDS = ("gpu1", "standing:blocked", "cause:acs", "rack:r1,r2", "layer:pcie driver", "nothing has this")
JUDGED = 16

OPENED = "() => performance.getEntriesByType('navigation')[0].loadEventEnd"
FILTERED = """(word) => new Promise((done) => {
  const field = document.getElementById("filter"), begun = performance.now();
  field.value = word;
  field.dispatchEvent(new Event("input"));
  requestAnimationFrame(() => setTimeout(() => done(performance.now() - begun)));
})"""


def measured(browser: Browser, file: Path, words: tuple[str, ...]) -> tuple[float, float]:
    """The time that a page takes to open, and the slowest filter, in ms."""
    opens, filters = [], []
    for _ in range(ROUNDS):
        with browser.opened(file) as page:
            opens.append(page.evaluate(OPENED))
            filters.append(max((page.evaluate(FILTERED, word) for word in words), default=0.0))
    return min(opens), min(filters)


def main() -> int:
    kept = True
    print(f"{'page':<28} {'KB':>7} {'opens ms':>9} {'filter ms':>10}")
    with tempfile.TemporaryDirectory() as name, Browser.started() as browser:
        folder = Path(name)
        pages: dict[str | int, Path] = {
            node: gallery.node_file(node, folder / node) for node in ("ubuntu-6.8-h100", "sixteen")
        }
        (folder / "fleet").mkdir()
        rows = gallery.incident_rows(JUDGED, folder / "fleet")
        for size in FLEETS:
            report = gallery.fleet_of(rows, size, lambda number: f"r{number // 8}-gpu{number}")
            pages[size] = gallery.fleet_file(report, folder / f"{size}.html")
        for of, file in pages.items():
            size_bytes = file.stat().st_size
            opens, filters = measured(browser, file, WORDS if isinstance(of, int) else ())
            shown = f"{of:,} nodes" if isinstance(of, int) else of
            told = f"{filters:10.0f}" if isinstance(of, int) else " " * 10
            print(f"{shown:<28} {size_bytes / 1000:7.0f} {opens:9.0f} {told}".rstrip())
            kept &= size_bytes < LIMIT_BYTES.get(of, sys.maxsize)
            if isinstance(of, int):
                kept &= opens <= OPENS_MS.get(of, opens) and filters <= FILTER_MS.get(of, filters)
    return int(not kept)


if __name__ == "__main__":
    sys.exit(main())
