"""The text form of a node says what the node says, or less."""

from __future__ import annotations

import random

import pytest
from machines.programs import found

from gdrkit.explain.explain import explain
from gdrkit.explain.outputs.pasted_host import PastedHost
from tests.evidence_nodes import laid_down
from tests.seed import SEED
from tests.system_programs import missing
from tests.text_form import TextForm, as_text_names, compared, said_of

OPEN = {
    ("gpu-off-the-bus", "nvidia-smi -q"),  # the log's Xid 79 is named, where doctor says no answer
    ("nv-peer-mem-conflict", "lsmod"),  # the line of the log is named, a note where lsmod is known
}
"""Texts that say something else than the node, by node and by the command that is left out."""

pytestmark = pytest.mark.skipif(
    not all(map(found, ("lspci", "modinfo", "modprobe"))), reason=missing("lspci", "modinfo", "modprobe")
)


NODES = as_text_names()
TODAY = random.Random(SEED).sample(NODES, len(NODES) // 3)
"""A third of them, others each day."""


@pytest.mark.parametrize("name", TODAY)
def test_a_text_says_what_the_node_says_or_less(name: str):
    """One command is left out of it, always the same; tools/as_text.py leaves out each in turn."""
    chance = random.Random(f"1 {name}")
    form = TextForm(laid_down(name))
    left_out = chance.choice((*form.outputs, *[""] * len(form.outputs)))

    assert bool(form.without(left_out).offences) is ((name, left_out) in OPEN), (
        f"GDRKIT_SEED={SEED}",
        left_out,
    )


def test_a_text_of_another_machine_is_an_offence():
    rejected = "[    9.1] nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client\n"
    outcome = compared(said_of(laid_down("ubuntu-6.8-h100")), explain(PastedHost(rejected)))

    assert outcome.kind == "other"
    assert outcome.named == "module-crc-mismatch"
    assert any(offence.startswith("proves module-crc-mismatch") for offence in outcome.offences)


def test_a_text_that_names_the_cause_is_the_same_and_one_that_names_none_is_less():
    said = said_of(laid_down("rocky-3090-stock"))
    listed = "$ nvidia-smi -L\nGPU 0: NVIDIA GeForce RTX 3090 (UUID: GPU-1)\n$ uname -r\n5.14.0\n"

    assert compared(said, explain(PastedHost("$ uname -r\n5.14.0\n"))).kind == "less"
    assert compared(said, explain(PastedHost(listed))).kind == "same"


def test_the_commands_print_what_sysfs_has():
    outputs = TextForm(laid_down("rail-down")).outputs

    _, _, last = outputs["ibstat"].partition("CA 'mlx5_7'")
    assert "\t\tState: Down\n" in last
    assert "rail-down" not in outputs["modinfo nvidia_peermem"]  # no path of the laid-down tree
    assert ["GPU7", *["SYS"] * 4, *["NODE"] * 3] == [
        word for word in outputs["nvidia-smi topo -m"].splitlines()[8].split()[:9] if word != "X"
    ]
    assert "Kernel driver in use: mlx5_core" in outputs["lspci -nnvvv"]
