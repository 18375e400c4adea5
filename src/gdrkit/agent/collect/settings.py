"""Settings of NCCL, UCX and their like, without values that may be secrets. Runs on Python 3.8, alone."""

from __future__ import annotations

import re

from .module_parameters import DROPPED, RANDOM

_SETTING = re.compile(
    rb"(?:NCCL|UCX|OMPI_MCA|FI|IBV|MLX5|RDMAV|GDRCOPY|CUFILE|NVSHMEM|OFI_NCCL|MC|NIXL)_\w{1,80}"
    rb"|CUDA_(?:VISIBLE_DEVICES|DEVICE_\w{1,40}|LAUNCH_BLOCKING|MODULE_LOADING|MPS_\w{1,40})"
    rb"|NVIDIA_(?:VISIBLE_DEVICES|DRIVER_CAPABILITIES|IMEX_CHANNELS|GDRCOPY|GDS|MOFED|NVSWITCH|REQUIRE_\w{1,20})"
    rb"|WITH_NVIDIA_PEERMEM|PYTORCH_(?:CUDA_)?ALLOC_CONF|SLURM_JOB_ID|LD_LIBRARY_PATH|KUBERNETES_SERVICE_PORT"
    rb"|container|CPU (?:vendor|model)|Product name"
)
"""Variables that the libraries read, those that show the environment, and the conditions of a section of
ucx.conf. No others are collected."""

_ASSIGNED = re.compile(
    rb"(?P<head>[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_]\w{0,79}|CPU \w{1,8}|Product name)[ \t]*[=:][ \t]*)"
    rb"(?P<value>[^\n\0]*)"
)
_LINE = re.compile(rb"[^\n]+")
_SECTION = re.compile(rb"[ \t]*\[[\w .-]{1,64}\][ \t]*")

_FREE = re.compile(
    rb"(?:ARGS?|FILE|ADDR\w*|DEST|COMM_ID|CONF\w*_STRING|PASS\w*|\w*KEY|\w*TOKEN|SECRET\w*|\w*AUTH|\w*LICEN[SC]E\w*)\Z"
)
"""How names end whose value may be any text."""
_NUMBER_OF_KEY = re.compile(rb"0x[0-9a-fA-F]{1,4}|\d{1,5}")
"""Of NCCL_IB_PKEY, a partition: everybody may know it."""

_WORD = rb"[\w.:/+%*-]{1,64}"
_VALUE = re.compile(rb"[\"']?[\^=]{0,2}" + _WORD + rb"(?:[,;=]{1,2}" + _WORD + rb"){0,63}[\"']?\s*")
_PLACES = re.compile(rb"[\"']?(?:/[\w.+%-]{1,64}){1,16}(?::(?:/[\w.+%-]{1,64}){1,16})*[\"']?\s*")
_ADDRESS = re.compile(rb"(?:[a-zA-Z][\w.-]{0,63}|[0-9a-fA-F.:\[\]]{3,40}):\d{1,5}\s*")
_COMMENT = re.compile(rb"\s[#;]")


def settings_in_file(data: bytes) -> bytes:
    """A file of settings: of other variables, comments and commands `#` remains. What NUL
    separates, as in an environment, loses them."""
    if b"\0" in data:
        kept = (_of_setting(entry) for entry in data.split(b"\0"))
        return b"".join(entry + b"\0" for entry in kept if entry)
    return _LINE.sub(lambda line: _of_line(line[0]), data)


def _of_line(line: bytes) -> bytes:
    return _of_setting(line) or (line if _SECTION.fullmatch(line) else b"#")


def _of_setting(text: bytes) -> bytes:
    """One assignment without its value if it may be a secret; b"" if it sets another variable."""
    found = _ASSIGNED.fullmatch(text)
    if found is None or _SETTING.fullmatch(found["name"]) is None:
        return b""
    return found["head"] + shown(found["name"], found["value"])


def shown(name: bytes, value: bytes) -> bytes:
    """A variable's value, or what stands for it."""
    forms = [_VALUE, _PLACES]
    if _FREE.search(name):
        forms = [_NUMBER_OF_KEY] if name.endswith(b"KEY") else [_PLACES, _ADDRESS]
    kept = _COMMENT.split(value, 1)[0]
    if kept.strip() and not (any(form.fullmatch(kept) for form in forms) and not RANDOM.search(kept)):
        return DROPPED
    return kept if kept == value else kept + b" #" + DROPPED
