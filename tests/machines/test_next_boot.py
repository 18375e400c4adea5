"""What is ready now and blocked after the next boot, beside what only looks so."""

from __future__ import annotations

import random

import pytest
from machines.boot_loader import newer
from machines.cases import case, with_faults
from machines.compose import compose
from machines.faults import BY_NAME
from machines.kernels import KERNELS
from machines.machine import Machine
from machines.next_boot import boot
from machines.truth import judge


def planted(name: str) -> list[Machine]:
    return [with_faults(5, n, random.Random(n), (BY_NAME[name],)).machine for n in range(30)]


def test_a_rebuilt_ofed_leaves_the_proprietary_driver_without_its_only_path():
    machine = next(m for m in planted("OFED rebuilt, not restarted") if not m.is_open)

    assert judge(machine).states["nccl"] <= {"ready", "active", "unknown"}
    assert judge(boot(machine)).states["nccl"] == {"blocked"}


def test_a_rebuilt_ofed_leaves_the_open_driver_its_dmabuf():
    """The near miss: the peermem does not fit either, and nothing needs it."""
    open_ones = [m for m in planted("OFED rebuilt, not restarted") if m.is_open]
    dmabuf = next(m for m in open_ones if m.libraries.verbs_dmabuf and m.kernel.compat_dmabuf)

    assert judge(boot(dmabuf)).states["nccl"] & {"ready", "unknown"}


def test_a_module_that_nothing_loads_at_boot_is_gone_after_it():
    machine = next(m for m in planted("peermem not at boot") if not m.is_open)

    assert machine.peermem.loaded and not boot(machine).peermem.loaded


def test_a_new_kernel_without_the_driver_blocks_after_the_boot_and_not_before():
    made = case(9, 0, "new kernel without the driver")

    assert made.truth.states["nccl"] <= {"ready", "active", "unknown"}
    assert made.truth.next_boot == {"blocked"}
    assert made.healthy_truth.next_boot & {"ready", "unknown"}


def test_a_new_kernel_with_the_driver_changes_nothing():
    made = case(9, 0, "new kernel with the driver")

    assert made.truth.next_boot == made.truth.states["nccl"]


@pytest.mark.parametrize("name", ["new kernel without the driver", "new kernel with the driver"])
def test_the_next_kernel_lies_beside_the_running_one_and_is_the_default(name):
    machine = case(9, 0, name).machine
    files = compose(machine).files
    table = files[f"lib/modules/{machine.next_kernel}/modules.dep"].decode()
    default = files.get("boot/grub2/grubenv") or files["boot/grub/grub.cfg"].split(b"initrd")[0]

    assert ("nvidia.ko" in table) == machine.next_has_driver
    assert machine.next_kernel.encode() in default
    assert f"lib/modules/{machine.kernel.release}/modules.dep" in files


@pytest.mark.parametrize("release", [kernel.release for kernel in KERNELS])
def test_a_newer_build_differs_in_one_number(release):
    assert newer(release) != release
    assert len(newer(release).split(".")) == len(release.split("."))
