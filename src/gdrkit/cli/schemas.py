"""The JSON Schemas of the documents, made from their types and from the rules."""

from __future__ import annotations

from typing import Any

from gdrkit.consumers.names import NAMES
from gdrkit.report.document import Report
from gdrkit.rules import RULES
from gdrkit.rules.rule import FALLBACKS, PATHS, Layer, Status
from gdrkit.verdict.judgement import State

_HEAD = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
STATES = [state.value for state in State]
LAYERS = list(Layer)


def schema() -> dict[str, Any]:
    """The schema as JSON-like data: JSON Schema 2020-12, closed sets as enums."""
    import msgspec

    document = msgspec.json.schema(Report)
    types = document["$defs"]
    for section, field, values in (
        ("VerdictSection", "state", STATES),
        ("VerdictSection", "consumer", list(NAMES)),
        ("VerdictSection", "first_broken_layer", [*LAYERS, None]),
        ("VerdictSection", "best_fallback", [*FALLBACKS, None]),
        ("ConsumerSection", "state", STATES),
        ("ThenSection", "state", STATES),
        ("JudgementSection", "path", list(PATHS)),
        ("JudgementSection", "state", STATES),
        ("JudgementSection", "direction", ["both", "send", "receive"]),
        ("JudgementSection", "confidence", ["certain", "likely", "assumed"]),
        ("FindingSection", "code", sorted({rule.code for rule in RULES})),
        ("FindingSection", "layer", LAYERS),
        ("FindingSection", "status", [status.value for status in Status]),
        ("FindingSection", "confidence", ["certain", "likely", "assumed"]),
    ):
        types[section]["properties"][field] = {"enum": values}
    types["VerdictSection"]["properties"]["summary"]["maxLength"] = 80
    types["Report"]["properties"]["schema"] = {"const": "gdrkit.report/1"}
    types["Report"]["required"].append("schema")
    return {**_HEAD, "title": "gdrkit.report/1", **document}


def schema_text() -> str:
    """The schema as it is published: report/report.schema.json."""
    return _text(schema())


def schema_of(document: type, name: str) -> str:
    """The schema of a document as its type has it, titled with its name."""
    import msgspec

    return _text({**_HEAD, "title": name, **msgspec.json.schema(document)})


def fix_schema_text() -> str:
    """The schema of what `gdr fix --json` writes."""
    import msgspec

    from gdrkit.report.fix_document import FixReport

    made = msgspec.json.schema(FixReport)
    made["$defs"]["FixReport"]["properties"]["schema"] = {"const": "gdrkit.fix/1"}
    return _text({**_HEAD, "title": "gdrkit.fix/1", **made})


def _text(document: dict[str, Any]) -> str:
    import msgspec

    return msgspec.json.format(msgspec.json.encode(document, order="sorted"), indent=2).decode() + "\n"
