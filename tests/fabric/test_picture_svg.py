"""The picture as SVG: well formed, self-contained, and with every state in a shape or a word."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.evidence.target import open_host
from gdrkit.fabric.picture import picture
from gdrkit.fabric.picture_svg import STYLE, _parts, svg
from gdrkit.fabric.topology import from_node
from gdrkit.fabric.topology.graph import Net, Role, Topology, TopologyDevice, TopologySource
from gdrkit.node import Node
from tests.evidence_nodes import build

NAME = "{http://www.w3.org/2000/svg}"


def drawn(node, folder):
    found = from_node.topology(Node(open_host(str(build(node, folder)))))
    return ET.fromstring(svg(picture(found), node))


def words(root):
    return [element.text for element in root.iter(f"{NAME}text")]


def test_every_device_has_a_box_and_tells_what_it_is(tmp_path):
    root = drawn("ubuntu-6.8-h100", tmp_path)
    titles = [title.text for title in root.iter(f"{NAME}title")]
    assert titles[0] == "ubuntu-6.8-h100"
    assert sum("GPU" in title and "0000:" in title for title in titles) == 8
    assert sum("NIC mlx5_" in title for title in titles) == 10
    assert words(root).count("400") == 8


def test_a_port_that_is_down_has_a_cross_and_the_word(tmp_path):
    root = drawn("rail-down", tmp_path)
    classes = [element.get("class") for element in root.iter(f"{NAME}path")]
    assert classes.count("down") == classes.count("cut") == words(root).count("DOWN") == 1


def test_a_redirecting_switch_is_hatched_and_says_acs_with_a_triangle_at_each_port(tmp_path):
    root = drawn("acs-redirect", tmp_path)
    assert sum(element.get("class") == "sign" for element in root.iter(f"{NAME}path")) == 2
    assert "16:00.0 ACS" in words(root)
    assert [element.get("fill") for element in root.iter(f"{NAME}rect") if element.get("fill")] == [
        "url(#hatch)"
    ]
    assert not any("ACS" in (word or "") for word in words(drawn("nic-x4", tmp_path)))


def test_a_narrow_link_is_dashed_and_says_so(tmp_path):
    root = drawn("nic-x4", tmp_path)
    assert "x4 of x16" in words(root)
    assert [e.get("stroke-width") for e in root.iter(f"{NAME}path") if e.get("class") == "link short"] == [
        "1.5"
    ]


def test_a_processor_is_named_by_its_model_without_trade_marks_and_the_words_fit(tmp_path):
    assert "NUMA node 0, Xeon Platinum 8480+" in words(drawn("rail-down", tmp_path))
    assert "NUMA node 0, ARM" in words(drawn("gh200", tmp_path))


def test_names_of_a_spark_stay_apart(tmp_path):
    shown = words(drawn("spark-two-cables", tmp_path))
    assert {"rocep1", "roceP2p1", "s0f0", "s0f1"} <= set(shown)


def test_only_layers_that_are_there_are_named(tmp_path):
    assert "switch" not in words(drawn("gh200", tmp_path))
    assert {"CPU", "host bridge", "switch", "device", "port"} <= set(words(drawn("nic-x4", tmp_path)))


def test_it_names_no_address_elsewhere_and_holds_no_script(tmp_path):
    found = from_node.topology(Node(open_host(str(build("ubuntu-6.8-h100", tmp_path)))))
    written = svg(picture(found), "h100")
    assert re.findall(r"https?://[^\"']+", written) == ["http://www.w3.org/2000/svg"]
    assert "<script" not in written
    assert "@import" not in written


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("GPU 7", ("GPU", "7")),
        ("mlx5_10", ("mlx5_", "10")),
        ("rocep1s0f0", ("rocep1", "s0f0")),
        ("roceP12p1s0f0", ("roceP12\N{HORIZONTAL ELLIPSIS}", "s0f0")),
        ("x1s0f0npartition", ("x1", "s0f0npar")),
        ("a-name-of-nothing", ("a-name-\N{HORIZONTAL ELLIPSIS}", "")),
    ],
)
def test_a_name_stands_on_two_lines_that_fit_into_a_box(name, parts):
    assert _parts(name) == parts


@given(st.text(max_size=30))
def test_any_name_stays_text(name):
    device = TopologyDevice(address="0000:01:00.0", role=Role.NIC, host_bridge="0000:00")
    net = Net(id=name, device=name, address="0000:01:00.0", state=name, rate_gbit_per_s=1e308)
    found = Topology(origin=TopologySource.SYSFS, devices=(device,), nets=(net,))
    root = ET.fromstring(svg(picture(found), name))
    assert {element.tag.removeprefix(NAME) for element in root.iter()} <= {
        "svg", "title", "style", "defs", "pattern", "rect", "path", "text", "g",
    }  # fmt: skip


def _luminance(colour):
    """Relative luminance, WCAG 2.2."""
    if len(colour) == 4:
        colour = "#" + "".join(2 * letter for letter in colour[1:])
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one, other):
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_words_and_marks_have_enough_contrast_in_both_schemes(scheme):
    light, dark = (dict(re.findall(r"--(\w+):(#\w+)", part)) for part in STYLE.split("@media"))
    colours = light if not scheme else light | dark
    for ground in ("bg", "area"):
        for word in ("ink", "dim", "bad", "warn"):
            assert _contrast(colours[word], colours[ground]) >= 4.5, (word, ground)
        for mark in ("edge", "mark"):
            assert _contrast(colours[mark], colours[ground]) >= 3, (mark, ground)
    assert _contrast(colours["gpu"], colours["bg"]) >= 4.5
