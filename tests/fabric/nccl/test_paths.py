"""Path types, bandwidths and hops as NCCL computes them, version by version."""

import pytest

from gdrkit.fabric.nccl.graph import GPU, NcclSystem
from gdrkit.fabric.nccl.search import local_nets
from gdrkit.fabric.nccl.system import bus_id
from gdrkit.formats.errors import FormatError
from gdrkit.programs.nccl.releases import NEWEST, OLDEST, release
from tests.fabric.nccl.nccl_topologies import (
    FAR,
    NEAR,
    OTHER_SOCKET,
    SUPERCHIP,
    computed,
    cpu,
    gpu,
    net,
    nic,
    path,
    switch,
    system_xml,
)
from tests.work import steps

BROADCOM = 'vendor="0x1000" device="0xc010" subsystem_vendor="0x1000" subsystem_device="0xa096"'
GEN5_UPPER = 'vendor="0x1000" device="0xc030" subsystem_vendor="0x1000" subsystem_device="0x0001"'
GEN5_LOWER = 'vendor="0x1000" device="0xc030" subsystem_vendor="0x1000" subsystem_device="0x1004"'


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0000:1b:00.0", 0x1B000),
        ("0000:1B:00.0", 0x1B000),
        ("00000001:1b:00.0", 0x11B000),
        ("0000:1b:00.0 8", 0x1B000),  # it ends at the first other character
        ("0000:1b:00.x1", 0x1B00),
        ("x1b", 0),
        ("", 0),
    ],
)
def test_an_address_is_read_as_nccl_reads_it(text, number):
    assert bus_id(text) == number


NVSWITCH = '<nvlink target="fffffff:ff:ff.0" count="{}" tclass="0x068000"/>'


def test_below_one_switch_is_pix():
    assert path(NEAR) == ("PIX", 48.0, 3)


def test_through_the_cpu_is_phb_on_one_node_and_sys_between_two():
    assert path(FAR)[0] == "PHB"
    assert path(OTHER_SOCKET) == ("SYS", 22.0, 4)


def test_two_switches_are_pxb_unless_they_are_two_levels_of_one_broadcom():
    def nested(upper, lower):
        inside = switch("11", gpu("18"), ids=lower)
        return system_xml(cpu(0, switch("10", inside, nic("19", net(0)), ids=upper)))

    assert path(nested("", ""))[0] == "PXB"
    assert path(nested(BROADCOM, BROADCOM))[0] == "PIX"
    assert path(nested(GEN5_UPPER, GEN5_LOWER))[0] == "PIX"
    assert path(nested(GEN5_UPPER, GEN5_LOWER), "2.19.4")[0] == "PXB"  # Gen5 since 2.20.3
    assert path(nested(GEN5_UPPER, GEN5_UPPER))[0] == "PXB"  # the level is in the subsystem's number


@pytest.mark.parametrize(
    ("speed", "width", "bandwidth"),
    [
        ("32.0 GT/s PCIe", "16", 48.0),
        ("64.0 GT/s PCIe", "16", 50.0),  # the port is the limit
        ("16.0 GT/s PCIe", "8", 12.0),
        ("16 GT/s", "16", 24.0),  # kernels before 5.7
        ("16.0 GT/s", "16", 12.0),  # unknown without " PCIe": Gen3
        ("Unknown", "16", 12.0),
        ("", "0", 12.0),
        ("8.0 GT/s PCIe", "4", 3.0),
        ("2.5 GT/s PCIe", "1", 0.19),
    ],
)
def test_link_speeds_are_parsed_as_by_nccl(speed, width, bandwidth):
    link = f'link_speed="{speed}" link_width="{width}"'
    root = system_xml(cpu(0, switch("10", gpu("18", link='link_speed="64.0 GT/s PCIe" link_width="16"'),
                                    nic("19", net(0), link=link))))  # fmt: skip
    assert path(root)[1] == bandwidth


@pytest.mark.parametrize(
    ("version", "sm", "bandwidth"),
    [("2.19.4", 90, 360.0), ("2.20.3", 90, 370.8), ("2.24.3", 100, 370.8), ("2.25.1", 100, 720.0),
     ("2.27.5", 100, 721.8), ("2.28.9", 86, 216.0), ("2.28.9", 80, 360.0)],
)  # fmt: skip
def test_nvlink_by_generation_and_version(version, sm, bandwidth):
    link = NVSWITCH.format(18)
    root = system_xml(cpu(0, gpu("18", 0, sm=sm, inside=link), gpu("19", 1, sm=sm, inside=link)))
    system, gpus, _, _ = computed(root, version)
    found = gpus[0].paths[gpus[1]]
    assert system.rules.named(found.type) == "NVL"
    assert found.bandwidth == pytest.approx(bandwidth)


@pytest.mark.parametrize(
    ("version", "vendor", "model", "bandwidth"),
    [("2.25.1", "GenuineIntel", 0xCF, 10.0), ("2.26.2", "GenuineIntel", 0xCF, 40.0),
     ("2.26.2", "GenuineIntel", 0x8F, 22.0), ("2.26.2", "GenuineIntel", 0x4F, 6.0),
     ("2.18.6", "AuthenticAMD", 1, 48.0), ("2.19.1", "AuthenticAMD", 1, 16.0)],
)  # fmt: skip
def test_the_link_between_sockets(version, vendor, model, bandwidth):
    sides = {"vendor": vendor, "model": model}
    root = system_xml(cpu(0, gpu("18"), **sides), cpu(1, nic("99", net(0)), **sides))
    assert path(root, version)[1] == bandwidth


@pytest.mark.parametrize(
    ("version", "family", "bandwidth"),
    [("2.30.7", 26, 16.0), ("2.31.2", 23, 16.0), ("2.31.2", 25, 24.0), ("2.31.2", 26, 32.0),
     ("2.31.2", 0x8F, 16.0), ("2.31.2", 0xAF, 24.0), ("2.31.2", 0xBF, 32.0), ("2.31.2", 27, 16.0)],
)  # fmt: skip
def test_the_link_between_amds_sockets_by_family_since_2_31(version, family, bandwidth):
    sides = {"vendor": "AuthenticAMD", "family": family, "model": 1}
    root = system_xml(cpu(0, gpu("18"), **sides), cpu(1, nic("99", net(0)), **sides))
    assert path(root, version)[1] == bandwidth


def test_a_file_without_amds_family_is_refused_since_2_31():
    side = '<cpu numaid="0" affinity="ff" arch="x86_64" vendor="AuthenticAMD">{}</cpu>'
    root = system_xml(side.format(gpu("18") + nic("19", net(0))))

    assert path(root, "2.30.7")[0] == "PHB"
    with pytest.raises(FormatError, match="familyid"):
        path(root, "2.31.2")


@pytest.mark.parametrize("model", [0xAD, 0xAE, 0xAF])
def test_granite_rapids_is_newer_than_its_number_since_2_31(model):
    root = system_xml(cpu(0, gpu("18"), model=model), cpu(1, nic("99", net(0)), model=model))
    assert (path(root, "2.30.7")[1], path(root, "2.31.2")[1]) == (22.0, 40.0)


CONNECTX_7, CONNECTX_8 = 'vendor="0x15b3" device="0x1021"', 'vendor="0x15b3" device="0x1023"'


@pytest.mark.parametrize(
    ("version", "sm", "chip", "environment", "first"),
    [("2.30.4", 100, CONNECTX_8, {}, 2), ("2.30.7", 90, CONNECTX_7, {}, 0),
     ("2.31.2", 100, CONNECTX_8, {}, 0), ("2.31.2", 90, CONNECTX_8, {}, 2),
     ("2.31.2", 100, CONNECTX_7, {}, 2),
     ("2.31.2", 90, CONNECTX_7, {"NCCL_TOPO_SCATTER_START_NET": "1"}, 0),
     ("2.30.4", 90, CONNECTX_7, {"NCCL_TOPO_SCATTER_START_NET": "1"}, 2)],
)  # fmt: skip
def test_the_first_nic_of_gpus_that_share_nics(version, sm, chip, environment, first):
    """GPUs 2 and 3 share three NICs: counted from the first GPU of the machine, or of those that share."""
    shared = switch(
        "40", gpu("48", 2, sm=sm), gpu("49", 3, sm=sm),
        *(nic(f"5{dev}", net(dev), ids=chip) for dev in range(3)),
    )  # fmt: skip
    root = system_xml(cpu(0, gpu("18", 0, sm=sm), gpu("19", 1, sm=sm)), cpu(1, shared))
    system, gpus, _, given = computed(root, version, environment)
    assert local_nets(system, gpus[2], given)[0].dev == first


def test_a_refused_pair_is_routed_through_the_cpu():
    refused = system_xml(cpu(0, switch("10", gpu("18"), nic("19", net(0, gdr=0)))))
    assert path(refused) == ("PHB", 48.0, 5)


@pytest.mark.parametrize("version", ["2.28.9", "2.30.7"])
def test_a_gpu_sends_through_a_neighbour_that_is_near_the_nic(version):
    link = NVSWITCH.format(18)
    near = switch("10", gpu("18", 0, inside=link), nic("19", net(0)))
    root = system_xml(cpu(0, near, gpu("20", 1, inside=link)))
    assert path(root, version, rank=1)[0] == "PXN"
    assert path(root, version, {"NCCL_PXN_DISABLE": "1"}, rank=1)[0] == "PHB"


def test_a_neighbour_without_gdr_helps_until_2_29():
    link = NVSWITCH.format(18)
    near = switch("10", gpu("18", 0, gdr=0, inside=link), nic("19", net(0)))
    root = system_xml(cpu(0, near, gpu("20", 1, inside=link)))
    assert path(root, "2.18.6", {"NCCL_PXN_DISABLE": "1"}, rank=1)[0] == "PHB"
    assert path(root, "2.30.3", rank=1)[0] == "PHB"


@pytest.mark.parametrize(
    ("version", "kind"),
    [("2.25.1", "PHB"), ("2.26.2", "PHB"), ("2.27.3", "P2C"), ("2.28.9", "P2C"), ("2.30.7", "P2C")],
)
def test_superchips_have_a_type_of_their_own_since_2_27(version, kind):
    assert path(SUPERCHIP, version)[0] == kind


def test_gpus_behind_one_another_use_nvlink_once():
    def linked(rank, *others):
        links = "".join(f'<nvlink target="0000:{20 + o}:00.0" count="2" tclass="0x030200"/>' for o in others)
        return switch(str(10 + rank), gpu(str(20 + rank), rank, inside=links))

    root = system_xml(cpu(0, linked(0, 1), linked(1, 0, 2), linked(2, 1, 3), linked(3, 2)))
    for version in ("2.28.9", "2.30.7"):
        system, gpus, _, _ = computed(root, version)
        kinds = [system.rules.named(gpus[0].paths[gpus[other]].type) for other in (1, 2, 3)]
        assert kinds == ["NVL", "NVB", "PHB"]
    system, gpus, _, _ = computed(root, environment={"NCCL_NVB_DISABLE": "1"})
    assert system.rules.named(gpus[0].paths[gpus[2]].type) == "PHB"


def test_of_equally_short_paths_the_wider_counts_until_2_30_4_then_the_nearer():
    def linked(rank, *others):
        links = "".join(f'<nvlink target="0000:{20 + o}:00.0" count="2" tclass="0x030200"/>' for o in others)
        return gpu(str(20 + rank), rank, inside=links)

    root = system_xml(cpu(0, linked(0, 1), linked(1, 0, 2), linked(2, 1)))
    for version, kind in (("2.30.4", "PHB"), ("2.30.7", "NVB")):
        system, gpus, _, _ = computed(root, version)
        assert system.rules.named(gpus[0].paths[gpus[2]].type) == kind


def test_gpus_without_p2p_and_shared_memory_are_disconnected():
    root = system_xml(cpu(0, gpu("18", 0), gpu("19", 1), nic("20", net(0))))
    system, gpus, _, _ = computed(root, environment={"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"})
    assert system.rules.named(gpus[0].paths[gpus[1]].type) == "NET"
    system, gpus, _, _ = computed(root)
    assert system.rules.named(gpus[0].paths[gpus[1]].type) == "PHB"


def test_a_file_that_nccl_rejects_is_refused():
    with pytest.raises(FormatError, match="no link_speed"):
        computed(system_xml(cpu(0, '<pci busid="0000:18:00.0" class="0x030200" link_width="16"/>')))
    with pytest.raises(FormatError, match="no arch"):
        computed(system_xml('<cpu numaid="0"/>'))
    with pytest.raises(FormatError, match="crashes"):
        below = switch("10", gpu("18", inside='<c2c bw="44712" count="10"/>'))
        computed(system_xml(cpu(0, below)), "2.21.5")


def test_a_gpu_without_a_rank_is_left_out():
    bare = '<pci busid="0000:18:00.0" class="0x030200" link_speed="" link_width="16"><gpu dev="0"/></pci>'
    system, _, _, _ = computed(system_xml(cpu(0, bare)))
    assert system.nodes[GPU] == []


def test_path_types_have_the_numbers_of_their_version():
    assert release("2.27.3").order["P2C"] == 7
    assert release("2.27.5").order["P2C"] == 6
    assert release(OLDEST).path_types.index("SYS") == 7
    assert release(NEWEST).path_types.index("SYS") == 9


def test_steps_are_few_and_grow_at_most_with_the_square_of_the_machine():
    """73,000 steps, about 10 ms, for eight GPUs and eight NICs; pairs grow with the square of the
    machine."""
    link = NVSWITCH.format(18)

    def machine(switches):
        return system_xml(*(
            cpu(numa, *(switch(f"{numa}{at}", gpu(f"{numa}{at + 4}", numa * switches + at, inside=link),
                               nic(f"{numa}{at + 8}", net(numa * switches + at))) for at in range(switches)))
            for numa in range(2)
        ))  # fmt: skip

    half, whole = (steps(computed, machine(switches)) for switches in (2, 4))
    assert whole < 100_000
    assert whole < 4 * half


def flat(count, *, below_a_switch=False, gdr=1):
    """As many GPUs as NICs below one host bridge, or below one switch."""
    gpus = [gpu(f"{at >> 4:x}{at & 15:x}", at, gdr=gdr) for at in range(count)]
    nics = [nic(f"{at + count >> 4:x}{at + count & 15:x}", net(at, gdr=gdr)) for at in range(count)]
    inside = (*gpus, *nics)
    return system_xml(cpu(0, switch("ff", *inside) if below_a_switch else "".join(inside)))


@pytest.mark.parametrize("version", ["2.18.1", "2.18.5", "2.28.9", NEWEST])
@pytest.mark.parametrize("shape", [{}, {"below_a_switch": True}, {"below_a_switch": True, "gdr": 0}])
def test_the_work_for_a_flat_machine_grows_with_the_number_of_pairs(shape, version):
    """Four times the pairs; what is refused changes what is nearest, and that is searched again."""
    few, many = (steps(computed, flat(count, **shape), version) for count in (12, 24))
    assert many < 6.5 * few


@pytest.mark.parametrize("version", ["2.18.1", "2.28.9", NEWEST])
@pytest.mark.parametrize("shape", [{}, {"below_a_switch": True}, {"below_a_switch": True, "gdr": 0}])
def test_what_searches_remember_is_what_they_would_find_now(shape, version, monkeypatch):
    """Without any memory every path comes out the same."""

    def paths_of(root):
        _, gpus, nets, _ = computed(root, version)
        ends = [*gpus.values(), *nets.values()]
        return [
            (one.printed, other.printed, path.type, path.bandwidth, path.hops)
            for one in ends
            for other, path in one.paths.items()
        ]

    root = flat(9, **shape)
    remembered = paths_of(root)
    forget = NcclSystem.replace_path

    def forgetful(system, node, target, path):
        forget(system, node, target, path)
        for memory in (system.nearest, system.local_nets, system.local_gpus, system.masks):
            memory.clear()

    monkeypatch.setattr(NcclSystem, "replace_path", forgetful)
    assert paths_of(root) == remembered
