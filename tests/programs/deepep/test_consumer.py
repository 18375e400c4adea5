"""DeepEP is built on NVSHMEM or on NCCL's GIN, by its version, and needs what that needs."""

from __future__ import annotations

from pathlib import Path as Folder

import pytest

from gdrkit.evidence.target import open_host
from gdrkit.facts.libraries import nccl_copies
from gdrkit.facts.wheels import LibraryCopy
from gdrkit.node import Node
from gdrkit.programs.deepep.consumer import DEEPEP, deepep_copies, engine
from gdrkit.programs.nccl_gin.consumer import NCCL_GIN
from gdrkit.programs.nvshmem.consumer import NVSHMEM
from gdrkit.rules.capabilities import INITIATED, Capability, Need, Path
from gdrkit.verdict import judge_node
from gdrkit.verdict.cells import with_engines
from gdrkit.verdict.path_state import State
from tests.evidence_nodes import build
from tests.rules.machines import environments, node, wheel

EVERY = DEEPEP.own(*DEEPEP.paths)
BY_GPU = DEEPEP.own(Path.GPU_INITIATED)


def with_deepep(*versions: str) -> Node:
    return node(environments("deep_ep", versions, "deep_ep"))


@pytest.mark.parametrize(
    ("versions", "on"),
    [
        (("1.1.0",), NVSHMEM),
        (("1.2.1+9af0e0d",), NVSHMEM),
        (("2.0.0",), NCCL_GIN),
        (("2.1.0+local",), NCCL_GIN),
        (("1.2.1", "1.1.0"), NVSHMEM),
        (("1.2.1", "2.1.0"), None),  # a job may load either
        ((), None),
    ],
)
def test_the_version_shows_what_it_is_built_on(versions: tuple[str, ...], on: object):
    assert engine(with_deepep(*versions)) is on


def test_of_two_versions_in_one_folder_neither_is_taken():
    both = wheel("deep_ep-1.2.1", "deep_ep") | wheel("deep_ep-2.1.0")

    assert engine(node(both)) is None
    assert engine(node(wheel("deep_ep-1.2.1"))) is None


@pytest.mark.parametrize(
    ("taken", "from_1", "from_2"),
    [
        (NVSHMEM.own(Path.DMABUF), DEEPEP.own(Path.DMABUF), ()),
        (NVSHMEM.own(*INITIATED), EVERY, ()),  # nic-not-mlx5: a renamed ConnectX
        (NCCL_GIN.own(Path.GPU_INITIATED), (), BY_GPU),  # its proxy is enough
        (NCCL_GIN.own(*INITIATED), (), EVERY),  # gin-nics-fused
        (NCCL_GIN.own(*NCCL_GIN.paths), (), EVERY),  # gin-unavailable
        ((Capability.VMM,), (), EVERY),
        ((Capability.NIC_QUEUES,), EVERY, BY_GPU),
        ((Capability.DOORBELL,), BY_GPU, BY_GPU),
        ((), (), ()),
    ],
)
def test_what_its_engine_loses_it_loses(
    taken: tuple[Need, ...], from_1: tuple[Need, ...], from_2: tuple[Need, ...]
):
    for version, more in (("1.2.1", from_1), ("2.1.0", from_2)):
        found = with_engines(with_deepep(version), taken)
        assert found[: len(taken)] == taken
        assert set(found[len(taken) :]) == set(more), version
    assert with_engines(with_deepep(), taken) == taken
    assert with_engines(with_deepep("1.2.1", "2.1.0"), taken) == taken


@pytest.mark.parametrize(
    ("version", "nccl", "code"),
    [
        ("1.2.1", "2.30.7", "nic-not-mlx5"),
        ("1.2.1", "2.27.3", "nic-not-mlx5"),
        ("2.1.0", "2.30.7", ""),
        ("2.1.0", "2.27.3", "gin-unavailable"),
        ("", "2.27.3", ""),  # an image brings its own
    ],
)
def test_what_stops_one_version_does_not_stop_the_other(
    version: str, nccl: str, code: str, tmp_path: Folder
):
    """NVSHMEM looks for another prefix in the names of the NICs, so that IBGDA takes none of them."""
    path = build("ubuntu-6.8-h100", tmp_path)
    path.joinpath("etc/environment").write_text("NVSHMEM_HCA_PREFIX=rocep\n")
    told = [nccl_copies.becomes((LibraryCopy(nccl, "a library"),))]
    told += [deepep_copies.becomes((LibraryCopy(version, "a wheel"),))] if version else []
    found = judge_node(Node(open_host(str(path))).after("install", tuple(told))).of("deepep")

    assert found.state is (State.BLOCKED if code else State.READY)
    blocking = {one for judged in found.judgements if judged.path == "dmabuf" for one in judged.codes}
    assert blocking == ({code} if code else set())
