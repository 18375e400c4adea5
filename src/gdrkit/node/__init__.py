"""What gdrkit knows of one machine: facts, computed on demand, each with the evidence that it is based on.

    @fact
    def release(node: Node) -> str:
        return node.text("proc/sys/kernel/osrelease").strip()

    node = Node(host)  # a live machine or a bundle
    release(node)  # reads the file
    release(node)  # returns the same answer from memory
    node.trail(release).sources  # (Source("proc/sys/kernel/osrelease"),)

A *fact* is a function of a node, and often of a subject: `is_loaded(node, "nvidia_peermem")`. The node calls
it at most once for each subject and keeps the answer. A fact reads files and runs commands only through the
node, and may call other facts. The node records all of that: it is the answer's *trail*. Where the evidence
is missing, a fact raises EvidenceMissing, and the node keeps that as the answer.

`node.after(step, suppositions)` is the same node after a step that was not taken: a *supposition* sets a
fact, and every answer that was based on that fact is computed anew. An *observation*, such as a line in a
log, cannot be computed anew: if the step changes what it saw, it is stale and has no answer.

For facts whose evidence may be missing, `fallbacks` has `if_absent`, `if_missing`, `first_of` and others.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
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
from gdrkit.evidence.quoting import in_prose
from gdrkit.formats.errors import FormatError
from gdrkit.node.fallbacks import each_known, first_collected, first_of, if_absent, if_missing, lacking, seek

__all__ = [
    "AnyFact", "Fact", "Key", "Node", "Supposition", "Trail", "each_known", "fact", "first_collected",
    "first_of", "if_absent", "if_missing",
    "lacking", "likely", "observation", "seek",
]  # fmt: skip

Subject = TypeVarTuple("Subject")
T = TypeVar("T")
AnyFact: TypeAlias = "Fact[*tuple[Any, ...], Any]"
Key: TypeAlias = "tuple[AnyFact, tuple[Hashable, ...]]"


class Supposition(Struct, frozen=True):
    """What a step would make of one fact: the new answer, or a Missing where the step makes it uncertain.

    Made by `fact.becomes(answer, *subject)`, used by `Node.after`.
    """

    key: Key
    answer: object


class Fact(Generic[*Subject, T]):
    """A memoised function of a node and a subject; `@fact` makes one. Call it as `release(node)`.

    The answer is kept under the arguments as given, so there must be only one way to give them: they are
    positional, and none has a default.
    """

    def __init__(self, read: Callable[[Node, *Subject], T], saw: tuple[AnyFact, ...] = ()) -> None:
        if getattr(read, "__defaults__", None):
            raise TypeError(f"{read.__name__}: an argument of a fact cannot have a default")
        self.read, self.saw = read, saw
        self.__doc__, self.__name__, self.__module__ = read.__doc__, read.__name__, read.__module__

    def __call__(self, node: Node, /, *subject: *Subject) -> T:
        answer: T = node.answer(self, subject)
        return answer

    def becomes(self, answer: T | Missing, /, *subject: *Subject) -> Supposition:
        """The supposition that a step sets this fact; a Missing where the step makes it uncertain."""
        return Supposition((self, subject), answer)

    def __repr__(self) -> str:
        return f"<fact {self.__name__}>"


def fact(read: Callable[[Node, *Subject], T]) -> Fact[*Subject, T]:
    """Decorator: make a function of a node and a subject a fact."""
    return Fact(read)


def observation(*saw: AnyFact) -> Callable[[Callable[[Node, *Subject], T]], Fact[*Subject, T]]:
    """Decorator: make a fact of something that was observed once, such as a log line or a probe's answer.

    `saw` names the facts whose effect was observed. The line "nvidia_peermem: Unknown symbol" was printed
    under the linkage of that time. After a step that changes the linkage, the old line shows neither that
    the error remains nor that it is gone, and it cannot be read again, since the step was only supposed. So
    an observation raises EvidenceMissing (STALE) once a supposition changes one of these facts, or a fact
    that one of them is based on.
    """
    return lambda read: Fact(read, saw)


KEPT_BYTES = 1 << 16
"""Larger files are read again for each fact. All of sysfs and most of /proc and /etc is smaller."""


class _FactAnswer:
    """The answer of one fact for one subject: a value or an error, and what it is directly based on."""

    __slots__ = ("confidence", "error", "facts", "marks", "sources", "value")

    def __init__(self) -> None:
        self.value: Any = None
        self.error: EvidenceMissing | None = None
        self.sources: dict[Source, None] = {}  # in the order of reading
        self.marks: dict[str, tuple[int, ...]] = {}  # the relevant lines of a source cited as a whole
        self.facts: dict[Key, None] = {}  # the facts that it called
        self.confidence: Confidence | None = None  # the lowest in its trail; computed on demand


class Trail(Struct, frozen=True):
    """The evidence of one answer: every source read and every fact called on the way to it, at any depth."""

    sources: tuple[Source, ...] = ()
    facts: frozenset[Key] = frozenset()

    @property
    def confidence(self) -> Confidence:
        """The lowest confidence of any source."""
        return min({source.confidence for source in self.sources}, default=Confidence.CERTAIN)


class Node:
    """One machine as far as a host shows it: answers to facts, their trails, and access to evidence.

    Facts read evidence with `read`, `text`, `list`, `exists`, `resolve` and `run`. Each raises
    EvidenceMissing where the host cannot provide it, and its subclass EvidenceAbsent where the machine is
    known not to have it. Each is recorded as a source of the fact that is being computed.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        self._answers: dict[Key, _FactAnswer] = {}
        self._changed: frozenset[AnyFact] = frozenset()  # by the suppositions of `after`
        self._open: list[_FactAnswer] = [_FactAnswer()]  # answers being computed, the innermost last
        self._evidence: dict[tuple[str, str | Command], Any] = {}  # the host's results and errors
        self._dependents: dict[Key, list[Key]] = {}  # the answers based on one, of the first `_indexed`
        self._indexed = 0

    # -- facts -------------------------------------------------------------------------------------

    def answer(self, fact: AnyFact, subject: tuple[Hashable, ...]) -> Any:
        """The answer of a fact, computed on the first call. Raises EvidenceMissing if there is none."""
        key = fact, subject
        answer = self._answers.get(key)
        if answer is None:
            answer = self._compute(fact, subject)
            self._answers[key] = answer
        self._open[-1].facts[key] = None
        if answer.error is not None:
            raise answer.error.fresh()
        return answer.value

    def _compute(self, fact: AnyFact, subject: tuple[Hashable, ...]) -> _FactAnswer:
        answer = _FactAnswer()
        if not self._changed.isdisjoint(fact.saw):
            answer.error = EvidenceMissing(
                Missing(fact.__name__, MissingReason.STALE, "take the step, then look again")
            )
            return answer
        self._open.append(answer)
        try:
            answer.value = fact.read(self, *subject)
        except EvidenceMissing as error:
            answer.error = error.fresh()
        except FormatError as error:  # parsers do not know file names; the trail does
            name = ", ".join(source.name for source in answer.sources)
            name = name or " of ".join((fact.__name__, *map(str, subject)))
            ask = f"look at {in_prose(f'{name}: {error}')}"
            answer.error = EvidenceMissing(Missing(name, MissingReason.GARBLED, ask))
        finally:
            self._open.pop()
        return answer

    def supply(self, source: Source, *answers: Supposition) -> None:
        """Set answers that the user supplies beside the host; no assumption, unlike those of `after`."""
        for supplied in answers:
            answer = self._answers[supplied.key] = _FactAnswer()
            answer.value = supplied.answer
            answer.sources[source] = None

    def trail(self, fact: Fact[*Subject, Any], /, *subject: *Subject) -> Trail:
        """The evidence of an answer. Raises KeyError if the fact was not asked yet."""
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
        """The confidence of an answer's trail, without building the trail."""
        return self._lowest((fact, subject))

    def _lowest(self, key: Key) -> Confidence:
        answer = self._answers[key]
        if answer.confidence is None:
            own = {source.confidence for source in answer.sources}
            own.update(map(self._lowest, answer.facts))
            answer.confidence = min(own, default=Confidence.CERTAIN)
        return answer.confidence

    # -- evidence ----------------------------------------------------------------------------------

    def read(self, path: str) -> bytes:
        """A file's content."""
        content: bytes = self._look("read", path)
        return content

    def text(self, path: str) -> str:
        """A file's content as text. Bytes that are not UTF-8 become U+FFFD, so that no evidence is lost."""
        return self.read(path).decode("utf-8", "replace")

    def map(self, path: str) -> memoryview:
        """A file's content, mapped into memory where the host can do that."""
        content: memoryview = self._look("map", path)
        return content

    def list(self, path: str) -> tuple[str, ...]:
        """The names in a folder."""
        try:
            names: tuple[str, ...] = self._look("list", path)
        except EvidenceAbsent:
            raise
        except EvidenceMissing as error:
            raise for_names(error) from None
        return names

    def exists(self, path: str) -> bool:
        """Whether a file, folder or link exists. Raises EvidenceMissing where that is not known."""
        try:
            exists: bool = self._once("exists", path)
        except EvidenceMissing as error:
            raise for_names(error) from None
        self.cite(path, text="" if exists else "absent")
        return exists

    def resolve(self, path: str) -> str:
        """A path with every link followed."""
        real: str = self._look("resolve", path)
        return real

    def run(self, command: Command) -> str:
        """A command's output as text; in a bundle, from the file that holds it."""
        output: bytes = self._once("run", command)
        self.cite(command.line)
        return output.decode("utf-8", "replace")

    def _look(self, method: str, path: str) -> Any:
        try:
            found = self._once(method, path)
        except EvidenceAbsent:
            self.cite(path, text="absent")
            raise
        self.cite(path)
        return found

    def _once(self, method: str, target: str | Command) -> Any:
        """The result of a method of the host, called once for each target; large files are not kept."""
        found = self._evidence.get((method, target))
        if found is None:
            try:
                found = getattr(self.host, method)(target)
            except EvidenceMissing as error:
                found = error.fresh()
            if method != "read" or isinstance(found, EvidenceMissing) or len(found) <= KEPT_BYTES:
                self._evidence[method, target] = found
        if isinstance(found, EvidenceMissing):
            raise found.fresh()
        return found

    def cite(
        self,
        name: str,
        locator: str = "",
        text: str = "",
        confidence: Confidence = Confidence.CERTAIN,
        line: int = 0,
    ) -> None:
        """Record a source of the fact being computed, and the position in it; lines count from 1."""
        lines = (self.line_of(name, line),) if line else ()
        source = Source(name, locator or (f"line {lines[0]}" if lines else ""), text, confidence, lines)
        self._open[-1].sources[source] = None

    def mark(self, name: str, *lines: int) -> tuple[int, ...]:
        """Record the relevant lines of a source cited as a whole. Returns their numbers for the user."""
        numbers = tuple(self.line_of(name, line) for line in lines)
        self._open[-1].marks[name] = (*self._open[-1].marks.get(name, ()), *numbers)
        return numbers

    def describe_line(self, path: str, line: int | None = None) -> str:
        """A file, or a line in it, in words for the user. Marks the line."""
        origin = self.host.origin(path)
        lines = () if line is None else self.mark(path, line)
        if origin is None or not origin.title:
            return path if line is None else f"{path}:{line}"
        return f"{origin.title}, line {lines[0]}" if lines and origin.numbered else origin.title

    def line_of(self, name: str, line: int) -> int:
        """The number under which the user finds a line of a file or an output."""
        origin = self.host.origin(name)
        return line if origin is None else origin.line(line)

    # -- suppositions ------------------------------------------------------------------------------

    def after(self, step: str, changes: Iterable[Supposition]) -> Node:
        """A node like this one, after a step that makes these changes.

        It keeps every answer that is not based on a changed fact. Answers based on one are computed anew
        when asked. Observations of a changed fact have no answer any more: see `observation`.
        """
        supposed = {change.key: change.answer for change in changes}
        stale = self._based_on(supposed.keys())
        node = Node(self.host)
        node._evidence = self._evidence
        node._changed = self._changed | {fact for fact, _ in supposed.keys() | stale}
        silent = {key for key in self._answers if key[0].saw and not node._changed.isdisjoint(key[0].saw)}
        stale |= self._based_on(silent)
        node._answers = {key: answer for key, answer in self._answers.items() if key not in stale}
        for key, value in supposed.items():
            answer = _FactAnswer()
            if isinstance(value, Missing):
                answer.error = EvidenceMissing(value)
            else:
                answer.value = value
            answer.sources[Source(step, confidence=Confidence.ASSUMED)] = None
            node._answers[key] = answer
        return node

    def _based_on(self, keys: Iterable[Key]) -> set[Key]:
        """These keys, and those of all answers that are based on one of them."""
        for key in islice(self._answers, self._indexed, None):  # answers are only ever added
            for called in self._answers[key].facts:
                self._dependents.setdefault(called, []).append(key)
        self._indexed = len(self._answers)
        reached: set[Key] = set()
        stack = list(keys)
        while stack:
            key = stack.pop()
            if key not in reached:
                reached.add(key)
                stack.extend(self._dependents.get(key, ()))
        return reached


def _marked(source: Source, marks: Mapping[str, tuple[int, ...]]) -> Source:
    """A source with the lines marked in it, where it was cited as a whole."""
    if source.lines or source.locator or source.name not in marks:
        return source
    return replace(source, lines=marks[source.name])


def likely(node: Node, ask: Callable[[], T]) -> Callable[[], T]:
    """A weaker source for `first_of`: an answer based on it is likely, not certain.

    The function's name becomes the name of the source in the trail.
    """

    def asked() -> T:
        answer = ask()
        node.cite(ask.__name__.strip("_").replace("_", " "), confidence=Confidence.LIKELY)
        return answer

    return asked
