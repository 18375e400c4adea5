"""Texts without what no rule reads: any other word may be a secret, whatever it is called.

Each kind of file keeps what its readers in facts/ and programs/ look at. Of a comment `#` stays, and of a
line that nothing reads, so that lines keep their numbers. Runs on Python 3.8, alone.
"""

from __future__ import annotations

import re
from typing import Callable, Tuple

from .kernel_arguments import (
    arguments_in_log,
    defaults_of_grub,
    entry_of_loader,
    environment_of_grub,
    one_line,
)
from .kernel_log import log_in_bundle
from .module_parameters import DROPPED, RANDOM, value_kept
from .settings import settings_in_file
from .shell_commands import without_words

_Reduce = Callable[[bytes], bytes]

_LINE = re.compile(rb"(?:[^\\\n]|\\.|\\\Z)+", re.DOTALL)
"""A line with those that a backslash joins to it."""


def _by_line(line_kept: _Reduce) -> _Reduce:
    """A reduction of each line alone; one of nothing but blanks stays."""

    def reduced(data: bytes) -> bytes:
        return _LINE.sub(lambda line: line_kept(line[0]) if line[0].strip() else line[0], data)

    return reduced


def _only(pattern: "re.Pattern[bytes]") -> _Reduce:
    """Keeps the lines of this form, up to a comment."""

    def line_kept(line: bytes) -> bytes:
        found = pattern.match(line)
        if found is None or line[found.end() :].strip()[:1] not in (b"", b"#"):
            return b"#"
        return line if found.end() == len(line) else found[0] + b"#"

    return _by_line(line_kept)


# -- modules ---------------------------------------------------------------------------------------------

_GLOB = rb"[\w*?:.\[\]/,-]{1,128}"
_DIRECTIVE = re.compile(
    rb"\s*(?:(?:blacklist|include)\s+" + _GLOB
    + rb"|(?:alias)\s+" + _GLOB + rb"\s+[\w-]{1,64}"
    + rb"|(?:softdep|weakdep)\s+[\w-]{1,64}(?:\s+[\w-]{1,64}:?)*"
    + rb"|allow_unsupported_modules\s+\w+)(?!\S)"
)  # fmt: skip
_OPTIONS = re.compile(rb"(?P<head>\s*options\s+[\w-]{1,64})(?=\s)")
_COMMAND = re.compile(rb"(?P<head>\s*(?:install|remove)\s+[\w*?-]{1,64}\s)")
_FIRST = re.compile(rb"[a-z_]{1,32}")
_FLAG = re.compile(rb"[a-z]{1,12}(?:_[a-z0-9]{1,12}){1,5}|modeset|fbdev|dyndbg|--|\d{1,3}")
_ARGUMENT = re.compile(rb"""(?<!\S)(?P<name>[\w.-]{1,64})(?:=(?P<value>(?:"[^"]*"?|[^\s"])*))?|[^\s]+""")


def _modprobe_line(line: bytes) -> bytes:
    """modprobe.d(5). A line that modprobe complains about keeps its first word."""
    first, *rest = line.split(None, 1)
    if first.startswith(b"#"):
        return line[: line.index(b"#") + 1]
    if first in (b"install", b"remove"):
        command = _COMMAND.match(line)
        return command["head"] + without_words(line[command.end() :]) if command else first + b" " + DROPPED
    if first == b"options":
        options = _OPTIONS.match(line)
        return options["head"] + _arguments(line[options.end() :]) if options else first + b" " + DROPPED
    plain = _DIRECTIVE.match(line)
    if plain:
        left = line[plain.end() :].strip()
        return line if not left else plain[0] + b" " + DROPPED
    if _FIRST.fullmatch(first):
        return first + (b" " + DROPPED if rest else b"")
    return DROPPED


def _arguments(text: bytes) -> bytes:
    return _ARGUMENT.sub(_argument, text)


def _argument(found: "re.Match[bytes]") -> bytes:
    name, value = found["name"], found["value"]
    if name is None:
        return found[0] if found[0] in (b"\\", b"=") else DROPPED
    if _FLAG.fullmatch(name) if value is None else value_kept(name, value):
        return found[0]
    if value is None:
        return DROPPED
    return (DROPPED if RANDOM.search(name) else name) + b"=" + DROPPED


_MODULE = re.compile(rb"(?P<head>\s*[\w-]{1,64})(?P<rest>(?:\s.*)?)", re.DOTALL)


def _module_line(line: bytes) -> bytes:
    """modules-load.d(5), modules(5): a name, and in the latter arguments."""
    found = _MODULE.fullmatch(line)
    return b"#" if found is None else found["head"] + _arguments(found["rest"].partition(b"#")[0])


_DEPMOD = re.compile(
    rb"\s*(?:search(?:\s+[\w./-]{1,64})+|override\s+[\w-]+\s+[\w.*+-]+\s+[\w./-]{1,128}|external\s+\S{1,64}\s+[\w./-]{1,128}"
    rb"|exclude\s+[\w./-]{1,64}|make_map_files\s+\w+)\s*"
)  # fmt: skip
_LOADS = re.compile(rb"modprobe|insmod|peer.?mem")
_OF_UNIT = re.compile(
    rb"\[\w{1,16}\]|(?:After|Before|Requires|Wants|BindsTo|PartOf|WantedBy|RequiredBy)="
    rb"(?:[\w@-]{1,48}\.\w{6,7}[ ]?)*|Type=\w{1,16}|RemainAfterExit=\w{2,5}|LimitMEMLOCK=[\w:]{1,40}"
)


def _loading_line(line: bytes) -> bytes:
    """A script, a rule or a unit: what loads modules, or names nvidia-peermem, and when a unit runs."""
    if _OF_UNIT.fullmatch(line):
        return line
    if line.lstrip()[:1] in (b"#", b";") or not _LOADS.search(line):
        return b"#"
    key = re.match(rb"\s*Exec\w{4,16}=", line)
    end = key.end() if key else 0
    return line[:end] + without_words(line[end:])


_ENTRY = re.compile(rb"[ ]*\w{1,64}=(?:0[xX][0-9a-fA-F]{1,8}|\d{1,10})[ ]*")
_PARAMETER = re.compile(rb"(?P<name>\w{1,64}): (?:-?\d{1,20}|\"(?P<text>[^\"]*)\")")


def _driver_line(line: bytes) -> bytes:
    """/proc/driver/nvidia/params: numbers, and the entries of a text that are numbers."""
    found = _PARAMETER.fullmatch(line)
    if found is None:
        return b"#"
    text = found["text"]
    if not text or value_kept(b"NVreg_" + found["name"], text):
        return line
    entries = (entry if not entry or _ENTRY.fullmatch(entry) else DROPPED for entry in text.split(b";"))
    return found["name"] + b': "' + b";".join(entries) + b'"'


# -- others ------------------------------------------------------------------------------------------------

_LIMIT = re.compile(
    rb"\s*[\w@*%:.-]{1,32}\s+(?:soft|hard|-)\s+memlock\s+(?:unlimited|infinity|-?\d{1,20})\s*"
)
_SIGNING_KEY = re.compile(rb"\s*(?:mok_signing_key|mok_certificate)=([\"']?)(?:/[\w.+@$-]{1,64}){0,16}\1\s*")
_CUFILE = re.compile(rb'"(?:use_pci_p2pdma|allow_compat_mode|force_compat_mode)"\s*:\s*(?:true|false)\b')
_JSON_COMMENT = re.compile(rb"//|#")


def _cufile_line(line: bytes) -> bytes:
    """cufile.json: the switches that decide the way of data. Its other values may be any text."""
    return b", ".join(_CUFILE.findall(_JSON_COMMENT.split(line, 1)[0])) or b"#"


_PROVIDER = re.compile(rb"\s*driver\s+[\w./-]{1,128}\s*")
_STREAM = re.compile(rb"\[[\w-]{1,64}\]|(?:name|stream|profiles|state)=[\w.-]{0,64}")
_FABRIC = re.compile(
    rb"[\[\]\w :.]{0,80}(?:driver interface version [\d.]+ don't match with driver version [\d.]+"
    rb"|Fabric Manager version [\w ]{0,16}: [\d.]+|Successfully configured all the available [\w :,.()-]*)"
)

_DKMS = re.compile(
    rb"[\w.-]{1,64}[/,] ?[\w.+~-]{1,64}(?:, [\w.+~-]{1,128}){0,2}: (?:added|built|installed)[\w ()!-]*",
    re.ASCII,
)
_TEXT = rb"[\w .,:'/()+-]{0,160}"
_POD = re.compile(_TEXT + rb"(?:nvidia.peermem|ib_register_peer|nvidia_p2p|mellanox ofed)" + _TEXT)
_DEVICE = re.compile(rb"hca_id:.*|[ \t].*")
_PROCESS = re.compile(rb"(?m)^(?P<name>[ \t]+Name[ \t]+: \S+ )[^\n]*")
"""`nvidia-smi -q`: a process may have its arguments in its name."""
_VITAL = re.compile(rb"(?m)^(?P<name>\s*\[(?!PN\]|EC\])[A-Z][A-Z0-9]\][^:\n]{0,64}: )[^\n]*")
"""lspci(8): of vital product data, the numbers of the part stay; its owner may write the others."""


def _behind(pattern: "re.Pattern[bytes]") -> _Reduce:
    """Drops what follows the name in each of these lines."""
    return lambda data: pattern.sub(rb"\g<name>" + DROPPED, data)


_KINDS: Tuple[Tuple["re.Pattern[str]", _Reduce], ...] = tuple(
    (re.compile(pattern), reduced)
    for pattern, reduced in (
        (r"proc/cmdline|etc/kernel/cmdline(?:\.d/[^/]+)?", one_line),
        (r"etc/default/grub(?:\.d/[^/]+)?", defaults_of_grub),
        (r"boot/grub2?/grubenv", environment_of_grub),
        (r"boot/loader/entries/[^/]+", entry_of_loader),
        (r"(?:etc|run|(?:usr/(?:local/)?)?lib)/modprobe\.d/.+|etc/modprobe\.conf", _by_line(_modprobe_line)),
        (r"(?:etc|run|(?:usr/(?:local/)?)?lib)/modules-load\.d/.+|etc/modules", _by_line(_module_line)),
        (r"(?:etc|run|(?:usr/(?:local/)?)?lib)/depmod\.d/.+", _only(_DEPMOD)),
        (
            r"etc/rc\.local|etc/rc\.d/rc\.local|etc/udev/rules\.d/.+|(?:etc|(?:usr/)?lib)/systemd/system/.+",
            _by_line(_loading_line),
        ),
        (r"(?:sos_commands/kernel/)?dmesg|sos_commands/logs/journalctl.*", log_in_bundle),
        (r"sos_commands/kernel/dkms_status", _only(_DKMS)),
        (r"sos_commands/infiniband/ibv_devinfo.*", _only(_DEVICE)),
        (r"sos_commands/gdr/nvidia-smi_-q.*", _behind(_PROCESS)),
        (r"sos_commands/pci/lspci.*", _behind(_VITAL)),
        (r"var/log/fabricmanager\.log", _only(_FABRIC)),
        (r"var/log/pods/.+", _only(_POD)),
        (r"proc/driver/nvidia/params", _by_line(_driver_line)),
        (r"etc/security/limits\.(?:conf|d/.+)", _only(_LIMIT)),
        (r"etc/dkms/.+", _only(_SIGNING_KEY)),
        (r"etc/cufile\.json", _by_line(_cufile_line)),
        (r"etc/libibverbs\.d/.+", _only(_PROVIDER)),
        (r"etc/dnf/modules\.d/.+", _only(_STREAM)),
        (
            r"(?:etc/|root/\.|home/[^/]+/\.)nccl\.conf|etc/ucx/ucx\.conf|etc/environment|proc/(?:self|\d+)/environ",
            settings_in_file,
        ),
    )
)


def without_unread(path: str, data: bytes) -> bytes:
    """The content of a file without what no rule reads; of one of no kind that is known here, without the
    values of kernel arguments alone. `path`: relative to the root."""
    for pattern, reduced in _KINDS:
        if pattern.fullmatch(path):
            return reduced(data)
    return arguments_in_log(data)
