"""A failed registration of memory in the words of any program: its possible causes by the error.

The catalogue has the exact messages of many programs. This reads the rest: a word for registering memory
and, in any order, an error by text or number. Such a line proves nothing.
"""

from __future__ import annotations

import functools
import re

from gdrkit.formats.regex import regex
from gdrkit.messages.errors import EFAULT, EINVAL, ENOMEM, UNSUPPORTED, strerror
from gdrkit.messages.verbs_failures import NO_DMABUF, causes_of

ENOTSUPP = 524
"""What drivers return for a mapping they do not support; it has no text. Linux include/linux/errno.h."""

_ERRORS = (ENOMEM, EFAULT, EINVAL, *UNSUPPORTED, ENOTSUPP)
_WORDS = regex(
    r"\bregist\w*\b.{0,60}\b(?:memory|buffers?|regions?|MRs?|address|mr)\b"
    r"|\b(?:memory|buffers?|regions?|MR)\b.{0,30}\bregist|reg_?(?:dmabuf_)?mr"
    r"|\b(?:create|allocate) MR\b|\buse_cuda",
    re.IGNORECASE,
)
LINE_CHARACTERS = 1000
"""How much of a line is searched."""


@functools.lru_cache(maxsize=4096)
def causes(text: str) -> tuple[str, ...]:
    """The possible causes of a failed registration, likeliest first; () if a line does not report one."""
    text = text[:LINE_CHARACTERS]
    found = _error().search(text) if any(word in text for word in ("eg", "MR", "use_cuda")) else None
    if found is None or _WORDS.search(text) is None:
        return ()
    number = next(int(name[1:]) for name, value in found.groupdict().items() if value)
    if number == ENOTSUPP:
        return ("topology-refused", "iommu-groups-differ")
    if number in UNSUPPORTED:
        return NO_DMABUF if re.search("dma-?buf", text, re.IGNORECASE) else ("memory-not-registrable",)
    return causes_of("ibv_reg_mr", number)


@functools.cache
def _error() -> re.Pattern[str]:
    """An error by text, as `errno=14`, `[14]` or `RC: -22`; the group's name has the number."""
    return re.compile(
        "|".join(
            rf"(?P<e{number}>{re.escape(strerror(number))}"
            rf"|(?:\b(?:errno|error|err|ret|rc|status)\b ?[=:]? ?-?|\[-?|\bfail\w*:? ?\(-?)"
            rf"\b{number}\b)"
            for number in _ERRORS
        ),
        re.IGNORECASE,
    )
