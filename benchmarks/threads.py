"""How often `gdr explain` names the cause of a public thread, by a truth that was written before any run.

    uv run --no-sync python -m benchmarks.threads FOLDER [--half first] [-v]

FOLDER has the texts, at the paths of the column `text` in threads.tsv; no text is in the repository.

The class of an answer is decided by its structure alone:

- RIGHT: the headline names one cause, and it is the cause of the thread.
- LISTED: the cause is among the causes that the answer establishes or leaves open, but is not the headline.
- MISSED: the text decides the cause, and the answer does not have it.
- SILENT: the text does not decide the cause, and no headline claims one that the truth lacks.
- WRONG: the headline names, or the answer establishes, a cause that the truth forbids.
- GARBAGE: an error, a headline without a sentence, or a headline that establishes a cause which the truth
  lacks, where the text decides nothing.

WRONG comes before all others. `must_not` is read as follows: CODE is neither headline nor established; `CODE
as certain` is not established; `CODE for SUBJECT` is not a headline with that word; CODE with other words
after it is not the headline. A cause without a code
starts with `~`; threads-uncoded.tsv says which codes, or which words of the headline, are that cause
(`a & b`: both; regular expressions), and which words no sentence may have. These were written from the
words of the truth before a run. A row without them is an error, so that it is not judged by its answer.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from gdrkit.catalogue import CODES
from gdrkit.explain.explain import explain
from gdrkit.explain.explanation import Explanation
from gdrkit.explain.pasted_host import PastedHost

CLASSES = ("RIGHT", "LISTED", "SILENT", "MISSED", "WRONG", "GARBAGE")
HALVES = (
    "first",
    "last",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
    "tenth-programs",
    "eleventh",
)
HERE = Path(__file__).parent


class Thread(Struct, frozen=True, kw_only=True):
    """One row of threads.tsv, with its row of threads-uncoded.tsv."""

    half: str
    deciding: bool
    cause: str
    also: tuple[str, ...]
    must_not: tuple[str, ...]
    text: str
    codes: tuple[str, ...] = ()  # that are the cause, if it has no code of its own
    words: tuple[str, ...] = ()  # all of which a headline has that names such a cause
    never: str = ""  # what no sentence may have


class Answer(Struct, frozen=True, kw_only=True):
    """What an explanation says, as far as it is judged."""

    headline: str
    cause: str  # the code of the headline; "" if it names no single cause
    certain: bool  # the headline
    established: tuple[str, ...]
    listed: tuple[str, ...]  # codes of all causes, established or open
    sentences: tuple[str, ...]  # the headline, and each fact as `name: value`


def threads(table: Path) -> tuple[Thread, ...]:
    """The rows of a table. Raises ValueError for a cause without a code that nothing says how to judge."""
    uncoded = {row["text"]: row for row in _rows(table.with_name("threads-uncoded.tsv"))}
    found = []
    for row in _rows(table):
        more = uncoded.get(row["text"], {})
        found.append(
            Thread(
                half=row["half"],
                deciding=row["deciding"] == "yes",
                cause=row["cause"],
                also=_words(row["also"]),
                must_not=_words(row["must_not"]),
                text=row["text"],
                codes=_words(more.get("codes") or "-"),
                words=tuple((more.get("words") or "").split(" & ")) if more.get("words") else (),
                never=more.get("never") or "",
            )
        )
    return tuple(found)


def _rows(table: Path) -> list[dict[str, str]]:
    with table.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def _words(cell: str) -> tuple[str, ...]:
    return () if cell == "-" else tuple(word.strip() for word in cell.split(","))


def answer(explanation: Explanation) -> Answer:
    """The parts of an explanation that are judged."""
    given, machines = explanation.answer, explanation.machines
    established = tuple(found.code for machine in machines for found in machine.established)
    open_codes = tuple(code for machine in machines for line in machine.open for code in line.codes)
    beside = (cause for failure in given.besides for cause in failure.causes)
    others = tuple(cause.code for cause in (*given.others, *beside))
    cause = given.cause or ""
    words = " ".join((given.sentence, *(line.text for line in given.lines[:1])))
    facts = (
        f"{machine.name and f'{machine.name}: '}{fact.name}: {fact.value}"
        for machine in machines
        for fact in machine.known
    )
    return Answer(
        headline=words,
        cause=cause,
        certain=given.sureness == "certain",
        established=established,
        listed=tuple(code for code in dict.fromkeys((cause, *others, *established, *open_codes)) if code),
        sentences=(given.sentence, *facts),
    )


def judge(thread: Thread, given: Answer | None) -> str:
    """The class of an answer, as the docstring of this module defines it. None: an error."""
    if given is None or not given.headline.strip():
        return "GARBAGE"
    if _is_wrong(thread, given):
        return "WRONG"
    if thread.cause != "-" and _names(thread, given):
        return "RIGHT"
    if thread.deciding:
        return "LISTED" if {thread.cause, *thread.codes} & set(given.listed) else "MISSED"
    known = {thread.cause, *thread.codes, *(word.split()[0] for word in thread.also)}
    if given.cause in given.established and given.cause not in known:
        return "GARBAGE"
    return "SILENT"


def _names(thread: Thread, given: Answer) -> bool:
    """Whether the headline names the cause of the thread."""
    if given.cause and given.cause in (thread.cause, *thread.codes):
        return True
    words = thread.words
    return bool(words) and all(re.search(word, given.headline, re.IGNORECASE) for word in words)


def _is_wrong(thread: Thread, given: Answer) -> bool:
    if any(_is_claimed(entry, given) for entry in thread.must_not):
        return True
    return bool(thread.never) and any(re.search(thread.never, said, re.I) for said in given.sentences)


def _is_claimed(entry: str, given: Answer) -> bool:
    """Whether an answer claims what an entry of `must_not` forbids."""
    code, _, limit = entry.partition(" ")
    if code not in CODES:
        return False
    headline, established = code == given.cause, code in given.established
    if limit == "as certain":
        return established or (headline and given.certain)
    if limit.startswith("for "):
        return headline and limit.removeprefix("for ") in given.headline
    return headline or (established and not limit)


def run(thread: Thread, folder: Path) -> Answer | None:
    """The answer to one thread; None if explaining fails, which is never right."""
    try:
        return answer(explain(PastedHost((folder / thread.text).read_bytes())))
    except OSError:
        raise  # the folder lacks the text
    except Exception as error:  # the judge names it, and goes on with the other threads
        print(f"{thread.text}: {type(error).__name__}: {error}", file=sys.stderr)
        return None


def table(results: Iterable[tuple[Thread, str]]) -> str:
    """The number and percentage of each class, for the threads whose text decides and for all."""
    found = list(results)
    lines = [f"{'':<10} {'deciding':>14} {'all':>14}"]
    groups = [[kind for thread, kind in found if thread.deciding], [kind for _, kind in found]]
    for name in CLASSES:
        cells = (f"{Counter(group)[name]:>5} {_percent(group, name):>8}" for group in groups)
        lines.append(f"{name:<10} {' '.join(cells)}")
    lines.append(f"{'texts':<10} {len(groups[0]):>5} {'':>8} {len(groups[1]):>5}")
    return "\n".join(lines)


def _percent(group: Sequence[str], name: str) -> str:
    return f"{100 * Counter(group)[name] / len(group):.1f} %" if group else "-"


def unjudgeable(found: Iterable[Thread]) -> list[str]:
    """The texts whose cause has no code, and of which threads-uncoded.tsv does not say how to judge it."""
    return [
        thread.text
        for thread in found
        if thread.cause.startswith("~") and not (thread.codes or thread.words)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.threads", description="Judge gdr explain by threads.")
    parser.add_argument("folder", type=Path, help="folder of the texts")
    parser.add_argument("--half", choices=HALVES, help="only the threads of this half")
    parser.add_argument("--truth", type=Path, default=HERE / "threads.tsv", help="table of the truth")
    parser.add_argument("-v", "--verbose", action="store_true", help="list the answers that are not right")
    options = parser.parse_args(arguments)
    chosen = [thread for thread in threads(options.truth) if options.half in (None, thread.half)]
    if missing := unjudgeable(chosen):
        print(f"threads-uncoded.tsv does not say how to judge {', '.join(missing)}", file=sys.stderr)
        return 64
    results = []
    for thread in chosen:
        given = run(thread, options.folder)
        kind = judge(thread, given)
        results.append((thread, kind))
        if options.verbose and (kind != "RIGHT" if thread.deciding else kind != "SILENT"):
            said = given.headline[:90] if given else "-"
            print(f"{kind:<8} {thread.text}  {'deciding' if thread.deciding else '-':<9} {thread.cause}")
            print(f"{'':9}headline: {said}")
            print(f"{'':9}listed: {', '.join(given.listed) if given else ''}")
    print(table(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
