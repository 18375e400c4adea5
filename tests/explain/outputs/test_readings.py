"""Listings of ports and distances open a cause where all that they show is down, or far."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.explain.lines.transcript import read
from gdrkit.explain.outputs.readings import port_states, readings
from tests.explain.explaining import explained

IBSTAT = """$ ibstat
CA 'mlx5_0'
\tCA type: MT4129
\tNumber of ports: 1
\tPort 1:
\t\tState: {}
\t\tPhysical state: Polling
\t\tRate: 40
"""
IBSTATUS = """$ ibstatus
Infiniband device 'mlx5_0' port 1 status:
\tdefault gid:\t fe80:0000:0000:0000:0000:0000:0000:0001
\tstate:\t\t {}
\tphys state:\t 3: Disabled
"""
DEVINFO = """$ ibv_devinfo
hca_id:\tmlx5_0
\ttransport:\t\tInfiniBand (0)
\t\tport:\t1
\t\t\tstate:\t\t\t{} (1)
"""
NETDEV = "$ ibdev2netdev\nmlx5_0 port 1 ==> ens1f0np0 ({})\n"
NETDEV_V = "$ ibdev2netdev -v\n0000:1b:00.0 mlx5_0 (MT4129 - x) CX7 fw 28.40 port 1 ({}) ==> ib0 (Down)\n"
LINK = "$ rdma link\nlink mlx5_0/1 state {} physical_state DISABLED netdev ens1f0np0\n"
DOWN = [
    IBSTAT.format("Down"),
    IBSTATUS.format("1: DOWN"),
    DEVINFO.format("PORT_DOWN"),
    NETDEV.format("Down"),
    NETDEV_V.format("DOWN"),
    LINK.format("DOWN"),
]
UP = [
    IBSTAT.format("Active"),
    IBSTATUS.format("4: ACTIVE"),
    DEVINFO.format("PORT_ACTIVE"),
    NETDEV.format("Up"),
    NETDEV_V.format("ACTIVE"),
    LINK.format("ACTIVE"),
]


def opened(text: str) -> list[str]:
    return [code for found in readings(read(text)) for code in found.codes]


@pytest.mark.parametrize(
    ("text", "state"), [*((one, "down") for one in DOWN), *((one, "active") for one in UP)]
)
def test_the_state_of_a_port_is_read_from_every_tool(text, state):
    assert [(port.device, port.state) for port in port_states(read(text))] == [("mlx5_0", state)]


@pytest.mark.parametrize("text", DOWN)
def test_a_listing_without_a_port_that_is_up_opens_port_down(text):
    (machine,) = explained(text).machines

    assert [line.codes for line in machine.open] == [("port-down",)]
    assert "mlx5_0 (down)" in machine.open[0].note


@pytest.mark.parametrize("text", UP)
def test_a_second_port_that_is_down_is_normal(text):
    assert opened(text + IBSTAT.format("Down").replace("mlx5_0", "mlx5_1")) == []


def test_a_port_without_a_subnet_manager_is_not_up():
    assert opened(IBSTAT.format("Initializing")) == ["port-down"]


@pytest.mark.parametrize(
    "listed",
    [
        "$ nvidia-smi -L\nGPU 0: NVIDIA A30-8C (UUID: GPU-1)\n",
        "$ nvidia-smi -q\nGPU 00000000:02:00.0\n    Product Name                    : GRID A100-1-5C\n",
        "|   0  NVIDIA L40S-48Q         On  |   00000000:02:00.0 Off |                    0 |\n",
    ],
)
def test_the_name_of_a_vgpu_opens_its_cause(listed):
    (machine,) = explained(listed).machines

    assert [line.codes for line in machine.open] == [("gpu-vgpu",)]


@pytest.mark.parametrize("name", ["Tesla V100-SXM2-32GB", "NVIDIA H100 80GB HBM3", "NVIDIA A100-PCIE-40GB"])
def test_a_whole_gpu_is_no_vgpu(name):
    assert opened(f"$ nvidia-smi -L\nGPU 0: {name} (UUID: GPU-1)\n$ date\n") == []


GIDS = """$ show_gids
DEV     PORT    INDEX   GID                                     IPv4            VER     DEV
---     ----    -----   ---                                     ------------    ---     ---
mlx5_0  1       0       fe80:0000:0000:0000:0a00:27ff:fe00:0001                 v1      ens1
mlx5_0  1       1       fe80:0000:0000:0000:0a00:27ff:fe00:0001                 v2      ens1
mlx5_0  1       2       0000:0000:0000:0000:0000:ffff:0a00:0001 10.0.0.1        v1      ens1
mlx5_0  1       3       0000:0000:0000:0000:0000:ffff:0a00:0001 10.0.0.1        v2      ens1
n_gids_found=4
"""
PRINTED = "h1:1:2 [0] NCCL INFO NCCL_IB_GID_INDEX set by environment to {}.\n"
GIVEN = "$ mpirun -x NCCL_IB_GID_INDEX={} ./all_reduce_perf\n"


@pytest.mark.parametrize("setting", [PRINTED, GIVEN])
@pytest.mark.parametrize(("index", "codes"), [(7, ["gid-index-wrong"]), (2, ["gid-index-wrong"]), (3, [])])
def test_a_gid_index_that_the_nic_does_not_have_opens_its_cause(setting, index, codes):
    assert opened(GIDS + setting.format(index)) == codes


def test_an_index_of_roce_v1_is_a_state_beside_addresses_of_v2_alone():
    """Between hosts of one subnet that all use it, RoCE v1 works."""
    text = GIDS + GIVEN.format(2)
    answer = explained(text).answer
    assert (answer.kind, answer.sureness, answer.cause) == ("several", "possible", None)
    assert [other.code for other in answer.others] == ["gid-index-wrong"]
    assert opened(text.replace(" v2 ", " v1 ")) == []


PERFTEST = """$ ib_read_bw -d mlx5_2 192.0.2.7
 GID index       : 2
 local address: LID 0000 QPN 0x0113 PSN 0x7f1a20
 GID: {gid}
{end}
"""


@pytest.mark.parametrize(
    ("gid", "end", "codes"),
    [
        (":".join(["00"] * 16), "Failed to modify QP 275 to RTR", ["gid-index-wrong"]),
        (":".join(["00"] * 16), " 65536      1000             10.41              10.40", []),
        ("00:00:00:00:00:00:00:00:00:00:255:255:192:00:02:07", "Failed to modify QP 275 to RTR", []),
    ],
)
def test_an_empty_gid_opens_its_cause_if_the_connection_then_fails(gid, end, codes):
    assert opened(PERFTEST.format(gid=gid, end=end)) == codes


GID_FE80, GID_V4 = "fe80:0000:0000:0000:0ac0:ebff:feda:1cfb", "0000:0000:0000:0000:0000:ffff:c800:d106"
SHOWN_GIDS = f"""$ ibv_devinfo -d mlx5_bond_0 -v | grep GID
\t\t\tGID[  0]:\t\t{GID_FE80}, RoCE v1
\t\t\tGID[  1]:\t\tfe80::ac0:ebff:feda:1cfb, RoCE v2
\t\t\tGID[  2]:\t\t{GID_V4}, RoCE v1
\t\t\tGID[  3]:\t\t::ffff:200.0.209.6, RoCE v2
"""


@pytest.mark.parametrize(
    ("index", "shown", "codes"),
    [
        (1, SHOWN_GIDS, ["gid-index-wrong"]),
        (3, SHOWN_GIDS, []),
        (9, SHOWN_GIDS, ["gid-index-wrong"]),
        (1, "".join(SHOWN_GIDS.splitlines(keepends=True)[:3]), []),  # the port has no other address
        (1, SHOWN_GIDS.replace("-d mlx5_bond_0 ", ""), []),  # of which device, the excerpt does not show
    ],
    ids=["link-local", "routed", "empty", "no other", "no device"],
)
def test_a_gid_index_of_an_address_of_one_link_opens_its_cause_beside_a_routed_one(index, shown, codes):
    """NVIDIA/nccl issue 769: with index 1 the connection timed out, with 3 it worked."""
    assert opened(f"$ export NCCL_IB_GID_INDEX={index}\n{shown}") == codes


def test_a_list_of_gids_without_a_setting_opens_nothing():
    assert opened(GIDS + "What about NCCL_IB_GID_INDEX=7 then?\n") == []


IP_LINK = "$ ip link\n5: enp1s0f1np1: <{}> mtu 1500 qdisc mq state UP mode DEFAULT group default qlen 1000\n"
IFCONFIG = "$ ifconfig\nenp1s0f1np1: flags=4099<{}>  mtu 9000\n"


@pytest.mark.parametrize(
    ("text", "state"),
    [
        (IP_LINK.format("BROADCAST,MULTICAST,UP,LOWER_UP"), "active"),
        (IP_LINK.format("NO-CARRIER,BROADCAST,MULTICAST,UP"), "down"),
        (IFCONFIG.format("UP,BROADCAST,RUNNING,MULTICAST"), "active"),
        (IFCONFIG.format("UP,BROADCAST,MULTICAST"), "down"),
    ],
)
def test_an_interface_that_is_up_without_a_link_is_down(text, state):
    assert [(port.device, port.state) for port in port_states(read(text))] == [("enp1s0f1np1", state)]


def test_an_interface_that_is_no_rdma_nic_of_its_name_says_nothing():
    assert not list(port_states(read("$ ip link\n2: eno1: <NO-CARRIER,BROADCAST,MULTICAST,UP> mtu 1500\n")))


@given(st.text(alphabet="CA mlx5_0'\n\tSstate: DOWNport1==>()GPUXSY0"))
def test_any_listing_can_be_read(text):
    tuple(readings(read(text)))


def test_ibstatus_without_its_command_is_output():
    text = "Infiniband device 'mlx5_0' port 1 status:\n\tstate:\t\t 1: DOWN\n\tphys state:\t 3: Disabled\n"
    assert explained(text).answer.cause == "port-down"
    assert explained(text.replace("1: DOWN", "4: ACTIVE")).answer.cause is None


def test_ulimit_prints_the_limit_of_locked_memory_alone():
    assert explained("$ ulimit -l\n8192\n$ ").answer.cause == "memlock-limit"
    assert explained("$ ulimit -l\nunlimited\n$ ").answer.cause is None
    assert explained("$ ulimit -n\n1024\n$ ").answer.cause is None


@pytest.mark.parametrize(
    ("capable", "status"),
    [
        ("LnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM L1", "Speed 16GT/s, Width x8"),
        ("", "Speed 8GT/s (downgraded), Width x4 (downgraded)"),
        ("LnkCap:\tPort #0, Speed 16GT/s, Width x16", "Speed 16GT/s (ok), Width x8 (downgraded)"),
    ],
)
def test_a_narrower_link_in_an_excerpt_may_be_degraded(capable: str, status: str):
    excerpt = f"\t\t{capable}\n\t\tLnkSta:\t{status}\n"
    answer = explained(excerpt).answer
    assert [one.code for one in answer.others] == ["link-narrower-than-port", "link-degraded"]


@pytest.mark.parametrize(
    "status",
    ["Speed 2.5GT/s (downgraded), Width x16 (ok)", "Speed 16GT/s, Width x16", "Speed 8GT/s, Width x16"],
)
def test_a_slow_link_of_a_device_that_is_not_shown_may_be_an_idle_gpu(status: str):
    excerpt = f"\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16\n\t\tLnkSta:\t{status}\n"
    assert explained(excerpt).answer.cause is None


def test_a_device_without_a_link_beside_others_is_named_and_no_cause():
    answer = explained(NETDEV.format("Down") + "mlx5_1 port 1 ==> ens2f0np0 (Up)\n").answer
    assert (answer.kind, answer.cause) == ("several", None)
    assert "no active port of mlx5_0" in answer.sentence
    assert [other.code for other in answer.others] == ["port-down"]
    two_ports = NETDEV.format("Down") + "mlx5_0 port 2 ==> ens1f1np1 (Up)\n"
    assert explained(two_ports).answer.kind == "no-problem"


RAIL = (
    "CA '{}'\n\tPort 1:\n\t\tState: {}\n\t\tPhysical state: {}\n\t\tRate: 400\n\t\tLink layer: InfiniBand\n"
)
ACTIVE = RAIL.format("mlx5_2", "Active", "LinkUp")


def test_a_port_in_init_has_a_link_and_waits_for_a_subnet_manager():
    found = explained(ACTIVE + RAIL.format("mlx5_3", "Initializing", "LinkUp"))
    assert "a link, but no active port, of mlx5_3" in found.answer.sentence
    assert "no subnet manager has set the port up. One has set up mlx5_2" in found.answer.now[0]
    assert "ports without a link" not in [fact.name for fact in found.machines[0].known]


def test_a_port_that_is_down_beside_active_ones_has_the_step_of_its_state():
    found = explained(ACTIVE + RAIL.format("mlx5_3", "Down", "Polling"))
    assert "no active port of mlx5_3" in found.answer.sentence
    (step,) = found.answer.now
    assert step.startswith("Port 1 of mlx5_3 is DOWN: in physical state Polling it looks for a partner")
    assert "`sudo mlxlink -d mlx5_3` says what is wrong" in step
    assert "ports without a link" in [fact.name for fact in found.machines[0].known]


def test_several_ports_that_are_not_active_are_all_named_each_with_its_step():
    bad = [
        ("mlx5_3", "Initializing", "LinkUp"),
        ("mlx5_4", "Down", "Polling"),
        ("mlx5_5", "Down", "Disabled"),
    ]
    answer = explained(ACTIVE + "".join(RAIL.format(*port) for port in bad)).answer
    assert (
        "a link, but no active port, of mlx5_3; no active port of mlx5_4, mlx5_5, beside" in answer.sentence
    )
    assert [step.split(":")[0] for step in answer.now] == [
        "- Port 1 of mlx5_3 is INIT",
        "- Port 1 of mlx5_4 is DOWN",
        "- Port 1 of mlx5_5 is DOWN",
    ]


def test_the_steps_of_a_port_alone_are_those_of_its_state():
    waits = explained(RAIL.format("mlx5_3", "Initializing", "LinkUp")).answer
    assert waits.cause == "port-down" and "opensm" in waits.now[0] and len(waits.now) == 1
    down = explained(RAIL.format("mlx5_3", "Down", "Polling")).answer
    assert down.cause == "port-down" and any("LINK_TYPE" in step for step in down.now)


def test_the_state_of_a_port_without_its_device_has_the_step_of_that_state():
    shown = "$ ibstat mlx5_3 | grep -E 'State|lid'\n\t\tState: {}\n\t\tBase lid: 65535\n\t\tSM lid: 0\n"
    waits = explained(shown.format("Initializing")).answer
    assert waits.cause == "port-down" and waits.now[0].startswith("On InfiniBand in state INIT")
    assert explained(shown.format("Active")).answer.cause is None


@pytest.mark.parametrize("other", ["PORT_DOWN (1)", "PORT_ACTIVE (4)"])
def test_a_port_that_waits_has_its_step_whatever_the_others_are(other: str):
    listed = "hca_id:\t{}\n\tport:\t1\n\t\tstate:\t\t{}\n\t\tmax_mtu:\t4096 (5)\n"
    states = (("mlx5_3", "PORT_INIT (2)"), ("mlx5_4", other), ("mlx5_5", "PORT_ACTIVE (4)"))
    found = explained("".join(listed.format(*one) for one in states)).answer
    assert found.now and "state INIT" in found.now[0]


CUT = "\t\tState: {}\n\t\tPhysical state: {}\n\t\tRate: {}\n"
CUT_DOWN, CUT_ACTIVE = CUT.format("Down", "Polling", 10), CUT.format("Active", "LinkUp", 400)


def said(*outputs: tuple[str, str]) -> str:
    found = explained("".join(f"[root@n1 ~]# {command}\n{output}" for command, output in outputs))
    facts = [fact.value for machine in found.machines for fact in machine.known]
    notes = [line.note for machine in found.machines for line in machine.open]
    return "\n".join([found.answer.sentence, *facts, *notes])


@pytest.mark.parametrize(
    "command",
    [
        "ibstat {} | grep -E 'State|Rate|state'",
        "sudo ibstat {} 1 | grep -i -e state -e rate",
        "ssh n1 ibstatus {} | grep -i -e state -e rate",
        "ibv_devinfo -v -d {} | grep -i -e state -e rate",
    ],
)
def test_the_state_of_a_port_is_of_the_device_that_the_command_names(command: str):
    whole = ("ibstat mlx5_2", f"CA 'mlx5_2'\n\tNumber of ports: 1\n\tPort 1:\n{CUT_DOWN}")
    for first in (whole, (command.format("mlx5_2"), CUT_DOWN)):
        words = said(first, (command.format("mlx5_0"), CUT_ACTIVE))
        assert "no active port of mlx5_2" in words and "active ports of mlx5_0" in words
        assert "flapping" not in words and "no problem" not in words


def test_a_port_that_is_down_and_later_active_may_flap_if_both_commands_name_it():
    command = "ibstat mlx5_0 | grep -E 'State|Rate|state'"
    assert "mlx5_0 was down, and is active in line 6: its link may be flapping" in said(
        (command, CUT_DOWN), (command, CUT_ACTIVE)
    )


@pytest.mark.parametrize(
    "command",
    [
        "for i in 0 1; do ibstat mlx5_$i | grep tate; done",
        "ibstat | grep tate",
        "ibstat mlx5_0; ibstat mlx5_1",
    ],
)
def test_ports_without_a_device_are_not_taken_for_one_another(command: str):
    words = said((command, CUT_ACTIVE), (command, CUT_DOWN))
    assert "no active port of an unnamed device" in words
    assert "flapping" not in words and "no problem" not in words


POLLING = (
    "$ ibstat\nCA 'mlx5_0'\n\tCA type: MT4115\n\tNumber of ports: 1\n\tPort 1:\n\t\tState: Down\n"
    "\t\tPhysical state: {}\n\t\tRate: 10\n\t\tLink layer: {}\n"
)


def test_a_port_of_infiniband_that_polls_may_have_a_partner_of_ethernet():
    steps = explained(POLLING.format("Polling", "InfiniBand")).answer.now
    assert "none answers" in steps[0] and "LINK_TYPE_P1=2" in steps[0]
    for other in (POLLING.format("Disabled", "InfiniBand"), POLLING.format("Polling", "Ethernet")):
        assert "none answers" not in explained(other).answer.now[0]
    fabric = POLLING.replace("mlx5_0", "mlx5_1").replace("Down", "Active").format("LinkUp", "InfiniBand")
    beside = explained(fabric + POLLING.format("Polling", "InfiniBand").removeprefix("$ ibstat\n")).answer
    assert "LINK_TYPE" not in " ".join(beside.now), "a fabric of InfiniBand is there"
