"""NCCL's decision on GPUDirect RDMA in each direction, and its reasons."""

import pytest

from gdrkit.evidence.target import open_host
from gdrkit.fabric.nccl.gdr_check import Condition, check
from gdrkit.fabric.nccl.gdr_decision import GdrEvidence, decide
from gdrkit.fabric.nccl.nic import GpuEvidence, NicEvidence, dmabuf, peermem, unused
from gdrkit.fabric.nccl.settings import settings
from gdrkit.fabric.nccl.view import view
from gdrkit.fabric.topology.from_node import topology
from gdrkit.fabric.topology.saved import SavedTopology
from gdrkit.node import Node
from gdrkit.programs.nccl.releases import release
from tests.evidence_nodes import build
from tests.fabric.nccl.nccl_topologies import (
    FAR,
    NEAR,
    SUPERCHIP,
    computed,
    cpu,
    gpu,
    net,
    nic,
    switch,
    system_xml,
)


def decision(root, version="2.28.9", environment=None, *, sends=False, rank=0, evidence=None):
    system, gpus, nets, given = computed(root, version, environment)
    return decide(system, gpus[rank], nets[0], sends, given, evidence)


def refusal(root, version="2.28.9", environment=None, **more):
    """The condition that does not hold; None if GPUDirect RDMA is used."""
    found = decision(root, version, environment, **more)
    return found.because.condition if found.direct is False else None


@pytest.mark.parametrize("sends", [False, True])
def test_a_pair_below_one_switch_uses_gpudirect_rdma(sends):
    found = decision(NEAR, sends=sends)
    assert (found.direct, found.mode, found.because) == (True, "Default", None)
    assert [reason.condition for reason in found.reasons][-1] is Condition.DISTANCE
    assert all(reason.source.startswith("src/") for reason in found.reasons)


def test_a_pair_across_the_cpu_uses_gpudirect_rdma_only_if_configured():
    assert refusal(FAR) is Condition.DISTANCE
    assert decision(FAR).because.seen == "PHB is farther than PXB"
    assert refusal(FAR, environment={"NCCL_NET_GDR_LEVEL": "PHB"}) is None
    assert refusal(FAR, environment={"NCCL_NET_GDR_LEVEL": "phb"}) is Condition.DISTANCE


@pytest.mark.parametrize("version", ["2.29.2", "2.30.7"])
def test_p2c_is_named_only_with_c2c_or_if_it_was_configured(version):
    assert decision(FAR, version).because.seen == "PHB is farther than PXB"
    configured = {"NCCL_NET_GDR_LEVEL": "P2C"}
    assert decision(FAR, version, configured).because.seen == "PHB is farther than P2C"
    assert decision(SUPERCHIP, version).reasons[-1].seen == "P2C is within P2C"


@pytest.mark.parametrize(
    ("value", "direct"),
    [("3", True), ("5", True), ("9", True), ("010", True), ("2", False), ("0x3", True), ("0x2", False),
     ("ALL", False), ("NODE", False), ("SYS ", False), ("", False), ("SYS", True)],
)  # fmt: skip
def test_levels_as_nccl_parses_them(value, direct):
    assert (refusal(FAR, environment={"NCCL_NET_GDR_LEVEL": value}) is None) is direct


def test_level_loc_refuses_everything():
    assert refusal(NEAR, environment={"NCCL_NET_GDR_LEVEL": "LOC"}) is Condition.DISTANCE
    assert refusal(NEAR, environment={"NCCL_NET_GDR_LEVEL": "0"}) is Condition.DISTANCE


def test_no_level_helps_a_side_without_support():
    nic_side = system_xml(cpu(0, switch("10", gpu("18"), nic("19", net(0, gdr=0)))))
    gpu_side = system_xml(cpu(0, switch("10", gpu("18", gdr=0), nic("19", net(0)))))
    assert refusal(nic_side, environment={"NCCL_NET_GDR_LEVEL": "SYS"}) is Condition.NIC
    assert refusal(gpu_side, environment={"NCCL_NET_GDR_LEVEL": "SYS"}) is Condition.GPU


def pair_of_gpus(sm, *, linked=False):
    def one(bus, rank, other):
        link = f'<nvlink target="0000:{other}:00.0" count="4" tclass="0x030200"/>' if linked else ""
        return gpu(bus, rank, sm=sm, inside=link)

    return system_xml(cpu(0, switch("10", one("18", 0, "21"), one("21", 1, "18"), nic("19", net(0)))))


def test_sending_needs_nvlink_before_ampere_and_always_before_2_19():
    pair = pair_of_gpus
    assert refusal(pair(70), sends=True) is Condition.READ
    assert refusal(pair(70), sends=False) is None
    assert refusal(pair(70, linked=True), sends=True) is None
    assert refusal(pair(80), sends=True) is None
    assert refusal(pair(80), "2.18.6", sends=True) is Condition.READ
    assert refusal(pair(70), environment={"NCCL_NET_GDR_READ": "1"}, sends=True) is None
    assert refusal(pair(90), environment={"NCCL_NET_GDR_READ": "0"}, sends=True) is Condition.READ
    assert refusal(pair(90), environment={"NCCL_NET_GDR_READ": "no"}, sends=True) is Condition.READ


@pytest.mark.parametrize(
    ("version", "environment", "direct"),
    [
        ("2.25.1", {}, False),
        ("2.25.1", {"NCCL_NET_GDR_LEVEL": "SYS"}, True),
        ("2.26.2", {}, False),
        ("2.26.2", {"NCCL_NET_GDR_C2C": "1"}, True),
        ("2.27.3", {}, True),
        (
            "2.28.9",
            {"NCCL_NET_GDR_LEVEL": "PXB"},
            True,
        ),  # C2C counts as nearer
        ("2.28.9", {"NCCL_NET_GDR_LEVEL": "NVB"}, False),
        ("2.29.2", {}, True),
        ("2.29.2", {"NCCL_NET_GDR_LEVEL": "PXB"}, False),
        ("2.29.2", {"NCCL_NET_GDR_C2C": "0"}, False),
        ("2.30.7", {"NCCL_NET_GDR_LEVEL": "P2C"}, True),
    ],
)
def test_superchips(version, environment, direct):
    assert (refusal(SUPERCHIP, version, environment) is None) is direct


def test_a_nic_near_a_superchips_gpu_is_mapped_over_pcie():
    below = switch("10", gpu("18", inside='<c2c bw="44712" count="10"/>'), nic("19", net(0)))
    root = system_xml(cpu(0, below, arch="arm64", vendor=""))
    assert decision(root, "2.28.9").mode == "PCI"
    assert decision(SUPERCHIP, "2.26.2", {"NCCL_NET_GDR_LEVEL": "SYS"}).mode == "PCI"
    assert decision(SUPERCHIP, "2.25.1", {"NCCL_NET_GDR_LEVEL": "SYS"}).mode == "Default"


def test_a_proxy_is_named_with_its_distance():
    link = '<nvlink target="fffffff:ff:ff.0" count="18" tclass="0x068000"/>'
    near = switch("10", gpu("18", 0, inside=link), nic("19", net(0)))
    root = system_xml(cpu(0, near, gpu("20", 1, inside=link)))
    found = decision(root, sends=True, rank=1)
    assert found.direct
    assert found.via.rank == 0
    assert "which sends instead" in found.reasons[-1].seen


# -- sides that the topology does not state ------------------------------------------------------------

BOTH = GpuEvidence(gdr=True, dmabuf=True, cuda="12.4")


def evidence(files=frozenset(), probes=None, on_gpu=BOTH):
    nics = NicEvidence(files, {"mlx5_0": True} if probes is None else probes)
    return GdrEvidence(nics, on_gpu, file_says_nic=False, file_says_gpu=False)


def test_dmabuf_takes_precedence_over_peermem():
    both = evidence(frozenset({"sys/module/nvidia_peermem/version"}))
    assert decision(NEAR, evidence=both).mechanism == "dmabuf"
    assert decision(NEAR, environment={"NCCL_DMABUF_ENABLE": "0"}, evidence=both).mechanism == "peermem"


def test_evidence_that_was_not_collected_is_not_a_refusal():
    found = decision(NEAR, evidence=evidence(files=None, probes={}))
    assert found.direct is None
    assert found.because.condition is Condition.NIC
    assert "not collected" in found.because.seen
    assert decision(FAR, evidence=evidence(files=None, probes={})).direct is False  # too far in any case


def test_an_old_nccl_tests_another_file_and_misses_peermem():
    loaded = NicEvidence(frozenset({"sys/module/nvidia_peermem/version"}))
    assert peermem(release("2.22.3"), loaded).works is False
    assert peermem(release("2.23.4"), loaded).works is True
    assert peermem(release("2.23.4"), NicEvidence()).works is None


def test_before_2_23_the_first_device_counts_for_all():
    nics = NicEvidence(frozenset(), {"rxe0": False, "mlx5_0": True})
    given = settings(release("2.22.3"), {})
    assert dmabuf(release("2.22.3"), given, "mlx5_0", nics, BOTH).works is False
    assert dmabuf(release("2.23.4"), given, "mlx5_0", nics, BOTH).works is True


@pytest.mark.parametrize(
    ("on_gpu", "works"),
    [(GpuEvidence(True, False, "12.4"), False), (GpuEvidence(True, True, "11.6"), False),
     (GpuEvidence(True, None), None), (BOTH, True)],
)  # fmt: skip
def test_dmabuf_needs_the_gpus_driver_too(on_gpu, works):
    rules = release("2.28.9")
    nics = NicEvidence(frozenset(), {"mlx5_0": True})
    assert dmabuf(rules, settings(rules, {}), "mlx5_0", nics, on_gpu).works is works


@pytest.mark.parametrize(
    ("environment", "left_out"),
    [({}, ""), ({"NCCL_IB_DISABLE": "1"}, "NCCL_IB_DISABLE"), ({"NCCL_NET": "Socket"}, "NCCL_NET=Socket"),
     ({"NCCL_IB_HCA": "=mlx5_1"}, "NCCL_IB_HCA==mlx5_1"), ({"NCCL_IB_HCA": "mlx5_1"}, ""),
     ({"NCCL_IB_HCA": "^mlx5_1"}, "NCCL_IB_HCA=^mlx5_1"), ({"NCCL_IB_HCA": "^=mlx5_1"}, ""),
     ({"NCCL_IB_HCA": "mlx5_10:2"}, "NCCL_IB_HCA=mlx5_10:2")],
)  # fmt: skip
def test_variables_select_the_ports_that_are_used(environment, left_out):
    assert unused(settings(release("2.28.9"), environment), "mlx5_10", 1) == left_out


# -- settings without effect ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "name", "value", "why"),
    [
        ("2.28.9", "NCCL_NET_GDR_LEVEL", "ALL", "unrecognized"),
        ("2.26.2", "NCCL_NET_GDR_LEVEL", "P2C", "unrecognized"),
        ("2.25.1", "NCCL_NET_GDR_C2C", "1", "unknown before 2.26.2"),
        ("2.26.2", "NCCL_PXN_C2C", "1", "unknown before 2.27.3"),
        ("2.28.9", "NCCL_NET_GDR_READ", "yes", "read as 0"),
        ("2.28.9", "NCCL_NET_MERGE_LEVEL", "NONE", "counts as LOC"),
        ("2.28.9", "NCCL_NETDEVS_POLICY", "MAX:0", "AUTO applies"),
    ],
)
def test_settings_without_effect_are_listed(version, name, value, why):
    (ignored,) = settings(release(version), {name: value}).ignored
    assert (ignored.name, ignored.value) == (name, value)
    assert why in ignored.why


def test_valid_settings_are_not_listed():
    environment = {"NCCL_NET_GDR_LEVEL": "PHB", "NCCL_NET_GDR_READ": "1", "NCCL_P2P_DISABLE": "0"}
    given = settings(release("2.28.9"), environment)
    assert given.ignored == ()
    assert (given.gdr_level, given.gdr_read, given.p2p_level) == ("PHB", 1, None)


def test_the_check_agrees_with_the_decision():
    system, gpus, nets, given = computed(FAR)
    assert check(system, gpus[0], nets[0], False, given).refused_by is Condition.DISTANCE


# -- on whole nodes -------------------------------------------------------------------------------------


def directions(name, folder, environment):
    node = Node(open_host(str(build(name, folder))))
    seen = view(SavedTopology(topology(node, ask_driver=True), node=node), "2.28.9", environment)
    return {pair.receive for pair in seen.pairs.values() if pair.path == "PIX"}


def test_a_node_with_peermem_and_no_dmabuf_registers_by_peermem(tmp_path):
    found = directions("rhel-9-mofed", tmp_path, {"NCCL_DMABUF_ENABLE": "0"})
    assert {direction.mechanism for direction in found} == {"peermem"}


def test_a_node_without_peermem_is_refused_by_its_files(tmp_path):
    found = directions("peermem-blacklisted", tmp_path, {"NCCL_DMABUF_ENABLE": "0"})
    assert {direction.because for direction in found} == {"the NIC's side does not support it"}
    (seen,) = {direction.seen for direction in found}
    assert "NCCL_DMABUF_ENABLE=0" in seen
    assert "sys/module/nvidia_peermem/version" in seen
