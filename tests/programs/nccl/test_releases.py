"""NCCL's releases at the tags around each change, and that no other module compares their numbers."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import msgspec
import pytest

from gdrkit.formats.versions import numbers
from gdrkit.programs.nccl.consumer import NCCL
from gdrkit.programs.nccl.releases import (
    FROM_SOURCE,
    MODULE,
    NEWEST,
    NV_MEM,
    NV_MEM_NC,
    NVIDIA_PEERMEM,
    OLDEST,
    ROWS,
    VARIABLE_SINCE,
    VARIABLE_UNTIL,
    ModelBasis,
    Release,
    first_release_with,
    is_modelled,
    model_basis,
    release,
    releases,
    row,
)
from gdrkit.programs.nccl.settings import levels

SOURCE = Path(__file__).parents[3] / "src" / "gdrkit"
TAGS = tuple(
    f"2.{minor}.{patch}"
    for minor, patches in (
        (3, (7,)), (4, (2, 6, 7, 8)), (5, (6, 7)), (6, (4,)), (7, (3, 5, 6, 8)), (8, (3, 4)), (9, (6, 8, 9)),
        (10, (3,)), (11, (4,)), (12, (7, 10, 12)), (13, (4,)), (14, (3,)), (15, (1, 5)), (16, (2, 5)),
        (17, (1,)), (18, (1, 3, 5, 6)), (19, (1, 3, 4)), (20, (3, 5)), (21, (5,)), (22, (3,)), (23, (4,)),
        (24, (3,)), (25, (1,)), (26, (2, 3, 5, 6)), (27, (3, 5, 6, 7)), (28, (3, 7, 9)), (29, (2, 3, 7)),
        (30, (3, 4, 7)), (31, (2,)), (32, (3,)),
    )
    for patch in patches
)  # fmt: skip
"""github.com/NVIDIA/nccl, tags, without their v and -1; 2.31.2 and 2.32.3 as
github.com/meta-pytorch/torchcomms has them in comms/ncclx/v2_31 and v2_32."""

OLD = "LOC NVL PIX PXB PHB SYS NET"
NVB = "LOC NVL NVB PIX PXB PHB SYS"
PXN = "LOC NVL NVB PIX PXB PXN PHB SYS NET DIS"
C2C = "LOC NVL NVB C2C PIX PXB PXN PHB SYS NET DIS"
P2C_BEHIND = "LOC NVL NVB C2C PIX PXB PXN P2C PHB SYS NET DIS"
P2C = "LOC NVL NVB C2C PIX PXB P2C PXN PHB SYS NET DIS"

CHANGES: tuple[tuple[str, str, object, object, str], ...] = (
    # net_ib.cc, net_ib/gdr.cc: ncclIbGdrSupport()
    ("2.9.8", "peermem_files", (NV_MEM,), (NV_MEM, NVIDIA_PEERMEM), "v2.9.8 net_ib.cc"),
    ("2.22.3", "peermem_files", (NV_MEM, NVIDIA_PEERMEM), (NV_MEM, NV_MEM_NC), "v2.22.3 net_ib.cc:614-616"),
    ("2.23.4", "peermem_files", (NV_MEM, NV_MEM_NC), (NV_MEM, NV_MEM_NC, MODULE), "v2.23.4 net_ib.cc:694"),
    ("2.23.4", "sees_module", False, True, "v2.23.4 net_ib.cc:694-696"),
    ("2.23.4", "probes_each_nic", False, True, "v2.23.4 net_ib.cc, ncclIbDmaBufSupport()"),
    ("2.28.7", "has_gin", False, True, "v2.28.7 net_ib/gin.cc"),
    ("2.31.2", "has_diagnostics", False, True, "2.31.2 diagnostics.cc, ras/diagnostics.cc"),
    ("2.13.4", "has_dmabuf", False, True, "v2.13.4 init.cc, dmaBufSupported()"),
    ("2.7.3", "prints_level", False, True, "2.6.4 prints `set from environment`, under GRAPH"),
    ("2.30.3", "silent_pairs", False, True, "v2.30.3 paths.cc: TRACE"),
    ("2.21.5", "chooses_gid", False, True, "v2.21.5 net_ib.cc: NCCL_IB_GID_INDEX is -1"),
    ("2.19.1", "reads_need_nvlink", True, False, "v2.19.1 paths.cc:365"),
    ("2.26.2", "modes", False, True, "v2.26.2 paths.cc, ncclTopoCheckGdr()"),
    ("2.30.7", "mlopart", False, True, "v2.30.7 paths.cc: NCCL_NET_GDR_MLOPART"),
    ("2.32.3", "mlopart", True, False, "2.32 paths.cc, ncclTopoCheckGdr()"),
    ("2.32.3", "words_are_zero", True, False, "2.32 param.cc, ncclLoadParam()"),
    # graph/topo.h, include/graph.h: PATH_*
    ("2.6.4", "path_types", "", OLD, "v2.6.4 topo.h"),
    ("2.8.3", "path_types", OLD, NVB, "v2.8.3 topo.h"),
    ("2.12.7", "path_types", NVB, PXN, "v2.12.7 topo.h"),
    ("2.26.2", "path_types", PXN, C2C, "v2.26.2 topo.h"),
    ("2.27.3", "path_types", C2C, P2C_BEHIND, "v2.27.3 topo.h"),
    ("2.27.5", "path_types", P2C_BEHIND, P2C, "v2.27.5 graph.h"),
    # graph/paths.cc and topo.cc: NVLink-C2C
    ("2.19.1", "c2c_link", "", "NVL", "v2.19.1 topo.cc, ncclTopoAddC2c()"),
    ("2.26.2", "c2c_link", "NVL", "C2C", "v2.26.2 topo.cc, ncclTopoAddC2c()"),
    ("2.26.2", "gdr_c2c", None, 0, "v2.26.2 paths.cc, NCCL_PARAM"),
    ("2.27.3", "gdr_c2c", 0, 1, "v2.27.3 paths.cc, NCCL_PARAM"),
    ("2.26.2", "c2c_counts_as", "", "PHB>C2C", "v2.26.2 paths.cc:433"),
    ("2.27.3", "c2c_counts_as", "PHB>C2C", "P2C>C2C", "v2.27.3 paths.cc, ncclTopoCheckGdr()"),
    ("2.29.2", "c2c_counts_as", "P2C>C2C", "P2C", "v2.29.2 paths.cc, ncclTopoCheckGdr()"),
    ("2.29.2", "compares_p2c", False, True, "v2.29.2 paths.cc, ncclTopoCheckGdr()"),
    ("2.27.3", "p2c", "", "pair", "v2.27.3 paths.cc, ncclTopoComputePaths()"),
    ("2.27.5", "p2c", "pair", "joined", "v2.27.5 paths.cc, ncclTopoComputePaths()"),
    ("2.29.2", "p2c", "joined", "nearest", "v2.30.7 paths.cc:793-810, since v2.29.2"),
    ("2.27.5", "joins_p2c", False, True, "v2.27.5 paths.cc, ncclTopoSetPaths()"),
    ("2.27.3", "pxn_c2c", None, 0, "v2.27.3 paths.cc:609"),
    ("2.28.3", "pxn_c2c", 0, 1, "v2.28.3 paths.cc:620"),
    # graph/paths.cc, ncclTopoComputePaths(): PXN and paths through the CPU
    ("2.21.5", "pxn_same_host", False, True, "v2.21.5 paths.cc"),
    ("2.27.5", "pxn_spares", "PXB", "", "v2.27.5 paths.cc"),
    ("2.27.6", "pxn_spares", "", "PXN", "v2.27.6 paths.cc"),
    ("2.30.3", "pxn_needs_gdr", False, True, "v2.30.3 paths.cc"),
    ("2.21.5", "reroutes_far_pairs", True, False, "v2.21.5 paths.cc"),
    ("2.23.4", "p2p_by_vendor", True, False, "v2.23.4 paths.cc, ncclTopoCheckP2p()"),
    ("2.30.7", "best_type_first", False, True, "v2.30.7 paths.cc, ncclTopoSetPaths()"),
    ("2.30.7", "nearest_cpu_by_bandwidth", False, True, "v2.30.7 paths.cc"),
    # graph/topo.cc
    ("2.21.5", "knows_hosts", False, True, "v2.21.5 topo.cc, ncclGetSystemId()"),
    ("2.30.3", "devices", False, True, "v2.30.3 topo.h, DEV"),
    ("2.22.3", "peer_links", False, True, "v2.22.3 topo.cc, ncclTopoAddPciLinks()"),
    ("2.24.3", "joins_functions", True, False, "v2.23.4 topo.cc:433, gone in v2.24.3"),
    ("2.20.3", "flattens_gen5", False, True, "v2.20.3 topo.cc, getBcmGen()"),
    ("2.22.3", "only_climbs", False, True, "v2.22.3 topo.cc, findLocalCpu()"),
    ("2.26.2", "never_turns_back", False, True, "v2.26.2 topo.cc:48, findLocalCpu(.., from)"),
    ("2.18.5", "nearest_nets_by_mask", True, False, "v2.18.5 topo.cc, ncclTopoGetLocal()"),
    ("2.18.5", "serves_any_gpu", False, True, "v2.18.5 topo.cc, ncclTopoGetLocalGpu()"),
    ("2.19.1", "serves_any_gpu", True, False, "v2.19.1 topo.cc, ncclTopoGetLocalGpu()"),
    ("2.30.7", "spreads_by_local_index", False, True, "v2.30.7 topo.cc, ncclTopoGetLocalNetType()"),
    ("2.31.2", "spreads_by_local_index", True, False, "2.31.2 topo.cc, ncclTopoGetLocalNetType()"),
    ("2.31.2", "spreads_connectx8", False, True, "2.31.2 topo.cc, NCCL_PARAM(TopoScatterStartNet)"),
    ("2.20.3", "merges", "", "plugin", "v2.20.3 net_ib.cc, ncclIbFindMatchingDev()"),
    ("2.24.3", "merges", "plugin", "topology", "v2.24.3 topo.cc, ncclTopoAutoMerge()"),
    ("2.24.3", "merge_limit", 2, 4, "v2.24.3 nccl_net.h, NCCL_NET_MAX_DEVS_PER_NIC"),
    ("2.26.2", "retries_merge", False, True, "v2.26.2 topo.cc, ncclTopoAutoMerge()"),
    # graph/topo.h: *_BW
    ("2.20.3", "hopper_nvlink", 20.0, 20.6, "v2.20.3 topo.h:17"),
    ("2.20.3", "blackwell_nvlink", 20.0, 20.6, "v2.20.3 topo.h:205: >= 90"),
    ("2.25.1", "blackwell_nvlink", 20.6, 40.0, "v2.25.1 topo.h, SM100_NVLINK_BW"),
    ("2.27.5", "blackwell_nvlink", 40.0, 40.1, "v2.27.5 topo.h, SM100_NVLINK_BW"),
    ("2.19.1", "amd_link", 5000.0, 16.0, "v2.19.1 topo.h, AMD_BW"),
    (
        "2.31.2",
        "amd_links",
        (),
        (16.0, 24.0, 32.0),
        "2.31.2 topo.h, AMD_ZEN12_BW; topo.cc, ncclTopoAddCpu()",
    ),
    ("2.31.2", "knows_granite_rapids", False, True, "2.31.2 topo.cc, ncclTopoAddCpu()"),
    ("2.26.2", "sapphire_rapids_link", 10.0, 22.0, "v2.26.2 topo.cc, ncclTopoGetInterCpuBw()"),
    ("2.26.2", "emerald_rapids_link", 10.0, 40.0, "v2.26.2 topo.cc, ncclTopoGetInterCpuBw()"),
)
"""First tag, capability, value before, value since, source."""


@pytest.mark.parametrize(
    ("tag", "capability", "before", "after", "source"), CHANGES, ids=[f"{c[0]}-{c[1]}" for c in CHANGES]
)
def test_a_capability_changes_at_its_tag_and_not_before(tag, capability, before, after, source):
    if capability == "path_types":
        before, after = tuple(before.split()), tuple(after.split())

    assert getattr(release(TAGS[TAGS.index(tag) - 1]), capability) == before, source
    assert getattr(release(tag), capability) == after, source


def test_every_change_in_the_table_is_tested_with_its_source():
    changed = {(row.since, name) for row in ROWS[1:] for name in row.changes}

    assert changed <= {(tag, capability) for tag, capability, *_ in CHANGES}
    assert all(row.source for row in ROWS if row.changes or row.variables)


@pytest.mark.parametrize(
    ("name", "tag"),
    [
        ("NCCL_IB_MERGE_NICS", "2.20.3"),
        ("NCCL_NET_MERGE_LEVEL", "2.24.3"),
        ("NCCL_NET_FORCE_MERGE", "2.24.3"),
        ("NCCL_NET_GDR_C2C", "2.26.2"),
        ("NCCL_PXN_C2C", "2.27.3"),
        ("NCCL_NETDEVS_POLICY", "2.28.3"),
        ("NCCL_NET_GDR_MLOPART", "2.30.7"),
        ("NCCL_TOPO_SCATTER_START_NET", "2.31.2"),
    ],
)
def test_a_variable_is_known_from_its_tag_on(name, tag):
    assert VARIABLE_SINCE[name] == tag
    assert name not in release(TAGS[TAGS.index(tag) - 1]).variables
    assert name in release(tag).variables
    assert (name in release(NEWEST).variables) is (name not in VARIABLE_UNTIL)


def test_a_variable_that_was_removed_is_not_read_since():
    """The release before reads it; older ones never did."""
    assert VARIABLE_UNTIL
    for name, tag in VARIABLE_UNTIL.items():
        before = release(TAGS[TAGS.index(tag) - 1])
        assert name in before.variables and name not in before.removed
        assert name not in release(tag).variables and name in release(tag).removed


def test_rows_are_releases_in_order_with_values_of_the_right_types():
    assert [numbers(row.since) for row in ROWS] == sorted(numbers(row.since) for row in ROWS)
    assert {row.since for row in ROWS[1:]} <= set(TAGS)
    for made in releases(ROWS):
        assert msgspec.convert(msgspec.structs.asdict(made), Release) == made
        assert all(made.path_types[at] == name for name, at in made.order.items())


def test_a_new_release_is_one_row():
    """The row alone adds a capability, a variable, the newest number and its model basis."""
    new = row("2.99.1", "src/x.cc", ModelBasis.READ, ("NCCL_NEW",), amd_link=24.0)
    before, after = releases((*ROWS, new))[-2:]

    assert before == release(NEWEST)
    assert (after.amd_link, after.variables - before.variables) == (24.0, {"NCCL_NEW"})
    assert after == msgspec.structs.replace(before, amd_link=24.0, variables=after.variables)


def test_a_field_that_does_not_exist_is_refused():
    with pytest.raises(TypeError):
        releases((row("2.99.1", "src/x.cc", has_dmabouf=True),))


@pytest.mark.parametrize(
    ("version", "same"),
    [
        ("2.23.4-1+cuda12.4", "2.23.4"),
        ("2.28.8", "2.28.7"),
        ("2.99.9", NEWEST),
        ("2.26", "2.25.1"),
        ("", "1.3.4"),
        ("of somebody", ""),
    ],
)
def test_a_number_between_two_releases_behaves_like_the_earlier_one(version, same):
    assert release(version) is release(same) or release(version) == release(same)


def test_an_unknown_version_has_no_capability():
    unknown = release("")

    assert not (unknown.has_dmabuf or unknown.sees_module or unknown.silent_pairs or unknown.prints_level)
    assert unknown.path_types == () and unknown.peermem_files == ()


def test_levels_are_path_types_up_to_sys():
    """src/graph/paths.cc, ncclGetLevel() compares up to PATH_SYS; words come from 2.6.4 on."""
    assert levels(release("2.5.7")) == ()
    assert levels(release("2.11.4")) == tuple(NVB.split())
    assert levels(release("2.12.7")) == ("LOC", "NVL", "NVB", "PIX", "PXB", "PXN", "PHB", "SYS")
    assert set(levels(release("2.27.3"))) - set(levels(release("2.26.6"))) == {"P2C"}
    assert set(levels(release("2.26.2"))) - set(levels(release("2.25.1"))) == {"C2C"}


def test_the_consumer_takes_its_versions_from_the_table():
    assert NCCL.use("dmabuf").since == numbers(first_release_with("has_dmabuf"))
    for tag in TAGS[1:]:
        assert NCCL.files_wanted("peermem", tag) == release(tag).peermem_files


@pytest.mark.parametrize(
    ("version", "who", "modelled"),
    [
        ("2.17.1", ModelBasis.UNSEEN, False),
        (OLDEST, ModelBasis.FROM_SOURCE, True),
        ("2.18.3", ModelBasis.READ, True),
        ("2.27.6", ModelBasis.READ, True),
        ("2.28.9", ModelBasis.ON_GPUS, True),
        ("2.30.7", ModelBasis.FROM_SOURCE, True),
        (NEWEST, ModelBasis.READ, True),
        ("2.99.1", ModelBasis.UNSEEN, True),
        ("3.0.1", ModelBasis.UNSEEN, False),
        ("", ModelBasis.UNSEEN, False),
    ],
)
def test_the_model_basis_of_a_version(version, who, modelled):
    assert (model_basis(version), is_modelled(version)) == (who, modelled)


def test_what_was_run_was_also_built_from_source():
    assert "2.28.9" in FROM_SOURCE
    assert set(FROM_SOURCE) <= set(TAGS)


# -- other modules ----------------------------------------------------------------------------------------

HOME = "programs/nccl/releases.py"
TUPLES = {
    "rules/p2p_page_table_version.py": "a version of gdrdrv",
    "programs/gdrcopy/rules.py": "a version of gdrdrv",
    "programs/gdrcopy/facts.py": "a version of GDRCopy",
    "programs/aws_ofi_nccl/rules.py": "versions of the module efa",
    "programs/transport_choice.py": "a version of PyTorch",
    "transport/buffers.py": "numbers of DLPack's devices",
    "agent/native/cuda_abi.py": "numbers of CUDA's attributes",
    "agent/running/netlink.py": "numbers of netlink's messages",
}
"""Modules with tuples of unrelated numbers."""
COMPARES = {
    "facts/newest_read.py": "any program's version against the newest that was read",
    "programs/consumer.py": "a version against its program's own table",
    "programs/deepep/consumer.py": "DeepEP's version",
    "programs/mooncake/consumer.py": "Mooncake's version",
    "programs/ucx/facts.py": "how many numbers a version has",
    "programs/gdrcopy/facts.py": "CUDA's and GDRCopy's version",
    "programs/gdrcopy/rules.py": "gdrdrv's version",
    "programs/gds/rules.py": "the driver's version",
    "programs/transport_choice.py": "PyTorch's version",
    "programs/aws_ofi_nccl/rules.py": "the versions of efa, libfabric and NVIDIA's driver",
    "programs/old_copies.py": "a copy of any program against that program's table",
    "fabric/nccl/nic.py": "CUDA's version",
    "repair/config/schema_check.py": "an operator's version",
    "rules/gpu_cdmm.py": "the driver's version",
    "repair/remedies/use_driver_580.py": "the driver's version",
    "rules/peermem_not_loaded.py": "the driver's version",
    "rules/lock_inversion.py": "the OFED's version",
    "rules/p2p_page_table_version.py": "the driver's version, and gdrdrv's",
    "rules/peermem_registration_refused.py": "nvidia-peermem's version",
    "rules/topology_refused.py": "the driver's version",
    "explain/causes.py": "the driver's version",
    "facts/peermem_source.py": "nvidia-peermem's version",
    "facts/libraries.py": "how many numbers a version has, and rdma-core's",
}
"""Modules that compare versions of something else."""


def modules() -> dict[str, ast.Module]:
    files = {path.relative_to(SOURCE).as_posix(): path for path in SOURCE.rglob("*.py")}
    return {name: ast.parse(path.read_text()) for name, path in files.items() if name != HOME}


def has_nccl_tuple(tree: ast.AST) -> bool:
    """Whether a module has a tuple of two or three numbers that begins with 2, like NCCL's versions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Tuple) and 2 <= len(node.elts) <= 3:
            values = [part.value if isinstance(part, ast.Constant) else None for part in node.elts]
            if values[0] == 2 and all(type(value) is int for value in values):
                return True
    return False


def has_nccl_string(tree: ast.AST) -> bool:
    """Whether a string is the number of a release of NCCL."""
    return any(
        isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in TAGS
        for node in ast.walk(tree)
    )


STRINGS = {
    "facts/newest_read.py": "the end of the table, compared with it by a test",
    "programs/nccl/variables.py": "the releases that read a variable, shown and not compared",
}


def compares_numbers(tree: ast.AST) -> bool:
    """Whether the result of numbers() is compared."""
    return any(
        isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == "numbers"
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare)
        for part in ast.walk(node)
    )


def test_no_other_module_has_a_version_of_nccl():
    assert {name for name, tree in modules().items() if has_nccl_tuple(tree)} == set(TUPLES)
    assert {name for name, tree in modules().items() if has_nccl_string(tree)} == set(STRINGS)


def test_other_modules_compare_only_versions_of_other_things():
    assert {name for name, tree in modules().items() if compares_numbers(tree)} == set(COMPARES)


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("x >= (2, 23, 4)", has_nccl_tuple),
        ("X = {'P2C': (2, 27)}", has_nccl_tuple),
        ("X = '2.23.4'", has_nccl_string),
        ("numbers(version) < OLD", compares_numbers),
        ("OLD <= numbers(version)", compares_numbers),
    ],
)
def test_the_search_detects_versions(code, found):
    assert found(ast.parse(code))
    assert not found(ast.parse(re.sub("2", "3", code).replace("numbers", "letters")))
