"""Whether a sentence negates what it names, or names it as what the problem does not occur with."""

from __future__ import annotations

import re

from gdrkit.explain import outcomes

_RARE = r" (?:work (?:if|when|with)\b|occur|happen|reproduce|appear|fail|crash|hang|only|just)"
"""What a negation before these words says: the failure is not there, or not that alone."""

_SAYS = (
    r" (?:(?:clearly|really|even|explicitly) )?(?:say|mention|tell|told|explain|hint|indicat|clear|obvious)"
)
"""The same: a message, or a document, is silent about a cause, which is there all the same."""

_NOT = re.compile(
    rf"(?:\bnot?\b(?!{_RARE}|{_SAYS})|n't\b(?!{_RARE}|{_SAYS})|\bnever\b(?! mind|{_SAYS})|\bwithout\b"
    rf"|\bunlike\b|\binstead of\b"
    rf"|\bother"
    rf" than\b|\brather than\b"
    r"|\bcompared (?:to|with)\b|\bspecific to\b|\u4e0d\u662f|\u6ca1\u6709|\bkein\w*|\bnicht\b|\bpas\b)"
    r"(?:(?!\b(?:so|because|but|therefore|hence|thus|although|while|since)\b)[^.:;!?,]){0,40}$",
    re.IGNORECASE,
)


_AVOIDS = re.compile(
    r"(?:\b(?:do|does|did)(?: not|n't) (?:occur|happen|reproduce|appear|fail|crash|hang)"
    r"|\b(?:go(?:es)?|went) away|\bdisappear\w*|(?<!not )(?<!n't )\b(?:works?|worked)(?: fine| well)?"
    r"|\b(?:is|are|was|were|be|been|got) (?:solved|fixed|resolved|avoided|gone|mitigated|worked around))"
    r"(?: any ?more)? (?:when|if|with|once|as soon as|under|by(?: setting| using| passing)?|using|via)\b"
    r"[^.;!?]{0,100}$",
    re.IGNORECASE,
)


_RAN = re.compile(
    r"[`\"']?[A-Z]\w*=\w*[`\"')\]]{0,3} (?:ran|runs|finish\w*|complet\w*|pass(?:es|ed)|train(?:s|ed))\b"
)
"""A setting with which a job went through."""

_CONDITION = re.compile(r"(?:^|[\s\d.)])(?:if|when|with|once) [^.;!?]{0,60}$", re.IGNORECASE)
_IS_GONE = re.compile(
    r"[^.;!?]{0,120}\b(?:issue|error|problem|crash|hang|failure|it|this)s? (?:(?:is|are|was"
    r"|were) )?(?:now )?"
    r"(?:gone|go(?:es)? away|went away|disappear\w*|solved|fixed|resolved|vanish\w*)\b",
    re.IGNORECASE,
)
"""What follows where the problem does not occur with what a sentence names: "if I set X, it is gone"."""


_FAILS_THERE = re.compile(
    r"(?:\bnot|n't|\bnever) (?:work|us|support|find|found|see|detect|enabl|load|show|get|reach|achiev"
    r"|register|start|initiali[sz]|possible|available)\w*\b"
    r"[^.:;!?,]{0,40}\b(?:on|in|inside|under|between|across|with)\b[^.:;!?,]{0,25}$",
    re.IGNORECASE,
)
"""What fails at a place: "it does not work on a Spark" denies no Spark."""
_UNDONE = re.compile(
    r"\w+(?: [\w-]+){0,2} (?:(?:is|are|was|were|has|have|had|do|does|did)(?:n't| not| never))\b"
    r"(?! (?:\w+ )?(?:need|requir|necess|help|chang|work|fix|solv|resolv|matter|the |an? |why\b))",
    re.IGNORECASE,
)
"""What says of a cure that it was not done: "the enrollment is never staged"."""

_EXAMPLE = re.compile(r"\bsuch as\b[^.;:!?]{0,160}$", re.IGNORECASE)
"""What names something as an example only: "failures such as a missing module or a low limit"."""


def is_undone(text: str, start: int) -> bool:
    """Whether a sentence says that the cure which it names at `start` was not done."""
    return _UNDONE.match(text, start) is not None


def is_example(text: str, start: int) -> bool:
    """Whether a sentence names what it says at `start` as an example."""
    return _EXAMPLE.search(text[:start]) is not None


def is_negated(text: str, start: int) -> bool:
    """Whether what a sentence says at `start` is negated shortly before."""
    before = text[:start]
    return _NOT.search(before) is not None and _FAILS_THERE.search(before) is None


def is_avoided(text: str, start: int) -> bool:
    """Whether what a sentence says at `start` is what the problem does not occur with: "works with X"."""
    if _AVOIDS.search(text[:start]) or outcomes.is_in_comparison(text, start) or _RAN.match(text[start:]):
        return True
    return _CONDITION.search(text[:start]) is not None and _IS_GONE.match(text[start:]) is not None
