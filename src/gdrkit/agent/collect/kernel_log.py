"""The kernel's log without what no rule reads. A line keeps its time; its text stays if it is about what
decides GPU memory's way to the network, and the kernel wrote it: any program may write there. Runs on Python
3.8, alone.
"""

from __future__ import annotations

import re

from .kernel_arguments import arguments_in_log
from .module_parameters import DROPPED

_TIME = rb"\[(?:[ ]*\d{1,9}\.\d{1,9}|[A-Z][a-z]{2}[ ][A-Z][a-z]{2}[ ][ \d:]{10,20})\]"
_STAMP = (
    rb"(?:(?:<\d+>|\w+[ ]*:\w+[ ]*:[ ])?" + _TIME + rb"(?:\[[ ]*[CT]\d+\])?[ ]?"
    rb"(?:(?!\S+:)[\w.-]{1,64}[ ]kernel:[ ])?"
    rb"|[^\n\[\]]{10,120}?[ ]kernel:[ ](?:" + _TIME + rb"[ ]?)?)"
)
_WITHOUT_TIME = re.compile(rb"(?m)^(?!" + _STAMP + rb")[^\n]*[^\s][^\n]*$")
_LINE = re.compile(rb"(?m)^(?P<stamp>" + _STAMP + rb")(?P<text>[^\n]+)$")
"""As dmesg(1) and journalctl(1) write it; facts/kernel_log.py reads these forms."""

_BY_PROGRAM = re.compile(
    rb"audit: (?!type=1400 )|(?!systemd-(?:modules-load|udevd|journald)\[)[\w.@()/: -]{1,48}\[\d{1,10}\]:"
)

_READ = re.compile(
    rb"(?i:nvidia|nvrm|nouveau|nova_|mlx|mellanox|infiniband|\bib_|rdma|\broce|bnxt|\bice\b|\bi40e|\befa\b"
    rb"|\bmana\b|amdkfd|amdgpu|gdrdrv|peer.?mem|peer.?direct|p2p|dma|pci|\baer\b|\bdpc\b|\bbar\b|iommu|amd-vi"
    rb"|smmu|hypervisor|virtualization|lock.?down|secure.?boot|x\.?509|\bmok|certificate|keyring|pkcs|signature"
    rb"|digest|module|taint|firmware|\befi\b|\bdmi:|bios|linux version|command line|symbol|\belf\b"
    rb"|decompress|param value|initcall|sysfs:|kobject|dyndbg|\balg: no|spectre|registering|numa|vfio|nvlink"
    rb"|nvswitch|xid|\buvm|\bdrm\b|\bcma\b|hugetlb|hugepage|memory|oom|link|\becc|\bmce|edac|hardware error"
    rb"|lockup|blocked for|suppressed|dropped|missed|kexec)"
)
"""Words of the lines that facts/ and messages/ know, and of the subsystems that they are about."""

_OF_SECRETS = re.compile(
    rb"(?i:\b(?:pass(?:word|wd|phrase|code)?|pwd?|secret|token|credentials?|login)s?\b(?! ?\d))"
)
"""Words of a script that writes there: the kernel has no reason for them in such lines."""

_QUOTED_VALUE = re.compile(rb"(?P<name>: `)[^\n]*(?=' (?:invalid|too large) for parameter)")
"""The kernel quotes the value of a parameter that it refuses: Linux kernel/params.c, parse_args()."""


def log_in_bundle(data: bytes) -> bytes:
    """The log without such texts, and without the values of kernel arguments that nothing reads."""
    data = _LINE.sub(_of_line, _WITHOUT_TIME.sub(DROPPED, data))
    return arguments_in_log(_QUOTED_VALUE.sub(rb"\g<name>" + DROPPED, data))


def _of_line(line: "re.Match[bytes]") -> bytes:
    return line[0] if _is_kept(line["text"]) else line["stamp"] + DROPPED


def _is_kept(text: bytes) -> bool:
    if text.startswith(b"    "):  # what the kernel did not know, as the environment of init
        return re.match(rb" {4,8}[A-Za-z][\w.-]{0,63}=", text) is not None
    if _BY_PROGRAM.match(text) or _OF_SECRETS.search(text):
        return False
    return _READ.search(text) is not None
