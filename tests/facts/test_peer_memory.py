"""nvidia-peermem's linkage, the exporter of the API, and its clients."""

from __future__ import annotations

import pytest

from gdrkit.evidence import Confidence, EvidenceAbsent, EvidenceMissing
from gdrkit.facts.peer_memory import (
    PeermemLinkage,
    legacy_peer_mem,
    memory_peers,
    peer_api_exporter,
    peermem_linkage,
)
from gdrkit.facts.symvers import PEER_API
from gdrkit.node import Node
from tests.index_builder import with_indexes
from tests.memory_host import MemoryHost
from tests.module_builder import RELEASE, build_module

ROOT = f"lib/modules/{RELEASE}"
P2P = {"nvidia_p2p_get_pages": 0x11, "nvidia_p2p_put_pages": 0x12}
API = dict.fromkeys(PEER_API, 0xA1)


def node_with(
    peermem: bytes,
    *,
    provider: dict[str, int] | None = None,
    driver: dict[str, int] | None = None,
    owner: str = "ib_core",
    **more: str,
) -> Node:
    exported = API if provider is None else provider
    files: dict[str, bytes | str] = {
        "proc/sys/kernel/osrelease": RELEASE,
        "proc/modules": "",
        f"{ROOT}/updates/nvidia-peermem.ko": peermem,
        f"{ROOT}/updates/nvidia.ko": build_module("nvidia", exports=P2P if driver is None else driver),
        f"{ROOT}/updates/{owner}.ko": build_module(owner, exports=exported),
        f"{ROOT}/modules.dep": (
            f"updates/nvidia-peermem.ko: updates/nvidia.ko updates/{owner}.ko\n"
            f"updates/nvidia.ko:\nupdates/{owner}.ko:\n"
        ),
        f"{ROOT}/modules.symbols": "".join(
            [f"alias symbol:{symbol} {owner}\n" for symbol in exported]
            + [f"alias symbol:{symbol} nvidia\n" for symbol in P2P]
        ),
        f"{ROOT}/build/Module.symvers": "0x1\tmodule_layout\tvmlinux\tEXPORT_SYMBOL\t\n",
        **more,
    }
    return Node(MemoryHost(with_indexes(files), complete=True))


FULL = build_module("nvidia_peermem", imports={**API, **P2P}, depends=("nvidia", "ib_core"))
STUB = build_module(
    "nvidia_peermem", imports={"param_ops_int": 0x5}, parameters={"peerdirect_support": "int"}
)


@pytest.mark.parametrize("owner", ["ib_core", "ib_uverbs"])
def test_a_full_module_is_linked_to_the_exporter_of_the_api(owner: str):
    node = node_with(FULL, owner=owner)

    assert peermem_linkage(node) == PeermemLinkage(uses_peer_api=True)
    assert peer_api_exporter(node) == owner


def test_a_stub_does_not_use_the_api_whatever_its_parameters():
    assert peermem_linkage(node_with(STUB)) == PeermemLinkage(uses_peer_api=False)


def test_an_api_that_is_gone_is_unresolved():
    node = node_with(FULL, provider={"ib_register_client": 1})

    assert peermem_linkage(node).unresolved == tuple(sorted(PEER_API))
    assert peer_api_exporter(node) == ""


def test_another_crc_is_a_mismatch_and_names_the_symbol():
    node = node_with(FULL, provider=dict.fromkeys(PEER_API, 0xB2))

    assert peermem_linkage(node).mismatched == tuple(sorted(PEER_API))


def test_a_driver_of_another_build_is_a_mismatch_of_its_own_symbols():
    node = node_with(FULL, driver={**P2P, "nvidia_p2p_get_pages": 0x99})

    assert peermem_linkage(node).mismatched == ("nvidia_p2p_get_pages",)


def test_a_module_without_symbol_versions_mismatches_nothing():
    plain = build_module("nvidia_peermem", imports={**API, **P2P}, versions=False)

    assert peermem_linkage(node_with(plain, provider=dict.fromkeys(PEER_API, 0xB2))).mismatched == ()


def test_an_exporter_that_was_not_collected_is_unknown_not_unresolved():
    files: dict[str, bytes | str] = {
        "proc/sys/kernel/osrelease": RELEASE,
        f"{ROOT}/modules.dep": "updates/nvidia-peermem.ko:\n",
        f"{ROOT}/updates/nvidia-peermem.ko": FULL,
    }
    linkage = peermem_linkage(Node(MemoryHost(files)))

    assert linkage.uses_peer_api
    assert set(linkage.unseen) == {*API, *P2P}


NVIDIA = "alias symbol:nvidia_p2p_get_pages nvidia\n"


@pytest.mark.parametrize(
    ("needed", "symbols", "uses"),
    [
        ("", NVIDIA, False),
        ("kernel/ib_core.ko updates/nvidia.ko", NVIDIA, None),  # a full one, with unknown checksums
        ("updates/nvidia.ko", NVIDIA, None),  # as well; OFED is gone
        ("", "alias symbol:ib_register_client ib_core\n", None),  # depmod did not see nvidia
    ],
)
def test_depmods_lists_show_a_stub_where_no_module_was_collected(needed, symbols, uses):
    """As in a sosreport. A stub imports nothing from other modules."""
    files: dict[str, bytes | str] = {
        "proc/sys/kernel/osrelease": RELEASE,
        f"{ROOT}/modules.dep": f"updates/nvidia-peermem.ko: {needed}\n",
        f"{ROOT}/modules.symbols": symbols,
    }
    node = Node(MemoryHost(files))
    if uses is None:
        with pytest.raises(EvidenceMissing):
            peermem_linkage(node)
    else:
        assert peermem_linkage(node).uses_peer_api is uses
        assert node.confidence(peermem_linkage) is Confidence.LIKELY


def test_no_file_is_absent():
    node = Node(
        MemoryHost(
            {"proc/sys/kernel/osrelease": RELEASE, f"{ROOT}/modules.dep": "kernel/a.ko:\n"}, complete=True
        )
    )

    with pytest.raises(EvidenceAbsent):
        peermem_linkage(node)


KALLSYMS = "0000000000000000 r __ksymtab_ib_register_client\t[ib_core]\n"


@pytest.mark.parametrize(
    ("more", "exporter"),
    [("", ""), (f"0000000000000000 r __ksymtab_{PEER_API[0]}\t[ib_uverbs]\n", "ib_uverbs")],
)
def test_without_depmods_lists_the_running_kernel_decides(more: str, exporter: str):
    node = Node(
        MemoryHost({"proc/sys/kernel/osrelease": RELEASE, "proc/kallsyms": KALLSYMS + more}, complete=True)
    )

    assert peer_api_exporter(node) == exporter


def test_symbols_without_export_tables_do_not_decide():
    node = Node(
        MemoryHost({"proc/sys/kernel/osrelease": RELEASE, "proc/kallsyms": "0 t start\n"}, complete=True)
    )

    with pytest.raises(EvidenceMissing):
        peer_api_exporter(node)


def test_clients_and_their_counters():
    folder = "sys/kernel/mm/memory_peers/nv_mem"
    node = Node(MemoryHost({f"{folder}/version": "580.126.09\n", f"{folder}/num_alloc_mrs": "12\n"}))

    (client,) = memory_peers(node)

    assert (client.client, client.version, client.counters) == (
        "nv_mem",
        "580.126.09",
        {"num_alloc_mrs": 12},
    )


def test_no_folder_of_clients_is_absent():
    with pytest.raises(EvidenceAbsent):
        memory_peers(Node(MemoryHost(complete=True)))


def test_the_old_module_is_found_loaded_and_installed():
    node = Node(
        MemoryHost(
            with_indexes(
                {
                    "proc/modules": "nv_peer_mem 16384 0 - Live 0x0 (OE)\n",
                    "proc/sys/kernel/osrelease": RELEASE,
                    f"{ROOT}/modules.dep": "extra/nv_peer_mem.ko: kernel/ib_core.ko\n",
                }
            ),
            complete=True,
        )
    )

    found = legacy_peer_mem(node)

    assert (found.loaded, found.path) == (True, f"{ROOT}/extra/nv_peer_mem.ko")
