"""The manual builds without a warning, loads nothing from elsewhere, and its search finds what is in it."""

from __future__ import annotations

import functools
import http.server
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.html.browser import WIDTHS, violations

ROOT = Path(__file__).parent.parent
LOADS = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "object": "data"}
"""The attribute by which an element loads a file."""
NAVIGATES = {"canonical", "prev", "next", "edit"}
"""Kinds of `link` that load nothing."""


@pytest.fixture(scope="session")
def site(made_once) -> Path:
    return made_once("site", build)


def build(folder: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


class _Loaded(HTMLParser):
    """What a page loads when it is opened, and whether it has code to copy."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "a" and given.get("href"):
            self.links.append(given["href"] or "")
        if tag in LOADS and given.get(LOADS[tag]) and given.get("rel") not in NAVIGATES:
            self.addresses.append(given[LOADS[tag]] or "")


def loaded(text: str) -> _Loaded:
    parser = _Loaded()
    parser.feed(text)
    return parser


def test_a_page_loads_only_files_of_the_manual(site):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 100
    for page in pages:
        addresses = loaded(page.read_text()).addresses
        assert addresses and [a for a in addresses if re.match(r"[a-z]+:|//", a) and a[:5] != "data:"] == []
        for address in addresses:
            if page.name != "404.html" and not address.startswith("data:"):
                assert (page.parent / address.partition("?")[0]).exists(), (page, address)


def test_the_scan_of_a_page_finds_what_another_host_would_serve():
    text = '<link rel="canonical" href="https://a/"><script src="https://b/x.js"></script><img src="x.svg">'
    assert loaded(text).addresses == ["https://b/x.js", "x.svg"]


def found(site: Path, words: str) -> list[str]:
    """The pages whose text has all these words: what the search index holds of them."""
    index = json.loads((site / "search" / "search_index.json").read_text())
    wanted = words.lower().split()
    return [
        row["location"] for row in index["docs"]
        if all(word in f"{row['title']} {row['text']}".lower() for word in wanted)
    ]  # fmt: skip


@pytest.mark.parametrize(
    "words, page",
    [
        ("prometheus", "monitoring.html"),
        ("Invalid argument", "sparks.html"),
        ("Invalid argument", "on-ubuntu.html"),
        ("Invalid argument", "codes/peermem-stub.html"),
        ("Key was rejected by service", "sparks.html"),
        ("EFAULT", "geforce.html"),
        ("NET/Socket", "on-clouds.html"),
        ("drain", "on-slurm.html"),
        ("ClusterPolicy", "on-gpu-operator.html"),
        ("gdr fleet", "commands.html"),
        ("gdr_node_state", "metrics.html"),
        ("blocked_by", "json/report.html"),
        ("generate_key", "transport-api.html"),
    ],
)
def test_the_search_finds_what_a_reader_types(site, words, page):
    assert any(where.partition("#")[0] == page for where in found(site, words))
    assert not found(site, "no such word as zzyzx")


@pytest.fixture(scope="module")
def served(site: Path) -> Iterator[str]:
    handler = functools.partial(QuietHandler, directory=str(site))
    host = "127.0.0.1"
    with http.server.ThreadingHTTPServer((host, 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://{host}:{server.server_address[1]}/"
        server.shutdown()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *words: object) -> None:
        """Say nothing on standard error."""


@pytest.fixture(scope="module", params=["served", "opened as a file"])
def address(request: pytest.FixtureRequest, site: Path) -> str:
    """Where the manual is, with a slash at its end."""
    return str(request.getfixturevalue("served")) if request.param == "served" else f"{site.as_uri()}/"


@pytest.mark.parametrize("start", ["index.html", "codes/acs-redirect.html"])
def test_a_reader_types_words_and_gets_the_page_and_no_other_host_is_asked(address, start, browser):
    with browser.visited(f"{address}{start}", within=address) as page:
        for words, wanted in (("prometheus", "monitoring.html"), ("Invalid argument", "sparks.html")):
            page.click("input.md-search__input")
            page.fill("input.md-search__input", "")
            page.keyboard.type(words)
            page.wait_for_selector(f".md-search-result__link[href*='{wanted}']")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["index", "tutorial", "codes/acs-redirect", "how-it-works", "html-report"])
def test_a_page_fits_a_telephone_and_can_be_read_in_the_dark(site, name, scheme, browser):
    address = f"{site.as_uri()}/"
    with browser.visited(f"{address}{name}.html", within=address, color_scheme=scheme) as page:
        shown = page.get_attribute("body", "data-md-color-scheme")
        assert shown == {"light": "default", "dark": "slate"}[scheme]
        for width in WIDTHS:  # the theme moves its search field after the window has another width
            page.set_viewport_size({"width": width, "height": 780})
            page.wait_for_function("document.documentElement.scrollWidth <= innerWidth", timeout=10_000)
        assert not violations(page, rules=("color-contrast",))


def test_a_telephone_shows_each_way_of_the_start_page_from_edge_to_edge(site, browser):
    address = f"{site.as_uri()}/"
    with browser.visited(f"{address}index.html", within=address) as page:
        cells = page.locator("article table").first.locator("tbody tr").first.locator("td")
        for width, columns in ((1280, 3), (360, 1)):
            page.set_viewport_size({"width": width, "height": 780})
            assert len({cell.bounding_box()["x"] for cell in cells.all()}) == columns


WAYS = (
    "sparks",
    "on-slurm",
    "on-gpu-operator",
    "on-openshift",
    "on-talos",
    "how-it-works",
    "on-clouds",
    "geforce",
)


def test_the_start_page_leads_every_reader_to_a_page_with_an_answer(site):
    links = loaded((site / "index.html").read_text()).links
    for way in WAYS:
        assert f"{way}.html" in links
        page = (ROOT / "docs" / f"{way}.md").read_text()
        assert "<!-- printed: " in page and len(page.splitlines()) < 120


def test_code_can_be_copied_and_is_coloured(site):
    text = (site / "install.html").read_text()
    assert '"content.code.copy"' in text and re.search(
        r'class="highlight">.*<span class="c1">', text, re.DOTALL
    )
