"""The tables of each program, at the versions that its sources document."""

from __future__ import annotations

from typing import Any

import pytest

from gdrkit.catalogue import consumer_of, every_consumer, rule_of
from gdrkit.evidence import Confidence
from gdrkit.formats.versions import numbers
from gdrkit.programs.aws_ofi_nccl.consumer import AWS_OFI_NCCL
from gdrkit.programs.gpu_initiated import ibgda_cpu_assisted
from gdrkit.programs.mnnvl.rules import mnnvl_cumem_off, mnnvl_disabled_by_env
from gdrkit.programs.names import NAMES
from gdrkit.programs.nccl.consumer import NCCL
from gdrkit.programs.nccl.setting_rules import gdr_read_off
from gdrkit.programs.nixl.consumer import NIXL
from gdrkit.programs.nvshmem.consumer import NVSHMEM
from gdrkit.programs.ucx.consumer import UCX
from gdrkit.programs.verbs.consumer import VERBS
from gdrkit.rules.capabilities import DIRECT, INITIATED, NEEDS, OF_ITS_OWN, Capability, ConsumerPath, Path
from gdrkit.rules.engine import judge
from gdrkit.rules.rule import Failed
from gdrkit.verdict.cells import cells_of, every_cell, paths_closed_by
from tests.rules.machines import failed, node, passes

PEERS = "sys/kernel/mm/memory_peers"
NV_MEM = f"{PEERS}/nv_mem/version"
NV_MEM_NC = f"{PEERS}/nv_mem_nc/version"
RENAMED = f"{PEERS}/nvidia-peermem/version"
MODULE = "sys/module/nvidia_peermem/version"
LEGACY = "sys/module/nv_peer_mem/version"
dmabuf_disabled_by_env, ib_disabled_by_env = map(rule_of, ("dmabuf-disabled-by-env", "ib-disabled-by-env"))
CONF = "etc/nccl.conf"


def test_every_name_has_its_table_and_every_table_its_name():
    assert tuple(consumer.name for consumer in every_consumer()) == NAMES
    assert tuple(map(consumer_of, NAMES)) == every_consumer()
    assert len(set(NAMES)) == len(NAMES)


def test_a_table_names_each_path_once_best_first():
    for consumer in every_consumer():
        assert list(consumer.paths) == [path for path in Path if path in consumer.paths]
        assert consumer.direct == tuple(path for path in OF_ITS_OWN if path in consumer.paths)


def test_required_files_are_listed_newest_first_with_a_source():
    for consumer in every_consumer():
        for use in consumer.uses:
            firsts = [row.since for row in use.required_files]
            assert firsts == sorted(firsts, reverse=True)
            assert all(row.files and row.source for row in use.required_files)


def test_the_default_program_is_a_common_one():
    assert every_consumer()[0] is NCCL
    assert [consumer.name for consumer in every_consumer() if consumer.common] == ["nccl", "ucx", "verbs"]


# -- capabilities --------------------------------------------------------------------------------------


@pytest.mark.parametrize("capability", list(Capability))
def test_without_a_capability_each_path_that_needs_it_is_lost(capability: Capability):
    cells = {
        (path.value, consumer.name) for path, consumer in every_cell() if capability in consumer.needs(path)
    }

    beyond = DIRECT if capability is Capability.VMM else ()  # what GIN needs beyond others
    ways = (path for path in Path if path not in INITIATED and (capability in NEEDS[path] or path in beyond))
    assert cells_of((capability,)) == cells
    assert paths_closed_by((capability,)) == tuple(path.value for path in ways)


def test_a_programs_own_condition_affects_only_it():
    assert cells_of((ConsumerPath("ucx", Path.PEERMEM),)) == {("peermem", "ucx")}
    assert cells_of(NCCL.own(*DIRECT)) == {("dmabuf", "nccl"), ("peermem", "nccl")}


# -- versions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "files"),
    [
        ("2.4.8", (NV_MEM,)),
        ("2.8.4", (NV_MEM,)),
        ("2.9.6", (NV_MEM,)),
        ("2.9.8", (NV_MEM, RENAMED)),
        ("2.21.5", (NV_MEM, RENAMED)),
        ("2.22.3", (NV_MEM, NV_MEM_NC)),
        ("2.23.4", (NV_MEM, NV_MEM_NC, MODULE)),
        ("2.30.7", (NV_MEM, NV_MEM_NC, MODULE)),
    ],
)
def test_files_that_nccl_requires_by_version(version: str, files: tuple[str, ...]):
    """NCCL src/transport/net_ib.cc at each tag, ncclIbGdrSupport()."""
    assert NCCL.files_wanted(Path.PEERMEM, version) == files


@pytest.mark.parametrize(
    ("version", "files"),
    [
        ("1.5.0", (NV_MEM,)),
        ("1.12.1", (NV_MEM,)),
        ("1.17.0", (NV_MEM,)),
        ("1.18.0", (NV_MEM, MODULE, LEGACY)),
        ("1.22.0", (NV_MEM, MODULE, LEGACY)),
    ],
)
def test_files_that_ucx_requires_by_version(version: str, files: tuple[str, ...]):
    """openucx/ucx src/uct/ib/base/ib_md.c at each tag, who calls uct_ib_check_gpudirect_driver()."""
    assert UCX.files_wanted(Path.PEERMEM, version) == files


@pytest.mark.parametrize(
    ("version", "files"),
    [
        ("2.11.0", (NV_MEM, RENAMED)),
        ("3.2.5", (NV_MEM, RENAMED)),
        ("3.3.9", (NV_MEM, RENAMED, MODULE)),
        ("3.4.5", (NV_MEM, RENAMED, MODULE)),
        ("3.5.1", (NV_MEM, RENAMED, MODULE)),
    ],
)
def test_files_that_nvshmem_requires_by_version(version: str, files: tuple[str, ...]):
    """NVIDIA/nvshmem v3.4.5-0, nvshmemt_ib_common_nv_peer_mem_available(); before, copies in other trees."""
    assert NVSHMEM.files_wanted(Path.PEERMEM, version) == files


def test_nvshmem_has_no_staged_path():
    assert NVSHMEM.paths == (*DIRECT, *INITIATED)


@pytest.mark.parametrize("path", list(VERBS.paths))
def test_programs_that_register_memory_themselves_require_no_files(path: Path):
    assert VERBS.files_wanted(path, "53.0") == ()
    assert VERBS.use(path).since == ()


@pytest.mark.parametrize(
    ("consumer", "last_without", "first"), [(NCCL, "2.12.12", "2.13.4"), (UCX, "1.13.1", "1.14.0")]
)
def test_dmabuf_is_supported_since_a_version(consumer: Any, last_without: str, first: str):
    since = consumer.use(Path.DMABUF).since

    assert numbers(last_without) < since <= numbers(first)


def test_an_unknown_nccl_is_assumed_to_support_everything():
    assert NCCL.modern == "NCCL 2.23.4 or newer"


# -- switches ------------------------------------------------------------------------------------------

VALUES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "NCCL_DMABUF_ENABLE": (("0", "0x0", "00"), ("1", "2", "-1")),
    "OFI_NCCL_DISABLE_DMABUF": (("1", "0x1", "2", "true", "TRUE"), ("0", "false", "", "yes")),
    "NCCL_IB_DISABLE": (("1", "2"), ("0", "0x0", "")),
    "NVSHMEM_IBGDA_NIC_HANDLER": (("cpu", " CPU_HOST_MEMORY "), ("auto", "gpu")),
    "NCCL_GIN_TYPE": (("2", "0x2"), ("-1", "3")),
    "NCCL_GIN_GDAKI_NIC_HANDLER": (("1",), ("0", "2")),
    "NVSHMEM_IB_DISABLE_DMABUF": (("1", "true", "yes", "on"), ("0", "no", "FALSE", "n")),
    "NCCL_NET": (("Socket", "socket"), ("IB", "AWS Libfabric")),
    "NCCL_NET_GDR_READ": (("0",), ("1", "-2")),
    "NCCL_CUMEM_ENABLE": (("0", "0x0"), ("1", "-2")),
    "NCCL_MNNVL_ENABLE": (("0",), ("1", "2")),
    "UCX_IB_GPU_DIRECT_RDMA": (("n", "no", "off", "0", "false", "N"), ("y", "try", "1")),
    "UCX_CUDA_COPY_DMABUF": (("n", "no"), ("y", "try")),
    "UCX_TLS": (("tcp", "^ib", "^all", "tcp,cuda_copy"), ("all", "rc,cuda", "^tcp", "ud_x,sm", "")),
}
"""By variable: values that are off, and values that are not."""
ONE_IS_ON = ("NCCL_NET_GDR_READ", "NCCL_CUMEM_ENABLE", "NCCL_MNNVL_ENABLE")
RULES = (
    dmabuf_disabled_by_env,
    ib_disabled_by_env,
    gdr_read_off,
    ibgda_cpu_assisted,
    mnnvl_cumem_off,
    mnnvl_disabled_by_env,
)
SWITCHES = [(consumer, switch) for consumer in every_consumer() for switch in consumer.switches]


@pytest.mark.parametrize(("consumer", "switch"), SWITCHES, ids=lambda value: value.name)
def test_a_switch_disables_paths_only_for_its_own_program(consumer: Any, switch: Any):
    """One rule reports the switch, and the others do not."""
    off, on = VALUES[switch.name]
    assert switch.source
    for value in off:
        machine = node({CONF: f"{switch.name}={value}\n"})
        outcomes = {rule: judge(machine, rule, CONF) for rule in RULES}
        telling = [rule for rule, outcome in outcomes.items() if isinstance(outcome, Failed)]
        assert len(telling) == 1, value
        found = outcomes[telling[0]]
        assert (found.subject, found.seen) == (f"{CONF}:1", f"{switch.name}={value}")
        assert found.expected == ("unset, or 1" if switch.name in ONE_IS_ON else "unset")
        assert machine.confidence(judge, telling[0], CONF) is Confidence.CERTAIN
        sharing = [
            (one, same) for one in every_consumer() for same in one.switches if same.name == switch.name
        ]
        takes = tuple(use for one, same in sharing for use in one.own(*same.closes))
        assert (consumer, switch) in sharing
        assert (found.takes or telling[0].takes(CONF)) == takes
        assert telling[0].direction == switch.direction
    for value in on:
        machine = node({CONF: f"{switch.name}={value}\n"})
        assert not [rule for rule in RULES if isinstance(rule.check(machine, CONF), Failed)], value


def test_switches_of_two_programs_in_one_file_are_both_reported():
    machine = node({CONF: "UCX_IB_GPU_DIRECT_RDMA=n\nNCCL_DMABUF_ENABLE=0\nOFI_NCCL_DISABLE_DMABUF=1\n"})
    found = failed(machine, dmabuf_disabled_by_env, CONF)

    assert found.seen == "NCCL_DMABUF_ENABLE=0, UCX_IB_GPU_DIRECT_RDMA=n, OFI_NCCL_DISABLE_DMABUF=1"
    every = (*NCCL.own("dmabuf"), *UCX.own(*DIRECT), *NIXL.own(*DIRECT), *AWS_OFI_NCCL.own("dmabuf"))
    assert found.takes == every
    assert passes(machine, ib_disabled_by_env, CONF)
