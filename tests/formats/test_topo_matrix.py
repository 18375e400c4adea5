"""The matrix of `nvidia-smi topo -m`, of old and new drivers."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.formats import topo_matrix
from gdrkit.formats.errors import FormatError

NEW = (
    "\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV18\tPIX\t0-31,64-95\t0\t\tN/A\n"
    "GPU1\tNV18\t X \tSYS\t32-63\t1\t\tN/A\n"
    "NIC0\tPIX\tSYS\t X \t\t\t\t\n\nLegend:\n\n  X    = Self\n\nNIC Legend:\n\n  NIC0: mlx5_0\n"
)
OLD = "\tGPU0\tmlx5_0\tCPU Affinity\nGPU0\t X \tSOC\t0-7\nmlx5_0\tSOC\t X \t\n"


def test_names_cells_and_affinities_are_read():
    found = topo_matrix.parse(NEW)
    assert found.names == ("GPU0", "GPU1", "mlx5_0")
    assert found.cells["GPU0", "GPU1"] == "NV18"
    assert found.cells["GPU1", "mlx5_0"] == "SYS"
    assert (found.rows["GPU0"].cpu_affinity, found.rows["GPU1"].numa_affinity) == ("0-31,64-95", "1")
    assert found.rows["mlx5_0"].cpu_affinity == ""


def test_an_old_header_has_the_devices_themselves_and_an_old_word():
    assert topo_matrix.parse(OLD).cells["GPU0", "mlx5_0"] == "SYS"


def test_text_that_was_pasted_has_blanks_for_tabs():
    assert topo_matrix.parse(NEW.expandtabs(8)) == topo_matrix.parse(NEW)


@pytest.mark.parametrize(
    "text",
    ["", "NVIDIA-SMI has failed", NEW[:120], NEW.replace("NIC0\tPIX", "NIC1\tPIX"),
     NEW.replace("NV18\tPIX", "NV18"), NEW.partition("\n")[2], NEW.replace("NIC0: mlx5_0", "NIC0: GPU1")],
)  # fmt: skip
def test_a_cut_matrix_is_no_matrix(text):
    with pytest.raises(FormatError):
        topo_matrix.parse(text)


@given(
    st.text()
    | st.lists(st.sampled_from(["GPU0", "\t", "\n", " X ", "PIX", "NIC0", "0-3", "CPU Affinity"])).map(
        "".join
    )
)
def test_any_text_gives_a_matrix_or_a_format_error(text):
    with contextlib.suppress(FormatError):
        topo_matrix.parse(text)
