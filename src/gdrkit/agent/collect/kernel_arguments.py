"""Kernel arguments without the values that no rule reads: any of them may be a secret of an initramfs, an
installer or an init. A parameter keeps its name: `nfsroot=(dropped)`. Runs on Python 3.8, alone.
"""

from __future__ import annotations

import re

DROPPED = b"(dropped)"

READ = re.compile(
    rb"(?:amd_|arm_|intel_|s390_)?iommu(?:[._-]\w+)?|pci|pcie_\w+|efi|secureboot|lockdown|kho"
    rb"|module[._-]blacklist|module\.sig[._-]enforce|initcall[._-]blacklist|modprobe\.blacklist"
    rb"|(?:nvidia|nouveau|nova|nv_peer|gdrdrv|mlx|ib_|iw_|rdma|bnxt|irdma|ice|efa|mana|amdgpu|amdkfd|drm|vfio)"
    rb"[\w-]*\.[\w-]+"
)
"""The parameters whose values rules, remedies and the traits of a fleet read: facts/kernel.py,
boot_parameter(); facts/modprobe_config.py, options of the modules of GPUs and NICs; fleet/traits.py, which
compares these."""

_HOLDS_ARGUMENTS = re.compile(rb"GRUB_CMDLINE\w*\+?|kernelopts")
"""What has kernel arguments for its value: /etc/default/grub, grubenv."""

_PIECE = re.compile(rb"\n|\r|[^\S\n\r]+|\\?[\"']|[;=#$`]|\\.?|[^\s\"';=#$`\\]+", re.DOTALL)
_PLAIN_WORDS = re.compile(rb"((?<!\S)(?:(?!--|GRUB_CMDLINE|kernelopts)[^\s\"';#$`\\]+\s+)+)")
"""Words that only blanks separate. They are read at once, as the values of all other words are in pieces."""

_LINE_ENDS = frozenset((b"\n", b"\r", b"\\\n", b"\\\r"))
_ACTED_ON = (b";", b"$", b"`", b"\\\n")
"""What GRUB and the shell act on remains in place, also in a value; so do quotation marks."""

_FILES = re.compile(
    r"(?P<one>proc/cmdline|etc/kernel/cmdline(?:\.d/[^/]+)?)|boot/grub2?/grubenv"
    r"|(?P<sh>etc/default/grub(?:\.d/[^/]+)?)|(?P<entry>boot/loader/entries/[^/]+)"
)

_LOGGED = re.compile(
    rb"(?P<name>\b[Cc]ommand line(?: parameters)?:? |(?:\]|\bkernel:) {4,8}(?=[A-Za-z][\w.-]{0,63}=))"
    rb"(?P<value>[^\n]+)"
)
"""Linux init/main.c: start_kernel(), print_unknown_bootoptions() and run_init_process(), which prints what
the kernel did not know as the environment of init; arch/x86/kernel/setup.c, setup_arch()."""


def arguments_in_file(path: str, data: bytes) -> bytes:
    """The content of a file, without such values if it has kernel arguments."""
    found = _FILES.fullmatch(path)
    if found is None:
        return data
    if found["sh"]:
        return _without_values(data, b"\"'", script=True)
    quotes = b"\"'" if found["entry"] else b'"'
    if not _NEEDS_READING.search(data):
        return _ARGUMENT.sub(_plain, data)  # at once: a file has many lines
    if not found["one"]:
        data = b"".join(b"#\n" if line.lstrip()[:1] == b"#" else line for line in data.splitlines(True))
    return _without_values(data, quotes)


_NEEDS_READING = re.compile(rb"[\"'\\;$`#]|--|GRUB_CMDLINE|kernelopts")
"""What makes more of a text than words that are separated by blanks."""

_ARGUMENT = re.compile(rb"(?<!\S)(?!(?:" + READ.pattern + rb")=)(\S[^\s=]*=)\S+")
"""One whose value is dropped."""


def _plain(argument: re.Match[bytes]) -> bytes:
    return argument[1] + DROPPED


def arguments_in_log(data: bytes) -> bytes:
    """A kernel log, without such values where it shows the command line."""
    return _LOGGED.sub(lambda line: line["name"] + _without_values(line["value"], b'"'), data)


def _without_values(data: bytes, quotes: bytes, *, script: bool = False) -> bytes:
    """`quotes`: what protects blanks; in a script also line ends. Of comments in a script, `#` remains."""
    if not script and not _NEEDS_READING.search(data):
        return _ARGUMENT.sub(_plain, data)
    words, out, comment = _Words(quotes), [], False
    for number, part in enumerate(_PLAIN_WORDS.split(data)):
        if number % 2 and words.ended and not comment:
            out.append(_ARGUMENT.sub(_plain, part))
            continue
        for piece in _PIECE.findall(part):
            if comment and piece != b"\n":
                continue
            comment = script and piece == b"#" and words.at_start
            out.append(words.kept(piece))
            if not script and piece in _LINE_ENDS:
                words = _Words(quotes)
    return b"".join(out)


_MARKS = {
    b'"': frozenset((b'"', b'\\"')),
    b"\"'": frozenset((b'"', b'\\"', b"'", b"\\'")),
}
"""The pieces that each set of quotation marks makes."""


class _Words:
    """Reads pieces of words in turn, and says what is kept of each."""

    def __init__(self, quotes: bytes) -> None:
        self._quotes = _MARKS[quotes]
        self._around = self._inner = b""  # the quotation marks of a list of arguments, and of a value in it
        self._for_init = self._holds = False
        self._begin()

    def _begin(self) -> None:
        self._name = bytearray()  # bytes would be copied for each piece
        self._in_value = self._drops = self._said = False

    @property
    def ended(self) -> bool:
        """Whether the next piece begins a word that is read like any other."""
        return not (self._name or self._in_value or self._inner or self._for_init or self._holds)

    @property
    def at_start(self) -> bool:
        """Whether the next piece begins a word that no quotation marks surround."""
        return not (self._name or self._in_value or self._inner or self._around)

    def kept(self, piece: bytes) -> bytes:
        if piece.isspace():
            return self._blank(piece)
        holds, self._holds = self._holds, False
        if piece in self._quotes:
            return self._quote(piece, holds)
        if piece == b"=" and self._name and not self._in_value:
            return self._equals()
        if not self._in_value:
            self._drops = self._drops or (self._for_init and not self._name and not READ.fullmatch(piece))
            self._name += piece
        return self._dropped(piece) if self._drops else piece

    def _blank(self, piece: bytes) -> bytes:
        if self._inner:
            return b"" if self._drops else piece
        self._for_init = self._for_init or self._name == b"--"
        self._begin()
        return piece

    def _quote(self, piece: bytes, holds: bool) -> bytes:
        if self._inner:
            self._inner = b"" if piece == self._inner else self._inner
        elif piece == self._around:
            self._around = b""
            self._begin()
        elif holds:
            self._around = piece
        else:
            self._inner = piece
        return piece

    def _equals(self) -> bytes:
        if _HOLDS_ARGUMENTS.fullmatch(self._name):
            self._begin()
            self._holds = True
        else:
            self._in_value, self._drops = True, not READ.fullmatch(self._name)
        return b"="

    def _dropped(self, piece: bytes) -> bytes:
        if piece in _ACTED_ON:
            self._said = False
            return piece
        said, self._said = self._said, True
        return b"" if said else DROPPED
