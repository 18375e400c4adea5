"""The programs' own libraries against the catalogue, where they are: benchmarks/libraries.py says which."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from benchmarks.libraries import BINARIES, EXPECTED, binaries, fixed, found_in, matched, rows_of, started

FOLDER = Path(os.environ.get("GDRKIT_LIBRARIES", ""))
needs_libraries = pytest.mark.skipif(
    "GDRKIT_LIBRARIES" not in os.environ,
    reason="set GDRKIT_LIBRARIES to a folder of unpacked wheels: see benchmarks/libraries.py",
)


@needs_libraries
@pytest.mark.parametrize("program", EXPECTED)
def test_a_start_without_gpu_and_nic_prints_what_is_predicted_for_it(program):
    causes = {code for _, codes in matched(started(program, FOLDER)) for code in codes[:1]}
    assert causes == EXPECTED[program]


@needs_libraries
@pytest.mark.parametrize("program", sorted(BINARIES.keys() - {"libfabric"}))  # Debian builds it without CUDA
def test_most_messages_of_a_program_are_in_its_binaries(program):
    """The others are of other releases, or of builds with other options."""
    paths, rows = binaries(FOLDER, program), rows_of(program)
    assert paths, f"no binary of {program}"
    assert len(found_in(paths, rows)) > len(rows) / 2


def test_a_message_is_found_by_its_fixed_part_and_an_altered_one_is_not(tmp_path):
    rows = rows_of("nvshmem")
    (skipped,) = [row for row in rows if row.template.startswith("neither nv_peer_mem")]
    place = tmp_path / "nvshmem_transport_ibrc.so.3"
    place.write_bytes(b"\x7fELF\0neither nv_peer_mem, or nvidia_peermem detected. Skipping transport.\n\0")
    assert binaries(tmp_path, "nvshmem") == [place]
    assert found_in([place], rows) == {skipped.template}
    place.write_bytes(b"\x7fELF\0neither nv_peer_mem nor nvidia_peermem detected. Skipping transport.\n\0")
    assert found_in([place], rows) == set()


@pytest.mark.parametrize("program", BINARIES)
def test_nearly_every_row_has_a_fixed_part(program):
    rows = rows_of(program)
    assert sum(not fixed(row) for row in rows) * 10 <= len(rows)
