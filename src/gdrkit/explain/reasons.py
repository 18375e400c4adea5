"""The reason that a text gives in its own words, where no code fits: only a sentence that says why."""

from __future__ import annotations

import re

from gdrkit.explain import cues, outcomes
from gdrkit.explain.claims import following, is_under_a_cause
from gdrkit.explain.sentences import Sentence

_TECHNICAL = re.compile(
    r"`|\b(?:nvidia|NCCL|UCX|RDMA|IB|RoCE|GPUs?|NICs?|HCA|mlx\w*|modules?|drivers?|kernel|plugin|library"
    r"|lib\w+|gdr\w*|peer_?mem\w*|dma-?buf|BAR\d?|IOMMU|ACS|PCIe|CUDA|OFED|DOCA|firmware|memory|pages"
    r"|switch|cable|/dev/\w+|NVSHMEM"
    r"|EFA|GDR|UAR|QP|GID|MTU|container|image|version|[A-Z]{2,}_[A-Z_]{2,}|\w+_\w+"
    r"|(?:Open ?|open)?MPI|ports?|handlers?|hosts?|nodes?|buffers?|queues?|packets?|BIOS|permissions?|pods?"
    r"|processe?s?|allocator|tensors?|daemon|service|package|wheel|PyTorch|[Tt]orch|Ray|vLLM|SGLang"
    r"|hypervisor|VMs?"
    r"|race condition|deadlock|cgroups?|firewall|VLAN|PFC|ECN|SR-IOV|VFs?|NUMA|NVLink|NVSwitch|NVLS|SHARP)\b"
)
MIN_WORDS = 5
"""Words of a sentence that can give a reason; "it works now" alone is none."""


_NO_REASON = re.compile(
    r"\([^()]{0,200}\)"
    r"|\b(?:by|in) contrast\b.*"
    r"|\bafter \w+ing\b|\b(?:noticed|discovered|confirmed|found(?: out)?) that\b"
    r"|\bworks? (?:\w+ )?without (?:any )?(?:errors?|problems?|issues?)\b"
    r"|\b(?:debug|investigat|search|look|find|hunt|track|understand|determin|identify)\w*(?: for| down)?"
    r" (?:the|a|its) (?:root )?(?:cause|reason)\b"
    r"|\b(?:hangs?|hung|crash(?:es)?|fails?|failures?|errors?|timeouts?|stalls?)\b(?: \w+){0,2}"
    r" (?:causes?|leads? to|results? in)\b"
    r"|^\W*(?:running|launching|starting|training|executing)\b.*\b(?:causes?|leads? to|results? in)\b",
    re.IGNORECASE | re.DOTALL,
)
"""What sounds like a reason and is none: an aside, a comparison, an order in time, what was seen or works,
a search for the cause, and a symptom that follows from another one, or from the whole job."""

_CONCLUDES = re.compile(r", so \b|\b(?:therefore|hence|which means)\b", re.IGNORECASE)
"""Where a sentence concludes something."""


def stated_reason(found: tuple[Sentence, ...], *, confirmed: bool = False) -> Sentence | None:
    """The sentence in which the text itself gives the reason of the problem; None if there is none.
    `confirmed`: only if it says that this was found, or that a change helped."""
    scored = [
        (score, -sentence.line, sentence)
        for index, sentence in enumerate(found)
        if (score := _reason_score(sentence, is_under_a_cause(found, index), _is_cured_after(found, index)))
        if not confirmed or cues.is_definite(sentence.text) or _is_cured_after(found, index)
    ]
    return max(scored, key=lambda row: row[:2])[2] if scored else None


def _is_cured_after(found: tuple[Sentence, ...], index: int) -> bool:
    """Whether the next sentence says that a change helped, and names nothing technical itself: "A was set.
    Changing it helped." """
    after = following(found, index)
    if after is None or after.paragraph != found[index].paragraph:
        return False
    return outcomes.is_good(after.text) and not _TECHNICAL.search(after.text)


def _reason_score(sentence: Sentence, under: bool, cured: bool) -> float:
    text = sentence.text
    if (cues.is_guess(text) and not under) or (len(text.split()) < MIN_WORDS - 2 * cured and text.isascii()):
        return 0
    technical = len(set(_TECHNICAL.findall(text)))
    if not technical or not (under or cured or _says_why(text)):
        return 0
    weight: float = (under or cured or cues.names_a_cause(text)) + under
    weight += 2 * (under or cues.names_the_cause(text))
    weight += _CONCLUDES.search(text) is not None or cues.says_what_follows(text)
    return weight + min(technical, 4) / 4 - (0.5 if cues.is_instruction(text) else 0)


def _says_why(text: str) -> bool:
    """Whether a sentence itself says why something fails, or what cured it. One that concludes ("A, so B")
    does if it concludes that something fails."""
    text = _NO_REASON.sub(" ", text)
    told, *concluded = _CONCLUDES.split(text, maxsplit=1)
    return (
        outcomes.is_changed(text)
        or any(map(cues.is_symptom, concluded))
        or cues.names_in_words(told)
        or cues.says_what_follows(told)
    )
