"""A path that is seen in use is active; any other is ready at best."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gdrkit.catalogue import rule_of
from gdrkit.evidence import Confidence, Missing, MissingReason
from gdrkit.evidence.target import open_host
from gdrkit.facts.loaded_modules import PEERMEM, RunningModule, running
from gdrkit.facts.pci import gpus
from gdrkit.facts.usage import BUFINFO, parse_attachments
from gdrkit.formats.errors import FormatError
from gdrkit.node import Node
from gdrkit.rules.rule import Unknown
from gdrkit.verdict import judge_node
from gdrkit.verdict.check_results import CheckResult
from gdrkit.verdict.path_state import State
from gdrkit.verdict.usage import seen_in_use
from tests.evidence_nodes import build, laid_down
from tests.hiding_host import HidingHost

TABLE = """
Dma-buf Objects:
size    \tflags   \tmode    \tcount   \texp_name\tino     \tname
02097152\t00000002\t00080007\t00000002\t{exporter}\t00000004\t<none>
\tAttached Devices:
\t{nic}
Total 1 devices attached

00004096\t00000002\t00080007\t00000002\tudmabuf\t00000005\t<none>
\tAttached Devices:
\t0000:99:00.0
Total 1 devices attached


Total 2 objects, 2101248 bytes
"""


class WithBufinfo:
    """A host with one more file."""

    def __init__(self, host, content: bytes) -> None:
        self._host, self._content, self.source = host, content, host.source

    def __getattr__(self, name):
        return getattr(self._host, name)

    def read(self, path: str) -> bytes:
        return self._content if path == BUFINFO else self._host.read(path)


def states(content: str, name: str = "ubuntu-6.8-h100") -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        node = Node(WithBufinfo(open_host(str(build(name, Path(folder)))), content.encode()))
        table = judge_node(node).matrix
        return {
            f"{pair.gpu} {pair.device}": next(
                j.state for j in here if (j.path, j.consumer) == ("dmabuf", "nccl")
            )
            for pair, here in table.items()
            if pair is not None
        }


@pytest.mark.parametrize("exporter", ["nvidia", "nv_dmabuf"])  # before and since driver 580.65.06
def test_a_nic_that_holds_gpu_memory_makes_its_pairs_active_and_no_others(exporter):
    found = states(TABLE.format(nic="0000:18:00.0", exporter=exporter))
    active = {pair.split()[1] for pair, state in found.items() if state == "active"}
    assert len(active) == 1 and any(state == "ready" for state in found.values())


@pytest.mark.parametrize(
    ("hidden", "state"), [("etc/nccl.conf", "unknown"), ("sys/kernel/mm/memory_peers", "active")]
)
def test_a_buffer_in_use_does_not_show_what_a_program_is_told(hidden: str, state: str, tmp_path: Path):
    """The table names the NIC and not the program that uses it."""
    table = TABLE.format(nic="0000:18:00.0", exporter="nv_dmabuf")
    host = WithBufinfo(open_host(str(build("ubuntu-6.8-h100", tmp_path))), table.encode())
    seen = judge_node(Node(HidingHost(host, {hidden}))).matrix
    used = next(here for pair, here in seen.items() if pair and pair.device == "mlx5_0")

    assert {one.state for one in used if (one.path, one.consumer) == ("dmabuf", "nccl")} == {state}
    assert {one.state for one in used if (one.path, one.consumer) == ("dmabuf", "verbs")} == {"active"}


def test_a_nic_in_use_does_not_settle_what_is_open_about_one_of_several_gpus(tmp_path: Path):
    """The table does not say whose memory it is. What is open about the node, the use does settle."""
    table = TABLE.format(nic="0000:18:00.0", exporter="nv_dmabuf")
    node = Node(WithBufinfo(open_host(str(build("ubuntu-6.8-h100", tmp_path))), table.encode()))
    pair, here = next(item for item in judge_node(node).matrix.items() if item[0].device == "mlx5_0")
    active = next(
        one for one in here if (one.path, one.consumer, one.state) == ("dmabuf", "verbs", "active")
    )

    def state(subject: object) -> str:
        unknown = CheckResult(
            rule_of("topology-refused"), subject, Unknown(Missing("x", MissingReason.DENIED, "cat x"))
        )
        (seen,) = seen_in_use(node, pair, (replace(active, state=State.UNKNOWN, open=(unknown,)),))
        return seen.state

    assert (state(pair), state(next(iter(gpus(node)))), state(None)) == ("unknown", "unknown", "active")


@pytest.mark.parametrize("exporter", ["amdgpu", "nvidia_drm"])
def test_buffers_of_other_exporters_are_not_evidence(exporter):
    assert "active" not in states(TABLE.format(nic="0000:18:00.0", exporter=exporter)).values()


def test_an_impossible_path_stays_impossible_even_if_a_buffer_is_in_use():
    table = TABLE.format(nic="0000:01:00.1", exporter="nv_dmabuf")
    assert set(states(table, "zgx-3285").values()) == {"impossible"}


def with_regions(name: str, references: str | None) -> dict[str, set[str]]:
    """The states of the paths of a node where nvidia-peermem is loaded and has so many users."""
    node = Node(open_host(str(laid_down(name))))
    module = RunningModule("", "", "", None if references is None else int(references), {})
    changed = node.after("in use", [running.becomes(module, PEERMEM)])
    found: dict[str, set[str]] = {}
    for here in judge_node(changed).matrix.values():
        for judgement in here:
            found.setdefault(judgement.path, set()).add(judgement.state)
            if judgement.state == "active":
                assert (judgement.missing, judgement.confidence) == ((), Confidence.LIKELY)
    return found


@pytest.mark.parametrize(("references", "active"), [("0", False), ("1", True), ("2", True), (None, False)])
def test_a_region_of_peermem_makes_its_path_active_at_every_nic_and_no_other_path(references, active):
    """nvidia-peermem counts regions, not the NICs that hold them."""
    found = with_regions("a100-nccl-2.20", references)
    assert ("active" in found["peermem"]) is active
    assert not any("active" in states for path, states in found.items() if path != "peermem")


def test_attachments_are_counted_by_exporter_and_device():
    assert parse_attachments(TABLE.format(nic="0000:17:00.0", exporter="nv_dmabuf")) == {
        "nv_dmabuf": {"0000:17:00.0": 1},
        "udmabuf": {"0000:99:00.0": 1},
    }


def test_an_empty_table_has_no_attachments_and_garbage_is_none():
    assert parse_attachments("\nDma-buf Objects:\nsize\tflags\n\nTotal 0 objects, 0 bytes\n") == {}
    with pytest.raises(FormatError):
        parse_attachments("cat: bufinfo: Permission denied")


@given(st.text())
def test_any_text_is_a_table_or_a_format_error(text):
    with contextlib.suppress(FormatError):
        parse_attachments(text)
