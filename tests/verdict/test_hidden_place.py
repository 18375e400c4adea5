"""A GPU whose own NIC is down, where the place of that NIC was not collected."""

from gdrkit.evidence import Missing, MissingReason
from gdrkit.facts.driver import DRIVER, driver_flavour
from gdrkit.facts.modules import is_loaded
from gdrkit.facts.rdma import nic_address
from gdrkit.node import Node, Supposition
from gdrkit.rules.rule import Status
from gdrkit.verdict import judge_node
from gdrkit.verdict.path_state import State
from tests.hardware import SERVER, machine

TWO = f"""{SERVER.replace("rdma=mlx5_0", "rdma=mlx5_0 state=DOWN")}
0000:80:01.0 spr-root numa=1
  0000:81:00.0 cx7-ib rdma=mlx5_1
"""
"""The NIC below the GPU's switch is down; another one is at the other socket."""


def with_driver(*changes: Supposition) -> Node:
    return machine(TWO).after(
        "derived", [is_loaded.becomes(True, DRIVER), driver_flavour.becomes("open"), *changes]
    )


def test_a_farther_nic_is_not_blamed_where_the_nearer_one_may_be_the_one_that_is_down():
    whole = judge_node(with_driver()).of("nccl")
    assert whole.cause is not None
    assert (whole.state, whole.cause.rule.code) == (State.BLOCKED, "port-down")

    hidden = Missing("place of mlx5_0", MissingReason.NOT_COLLECTED, "readlink /sys/class/infiniband/mlx5_0")
    less = judge_node(with_driver(nic_address.becomes(hidden, "mlx5_0")))
    assert (less.of("nccl").state, less.of("nccl").cause) == (State.UNKNOWN, None)
    distant = [f for f in less.findings if f.code == "pair-distant"]
    assert [f.status for f in distant if f.status is not Status.UNKNOWN] == []
