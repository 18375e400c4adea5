"""Compares predictions with the kernel, case by case.

Only two things are normalized: pointers in libkmod's own messages, and stack traces. A module's init result
is not in a bundle, so a prediction may leave the result open. That is accepted only if an init really ran,
as the kernel's trace shows, and counted separately. Each recording keeps the word that is expected for each
case (lab/words.py), so that a prediction which no longer dares to answer is noticed.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from gdrkit.evidence import EvidenceMissing
from gdrkit.node import Node
from lab.golden import Answer, Golden, Recorded, cases, host

if TYPE_CHECKING:
    from gdrkit.loader import Prediction

_OF_TIME = re.compile(r"^hrtimer: interrupt took \d+ ns|^clocksource: |: \d+ callbacks suppressed$")
"""Effects of a slow emulated CPU, and of a rate limit that counts earlier lines: neither belongs to a
case.
"""
_CHECKSUMS = ("sha512", "sha3")  # modules of the kernel's crypto
_ESCAPE = re.compile(rb"\\x([0-9a-f]{2})")
_POINTER = re.compile(r"\bctx=0x[0-9a-f]+")
_TRACE = re.compile(
    r"CPU: \d+ (UID: \d+ )?PID: \d+|Hardware name:|Call [Tt]race:| </?TASK>| \?? ?[\w.]+\+0x[0-9a-f]+/|"
    r" \? 0x[0-9a-f]+$|traps: modprobe\[|modprobe\[\d+\]: segfault |"
    r"RIP: |RSP: |Code: |[ER][A-Z0-9]{2}: |R\d\d: |Tainted: |---\["
)


class Result(enum.StrEnum):
    """The result of comparing a case."""

    AGREES = "agrees"
    OPEN = "open"  # an init ran, whose result cannot be predicted
    UNANSWERED = "unanswered"  # evidence is missing in the bundle
    WRONG = "wrong"


class Comparison(Struct, frozen=True):
    """One compared case."""

    profile: str
    case: str
    result: Result
    differences: tuple[str, ...] = ()
    reason: str = ""  # what leaves an open result open
    unless: tuple[str, ...] = ()  # codes that the prediction could not check

    @property
    def word(self) -> str:
        """The result with its reason, as words.py keeps it."""
        if self.result is Result.OPEN:
            return f"{self.result}: {self.reason}"
        return f"{self.result}, unless {', '.join(self.unless)}" if self.unless else str(self.result)


Predictor = Callable[[Node, Recorded], "Prediction"]


def normal_error(text: str) -> str:
    """modprobe's error output without pointers."""
    return _POINTER.sub("ctx=POINTER", text).strip()


def normal_log(lines: Iterable[str]) -> tuple[str, ...]:
    """The kernel's lines without stack traces, and without lines that depend only on timing."""
    return tuple(
        _plain(line).rstrip() for line in lines if not _TRACE.match(line) and not _OF_TIME.search(line)
    )


def _plain(line: str) -> str:
    """A line without the escapes of /dev/kmsg: Documentation/ABI/testing/dev-kmsg."""
    octets = _ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), line.encode("utf-8", "replace"))
    return octets.decode("utf-8", "backslashreplace")


def same_answer(first: Answer, second: Answer) -> tuple[str, ...]:
    """The differences between two answers of a kernel to one case."""
    pairs = {
        "exit code": (first.exit_code, second.exit_code),
        "stderr": (normal_error(first.stderr), normal_error(second.stderr)),
        "log": (normal_log(first.log), normal_log(second.log)),
        "loaded": (first.loaded, second.loaded),
        "new modules": (sorted(first.new), sorted(second.new)),
        "stdout": (first.stdout, second.stdout),
        "taint": (first.tainted, second.tainted),
    }
    return tuple(f"{name}: {old!r} is now {new!r}" for name, (old, new) in pairs.items() if old != new)


def judge(prediction: Prediction, case: Recorded) -> tuple[Result, tuple[str, ...]]:
    """The result for one prediction, and its differences from what happened.

    A wrong prediction that names a check it could not make is not wrong, but unanswered; it is open if the
    case says that a bundle cannot show what decides.
    """
    differences = _differences(prediction, case)
    if differences and _assumed_wrongly(prediction, case):
        return Result.OPEN, ()
    if differences and prediction.unless and case.open_because:
        return Result.OPEN, ()
    if differences and prediction.unless:
        return Result.UNANSWERED, (f"unless {', '.join(prediction.unless)}", *differences)
    if differences:
        return Result.WRONG, differences
    return (Result.OPEN if prediction.result_unknown else Result.AGREES), ()


def _differences(prediction: Prediction, case: Recorded) -> tuple[str, ...]:
    answer = case.answer
    if prediction.result_unknown:
        if not (init_ran(case) or case.open_because):
            return (f"left open, but no init ran: {_short(answer)}",)
        states = () if case.open_because else _state_differences(prediction, answer)
        return (*_log_differences(prediction, answer), *states)
    predicted, happened = normal_log(prediction.kernel_log), normal_log(answer.log)
    pairs = {
        "exit code": (prediction.exit_code, answer.exit_code),
        "stderr": (normal_error("\n".join(prediction.stderr)), normal_error(answer.stderr)),
        "loaded": (prediction.loaded, answer.loaded),
        "log": (predicted, happened),
        "stdout": ("", answer.stdout),
        "modules": (sorted(prediction.inserted), _inserted(answer)),
        "taint": (prediction.tainted, int(answer.tainted)),
    }
    return tuple(f"{name}: predicted {a!r}, was {b!r}" for name, (a, b) in pairs.items() if a != b)


def _state_differences(prediction: Prediction, answer: Answer) -> tuple[str, ...]:
    """The differences in modules and taint if inits decide the result: those of a load that succeeds are as
    predicted, one that fails has no others.
    """
    modules, there, taint = set(prediction.inserted), set(_inserted(answer)), int(answer.tainted)
    whole = answer.exit_code == 0 and answer.loaded
    failed = set(answer.ran or ()) - there
    found = []
    if modules - failed != there if whole else not modules >= there:
        found.append(f"modules: predicted {sorted(modules)!r}, was {sorted(there)!r}")
    if prediction.tainted != taint if whole else taint & ~prediction.tainted:
        found.append(f"taint: predicted {prediction.tainted}, was {taint}")
    return tuple(found)


def _inserted(answer: Answer) -> list[str]:
    """The modules that modprobe loaded, without those that the kernel asked for to check a signature."""
    return sorted(name for name in answer.new if not name.startswith(_CHECKSUMS))


def _log_differences(prediction: Prediction, answer: Answer) -> tuple[str, ...]:
    """The differences in the log if inits decide the result. It is certain up to the first init. If the load
    succeeds, the other predicted lines must follow, with the inits' own lines in between.
    """
    predicted, happened = normal_log(prediction.kernel_log), normal_log(answer.log)
    certain = normal_log(prediction.kernel_log[: prediction.certain_lines])
    if happened[: len(certain)] != certain:
        return (f"log before init: predicted {certain!r}, was {happened!r}",)
    rest = iter(happened)
    if answer.exit_code == 0 and answer.loaded and not all(line in rest for line in predicted):
        return (f"log of a successful load: predicted {predicted!r}, was {happened!r}",)
    return ()


def _assumed_wrongly(prediction: Prediction, case: Recorded) -> bool:
    """Whether an init failed that was assumed to succeed, and everything that does not depend on it is
    correct.
    """
    answer = case.answer
    failed = [module for module in answer.ran or () if module not in answer.new]
    return (
        any(module in prediction.assumes for module in failed)
        and (prediction.exit_code, prediction.loaded) == (answer.exit_code, answer.loaded)
        and not _log_differences(prediction, answer)
        and not _state_differences(prediction, answer)
    )


def init_ran(case: Recorded) -> bool:
    """Whether an init decided the result: the module's own, or that of the last module before it."""
    ran = case.answer.ran
    if ran is None:  # the guest had no trace; a new module has run its init
        return case.answer.loaded or bool(case.answer.new)
    succeeded = case.answer.exit_code == 0 and bool(ran)  # an install line may load others
    return case.module in ran or succeeded or (bool(ran) and ran[-1] not in case.answer.new)


_UNTRACED = "an init, which the guest could not trace"
_RETURNED, _FAILED = "its init returned 0", "its init failed"
_OTHER_RETURNED, _OTHER_FAILED = "the init of another returned 0", "the init of a dependency failed"


INITS = (_UNTRACED, _RETURNED, _FAILED, _OTHER_RETURNED, _OTHER_FAILED)
"""Reasons of open results for which no bundle could decide: what an init returns is in none."""


def reason(case: Recorded) -> str:
    """What decides an open result, by the kernel's own trace."""
    answer = case.answer
    if case.open_because:
        return case.open_because
    if answer.ran is None:
        return _UNTRACED
    if case.module in answer.ran:
        return _RETURNED if answer.loaded else _FAILED
    return _OTHER_RETURNED if answer.exit_code == 0 and answer.ran else _OTHER_FAILED


def _short(answer: Answer) -> str:
    return f"exit {answer.exit_code}, {answer.stderr.strip()!r}, log {list(answer.log)!r}"


def compare(golden: Golden, contents: Mapping[str, bytes], predictor: Predictor) -> list[Comparison]:
    """The results for all cases of a recorded session."""
    found = []
    for case, evidence in cases(golden):
        node = Node(host(evidence, contents))
        unless: tuple[str, ...] = ()
        try:
            prediction = predictor(node, case)
            unless = prediction.unless
            result, differences = judge(prediction, case)
        except EvidenceMissing as error:
            missing = error.missing
            result, differences = Result.UNANSWERED, (f"{missing.source}: {missing.why}; {missing.ask}",)
            if case.open_because:
                result, differences = Result.OPEN, ()
        why = reason(case) if result is Result.OPEN else ""
        found.append(Comparison(golden.profile.name, case.name, result, differences, why, unless))
    return found


def counts(comparisons: Iterable[Comparison]) -> dict[str, int]:
    """The number of cases with each result."""
    totals = {result.value: 0 for result in Result}
    for row in comparisons:
        totals[row.result.value] += 1
    return totals
