"""The machine after its next boot, as far as the description decides: what lies on disk is what runs.

modprobe loads NVIDIA's driver by the alias of the device, OFED's modules outrank the kernel's by depmod's
order, and systemd-modules-load loads what modules-load.d names."""

from __future__ import annotations

import copy

from machines import health
from machines.loading import modprobe
from machines.machine import Machine


def boot(machine: Machine) -> Machine:
    """What runs after a reboot. What a device suffers from stays, but for an Xid that a reboot ends."""
    booted = copy.deepcopy(machine)
    if booted.ofed:
        booted.ofed.running = booted.ofed.tag if booted.ofed.on_disk else ""
    booted.peermem.loaded = False
    booted.modules_disabled = False  # 0 at boot: admin-guide/sysctl/kernel.rst, and no file here sets it
    for gpu in booted.gpus:
        gpu.ill = "" if gpu.ill in health.XIDS and gpu.answers else gpu.ill
    driver = booted.driver
    if driver and not driver.root:
        driver.running_version = driver.library_version = ""
        driver.loaded = False
        built = machine.next_has_driver or not machine.next_kernel
        driver.on_disk = driver.on_disk and built
        driver.loaded = built and not modprobe(booted, "nvidia").error
    if booted.peermem.at_boot and driver and driver.loaded:
        outcome = modprobe(booted)
        booted.peermem.loaded = outcome.loaded and not outcome.error
    booted.in_use = ""
    return booted
