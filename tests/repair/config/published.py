"""The schemas that the readers of `gdr config` publish: schemas/README.md says where each is from."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema

FOLDER = Path(__file__).parent / "schemas"
_OPEN = "x-kubernetes-preserve-unknown-fields"


@functools.cache
def published(name: str) -> dict[str, Any]:
    """A schema of the folder, by its file name without .json. Go's regular expressions may have flags after
    an anchor, Python's only at the start: re, "(?aiLmsux)"."""
    text = (FOLDER / f"{name}.json").read_text()
    found: dict[str, Any] = json.loads(text.replace('"^(?i)', '"(?i)^'))
    return found


def strict(found: dict[str, Any], *, patch: bool = False) -> dict[str, Any]:
    """A schema that rejects unknown keys, like --validate=strict, and for a patch requires none.

    Keywords: https://json-schema.org/draft/2020-12/json-schema-core section 10. A part of an allOf stays
    open; the schema around it is closed instead.
    """
    found = copy.deepcopy(found)
    schemas = list(_schemas(found))
    parts = [_target(found, part) for here in schemas for part in here.get("allOf", [])]
    for here in schemas:
        known = here.get("properties", {})
        for part in here.get("allOf", []):
            known = {**{key: {} for key in _target(found, part).get("properties", {})}, **known}
        if known and not any(here is part for part in parts) and not here.get(_OPEN):
            here["properties"] = known
            here.setdefault("additionalProperties", False)
        if patch and isinstance(here.get("required"), list):
            del here["required"]
    if isinstance(found.get("properties", {}).get("metadata"), dict):
        found["properties"]["metadata"] = {"type": "object"}
    return found


@functools.cache
def validator(
    schema_of: Callable[[str], dict[str, Any]], name: str, *, patch: bool = False, at: str = ""
) -> Any:
    """What validates documents by a strict schema, which is prepared and checked once; `at` is a definition
    in it."""
    wanted = strict(schema_of(name), patch=patch)
    if at:
        wanted = {"$ref": f"#/$defs/{at}", **wanted}
    kind = jsonschema.validators.validator_for(wanted)
    kind.check_schema(wanted)
    return kind(wanted)


def _schemas(here: object) -> Iterator[dict[str, Any]]:
    """Every mapping of a schema, itself first. A mapping of properties is harmless among them."""
    if isinstance(here, list):
        for item in here:
            yield from _schemas(item)
    if isinstance(here, dict):
        yield here
        for value in here.values():
            yield from _schemas(value)


def _target(root: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    """What a schema of the form {"$ref": "#/a/b"} refers to; other schemas themselves."""
    found: Any = root
    for name in part.get("$ref", "").split("/")[1:]:
        found = found[name]
    return found if "$ref" in part else part
