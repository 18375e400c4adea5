"""depmod's lists."""

from __future__ import annotations

import errno

import pytest

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing
from gdrkit.facts.module_index import (
    all_paths,
    builtin,
    dependencies,
    missing_dependency,
    module_path,
    modules_dir,
    symbol_owner,
)
from gdrkit.facts.module_lookup import aliases
from gdrkit.node import Node
from tests.index_builder import index, with_indexes
from tests.memory_host import MemoryHost

K = "6.1.0-56-amd64"
D = f"lib/modules/{K}"
DEP = (
    "kernel/drivers/video/nvidia.ko.zst:\n"
    "updates/dkms/nvidia-peermem.ko: kernel/drivers/infiniband/core/ib_uverbs.ko "
    "kernel/drivers/infiniband/core/ib_core.ko kernel/drivers/video/nvidia.ko.zst\n"
    "kernel/drivers/infiniband/core/ib_core.ko:\n"
    "kernel/drivers/infiniband/core/ib_uverbs.ko: kernel/drivers/infiniband/core/ib_core.ko\n"
)


def a_node(more: dict[str, bytes | str] | None = None, **options: object) -> Node:
    files: dict[str, bytes | str] = {"proc/sys/kernel/osrelease": K, f"{D}/modules.dep": DEP, **(more or {})}
    return Node(MemoryHost(with_indexes(files), **{"complete": True, **options}))  # type: ignore[arg-type]


def test_dashes_in_a_file_name_are_underscores_in_the_modules() -> None:
    node = a_node()
    assert module_path(node, "nvidia_peermem") == f"{D}/updates/dkms/nvidia-peermem.ko"
    assert module_path(node, "nvidia-peermem") == f"{D}/updates/dkms/nvidia-peermem.ko"
    assert module_path(node, "nvidia") == f"{D}/kernel/drivers/video/nvidia.ko.zst"


@pytest.mark.parametrize("path", ["updates/dkms/mlx5_core.ko", "updates/dkms/nvidia-peermem2.ko"])
def test_a_file_under_the_name_of_another_module_is_no_entry_of_depmod(path: str) -> None:
    """depmod takes the name from the file; a damaged index once named a module that nothing judges."""
    for file, is_read in (
        (path, False),
        ("extra/nvidia-peermem.ko.xz", True),
        ("a/nvidia-peermem.b.ko", True),
    ):
        node = a_node({f"{D}/modules.dep.bin": index({"nvidia_peermem": f"{file}: kernel/ib_core.ko"})})
        if is_read:
            assert module_path(node, "nvidia_peermem") == f"{D}/{file}"
            continue
        with pytest.raises(EvidenceMissing, match=r"modules\.dep\.bin.*garbled"):
            module_path(node, "nvidia_peermem")


def test_dependencies_come_in_the_order_of_loading() -> None:
    assert dependencies(a_node(), "nvidia_peermem") == ("nvidia", "ib_core", "ib_uverbs")


@pytest.mark.parametrize("name", ["peermem", "vidia", "core", "nvidia_peer", "ko"])
def test_part_of_a_name_is_not_the_name(name: str) -> None:
    with pytest.raises(EvidenceAbsent):
        module_path(a_node(), name)


def test_a_kernel_without_a_folder_has_no_modules() -> None:
    with pytest.raises(EvidenceAbsent):
        modules_dir(Node(MemoryHost({"proc/sys/kernel/osrelease": K}, complete=True)))


def test_a_list_that_was_not_collected_is_not_an_empty_list() -> None:
    node = Node(MemoryHost({"proc/sys/kernel/osrelease": K, f"{D}/modules.symbols": "alias symbol:x y\n"}))
    with pytest.raises(EvidenceMissing) as caught:
        module_path(node, "nvidia")
    assert not isinstance(caught.value, EvidenceAbsent)


def test_a_dependency_without_a_file_is_found() -> None:
    ib_core = f"{D}/kernel/drivers/infiniband/core/ib_core.ko"
    assert missing_dependency(a_node(), "ib_uverbs") == (ib_core, errno.ENOENT)
    assert missing_dependency(a_node({ib_core: b""}), "ib_uverbs") is None
    assert missing_dependency(a_node(), "ib_core") is None


def test_what_is_built_in_has_a_line_of_its_own() -> None:
    node = a_node({f"{D}/modules.builtin": "kernel/lib/crc32.ko\nkernel/crypto/crypto-user.ko\n"})
    assert builtin(node, "crc32")
    assert builtin(node, "crypto_user")
    assert not builtin(node, "crc")


def test_the_owner_of_a_symbol_is_found_by_its_whole_name() -> None:
    text = "# comment\nalias symbol:ib_register_client ib_core\nalias symbol:ib_register_peer ib-uverbs\n"
    node = a_node({f"{D}/modules.symbols": text})
    assert symbol_owner(node, "ib_register_client") == "ib_core"
    assert symbol_owner(node, "ib_register_peer") == "ib_uverbs"
    assert symbol_owner(node, "ib_register") == ""


def test_an_alias_is_a_pattern() -> None:
    node = a_node({f"{D}/modules.alias": "alias pci:v000010DEd*sv* nvidia\nalias net-pf-10 ipv6\n"})
    assert aliases(node, "pci:v000010DEd00002330sv000010DE") == ("nvidia",)
    assert aliases(node, "net-pf-10") == ("ipv6",)
    assert aliases(node, "nvidia_peermem") == ()


def test_every_copy_of_a_module_is_found_the_loaded_one_first() -> None:
    node = a_node(
        {
            f"{D}/updates/dkms/nvidia-peermem.ko": b"",
            f"{D}/extra/ofed/nvidia-peermem.ko.xz": b"",
            f"{D}/kernel/nvidia-580/nvidia-peermem.ko.zst": b"",
            f"{D}/modules.order": "kernel/nvidia-580/nvidia-peermem.ko\nkernel/lib/x.ko\n",
        }
    )
    assert all_paths(node, "nvidia_peermem") == (
        f"{D}/updates/dkms/nvidia-peermem.ko",
        f"{D}/extra/ofed/nvidia-peermem.ko.xz",
        f"{D}/kernel/nvidia-580/nvidia-peermem.ko.zst",
    )
