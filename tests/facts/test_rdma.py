"""RDMA devices, ports and distances."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing
from gdrkit.facts import rdma, verbs_text
from gdrkit.facts.rdma import Pair, RdmaDevice, RdmaPort
from gdrkit.formats.errors import FormatError
from gdrkit.node import Node
from tests.facts.test_nvidia_smi import MATRIX, TWO
from tests.hardware import SERVER, SMI, SPARK, machine
from tests.memory_host import MemoryHost

DEVINFO = """\
hca_id:\tmlx5_0
\ttransport:\t\t\tInfiniBand (0)
\tfw_ver:\t\t\t\t28.39.1002
\tnode_guid:\t\t\ta088:c203:00e1:1234
\tsys_image_guid:\t\t\ta088:c203:00e1:1230
\tvendor_id:\t\t\t0x02c9
\tboard_id:\t\t\tMT_0000000838
\tphys_port_cnt:\t\t\t1
\t\tport:\t1
\t\t\tstate:\t\t\tPORT_ACTIVE (4)
\t\t\tmax_mtu:\t\t4096 (5)
\t\t\tactive_width:\t\t4X (2)
\t\t\tactive_speed:\t\t100.0 Gbps (128)
\t\t\tphys_state:\t\tLINK_UP (5)
\t\t\tlink_layer:\t\tInfiniBand
\t\t\tGID[  0]:\t\tfe80:0000:0000:0000:a088:c203:00e1:1234

hca_id:\trxe0
\ttransport:\t\t\tInfiniBand (0)
\t\tport:\t1
\t\t\tstate:\t\t\tPORT_DOWN (1)
\t\t\tactive_width:\t\t1X (1)
\t\t\tactive_speed:\t\t2.5 Gbps (1)
"""
IBV = ("ibv_devinfo", "-v")


def test_a_device_has_its_pci_address_and_board():
    (device,) = rdma.rdma_devices(machine(SERVER.replace("mlx5_0", "mlx5_0 guid=a088c2030012ab00")))

    assert (device.name, device.pci_address, device.driver) == ("mlx5_0", "0000:18:00.0", "mlx5_core")
    assert (device.board_id, device.firmware) == ("MT_0000000838", "28.43.2026")
    assert device.sys_image_guid == "a088:c203:0012:ab00"
    assert not device.virtual


@pytest.mark.parametrize("name", ["rxe0", "siw_eth0"])
def test_a_software_device_has_no_pci_address(name):
    folder = f"sys/devices/virtual/infiniband/{name}"
    node = Node(
        MemoryHost(
            {f"{folder}/node_guid": "0200:00ff:fe00:0001\n"},
            links={f"sys/class/infiniband/{name}": f"../../devices/virtual/infiniband/{name}"},
            complete=True,
        )
    )

    (device,) = rdma.rdma_devices(node)
    assert device.virtual and not device.pci_address
    assert rdma.nics(node) == ()
    with pytest.raises(EvidenceAbsent):
        rdma.nic_address(node, name)


def test_no_folder_means_no_device_only_where_it_was_looked_for():
    assert rdma.rdma_devices(Node(MemoryHost(complete=True))) == ()
    with pytest.raises(EvidenceMissing):
        rdma.rdma_devices(Node(MemoryHost()))


def test_ibv_devinfo_is_used_where_sysfs_was_not_copied():
    node = Node(MemoryHost(commands={IBV: DEVINFO}))
    first, second = rdma.rdma_devices(node)

    assert first == RdmaDevice(
        "mlx5_0",
        board_id="MT_0000000838",
        firmware="28.39.1002",
        node_guid="a088:c203:00e1:1234",
        sys_image_guid="a088:c203:00e1:1230",
    )
    assert second.virtual
    assert rdma.ports(node, "mlx5_0") == (RdmaPort("mlx5_0", 1, "ACTIVE", "LINK_UP", 400.0, "InfiniBand"),)
    with pytest.raises(EvidenceMissing) as caught:
        rdma.nic_address(node, "mlx5_0")
    assert not isinstance(caught.value, EvidenceAbsent)


def test_ibv_devinfo_can_report_that_there_is_none():
    assert verbs_text.parse("No IB devices found\n") == ()
    for text in ("", "ibv_devinfo: command not found", DEVINFO[: DEVINFO.index("active_width")]):
        with pytest.raises(FormatError):
            verbs_text.parse(text)


@given(st.text(alphabet="hca_id:portsevwdG \t\n0123456789.X", max_size=200))
def test_any_devinfo_gives_devices_or_a_format_error(text):
    with contextlib.suppress(FormatError):
        verbs_text.parse(text)


def test_ports_of_a_spark():
    node = machine(SPARK)

    assert rdma.ports(node, "rocep1s0f1") == (
        RdmaPort("rocep1s0f1", 1, "ACTIVE", "LinkUp", 200.0, "Ethernet"),
    )
    (down,) = rdma.ports(node, "rocep1s0f0")
    assert (down.state, down.rate_gbit_per_s) == ("DOWN", 40.0)
    assert rdma.netdev(node, "rocep1s0f1", 1) == "enp1s0f1np1"
    assert rdma.phys_port_name(node, "rocep1s0f1", 1) == "p1"
    assert {kind for _, _, kind in rdma.gids(node, "rocep1s0f1", 1)} == {"IB/RoCE v1", "RoCE v2"}
    assert rdma.character_device(node, "rocep1s0f1") == "dev/infiniband/uverbs1"


@pytest.mark.parametrize("text", ["", "ACTIVE", "4:ACTIVE", "four: ACTIVE", "4: "])
def test_an_invalid_state_is_garbled(text):
    with pytest.raises(FormatError):
        rdma.parse_state(text)


@pytest.mark.parametrize(
    ("text", "rate"),
    [("400 Gb/sec (4X NDR)\n", 400.0), ("2.5 Gb/sec (1X SDR)\n", 2.5), ("56 Gb/sec (4X FDR)", 56)],
)
def test_rates_are_in_gigabits(text, rate):
    assert rdma.parse_rate(text) == rate


def test_an_invalid_rate_is_garbled():
    with pytest.raises(FormatError):
        rdma.parse_rate("Invalid argument")


TREE = """
0000:15:01.0 spr-root numa=0
  0000:16:00.0 pex89-up
    0000:17:00.0 pex89-down
      0000:1b:00.0 h100-sxm numa=0
    0000:17:01.0 pex89-down
      0000:18:00.0 cx7-ib rdma=mlx5_0 numa=0
    0000:17:02.0 pex89-down
      0000:20:00.0 pex88-up
        0000:21:00.0 pex88-down
          0000:22:00.0 cx6-ib rdma=mlx5_1 numa=0
0000:15:02.0 spr-root numa=0
  0000:30:00.0 cx7-ib rdma=mlx5_2 numa=0
0000:40:01.0 spr-root numa=0
  0000:41:00.0 cx7-ib rdma=mlx5_3 numa=0
0000:80:01.0 spr-root numa=1
  0000:81:00.0 cx7-ib rdma=mlx5_4 numa=1
"""


@pytest.mark.parametrize(
    ("device", "distance"),
    [
        ("mlx5_0", "PIX"),
        ("mlx5_1", "PXB"),
        ("mlx5_2", "PHB"),
        ("mlx5_3", "NODE"),
        ("mlx5_4", "SYS"),
    ],
)
def test_distances_are_those_of_nvidia_smi(device, distance):
    assert rdma.distance(machine(TREE), Pair("0000:1b:00.0", device)) == distance


def test_a_distance_is_not_guessed_without_numa_nodes():
    node = machine(SPARK)
    pair = Pair("000f:01:00.0", "rocep1s0f1")

    with pytest.raises(EvidenceMissing):
        rdma.distance(node, pair)
    single = machine(SPARK, files={"sys/devices/system/node/online": "0\n"})
    assert rdma.distance(single, pair) == "NODE"


def test_nvidia_smi_shows_distances_where_paths_were_not_collected():
    node = Node(MemoryHost(commands={SMI: TWO, IBV: DEVINFO, ("nvidia-smi", "topo", "-m"): MATRIX}))

    assert rdma.distance(node, Pair("0000:00:06.0", "mlx5_0")) == "PIX"
    assert rdma.distance(node, Pair("0000:00:07.0", "mlx5_0")) == "SYS"
    with pytest.raises(EvidenceMissing):
        rdma.distance(node, Pair("0000:00:07.0", "rxe0"))


def test_pairs_are_every_gpu_with_every_device():
    assert rdma.pairs(machine()) == (Pair("0000:1b:00.0", "mlx5_0"),)
    assert len(rdma.pairs(machine(SPARK))) == 4
    assert rdma.pairs(machine("0000:15:01.0 spr-root\n")) == ()
    with pytest.raises(EvidenceMissing):
        rdma.pairs(machine(without=("sys/class/infiniband",)))
