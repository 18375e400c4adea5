"""RDMA devices in pasted outputs become files of sysfs; all rules judge a machine that is listed whole."""

import pytest

from gdrkit.evidence import EvidenceMissing
from gdrkit.explain.outputs.pasted_host import PastedHost
from gdrkit.facts.rdma import RdmaDevice, RdmaPort, gids, ports, rdma_devices
from gdrkit.node import Node
from gdrkit.rules.rdma_ports import port_down
from gdrkit.rules.rule import Failed, Passed
from tests.explain.explaining import explained

IBSTAT = """$ ibstat
CA 'mlx5_0'
\tCA type: MT4129
\tNumber of ports: 1
\tFirmware version: 28.43.2026
\tNode GUID: 0xa088c20300badf10
\tPort 1:
\t\tState: {}
\t\tPhysical state: {}
\t\tRate: 400
\t\tLink layer: InfiniBand
"""
DEVINFO = """$ ibv_devinfo -v
hca_id:\tmlx5_0
\tfw_ver:\t\t\t\t28.43.2026
\tnode_guid:\t\t\ta088:c203:00ba:df10
\tboard_id:\t\t\tMT_0000000838
\t\tport:\t1
\t\t\tstate:\t\t\tPORT_{} (1)
\t\t\tactive_width:\t\t4X (2)
\t\t\tactive_speed:\t\t100.0 Gbps (128)
\t\t\tphys_state:\t\t{} (3)
\t\t\tlink_layer:\t\tInfiniBand
"""
STATUS = """$ ibstatus
Infiniband device 'mlx5_0' port 1 status:
\tstate:\t\t 1: {}
\tphys state:\t 3: {}
\trate:\t\t 400 Gb/sec (4X NDR)
\tlink_layer:\t InfiniBand
"""


def node_of(text: str) -> Node:
    return Node(PastedHost(text))


@pytest.mark.parametrize(
    "text",
    [
        IBSTAT.format("Down", "Disabled"),
        DEVINFO.format("DOWN", "DISABLED"),
        STATUS.format("DOWN", "Disabled"),
    ],
)
def test_every_tool_shows_the_same_port(text):
    node = node_of(text)

    assert ports(node, "mlx5_0") == (RdmaPort("mlx5_0", 1, "DOWN", "Disabled", 400.0, "InfiniBand"),)
    assert isinstance(port_down.check(node, RdmaDevice("mlx5_0")), Failed)


def test_a_port_that_is_active_passes():
    node = node_of(
        IBSTAT.format("Active", "LinkUp") + STATUS.format("DOWN", "").replace("1: DOWN", "4: ACTIVE")
    )

    assert isinstance(port_down.check(node, RdmaDevice("mlx5_0")), Passed)
    assert rdma_devices(node)[0].node_guid == "a088:c203:00ba:df10"


def test_two_states_of_one_port_are_a_contradiction():
    host = PastedHost(IBSTAT.format("Active", "LinkUp") + STATUS.format("DOWN", "Polling"))

    assert "sys/class/infiniband/mlx5_0/ports/1/state" in dict(host.contradicted())


def test_links_and_ibdev2netdev_show_where_a_device_is():
    node = node_of(
        "$ ls -l /sys/class/infiniband\n"
        "lrwxrwxrwx 1 root root 0 Nov 28 10:00 mlx5_0 -> ../../devices/pci0000:15/0000:15:01.0/0000:18:00.0"
        "/infiniband/mlx5_0\n"
        "$ ibdev2netdev -v\n"
        "0000:19:00.1 mlx5_1 (MT4129 - MCX755106AS-HEAT) CX7 fw 28.40 port 1 (ACTIVE) ==> ib0 (Up)\n$ true\n"
    )

    assert [device.pci_address for device in rdma_devices(node)] == ["0000:18:00.0", "0000:19:00.1"]


def test_show_gids_lists_the_addresses_of_a_port():
    row = "mlx5_0\t1\t3\t0000:0000:0000:0000:0000:ffff:0a00:0001\t10.0.0.1  \tv2\tens1np0\n"

    assert gids(node_of(f"$ show_gids\nDEV\tPORT\tINDEX\tGID\n{row}"), "mlx5_0", 1) == (
        (3, "0000:0000:0000:0000:0000:ffff:0a00:0001", "RoCE v2"),
    )


LINK = "$ rdma link\nlink mlx5_7/1 state {} physical_state {}\n"


def test_a_port_that_was_down_and_is_active_may_be_flapping():
    flapping = explained(LINK.format("DOWN", "POLLING") + LINK.format("ACTIVE", "LINK_UP"))
    failed_later = explained(LINK.format("ACTIVE", "LINK_UP") + LINK.format("DOWN", "POLLING"))
    two = explained(
        LINK.format("DOWN", "POLLING") + LINK.format("ACTIVE", "LINK_UP").replace("mlx5_7", "mlx5_8")
    )

    assert flapping.answer.cause == "port-down"
    assert (failed_later.answer.cause, two.answer.cause) == (None, None)


# -- the whole machine ---------------------------------------------------------------------------------

LSPCI = """root@n1:~# uname -r
6.8.0-45-generic
root@n1:~# lspci -nnvvv
00:00.0 Host bridge [0600]: Intel Corporation Device [8086:3456]
\tControl: I/O- Mem+
15:01.0 PCI bridge [0604]: Intel Corporation Device [8086:352a]
\tBus: primary=15, secondary=1b, subordinate=1b
1b:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev a1)
\tRegion 2: Memory at 202000000000 (64-bit, prefetchable) [size=128G]
\t\tBAR 2: current size: 128GB, supported: 64MB 128MB 256MB
\tKernel driver in use: nvidia
"""
NONE = "root@n1:~# ibv_devinfo\nNo IB devices found\nroot@n1:~# \n"


def test_a_machine_that_is_listed_whole_lacks_what_is_not_listed():
    assert explained(LSPCI + NONE).answer.cause == "no-rdma-device"


@pytest.mark.parametrize(
    "text",
    [
        LSPCI + NONE.removesuffix("root@n1:~# \n").replace("No IB devices found", ""),
        LSPCI.replace("lspci -nnvvv", "lspci -nnvvv -s 1b:00.0") + NONE,
        LSPCI.replace("lspci -nnvvv", "lspci -nnvvv | grep -A9 NVIDIA") + NONE,
        LSPCI,
    ],
)
def test_an_excerpt_is_not_a_whole_machine(text):
    assert not PastedHost(text).whole
    assert explained(text).answer.cause is None


def test_a_line_of_a_gpu_that_reads_like_prose_belongs_to_it():
    host = PastedHost(LSPCI)

    assert {line.kind for line in host.lines} == {"typed", "machine"}


def test_lspcis_flags_report_no_failure():
    text = LSPCI.replace(
        "\t\tBAR 2", "\t\t\t10BitTagComp- 10BitTagReq- OBFF Not Supported, ExtFmt-\n\t\tBAR 2"
    )

    assert not any("OBFF" in line.text for line in explained(text).answer.lines)


def test_a_whole_lsmod_shows_what_is_not_loaded():
    text = "$ lsmod\nModule  Size  Used by\nib_core 512000 1 ib_uverbs\nib_uverbs 200704 0\n$ uname -r\n"
    host = PastedHost(text)

    assert host.exists("sys/module/ib_core/initstate")
    assert not host.exists("sys/module/nvidia/initstate")
    with pytest.raises(EvidenceMissing):
        PastedHost(text.replace("lsmod\n", "lsmod | grep ib_\n")).exists("sys/module/nvidia/initstate")
