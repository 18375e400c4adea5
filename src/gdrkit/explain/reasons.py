"""The reason that a text gives in its own words, where no code fits: only a sentence that says why, or else
one that says what is defective about what the title names.

A sentence that points back ("This makes ...", "Hence ...") is quoted with the one that it points to.
"""

from __future__ import annotations

import re

from msgspec import Struct

from gdrkit.explain import cues, outcomes
from gdrkit.explain.claims import following, is_under_a_cause
from gdrkit.explain.replies import is_confirmed
from gdrkit.explain.sentences import Place, Sentence

_TECHNICAL = re.compile(
    r"`|\b(?:nvidia|NCCL|UCX|RDMA|IB|RoCE|GPUs?|NICs?|HCA|mlx\w*|modules?|drivers?|kernel|plugin|library"
    r"|lib\w+|gdr\w*|peer_?mem\w*|dma-?buf|BAR\d?|IOMMU|ACS|PCIe|CUDA|OFED|DOCA|firmware|memory|pages"
    r"|switch|cable|/dev/\w+|NVSHMEM"
    r"|EFA|GDR|UAR|QP|GID|MTU|container|image|version|[A-Z]{2,}_[A-Z_]{2,}|\w+_\w+"
    r"|nccl|rdma|[Dd]ocker|patch"
    r"|(?:Open ?|open)?MPI|ports?|handlers?|hosts?|nodes?|buffers?|queues?|packets?|BIOS|permissions?|pods?"
    r"|processe?s?|allocator|tensors?|daemon|service|package|wheel|PyTorch|[Tt]orch|Ray|vLLM|SGLang"
    r"|hypervisor|VMs?|[Ff]abric ?[Mm]anager|\w*fabricmanager|IMEX|MNNVL|clique|udev|initramfs"
    r"|branch|commit|release|provider|topology|registry|endpoints?|pull/\d+"
    r"|race condition|deadlock|cgroups?|firewall|VLAN|PFC|ECN|SR-IOV|VFs?|NUMA|NVLink|NVSwitch|NVLS|SHARP)\b"
)
MIN_WORDS = 5
"""Words of a sentence that can give a reason; "it works now" alone is none."""


_NO_REASON = re.compile(
    r"\([^()]{0,200}\)|\"[^\"]{0,200}\"|`[^`]{0,200}`"
    r"|\b(?:but|while|whereas)\b[^.;]{0,80}\bwork(?:s|ing|ed)?\b"
    r"|^\W*to (?:check|test|verify|see|confirm)\b.*"
    r"|^.*\?(?=\s)|\b(?:by contrast|in contrast|otherwise)\b.*"
    r"|\b(?:issue|bug|problem) (?:is|was) (?:found|discovered|detected|reported) (?:using|by|with|in|while"
    r"|during|on)\b.*"
    r"|\binconclusive\b.*"
    r"|\bafter \w+ing\b|\b(?:noticed|discovered|confirmed|verify|found(?: out)?) that\b"
    r"|\brejected by service\b"
    r"|\bworks? (?:\w+ )?without (?:any )?(?:errors?|problems?|issues?)\b"
    r"|\b(?:work(?:s|ed|ing)?|occurs?|happens?|appears?|reproduces?|does(?: not|n't) (?:occur|happen"
    r"|reproduce"
    r"|appear))(?: (?:fine|well|perfectly|correctly))*(?: (?:with|when|if|on|only)\b(?! (?:I|we) ))?"
    r"(?=[^\w]|$)(?! (?:now|again|after|once))"
    r"|\b(?:debug|investigat|search|look|find|hunt|track|understand|determin|identify)\w*(?: for| down)?"
    r" (?:the|a|its) (?:root )?(?:cause|reason)\b"
    r"|\b(?:should|will|would|may|might|could) (?:have been|be) (?:fixed|solved|resolved|addressed)\b.*"
    r"|\bbecause the control process exited\b"
    r"|\bwhat (?:I|we) (?:get|got|see|saw)\b|\b(?:hard|difficult|tricky|easy) to \w+,? (?:because"
    r"|since|as)\b.*"
    r"|\b(?:hangs?|hung|crash(?:es)?|fails?|failures?|errors?|timeouts?|stalls?)\b(?: \w+){0,2}"
    r" (?:causes?|leads? to|results? in)\b"
    r"|\b(?:the|an?|our) (?:problem|issue|error)s? (?:is|are|was) (?:still |also )?(?:persist|there"
    r"|that (?:it|I|we)\b"
    r"|the same)\w*"
    r"|^\W*(?:running|launching|starting|training|executing)\b.*\b(?:causes?|leads? to|results? in)\b"
    r"|^\W*(?:when|while|if) (?:trying|running|using)\b[^,]{0,160},",
    re.IGNORECASE | re.DOTALL,
)
"""What sounds like a reason and is none: an aside, quoted words, a comparison, an order in time, what was
seen or works, what would be otherwise, a search for the cause, and a symptom that follows from another one,
or from the whole job."""

_UNNEEDED = re.compile(r"\b(?:no|not|n't|never) (?:be )?(?:need|necessary|required)\b", re.IGNORECASE)
"""What says that something does not matter."""

_CONCLUDES = re.compile(r", so \b|\b(?:therefore|hence|which means)\b", re.IGNORECASE)
"""Where a sentence concludes something."""

_IS_SEEN = re.compile(
    r"\b(?:encounter|hit|get|got|see|saw|report|receiv|throw|print)\w* (?:the|an?"
    r"|this) (?:\w+ )?(?:error|warning)\b",
    re.IGNORECASE,
)
"""What is only seen: how a program goes on then is not a reason."""

_IS_FIXED = re.compile(
    r"\b(?:regression|bug)\b.{0,20}\bintroduced\b"
    r"|\b(?:included|includes|contains|has|got|brings) the fix\b.{0,60}(?:#|pull/|\bv?)\d"
    r"|(?<!should be )(?<!will be )\b(?:fixed|addressed|resolved) (?:by|in|with) (?:PR |the |release "
    r"|version )?"
    r"(?:\S*pull/\d|#\d|v?\d+\.\d)",
    re.IGNORECASE,
)
"""What says in which change of a program a defect came, or was removed."""

_WHY = re.compile(r"^\W*(?:why|cause|explanation|diagnosis)\W*$", re.IGNORECASE)
"""A heading below which a change, or a failure, is explained."""

_GENERAL = re.compile(r"\bif\b", re.IGNORECASE)
"""What a change says of cases, not of a failure."""

_FOLLOWS = re.compile(
    r"^\W*(?:and |so |thus,? |as a result,? )?(?:this|that|it|these|which)(?: (?:in turn|then|will|would|can"
    r"|also))?"
    r" (?:causes?|caused|leads?|led|results?|resulted|makes?|made|breaks?|broke|prevents?|means|explains"
    r"|is (?:exactly )?(?:why|the (?:root )?(?:cause|reason|problem|issue))"
    r"|was (?:the (?:root )?(?:cause|reason|problem|issue)))\b"
    r"|^\W*with (?:this|that) (?:patch|change|PR|fix|commit|version|setting)\b",
    re.IGNORECASE,
)
"""What says what follows from the sentence before it."""

_AVOIDS = re.compile(
    r"DISABLE\w*=1|ENABLE\w*=0|NET=Socket|TLS=tcp|FORCE_TCP"
    r"|\b(?:[Uu]n-?install|[Rr]emov|[Dd]isabl)\w* (?:the |all )?(?:IB|InfiniBand|RDMA|OFED|mlx\w*)\b"
)
"""What a problem does not occur with, because what fails is not used."""

_OFFERS = re.compile(
    r"\b(?:PR|pull/\d+|patch\w*|commit|branch|version|release|upgrad\w*|updat\w*|downgrad\w*|set(?:ting)?|add(?:ing)?"
    r"|us(?:e|ing)|try(?:ing)?|disabl\w*|enabl\w*|install\w*|load(?:ing)?|remov\w*|export)\b",
    re.IGNORECASE,
)
"""What a post offers as a cure, which the next one may confirm."""


_ABOUT_THE_CHANGE = re.compile(
    r"^\W*(?:this|the) (?:PR|pull request|patch|commit|change|series|MR)\b"
    r"|\b(?:reproduced|verified|tested|validated) (?:on|with|against|by|in)\b|\bis not used as\b",
    re.IGNORECASE,
)
"""What a change does, and how it was tested: no reason of what failed before."""

_DEFECT = re.compile(
    r"\b(?:incorrectly|wrongly|mistakenly|erroneously|unconditionally|silently|always)\s+\w+"
    r"|\b(?:is|are|was|were) (?:incompatible|hard-?coded|stricter|misconfigured|mismatched|not aware"
    r"|unaware)\b"
    r"|\b(?:does|do|did|is|are|was|were|has|have|had)(?: not|n't) (?:\w+ )?(?:support|handle|check|honou?r"
    r"|respect|consider|account|accept|installed|built|initiali[sz]ed?|provisioned|included|aware|allow)\w*"
    r"|\b(?:assumes?|ignores?|overwrites?|lacks?|expects?|requires?|selects?|picks?|chooses?|chosen)\b"
    r"|\bonly (?:supports?|works?|handles?|accepts?|if|when|checks?|selected|looks?)\b"
    r"|\bwhich\b.{0,60}\b(?:cannot|can ?not|can't|does not|doesn't|is not|are not|isn't)\b"
    r"|\b(?:mismatch|lack of|out of bounds|race|leak(?:s|ed)?|stale|outdated|too old|unsupported)\b"
    r"|\b(?:suggests?|means|indicates?|shows?) that you\b|\bowing to\b|\bdespite\b|\beven (?:if|though)\b",
    re.IGNORECASE,
)
"""What says that something is not as it has to be, or does what it should not."""

_TELLS_WHY = re.compile(
    r"\b(?:problem|motivation|why|background|description|summary|analysis|cause|diagnosis|explanation"
    r"|what happens|issue|bug|conclusion|\u539f\u56e0|\u5206\u6790)\b",
    re.IGNORECASE,
)
_TELLS_ELSE = re.compile(
    r"\b(?:test(?:s|ing|ed)?|verif\w+|validat\w+|change[sd]?|evidence|environment|reproduc\w+|steps|logs?"
    r"|usage|benchmark\w*|checklist|alternatives?|notes?|expected)\b",
    re.IGNORECASE,
)
"""Headings under which a reason may stand, and under which none does."""

_WORD = re.compile(r"[A-Za-z_][\w-]{3,}")
MIN_SHARED = 2
"""Words that a sentence about a defect shares with the title, at least."""

_POINTS_FOLLOWS = re.compile(
    r"^\W*(?:this|that|these|those|it|they|hence|therefore|thus|so|as a result|consequently|both|which"
    r"|in that case|for that reason|because of (?:this|that))\b"
    r"|^\W*(?:\u8fd9|\u56e0\u6b64|\u6240\u4ee5|\u3053\u308c|\u305d\u308c)",
    re.IGNORECASE,
)
_MARKUP = re.compile(r"^\s*(?:[#>*+-]{1,6}\s+)+|\*\*")
MOST_BEFORE = 2
MOST_CHARACTERS = 600
"""Sentences that are quoted before one that points back, and the length of all of them, at most."""


def _in_context(found: tuple[Sentence, ...], index: int) -> str:
    """The words of a sentence, after those that it points back to."""
    reason = found[index]
    texts = [reason.text]
    for before in reversed(found[max(0, index - MOST_BEFORE) : index]):
        together = sum(map(len, texts)) + len(before.text)
        if not _POINTS_FOLLOWS.search(texts[0]) or before.post != reason.post or together > MOST_CHARACTERS:
            break
        if before.place is not Place.BODY or cues.is_guess(before.text):
            break
        texts.insert(0, before.text)
    return " ".join(_MARKUP.sub("", text) for text in texts)


def _defect_score(sentence: Sentence, above: str, title: str) -> float:
    """How well a sentence says what is defective about what the title, or the heading above, announces."""
    text = sentence.text
    if len(text.split()) < MIN_WORDS or cues.is_request(text) or cues.is_plan(text) or cues.is_change(text):
        return 0
    technical = len(set(_TECHNICAL.findall(text)))
    if not technical or not _DEFECT.search(text) or _TELLS_ELSE.search(above):
        return 0
    shared = len(_words(text) & _words(title))
    told = _TELLS_WHY.search(above) is not None
    if shared < MIN_SHARED and not told:
        return 0
    return 1 + told + min(shared, 4) / 4 + min(technical, 4) / 4 + cues.is_symptom(text) / 2


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text)}


def _title(found: tuple[Sentence, ...]) -> str:
    """The first line of a text, and the heading that follows it, as on the page of a forum."""
    return " ".join(one.text for one in found[:2] if one.place is not Place.BODY)


class Reason(Struct, frozen=True):
    """A sentence that tells why something fails."""

    sentence: Sentence
    text: str  # with what it points back to
    says_why: bool  # in so many words; otherwise it only says what is defective


def stated_reason(found: tuple[Sentence, ...], *, confirmed: bool = False) -> Reason | None:
    """The sentence in which the text itself gives the reason of the problem; None if there is none.
    `confirmed`: only if it says that this was found, or that a change helped."""
    title = _title(found)
    scored = []
    for index, sentence in enumerate(found):
        cured = _is_cured_after(found, index)
        if confirmed and not (cues.is_definite(sentence.text) or cured):
            continue
        why = _reason_score(found, index, cured=cured)
        if not why and (confirmed or not _is_assertion(sentence.text)):
            continue
        score = why + _defect_score(sentence, _above(found, index), title)
        if score:
            scored.append((score, -sentence.line, index, why > 0))
    if not scored:
        return None
    _, _, index, says_why = max(scored)
    return Reason(found[index], _in_context(found, index), says_why)


def _is_assertion(text: str) -> bool:
    return not (cues.is_guess(text) or cues.is_instruction(text) or _ABOUT_THE_CHANGE.search(text))


def _referred(found: tuple[Sentence, ...], index: int) -> Sentence | None:
    """What a sentence says the consequence of: the sentence before it in its post; None if it says none."""
    if not index or _FOLLOWS.search(found[index].text) is None:
        return None
    before = next(
        (one for one in reversed(found[:index]) if len(one.text.split()) >= MIN_WORDS), found[index - 1]
    )
    if before.post != found[index].post or before.place is not Place.BODY:
        return None
    return None if cues.is_guess(before.text) and not _OFFERS.search(before.text) else before


def _is_cured_after(found: tuple[Sentence, ...], index: int) -> bool:
    """Whether the next sentence says that a change helped, and names nothing technical itself: "A was set.
    Changing it helped." """
    after = following(found, index)
    if after is None or after.paragraph != found[index].paragraph:
        return False
    if not outcomes.is_good(after.text):
        return False
    return not _TECHNICAL.search(after.text) or outcomes.refers_back(after.text, found[index].text)


def _reason_score(found: tuple[Sentence, ...], index: int, *, cured: bool) -> float:
    """How clearly a sentence gives the reason; 0 if it gives none. `cured`: the next one says it helped."""
    text = found[index].text
    if _ABOUT_THE_CHANGE.search(text) or _UNNEEDED.search(text):
        return 0
    offered = _is_taken(found, index)
    heading = _above(found, index)
    caused = is_under_a_cause(found, index)
    labelled = _LABEL.match(text) is not None
    under = caused or (_WHY.match(heading) is not None and _GENERAL.search(text) is None)
    sure = caused or offered or labelled
    if (cues.is_guess(text) or cues.is_plan(text) or cues.is_guess(heading)) and not sure:
        return 0
    if (found[index].place is not Place.BODY and not _is_explaining_title(text)) or (
        len(text.split()) < MIN_WORDS - 2 * cured and text.isascii()
    ):
        return 0
    if _AVOIDS.search(text):
        return 0
    told = _LABEL.sub("", text)
    referred = _referred(found, index)
    technical = len(set(_TECHNICAL.findall(text if referred is None else f"{referred.text} {text}")))
    under = under or labelled or _is_under_a_label(found, index)
    if not technical or not (under or cured or offered or _says_why(text) or referred is not None):
        return 0
    weight: float = (cured or offered or cues.names_a_cause(told)) + under + offered
    weight += 2 * (under or cues.names_the_cause(text)) + (referred is not None)
    weight += _CONCLUDES.search(told) is not None or cues.says_what_follows(told)
    return weight + min(technical, 4) / 4 - (0.5 if cues.is_instruction(text) else 0)


_LABEL = re.compile(
    r"^\W*(?:the )?(?:(?:in )?conclusions?|tl;?dr|root[- ]?causes?"
    r"|(?:critical|core|key|main|real) (?:issue|problem|finding)s?|diagnosis|explanation"
    r"|\u7ed3\u8bba)\W{0,4}[:\uff1a]\W*",
    re.IGNORECASE,
)
"""The label of what was found to be the cause."""


def _is_under_a_label(found: tuple[Sentence, ...], index: int) -> bool:
    """Whether the paragraph of a sentence begins with "Root cause:"."""
    own = (one for one in found[:index] if one.paragraph == found[index].paragraph)
    first = next(own, None)
    return first is not None and _LABEL.match(first.text) is not None


def _is_explaining_title(title: str) -> bool:
    """Whether a title says why something fails, and announces no change."""
    return not cues.is_change(title) and _says_why(title)


def _is_taken(found: tuple[Sentence, ...], index: int) -> bool:
    """Whether a sentence offers a cure, and the next post says that it helped."""
    return _OFFERS.search(found[index].text) is not None and is_confirmed(found, index)


def _above(found: tuple[Sentence, ...], index: int) -> str:
    """The heading above a sentence in its post; "" if there is none."""
    for one in reversed(found[:index]):
        if one.post != found[index].post:
            break
        if one.place is Place.HEADING:
            return one.text
    return ""


def _says_why(text: str) -> bool:
    """Whether a sentence itself says why something fails, or what cured it. One that concludes ("A, so B")
    does if it concludes that something fails."""
    text = _NO_REASON.sub(" ", text)
    told, *concluded = _CONCLUDES.split(text, maxsplit=1)
    return (
        outcomes.is_changed(text)
        or _IS_FIXED.search(text) is not None
        or (any(map(cues.is_symptom, concluded)) and not _IS_SEEN.search(told))
        or cues.names_in_words(told)
        or cues.says_what_follows(told)
    )
