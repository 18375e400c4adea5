"""What `gdr expect` writes of a node is what that node has."""

import pytest

from gdrkit.diagnosis import diagnose
from gdrkit.evidence.target import open_host
from gdrkit.facts.expectation import Supplied
from gdrkit.facts.observed import Observer
from gdrkit.formats.expectation import parse, write
from gdrkit.node import Node
from tests.evidence_nodes import laid_down, names
from tests.hardware import SPARK, machine


@pytest.mark.parametrize("name", names())
def test_every_node_has_what_is_written_of_it(name):
    host = open_host(str(laid_down(name)))
    observer = Observer(Node(host))
    content = parse(write(observer.expectation(), observer.unknown))
    report = diagnose(host, expected=Supplied("node.toml", content))

    assert report.expectation is not None
    assert report.expectation.differs == ()
    assert report.expectation.met == "yes"


def test_gpus_that_share_nics_have_rails_alike():
    """As in a DGX A100: two GPUs and two NICs below one switch."""
    bus = "0000:15:01.0 spr-root numa=0\n  0000:16:00.0 pex89-up\n" + "".join(
        f"    0000:17:0{n}.0 pex89-down\n      0000:1{8 + n}:00.0 {part}\n"
        for n, part in enumerate(("a100-sxm-80", "a100-sxm-80", "cx6-ib rdma=mlx5_0", "cx6-ib rdma=mlx5_1"))
    ).replace("0000:110", "0000:1a").replace("0000:111", "0000:1b")  # fmt: skip
    (rail,) = Observer(machine(bus)).expectation().rails
    assert (rail.count, rail.nics, rail.distance) == (2, 2, "PIX")


def test_ports_without_a_cable_are_not_expected():
    """A Spark has four RDMA devices, and with one cable two that are active."""
    found = Observer(machine(SPARK)).expectation()
    (rail,) = found.rails
    assert (found.gpus, found.nics) == (1, 4)
    assert (rail.nics, rail.state, rail.rate, rail.width) == (2, "ACTIVE", 200, 4)


def test_what_is_not_known_is_left_out_and_named():
    observer = Observer(machine(without=("sys/class/infiniband",)))
    found = observer.expectation()
    assert (found.nics, found.rails) == (None, ())
    assert [line.partition(":")[0] for line in observer.unknown if "nics" in line] == ["nics"]
