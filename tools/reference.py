"""Write the references that the code itself holds: JSON documents, metrics, and the Python API.

`uv run --no-sync python -m tools.reference` writes docs/json/, docs/metrics.md and docs/transport-api.md;
with --check it only lists outdated files, and exits 1 if any.

What a key means is the comment after its field in the source, or the docstring of its class.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import io
import re
import sys
import textwrap
import tokenize
from collections.abc import Iterator
from pathlib import Path

from msgspec import inspect as types
from tools.counts import table

import gdrkit.transport as transport
from gdrkit.catalogue import CODES
from gdrkit.cli.schema import DOCUMENTS, command_of, document_of
from gdrkit.evidence import Confidence
from gdrkit.fleet.document import FleetReport
from gdrkit.fleet.metrics import fleet_metrics
from gdrkit.jobs.running.document import PsDocument
from gdrkit.jobs.running.metrics import job_metrics
from gdrkit.report.document import ExpectationSection, NextBootSection, NodeSection, Report, VerdictSection
from gdrkit.report.metrics import node_metrics
from gdrkit.verdict.path_state import State

DOCS = Path(__file__).parent.parent / "docs"
STABLE = "keys are added, none is renamed ([what is stable](../architecture.md#what-is-stable))"
LINE = 100
"""Characters of a signature on one line."""
VALUES_SHOWN = 12
"""Values of an enumeration that a table lists; of a longer one it has the number."""


def wanted() -> dict[Path, str]:
    """Every generated file and its content."""
    files = {DOCS / "json" / f"{name}.md": document_page(name) for name in DOCUMENTS}
    files[DOCS / "json" / "index.md"] = documents_page()
    files[DOCS / "metrics.md"] = metrics_page()
    files[DOCS / "transport-api.md"] = api_page()
    return files


# -- JSON ------------------------------------------------------------------------------------------


def documents_page() -> str:
    """Every document, and the command that writes it."""
    rows = [
        (f"[gdrkit.{name}/1]({name}.md)", f"`{command_of(name)}`", _about(document_of(name)))
        for name in DOCUMENTS
    ]
    return (
        "# JSON documents\n\n"
        "Each document names its schema in the key `schema`, and `gdr schema DOCUMENT` prints that schema. "
        f"Documents only\ngrow: {STABLE}.\n\n" + table(("schema", "written by", "what it is"), rows)
    )


def document_page(name: str) -> str:
    """The keys of a document: a table for each kind of object in it, in the order of the document."""
    root = types.type_info(document_of(name))
    assert isinstance(root, types.StructType)
    places: dict[type, str] = {root.cls: ""}
    queue = [root]
    parts = [f"# gdrkit.{name}/1", f"{_about(root.cls)} `{command_of(name)}` writes it."]
    while queue:
        struct = queue.pop(0)
        place = places[struct.cls]
        if place:
            about = _about(struct.cls)
            parts += [f"## {_title(struct.cls)}", f"At `{place}`.{f' {about}' if about else ''}"]
        meanings = _meanings(struct.cls)
        rows = []
        if struct.tag_field:
            rows.append((f"`{struct.tag_field}`", f"`{struct.tag}`", ""))
        for field in struct.fields:
            key = field.encode_name
            for found, suffix in _structs(field.type):
                if found.cls not in places:
                    places[found.cls] = f"{place}.{key}{suffix}".lstrip(".")
                    queue.append(found)
            rows.append((f"`{key}`", _type(field.type), meanings.get(field.name, "")))
        parts.append(table(("key", "value", "meaning"), rows).rstrip())
    return "\n\n".join(parts) + "\n"


def _structs(of: types.Type, suffix: str = "") -> Iterator[tuple[types.StructType, str]]:
    """The objects in a value, and what leads to each: `[]` into a list, `.KEY` into an object."""
    match of:
        case types.StructType():
            yield of, suffix
        case types.Metadata():
            yield from _structs(of.type, suffix)
        case types.UnionType():
            for one in of.types:
                yield from _structs(one, suffix)
        case types.ListType() | types.VarTupleType():
            yield from _structs(of.item_type, f"{suffix}[]")
        case types.TupleType():
            for one in of.item_types:
                yield from _structs(one, f"{suffix}[]")
        case types.DictType():
            yield from _structs(of.value_type, f"{suffix}.KEY")


def _type(of: types.Type) -> str:
    """A type in words."""
    match of:
        case types.StructType():
            title = _title(of.cls)
            return f"[{title}](#{title.lower().replace(' ', '-')})"
        case types.Metadata():
            schema = of.extra_json_schema or {}
            if found := schema.get("enum"):
                return _values(found)
            return "text" if schema.get("type") == "string" else _type(of.type)
        case types.EnumType():
            return _values([member.value for member in of.cls])
        case types.LiteralType():
            return _values(of.values)
        case types.UnionType():
            return " or ".join(map(_type, of.types))
        case types.ListType() | types.VarTupleType():
            return f"list of {_type(of.item_type)}"
        case types.TupleType():
            return f"list: {', '.join(map(_type, of.item_types))}"
        case types.DictType():
            return f"object: KEY is {_type(of.key_type)}, its value {_type(of.value_type)}"
        case types.StrType():
            return "text"
        case types.IntType():
            return "integer"
        case types.FloatType():
            return "number"
        case types.BoolType():
            return "true or false"
        case types.NoneType():
            return "null"
        case types.AnyType():
            return "any value"
    raise ValueError(f"no words for {of}")


def _values(values: object) -> str:
    words = [str(value) for value in values]  # type: ignore[attr-defined]
    if words and set(words) <= set(CODES) and len(words) > VALUES_SHOWN:
        return "[finding code](../codes/index.md)"
    if len(words) > VALUES_SHOWN:
        return f"one of {len(words)} words"
    return " or ".join(f"`{word}`" for word in words)


def _title(cls: type) -> str:
    """The name of a class in words: PlanStep is Plan step."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", cls.__name__.removesuffix("Section") or cls.__name__)
    return words[0] + words[1:].lower()


def _about(cls: type) -> str:
    """The first paragraph of a docstring; "" for a class without one of its own."""
    own = cls.__dict__.get("__doc__") or ""
    return plain(" ".join(inspect.cleandoc(own).split("\n\n")[0].split())) if own else ""


def _meanings(cls: type) -> dict[str, str]:
    """For each field the comment after it, or the text below it."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("gdrkit."):
            found.update(_own_meanings(base))
    return found


def _own_meanings(cls: type) -> dict[str, str]:
    source = textwrap.dedent(inspect.getsource(cls))
    comments = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.ClassDef)
    found = {}
    for statement, after in zip(definition.body, [*definition.body[1:], None], strict=True):
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        words = comments.get(statement.end_lineno or statement.lineno, "")
        if not words and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            words = " ".join(str(after.value.value).split())
        found[statement.target.id] = plain(words)
    return found


# -- metrics ---------------------------------------------------------------------------------------


def metrics_page() -> str:
    """Every metric of `gdr export`, with its labels."""
    node = Report(
        node=NodeSection(hostname="", kernel="", source="", scope=""),
        verdict=VerdictSection(
            state=State.READY, consumer="nccl", first_broken_layer=None, cause=None, best_fallback=None,
            summary="",
        ),
        consumers={}, gpus=(), pairs=(), judgements={}, findings=(), what_then=(), plan=(), modprobe=None,
        probes=(), measurements=(), expectation=ExpectationSection(file="", met="yes", differs=()),
        next_boot=NextBootSection(
            state=State.READY, kernel="", cause=None, seen="", remedies=(), commands=(),
            confidence=Confidence.CERTAIN,
        ),
        in_use=(),
        ports=(),
    )  # fmt: skip
    fleet = FleetReport(
        started="2026-11-22T23:31:05Z", seconds=0, complete=True, counts={}, groups=(), fixes=(), drift=(),
        mismatches=(), odd=(), expected=(), nodes=(),
    )  # fmt: skip
    jobs = PsDocument(
        as_root=True, processes=(), jobs=(), ports=(), gpus=(), communicators=(), diagnostics=None,
        sources=(),
        unowned_regions=0, unowned_bytes=0, unreadable_processes=0, complete=True, notes=(),
    )  # fmt: skip
    shown: set[str] = set()
    parts = [
        "# Metrics",
        "What `gdr export` writes; [monitoring](monitoring.md) shows how to use it. Every "
        "metric is a gauge.\nA state has a series for each value that it can have, 1 for the one that holds "
        "and 0 for the others; an `_info` is always 1.",
    ]
    for title, metrics in (
        ("Of a node", node_metrics(node, 0.0)),
        ("Of the jobs on it", job_metrics("", jobs)),
        ("Of a fleet", fleet_metrics(fleet)),
    ):
        new = [metric for metric in metrics if metric.name not in shown]
        shown.update(metric.name for metric in new)
        rows = ((f"`{m.name}`", ", ".join(m.labels), m.help) for m in new)
        parts += [f"## {title}", table(("metric", "labels", "value"), rows).rstrip()]
    return "\n\n".join(parts) + "\n"


# -- Python ----------------------------------------------------------------------------------------


def api_page() -> str:
    """The public names of gdrkit.transport, with signatures and docstrings."""
    parts = [
        "# gdrkit.transport, name by name",
        "[Moving memory between processes](transport.md) explains the library; "
        "this page is made of its docstrings.",
    ]
    names = sorted(transport.__all__, key=lambda name: (_kind(name), name.casefold()))
    for name in names:
        found = getattr(transport, name)
        parts.append(f"## {name}")
        if not callable(found):
            quoted = repr(found).replace("'", '"')  # as ruff formats it
            parts.append(f"```python\n{name} = {quoted}\n```")
            continue
        signed = _signature(name, found)
        parts += [signed] if signed else []
        parts.append(_docstring(found))
        parts += _members(found) if inspect.isclass(found) else []
    return "\n\n".join(part for part in parts if part) + "\n"


def _kind(name: str) -> int:
    """The order of the page: functions, classes, errors, constants."""
    found = getattr(transport, name)
    if not callable(found):
        return 3
    return 0 if not inspect.isclass(found) else 2 if issubclass(found, BaseException) else 1


def _members(cls: type) -> Iterator[str]:
    """The public methods and properties that a class defines itself, or inherits from gdrkit."""
    for name, member in inspect.getmembers(cls):
        home = getattr(member, "__module__", "") or getattr(getattr(member, "fget", None), "__module__", "")
        if name.startswith("_") or not home.startswith("gdrkit.") or issubclass(cls, BaseException):
            continue
        if isinstance(member, property):
            yield f"### {cls.__name__}.{name}\n\n{_docstring(member)}".rstrip()
        elif inspect.isroutine(member):
            signed = _signature(f"{cls.__name__}.{name}", member)
            yield f"### {cls.__name__}.{name}()\n\n{signed}\n\n{_docstring(member)}".rstrip()


def _signature(name: str, found: object) -> str:
    """How a name is called, one parameter a line where it is long; "" for errors."""
    if inspect.isclass(found) and issubclass(found, BaseException):
        return ""
    try:
        signature = inspect.signature(found)  # type: ignore[arg-type]
    except ValueError:
        return ""
    shown = [p for p in signature.parameters.values() if p.name not in ("self", "cls")]
    words = _with_star(shown, [_parameter(p) for p in shown])
    result = signature.return_annotation
    gives = (
        "" if result is inspect.Signature.empty or inspect.isclass(found) else f" -> {_annotation(result)}"
    )
    line = f"{name}({', '.join(words)}){gives}"
    if len(line) > LINE:
        line = f"{name}(\n{''.join(f'    {word},{chr(10)}' for word in words)}){gives}"
    return f"```python\n{line}\n```"


def _parameter(parameter: inspect.Parameter) -> str:
    words, empty = str(parameter), inspect.Parameter.empty
    star = words[: len(words) - len(words.lstrip("*"))]
    of = "" if parameter.annotation is empty else f": {_annotation(parameter.annotation)}"
    default = "" if parameter.default is empty else f" = {parameter.default!r}"
    return f"{star}{parameter.name}{of}{default}"


def _annotation(found: object) -> str:
    """A type as the source writes it."""
    words = getattr(found, "__forward_arg__", found)
    return words if isinstance(words, str) else getattr(words, "__name__", str(words))


def _with_star(parameters: list[inspect.Parameter], words: list[str]) -> list[str]:
    """The parameters, with the `*` before those that are given by name only."""
    kinds = [parameter.kind for parameter in parameters]
    only = inspect.Parameter.KEYWORD_ONLY
    if only not in kinds or inspect.Parameter.VAR_POSITIONAL in kinds:
        return words
    first = kinds.index(only)
    return [*words[:first], "*", *words[first:]]


def _docstring(found: object) -> str:
    return plain(inspect.cleandoc(getattr(found, "__doc__", None) or ""))


def plain(text: str) -> str:
    """Text of the source in Markdown, in which `<`, `*`, `|` and `[` would be formatting; code stays."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(
        part if number % 2 else re.sub(r"([*\[|])", r"\\\1", part.replace("<", "&lt;"))
        for number, part in enumerate(parts)
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if one is out of date")
    check = parser.parse_args().check
    files = wanted()
    stale = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    stale += [path for path in (DOCS / "json").glob("*.md") if path not in files]
    sys.stdout.write("".join(f"{path.relative_to(DOCS.parent)}\n" for path in stale))
    if check:
        return 1 if stale else 0
    (DOCS / "json").mkdir(exist_ok=True)
    for path in stale:
        path.unlink() if path not in files else path.write_text(files[path])
    return 0


if __name__ == "__main__":
    sys.exit(main())
