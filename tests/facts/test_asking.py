"""A question never asks for what the node's platform lacks, and finding out changes nothing."""

from __future__ import annotations

import re

import pytest

from gdrkit.facts.asking import as_asked
from gdrkit.node import Node
from gdrkit.report.text import text
from tests.evidence_nodes import diagnosed, names
from tests.memory_host import MemoryHost

TALOS = Node(MemoryHost({"etc/os-release": b"ID=talos\n"}))
DEBIAN = Node(MemoryHost({"etc/os-release": b"ID=debian\n"}))


@pytest.mark.parametrize(
    ("command", "asked"),
    [
        ("cat /proc/version", "talosctl -n NODE read /proc/version"),
        ("ls -l /sys/class/infiniband", "talosctl -n NODE list -l /sys/class/infiniband"),
        ("sudo dmesg | grep x", "talosctl -n NODE dmesg | grep x"),
        ("kubectl get pods", "kubectl get pods"),
        ("", ""),
    ],
)
def test_on_talos_files_and_the_log_are_read_with_talosctl(command, asked):
    assert as_asked(TALOS, command) == asked
    assert as_asked(DEBIAN, command) == command


def test_on_talos_another_program_runs_in_a_pod_as_one_word():
    asked = as_asked(TALOS, "cat /proc/version; lspci")

    assert asked.startswith("kubectl debug node/NODE ") and asked.endswith(" 'cat /proc/version; lspci'")


def test_a_pod_of_the_node_has_the_files_of_the_node_below_host():
    """Its own /lib and /etc are those of its image; /proc and /sys are the node's."""
    asked = as_asked(TALOS, "ls /lib/modules/$(uname -r)/modules.dep; grep x /proc/kallsyms /sys/etc/lib/y")

    assert "ls /host/lib/modules/" in asked and " /proc/kallsyms /sys/etc/lib/y" in asked


@pytest.mark.parametrize("name", names())
def test_no_question_changes_the_machine(name):
    unknown = [finding.expected for finding in diagnosed(name).findings if finding.status == "unknown"]

    assert not [one for one in unknown if re.search(r"\b(reboot|restart|rmmod|modprobe -r)\b", one)]


@pytest.mark.parametrize("name", ["talos", "gpu-operator-waits"])
def test_the_cause_that_was_found_leads_and_the_image_of_the_pod_decides(name):
    screen, _, rest = " ".join(text(diagnosed(name), width=10_000).split("\n")).partition("(bundle")

    assert screen.index("Found") < screen.index("Why not") < screen.index("Now")
    assert "libibverbs of the pod's image" in screen and "kubectl exec POD" in rest
    assert "nm -D" not in screen + rest
