"""The report on a node: the answers first, every pair, no request, no markup from evidence."""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from html.parser import HTMLParser

import pytest
from msgspec.structs import replace

from gdrkit.cli.report import _estimate, _topology
from gdrkit.diagnosis import node_of, report_on
from gdrkit.evidence import Confidence
from gdrkit.evidence.target import open_host
from gdrkit.fabric.picture import picture
from gdrkit.fabric.topo_text import text
from gdrkit.facts.driver_files import DRIVER
from gdrkit.facts.modules import is_loaded
from gdrkit.html.node_page import NodeReport, _paths, node_page
from gdrkit.html.node_sections import fixes, layers, unseen
from gdrkit.html.page import glyph
from gdrkit.html.pairs import pair_views
from gdrkit.report.document import ProcessInUse
from gdrkit.rules.capabilities import DIRECT
from tests.evidence_nodes import diagnosed, laid_down, names

NODES = (
    "ubuntu-6.8-h100",
    "rail-down",
    "acs-redirect",
    "spark-two-cables",
    "h200-vm",
    "gb200-force-pcie",
    "no-gpu",
    "no-rdma-device",
    "talos",
    "wsl2",
    "volta-proprietary",
)
LIMIT_BYTES = 500_000
VOID = {"input", "meta", "link", "br", "img"}


class Reader(HTMLParser):
    """Every element with its attributes, and text by the id of the element around it."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.open, self.text = [], [], ""
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"style", "script"} & set(self.open):
            self.text += data


@functools.cache
def made(name):
    """The report on a node of tests/evidence, and its page."""
    node = node_of(open_host(str(laid_down(name))))
    topo, why = _topology(node, name)
    whole = NodeReport(
        report=report_on(node),
        topo=topo,
        estimate=_estimate(node) if topo else None,
        why_no_picture=why,
        source=name,
        target=name,
        made="2026-11-20 16:00 UTC",
    )
    return whole, node_page(whole)


@pytest.mark.parametrize("name", NODES)
def test_a_report_is_whole_and_asks_for_nothing_from_elsewhere(name):
    _, text = made(name)
    page = Reader(text)
    assert len(text.encode()) < LIMIT_BYTES
    assert re.search(rf"Read from\s*{name}", page.text)
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for tag, attributes in page.elements:
        assert not any(key == "style" or key.startswith("on") for key in attributes), (tag, attributes)
        assert tag not in {"iframe", "object", "embed", "img", "form", "input", "base"}
        assert "src" not in attributes
        for key in ("href", "xlink:href"):
            link = attributes.get(key) or ""
            if tag in ("use", "a") and link.startswith("#"):
                assert link[1:] in ids, link
            elif link:
                assert tag == "a" or (tag, link) == ("link", "data:,")
    assert not re.search(r"url\((?!#)|@import", text)


def test_the_first_answer_of_a_node_with_a_dead_rail_names_the_port_and_what_to_do():
    _, text = made("rail-down")
    page = Reader(text)
    assert "7 of 8 GPUs reach their NIC directly" in page.text
    assert "sudo ibportstate -C mlx5_7 -D 0 1 enable" in [
        attributes.get("data-copy") for tag, attributes in page.elements if tag == "button"
    ]
    cells = [attributes.get("aria-label") for tag, attributes in page.elements if tag == "a"]
    assert "GPU 7 (0000:df:00.0) to mlx5_7: PIX, dead: nothing passes" in cells
    assert "GPU 0 (0000:1b:00.0) to mlx5_0: PIX, direct" in cells
    assert sum(cell is not None and "dead" in cell for cell in cells) == 8


@pytest.mark.parametrize("name", [name for name in names() if name not in ("wsl2", "geforce-desktop")])
def test_table_picture_and_page_draw_no_path_that_the_verdict_denies(name):
    """Where not even host memory is left between a GPU and a NIC, none of the three shows a path; where the
    path is ready, none says that a program cannot use the devices."""
    whole, _ = made(name)
    assert whole.topo is not None
    judged = {(pair.gpu, pair.device): pair for pair in whole.report.pairs}
    topo = {(pair.gpu, pair.net): pair for pair in whole.topo.pairs}
    boxes = {box.of: box for box in picture(whole.topo.topology).walk()}
    for view in pair_views(whole.report, whole.topo, None):
        if (section := judged.get((view.gpu.address, view.net.device))) is None:
            continue
        states = [whole.report.judgements[key] for key in section.judgements]
        states = [one for one in states if "nccl" in one.consumers]
        closed = all(one.state == "blocked" for one in states if one.path in ("staged", "socket"))
        ready = any(one.state in ("ready", "active") for one in states if one.path in DIRECT)
        sent = topo[view.gpu.id, view.net.id].send
        shown = boxes[view.gpu.id].unusable or boxes[view.net.id].is_down
        if closed:
            assert view.kind == "dead" and shown and not (sent and sent.direct), view.key
        if ready:
            assert view.kind != "staged" and (view.kind != "dead" or view.net.is_down), view.key
        if view.kind == "staged":
            assert "directly" not in view.nccl or view.nccl.startswith("by its topology alone"), view.key


def unloaded(node):
    """The node, without NVIDIA's driver."""
    return node.after("unloaded", [is_loaded.becomes(False, DRIVER)])


def test_a_gpu_that_is_dead_or_without_a_driver_is_drawn_so_and_nothing_leaves_it():
    for name, code, words, dead in (
        ("gpu-off-the-bus", "device-not-answering", "no answer", 8),
        ("rail-down", "driver-not-loaded", "no driver", 64),
    ):
        node = node_of(open_host(str(laid_down(name))))
        node = unloaded(node) if code == "driver-not-loaded" else node
        topo, _ = _topology(node, name)
        report = report_on(node)
        views = tuple(pair_views(report, topo, None))
        gone = [view for view in views if view.gpu.unusable == code]
        assert len(gone) == dead and {view.kind for view in gone} == {"dead"}
        assert "Nothing passes. " in gone[0].words and "port" not in gone[0].words
        paths = _paths(picture(topo.topology), gone)
        assert {pair["wide"] for pair in paths.values()} == {("", "")}
        whole = NodeReport(report, topo, _estimate(node), "", name, name, "2026-11-20 16:00 UTC")
        page = node_page(whole)
        assert ('class="ceilings"' in page) is (name == "gpu-off-the-bus")  # the other GPUs have rates
        assert page.count('class="gpu dev gone"') == 2 * dead // 8  # a wide picture and a tall one
        assert all(f">{word}</text>" in page for word in words.split())
        table = text(topo)
        assert f"\N{MULTIPLICATION SIGN} {words}" in table
        assert f"(GPU unusable: {code})" in table and f"no program can use the GPU ({code})" in table


def test_the_top_of_the_page_says_what_is_in_the_node():
    for name, words in (
        ("rail-down", "8 NVIDIA H100 80GB HBM3, 8 RDMA devices"),
        ("h200-vm", "2 NVIDIA H200, no RDMA device"),
        ("geforce-desktop", "1 NVIDIA GeForce RTX 4090, RDMA devices not known"),
        ("wsl2", "Linux "),
    ):
        crumb = re.findall(r'class="crumb"><b>[^<]*</b> ([^<]*)<', made(name)[1])[0]
        assert crumb.startswith(words) and ("RDMA" in crumb) is (name != "wsl2")


def test_beside_the_matrix_each_kind_of_pairs_has_its_reason():
    text = made("rail-down")[1]
    (key,) = re.findall(r'<ul class="key">(.*?)</ul>', text)
    direct, dead, unknown = re.findall(r"<li>.*?</li>", key)
    assert "<b>7</b> direct</div>" in direct
    assert "<b>49</b> not known<small>Not known: nvidia-smi topo -m is missing." in unknown
    assert "<b>8</b> dead" in dead and "<small>mlx5_7: DOWN, Disabled</small></div>" in dead


def test_the_first_pair_is_the_worst_of_those_at_their_own_nic():
    """Other GPUs reach the port that is down no better, and it is not theirs."""
    elements = Reader(made("rail-down")[1]).elements
    (current,) = [attributes for _, attributes in elements if attributes.get("aria-current") == "true"]
    assert current["aria-label"].startswith("GPU 7 (0000:df:00.0) to mlx5_7: PIX, dead")


@pytest.mark.parametrize(
    ("name", "layer", "sign"),
    [
        ("rail-down", "hardware", "bad"),
        ("acs-redirect", "pcie", "warning"),
        ("zgx-3285", "hardware", "impossible"),
        ("rail-down", "rdma", "ok"),
    ],
)
def test_a_layer_has_the_sign_of_its_worst_finding(name, layer, sign):
    assert f"{glyph(sign)}<b>{layer}</b>" in layers(diagnosed(name), "x")


def test_notes_beside_a_failure_do_not_hide_it():
    report = diagnosed("rail-down")
    (failed,) = [f for f in report.findings if f.layer == "hardware" and f.status == "failed"]
    for findings in ((failed, replace(failed, status="note")), (replace(failed, status="warning"), failed)):
        assert f"{glyph('bad')}<b>hardware</b>" in layers(replace(report, findings=findings), "x")


def test_where_fixes_lead_is_a_part_if_there_is_any():
    report = diagnosed("zgx-3285")
    assert report.what_then
    for plan, ends in (((), report.what_then), ((), ()), (diagnosed("acs-redirect").plan, ())):
        shown = fixes(replace(report, plan=plan, what_then=ends))
        assert ("Where each fix leads" in shown) is bool(plan or ends)


def test_missing_evidence_decides_only_an_unknown_verdict():
    for name, decides in (("h200-collected", 0), ("geforce-desktop", 0), ("iommu-translating", 2)):
        shown = unseen(diagnosed(name))
        assert shown.count("decides the verdict") == decides < shown.count("<small>(")


def test_a_chart_has_a_line_at_each_number():
    (chart, *_) = re.findall(r'<svg class="ceilings".*?</svg>', made("ubuntu-6.8-h100")[1], re.DOTALL)
    assert chart.count('class="grid"') == chart.count('class="dim mid"') > 2


def test_a_command_with_a_word_to_replace_is_not_offered_to_copy():
    page = Reader(made("h200-vm")[1])
    copied = [attributes.get("data-copy") for tag, attributes in page.elements if tag == "button"]
    assert "gdr doctor --expect FILE" in page.text and "gdr codes no-rdma-device" in copied
    assert not any("FILE" in words for words in copied)


def test_a_spark_says_first_that_the_error_is_to_be_ignored():
    _, text = made("spark-two-cables")
    (first,) = re.findall(r"<h1>(.*?)</h1>", text)
    assert first == "Ignore the error of <code>modprobe nvidia-peermem</code>: there is nothing to fix."


def test_a_node_without_such_an_error_says_whether_it_works():
    _, text = made("ubuntu-6.8-h100")
    assert "<h1>8 of 8 GPUs reach their NIC directly over dma-buf.</h1>" in text


def test_findings_about_programs_that_the_node_does_not_have_are_left_out():
    whole, text = made("ubuntu-6.8-h100")
    assert "no-efa-device" in {finding.code for finding in whole.report.findings}
    assert "no-efa-device" not in text and "peermem-stub" in text


def test_a_redirected_pair_climbs_to_the_host_bridge_and_a_clean_one_turns_in_its_switch():
    def highest(name):
        _, text = made(name)
        data = json.loads(re.findall(r'id="data">(.*?)</script>', text, re.DOTALL)[0])
        direct = data["pairs"]["pair-0-0"]["wide"][0]
        return min(float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", direct))

    from gdrkit.fabric.picture_svg import WIDE

    assert WIDE.bridge[0] < highest("acs-redirect") < WIDE.bridge[1] + 6
    assert highest("ubuntu-6.8-h100") > WIDE.bridge[1] + 6


def test_a_pair_that_the_picture_does_not_show_hides_no_path_of_another():
    node, _ = made("ubuntu-6.8-h100")
    topology = node.topo.topology
    first = topology.gpus[0]
    fewer = replace(
        topology,
        gpus=topology.gpus[1:],
        devices=tuple(one for one in topology.devices if one.address != first.address),
    )
    pairs = tuple(pair_views(node.report, node.topo, node.estimate))
    whole, cut = (_paths(picture(one), pairs) for one in (topology, fewer))
    gone = {pair.key for pair in pairs if pair.gpu.id == first.id}
    assert pairs[0].key in gone and cut.keys() == whole.keys() - gone != set()


def test_without_a_tree_the_page_says_why_there_is_no_picture():
    node, _ = made("talos")
    bare = NodeReport(node.report, None, None, "PCI devices (not collected)", "x", "", "now")
    text = node_page(bare)
    assert "No picture: PCI devices (not collected)." in Reader(text).text


def test_processes_that_use_a_direct_path_now_are_named_with_their_job_and_the_reason():
    process = ProcessInUse(
        pid=4711, name="python3", job="slurm 17.0", devices=("mlx5_0", "mlx5_1"), path="dmabuf",
        confidence=Confidence.LIKELY, because="maps GPU memory of an RDMA region",
    )  # fmt: skip
    whole, unused = made("ubuntu-6.8-h100")
    used = node_page(dataclasses.replace(whole, report=replace(whole.report, in_use=(process,))))
    table = re.findall(r'<section id="running">.*?</section>', used, re.DOTALL)[0]
    for words in ("python3", "4711", "slurm 17.0", "mlx5_1", "dmabuf", process.because):
        assert words in table
    assert 'id="running"' not in unused


def test_what_was_read_without_a_text_to_show_is_one_line_below_the_table():
    _, text = made("rail-down")
    details = re.findall(r"<details.*?</details>", text, re.DOTALL)
    rows, _, below = next(one for one in details if "Also read: " in one).partition("Also read: ")
    read = re.findall(r"<code>(.*?)</code>", below.partition("</p>")[0])
    folder = "lib/modules/6.8.0-45-generic"
    assert read == [folder, "proc/sys/kernel/osrelease", f"{folder}/modules.dep.bin"]
    assert "<td><code>" in rows and not any(f"<td><code>{path}</code>" in rows for path in read)


@pytest.mark.parametrize("name", ["rail-down", "gb200-force-pcie", "h200-vm", "talos"])
def test_what_is_counted_in_words_is_plural_only_if_it_is_not_one(name):
    text = made(name)[1]
    counted = re.findall(r"The node has (.*?)\.", text)[0].split(", ")
    lacking = re.findall(r"(\d+) (checks?) lacked evidence", text)

    assert [re.sub(r"(?<=ch)es$|s$", "", words.partition(" ")[2]) for words in counted] == [
        "processor", "host bridge", "switch", "GPU", "NIC port",
    ]  # fmt: skip
    for number, noun in [words.split(" ", 1) for words in counted] + lacking:
        assert (number == "1") != noun.endswith("s")


HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>\x1b]0;x\x07\u202e`</style>'


def hostile_page():
    """The page on a node whose evidence tries to become markup, a script, and orders to a terminal."""
    whole, _ = made("rail-down")
    report = whole.report
    finding = report.findings[0]
    bad = replace(
        finding,
        seen=HOSTILE,
        subject=HOSTILE,
        advice=HOSTILE,
        references=(f"https://x{HOSTILE}", "javascript:alert(1)"),
        evidence=tuple(replace(e, source=HOSTILE, text=HOSTILE, locator=HOSTILE) for e in finding.evidence),
    )
    nets = tuple(replace(net, state=HOSTILE, netdev=HOSTILE) for net in whole.topo.topology.nets)
    topo = replace(whole.topo, topology=replace(whole.topo.topology, nets=nets))
    hostile = NodeReport(
        report=replace(
            report, node=replace(report.node, hostname=HOSTILE), findings=(bad, *report.findings[1:])
        ),
        topo=topo, estimate=whole.estimate, why_no_picture="", source=HOSTILE, target=HOSTILE, made="now",
    )  # fmt: skip
    return node_page(hostile)


def test_evidence_of_a_hostile_node_stays_text():
    text = hostile_page()
    page = Reader(text)
    assert sum(tag == "script" for tag, _ in page.elements) == 2
    assert not any(tag == "img" for tag, _ in page.elements)
    assert not any(key.startswith("on") for _, attributes in page.elements for key in attributes)
    assert not any((a.get("href") or "").startswith("javascript") for _, a in page.elements)
    assert "\x1b" not in text and "\u202e" not in text


def test_a_command_that_is_said_to_be_below_can_be_copied_there():
    _, text = made("gpu-operator-waits")
    step = re.search(r'<div class="next">.*?</button></div>', text, re.DOTALL)[0]
    assert "The command below tells whether" in step
    assert "kubectl exec POD -- sh -c" in step and step.count('class="cmd"') == 1


def test_what_no_owner_can_change_is_permanent_and_no_failure():
    _, text = made("zgx-3285")
    layers = text[text.index('id="layers"') :]
    layers = layers[: layers.index("</section>")]
    assert "<small>permanent, certain</small>" in layers
    assert "<small>failed" not in layers
    _, other = made("rail-down")
    assert "<small>failed, certain</small>" in other


def test_what_nccl_does_is_no_claim_where_nothing_passes_or_evidence_is_missing():
    """A dead port carries nothing, also not through host memory; topology alone proves no direct path."""
    whole, _ = made("rail-down")
    dead = [pair for pair in pair_views(whole.report, whole.topo, whole.estimate) if pair.kind == "dead"]
    assert dead and not any(pair.nccl for pair in dead)
    whole, _ = made("talos")
    (pair,) = pair_views(whole.report, whole.topo, whole.estimate)
    assert pair.kind == "unknown" and pair.nccl == ""
    whole, _ = made("iommu-translating")  # NCCL's settings were not collected
    (pair,) = pair_views(whole.report, whole.topo, whole.estimate)
    assert pair.kind == "unknown" and pair.nccl == "by its topology alone, sends and receives directly"
