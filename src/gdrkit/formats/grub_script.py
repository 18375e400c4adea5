r"""Where GRUB's script language ends a command.

    linux /vmlinuz ro pci=disable_acs_redir=0000:17:01.0;0000:17:02.0 quiet

gives the kernel `ro pci=disable_acs_redir=0000:17:01.0`: a bare `;` ends the command, and what follows is
the next one. Source: GRUB manual 2.06, Shell-like scripting, Quoting and Comments; tried with grub-emu 2.06,
for which `{ } | & < >` are syntax errors, and a word that begins with `#` ends the line.
"""

from __future__ import annotations

import re

from gdrkit.formats.regex import regex

_QUOTED = r"\\.|'[^']{0,65536}(?:'|\Z)|\"(?:[^\"\\]|\\.){0,65536}(?:\"|\Z)"
_END = regex(rf"{_QUOTED}|(?P<end>;|(?<!\S)#)", re.S)


def command_end(text: str) -> int:
    """Where a bare `;` or a comment ends the command that a text begins with; -1 if nothing does."""
    ends = (match.start() for match in _END.finditer(text) if match["end"])
    return next(ends, -1)
