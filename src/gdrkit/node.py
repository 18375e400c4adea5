"""A node answers questions, each once, and remembers what every answer stands on.

Everything asked of a node is a memoised function with the node first: `linkage(node, "nvidia_peermem")`.
Provenance stays outside values: the node keeps each answer's trail. Nothing is read until asked.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Generic, TypeAlias, TypeVar, TypeVarTuple

from msgspec import Struct
from msgspec.structs import replace

from gdrkit.evidence import (
    Command,
    Confidence,
    EvidenceAbsent,
    EvidenceMissing,
    Host,
    Missing,
    MissingReason,
    Source,
)
from gdrkit.evidence.missing import for_names
from gdrkit.formats.errors import FormatError

Subject = TypeVarTuple("Subject")
T = TypeVar("T")
Default = TypeVar("Default")
Candidate = TypeVar("Candidate")
AnyFact: TypeAlias = "Fact[*tuple[Any, ...], Any]"
Key: TypeAlias = "tuple[AnyFact, tuple[Hashable, ...]]"


class Supposition(Struct, frozen=True):
    """A fact that a remedy sets, or makes uncertain by setting it to a Missing."""

    key: Key
    answer: object


class Fact(Generic[*Subject, T]):
    """A question that a node can answer. Call it with the node and the subject.

    A subject is given by position and in full: an answer is remembered under the subject as it was given, so
    there must be but one way to give it.
    """

    def __init__(self, read: Callable[[Node, *Subject], T], saw: tuple[AnyFact, ...] = ()) -> None:
        if getattr(read, "__defaults__", None):
            raise TypeError(f"{read.__name__}: an argument with a default would be two questions")
        self.read, self.saw = read, saw
        self.__doc__, self.__name__, self.__module__ = read.__doc__, read.__name__, read.__module__

    def __call__(self, node: Node, /, *subject: *Subject) -> T:
        answer: T = node.answer(self, subject)
        return answer

    def becomes(self, answer: T | Missing, /, *subject: *Subject) -> Supposition:
        """What a remedy promises of this fact; a Missing where it makes the answer uncertain."""
        return Supposition((self, subject), answer)

    def __repr__(self) -> str:
        return f"<fact {self.__name__}>"


def fact(read: Callable[[Node, *Subject], T]) -> Fact[*Subject, T]:
    """Make a memoised question of a function."""
    return Fact(read)


def observation(*saw: AnyFact) -> Callable[[Callable[[Node, *Subject], T]], Fact[*Subject, T]]:
    """A fact that saw others in action, once. Change one of them, and it has nothing to say."""
    return lambda read: Fact(read, saw)


KEPT_BYTES = 1 << 16
"""The largest file whose content is kept for the next question: all of sysfs, and most of /proc and /etc."""


class _Answer:
    """A value, or why there is none, and what was opened and asked on the way to it."""

    __slots__ = ("confidence", "facts", "lacks", "marks", "sources", "value")

    def __init__(self) -> None:
        self.value: Any = None
        self.lacks: EvidenceMissing | None = None
        self.sources: dict[Source, None] = {}  # in the order of reading
        self.marks: dict[str, tuple[int, ...]] = {}  # lines that count of a source as a whole
        self.facts: dict[Key, None] = {}
        self.confidence: Confidence | None = None  # of everything below, once somebody asked for it


class Trail(Struct, frozen=True):
    """What an answer stands on, all the way down."""

    sources: tuple[Source, ...] = ()
    facts: frozenset[Key] = frozenset()

    @property
    def confidence(self) -> Confidence:
        return min({source.confidence for source in self.sources}, default=Confidence.CERTAIN)


class Node:
    """One machine, as far as a host can tell. Pure but for the host it was given."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._answers: dict[Key, _Answer] = {}
        self._changed: frozenset[AnyFact] = frozenset()
        self._open: list[_Answer] = [_Answer()]
        self._evidence: dict[tuple[str, str | Command], Any] = {}  # what the host said, its refusals too
        self._above: dict[Key, list[Key]] = {}  # what stands on an answer, of the first `_indexed` answers
        self._indexed = 0

    # -- questions ---------------------------------------------------------------------------------

    def answer(self, fact: AnyFact, args: tuple[Hashable, ...]) -> Any:
        """The answer to a question, from memory if it was asked before. Raises EvidenceMissing if there is
        none."""
        key = fact, args
        answer = self._answers.get(key)
        if answer is None:
            answer = self._ask(fact, args)
            self._answers[key] = answer
        self._open[-1].facts[key] = None
        if answer.lacks is not None:
            raise answer.lacks.with_traceback(None)
        return answer.value

    def _ask(self, fact: AnyFact, args: tuple[Hashable, ...]) -> _Answer:
        answer = _Answer()
        if not self._changed.isdisjoint(fact.saw):
            answer.lacks = EvidenceMissing(
                Missing(fact.__name__, MissingReason.STALE, "take the step, then look again")
            )
            return answer
        self._open.append(answer)
        try:
            answer.value = fact.read(self, *args)
        except EvidenceMissing as lacks:
            answer.lacks = lacks
        except FormatError as error:  # parsers know no file names; the trail does
            name = ", ".join(source.name for source in answer.sources) or fact.__name__
            answer.lacks = EvidenceMissing(Missing(name, MissingReason.GARBLED, f"look at {name}: {error}"))
        finally:
            self._open.pop()
        return answer

    def trail(self, fact: Fact[*Subject, Any], /, *subject: *Subject) -> Trail:
        """What the answer to a question stands on. The question must have been asked."""
        sources: dict[Source, None] = {}
        marks: dict[str, tuple[int, ...]] = {}
        facts: dict[Key, None] = {}
        stack: list[Key] = [(fact, subject)]
        while stack:
            key = stack.pop()
            if key in facts:
                continue
            facts[key] = None
            answer = self._answers[key]
            sources.update(answer.sources)
            for name, lines in answer.marks.items():
                marks[name] = (*marks.get(name, ()), *lines)
            stack.extend(reversed(answer.facts))
        return Trail(tuple(_marked(source, marks) for source in sources), frozenset(facts))

    def confidence(self, fact: Fact[*Subject, Any], /, *subject: *Subject) -> Confidence:
        """That of the weakest thing an answer stands on: its trail's, without laying out the trail."""
        return self._weakest((fact, subject))

    def _weakest(self, key: Key) -> Confidence:
        answer = self._answers[key]
        if answer.confidence is None:
            own = {source.confidence for source in answer.sources}
            own.update(map(self._weakest, answer.facts))
            answer.confidence = min(own, default=Confidence.CERTAIN)
        return answer.confidence

    # -- evidence ----------------------------------------------------------------------------------

    def read(self, path: str) -> bytes:
        """A file's content; noted, like each of these, as a source of the question being answered."""
        content: bytes = self._look("read", path)
        return content

    def text(self, path: str) -> str:
        """A file as text. Bytes that are not UTF-8 become U+FFFD: evidence is never lost to an encoding."""
        return self.read(path).decode("utf-8", "replace")

    def map(self, path: str) -> memoryview:
        content: memoryview = self._look("map", path)
        return content

    def list(self, path: str) -> tuple[str, ...]:
        try:
            names: tuple[str, ...] = self._look("list", path)
        except EvidenceAbsent:
            raise
        except EvidenceMissing as lacks:
            raise for_names(lacks) from None
        return names

    def exists(self, path: str) -> bool:
        try:
            there: bool = self._once("exists", path)
        except EvidenceMissing as lacks:
            raise for_names(lacks) from None
        self.cite(path, text="" if there else "absent")
        return there

    def resolve(self, path: str) -> str:
        real: str = self._look("resolve", path)
        return real

    def run(self, command: Command) -> str:
        """A command's output as text; in a bundle, the file that holds it."""
        output: bytes = self._once("run", command)
        self.cite(command.line)
        return output.decode("utf-8", "replace")

    def _look(self, how: str, path: str) -> Any:
        try:
            found = self._once(how, path)
        except EvidenceAbsent:
            self.cite(path, text="absent")
            raise
        self.cite(path)
        return found

    def _once(self, how: str, what: str | Command) -> Any:
        """What the host says, asked but once; but a large file is kept by the question that needs it."""
        found = self._evidence.get((how, what))
        if found is None:
            try:
                found = getattr(self.host, how)(what)
            except EvidenceMissing as lacks:
                found = lacks
            if how != "read" or isinstance(found, EvidenceMissing) or len(found) <= KEPT_BYTES:
                self._evidence[how, what] = found
        if isinstance(found, EvidenceMissing):
            raise found.with_traceback(None)
        return found

    def cite(
        self,
        name: str,
        locator: str = "",
        text: str = "",
        confidence: Confidence = Confidence.CERTAIN,
        line: int = 0,
    ) -> None:
        """Note what the question being answered stands on, and the place in it; lines count from 1."""
        lines = (self.line_of(name, line),) if line else ()
        source = Source(name, locator or (f"line {lines[0]}" if lines else ""), text, confidence, lines)
        self._open[-1].sources[source] = None

    def mark(self, name: str, *lines: int) -> tuple[int, ...]:
        """Note which lines count of a source as a whole. Their numbers, as a reader sees them."""
        seen = tuple(self.line_of(name, line) for line in lines)
        self._open[-1].marks[name] = (*self._open[-1].marks.get(name, ()), *seen)
        return seen

    def describe_line(self, path: str, line: int | None = None) -> str:
        """How to tell a reader of a file, or of a line in it; the line is marked."""
        origin = self.host.origin(path)
        lines = () if line is None else self.mark(path, line)
        if origin is None or not origin.title:
            return path if line is None else f"{path}:{line}"
        return f"{origin.title}, line {lines[0]}" if lines and origin.numbered else origin.title

    def line_of(self, name: str, line: int) -> int:
        """The number under which a reader finds a line of a file or an output."""
        origin = self.host.origin(name)
        return line if origin is None else origin.line(line)

    # -- suppositions ------------------------------------------------------------------------------

    def after(self, step: str, changes: Iterable[Supposition]) -> Node:
        """This node once a step is taken: what stood on it is asked anew, its witnesses fall silent."""
        news = {change.key: change.answer for change in changes}
        stale = self._standing_on(news.keys())
        node = Node(self.host)
        node._evidence = self._evidence
        node._changed = self._changed | {fact for fact, _ in news.keys() | stale}
        silent = {key for key in self._answers if key[0].saw and not node._changed.isdisjoint(key[0].saw)}
        stale |= self._standing_on(silent)
        node._answers = {key: answer for key, answer in self._answers.items() if key not in stale}
        for key, value in news.items():
            answer = _Answer()
            if isinstance(value, Missing):
                answer.lacks = EvidenceMissing(value)
            else:
                answer.value = value
            answer.sources[Source(step, confidence=Confidence.ASSUMED)] = None
            node._answers[key] = answer
        return node

    def _standing_on(self, keys: Iterable[Key]) -> set[Key]:
        """Those keys and every answered question whose answer stands on one of them."""
        for key in islice(self._answers, self._indexed, None):  # answers are only ever added
            for below in self._answers[key].facts:
                self._above.setdefault(below, []).append(key)
        self._indexed = len(self._answers)
        reached: set[Key] = set()
        stack = list(keys)
        while stack:
            key = stack.pop()
            if key not in reached:
                reached.add(key)
                stack.extend(self._above.get(key, ()))
        return reached


def _marked(source: Source, marks: Mapping[str, tuple[int, ...]]) -> Source:
    """A source with the lines that count of it, where it was noted as a whole."""
    if source.lines or source.locator or source.name not in marks:
        return source
    return replace(source, lines=marks[source.name])


# -- where there is no answer ----------------------------------------------------------------------
# Absent is a fact: somebody looked, and it is not there. Missing is that, and also what nobody looked at or
# may see. A default for what is absent is knowledge; a default for what is missing is a choice.


def if_absent(default: Default, ask: Callable[[*Subject], T], *subject: *Subject) -> T | Default:
    """The answer, or the default where somebody looked and it is not there. Not-collected still raises."""
    try:
        return ask(*subject)
    except EvidenceAbsent:
        return default


def if_missing(default: Default, ask: Callable[[*Subject], T], *subject: *Subject) -> T | Default:
    """The answer, or the default where there is none, whyever."""
    try:
        return ask(*subject)
    except EvidenceMissing:
        return default


def first_of(*sources: Callable[[], T]) -> T:
    """The answer of the first source that has one, best first; the first reason if none has."""
    return _first(sources, lambda _: True)


def first_collected(*sources: Callable[[], T]) -> T:
    """The first source that somebody looked at decides, even if it says no; the first reason if none was.

    So no program is started on a live machine for what its files deny: the program is denied it, too.
    """
    return _first(sources, lambda lacks: lacks.missing.why is MissingReason.NOT_COLLECTED)


def _first(sources: Iterable[Callable[[], T]], goes_on: Callable[[EvidenceMissing], bool]) -> T:
    reason: EvidenceMissing | None = None
    for ask in sources:
        try:
            return ask()
        except EvidenceMissing as lacks:
            if not goes_on(lacks):
                raise
            reason = reason or lacks
    raise reason or LookupError("no source")


def likely(node: Node, ask: Callable[[], T]) -> Callable[[], T]:
    """A source of lesser authority, named for what it asks: what stands on its answer is but likely."""

    def asked() -> T:
        answer = ask()
        node.cite(ask.__name__.strip("_").replace("_", " "), confidence=Confidence.LIKELY)
        return answer

    return asked


def seek(candidates: Iterable[T], found: Callable[[T], bool]) -> T | None:
    """The first candidate that is `found`; None if none is; EvidenceMissing only if that cannot be told.

    A hit beats an unreadable neighbour: one unreadable port hides no port that redirects.
    """
    reason: EvidenceMissing | None = None
    for candidate in candidates:
        try:
            if found(candidate):
                return candidate
        except EvidenceMissing as lacks:
            reason = reason or lacks
    if reason is not None:
        raise reason
    return None


def each_known(ask: Callable[[Candidate], T], subjects: Iterable[Candidate]) -> Iterator[T]:
    """The answers that can be had, of many subjects; those that are missing are passed over."""
    for subject in subjects:
        try:
            yield ask(subject)
        except EvidenceMissing:
            continue
