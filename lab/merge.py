"""Merges some cases of a later session into a recording."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from lab.cache import LabError
from lab.compare import same_answer
from lab.golden import Evidence, Golden, cases, delta


def merged(old: Golden, now: Golden, chosen: Collection[str]) -> Golden:
    """The old recording with the chosen cases from the new session, in the new order.

    Raises LabError if the kernel differs, or if a case that was not chosen has another answer.
    """
    if (old.kernel, old.profile, old.seed) != (now.kernel, now.profile, now.seed):
        raise LabError(f"{old.profile.name} has another kernel, profile or seed: record all its cases again")
    recorded = {case.name: (case, evidence) for case, evidence in cases(old)}
    rows, before = [], Evidence()
    for case, evidence in cases(now):
        if case.name not in chosen:
            if case.name not in recorded:
                continue
            if changed := same_answer(recorded[case.name][0].answer, case.answer):
                raise LabError(f"{case.name} should not be recorded, but has changed: {'; '.join(changed)}")
            case, evidence = recorded[case.name]
        rows.append(msgspec.structs.replace(case, evidence=delta(before, evidence)))
        before = evidence
    return msgspec.structs.replace(now, cases=tuple(rows))
