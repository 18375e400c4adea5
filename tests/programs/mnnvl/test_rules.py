"""NVLink between hosts: the fabric of each GPU, the channel, and NCCL's settings."""

from __future__ import annotations

import pytest

from gdrkit.facts.commands import NVIDIA_SMI
from gdrkit.facts.pci import gpus
from gdrkit.programs.mnnvl.consumer import MNNVL
from gdrkit.programs.mnnvl.rules import (
    mnnvl_clique_differs,
    mnnvl_cumem_off,
    mnnvl_disabled_by_env,
    mnnvl_fabric_incomplete,
    mnnvl_imex_channel_missing,
    no_mnnvl,
)
from gdrkit.rules.rule import FABRIC
from tests.rules.machines import GPU, does_not_apply, failed, missing, node, passes

RACK, ALONE = "2c3e9f4e-77ab-4d0c-9a35-6f1ab34f2b7d", "00000000-0000-0000-0000-000000000000"
CHANNEL = {"dev/nvidia-caps-imex-channels/channel0": ""}
OTHER = "0000:2b:00.0"
GB200, H200 = "2941", "2335"


def smi(*fabrics: str) -> str:
    """The layout of driver 580.159.04 on an H200."""
    blocks = (
        f"GPU 0000{address.upper()}\n    Product Name                 : NVIDIA GB200\n    Fabric\n{fabric}"
        for address, fabric in zip((GPU, OTHER), fabrics, strict=False)
    )
    return f"\nAttached GPUs                            : {len(fabrics)}\n" + "".join(blocks)


def fabric(
    state: str = "Completed", status: str = "Success", clique: str = "32766", cluster: str = RACK
) -> str:
    rows = {"State": state, "Status": status, "CliqueId": clique, "ClusterUUID": cluster}
    return "".join(f"        {name:<38} : {value}\n" for name, value in rows.items())


NONE = fabric("N/A", "N/A", "N/A", "N/A")


def machine(*fabrics: str, device: str = GB200, parts: dict[str, str] | None = None, complete: bool = True):
    files: dict[str, bytes | str] = {}
    for address, _ in zip((GPU, OTHER), fabrics or ("",), strict=False):
        folder = f"sys/bus/pci/devices/{address}"
        files |= {f"{folder}/vendor": "0x10de\n", f"{folder}/device": f"0x{device}\n"}
        files |= {f"{folder}/class": "0x030200\n"}
    said = {NVIDIA_SMI: smi(*fabrics)} if fabrics else {}
    return node(files, parts or {}, said=said, complete=complete)


def test_a_gpu_in_a_rack_is_ready():
    ready = machine(fabric(), parts=CHANNEL)

    assert passes(ready, no_mnnvl)
    assert passes(ready, mnnvl_fabric_incomplete, gpus(ready)[0])
    assert passes(ready, mnnvl_imex_channel_missing)
    assert MNNVL.installed(ready) is True


@pytest.mark.parametrize(
    ("fabrics", "device", "seen"),
    [
        ((fabric(cluster=ALONE),), GB200, "its GPUs are in no fabric with other hosts"),
        ((NONE,), GB200, "its GPUs are in no fabric with other hosts"),
        ((fabric(cluster=ALONE),), H200, "no GPU with NVLink-C2C"),  # as measured on two H200s
        ((), H200, "no GPU with NVLink-C2C"),  # nvidia-smi need not be started
    ],
)
def test_other_machines_have_none(fabrics: tuple[str, ...], device: str, seen: str):
    alone = machine(*fabrics, device=device)

    assert failed(alone, no_mnnvl).seen == seen
    assert no_mnnvl.permanent == {FABRIC}
    assert does_not_apply(alone, mnnvl_imex_channel_missing)
    assert does_not_apply(alone, mnnvl_fabric_incomplete, gpus(alone)[0])
    assert MNNVL.installed(alone) is False


@pytest.mark.parametrize(
    ("state", "status", "seen"),
    [
        ("In Progress", "N/A", "State In Progress"),
        ("Not Started", "N/A", "State Not Started"),
        ("Completed", "Insufficient Resources", "State Completed, Status Insufficient Resources"),
    ],
)
def test_a_fabric_that_is_not_complete_is_named(state: str, status: str, seen: str):
    waiting = machine(fabric(state, status, cluster=ALONE), parts=CHANNEL)

    assert failed(waiting, mnnvl_fabric_incomplete, gpus(waiting)[0]).seen == seen
    assert passes(waiting, no_mnnvl)  # it is meant to be in one


def test_without_a_channel_no_memory_can_be_shared():
    found = failed(
        machine(fabric(), parts={"dev/nvidia-caps-imex-channels/other": ""}), mnnvl_imex_channel_missing
    )

    assert found.seen == "no channel in /dev/nvidia-caps-imex-channels"


def test_two_cliques_on_one_host_differ():
    two = machine(fabric(), fabric(clique="1"), parts=CHANNEL)

    assert failed(two, mnnvl_clique_differs).takes == ()
    assert passes(machine(fabric(), fabric()), mnnvl_clique_differs)


def test_without_nvidia_smi_a_coherent_gpu_is_unknown():
    for rule in (no_mnnvl, mnnvl_imex_channel_missing, mnnvl_clique_differs):
        assert missing(machine(complete=False), rule).source


@pytest.mark.parametrize(
    ("rule", "name"), [(mnnvl_cumem_off, "NCCL_CUMEM_ENABLE"), (mnnvl_disabled_by_env, "NCCL_MNNVL_ENABLE")]
)
def test_a_setting_turns_it_off(rule, name: str):
    conf = "etc/nccl.conf"

    assert failed(node({conf: f"{name}=0\n"}), rule, conf).seen == f"{name}=0"
    assert passes(node({conf: f"{name}=1\n"}), rule, conf)
    assert does_not_apply(node({conf: "NCCL_CUMEM_HOST_ENABLE=0\n"}), rule, conf)
    assert missing(node(complete=False), rule, conf).source == conf
    assert rule.takes(conf) == MNNVL.own("nvlink")
