"""How the kernel resolves the imports of a module."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gdrkit.evidence import Confidence, EvidenceMissing
from gdrkit.facts.kernel_symbols import KernelSymbol, symvers
from gdrkit.facts.linkage import (
    DuplicateExport,
    SymbolFault,
    UnversionedSymbol,
    duplicate_export,
    links_without,
    symbol_links,
)
from gdrkit.facts.modules import exporter, kernel_symbol, vermagic
from gdrkit.facts.running_files import running_file
from tests.kernel_tree import FOLDER, KERNEL_SYMBOLS, KernelTree
from tests.module_builder import RELEASE, Export, build_module

PRINTK = {"_printk": KERNEL_SYMBOLS["_printk"].crc}


def faults(tree: KernelTree, name: str) -> list[tuple[str, SymbolFault]]:
    return [(problem.symbol, problem.fault) for problem in symbol_links(tree.node(), name).problems]


def a_pair(wanted: int = 7, **user: object) -> KernelTree:
    tree = KernelTree().module("provider", exports={"hello": 7})
    return tree.module("user", imports={"hello": wanted, **PRINTK}, depends=("provider",), **user)


def test_a_module_whose_symbols_all_resolve_has_no_problem() -> None:
    found = symbol_links(a_pair().node(), "user")
    assert (found.problems, found.unseen) == ((), ())


def test_another_crc_is_another_version() -> None:
    assert faults(a_pair(wanted=8), "user") == [("hello", SymbolFault.VERSION)]


def test_the_kernels_own_crcs_count_too() -> None:
    tree = KernelTree().module("user", imports={"_printk": 1})
    assert faults(tree, "user") == [("_printk", SymbolFault.VERSION)]


def test_a_symbol_without_a_crc_is_resolved_except_by_debians_kernels() -> None:
    tree = a_pair()
    tree.module("user", imports={"hello": None, **PRINTK}, depends=("provider",))
    assert faults(tree, "user") == []
    assert symbol_links(tree.node(), "user").events == (UnversionedSymbol("hello"),)
    tree.put("proc/version", "Linux version 6.1.0-56-amd64 (debian-kernel@lists.debian.org) (gcc-12)\n")
    assert faults(tree, "user") == [("hello", SymbolFault.UNVERSIONED)]


def test_a_symbol_that_nothing_exports_is_missing_unless_it_is_weak() -> None:
    tree = KernelTree().module("user", imports={"nowhere": 1}, weak_imports={"perhaps": 1})
    assert faults(tree, "user") == [("nowhere", SymbolFault.MISSING)]


def test_a_weak_symbol_of_another_version_is_refused_too() -> None:
    tree = KernelTree().module("provider", exports={"hello": 7})
    tree.module("user", weak_imports={"hello": 8}, depends=("provider",))
    assert faults(tree, "user") == [("hello", SymbolFault.VERSION)]


def test_an_exporter_that_is_neither_loaded_nor_needed_does_not_help() -> None:
    tree = KernelTree().module("provider", exports={"hello": 7}).module("user", imports={"hello": 7})
    assert faults(tree, "user") == [("hello", SymbolFault.MISSING)]
    tree.loaded["provider"] = "OE"
    assert faults(tree, "user") == []


def test_symbols_of_a_dependency_that_was_not_loaded_are_missing() -> None:
    found = links_without(a_pair().node(), "user", frozenset(("provider",)))
    assert [(p.symbol, p.fault, p.owner) for p in found.problems] == [
        ("hello", SymbolFault.MISSING, "provider")
    ]


def test_gpl_only_symbols_are_not_for_other_licences() -> None:
    tree = KernelTree().module("user", imports={"class_create": 0x11111111}, license="Linux-OpenIB")
    assert faults(tree, "user") == [("class_create", SymbolFault.GPL_ONLY)]
    tree.module("user", imports={"class_create": 0x11111111}, license="Dual BSD/GPL")
    assert faults(tree, "user") == []


def test_a_namespace_must_be_imported() -> None:
    tree = KernelTree().module("user", imports={"dma_buf_get": 0x22222222})
    assert faults(tree, "user") == [("dma_buf_get", SymbolFault.NAMESPACE)]
    tree.module("user", imports={"dma_buf_get": 0x22222222}, modinfo={"import_ns": "DMA_BUF"})
    assert faults(tree, "user") == []


def test_the_taint_of_a_proprietary_module_is_inherited_until_a_gpl_only_symbol_is_used() -> None:
    tree = KernelTree().module("closed", exports={"secret": 5}, license="NVIDIA")
    tree.module("user", imports={"secret": 5, "class_create": 0x11111111}, depends=("closed",))
    found = symbol_links(tree.node(), "user")
    assert [type(event).__name__ for event in found.events] == ["InheritedTaint", "SymbolProblem"]
    assert found.problems[0].fault is SymbolFault.GPL_ONLY
    tree.module("user", imports={"class_create": 0x11111111, "secret": 5}, depends=("closed",))
    assert faults(tree, "user") == [("secret", SymbolFault.PROPRIETARY)]


def test_without_headers_the_crcs_come_from_reference_modules() -> None:
    tree = KernelTree()
    tree.symvers = False
    tree.module("reference", imports=PRINTK, intree=True, at="kernel/lib", loaded="")
    tree.module("user", imports={"_printk": 1})
    assert faults(tree, "user") == [("_printk", SymbolFault.VERSION)]
    node = tree.node()
    assert exporter(node, "_printk") == "vmlinux"
    assert kernel_symbol(node, "_printk").crc == PRINTK["_printk"]
    assert kernel_symbol(node, "_printk").gpl_only is None


def test_a_kernel_without_symbol_versions_exports_no_module_layout_and_its_list_counts() -> None:
    """Debian's 7.3 has no CONFIG_MODVERSIONS: every CRC in its Module.symvers is zero."""
    tree = KernelTree().module("user", license="Proprietary", imports={"kept": None})
    lines = "0x00000000\topen\tvmlinux\tEXPORT_SYMBOL\t\n0x00000000\tkept\tvmlinux\tEXPORT_SYMBOL_GPL\t\n"
    node = tree.put(f"{FOLDER}/build/Module.symvers", lines).node()
    assert kernel_symbol(node, "kept") == KernelSymbol(None, False, True, "")
    assert symbol_links(node, "user").problems[0].fault is SymbolFault.GPL_ONLY
    foreign = lines.replace("vmlinux", "/tmp/x/other")
    built_separately = tree.put(f"{FOLDER}/build/Module.symvers", foreign).node()
    with pytest.raises(EvidenceMissing):
        symvers(built_separately)


def running_without_a_file(config: str) -> KernelTree:
    """A provider that runs, while depmod no longer knows it: its file is gone."""
    tree = KernelTree().module("provider", exports={"hello": 7}, loaded="OE")
    tree.module("user", imports={"hello": 7, **PRINTK})
    tree.put("proc/kallsyms", "0 r __ksymtab_hello\t[provider]\n0 r __ksymtab__printk\n")
    tree.put(f"boot/config-{RELEASE}", f"#\nCONFIG_X=y\n{config}\n").without(tree.path("provider"))
    tree.exports["provider"], tree.paths["provider"] = (), "updates/dkms/gone.ko"
    return tree.put(f"{FOLDER}/updates/dkms/gone.ko", build_module("gone"))


def test_a_running_module_without_a_file_still_exports_what_kallsyms_lists() -> None:
    """As in the lab: running-provider-gone-from-disk. Only where there are CRCs is its own not known."""
    found = symbol_links(running_without_a_file("# CONFIG_MODVERSIONS is not set").node(), "user")
    assert (found.problems, found.unseen) == ((), ())
    versioned = symbol_links(running_without_a_file("CONFIG_MODVERSIONS=y").node(), "user")
    assert versioned.problems == () and len(versioned.unseen) == 1


@pytest.mark.parametrize("lists", ["0 T hello\t[provider]\n", "0 t own\t[provider]\n", ""])
def test_what_a_running_module_without_a_file_exports_is_unknown_where_kallsyms_lists_no_exports(
    lists: str,
) -> None:
    """As in the lab: running-provider-gone-from-disk on Debian's arm64. Variables are not listed."""
    tree = running_without_a_file("# CONFIG_KALLSYMS_ALL is not set").put("proc/kallsyms", lists)
    found = symbol_links(tree.node(), "user")
    assert found.problems == ()
    assert [missing.source for missing in found.unseen] == [
        "the running provider is not the file on disk (its file is gone)"
    ]


def test_a_function_of_a_running_module_is_no_export_if_its_file_has_none() -> None:
    tree = KernelTree().module("provider", loaded="OE").module("user", imports={"hello": 7})
    tree.put("proc/kallsyms", "0 T hello\t[provider]\n")
    assert faults(tree, "user") == [("hello", SymbolFault.MISSING)]


def test_only_the_modules_of_an_interface_can_export_it_unless_another_has_such_a_function() -> None:
    tree = running_without_a_file("# CONFIG_KALLSYMS_ALL is not set")
    tree.module("nvidia").module("user", imports={"nvidia_p2p_get_pages": 1})
    tree.put("proc/kallsyms", "0 T hello\t[provider]\n")
    assert faults(tree, "user") == [("nvidia_p2p_get_pages", SymbolFault.MISSING)]
    tree.put("proc/kallsyms", "0 T nvidia_p2p_get_pages\t[provider]\n")
    assert (faults(tree, "user"), len(symbol_links(tree.node(), "user").unseen)) == ([], 1)


def test_a_running_module_whose_file_was_not_collected_is_taken_as_its_file() -> None:
    tree = KernelTree(complete=False).module("another", loaded="").module("user", imports={"nowhere": 1})
    tree.without(tree.path("another"))
    assert faults(tree, "user") == [("nowhere", SymbolFault.MISSING)]


def test_a_running_build_without_the_symbol_exports_none_whatever_its_file_has() -> None:
    """As in the lab: peer-ofed-installed-not-restarted."""
    tree = a_pair().module("provider", exports={"hello": 7}, loaded="OE")
    tree.put("proc/kallsyms", "0 r __ksymtab__printk\n0 r __ksymtab_other\t[another]\n")
    assert faults(tree, "user") == [("hello", SymbolFault.MISSING)]
    tree.put("proc/kallsyms", "0 r __ksymtab__printk\n0 r __ksymtab_hello\t[provider]\n")
    assert faults(tree, "user") == []


def test_without_the_kernels_exports_a_symbol_is_unknown_not_missing() -> None:
    tree = KernelTree(complete=False)
    tree.symvers = False
    found = symbol_links(tree.module("user", imports={"nowhere": 1}).node(), "user")
    assert found.problems == ()
    assert [missing.source for missing in found.unseen] == ["proc/kallsyms"]


def test_the_exports_of_a_loaded_module_without_a_file_are_unknown_not_missing() -> None:
    tree = a_pair()
    tree.loaded["provider"] = "OE"
    found = symbol_links(tree.without(tree.path("provider")).node(), "user")
    assert (found.problems, len(found.unseen)) == ((), 1)


def test_a_kernel_without_a_symbol_list_can_export_symbols() -> None:
    tree = KernelTree()
    tree.symvers = False
    found = symbol_links(tree.module("user", imports={"nowhere": 1}).node(), "user")
    assert (found.problems, len(found.unseen)) == ((), 1)


def test_kallsyms_shows_exports_but_not_their_crcs() -> None:
    tree = KernelTree()
    tree.symvers = False
    tree.put("proc/kallsyms", "0 r __ksymtab__printk\n0 T nowhere\n")
    tree.module("user", imports={"_printk": 1, "nowhere": 2})
    node = tree.node()
    assert [(p.symbol, p.fault) for p in symbol_links(node, "user").problems] == [
        ("nowhere", SymbolFault.MISSING)
    ]
    assert node.trail(symbol_links, "user").confidence is Confidence.LIKELY


def test_kallsyms_without_one_export_of_the_image_does_not_show_what_the_image_exports() -> None:
    """The image exports thousands of symbols: such a list was cut."""
    tree = KernelTree()
    tree.symvers = False
    tree.put("proc/kallsyms", "0 T _printk\n0 r __ksymtab_reg\t[ib_core]\n")
    tree.module("user", imports={"_printk": 1, "nowhere": 2})
    found = symbol_links(tree.node(), "user")
    assert found.problems == ()
    assert {missing.source for missing in found.unseen} == {"proc/kallsyms (vmlinux)"}


def test_the_peer_api_is_never_in_the_image_of_a_kernel_with_a_modular_rdma_core() -> None:
    tree = KernelTree(complete=False)
    tree.symvers = False
    tree.module("ib_core", intree=True, at="kernel/drivers/infiniband/core")
    tree.module("user", imports={"ib_register_peer_memory_client": 1})
    assert faults(tree, "user") == [("ib_register_peer_memory_client", SymbolFault.MISSING)]


def test_a_loaded_modules_exports_are_those_of_its_loaded_file() -> None:
    """OFED's ib_core is in updates/, but the kernel's own is loaded."""
    tree = KernelTree().module("ib_core", exports={"reg": 9}, modinfo={"srcversion": "OFED"})
    inbox = KernelTree().module("ib_core", exports={"reg": 7}, modinfo={"srcversion": "INBOX"}, intree=True)
    own = "kernel/drivers/infiniband/core/ib_core.ko"
    tree.put(f"{FOLDER}/{own}", inbox.files[inbox.path("ib_core")])
    tree.put(f"{FOLDER}/modules.order", own + "\n")
    tree.module("user", imports={"reg": 7}, depends=("ib_core",))
    assert faults(tree, "user") == [("reg", SymbolFault.VERSION)]
    tree.loaded["ib_core"] = ""
    tree.put("sys/module/ib_core/srcversion", "INBOX\n")
    assert faults(tree, "user") == []


@pytest.mark.parametrize(
    ("taint", "shown", "differs"),
    [
        ("OE", {"srcversion": "OFED\n"}, ""),
        ("OE", {"srcversion": "OLDER\n"}, "its srcversion is OLDER, the file's OFED"),
        ("OE", {"holders/mlx5_ib": ""}, "its srcversion is not set, the file's OFED"),
        ("OE", {"refcnt": "1\n"}, ""),  # a sosreport without srcversion
        ("", {}, "it is of the kernel's own build"),
        ("OE", {"notes/.note.gnu.build-id": "other", "srcversion": "OFED\n"}, "its build id is another"),
        ("", {"notes/.note.gnu.build-id": "\x04same"}, ""),
    ],
)
def test_a_loaded_module_is_compared_with_its_file(
    taint: str, shown: Mapping[str, str], differs: str
) -> None:
    tree = KernelTree()
    tree.module("ib_core", modinfo={"srcversion": "OFED"}, build_id=b"\x04same", loaded=taint)
    for name, content in shown.items():
        tree.put(f"sys/module/ib_core/{name}", content)
    assert running_file(tree.node(), "ib_core").differs == differs


def test_kallsyms_decides_about_a_loaded_module_that_is_not_the_file() -> None:
    tree = KernelTree().module("ib_core", exports={"ib_reg": 9}, modinfo={"srcversion": "OFED"}, loaded="")
    tree.module("user", imports={"ib_reg": 9}, depends=("ib_core",))
    assert (symbol_links(tree.node(), "user").problems, faults(tree, "user")) == ((), [])
    assert "the running ib_core" in symbol_links(tree.node(), "user").unseen[0].source
    tree.put("proc/kallsyms", "0 r __ksymtab__printk\n0 r __ksymtab_other\t[ib_core]\n")
    assert faults(tree, "user") == [("ib_reg", SymbolFault.MISSING)]


def test_kallsyms_without_the_exports_of_modules_decides_nothing() -> None:
    tree = KernelTree().module("ib_core", exports={"ib_reg": 9}, loaded="")
    tree.module("user", imports={"ib_reg": 9}, depends=("ib_core",))
    tree.put("proc/kallsyms", "0 r __ksymtab__printk\n")
    found = symbol_links(tree.node(), "user")
    assert (found.problems, len(found.unseen)) == ((), 1)


def test_a_symbol_can_have_only_one_exporter() -> None:
    tree = KernelTree().module("first", exports={"taken": 1}, loaded="OE")
    tree.module("second", exports={"free": 2, "taken": 1})
    tree.exports["second"] = ("free",)  # depmod's list names one owner
    assert duplicate_export(tree.node(), "second") == DuplicateExport("taken", "first")
    del tree.loaded["first"]
    assert duplicate_export(tree.node(), "second") is None


def test_kallsyms_shows_which_loaded_module_exports_a_symbol_without_its_file() -> None:
    tree = KernelTree(complete=False).module("second", exports={"taken": 1})
    tree.put("proc/kallsyms", "0 r __ksymtab__printk\n0 r __ksymtab_taken\t[first]\n")
    assert duplicate_export(tree.node(), "second") == DuplicateExport("taken", "first")
    tree.put("proc/kallsyms", "0 r __ksymtab__printk\n0 r __ksymtab_takenover\t[first]\n")
    assert duplicate_export(tree.node(), "second") is None


def test_the_order_in_kallsyms_shows_what_is_exported_to_gpl_modules_only() -> None:
    tree = KernelTree()
    tree.symvers = False
    lines = ("__ksymtab_open", "__ksymtab_edge", "__start___ksymtab_gpl", "__ksymtab_kept")
    tree.put("proc/kallsyms", "".join(f"0 r {line}\n" for line in lines))
    node = tree.node()
    gpl_only = {name: kernel_symbol(node, name).gpl_only for name in ("open", "edge", "kept")}
    assert gpl_only == {"open": False, "edge": None, "kept": True}  # "edge" has the address of the mark
    tree.put("proc/kallsyms", "".join(f"0 r {line}\n" for line in lines[2:]))
    assert kernel_symbol(tree.node(), "kept").gpl_only is True  # also where nothing is for all modules


def test_a_symbol_of_the_kernels_image_cannot_be_exported_again() -> None:
    tree = KernelTree().module("user", exports={"_printk": Export(3)})
    tree.exports["user"] = ()
    assert duplicate_export(tree.node(), "user") == DuplicateExport("_printk", "kernel")


def test_the_kernels_vermagic_is_its_release_and_the_flags_of_a_module_of_its_own() -> None:
    assert vermagic(KernelTree().node()) == "6.1.0-56-amd64 SMP preempt mod_unload modversions "
