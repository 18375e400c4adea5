"""The reason that a text gives in its own words, where no code fits: only a sentence that says why."""

from __future__ import annotations

import re

from msgspec.structs import replace

from gdrkit.explain import cues, outcomes
from gdrkit.explain.claims import following, is_under_a_cause
from gdrkit.explain.replies import is_confirmed
from gdrkit.explain.sentences import MAX_CHARACTERS, Place, Sentence

_TECHNICAL = re.compile(
    r"`|\b(?:nvidia|NCCL|UCX|RDMA|IB|RoCE|GPUs?|NICs?|HCA|mlx\w*|modules?|drivers?|kernel|plugin|library"
    r"|lib\w+|gdr\w*|peer_?mem\w*|dma-?buf|BAR\d?|IOMMU|ACS|PCIe|CUDA|OFED|DOCA|firmware|memory|pages"
    r"|switch|cable|/dev/\w+|NVSHMEM"
    r"|EFA|GDR|UAR|QP|GID|MTU|container|image|version|[A-Z]{2,}_[A-Z_]{2,}|\w+_\w+"
    r"|(?:Open ?|open)?MPI|ports?|handlers?|hosts?|nodes?|buffers?|queues?|packets?|BIOS|permissions?|pods?"
    r"|processe?s?|allocator|tensors?|daemon|service|package|wheel|PyTorch|[Tt]orch|Ray|vLLM|SGLang"
    r"|hypervisor|VMs?|branch|commit|release|provider|topology|registry|endpoints?|pull/\d+"
    r"|race condition|deadlock|cgroups?|firewall|VLAN|PFC|ECN|SR-IOV|VFs?|NUMA|NVLink|NVSwitch|NVLS|SHARP)\b"
)
MIN_WORDS = 5
"""Words of a sentence that can give a reason; "it works now" alone is none."""


_NO_REASON = re.compile(
    r"\([^()]{0,200}\)|\"[^\"]{0,200}\"|`[^`]{0,200}`"
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
    r"|\b(?:should|will|would|may|might|could) be (?:fixed|solved|resolved|addressed)\b.*"
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

_BACK = re.compile(
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


def stated_reason(found: tuple[Sentence, ...], *, confirmed: bool = False) -> Sentence | None:
    """The sentence in which the text itself gives the reason of the problem, with the one that says what
    follows from it; None if there is none.
    `confirmed`: only if it says that this was found, or that a change helped."""
    scored = [
        (score, -sentence.line, index)
        for index, sentence in enumerate(found)
        if (score := _reason_score(found, index))
        if not confirmed or cues.is_definite(sentence.text) or _is_cured_after(found, index)
    ]
    return _whole(found, max(scored)[2]) if scored else None


def _whole(found: tuple[Sentence, ...], index: int) -> Sentence:
    """A sentence, after the one that it refers back to: "X is missing. This causes Y." """
    own = found[index]
    before = _referred(found, index)
    if before is None:
        return own
    return replace(before, text=f"{before.text} {own.text}"[:MAX_CHARACTERS])


def _referred(found: tuple[Sentence, ...], index: int) -> Sentence | None:
    """What a sentence says the consequence of: the sentence before it in its post; None if it says none."""
    if not index or _BACK.search(found[index].text) is None:
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


def _reason_score(found: tuple[Sentence, ...], index: int) -> float:
    """How clearly a sentence gives the reason; 0 if it gives none."""
    text = found[index].text
    cured, offered = _is_cured_after(found, index), _is_taken(found, index)
    heading = _above(found, index)
    under = is_under_a_cause(found, index) or (
        _WHY.match(heading) is not None and _GENERAL.search(text) is None
    )
    if (cues.is_guess(text) or cues.is_guess(heading)) and not (is_under_a_cause(found, index) or offered):
        return 0
    if (found[index].place is not Place.BODY and not _is_explaining_title(text)) or (
        len(text.split()) < MIN_WORDS - 2 * cured and text.isascii()
    ):
        return 0
    if _AVOIDS.search(text):
        return 0
    labelled = _LABEL.match(text) is not None
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


_LABEL = re.compile(r"^\W*(?:the )?root[- ]?causes?\W{0,4}:\W*", re.IGNORECASE)
"""The label of the root cause, in a paragraph of its own."""


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
