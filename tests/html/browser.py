"""Headless Chromium, driven by Playwright, that tolerates no complaint and no request of a page."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.system_programs import program

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
WIDTHS = (360, 768, 1280, 1920)
"""A telephone, a tablet, a laptop, a desktop."""
PAPER = (703, 1009)
"""What the margins of report.css leave of A4, 186 mm by 267 mm, in pixels of CSS: 96 an inch."""


class Browser:
    """A browser; `pages` opens files in it."""

    def __init__(self, chromium: Any) -> None:
        self._chromium = chromium
        self.problems: list[str] = []  # of the page that is open

    @classmethod
    @contextlib.contextmanager
    def started(cls) -> Iterator[Browser]:
        """Playwright with the distribution's Chromium; without one the test is skipped, or fails in CI."""
        path = program("chromium")
        from playwright.sync_api import sync_playwright

        with sync_playwright() as playwright:
            chromium = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
            yield cls(chromium)
            chromium.close()

    @contextlib.contextmanager
    def opened(self, file: Path, link: str = "", **options: Any) -> Iterator[Any]:
        """The page of a file. Fails for a line on its console, an error of a script, a request."""
        with self.visited(file.as_uri(), link, **options) as page:
            yield page

    @contextlib.contextmanager
    def visited(self, address: str, link: str = "", within: str = "", **options: Any) -> Iterator[Any]:
        """The page at an address. Fails as `opened` does, for a request that is not `within`."""
        problems = self.problems = []
        context = self._chromium.new_context(viewport={"width": 1280, "height": 800}, **options)
        page = context.new_page()
        page.on("console", lambda message: problems.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: problems.append(f"error: {error}"))
        page.on("request", lambda request: self._check(request.url, within or address, problems))
        page.goto(f"{address}{link}")
        yield page
        context.close()
        assert not problems, problems

    @staticmethod
    def _check(url: str, within: str, problems: list[str]) -> None:
        if not url.startswith((within, "data:", "blob:")):
            problems.append(f"request: {url}")


def overflow(page: Any) -> dict[int, int]:
    """By how many pixels a page is wider than the window, for each width where it is."""
    found = {}
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        found[width] = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    page.set_viewport_size({"width": 1280, "height": 800})
    return {width: more for width, more in found.items() if more > 0}


def answered_late(page: Any) -> list[int]:
    """The widths at which something of the first screen is above the verdict."""
    found = []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        tops = page.evaluate(
            "[...document.querySelectorAll('.first>*')].filter((part) => part.getClientRects().length)"
            ".map((part) => part.getBoundingClientRect().top)"
        )
        if tops and tops[0] > min(tops):
            found.append(width)
    page.set_viewport_size({"width": 1280, "height": 800})
    return found


def violations(page: Any, *, rules: tuple[str, ...] = ()) -> list[str]:
    """What axe-core finds of serious or critical impact, and where; by all its rules, or by some."""
    from axe_playwright_python.sync_playwright import Axe

    options = {"runOnly": {"type": "rule", "values": list(rules)}} if rules else {}
    found = Axe().run(page, options=options).response["violations"]
    return [
        f"{row['id']}: {' '.join(node['target'])}: {node.get('failureSummary', '')}"
        for row in found
        if row["impact"] in ("serious", "critical")
        for node in row["nodes"][:3]
    ]


def cut_on_paper(page: Any) -> list[str]:
    """What is wider than paper, or too high for one page though it must not be cut."""
    page.emulate_media(media="print", color_scheme="light")
    page.set_viewport_size({"width": PAPER[0], "height": PAPER[1]})
    found = page.evaluate(
        """([width, height]) => [...document
          .querySelectorAll("figure, figure svg, .ceilings, table, .entry")]
          .map((part) => [part, part.getBoundingClientRect()])
          .filter(([part, box]) => box.width && (box.right > width + 1
            || (box.height > height && !part.matches("table, .entry"))))
          .map(([part, box]) => `${part.tagName} ${part.className} ${box.right} ${box.height}`)""",
        list(PAPER),
    )
    page.emulate_media(media="screen")
    page.set_viewport_size({"width": 1280, "height": 800})
    return list(found)
