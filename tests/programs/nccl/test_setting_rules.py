"""Findings about the settings of NCCL and UCX."""

from __future__ import annotations

import pytest

from gdrkit.catalogue import rule_of
from gdrkit.facts.rdma import Pair, RdmaDevice, rdma_devices
from gdrkit.node import Node
from gdrkit.programs.environment import nccl_sources, sources
from gdrkit.programs.nccl.distance_rules import (
    gdr_level_ignored,
    gdr_level_pxb_on_c2c,
    gdr_level_too_low,
    pairs_or_node,
)
from gdrkit.programs.nccl.log import logs
from gdrkit.programs.nccl.setting_rules import gdr_read_off, gid_index_wrong, hca_not_selected
from gdrkit.rules.capabilities import DIRECT, ConsumerPath, Path
from gdrkit.rules.rule import Failed, Passed
from gdrkit.verdict.cells import paths_closed_by
from tests.memory_host import MemoryHost
from tests.rules.machines import does_not_apply, failed, missing, node, outcome, passes

dmabuf_disabled_by_env, ib_disabled_by_env = map(rule_of, ("dmabuf-disabled-by-env", "ib-disabled-by-env"))
CONF, UCX, LOG = "etc/nccl.conf", "etc/ucx/ucx.conf", "sos_commands/nccl/rank0"
INFO = "n1:7:8 [0] NCCL INFO "


def conf(*lines: str) -> dict[str, str]:
    return {CONF: "".join(f"{line}\n" for line in lines)}


def job(*lines: str, version: str = "2.27.5") -> dict[str, str]:
    head = f"NCCL version {version}+cuda12.9\n" if version else ""
    return {LOG: head + "".join(f"{INFO}{line}\n" for line in lines)}


# A distance in nvidia-smi's words, and the bridges above the GPU and above the NIC.
TREES = {
    "PIX": (
        "pci0000:00/0000:00:01.0/0000:10:00.0/0000:11:00.0",
        "pci0000:00/0000:00:01.0/0000:10:00.0/0000:12:00.0",
    ),
    "PHB": ("pci0000:00/0000:00:01.0", "pci0000:00/0000:00:02.0"),
    "SYS": ("pci0000:00/0000:00:01.0", "pci0000:80/0000:80:01.0"),
}
GPU, NIC = "0000:20:00.0", "0000:21:00.0"
PAIR = Pair(GPU, "mlx5_0")


def pair_at(far: str, *, gpu: str = "0x2330", arch: str = "x86_64") -> MemoryHost:
    files: dict[str, str] = {"sys/bus/pci/drivers/mlx5_core/bind": "", "proc/sys/kernel/arch": arch}
    links = {}
    numa = {"PIX": ("0", "0"), "PHB": ("0", "0"), "SYS": ("0", "1")}[far]
    above_gpu, above_nic = TREES[far]
    nodes = (
        (GPU, above_gpu, "0x10de", gpu, "0x030200", numa[0]),
        (NIC, above_nic, "0x15b3", "0x1021", "0x020700", numa[1]),
    )
    for address, above, vendor, device, kind, numa_node in nodes:
        place = f"sys/devices/{above}/{address}"
        files |= {
            f"{place}/vendor": f"{vendor}\n",
            f"{place}/device": f"{device}\n",
            f"{place}/class": f"{kind}\n",
            f"{place}/numa_node": f"{numa_node}\n",
        }
        links[f"sys/bus/pci/devices/{address}"] = f"../../../devices/{above}/{address}"
        for depth in range(2, above.count("/") + 2):
            bridge = "/".join(above.split("/")[:depth])
            name = bridge.rsplit("/", 1)[-1]
            files |= {
                f"sys/devices/{bridge}/vendor": "0x1000\n",
                f"sys/devices/{bridge}/device": "0xc030\n",
                f"sys/devices/{bridge}/class": "0x060400\n",
            }
            links[f"sys/bus/pci/devices/{name}"] = f"../../../devices/{bridge}"
    place = f"{above_nic}/{NIC}/infiniband/mlx5_0"
    files |= {f"sys/devices/{place}/node_guid": "1\n", f"sys/devices/{place}/ports/1/state": "4: ACTIVE\n",
              f"sys/devices/{place}/ports/1/phys_state": "5: LinkUp\n",
              f"sys/devices/{place}/ports/1/rate": "400 Gb/sec (4X NDR)\n",
              f"sys/devices/{place}/ports/1/link_layer": "Ethernet\n",
              f"sys/devices/{place}/ports/1/gids/0": "fe80:0000:0000:0000:0000:0000:0000:0001\n",
              f"sys/devices/{place}/ports/1/gids/3": "0000:0000:0000:0000:0000:ffff:0a00:0001\n",
              f"sys/devices/{place}/ports/1/gid_attrs/types/0": "IB/RoCE v1\n",
              f"sys/devices/{place}/ports/1/gid_attrs/types/3": "RoCE v2\n"}  # fmt: skip
    links["sys/class/infiniband/mlx5_0"] = f"../../devices/{place}"
    return MemoryHost(files, links=links)


def own(consumer: str, *paths: str) -> tuple[ConsumerPath, ...]:
    """A program's own side of these paths."""
    return tuple(ConsumerPath(consumer, Path(path)) for path in paths)


RDMA = (*DIRECT, "staged")
"""Copies through host memory use RDMA too: without it, programs use TCP."""
OF_UCX = own("ucx", *DIRECT) + own("nixl", *DIRECT)
"""NIXL moves its data through UCX."""


# -- gdr-level-too-low -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "far", "forbidden"),
    [
        ("PIX", "PIX", False),
        ("LOC", "PIX", True),
        ("0", "PIX", True),
        ("PXB", "PHB", True),
        ("2", "PHB", True),
        ("PHB", "PHB", False),
        ("PHB", "SYS", True),
        ("SYS", "SYS", False),
        ("5", "SYS", False),
        ("ALL", "PHB", False),
    ],
)
def test_a_level_and_a_distance(value: str, far: str, forbidden: bool):
    machine = node(pair_at(far), conf(f"NCCL_NET_GDR_LEVEL={value}"))

    assert isinstance(outcome(machine, gdr_level_too_low, PAIR), Failed if forbidden else Passed)


def test_it_blocks_nccl_on_that_pair():
    found = failed(node(pair_at("SYS"), conf("NCCL_NET_GDR_LEVEL=PXB")), gdr_level_too_low, PAIR)

    assert found.seen == "NCCL_NET_GDR_LEVEL=PXB in etc/nccl.conf:1, pair at SYS"
    assert gdr_level_too_low.takes(PAIR) == own("nccl", *DIRECT)


def test_a_users_own_file_blocks_no_other_user():
    mine = {"home/alice/.nccl.conf": "NCCL_NET_GDR_LEVEL=LOC\n"}

    assert failed(node(pair_at("PIX"), mine), gdr_level_too_low, PAIR).takes == ()


def test_a_pasted_log_without_a_machine():
    refused = job("GPU Direct RDMA Disabled for GPU 1b000 / HCA 1 (distance 8 > 5)")
    machine = node(refused, complete=False, absent={CONF, "etc/environment"})

    assert list(pairs_or_node(machine)) == ["node"]
    assert "(PHB > PXB)" in failed(machine, gdr_level_too_low).seen


def test_the_first_refused_pair_is_named_and_allowed_ones_are_not():
    lines = ("GPU Direct RDMA Enabled for GPU 1a000 / HCA 0 (distance 4 <= 5), read 1",
             "GPU Direct RDMA Disabled for GPU 1b000 / HCA 1 (distance 8 > 5)",
             "GPU Direct RDMA Disabled for GPU 1c000 / HCA 2 (distance 9 > 5)")  # fmt: skip
    machine = node(job(*lines), complete=False, absent={CONF, "etc/environment"})

    assert failed(machine, gdr_level_too_low).subject == "GPU 1b000 HCA 1"
    allowed = node(job(lines[0]), complete=False, absent={CONF, "etc/environment"})
    assert passes(allowed, gdr_level_too_low)


def test_numbers_of_an_unknown_version_are_not_decoded():
    refused = job("GPU Direct RDMA Disabled for GPU 1b000 / HCA 1 (distance 7 > 4)", version="")

    assert failed(node(refused), gdr_level_too_low).seen.startswith("distance 7 > 4 in")


def test_a_file_that_was_not_collected_is_unknown_unless_another_is_wrong():
    machine = node(pair_at("PIX"), complete=False)

    assert missing(machine, gdr_level_too_low, PAIR).source == CONF
    wrong = node(pair_at("PIX"), job("NCCL_NET_GDR_LEVEL set by environment to LOC"), complete=False)
    assert failed(wrong, gdr_level_too_low, PAIR)


# -- gdr-level-ignored -------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["ALL", "NODE", "sys", "-1", "SYS "])
def test_a_value_that_nccl_does_not_understand(value: str):
    assert value in failed(node(conf(f"NCCL_NET_GDR_LEVEL={value}")), gdr_level_ignored, CONF).seen
    assert paths_closed_by(gdr_level_ignored.takes(CONF)) == ()


@pytest.mark.parametrize("value", ["SYS", "5", "PXB", "2"])
def test_a_value_that_it_understands(value: str):
    assert passes(node(conf(f"NCCL_NET_GDR_LEVEL={value}")), gdr_level_ignored, CONF)


def test_a_level_of_a_newer_version_is_ignored_by_an_older_one():
    text = {LOG: f"NCCL version 2.21.5+cuda12.4\n{INFO}Using network IB\nexport NCCL_NET_GDR_LEVEL=P2C\n"}

    assert failed(node(text), gdr_level_ignored, LOG)
    assert does_not_apply(node(conf("NCCL_DEBUG=INFO")), gdr_level_ignored, CONF)
    assert missing(node(complete=False), gdr_level_ignored, CONF)


# -- gdr-level-pxb-on-c2c ----------------------------------------------------------------------------------

GH200 = {"gpu": "0x2342", "arch": "aarch64"}


@pytest.mark.parametrize(
    ("version", "value", "forbidden"),
    [
        ("2.29.2", "PXB", True),
        ("2.29.2", "P2C", False),
        ("2.29.2", "PHB", False),
        ("2.28.9", "PXB", False),
        ("2.30.7", "PIX", True),
    ],
)
def test_pxb_on_grace(version: str, value: str, forbidden: bool):
    log = job(f"NCCL_NET_GDR_LEVEL set by environment to {value}", version=version)
    machine = node(pair_at("PHB", **GH200), log)

    assert isinstance(outcome(machine, gdr_level_pxb_on_c2c, PAIR), Failed if forbidden else Passed)
    if forbidden:  # reported once: the other rule leaves C2C to this one
        assert passes(machine, gdr_level_too_low, PAIR)


def test_without_a_version_the_newest_is_assumed():
    assert failed(node(pair_at("PHB", **GH200), conf("NCCL_NET_GDR_LEVEL=PXB")), gdr_level_pxb_on_c2c, PAIR)


def test_before_c2c_had_a_level_the_pair_is_too_far():
    log = job("NCCL_NET_GDR_LEVEL set by environment to PXB", version="2.25.1")

    assert failed(node(pair_at("PHB", **GH200), log), gdr_level_too_low, PAIR)


def test_a_machine_without_c2c_is_not_applicable():
    assert does_not_apply(node(pair_at("PHB"), conf("NCCL_NET_GDR_LEVEL=PXB")), gdr_level_pxb_on_c2c, PAIR)


# -- gdr-read-off ------------------------------------------------------------------------------------------


def test_reading_turned_off_affects_sending():
    assert failed(node(conf("NCCL_NET_GDR_READ=0")), gdr_read_off, CONF).subject == "etc/nccl.conf:1"
    assert gdr_read_off.direction == "send"
    assert passes(node(conf("NCCL_NET_GDR_READ=1")), gdr_read_off, CONF)
    assert does_not_apply(node(), gdr_read_off, CONF)
    assert missing(node(complete=False), gdr_read_off, CONF)


# -- dmabuf-disabled-by-env --------------------------------------------------------------------------------


@pytest.mark.parametrize("line", ["NCCL_DMABUF_ENABLE=0", "NCCL_DMABUF_ENABLE=0x0"])
def test_dmabuf_turned_off_for_nccl(line: str):
    found = failed(node(conf(line)), dmabuf_disabled_by_env, CONF)

    assert found.takes == own("nccl", "dmabuf")


@pytest.mark.parametrize("line", ["NCCL_DMABUF_ENABLE=1", "NCCL_DEBUG=INFO", "OFI_NCCL_DISABLE_DMABUF=0"])
def test_dmabuf_left_on(line: str):
    assert passes(node(conf(line)), dmabuf_disabled_by_env, CONF)


def test_ucxs_switch_turns_both_paths_off_for_ucx():
    found = failed(node({UCX: "UCX_IB_GPU_DIRECT_RDMA=n\n"}), dmabuf_disabled_by_env, UCX)

    assert found.takes == OF_UCX
    assert missing(node(complete=False), dmabuf_disabled_by_env, UCX)
    assert paths_closed_by(dmabuf_disabled_by_env.takes(UCX)) == ()


# -- ib-disabled-by-env ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "closed"),
    [
        ("NCCL_IB_DISABLE=1", own("nccl", *RDMA) + own("nccl-gin", *DIRECT)),
        ("NCCL_NET=Socket", own("nccl", *RDMA)),
        ("UCX_TLS=tcp,cuda_copy", own("ucx", *RDMA) + own("nixl", *RDMA)),
        ("UCX_TLS=^ib", own("ucx", *RDMA) + own("nixl", *RDMA)),
    ],
)
def test_rdma_turned_off(line: str, closed):
    found = failed(node(conf(line)), ib_disabled_by_env, CONF)

    assert found.takes == closed


@pytest.mark.parametrize(
    "line",
    [
        "NCCL_IB_DISABLE=0",
        "NCCL_NET=IB",
        "UCX_TLS=rc,cuda",
        "UCX_TLS=all",
        "UCX_TLS=^tcp",
        "UCX_TLS=ud_x,sm",
    ],
)
def test_rdma_left_on(line: str):
    assert passes(node(conf(line)), ib_disabled_by_env, CONF)
    assert missing(node(complete=False), ib_disabled_by_env, CONF)


# -- hca-not-selected --------------------------------------------------------------------------------------


def only_device(machine: Node) -> RdmaDevice:
    (device,) = rdma_devices(machine)
    return device


def test_the_nearest_nic_is_left_out():
    machine = node(pair_at("PIX"), conf("NCCL_IB_HCA=mlx5_4"))

    assert failed(machine, hca_not_selected, only_device(machine)).subject == "mlx5_0"


@pytest.mark.parametrize("spec", ["mlx5", "=mlx5_0:1", "^mlx5_4"])
def test_a_list_that_names_it(spec: str):
    machine = node(pair_at("PIX"), conf(f"NCCL_IB_HCA={spec}"))

    assert passes(machine, hca_not_selected, only_device(machine))


def test_a_nic_that_is_nearest_to_no_gpu_may_be_left_out():
    """A second NIC for storage, across the sockets."""
    near, far = pair_at("PIX"), pair_at("SYS")
    place = next(path for path in far.links.values() if "infiniband" in path).replace("mlx5_0", "mlx5_9")
    place = place.replace(NIC, "0000:22:00.0")
    files = {f"sys/{place[6:]}/node_guid": "2\n"}
    links = {
        "sys/class/infiniband/mlx5_9": place,
        "sys/bus/pci/devices/0000:22:00.0": place.partition("/infiniband")[0].replace(
            "../../", "../../../", 1
        ),
    }
    function = f"sys/{place[6:].partition('/infiniband')[0]}"
    files |= {f"{function}/vendor": "0x15b3\n", f"{function}/device": "0x1021\n"}
    files |= {f"{function}/class": "0x020700\n", f"{function}/numa_node": "1\n"}
    machine = node(near, MemoryHost(files, links=links), conf("NCCL_IB_HCA=mlx5_0"))
    storage = next(device for device in rdma_devices(machine) if device.name == "mlx5_9")

    assert passes(machine, hca_not_selected, storage)
    assert missing(node(pair_at("PIX"), complete=False), hca_not_selected, RdmaDevice("mlx5_0"))


# -- gid-index-wrong ---------------------------------------------------------------------------------------


def test_an_index_without_a_gid():
    machine = node(pair_at("PIX"), conf("NCCL_IB_GID_INDEX=5"))

    assert "empty on mlx5_0 port 1" in failed(machine, gid_index_wrong, CONF).seen


@pytest.mark.parametrize(
    ("link_layer", "state"),
    [("InfiniBand", "4: ACTIVE"), ("Ethernet", "1: DOWN"), ("InfiniBand", "1: DOWN")],
)
def test_only_active_roce_ports_need_a_gid(link_layer: str, state: str):
    """The port before one that does."""
    first, later = pair_at("PIX"), "sys/devices/pci0000:00/0000:00:01.0/0000:10:00.0/0000:12:00.0/" + NIC
    one, two = (f"{later}/infiniband/mlx5_0/ports/{number}" for number in (1, 2))
    second = {path.replace(one, two): text for path, text in first.files.items() if path.startswith(one)}
    other = {f"{one}/link_layer": f"{link_layer}\n", f"{one}/state": f"{state}\n"}
    machine = node(first, second, other, conf("NCCL_IB_GID_INDEX=5"))

    found = failed(machine, gid_index_wrong, CONF)
    assert found.seen == "NCCL_IB_GID_INDEX=5, empty on mlx5_0 port 2"
    without = {path: text for path, text in first.files.items() if path not in second}
    assert passes(node(MemoryHost(without, links=first.links), other, conf("NCCL_IB_GID_INDEX=5")),
                  gid_index_wrong, CONF)  # fmt: skip


@pytest.mark.parametrize("value", ["3", "0"])
def test_an_index_in_use(value: str):
    assert passes(node(pair_at("PIX"), conf(f"NCCL_IB_GID_INDEX={value}")), gid_index_wrong, CONF)


def test_minus_one_lets_nccl_choose():
    assert does_not_apply(node(pair_at("PIX"), conf("NCCL_IB_GID_INDEX=-1")), gid_index_wrong, CONF)


def test_nccls_own_error_points_to_the_index_without_proof():
    refused = job("Call to ibv_modify_qp failed with 22 Invalid argument, on dev mlx5_0:1, curr state INIT")

    assert "both ends" in missing(node(refused), gid_index_wrong, LOG).source
    no_route = job("Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1")
    assert does_not_apply(node(no_route), gid_index_wrong, LOG)
    assert missing(node(conf("NCCL_IB_GID_INDEX=3"), complete=False), gid_index_wrong, CONF)


def test_what_is_read_on_a_node_without_any():
    machine = node()

    assert nccl_sources(machine) == (CONF, "etc/environment")
    assert UCX in sources(machine)
    assert logs(machine) == ()
