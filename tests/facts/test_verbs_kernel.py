"""Features of the kernel's RDMA drivers by their symbols, also with Debian's real modules."""

from __future__ import annotations

import pytest

from gdrkit.evidence import Confidence, EvidenceAbsent, EvidenceMissing
from gdrkit.facts.verbs_kernel import (
    dmabuf_exporter,
    is_built_in,
    on_demand_paging,
    takes_dmabuf,
    verbs_module,
)
from tests.debian_kernels import module
from tests.module_builder import build_module
from tests.rules.machines import DMABUF, ODP, installed, node


@pytest.mark.parametrize(
    ("driver", "module"),
    [
        ("mlx5_core", "mlx5_ib"),
        ("ice", "irdma"),
        ("efa", "efa"),
        ("bnxt_en", "bnxt_re"),
        ("rxe", "rdma_rxe"),
    ],
)
def test_the_verbs_module_of_a_pci_driver(driver: str, module: str):
    assert verbs_module(driver) == module


@pytest.mark.parametrize("owner", ["ib_uverbs", "ib_core"])
@pytest.mark.parametrize("symbol", DMABUF)
def test_either_module_can_export_either_function(owner: str, symbol: str):
    files = installed(
        {f"kernel/{owner}.ko": build_module(owner, exports={symbol: 1})}, exporters={symbol: owner}
    )

    assert dmabuf_exporter(node(files)) == owner


REAL = [
    ("6.1", "mlx5_ib", True),
    ("6.1", "irdma", False),
    ("6.1", "mlx4_ib", False),
    ("6.1", "rdma_rxe", False),
    ("6.12", "mlx5_ib", True),
    ("6.12", "irdma", True),
    ("6.12", "bnxt_re", True),
    ("6.12", "mlx4_ib", False),
]
"""Debian's kernels, and which of their drivers register dma-bufs: the upstream history of each driver."""


@pytest.mark.parametrize(("version", "driver", "able"), REAL)
def test_debians_modules_are_judged_correctly(version: str, driver: str, able: bool):
    names = {name: module(version, "amd64", name) for name in (driver, "ib_uverbs", "ib_core")}
    files = installed({f"kernel/{path.name}": path.read_bytes() for path in names.values()})
    offered = "".join(f"alias symbol:{symbol} ib_uverbs\n" for symbol in (*DMABUF, *ODP))
    machine = node(files, {"lib/modules/6.1.0-56-amd64/modules.symbols": offered})

    assert takes_dmabuf(machine, driver) is able
    if driver == "mlx5_ib":
        assert on_demand_paging(machine)


def test_no_exporter_differs_from_not_collected():
    assert dmabuf_exporter(node(installed({}))) == ""
    with pytest.raises(EvidenceMissing):
        dmabuf_exporter(node(complete=False))


def test_a_built_in_driver_has_a_folder_without_initstate():
    assert is_built_in(node({"sys/module/mlx5_ib/parameters/x": "1"}), "mlx5_ib")
    assert not is_built_in(node({"sys/module/mlx5_ib/initstate": "live\n"}), "mlx5_ib")


def test_a_built_in_driver_is_judged_by_the_kernel_image_with_less_confidence():
    symbols = {"proc/kallsyms": "0 r __ksymtab_ib_umem_dmabuf_get\n", "sys/module/mlx5_ib/parameters/x": "1"}
    machine = node(symbols)

    assert takes_dmabuf(machine, "mlx5_ib")
    assert machine.trail(takes_dmabuf, "mlx5_ib").confidence is Confidence.LIKELY


def test_the_configuration_decides_where_the_module_was_not_collected():
    files = installed({"kernel/mlx5_ib.ko": b""})
    config = {"boot/config-6.1.0-56-amd64": "#\nCONFIG_MODULES=y\nCONFIG_INFINIBAND_ON_DEMAND_PAGING=y\n"}
    left_out = "lib/modules/6.1.0-56-amd64/kernel/mlx5_ib.ko"

    assert on_demand_paging(node(files, config, complete=False, without=left_out))


def test_a_module_takes_precedence_over_the_configuration():
    files = installed({"updates/mlx5_ib.ko": build_module("mlx5_ib", imports=ODP)})
    config = {"boot/config-6.1.0-56-amd64": "#\nCONFIG_MODULES=y\n"}

    assert on_demand_paging(node(files, config))


def test_a_missing_module_is_absent():
    with pytest.raises(EvidenceAbsent):
        takes_dmabuf(node(installed({})), "mlx5_ib")
