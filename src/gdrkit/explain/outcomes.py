"""What a change led to: "adding iommu=pt gives 12 GB/s", "with ACS off the script finishes".

People say that they found the cause by what they changed and what was good then, in any words for both. A
state that they name in the change ("with NCCL_IB_DISABLE=1 it finishes") avoids the problem.
"""

from __future__ import annotations

import functools
import re

_DO = (
    r"(?:add|set|us|enabl|disabl|load|install|remov|switch|chang|pass|mount|turn|export|upgrad|downgrad|updat"
    r"|rebuild|recompil|reinstall|increas|rais|lower|reduc|unset|unload|plug|swap|replac|mov|giv|grant|expos"
    r"|bind|restart|reboot|start|stopp?|appl[yi]|fix|correct|enroll?|sign|adjust|align)"
)
_DOING = rf"{_DO}\w*ing"
_AT_START = (
    r"^\W*(?!(?:during|nothing|something|anything|everything|following|including|running|testing|training"
    r"|measuring|benchmarking|according|looking|regarding|depending|considering|assuming|checking|debugging"
    r"|being|having|getting|seeing|trying)\b)[a-z]{2,14}ing\b"
)
"""Any other activity with which a sentence begins: "booting with", "listing all"."""
_QUALITY = (
    r"(?:(?:finish|pass)(?:es|ed)|complet(?:es|ed)|succeed(?:s|ed)"
    r"|(?:goes|went|gets|got|comes|came) (?:through|up)\b"
    r"|(?:is|are|was|were|becomes?|became|looks?) (?:\w+ )?"
    r"(?:fine|ok(?:ay)?|normal|good|healthy|as expected|gone)\b"
    r"|(?:is|are|was|were|goes|went) back to normal|recover(?:s|ed)|(?:works|worked|runs|ran)\b)"
)
_EFFECT = (
    r"(?:(?:fixe|solve|resolve|cure|restore|eliminate)[sd]\b"
    r"|(?:reach|achiev|giv|get|gave|got|see|saw|observ|show|measur|yield|bring|brought)\w*"
    r" (?:\w+ ){0,3}[~\u2248]?\d[\d.,]* ?(?:x\b|times\b|[GM]i?B/s|[GM]b(?:it)?(?:/s|ps)|GBps|%)"
    r"|(?:takes|took|brings|brought|moves|moved|raises|raised)\b.{0,30}\bto \d"
    r"|(?:jump|r(?:i|o)se|go(?:es)? up|went up|increas|improv|doubl|tripl)\w*)"
)
_PATTERNS = {
    "changed": (
        rf"(?P<change>(?:{_AT_START}|\b(?:after|once|by )?\b{_DOING}|\b(?:after|once) (?:I|we|the|they)\b"
        rf"|\bafter {_DO}\w* (?:it|this|that|them)\b)"
        rf"(?:[^.;!?]|\.(?=\d)){{0,100}}?)\b(?P<good>{_QUALITY}|{_EFFECT})"
    ),
    "compared": rf"(?P<change>\b(?:with|without)\b(?:[^.;!?]|\.(?=\d)){{0,80}}?)\b(?P<good>{_QUALITY})",
    "refers": rf"\b{_DOING} (?:(?:the|both|all) (?P<noun>\w{{3,}})|(?:it|this|that|them|those|these)\b)",
    "bad": (
        r"(?<!no )(?<!no more )(?<!without )\b(?:fail|error|crash|hang|hung|stuck|slow|drop|still|only|but"
        r"|however|not|never|nothing|half|bad|poor|worse|cannot)\w*\b|n't\b"
    ),
}


@functools.cache
def _compiled(name: str) -> re.Pattern[str]:
    return re.compile(_PATTERNS[name], re.IGNORECASE)


def _good(name: str, text: str) -> re.Match[str] | None:
    found = _compiled(name).search(text)
    return found if found and not _compiled("bad").search(text, max(0, found.start("good") - 12)) else None


def is_good(text: str) -> bool:
    """Whether a sentence says that something was good after a change."""
    return any(_good(name, text) for name in ("changed", "compared"))


def is_changed(text: str) -> bool:
    """Whether a sentence says what was changed and that it was good then; not what it is good with."""
    return _good("changed", text) is not None


def refers_back(text: str, before: str) -> bool:
    """Whether what was changed is named in a sentence before: "after loading the module"."""
    found = _compiled("refers").search(text)
    return found is not None and (found["noun"] or "").lower().removesuffix("s") in before.lower()


def is_in_comparison(text: str, start: int) -> bool:
    """Whether what a sentence says at `start` is what it is good with."""
    found = _good("compared", text)
    return found is not None and found.start("change") <= start < found.end("change")
