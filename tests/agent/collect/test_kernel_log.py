"""Of the kernel's log, what the kernel says about GPUs, NICs, modules and memory."""

from __future__ import annotations

import re

import pytest

from gdrkit.agent.collect.kernel_log import log_in_bundle
from gdrkit.messages import driver, kernel, modprobe
from gdrkit.messages.message import MessageTemplate

TEMPLATES = [
    one
    for module in (kernel, driver, modprobe)
    for one in vars(module).values()
    if isinstance(one, MessageTemplate) and one.program == "kernel"
]
QUOTES_A_VALUE = ("invalid for parameter", "too large for parameter")


def printed(template: MessageTemplate) -> str:
    """What the kernel prints, about NVIDIA's module."""
    fill = {"module": "nvidia", "error": "-22"}
    return template.sample or re.sub(
        r"\{(\w*)[^}]*\}+", lambda found: fill.get(found[1], "1"), template.template
    )


def test_every_line_that_gdrkit_knows_is_kept():
    lines = [text for text in map(printed, TEMPLATES) if not any(part in text for part in QUOTES_A_VALUE)]
    log = "".join(f"[    1.234567] {text}\n" for text in lines).encode()

    assert len(lines) > 60
    assert log_in_bundle(log) == log


@pytest.mark.parametrize(
    "line",
    [
        "[    0.000000] Linux version 6.8.0-45-generic (buildd@host) #45",
        "[   12.3] mlx5_core 0000:18:00.0 ens1: Link up",
        "kern  :info  : [   12.3] nvidia-peermem nv_peer_client_init: error",
        "<6>[   12.3][    T1] pci 0000:18:00.0: BAR 1: no space for",
        "Nov 20 17:55:01 node kernel: Lockdown: insmod: unsigned module loading is restricted",
        "2026-11-20T17:55:01+0100 node kernel: DMAR: IOMMU enabled",
        "[Thu Nov 20 17:55:01 2026] NVRM: Xid (PCI:0000:18:00): 79, GPU has fallen off the bus",
        "[    3.1] systemd-modules-load[252]: Module 'nvidia_peermem' is deny-listed",
        '[ 9.0] audit: type=1400 audit(1:2): avc: denied { integrity } comm="insmod" lockdown_reason="x"',
        "",
    ],
)
def test_what_the_kernel_says_about_its_devices_is_kept(line):
    assert log_in_bundle(line.encode()).decode() == line


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("[   21.7] cloud-init[1033]: nvidia x", "[   21.7] (dropped)"),
        ("[  812.1] cifs: Unknown parameter 'x'", "[  812.1] (dropped)"),
        ("Nov 20 17:55:01 node kernel: usb 1-1: x", "Nov 20 17:55:01 node kernel: (dropped)"),
        ("Nov 20 17:55:01 node sshd[7]: nvidia x", "(dropped)"),
        ("[   52.7] node-prep: nvidia-smi ok; BMC user ADMIN pass now x", "[   52.7] (dropped)"),
        ("nvidia: without a time, as from a pasted file", "(dropped)"),
        (
            "[ 1.0] nvidia: `x' invalid for parameter `y'",
            "[ 1.0] nvidia: `(dropped)' invalid for parameter `y'",
        ),
        ("[ 1.0]     HOME=/", "[ 1.0]     HOME=(dropped)"),
    ],
)
def test_what_programs_write_there_goes_and_its_time_stays(line, left):
    assert log_in_bundle(line.encode()).decode() == left
