"""The matrix of `nvidia-smi topo -m`, of old and new drivers, and as people paste it."""

import contextlib
import html

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
ROWS = NEW.splitlines()
WIDE = (
    "\t"
    + "\t".join(f"GPU{n}" for n in range(6))
    + "\tNIC0\tNIC1\tCPU Affinity\n"
    + "".join(
        f"GPU{n}\t"
        + "\t".join(" X " if n == m else "NODE" for m in range(6))
        + f"\t{'PXB' if n < 3 else 'SYS'}\tSYS\t0-23\n"
        for n in range(6)
    )
)


def lines(text, prefix):
    return "".join(f"{prefix}{line}\n" for line in text.splitlines())


def cut_at(text, width):
    """A text as a terminal of this width breaks it."""
    whole = text.expandtabs(8).splitlines()
    return "\n".join(line[at : at + width] for line in whole for at in range(0, max(len(line), 1), width))


def test_names_cells_and_affinities_are_read():
    found = topo_matrix.parse(NEW)
    assert found.names == ("GPU0", "GPU1", "mlx5_0")
    assert found.cells["GPU0", "GPU1"] == "NV18"
    assert found.cells["GPU1", "mlx5_0"] == "SYS"
    assert (found.rows["GPU0"].cpu_affinity, found.rows["GPU1"].numa_affinity) == ("0-31,64-95", "1")
    assert found.rows["mlx5_0"].cpu_affinity == ""
    assert found.notes == ()


def test_an_old_header_has_the_devices_themselves_and_an_old_word():
    assert topo_matrix.parse(OLD).cells["GPU0", "mlx5_0"] == "SYS"


def test_the_memory_of_a_coherent_gpu_is_a_numa_node():
    found = topo_matrix.parse(NEW.replace("32-63\t1\t\tN/A", "32-63\t1\t\t10"))
    assert (found.rows["GPU0"].gpu_numa_id, found.rows["GPU1"].gpu_numa_id) == ("", "10")


@pytest.mark.parametrize(
    "paste",
    [
        NEW.expandtabs(8),
        NEW.replace("\n", "\r\n"),
        NEW.replace("\n", "\n\n"),
        "$ nvidia-smi topo -m\n```\n" + NEW + "```\n",
        lines(NEW, "> "),
        lines(NEW, "> > "),
        lines(NEW, "    "),
        lines(NEW, "[pod/trainer-3/main] "),
        lines(NEW, "2026-02-11T10:00:00.000000001Z "),
        lines(NEW, "2026-02-11T10:00:00.1Z stdout F "),
        lines(NEW, "node-12: "),
        lines(NEW, "[1,4]<stdout>:"),
        lines(NEW, "7: "),
        "".join(f"{number:5}  {line}\n" for number, line in enumerate(ROWS)),
        html.escape(NEW).replace("\t", "&#9;"),
        "GPU0 is slow here.\n" + NEW,
        NEW.replace("\t X \tNV18\tPIX", "  XNV18PIX"),
    ],
)
def test_a_paste_is_read_as_the_output_itself(paste):
    assert topo_matrix.parse(paste) == topo_matrix.parse(NEW)


@pytest.mark.parametrize("width", [40, 57, 64, 80, 100])
def test_rows_that_a_terminal_broke_are_joined(width):
    found = topo_matrix.parse(cut_at(WIDE, width))
    assert found.cells == topo_matrix.parse(WIDE).cells
    assert found.cells["GPU2", "NIC0"] == "PXB"


def test_a_table_of_markdown_is_read():
    cells = [line.replace("\x1b[4m", "").replace("\x1b[0m", "").split("\t")[:4] for line in ROWS[:4]]
    table = [f"| {' | '.join(cell.strip() for cell in row)} |" for row in cells]
    found = topo_matrix.parse("\n".join([table[0], "|---|:-:|---|---|", *table[1:]]))
    assert found.cells["GPU0", "NIC0"] == "PIX"
    assert found.names == ("GPU0", "GPU1", "NIC0")


def test_rows_of_gpus_alone_show_their_nics():
    found = topo_matrix.parse("\n".join(ROWS[:3]))
    assert found.cells["NIC0", "GPU1"] == "SYS", "the matrix is symmetric"
    assert found.notes == ("the text does not show the rows of NICs",)


def test_rows_of_gpus_that_are_cut_are_named_and_not_invented():
    found = topo_matrix.parse(ROWS[0] + "\n" + ROWS[1] + "\nGPU1\tNV18\t X \t")
    assert found.cells["GPU1", "GPU0"] == "NV18"
    assert ("GPU1", "NIC0") not in found.cells
    assert found.notes == ("the text does not show the rows of GPU1",)


@pytest.mark.parametrize("rows", [ROWS[1:4], ROWS[1:3]])
def test_without_a_header_gpus_come_first_and_nics_after_them(rows):
    found = topo_matrix.parse("\n".join(rows))
    assert found.names == ("GPU0", "GPU1", "NIC0")
    assert found.cells["GPU0", "NIC0"] == "PIX"
    assert any("header" in note for note in found.notes)


def test_without_a_header_a_column_with_nvlink_is_a_gpu():
    found = topo_matrix.parse("GPU0\tX\tNV4\tNV4\tPHB\t0-3\t0\tN/A\n")
    assert found.names == ("GPU0", "GPU1", "GPU2", "NIC0")


def test_without_a_header_a_row_that_was_cut_is_left_out():
    whole, cut = "GPU0\tX\tNV4\tNV4\tPHB", "GPU1\tNV4\tX\tNV4"
    found = topo_matrix.parse(f"{whole}\n{cut}\n")
    assert (found.names, list(found.rows)) == (("GPU0", "GPU1", "GPU2", "NIC0"), ["GPU0"])


def test_the_first_of_several_matrices_is_read():
    found = topo_matrix.parse(NEW + NEW.replace("mlx5_0", "mlx5_7"))
    assert found.names[-1] == "mlx5_0"
    assert found.notes == ("the text has several matrices; this is the first",)


def test_the_matrix_of_peer_access_is_no_topology():
    access = " \tGPU0\tGPU1\n GPU0\tX\tGNS\n GPU1\tGNS\tX\n"
    assert topo_matrix.parse(access + NEW) == topo_matrix.parse(NEW)
    with pytest.raises(FormatError, match="-p2p"):
        topo_matrix.parse(access)


@pytest.mark.parametrize(
    "text",
    ["", "NVIDIA-SMI has failed", NEW[:70], ROWS[0], "\tGPU0\tGPU1\nGPU0\tNV18\t X \n",
     NEW.replace("NIC0: mlx5_0", "NIC0: GPU1"), "GPU0 X-ray of a GPU1", "GPU0 NODE NODE"],
)  # fmt: skip
def test_what_is_no_matrix_is_refused(text):
    with pytest.raises(FormatError):
        topo_matrix.parse(text)


def test_a_row_that_lost_a_cell_is_left_out():
    found = topo_matrix.parse(NEW.replace("NV18\t X \tSYS", "NV18\tSYS"))
    assert ("GPU1", "NIC0") not in found.cells or found.cells["GPU1", "NIC0"] == "SYS"
    assert "GPU1" not in found.rows


def test_a_header_alone_is_a_cut_matrix():
    assert topo_matrix.has_matrix(ROWS[0])
    with pytest.raises(FormatError, match="cut"):
        topo_matrix.parse(ROWS[0])


@given(
    st.text()
    | st.lists(
        st.sampled_from(
            [
                "GPU0",
                "GPU1",
                "\t",
                "\n",
                " X ",
                "PIX",
                "NIC0",
                "0-3",
                "CPU Affinity",
                "> ",
                "|",
                "NODE",
                "&#9;",
            ]
        )
    ).map("".join)
)
def test_any_text_gives_a_matrix_or_a_format_error(text):
    with contextlib.suppress(FormatError):
        found = topo_matrix.parse(text)
        assert topo_matrix.has_matrix(text)
        assert all(found.cells[name, name] == "X" for name in found.rows)
