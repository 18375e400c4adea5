"""The report on many nodes: whole, small, without requests, and right in a browser."""

from __future__ import annotations

import json
import re

import pytest
from msgspec.structs import replace

from gdrkit.fleet.build import build
from gdrkit.fleet.document import NodeRow, Standing
from gdrkit.html.fleet_page import DIFFERENCES_SHOWN, STANDINGS, fleet_page
from tests.html.test_node_page import HOSTILE, Reader

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
    assert "None of 20 nodes needs anything." in fleet_page(run_of(20, set()), "x")


def test_a_group_says_what_its_cause_means_and_repeats_no_advice():
    rows = [replace(BAD, name="gpu0", advice="Turn ACS off."), replace(GOOD, name="gpu3")]
    rows += [
        replace(BAD, name=name, causes=causes, standing=standing, advice="Turn ACS off.")
        for name, causes, standing in (
            ("gpu1", ("acs-redirect", "bar1-small"), Standing.BLOCKED),
            ("gpu2", ("acs-redirect",), Standing.WARNINGS),
        )
    ]
    text = fleet_page(build(rows, started="2026-11-22T23:31:05Z", seconds=1.0), "bundles/")
    (groups,) = re.findall(r'<section id="groups">.*?</section>', text)
    assert (
        groups.count("Turn ACS off.") == 1
        and groups.count('The same as for <a href="#group-1">group 1') == 2
    )
    assert "1 with warnings <span>acs-redirect" in groups
    assert groups.count("A PCIe port between the GPU and the NIC redirects") == 3
    assert "4 nodes \N{MIDDLE DOT} read 2026-11-22 23:31 UTC" in text


def test_what_to_do_first_names_nodes_with_warnings_too_but_none_that_is_well():
    warned = replace(GOOD, standing=Standing.WARNINGS, causes=("acs-redirect",), advice="Turn ACS off.")
    rows = [replace(warned, name="gpu1"), replace(warned, name="gpu2", causes=("link-degraded",))]
    rows += [replace(BAD, name="gpu3", advice="Load the module."), replace(GOOD, name="gpu4")]
    text = fleet_page(build(rows, started="2026-11-22T23:31:05Z", seconds=1.0), "bundles/")
    (first,) = re.findall(r"<h2>Do this first</h2><ol>(.*?)</ol>", text)
    assert re.findall(r"<b>(.*?)</b> (.*?)<", first) == [
        ("frees 1 node", "Load the module."),
        ("2 nodes", "Turn ACS off."),
    ]
    assert "gpu[1-2]" in first and "gpu4" not in first


def test_a_node_is_stored_as_what_differs_from_the_healthiest_of_its_kind():
    data = data_of(fleet_page(run_of(20, {4}), "x"))
    node = next(node for node in data["nodes"] if node[0] == "gpu004")
    words = data["words"]
    assert data["standings"][node[1]] == "blocked"
    assert [[words[n] for n in row] for row in node[6]] == [["driver", "570.172.08", "580.95.05"]]
    assert [words[n] for n in node[7]] == ["sudo lspci -vvv"]
    healthy = [node for node in data["nodes"] if node[0] != "gpu004"]
    assert all(not node[6] for node in healthy)


def test_nodes_that_are_odd_in_the_same_way_are_one_row_and_a_long_list_is_folded():
    def odd(report):
        return re.findall(r'<section id="odd">.*?</section>', fleet_page(report, "x"), re.DOTALL)[0]

    found = odd(run_of(20, {4, 5, 6}))
    assert found.count("<tr>") == 2 and "gpu[004-006]" in found and "<details>" not in found
    scattered = odd(run_of(400, set(range(0, 400, 9))))
    assert scattered.count("<tr>") == 2 and "<details><summary>" in scattered


def test_drift_has_a_part_of_its_own_where_there_is_some():
    def page(others: int) -> str:
        rows = [replace(GOOD, name=f"gpu{n:02d}") for n in range(20)]
        rows += [
            replace(GOOD, name=f"new{n}", traits={**GOOD.traits, "driver": "590"}) for n in range(others)
        ]
        return fleet_page(build(rows), "x")

    assert 'id="drift"' in page(10) and 'id="drift"' not in page(0)


@pytest.mark.parametrize("count", [DIFFERENCES_SHOWN - 1, DIFFERENCES_SHOWN, DIFFERENCES_SHOWN + 1])
def test_of_many_differences_of_a_node_the_first_are_stored(count):
    odd = replace(BAD, name="odd", traits={**GOOD.traits, **{f"trait {n}": "1" for n in range(count)}})
    data = data_of(fleet_page(build([replace(GOOD, name=f"gpu{n}") for n in range(9)] + [odd]), "x"))
    (stored,) = [node for node in data["nodes"] if node[0] == "odd"]
    assert len(stored[6]) == min(count, DIFFERENCES_SHOWN)


def test_every_standing_has_a_sign_of_its_own():
    assert set(STANDINGS) == set(Standing)


def test_ten_thousand_nodes_stay_below_twenty_megabytes():
    text = fleet_page(run_of(1000, set(range(0, 1000, 3))), "x")
    assert len(text.encode()) * 10 < 20_000_000


def hostile_page():
    """The page on nodes whose names and values try to become markup, a script, and orders to a terminal."""
    rows = [
        replace(GOOD, name=f"gpu{n}", summary=HOSTILE, traits={**GOOD.traits, HOSTILE: HOSTILE * (n == 0)})
        for n in range(5)
    ]
    return fleet_page(build(rows, seconds=1.0, expect=True), HOSTILE)


def test_names_and_values_of_hostile_nodes_stay_text():
    text = hostile_page()
    page = Reader(text)
    assert sum(tag == "script" for tag, _ in page.elements) == 2
    assert not any(tag == "img" for tag, _ in page.elements)
    assert not any(key.startswith("on") or key == "style" for _, a in page.elements for key in a)
    assert "\x1b" not in text and "\u202e" not in text


def test_a_node_has_the_layer_of_its_first_cause_and_the_rack_of_its_name_or_of_the_file():
    def racks_and_layers(text):
        data = data_of(text)
        return {
            n[0]: (data["words"][n[9]], data["layers"][n[8]] if n[8] >= 0 else "") for n in data["nodes"]
        }

    report = run_of(3, {1})
    assert racks_and_layers(fleet_page(report, "x"))["gpu001"] == ("", "pcie")
    found = racks_and_layers(fleet_page(report, "x", {"gpu001": "r07"}))
    assert found == {"gpu000": ("", ""), "gpu001": ("r07", "pcie"), "gpu002": ("", "")}


def test_times_are_written_as_on_the_page_of_a_node():
    text = fleet_page(replace(run_of(3, set()), since="2026-11-21T08:57:47Z"), "x")

    assert "2026-11-22 23:31 UTC" in text and "the run of 2026-11-21 08:57 UTC." in text
    assert "2026-11-22T" not in text and "not known" in fleet_page(build([], seconds=1.0), "x")
