"""A path that is seen in use is active; any other is ready at best."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.evidence.target import open_host
from gdrkit.facts.usage import BUFINFO, parse_dmabuf_importers
from gdrkit.formats.errors import FormatError
from gdrkit.node import Node
from gdrkit.verdict import judge_node
from tests.evidence_nodes import build

TABLE = """
Dma-buf Objects:
size    \tflags   \tmode    \tcount   \texp_name\tino     \tname
02097152\t00000002\t00080007\t00000002\tnvidia\t00000004\t<none>
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


def test_a_nic_that_holds_gpu_memory_makes_its_pairs_active_and_no_others():
    found = states(TABLE.format(nic="0000:18:00.0"))
    active = {pair.split()[1] for pair, state in found.items() if state == "active"}
    assert len(active) == 1 and any(state == "ready" for state in found.values())


def test_buffers_of_other_exporters_are_not_evidence():
    assert "active" not in states(TABLE.format(nic="none")).values()


def test_an_impossible_path_stays_impossible_even_if_a_buffer_is_in_use():
    assert set(states(TABLE.format(nic="0000:01:00.1"), "zgx-3285").values()) == {"impossible"}


def test_importers_are_those_of_nvidias_buffers():
    assert parse_dmabuf_importers(TABLE.format(nic="0000:17:00.0")) == {"0000:17:00.0"}


def test_an_empty_table_has_no_importers_and_garbage_is_none():
    assert (
        parse_dmabuf_importers("\nDma-buf Objects:\nsize\tflags\n\nTotal 0 objects, 0 bytes\n")
        == frozenset()
    )
    with pytest.raises(FormatError):
        parse_dmabuf_importers("cat: bufinfo: Permission denied")


@given(st.text())
def test_any_text_is_a_table_or_a_format_error(text):
    with contextlib.suppress(FormatError):
        parse_dmabuf_importers(text)
