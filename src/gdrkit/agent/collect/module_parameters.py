"""Which values of modules' parameters stay in a bundle: switches, small numbers, and the texts that rules
read. Any other may be a secret. Runs on Python 3.8, alone.
"""

from __future__ import annotations

import re

DROPPED = b"(dropped)"

MODULE = re.compile(
    rb"(?:nvidia|nouveau|nova|nv_peer|gdrdrv|mlx|ib_|iw_|rdma|bnxt|irdma|ice|efa|mana|amdgpu|amdkfd|drm|vfio)"
    rb"[a-z0-9_-]{0,32}"
)
"""Modules of GPUs and NICs, whose options rules and the traits of a fleet read: facts/modprobe_config.py,
fleet/traits.py."""

RANDOM = re.compile(
    rb"(?=[\w/+-]{0,64}[a-z])(?=[\w/+-]{0,64}[A-Z])(?=[\w/+-]{0,64}\d)[\w/+-]{12,}"
    rb"|(?=[a-z]{0,64}\d)(?=\d{0,64}[a-z])[a-z0-9]{20,}"
)
"""A word with capitals, small letters and digits, as in base64; or a long one as in hexadecimal."""

_SWITCH = rb"(?i:-?\d{1,3}[kmgt]?|0x[0-9a-f]{1,8}|[yn]|[a-z]{1,5}|default)"
PLAIN = re.compile(_SWITCH + rb"(?:," + _SWITCH + rb")*")
"""What cannot be a secret, whatever it belongs to."""

_TEXTS = {
    b"NVreg_RegistryDwords": rb"(?:\w{1,64}=(?:0x[0-9a-fA-F]{1,8}|\d{1,10});?[ ]?){1,64}",
    b"NVreg_CoherentGPUMemoryMode": rb"driver|numa",
    b"NVreg_ExcludedGpus": rb"(?:(?:GPU-)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12},?){1,64}",
    b"NVreg_GpuBlacklist": rb"(?:(?:GPU-)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12},?){1,64}",
    b"ids": rb"(?:[0-9a-f]{4}:[0-9a-f]{4},?){1,64}",
    b"dyndbg": rb"[\w .+;*=/-]{1,200}",
}
"""Parameters with texts, and how such a text looks: rules/gpu_refused.py, rules/gpu_cdmm.py,
rules/gpu_passed_through.py, facts/dynamic_debug.py, rules/gpu_initiated.py."""


def value_kept(name: bytes, value: bytes) -> bool:
    """Whether a parameter's value may stay; quotation marks around it do not count."""
    bare = value.strip(b"\"'")
    text = _TEXTS.get(name)
    return PLAIN.fullmatch(bare) is not None or (text is not None and re.fullmatch(text, bare) is not None)
