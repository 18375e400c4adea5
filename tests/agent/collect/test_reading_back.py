"""A bundle gives the same answers as the machine."""

from __future__ import annotations

import pytest

from gdrkit.agent.collect import sources
from gdrkit.evidence import EvidenceAbsent, EvidenceMissing, Host, MissingReason
from gdrkit.evidence.target import open_host
from gdrkit.facts import modules, pci, rdma, trust
from gdrkit.node import Node
from tests.agent.collect import machine
from tests.agent.collect.machine import GPU, MODULES, NIC, PORT, SWITCH


@pytest.fixture
def both(root, collected) -> tuple[Host, Host]:
    """The machine's file system, and the bundle collected from it."""
    return open_host(str(root.folder)), open_host(str(collected().path))


def everywhere(root: machine.Root) -> list[str]:
    return sorted(str(path.relative_to(root.folder)) for path in root.folder.rglob("*"))


def test_unchanged_files_have_the_same_content(root, both):
    here, there = both
    count = 0
    empty_slots = tuple(f"/{kind}/2" for kind in ("gids", "types", "ndevs"))
    for path in everywhere(root):
        if path.endswith(empty_slots) or "0000:00:1f.0" in path:  # a bridge with no card below it
            continue
        if path.startswith(("sys/", "boot/")) and sources.covers(path):
            try:
                content = here.read(path)
            except EvidenceMissing:
                continue
            assert there.read(path) == content, path
            count += 1
    assert count > 30


def test_folders_have_the_same_names(root, both):
    here, there = both
    for folder in (
        "etc/modprobe.d",
        "sys/module",
        "sys/bus/pci/devices",
        f"{MODULES}/updates/dkms",
        "usr/src",
    ):
        assert there.list(folder) == here.list(folder), folder


@pytest.mark.parametrize(
    "path",
    [
        "etc/modules",
        "sys/class/infiniband/mlx9_0/board_id",
        "sys/module/nouveau/version",
        "run/modprobe.d/x",
    ],
)
def test_a_missing_path_is_absent_not_uncollected(both, path):
    for host in both:
        with pytest.raises(EvidenceAbsent):
            host.read(path)


def test_paths_outside_the_table_are_not_collected(both):
    with pytest.raises(EvidenceMissing) as lacks:
        both[1].read("etc/shadow")

    assert (
        lacks.value.missing.why is MissingReason.ABSENT
        or lacks.value.missing.why is MissingReason.NOT_COLLECTED
    )


def test_facts_are_the_same(both):
    here, there = (Node(host) for host in both)

    assert pci.gpus(there) == pci.gpus(here)
    assert pci.bridges_above(there, NIC) == pci.bridges_above(here, NIC) == (PORT, SWITCH)
    assert rdma.rdma_devices(there) == rdma.rdma_devices(here)
    assert rdma.pairs(there) == rdma.pairs(here)
    assert modules.all_paths(there, "nvidia_peermem") == modules.all_paths(here, "nvidia_peermem")
    assert pci.devices(there) == pci.devices(here)
    assert GPU in {device.address for device in pci.devices(there)}


def test_a_reduced_module_is_verified_with_the_digest_of_the_original(both):
    path = f"lib/modules/{machine.RELEASE}/updates/dkms/nvidia.ko"

    assert trust.content_digest(Node(both[1]), path, "sha256") == trust.content_digest(
        Node(both[0]), path, "sha256"
    )
