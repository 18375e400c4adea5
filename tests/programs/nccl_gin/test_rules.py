"""NCCL's GIN, by the version of NCCL."""

from __future__ import annotations

import pytest

from gdrkit.programs.deepep.consumer import DEEPEP
from gdrkit.programs.nccl_gin.consumer import NCCL_GIN
from gdrkit.programs.nccl_gin.rules import gin_unavailable
from gdrkit.programs.nixl.consumer import NIXL
from tests.rules.machines import PACKAGES, does_not_apply, environments, failed, node, passes, wheel

LIB = "usr/lib/x86_64-linux-gnu"


def with_nccl(version: str, *more: str):
    wheels = environments("nvidia_nccl_cu12", more, "nvidia/nccl")
    links = {f"{LIB}/libnccl.so.2": f"libnccl.so.{version}"}
    return node({f"{LIB}/libnccl.so.{version}": "", **wheels}, links=links)


def test_an_nccl_before_it_has_none():
    found = failed(with_nccl("2.28.3"), gin_unavailable)

    assert found.expected == "NCCL 2.28.7 or newer"
    assert gin_unavailable.takes(None) == NCCL_GIN.own(*NCCL_GIN.paths)
    assert NCCL_GIN.installed(with_nccl("2.28.3")) is False


def test_the_first_release_has_it():
    assert passes(with_nccl("2.28.7"), gin_unavailable)
    assert NCCL_GIN.installed(with_nccl("2.28.7")) is True


def test_a_second_copy_that_has_it_leaves_it_open():
    machine = with_nccl("2.28.3", "2.30.7")

    assert failed(machine, gin_unavailable).takes == ()
    assert NCCL_GIN.installed(machine) is True


def test_without_an_nccl_it_does_not_apply():
    assert does_not_apply(node(), gin_unavailable)


@pytest.mark.parametrize(
    ("consumer", "name", "package", "near"),
    [
        (DEEPEP, "deep_ep-1.2.1+9af0e0d", "deep_ep", "deep_ep_extras-1.0"),
        (NIXL, "nixl_cu12-1.0.0", "nixl_cu12", "nixl_cu12x-1.0.0"),
        (NIXL, "nixl-0.4.1", "nixl", "nixlbench-0.4.1"),
    ],
)
def test_a_wheel_is_a_copy(consumer, name: str, package: str, near: str):
    (copy,) = consumer.copies(node(wheel(name, package)))

    assert copy.version in name and copy.source == f"{PACKAGES}/{name}.dist-info"
    assert consumer.installed(node(wheel(near))) is False
