"""GPUs whose memory NCCL does not let NICs read unless NVLink connects them."""

from __future__ import annotations

import pytest

from gdrkit.facts.pci import gpus
from gdrkit.programs.nccl.gpu_rules import send_needs_nvlink
from gdrkit.rules.engine import judge
from gdrkit.rules.rule import Failed, NotApplicable, Outcome, Passed, Unknown
from tests.hardware import BARE_METAL, machine

TWO = """
0000:15:01.0 spr-root
  0000:16:00.0 pex89-up
    0000:17:00.0 pex89-down
      0000:18:00.0 cx7-eth rdma=mlx5_0
    0000:17:01.0 pex89-down
      0000:1b:00.0 {0}
    0000:17:02.0 pex89-down
      0000:1c:00.0 {1}
"""
TOPOLOGY = ("nvidia-smi", "topo", "-m")


def matrix(word: str) -> dict[tuple[str, ...], str]:
    rows = f"GPU0\t X \t{word}\tPXB\nGPU1\t{word}\t X \tPXB\nNIC0\tPXB\tPXB\t X \n"
    return {TOPOLOGY: f"\tGPU0\tGPU1\tNIC0\n{rows}"}


def found(one: str, other: str, **options) -> Outcome:
    node = machine(TWO.format(one, other), **options)
    return judge(node, send_needs_nvlink, gpus(node)[0])


def nccl(*versions: str) -> dict[str, str]:
    """A wheel of NCCL; with two versions, the metadata of one of them is a leftover."""
    folder = "usr/local/lib/python3.12/dist-packages"
    wheels = {f"{folder}/nvidia_nccl_cu12-{version}.dist-info/METADATA": "" for version in versions}
    return {f"{folder}/nvidia/nccl/lib/libnccl.so.2": "", **wheels}


def test_gpus_before_ampere_without_nvlink_send_through_host_memory():
    outcome = found("t4", "t4", files=BARE_METAL | nccl("2.27.3"))

    assert isinstance(outcome, Failed)
    assert outcome.seen == "2 GPUs without NVLink, older than Ampere"
    assert (send_needs_nvlink.direction, send_needs_nvlink.takes(None)) == ("send", ())


@pytest.mark.parametrize(("version", "refuses"), [("2.18.6", True), ("2.19.1", False), ("2.27.3", False)])
def test_newer_gpus_need_nvlink_only_up_to_2_18(version: str, refuses: bool):
    outcome = found("l40s", "l40s", files=BARE_METAL | nccl(version))

    assert isinstance(outcome, Failed if refuses else Passed)


@pytest.mark.parametrize(("word", "kind"), [("NV4", Passed), ("NODE", Failed), ("SYS", Failed)])
def test_the_driver_shows_whether_a_bridge_is_there(word: str, kind: type[Outcome]):
    outcome = found("rtx-a6000", "rtx-a6000", files=BARE_METAL | nccl("2.18.6"), commands=matrix(word))

    assert isinstance(outcome, kind)


def test_without_the_drivers_matrix_a_board_that_may_have_a_bridge_is_unknown():
    outcome = found("rtx-a6000", "rtx-a6000", files=BARE_METAL | nccl("2.18.6"))

    assert isinstance(outcome, Unknown)
    assert outcome.missing.ask == "nvidia-smi topo -m"


def test_a_matrix_of_other_gpus_shows_nothing():
    cut = {TOPOLOGY: "\tGPU0\tNIC0\nGPU0\t X \tPXB\nNIC0\tPXB\t X \n"}

    assert isinstance(
        found("rtx-a6000", "rtx-a6000", files=BARE_METAL | nccl("2.18.6"), commands=cut), Unknown
    )


def test_boards_on_a_baseboard_have_nvlink():
    outcome = found("a100-sxm-80", "a100-sxm-80", files=BARE_METAL | nccl("2.18.6"))

    assert isinstance(outcome, Passed)


def test_a_single_gpu_or_one_beside_a_display_card_may_be_read():
    assert isinstance(found("t4", "rtx-4090", files=BARE_METAL | nccl("2.27.3")), NotApplicable)


@pytest.mark.parametrize("value", ["0", "1"])
def test_a_setting_decides_instead(value: str):
    setting = {"etc/nccl.conf": f"NCCL_NET_GDR_READ={value}\n"}
    outcome = found("t4", "t4", files=BARE_METAL | nccl("2.27.3") | setting)

    assert outcome == NotApplicable(f"NCCL_NET_GDR_READ={value} decides")


def test_without_its_version_nccl_is_taken_for_the_newest():
    assert isinstance(found("l40s", "l40s"), Passed)
    assert isinstance(found("t4", "t4"), Failed)
