"""Commands in configuration without the words that no rule reads: any of them may be a secret. What loads a
module, asks or ends stays, and what separates commands; `curl -u bob:x` is `(dropped)`. Runs on Python 3.8,
alone.
"""

from __future__ import annotations

import re
from typing import List

from .module_parameters import DROPPED, MODULE, RANDOM, value_kept

_PIECE = re.compile(
    rb"""(?P<comment>(?:\A|(?<=[\s;&|]))\#[^\n]*)"""
    rb"""|(?P<nowhere>(?:\d?>>?[ \t]*|&>[ \t]*|\d?<[ \t]*)/dev/null(?!\S)|\d?>&\d)"""
    rb"""|(?P<blank>(?:[ \t]|\\\n)+)|(?P<word>(?:\\[^\n]|[^\s;&|`()"'<>\\])+)|(?P<end>[\n;&|`(<>])|.""",
    re.DOTALL,
)
"""Comments, output that goes nowhere, words, and what separates and quotes them: sh(1)."""

_LOADER = re.compile(rb"[-@:+!|]*(?:/(?:usr/)?s?bin/)?(?:modprobe|insmod|rmmod|kmod|depmod)")
_PROGRAM = re.compile(
    rb"[-@:+!|]*(?:/(?:usr/)?s?bin/)?(?:true|false|exit|exec|return|:|\[\[?|\]\]?|test|sleep|sh|bash|systemctl|udevadm)"
    rb"|if|then|else|fi|do|done|[{}!]"
)
_OPTION = re.compile(rb"-{1,2}[a-z][a-z-]{0,30}|-[A-Za-z]{1,3}|--")
_PLACE = re.compile(rb"/(?:sys|proc|dev|lib|usr|sbin|bin|run)(?:/[\w.+*$-]{1,48}){1,12}/?")
_NAME = re.compile(rb"[a-z][a-z0-9]{0,15}(?:[_-][a-z0-9]{1,15}){0,6}")
_OTHER = re.compile(
    rb"start|restart|stop|settle|add|change|module|\d{1,3}(?:\.\d{1,3}){0,3}|\$CMDLINE_OPTS|[\w@-]{1,48}\.(?:service|target),?"
    rb"|,?[A-Z]{2,16}(?:\{\w{1,32}\})?[-+:!=]?=,?|,"
)
"""What systemctl(1) does, udev(7) compares, and statuses of exit."""
_KEPT = re.compile(b"|".join(kind.pattern for kind in (_LOADER, _PROGRAM, _OPTION, _OTHER, _PLACE, MODULE)))
_ARGUMENT = re.compile(rb"([A-Za-z]\w{0,63})=(\S*)")


def without_words(text: bytes) -> bytes:
    """A line or a script without such words."""
    kept: List[bytes] = []
    blank, loads, said = b"", False, False
    for piece in _PIECE.finditer(text):
        word, kind = piece[0], piece.lastgroup
        if kind == "comment":
            word = b"#"
        elif kind == "word":
            loads = loads or _LOADER.fullmatch(word) is not None
            stays = _is_kept(word, loads)
            if said and not stays:
                blank = b""
                continue
            word, said = (word, False) if stays else (DROPPED, True)
        elif kind == "end":
            loads = said = False
        elif kind == "blank":
            blank = word
            continue
        kept += [blank, word]
        blank = b""
    return b"".join((*kept, blank))


def _is_kept(word: bytes, loads: bool) -> bool:
    """Whether a word may stay; `loads`: it is an argument of modprobe(8) or its like."""
    word = word.replace(b"\\", b"")  # kmod drops it before it hands the line to a shell
    if loads:
        argument = _ARGUMENT.fullmatch(word)
        if argument or _NAME.fullmatch(word):
            return argument is None or value_kept(argument[1], argument[2])
    return _KEPT.fullmatch(word) is not None and not RANDOM.search(word)
