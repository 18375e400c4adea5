"""Merges some cases of a later session into a recording."""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from lab.cache import LabError
from lab.compare import same_answer
from lab.golden import Evidence, Golden, KernelNote, cases, delta
from lab.profiles import Profile


def merged(old: Golden, now: Golden, chosen: Collection[str]) -> Golden:
    """The old recording with the chosen cases from the new session, in the new order.

    Raises LabError if the kernel differs, or if a case that was not chosen has another answer. The taint of
    an answer includes what ran before in its boot, so it is not compared.
    """
    require_same(old, now.kernel, now.profile, now.seed)
    recorded = {case.name: (case, evidence) for case, evidence in cases(old)}
    rows, before = [], Evidence()
    for case, evidence in cases(now):
        if case.name not in chosen:
            if case.name not in recorded:
                continue
            answer = recorded[case.name][0].answer
            if changed := same_answer(answer, replace(case.answer, tainted=answer.tainted)):
                raise LabError(f"{case.name} should not be recorded, but has changed: {'; '.join(changed)}")
            case, evidence = recorded[case.name]
        rows.append(replace(case, evidence=delta(before, evidence)))
        before = evidence
    return replace(now, cases=tuple(rows))


def require_same(old: Golden, kernel: KernelNote, profile: Profile, seed: int) -> None:
    """Raises LabError if a recording cannot be completed by a session of this kernel, profile and seed."""
    if (old.kernel, old.profile, old.seed) != (kernel, profile, seed):
        raise LabError(f"{old.profile.name} has another kernel, profile or seed: record all its cases again")
