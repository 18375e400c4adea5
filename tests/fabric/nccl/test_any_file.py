"""The model computes or refuses any file."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.fabric.nccl.gdr_decision import decide
from gdrkit.fabric.nccl.graph import GPU, NET
from gdrkit.fabric.nccl.merge import fuse
from gdrkit.fabric.nccl.paths import compute_paths
from gdrkit.fabric.nccl.settings import settings
from gdrkit.fabric.nccl.system import number, system_of
from gdrkit.formats import nccl_xml
from gdrkit.formats.errors import FormatError
from gdrkit.formats.xml_text import XmlNode
from gdrkit.programs.nccl.releases import release

VALUES = {
    "busid": ["0000:10:00.0", "0000:11:00.0", "0000:12:00.0", "0000:18:00.0", "x", ""],
    "class": ["0x060400", "0x030200", "0x020700", "0x068000", "0x080100", "?"],
    "vendor": ["0x1000", "GenuineIntel", "AuthenticAMD"],
    "device": ["0xc010", "0xc030"],
    "subsystem_vendor": ["0x1000"],
    "subsystem_device": ["0xa096", "0x0001", "0x1004"],
    "link_speed": ["32.0 GT/s PCIe", "16 GT/s", "", "9"],
    "link_width": ["16", "0", "-4", "99999999999999999999999"],
    "arch": ["x86_64", "arm64", "ppc64"],
    "numaid": ["0", "1", "-1"],
    "host_hash": ["0x1", "0x2"],
    "dev": ["0", "1", "2", "-1"],
    "rank": ["0", "1", "2"],
    "sm": ["60", "90", "0x64", "-7"],
    "gdr": ["0", "1"],
    "count": ["0", "2", "18"],
    "bw": ["44712", "0"],
    "tclass": ["0x068000", "0x030200", "0x068001", "?"],
    "target": ["0000:10:00.0", "0000:18:00.0", "fffffff:ff:ff.0"],
    "name": ["mlx5_0", "mlx5_1"],
    "speed": ["400000", "-1", "0"],
    "guid": ["0x1", "0xe41d2d0300000000"],
    "mlopart": ["0", "1"],
}
BELOW = {
    "cpu": ("pci", "nic"),
    "pci": ("pci", "gpu", "nic", "pcilink"),
    "gpu": ("nvlink", "c2c"),
    "nic": ("net",),
}
attributes = st.fixed_dictionaries(
    {
        name: st.sampled_from(values)
        for name, values in VALUES.items()
        if name not in ("mlopart", "host_hash")
    },
    optional={name: st.sampled_from(VALUES[name]) for name in ("mlopart", "host_hash")},
)


def element(name, depth=4):
    below = [element(child, depth - 1) for child in BELOW.get(name, ())] if depth else []
    children = st.lists(st.one_of(below), max_size=3).map(tuple) if below else st.just(())
    return st.builds(XmlNode, st.just(name), attributes, children)


systems = st.lists(element("cpu"), max_size=3).map(
    lambda cpus: XmlNode("system", {"version": "1"}, tuple(cpus))
)
versions = st.sampled_from(["2.18.1", "2.18.6", "2.22.3", "2.26.2", "2.27.5", "2.28.9", "2.29.2", "2.30.7"])
environments = st.dictionaries(
    st.sampled_from(["NCCL_NET_GDR_LEVEL", "NCCL_P2P_LEVEL", "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE",
                     "NCCL_NETDEVS_POLICY", "NCCL_NET_GDR_C2C", "NCCL_NET_MERGE_LEVEL"]),
    st.sampled_from(["0", "1", "SYS", "LOC", "ALL", "MAX:2", "", "x", "99999999999999999999"]),
)  # fmt: skip


@given(systems, versions, environments)
def test_any_tree_is_computed_or_refused(root, version, environment):
    rules = release(version)
    given_settings = settings(rules, environment)
    with contextlib.suppress(FormatError):
        merged, _ = fuse(root, rules, given_settings)
        system = system_of(merged, rules)
        compute_paths(system, given_settings)
        for gpu in system.nodes[GPU]:
            for net in system.nodes[NET]:
                if net in gpu.paths:
                    decide(system, gpu, net, True, given_settings)


@given(st.binary(max_size=300), versions)
def test_any_bytes_are_computed_or_refused(content, version):
    with contextlib.suppress(FormatError):
        compute_paths(system_of(nccl_xml.parse(content), release(version)), settings(release(version), {}))


@pytest.mark.parametrize(
    ("text", "value"),
    [("16", 16), (" 16x", 16), ("-1", -1), ("0x10", 16), ("010", 8), ("08", 0), ("", 0), ("x", 0),
     ("9" * 5000, int("9" * 19))],
)  # fmt: skip
def test_numbers_are_read_as_strtol_does(text, value):
    assert number(text) == value
