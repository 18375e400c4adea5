"""The report on many nodes: whole, small, without requests, and right in a browser."""

from __future__ import annotations

import json
import re
import subprocess

import pytest
from msgspec.structs import replace

from gdrkit.fleet.build import build
from gdrkit.fleet.document import NodeRow, Standing
from gdrkit.html.fleet_page import STANDINGS, fleet_page
from tests.html.test_node_page import CHROMIUM, HOSTILE, Reader

GOOD = NodeRow(
    name="gpu0", target="gpu0.tar.gz", standing=Standing.READY, summary="ready", remedies=(),
    traits={"GPUs": "8 x NVIDIA H100 80GB HBM3", "driver": "580.95.05", "kernel": "6.8.0-45-generic"},
)  # fmt: skip
BAD = replace(
    GOOD,
    standing=Standing.BLOCKED,
    causes=("acs-redirect",),
    summary="acs-redirect",
    traits={**GOOD.traits, "driver": "570.172.08"},
    to_find_out=("sudo lspci -vvv",),
)


def run_of(count, bad):
    """The report on nodes gpu000 ..., of which some are bad."""
    rows = [
        replace(BAD if n in bad else GOOD, name=f"gpu{n:03d}", target=f"{n}.tar.gz") for n in range(count)
    ]
    return build(rows, started="2026-11-22T23:31:05Z", seconds=1.0)


def data_of(text):
    return json.loads(re.findall(r'id="data">(.*?)</script>', text, re.DOTALL)[0])


def test_the_first_words_count_the_nodes_that_need_something_and_the_list_can_be_copied():
    text = fleet_page(run_of(20, {4, 5, 6}), "bundles/")
    page = Reader(text)
    assert "<h1>3 of 20 nodes need something.</h1>" in text
    copied = [attributes.get("data-copy") for tag, attributes in page.elements if tag == "button"]
    assert "gpu[004-006]" in copied and "gpu[000-003,007-019]" in copied


def test_one_node_needs_and_no_node_needs_something():
    assert "1 of 20 nodes needs something." in fleet_page(run_of(20, {4}), "x")
    assert "All 20 nodes are well." in fleet_page(run_of(20, set()), "x")


def test_a_node_is_stored_as_what_differs_from_the_healthiest_of_its_kind():
    data = data_of(fleet_page(run_of(20, {4}), "x"))
    node = next(node for node in data["nodes"] if node[0] == "gpu004")
    words = data["words"]
    assert data["standings"][node[1]] == "blocked"
    assert [[words[n] for n in row] for row in node[6]] == [["driver", "570.172.08", "580.95.05"]]
    assert [words[n] for n in node[7]] == ["sudo lspci -vvv"]
    healthy = [node for node in data["nodes"] if node[0] != "gpu004"]
    assert all(not node[6] for node in healthy)


def test_every_standing_has_a_sign_of_its_own():
    assert set(STANDINGS) == set(Standing)


def test_ten_thousand_nodes_stay_below_twenty_megabytes():
    text = fleet_page(run_of(1000, set(range(0, 1000, 3))), "x")
    assert len(text.encode()) * 10 < 20_000_000


def test_names_and_values_of_hostile_nodes_stay_text():
    rows = [
        replace(GOOD, name=f"gpu{n}", summary=HOSTILE, traits={**GOOD.traits, HOSTILE: HOSTILE * (n == 0)})
        for n in range(5)
    ]
    text = fleet_page(build(rows, seconds=1.0, expect=True), HOSTILE)
    page = Reader(text)
    assert sum(tag == "script" for tag, _ in page.elements) == 2
    assert not any(tag == "img" for tag, _ in page.elements)
    assert not any(key.startswith("on") or key == "style" for _, a in page.elements for key in a)
    assert "\x1b" not in text and "\u202e" not in text


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_a_browser_filters_and_opens_the_node_of_a_link(tmp_path):
    file = tmp_path / "fleet.html"
    file.write_text(fleet_page(run_of(40, {7, 8}), "bundles/"))
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0"]
    ran = subprocess.run(
        [
            CHROMIUM, *flags, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom",
            f"{file.as_uri()}#q=standing:blocked&node=gpu007",
        ],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert "CONSOLE" not in ran.stderr, ran.stderr
    assert "2 of 40 nodes" in ran.stdout
    drawer = re.findall(r'<div id="drawer".*?</div>', ran.stdout, re.DOTALL)[0]
    assert "gpu007" in drawer and "570.172.08" in drawer and "hidden" not in drawer
