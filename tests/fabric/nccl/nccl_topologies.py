"""Small constructed topologies for NCCL's model."""

from gdrkit.fabric.nccl.graph import GPU, NET
from gdrkit.fabric.nccl.paths import compute_paths
from gdrkit.fabric.nccl.settings import settings
from gdrkit.fabric.nccl.system import system_of
from gdrkit.formats import nccl_xml
from gdrkit.programs.nccl.releases import release

GEN5 = 'link_speed="32.0 GT/s PCIe" link_width="16"'


def gpu(bus, rank=0, *, sm=90, gdr=1, inside="", link=GEN5):
    return (
        f'<pci busid="0000:{bus}:00.0" class="0x030200" {link}>'
        f'<gpu dev="{rank}" sm="{sm}" rank="{rank}" gdr="{gdr}">{inside}</gpu></pci>'
    )


def nic(bus, *nets, link=GEN5, ids=""):
    return f'<pci busid="0000:{bus}:00.0" class="0x020700" {ids} {link}><nic>{"".join(nets)}</nic></pci>'


def net(dev, *, name=None, gdr=1, speed=400_000, guid=None, port=1):
    return (
        f'<net name="{name or f"mlx5_{dev}"}" dev="{dev}" speed="{speed}" port="{port}" '
        f'guid="{guid or hex(0xE41D2D0300000000 + dev)}" gdr="{gdr}"/>'
    )


def switch(bus, *inside, link=GEN5, ids=""):
    return f'<pci busid="0000:{bus}:00.0" class="0x060400" {ids} {link}>{"".join(inside)}</pci>'


def cpu(numa, *inside, arch="x86_64", vendor="GenuineIntel", family=6, model=143):
    return (
        f'<cpu numaid="{numa}" affinity="ff" arch="{arch}" vendor="{vendor}" familyid="{family}" '
        f'modelid="{model}">{"".join(inside)}</cpu>'
    )


def system_xml(*cpus):
    return nccl_xml.parse(f'<system version="1">{"".join(cpus)}</system>'.encode())


def computed(root, version="2.28.9", environment=None):
    """The system, GPUs and NICs by number, and NCCL's settings from the environment."""
    rules = release(version)
    given = settings(rules, environment or {})
    system = system_of(root, rules)
    compute_paths(system, given)
    gpus = {node.rank: node for node in system.nodes[GPU]}
    nets = {node.dev: node for node in system.nodes[NET]}
    return system, gpus, nets, given


def path(root, version="2.28.9", environment=None, rank=0, dev=0):
    """Type, GB/s and hops from a GPU to a NIC."""
    system, gpus, nets, _ = computed(root, version, environment)
    found = gpus[rank].paths[nets[dev]]
    return system.rules.named(found.type), round(found.bandwidth, 2), found.hops


NEAR = system_xml(cpu(0, switch("10", gpu("18"), nic("19", net(0)))))
FAR = system_xml(cpu(0, gpu("18"), nic("19", net(0))))
OTHER_SOCKET = system_xml(cpu(0, gpu("18")), cpu(1, nic("99", net(0))))
SUPERCHIP = system_xml(
    cpu(0, gpu("01", inside='<c2c bw="44712" count="10"/>'), nic("02", net(0)), arch="arm64", vendor="")
)
"""A GPU on its own root port, a NIC on another, and C2C to the CPU that has both."""
