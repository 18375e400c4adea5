"""Kernel arguments without the words that no rule reads: any of them may be a secret of an initramfs, an
installer or an init. A parameter keeps its name: `nfsroot=(dropped)`. Runs on Python 3.8, alone.
"""

from __future__ import annotations

import re

from .module_parameters import DROPPED, MODULE, PLAIN, RANDOM, value_kept

READ = re.compile(
    rb"(?:amd_|arm_|intel_|s390_)?iommu(?:[._-]\w+)?|pci|pcie_\w+|efi|secureboot|lockdown|kho"
    rb"|module[._-]blacklist|module\.sig[._-]enforce|initcall[._-]blacklist|modprobe\.blacklist"
    rb"|rd\.(?:driver|modprobe)\.\w+|numa\w*|swiotlb|cma|mem\w{0,3}|(?:default_)?hugepages\w*|isolcpus|nohz_full"
    rb"|rcu_nocbs"
)
"""The parameters whose values rules, remedies and the traits of a fleet read, and some whose values are
numbers and lists of modules: facts/kernel.py, boot_parameter(); fleet/traits.py."""

_USUAL = re.compile(
    rb"(?:root|resume)=(?:/dev/[\w./-]{1,64}|(?:PART)?UUID=[0-9A-Fa-f-]{4,36})|BOOT_IMAGE=[\w(),./+~-]{1,128}"
    rb"|console=(?:tty|hvc)\w{0,8}(?:,\d{1,7}\w{0,2})?|crashkernel=[\dKMGkmg,:@-]{1,64}|transparent_hugepage=\w{5,7}"
)
"""Arguments of almost every node, in forms that hold no secrets."""

_MENU = re.compile(rb"GRUB_(?:DEFAULT|FLAVOUR_ORDER|TOP_LEVEL\w*)|(?:saved|next)_entry")
"""What decides which kernel is next: facts/next_kernel.py."""

_FLAG = re.compile(
    rb"quiet|splash|ro|rw|rhgb|debug|single|text|verbose|emergency|rescue|[1-5sS]|no[a-z_]{2,20}|-{2,3}"
    rb"|threadirqs|\$\{?\w{1,64}\}?"
)
"""Words without a value that stay; so does the name of a parameter that is read."""

LINE_BYTES = 16 << 10
"""Four times the longest line of a kernel's arguments, COMMAND_LINE_SIZE in arch/*/include/asm/setup.h."""
_OF_MODULE = re.compile(MODULE.pattern + rb"\.(?P<parameter>\w{1,64})")
_NAME = re.compile(rb"[\w.+-]{1,64}")

_KEPT = (
    rb"(?!(?:(?:" + _FLAG.pattern + rb"|" + MODULE.pattern + rb"\.\w{1,64});?"
    + rb"|(?:" + READ.pattern + rb")(?:=(?!\S*?(?:" + RANDOM.pattern + rb"))[^\s\"'\\]*)?;?"
    + rb"|[\w.-]{1,64}=" + PLAIN.pattern + rb";?|" + _USUAL.pattern + rb")(?!\S))"
)  # fmt: skip
"""Ahead of most words that stay: they are passed over at once."""
_BY_KERNEL = re.compile(rb"""(?<!\S)""" + _KEPT + rb"""(?:"[^"\n]*(?:"|\Z|(?=\n))|[^\s"])+""")
_BY_GRUB = re.compile(rb"""(?<!\S)""" + _KEPT + rb"""(?:\\?"[^"]*(?:"|\Z)|'[^']*(?:'|\Z)|[^\s"'])+""")
"""Other words, in which quotation marks protect blanks: kernel/params.c, next_arg(), and grub-script."""
_NAMED = rb"(?![\w.+-]{0,64}?(?:" + RANDOM.pattern + rb"))[\w.+-]{1,64}="
_BARE = re.compile(
    rb"(?<!\S)" + _KEPT + rb"(?!" + _NAMED + rb"(?!\S))(" + _NAMED + rb")?[^\s\"'\\;$`]+(?!\S)"
)
"""Others without a mark, of which a name with an empty value stays."""
_MARKS = re.compile(rb"[\"'\\;$`]")
_SAID = re.compile(rb"(?:[^\"';`\\\n]|\\(?![\"'\n]))+")
"""What is left out of a value: all but what GRUB and the shell act on, and quotation marks."""


def _arguments(text: bytes, word: re.Pattern[bytes]) -> bytes:
    """A list of arguments. What GRUB and the shell act on remains in place, and so do quotation marks. Of a
    list that is longer than any kernel's, no more remains."""
    if len(text) > LINE_BYTES:
        return _arguments(text[:LINE_BYTES], word) + b" " + DROPPED
    if not _MARKS.search(text):
        return _BARE.sub(rb"\1" + DROPPED, text)
    return word.sub(_argument, text)


def _argument(found: re.Match[bytes]) -> bytes:
    word = found[0]
    name, equals, value = word.partition(b"=")
    if not equals:
        return _emptied(word)
    option = _OF_MODULE.fullmatch(name)
    if READ.fullmatch(name) and not RANDOM.search(value):
        return word
    if option and value_kept(option["parameter"], value.strip(b"\"'\\;")):
        return word
    if not _NAME.fullmatch(name.lstrip(b"\"'\\")):
        return _emptied(word)
    if PLAIN.fullmatch(value.strip(b"\"'\\;")):
        return word
    if RANDOM.search(name):
        return _emptied(word)
    return name + b"=" + _emptied(value)


def _emptied(value: bytes) -> bytes:
    return _SAID.sub(DROPPED, value)


def one_line(data: bytes) -> bytes:
    """/proc/cmdline, /etc/kernel/cmdline."""
    return _arguments(data, _BY_KERNEL)


_SHELL_WORD = rb"""(?:"(?:[^"\\]|\\.)*(?:"|\Z)|'[^']*(?:'|\Z)|\\.|[^\s"'\\])*"""
_STATEMENT = re.compile(
    rb"^(?P<head>[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_]\w{0,63})\+?=)(?P<value>"
    + _SHELL_WORD
    + rb")[^\n]*|^[^\n]+",
    re.MULTILINE | re.DOTALL,
)
_SEGMENT = re.compile(rb"""(?:""|'')+|(")((?:[^"\\]|\\.)*)("?)|(')([^']*)('?)|(?:\\.|[^"'\\])+""", re.DOTALL)


def defaults_of_grub(data: bytes) -> bytes:
    """/etc/default/grub, which a shell reads. Of a comment and of any other command `#` remains."""
    return _STATEMENT.sub(_statement, data)


def _statement(found: "re.Match[bytes]") -> bytes:
    if found["name"] is None:
        return b"#"
    if _MENU.fullmatch(found["name"]):
        return found["head"] + found["value"]
    if not found["name"].startswith(b"GRUB_CMDLINE"):
        return b"#"
    return found["head"] + _SEGMENT.sub(_segment, found["value"])


def _segment(found: "re.Match[bytes]") -> bytes:
    """A part of a shell's word: in quotation marks, or not."""
    mark, inner, end = (found[1], found[2], found[3]) if found[1] else (found[4], found[5], found[6])
    if mark is None:
        return _arguments(found[0], _BY_GRUB) if found[0].strip(b"\"'") else found[0]
    return mark + _arguments(inner, _BY_GRUB) + end


_ASSIGNED = re.compile(rb"^(?:(?P<list>kernelopts=)|(?P<name>\w{1,64})=)?(?P<value>[^\n]+)", re.MULTILINE)


def environment_of_grub(data: bytes) -> bytes:
    """grubenv: lines of a name and a value."""
    return _ASSIGNED.sub(_assigned, data)


def _assigned(found: "re.Match[bytes]") -> bytes:
    if found["list"]:
        return found["list"] + _arguments(found["value"], _BY_KERNEL)
    if found["name"] is None:
        return b"#"
    return found[0] if _MENU.fullmatch(found["name"]) else found["name"] + b"=" + DROPPED


_KEY = re.compile(rb"^(?:(?P<key>[a-z][a-z_-]{0,31})(?P<blank>[ \t]+))?(?P<value>[^\n]+)", re.MULTILINE)
_PLACE = re.compile(rb"(?:[\w./+~-]{1,256}[ \t]*|\$\w{1,64}[ \t]*){1,8}")


def entry_of_loader(data: bytes) -> bytes:
    """An entry of the Boot Loader Specification: the options, the kernel and its files."""
    return _KEY.sub(_of_entry, data)


def _of_entry(found: "re.Match[bytes]") -> bytes:
    key, value = found["key"], found["value"]
    if key == b"options":
        return key + found["blank"] + _arguments(value, _BY_GRUB)
    if key is None:
        return b"#"
    kept = key in (b"linux", b"initrd", b"version") and _PLACE.fullmatch(value)
    return found[0] if kept else key + found["blank"] + DROPPED


_LOGGED = re.compile(
    rb"(?P<name>\b[Cc]ommand line(?: parameters \"|:? )|(?:\]|\bkernel:) {4,8}(?=[A-Za-z][\w.-]{0,63}=))"
    rb"(?P<value>[^\n]+)"
)
"""Linux init/main.c: start_kernel(), print_unknown_bootoptions() and run_init_process(), which prints what
the kernel did not know as the environment of init; arch/x86/kernel/setup.c, setup_arch()."""


def arguments_in_log(data: bytes) -> bytes:
    """A kernel log, without such words where it shows the command line."""
    return _LOGGED.sub(lambda line: line["name"] + _arguments(line["value"], _BY_KERNEL), data)
