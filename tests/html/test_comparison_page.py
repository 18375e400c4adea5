"""The report on two nodes: both verdicts first, and only what differs."""

from __future__ import annotations

import contextlib
import functools
import io
import re
import shutil

import pytest

from gdrkit.cli import main
from tests.evidence_nodes import laid_down
from tests.html.test_node_page import Reader


@functools.cache
def written(*names):
    """The exit code and the page of two nodes."""
    targets = [str(laid_down(name)) for name in names]
    with contextlib.redirect_stdout(io.StringIO()) as page:
        code = main(["report", *targets, "-o", "-"])
    return code, page.getvalue()


def compared(tmp_path, *, mtu):
    """The page of a node, and of the same one with another MTU on all of its interfaces."""
    one, other = str(laid_down("spark-two-cables")), tmp_path / "other"
    shutil.copytree(one, other, symlinks=True)
    for file in other.glob("sys/devices/**/net/*/mtu"):
        file.write_text(f"{mtu}\n")
    with contextlib.redirect_stdout(io.StringIO()) as page:
        main(["report", one, str(other), "-o", "-"])
    return page.getvalue()


def part(text, name):
    return re.findall(rf'<section id="{name}">.*?</section>', text, re.DOTALL)[0]


def test_the_first_line_has_both_verdicts_and_the_code_is_the_worse_ones():
    code, text = written("rail-down", "ubuntu-6.8-h100")
    page = Reader(text)
    assert code == 2
    assert "<h1>rail-07 is blocked, h100-07 is ready.</h1>" in text
    assert "7 of 8 GPUs reach their NIC directly" in page.text
    assert "port-down" in part(text, "findings") and "not found" in part(text, "findings")
    assert "0000:df:00.0" in part(text, "states")


def test_the_same_node_twice_differs_in_nothing():
    code, text = written("ubuntu-6.8-h100", "ubuntu-6.8-h100")
    assert code == 0
    assert "<h1>Both are ready.</h1>" in text
    for words in ("the same state", "the same findings", "No difference in what is compared"):
        assert words in text


def test_before_and_after_have_names_of_their_own():
    _, text = written("ubuntu-6.8-h100", "ubuntu-6.8-h100")
    assert "<b>first</b> and <b>second</b>" in text


def test_each_node_has_its_next_step_and_its_picture():
    _, text = written("rail-down", "nic-x4")
    first, second = re.findall(r'<div class="entry"><h3>.*?</figure></div>', text, re.DOTALL)
    assert "sudo ibportstate -C mlx5_7 -D 0 1 enable" in first and "port DOWN" in first
    assert "gdr codes link-degraded" in second and "x4 of x16" in second
    assert 'class="pic high"' in first and 'class="pic"' in second, "eight GPUs are drawn from top to bottom"
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))


def test_a_node_whose_devices_are_not_known_has_the_reason_in_place_of_a_picture():
    _, text = written("ubuntu-6.8-h100", "wsl2")
    assert text.count('class="pic') == 2 and "No picture: " in text


def test_two_sparks_are_told_that_nothing_is_to_be_fixed_and_what_to_set():
    _, text = written("zgx-3285", "zgx-3852")
    assert "<h1>Ignore the error of <code>modprobe nvidia-peermem</code>" in text
    assert "Both are impossible" not in text
    between = part(text, "between")
    assert "<h3>What to set on both nodes</h3>" in between
    assert "NCCL_IB_HCA=&#x27;=roceP2p1s0f1:1,rocep1s0f1:1&#x27;" in between
    assert 'data-copy="export NCCL_IB_HCA=' in between  # a command of its own, which wraps


def test_a_note_that_both_have_is_no_difference():
    _, text = written("zgx-3285", "zgx-3852")
    differs = part(text, "differences")
    assert "module-unknown-key" in differs and "none of these" in differs
    assert "no-efa-device" not in differs


def test_only_machines_with_integrated_gpus_have_a_part_about_their_cables():
    _, text = written("rail-down", "ubuntu-6.8-h100")
    assert 'id="between"' not in text


@pytest.mark.parametrize(("mtu", "differs"), [(1500, True), (9000, False)])
def test_what_a_job_needs_to_be_the_same_comes_before_what_is_nothing_to_fix(tmp_path, mtu, differs):
    text = compared(tmp_path, mtu=mtu)
    sections = re.findall(r'<section id="(\w+)"', text)

    assert ("<h1>Different on both, and must be the same for a job: MTU.</h1>" in text) is differs
    assert ("<h1>Ignore the error of" in text) is not differs
    assert (sections.index("differences") < sections.index("between")) is differs
    assert ("mtu 9000" in part(text, "between")) is differs
