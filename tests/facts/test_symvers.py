"""Where the driver's build looks for the peer-memory API, pitfalls included."""

from __future__ import annotations

import pytest

from gdrkit.evidence import EvidenceMissing
from gdrkit.facts.symvers import (
    PEER_API,
    has_peer_api,
    ofed_build_trees,
    overlooked_symvers,
    rebuild_would_find,
    symvers_seen_by_driver_build,
)
from gdrkit.node import Node
from tests.memory_host import MemoryHost

KERNEL = "6.8.0-45-generic"


def line(symbol: str, export: str = "EXPORT_SYMBOL", gap: str = "\t") -> str:
    return gap.join(("0x1b2c3d4e", symbol, "drivers/infiniband/core/ib_core", export, "")) + "\n"


API = "".join(map(line, PEER_API))
OTHER = line("ib_register_client")


def host(files: dict[str, str], machine: str = "x86_64") -> Node:
    about = {"proc/sys/kernel/osrelease": KERNEL, "proc/sys/kernel/arch": machine}
    return Node(MemoryHost({**about, **files}, complete=True))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (API, True),
        (OTHER + "".join(line(symbol, "EXPORT_SYMBOL_GPL") for symbol in PEER_API), True),
        ("".join(line(symbol, gap=" ") for symbol in PEER_API), False),
        (line(PEER_API[0]), False),
        (OTHER, False),
        ("", False),
        (API.replace("EXPORT_SYMBOL", "EXPORT_UNUSED"), False),
        (API.replace("\tib_", "\tmlx_ib_"), False),
    ],
)
def test_symbols_are_matched_as_in_conftest(text: str, found: bool):
    assert has_peer_api(text) is found


def test_conftest_looks_at_five_files_in_order():
    paths = [candidate.path for candidate in symvers_seen_by_driver_build(host({"etc/hostname": ""}))]

    assert paths == [
        f"lib/modules/{KERNEL}/build/Module.symvers",
        f"usr/src/ofa_kernel/x86_64/{KERNEL}/Module.symvers",
        f"usr/src/ofa_kernel/{KERNEL}/Module.symvers",
        "usr/src/ofa_kernel/default/Module.symvers",
        "var/lib/dkms/mlnx-ofed-kernel/*/build/Module.symvers",
    ]


def test_the_first_file_with_both_symbols_decides():
    node = host(
        {
            f"lib/modules/{KERNEL}/build/Module.symvers": OTHER,
            f"usr/src/ofa_kernel/{KERNEL}/Module.symvers": API,
            "usr/src/ofa_kernel/default/Module.symvers": API,
        }
    )

    assert rebuild_would_find(node) == f"usr/src/ofa_kernel/{KERNEL}/Module.symvers"


def test_on_arm_conftest_looks_under_the_kernels_name_and_misses_ofeds_own_folder():
    ofed = f"usr/src/ofa_kernel/aarch64/{KERNEL}/Module.symvers"
    node = host({ofed: API}, "aarch64")

    assert f"usr/src/ofa_kernel/arm64/{KERNEL}/Module.symvers" in [
        c.path for c in symvers_seen_by_driver_build(node)
    ]
    assert rebuild_would_find(node) == ""
    assert [candidate.path for candidate in overlooked_symvers(node)] == [ofed]


def test_on_x86_the_same_folder_is_used():
    node = host({f"usr/src/ofa_kernel/x86_64/{KERNEL}/Module.symvers": API})

    assert rebuild_would_find(node)
    assert overlooked_symvers(node) == ()


def builds(*versions: str) -> dict[str, str]:
    return {f"var/lib/dkms/mlnx-ofed-kernel/{version}/build/Module.symvers": API for version in versions}


def test_one_dkms_build_is_found_two_are_not():
    assert rebuild_would_find(host(builds("24.10"))).endswith("24.10/build/Module.symvers")
    two = host(builds("24.07", "24.10"))

    assert rebuild_would_find(two) == ""
    assert len(ofed_build_trees(two)) == 2
    assert len(overlooked_symvers(two)) == 2
    assert not symvers_seen_by_driver_build(two)[4].exists


def test_a_version_without_a_build_folder_does_not_count():
    node = host({**builds("24.10"), "var/lib/dkms/mlnx-ofed-kernel/24.07/source/dkms.conf": ""})

    assert ofed_build_trees(node) == ("var/lib/dkms/mlnx-ofed-kernel/24.10/build",)


def test_a_file_with_the_api_counts_even_if_another_was_not_collected():
    files = {
        "proc/sys/kernel/osrelease": KERNEL,
        "proc/sys/kernel/arch": "x86_64",
        f"lib/modules/{KERNEL}/build/Module.symvers": API,
    }
    node = Node(MemoryHost(files, absent={"var/lib/dkms/mlnx-ofed-kernel"}))

    assert rebuild_would_find(node) == f"lib/modules/{KERNEL}/build/Module.symvers"
    with pytest.raises(EvidenceMissing):
        symvers_seen_by_driver_build(node)
