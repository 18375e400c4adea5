"""ACS between GPU and NIC."""

import pytest

from gdrkit.evidence import MissingReason
from gdrkit.rules.acs_redirect import acs_redirect
from tests.evidence_builder.parts import PARTS
from tests.hardware import GUEST, SERVER, SPARK, machine
from tests.rules.hardware import failed, missing, not_applicable, outcomes, passed

GPU_PORT, NIC_PORT = "0000:17:00.0", "0000:17:01.0"


def switch(gpu_side="", nic_side="", root="", nic=""):
    return (
        SERVER.replace("spr-root", f"spr-root {root}")
        .replace("0000:17:00.0 pex89-down", f"0000:17:00.0 pex89-down {gpu_side}")
        .replace("0000:17:01.0 pex89-down", f"0000:17:01.0 pex89-down {nic_side}")
        .replace("cx7-ib", f"cx7-ib {nic}")
    )


@pytest.mark.parametrize(
    ("outline", "port", "seen"),
    [
        (switch(gpu_side="acs=RR,CR,UF"), GPU_PORT, "ACSCtl ReqRedir+"),
        (switch(nic_side="acs=RR"), NIC_PORT, "ACSCtl ReqRedir+"),
        (switch(nic_side="acs=SV,CR"), NIC_PORT, "ACSCtl CmpltRedir+"),
    ],
)
def test_a_port_that_redirects_is_named(outline, port, seen):
    found = failed(machine(outline), acs_redirect)

    assert (found.subject, found.seen) == (port, seen)


@pytest.mark.parametrize(
    "outline",
    [switch(), switch(root="acs=SV,RR,CR,UF"), switch(gpu_side="acs=SV", nic_side="acs=SV,TB")],
    ids=["all off", "on above the switch", "source validation alone"],
)
def test_bits_that_redirect_no_peer_traffic_pass(outline):
    passed(machine(outline), acs_redirect)


def test_translated_requests_of_a_nic_with_ats_go_direct():
    direct = switch(gpu_side="acs=RR,CR,UF,DT", nic_side="acs=RR,CR,UF,DT", nic="ats=on")

    passed(machine(direct), acs_redirect)
    failed(machine(direct.replace("ats=on", "ats=off")), acs_redirect)


def test_a_pair_without_a_common_switch_is_not_applicable():
    assert {type(o).__name__ for o in outcomes(machine(SPARK), acs_redirect)} == {"NotApplicable"}


def test_registers_that_only_root_may_read_are_unknown():
    found = missing(machine(root=False), acs_redirect)

    assert found.why is MissingReason.DENIED
    assert found.ask == f"sudo lspci -vvv -s {GPU_PORT}"


def test_a_port_that_redirects_outranks_an_unreadable_one():
    node = machine(switch(nic_side="acs=RR"))
    folder = "sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0"
    node.host.files[f"{folder}/config"] = node.host.files[f"{folder}/config"][:64]  # type: ignore[attr-defined]

    assert failed(node, acs_redirect).subject == NIC_PORT


def test_a_data_direct_layout_is_left_to_rdma_topo(monkeypatch):
    monkeypatch.setitem(PARTS, "direct", PARTS["cx7-eth"]._replace(ids="15b3:2100:15b3:0000"))
    outline = switch(gpu_side="acs=RR,CR,UF") + "      0000:18:00.1 direct\n"

    assert missing(machine(outline), acs_redirect).ask == "sudo rdma_topo check"


def test_two_functions_of_one_device_need_no_port():
    outline = "0000:15:01.0 spr-root acs=RR\n  0000:1b:00.0 h100-sxm\n  0000:1b:00.1 cx7-ib rdma=mlx5_0\n"
    not_applicable(machine(outline), acs_redirect)


def test_the_ports_that_a_virtual_machine_shows_decide_nothing():
    """They are its hypervisor's: those of its host send the traffic where they want."""
    guest = machine(switch(gpu_side="acs=RR,CR,UF"), files=GUEST)

    assert {type(o).__name__ for o in outcomes(guest, acs_redirect)} == {"NotApplicable"}
