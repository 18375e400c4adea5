"""Kernel arguments, quoted for the boot loader that reads them."""

from __future__ import annotations

import re

from gdrkit.formats.regex import regex

_PLAIN = regex(r"[A-Za-z0-9_.,:@=/+%^~-]*", re.ASCII)
"""No shell, GRUB script or kernel treats these as anything else than themselves: POSIX.1-2017, Shell Command
Language, 2.2; GRUB manual 2.06, Shell-like scripting; Linux lib/cmdline.c, next_arg()."""


def for_grub(argument: str) -> str:
    """The argument as GRUB's script has it, with its value in single quotes if it needs any.

    They survive what carries it there: the double quotes of /etc/default/grub, 10_linux, and grubby, which
    writes between double quotes without escaping any, and through sed, which removes backslashes.
    Source: GRUB manual 2.06, Quoting; Debian's /etc/grub.d/10_linux; grubby-bls, update_bls_fragment().
    """
    return _quoted(argument, "'")


def for_kernel(argument: str) -> str:
    """The argument with its value in double quotes if it needs any: both the kernel and GRUB remove them.

    Source: Linux Documentation/admin-guide/kernel-parameters.rst, and lib/cmdline.c, next_arg().
    """
    return _quoted(argument, '"')


def _quoted(argument: str, mark: str) -> str:
    if _PLAIN.fullmatch(argument):
        return argument
    if set(argument) & {"'", '"', "\\", "\n"}:
        raise ValueError(f"no boot loader takes this argument safely: {argument}")
    name, equals, value = argument.partition("=")
    return f"{name}{equals}{mark}{value}{mark}"
