"""Prediction against kernel, case by case.

Normalized away, and nothing else: source lines and pointers of libkmod's own messages, and stack traces.
What a module's init returns is in no bundle, so a prediction may leave the result open; that is accepted
only where an init really ran, as the kernel's trace shows, and counted apart.
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

_LIBKMOD = re.compile(r"(\.\./libkmod/[\w-]+\.c):\d+")
_OF_TIME = re.compile(r"^hrtimer: interrupt took \d+ ns|^clocksource: |: \d+ callbacks suppressed$")
"""An emulated processor is slow, and a rate limit counts what was said before: neither tells of a case."""
_POINTER = re.compile(r"\bctx=0x[0-9a-f]+")
_TRACE = re.compile(
    r"CPU: \d+ (UID: \d+ )?PID: \d+|Hardware name:|Call [Tt]race:| </?TASK>| \?? ?[\w.]+\+0x[0-9a-f]+/|"
    r"RIP: |RSP: |Code: |[ER][A-Z0-9]{2}: |R\d\d: |Tainted: |---\["
)


class Word(enum.StrEnum):
    """What became of a case."""

    AGREES = "agrees"
    OPEN = "open"  # an init ran, whose answer nobody could know
    UNANSWERED = "unanswered"  # the bundle lacks something
    WRONG = "wrong"


class Comparison(Struct, frozen=True):
    """One case, judged."""

    profile: str
    case: str
    word: Word
    differences: tuple[str, ...] = ()


Predictor = Callable[[Node, Recorded], "Prediction"]


def normal_error(text: str) -> str:
    """modprobe's complaints without what only its own source decides."""
    return _POINTER.sub("ctx=POINTER", _LIBKMOD.sub(r"\1:LINE", text)).strip()


def normal_log(lines: Iterable[str]) -> tuple[str, ...]:
    """The kernel's lines without stack traces, and without what speaks of time alone."""
    return tuple(line.rstrip() for line in lines if not _TRACE.match(line) and not _OF_TIME.search(line))


def same_answer(first: Answer, second: Answer) -> tuple[str, ...]:
    """How two answers of a kernel to one case differ; empty if they do not."""
    pairs = {
        "exit code": (first.exit_code, second.exit_code),
        "stderr": (normal_error(first.stderr), normal_error(second.stderr)),
        "log": (normal_log(first.log), normal_log(second.log)),
        "loaded": (first.loaded, second.loaded),
        "came": (sorted(first.new), sorted(second.new)),
    }
    return tuple(f"{name}: {old!r} is now {new!r}" for name, (old, new) in pairs.items() if old != new)


def judge(prediction: Prediction, case: Recorded) -> tuple[Word, tuple[str, ...]]:
    """The word for one prediction, and how it differs from what happened.

    A prediction that names a check which it could not make is no confident error, but no agreement either.
    """
    differences = _differences(prediction, case)
    if differences and _assumed_wrongly(prediction, case):
        return Word.OPEN, ()
    if differences and prediction.unless:
        return Word.UNANSWERED, (f"unless {', '.join(prediction.unless)}", *differences)
    if differences:
        return Word.WRONG, differences
    return (Word.OPEN if prediction.result_unknown else Word.AGREES), ()


def _differences(prediction: Prediction, case: Recorded) -> tuple[str, ...]:
    answer = case.answer
    if prediction.result_unknown:
        if not (init_ran(case) or case.open_because):
            return (f"left open, but no init ran: {_short(answer)}",)
        return _log_differences(prediction, answer)
    said, happened = normal_log(prediction.kernel_log), normal_log(answer.log)
    pairs = {
        "exit code": (prediction.exit_code, answer.exit_code),
        "stderr": (normal_error("\n".join(prediction.stderr)), normal_error(answer.stderr)),
        "loaded": (prediction.loaded, answer.loaded),
        "log": (said, happened),
    }
    return tuple(f"{name}: predicted {a!r}, was {b!r}" for name, (a, b) in pairs.items() if a != b)


def _log_differences(prediction: Prediction, answer: Answer) -> tuple[str, ...]:
    """How the log differs where inits decide: up to the first of them it is certain; if all goes well,
    the rest comes too, with what the inits themselves say in between.
    """
    said, happened = normal_log(prediction.kernel_log), normal_log(answer.log)
    certain = normal_log(prediction.kernel_log[: prediction.certain_lines])
    if happened[: len(certain)] != certain:
        return (f"log before init: predicted {certain!r}, was {happened!r}",)
    rest = iter(happened)
    if answer.exit_code == 0 and answer.loaded and not all(line in rest for line in said):
        return (f"log if all goes well: predicted {said!r}, was {happened!r}",)
    return ()


def _assumed_wrongly(prediction: Prediction, case: Recorded) -> bool:
    """Whether an init failed that was taken to succeed, and all that does not hang on it is right."""
    answer = case.answer
    failed = [module for module in answer.ran or () if module not in answer.new]
    return (
        any(module in prediction.assumes for module in failed)
        and (prediction.exit_code, prediction.loaded) == (answer.exit_code, answer.loaded)
        and not _log_differences(prediction, answer)
    )


def init_ran(case: Recorded) -> bool:
    """Whether an init decided what happened: the module's own, or that of the last one before it."""
    ran = case.answer.ran
    if ran is None:  # the guest could not see; a module that came has run its init
        return case.answer.loaded or bool(case.answer.new)
    return case.module in ran or (bool(ran) and ran[-1] not in case.answer.new)


def _short(answer: Answer) -> str:
    return f"exit {answer.exit_code}, {answer.stderr.strip()!r}, log {list(answer.log)!r}"


def compare(golden: Golden, contents: Mapping[str, bytes], predictor: Predictor) -> list[Comparison]:
    """Every case of a recorded session."""
    found = []
    for case, evidence in cases(golden):
        node = Node(host(evidence, contents))
        try:
            word, differences = judge(predictor(node, case), case)
        except EvidenceMissing as lacks:
            missing = lacks.missing
            word, differences = Word.UNANSWERED, (f"{missing.source}: {missing.why}; {missing.ask}",)
        found.append(Comparison(golden.profile.name, case.name, word, differences))
    return found


def counts(comparisons: Iterable[Comparison]) -> dict[str, int]:
    """How many cases each word got."""
    totals = {word.value: 0 for word in Word}
    for row in comparisons:
        totals[row.word.value] += 1
    return totals
