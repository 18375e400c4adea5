"""The lab's actions. Each takes the parsed options and returns an exit code."""

from __future__ import annotations

import argparse
import fnmatch
import os
from collections import Counter
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from lab import golden
from lab.cache import LabError, say
from lab.case import Case
from lab.cases import CASES, of_groups, possible
from lab.compare import Comparison, Result, counts
from lab.compare import compare as judged
from lab.kernels import FLAVOURS, Flavour, Kernel, flavour, kernel
from lab.merge import merged, require_same
from lab.profiles import PROFILES, Profile, profile
from lab.session import Session, boot, starts

SEED = 20261  # of the recorded names


def show(options: argparse.Namespace) -> int:
    judge = flavour(options.kernel)
    print("kernels")
    for known in FLAVOURS:
        suite = known.suite or known.archive.suites[0][1]
        print(f"  {known.name:24} {known.image} {suite} ({known.architecture})")
    print("profiles")
    for row in PROFILES:
        print(f"  {row.name:24} {len(of_groups(row.groups, judge)):4} cases  {row.why}")
    print("cases")
    for case in CASES:
        print(f"  {case.name:36} {case.why}")
    return 0


def run(options: argparse.Namespace) -> int:
    chosen = profile(options.profile or "plain")
    cases = _selected(chosen, options.case, flavour(options.kernel))
    session = boot(kernel(options.kernel), chosen, cases, seed=options.seed, on_event=print_event)
    say(f"{len(cases)} cases, {session.transcript.seconds:.1f} s")
    return 0


def _selected(chosen: Profile, pattern: str, judge: Flavour) -> tuple[Case, ...]:
    cases = CASES if pattern else of_groups(chosen.groups, judge)
    selected = tuple(case for case in cases if fnmatch.fnmatchcase(case.name, pattern or "*"))
    if not selected:
        raise LabError(f"no such case: {pattern}")
    return selected


def print_event(event: dict[str, Any]) -> None:
    """Print one case, in one or more lines."""
    if event["event"] == "begin":
        print(event["version"])
    if event["event"] != "case":
        return
    answer = event["answer"]
    state = "loaded" if answer["loaded"] else "not loaded"
    print(f"{event['name']}: exit {answer['exit_code']}, {state}", flush=True)
    for line in (*answer["stderr"].splitlines(), *answer["log"], *event["complaints"]):
        print(f"    {line}")


def record(options: argparse.Namespace) -> int:
    judge = kernel(options.kernel)
    profiles = [profile(name) for name in options.profile]
    for chosen in profiles or [row for row in PROFILES if starts(judge, row)]:
        if options.case or options.missing:
            _record_some(judge, chosen, options)
            continue
        session = boot(judge, chosen, of_groups(chosen.groups, judge.flavour), seed=options.seed)
        recorded, contents = golden.of_session(session)
        _require_prepared(session, recorded)
        golden.write(recorded, contents)
        say(f"{chosen.name}: {len(session.cases)} cases in {session.transcript.seconds:.1f} s")
    return 0


def _require_prepared(session: Session, recorded: golden.Golden) -> None:
    """Raises LabError if a case was not set up as its row says: it would test something else."""
    allowed = {row.case.name for row in session.cases if row.case.complains}
    for case in recorded.cases:
        if case.complaints and case.name not in allowed:
            raise LabError(f"{case.name} could not be set up: {'; '.join(case.complaints)}")


def _record_some(judge: Kernel, chosen: Profile, options: argparse.Namespace) -> None:
    """Some cases anew. All of the profile's run, as taint and what is said once a boot depend on what ran
    before; bundles are made for those alone, and the others must answer as they did.
    """
    old = golden.read(judge.flavour.name, chosen.name)
    known = replace(old.kernel, release=judge.release, package=judge.version)
    require_same(old, known, chosen, options.seed)  # before a boot that takes minutes
    cases = of_groups(chosen.groups, judge.flavour)
    there = {case.name for case in old.cases}
    wanted = frozenset(
        case.name
        for case in cases
        if any(fnmatch.fnmatchcase(case.name, pattern) for pattern in options.case)
        or (options.missing and case.name not in there)
    )
    if not wanted:
        say(f"{chosen.name}: no case to record")
        return
    session = boot(judge, chosen, cases, seed=options.seed, collect=wanted)
    now, contents = golden.of_session(session)
    _require_prepared(session, now)
    golden.write(merged(old, now, wanted), contents)
    say(f"{chosen.name}: {len(wanted)} of {len(cases)} cases in {session.transcript.seconds:.1f} s")


def compare(options: argparse.Namespace) -> int:
    found: list[Comparison] = []
    for recorded, contents in _sessions(options):
        from lab.predictor import predict

        rows = judged(recorded, contents, predict)
        found += [row for row in rows if fnmatch.fnmatchcase(row.case, options.case or "*")]
    return report(found, verbose=options.verbose)


def words(options: argparse.Namespace) -> int:
    """Keep the words of all recorded cases of a kernel, after an intended change of the predictor."""
    from lab.predictor import predict
    from lab.words import write

    found = [row for recorded, contents in _sessions(options) for row in judged(recorded, contents, predict)]
    write(options.kernel, found)
    return report(found)


def _sessions(options: argparse.Namespace) -> list[tuple[golden.Golden, dict[str, bytes]]]:
    if getattr(options, "boot", False):
        chosen = profile(options.profile or "plain")
        cases = _selected(chosen, options.case, flavour(options.kernel))
        return [golden.of_session(boot(kernel(options.kernel), chosen, cases, seed=options.seed))]
    names = [options.profile] if options.profile else golden.recorded(options.kernel)
    contents = golden.read_contents(options.kernel)
    return [(golden.read(options.kernel, name), contents) for name in names]


def report(found: list[Comparison], *, verbose: bool = False) -> int:
    """Print disagreements and totals; returns 0 only if no case is wrong or unanswered."""
    for row in found:
        if verbose or row.result in (Result.WRONG, Result.UNANSWERED):
            print(f"{row.result:10} {row.profile}/{row.case}")
            for difference in row.differences:
                print(f"    {difference}")
    totals = counts(found)
    print(", ".join(f"{count} {result}" for result, count in totals.items()))
    return 1 if totals[Result.WRONG] or totals[Result.UNANSWERED] else 0


def random(options: argparse.Namespace) -> int:
    """Boot, predict and compare; returns 0 if prediction and kernel agree."""
    from lab.predictor import predict
    from lab.random_cases import batches, bootable, keep

    seed = options.seed if options.seed is not None else int.from_bytes(os.urandom(3), "big")
    print(f"seed {seed}")
    judge, found = kernel(options.kernel), list[Comparison]()
    profiles = (options.profile,) if options.profile else bootable(judge)
    dealt = batches(seed, options.count, profiles)
    drawn = Counter(chosen for chosen, cases in dealt for _ in cases)
    print(f"profiles: {', '.join(f'{name} {count}' for name, count in drawn.items())}")
    for chosen, rows in dealt:
        cases = tuple(case for case in rows if possible(case, judge.flavour))
        session = boot(judge, profile(chosen), cases, seed=seed)
        recorded, contents = golden.of_session(session)
        say(f"{chosen}: {len(cases)} cases in {session.transcript.seconds:.1f} s")
        if options.keep:
            keep(Path(options.keep), recorded, contents)
        found += judged(recorded, contents, predict)
    print(f"seed {seed}")
    return report(found)


def live(options: argparse.Namespace) -> int:
    from lab.live import live as recorded

    return recorded(kernel(options.kernel), write=options.write)


def rdma(options: argparse.Namespace) -> int:
    from lab.rdma import smoke, two_guests

    if options.two:
        return two_guests(kernel(options.kernel), write=options.write)
    return smoke(kernel(options.kernel), write=options.write)


def doctor(options: argparse.Namespace) -> int:
    from lab.doctor import differences, verdicts
    from lab.rdma import FIXTURES

    judge = kernel(options.kernel)
    both = verdicts(judge, profile("plain"))
    if options.write:
        (FIXTURES / judge.flavour.name / "bundle.tar.gz").write_bytes(both.archive)
    print(f"live:   {both.live['verdict']}\nbundle: {both.bundle['verdict']}")
    found = differences(both)
    for line in found:
        print(line)
    return 1 if found else 0


def fix(options: argparse.Namespace) -> int:
    from lab.fix import judge

    found = judge(kernel(options.kernel), options.scenario)
    for name, wrong in found:
        print(f"{name}: {'; '.join(wrong) or 'as expected'}")
    return 1 if any(wrong for _, wrong in found) else 0


def transport(options: argparse.Namespace) -> int:
    from lab.transport import answers

    for scenario, answer in answers(kernel(options.kernel)).items():
        print(f"{scenario}: {answer}")
    return 0


def shell(options: argparse.Namespace) -> int:
    from lab.shell import open_shell

    return open_shell(kernel(options.kernel), profile(options.profile))
