"""What a fact does where evidence is missing: use a default, try another source, skip a candidate.

EvidenceAbsent means that something is known not to exist. EvidenceMissing means that, or that it was not
collected, or that access was denied. A default for what is absent follows from the evidence; a default for
what is missing is a decision of the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar, TypeVarTuple

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing, Missing, MissingReason

Subject = TypeVarTuple("Subject")
T = TypeVar("T")
Default = TypeVar("Default")
Candidate = TypeVar("Candidate")


def if_absent(default: Default, ask: Callable[[*Subject], T], *subject: *Subject) -> T | Default:
    """The answer, or the default where the subject is known not to exist. Other missing evidence raises."""
    try:
        return ask(*subject)
    except EvidenceAbsent:
        return default


def if_missing(default: Default, ask: Callable[[*Subject], T], *subject: *Subject) -> T | Default:
    """The answer, or the default where evidence is missing for any reason: absent, denied, not collected."""
    try:
        return ask(*subject)
    except EvidenceMissing:
        return default


def lacking(ask: Callable[[*Subject], object], *subject: *Subject) -> tuple[Missing, ...]:
    """The evidence that an answer would need, if it was not collected; () if it was, or is known not to
    exist."""
    try:
        ask(*subject)
    except EvidenceAbsent:
        return ()
    except EvidenceMissing as error:
        return (error.missing,)
    return ()


def first_of(*sources: Callable[[], T]) -> T:
    """The answer of the first source that has one, the best source first. Raises the first one's error."""
    return _first(sources, lambda _: True)


def first_collected(*sources: Callable[[], T]) -> T:
    """The answer or error of the first source that was collected. Raises the first one's error if none was.

    "Absent" and "denied" end the search. So gdr starts no program on a live machine for what its files do
    not have or do not show: the program would meet the same obstacle.
    """
    return _first(sources, lambda error: error.missing.why is MissingReason.NOT_COLLECTED)


def _first(sources: Iterable[Callable[[], T]], goes_on: Callable[[EvidenceMissing], bool]) -> T:
    reason: EvidenceMissing | None = None
    for ask in sources:
        try:
            return ask()
        except EvidenceMissing as error:
            if not goes_on(error):
                raise
            reason = reason or error.fresh()
    raise reason.fresh() if reason else LookupError("no source")


def seek(candidates: Iterable[T], found: Callable[[T], bool]) -> T | None:
    """The first candidate for which `found` is true; None if it is false for all.

    A candidate with missing evidence is skipped, so that one unreadable port does not hide another that
    redirects. Only if no other candidate is found, its EvidenceMissing is raised.
    """
    reason: EvidenceMissing | None = None
    for candidate in candidates:
        try:
            if found(candidate):
                return candidate
        except EvidenceMissing as error:
            reason = reason or error.fresh()
    if reason is not None:
        raise reason.fresh()
    return None


def each_known(ask: Callable[[Candidate], T], subjects: Iterable[Candidate]) -> Iterator[T]:
    """The answers for many subjects; those with missing evidence are skipped."""
    for subject in subjects:
        try:
            yield ask(subject)
        except EvidenceMissing:
            continue
