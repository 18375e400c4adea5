"""What a document about a node takes from the node's own settings, and what it says that it did not read."""

from __future__ import annotations

import pytest

from gdrkit.fabric.topo_document import NO_SETTINGS, OF_DOCTOR, NcclSection, build
from gdrkit.fabric.topology.from_file import read_topology
from gdrkit.fabric.topology.saved import of_node
from gdrkit.facts.driver_files import DRIVER
from gdrkit.facts.modules import is_loaded
from gdrkit.programs.nccl.releases import NEWEST
from tests.hardware import BARE_METAL, SERVER, machine


def section(given: dict[str, str] | None = None, **options) -> tuple[str, NcclSection]:
    node = machine(SERVER, **options).after("driver", [is_loaded.becomes(True, DRIVER)])
    found = build("", of_node(node), NEWEST, given or {})
    assert found.nccl is not None
    return str(found.pairs[0].receive), found.nccl


@pytest.mark.parametrize(
    ("files", "given", "receives"),
    [
        ({}, {}, "yes"),
        ({"etc/nccl.conf": "NCCL_IB_DISABLE=1\n"}, {}, "no"),
        ({"etc/nccl.conf": "NCCL_NET_GDR_LEVEL=LOC\n"}, {}, "no"),
        ({"etc/nccl.conf": "#NCCL_IB_DISABLE=1\nNCCL_DEBUG=INFO\n"}, {}, "yes"),
        ({"etc/nccl.conf": "NCCL_IB_DISABLE=1\n"}, {"NCCL_IB_DISABLE": "0"}, "yes"),  # a job's own
        ({"etc/environment": "export NCCL_IB_DISABLE=1\n"}, {}, "no"),
        ({"etc/environment": "NCCL_IB_DISABLE=0\n", "etc/nccl.conf": "NCCL_IB_DISABLE=1\n"}, {}, "yes"),
    ],
)
def test_settings_for_all_jobs_of_the_node_apply_unless_others_are_given(
    files: dict[str, str], given: dict[str, str], receives: str
):
    shown, nccl = section(given, files=BARE_METAL | files)

    assert shown == receives
    assert "NCCL_DEBUG" not in nccl.environment
    assert NO_SETTINGS not in nccl.assumed and OF_DOCTOR in nccl.assumed


def test_settings_that_were_not_collected_are_assumed_to_be_none():
    shown, nccl = section(without=("etc",))

    assert shown == "yes" and NO_SETTINGS in nccl.assumed


def test_of_a_file_nothing_is_said_that_holds_for_a_node():
    matrix = b"\tGPU0\tmlx5_0\nGPU0\t X \tPIX\nmlx5_0\tPIX\t X \n"
    found = build("", read_topology(matrix), NEWEST, {})

    assert found.nccl is not None and OF_DOCTOR not in found.nccl.assumed
