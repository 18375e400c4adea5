"""How a person means a sentence: as a cause that was found, as a guess, as advice, or as a negation."""

from __future__ import annotations

import functools
import re


@functools.cache
def _compiled(name: str) -> re.Pattern[str]:
    return re.compile(_PATTERNS[name], re.IGNORECASE)


_PATTERNS = {
    "found": (
        r"\b(?:root[- ]?cause[ds]?|root problem|culprit|turn(?:s|ed) out|caused by|the cause|causes?\b"
        r"|(?:was|is) the (?:problem|issue|reason|cause|fix|solution|answer)"
        r"|the (?:actual |real |main |underlying )?(?:problem|issue|reason|explanation|fix|solution)"
        r" (?:was|is)"
        r"|(?:problem|issue)s? (?:was|were|is|are|got|gets) (?:solved|fixed|resolved|gone|caused)"
        r"|(?:solved|fixed|resolved|repaired) (?:it|this|that|the|my|our|by|with|after|when)"
        r"|(?:solves|fixes|resolves|explains) (?:it|this|that|the|my|our)"
        r"|until (?:I|we|he|they|the)"
        r"|after (?:I|we|he|they|having) (?:had |then )?(?:load|install|disabl|enabl|set|chang|upgrad"
        r"|updat|remov|add)"
        r"\w*|now (?:it )?works|works (?:now|again|fine (?:now|again|after|with|when)|after|once|when|if)"
        r"|(?:that|this|it) (?:did|does) (?:it|the trick)|helped|because|due to|comes? from|responsible for"
        r"|known (?:bug|issue|problem|limitation)|bug in|harmless|workaround|typo|misspelt|misspelled)\b"
        r"|\b(?:solved|fixed|resolved) ?[:!]|\u6839\u672c|\u539f\u56e0|\u5bfc\u81f4"
        r"|\u5df2\u7ecf?\u89e3\u51b3|\u89e3\u51b3\u4e86|\u56e0\u4e3a"
        r"|\u7531\u4e8e|\u6838\u5fc3\u662f|\u539f\u56e0\u306f|\u305f\u3081|\u89e3\u6c7a|\uc6d0\uc778"
        r"|\ub54c\ubb38|\ud574\uacb0"
        r"|\b(?:Ursache|lag an|l[i\u00e4]egt? an|weil|gel\u00f6st|behoben|cause[ds]? par|r\u00e9solu"
        r"|parce que|porque|causado|solucionado|resuelto|causa)\b"
        r"|\u043f\u0440\u0438\u0447\u0438\u043d|\u0438\u0437-\u0437\u0430|\u0440\u0435\u0448\u0435\u043d"
    ),
    "follows": (
        r"\b(?:caused by|causes?|because|due to|root cause|reason|comes? from"
        r"|therefore|hence|as a result|which (?:means|causes|leads|breaks)|leads? to|results? in"
        r"|instead of|rejected)\b"
        r"|\u539f\u56e0|\u5bfc\u81f4|\u56e0\u4e3a|\u7531\u4e8e|\u6838\u5fc3"
    ),
    "guess": (
        r"\?\s*[\"')*]*$|\uff1f|^\W*question\b|\b(?:maybe|perhaps|might|may be|could (?:be|it)|can it"
        r"|is it|i (?:think|guess|suspect"
        r"|believe|assume|wonder)|not sure|probably|possibly|seems?|suspected|presumably|wondering"
        r"|does anyone"
        r"|what if|i'd like to know|vermutlich|vielleicht|peut-\u00eatre|quiz\u00e1s?)\b"
        r"|\u6000\u7591|\u53ef\u80fd|\u662f\u4e0d\u662f|\u304b\u3082"
    ),
    "advice": (
        r"^\W*(?:\d+[.)]\s*)?(?:please |then |also |first |next,? |now )?(?:run|check|verify|ensure"
        r"|make sure|install|use"
        r"|set|add|enable|disable|load|try|see|note|consider|remember|confirm|do not|don't|never|always)\b"
        r"|\b(?:you (?:can|may|might|should|must|need|have to|will|would|could)|should\b|must be|it"
        r" is recommended"
        r"|we recommend|is (?:required|supported|recommended)|are (?:required|supported))\b"
        r"|\b(?:if|when|unless|in case) (?:you|your)\b|^\W*(?:if|in case)\b"
    ),
}

_NOT = re.compile(
    r"(?:\bnot?\b|n't\b|\bnever\b|\bwithout\b|\bunlike\b|\binstead of\b|\bother than\b|\brather than\b"
    r"|\bcompared (?:to|with)\b|\bspecific to\b|\u4e0d\u662f|\u6ca1\u6709|\bkein\w*|\bnicht\b|\bpas\b)"
    r"[^.;!?,]{0,40}$",
    re.IGNORECASE,
)


_ASIDE = re.compile(r"\([^()]{0,200}\)")
"""An aside: a doubt in it is not about the sentence."""


def names_a_cause(text: str) -> bool:
    """Whether a sentence says what the cause was, or what cured the problem."""
    return _compiled("found").search(text) is not None


def gives_a_reason(text: str) -> bool:
    """Whether a sentence says what follows from what."""
    return re.search(", so ", text) is not None or _compiled("follows").search(text) is not None


def is_guess(text: str) -> bool:
    """Whether a sentence asks or supposes."""
    return _compiled("guess").search(_ASIDE.sub("", text)) is not None


def is_instruction(text: str) -> bool:
    """Whether a sentence tells a reader what to do, or what holds in general."""
    return _compiled("advice").search(text) is not None


def is_negated(text: str, start: int) -> bool:
    """Whether what a sentence says at `start` is negated shortly before."""
    return _NOT.search(text[:start]) is not None
