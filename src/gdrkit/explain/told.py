"""Whether people's words alone name the cause of a text: one cause, about this machine, in so many words.

Prose mentions many causes that a machine does not have: as advice, in a comparison, in the history of a
change, in an explanation. Where no output shows or quotes a failure of the cause, it is the answer only if
the text says that it was found, if its title names it, if several of its parts agree, or if the text says
little else; and only if no other cause is named.
"""

from __future__ import annotations

from gdrkit.explain import cues
from gdrkit.explain.claims import Claim, Stance
from gdrkit.explain.ranking import Candidate, brings_about
from gdrkit.explain.sentences import Place, Sentence
from gdrkit.explain.subject import Topics

SAYS = (Stance.FOUND, Stance.TITLE, Stance.SAID)
"""How people name what is the case."""

SUPPOSES = (*SAYS, Stance.REMEDY, Stance.ASKED)
"""How people name what is the case, or may be."""

SHORT = 6
"""Sentences of a text that says little else than its cause, at most."""


def is_told(first: Candidate, named: tuple[Claim, ...], said: tuple[Sentence, ...], about: Topics) -> bool:
    """Whether the words of a text name the first cause and no other, in a report of a problem."""
    own = [claim for claim in named if claim.code == first.code and claim.stance in SUPPOSES]
    definite = any(map(_is_definite, own))
    if not own and any(claim.code == first.code and claim.stance is Stance.DENIED for claim in named):
        return False
    if about.foreign or _proposes(said) or _rivals(first.code, named, definite=definite):
        return False
    if own and all(claim.hardware for claim in own):
        return True  # what it limits is weighed by what fails
    return definite or _agree(own) or len(said) <= SHORT or _is_title(own)


def _agree(own: list[Claim]) -> bool:
    """Whether two parts of a text name a cause: paragraphs that say it, posts that say or suppose it, or
    two sentences of a paragraph of which one gives it as the reason."""
    says = [claim for claim in own if claim.stance in SAYS]
    if len({claim.sentence.paragraph for claim in says}) > 1:
        return True
    reason = any(claim.stance is Stance.FOUND for claim in says)
    return (reason and len({claim.sentence for claim in says}) > 1) or len(
        {claim.sentence.post for claim in own}
    ) > 1


def _is_title(own: list[Claim]) -> bool:
    """Whether the title of a text names a cause as a fact: the text is about it."""
    return any(claim.stance is Stance.TITLE and claim.sentence.place is Place.TITLE for claim in own)


def _is_definite(claim: Claim) -> bool:
    return claim.stance is Stance.FOUND and (claim.confirmed or cues.is_definite(claim.sentence.text))


def _proposes(said: tuple[Sentence, ...]) -> bool:
    """Whether a text is about a change to a program or its documentation, and reports no problem."""
    if not said or cues.is_request(said[0].text):
        return bool(said)
    return cues.is_change(said[0].text) and not any(cues.is_problem(sentence.text) for sentence in said)


def _rivals(code: str, named: tuple[Claim, ...], *, definite: bool) -> bool:
    """Whether the text names another cause as definitely, and neither brings the other one about."""
    return any(
        (_is_definite(claim) if definite else claim.stance in SUPPOSES and not claim.hardware)
        for claim in named
        if claim.code != code and not brings_about(code, claim.code) and not brings_about(claim.code, code)
    )
