"""Reduce a published schema to what decides: without descriptions, titles, examples and defaults.

    python -m tools.schema_data FILE NAME [DEFINITION...]

FILE is a CustomResourceDefinition in YAML, or a JSON schema, of which only these definitions are kept, with
what they refer to. The result is tests/repair/config/schemas/NAME.json; the README.md beside it says where
each FILE came from.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent.parent / "tests" / "repair" / "config" / "schemas"
NAMED = ("properties", "patternProperties", "definitions", "$defs")
WORDS = ("description", "title", "default", "examples")


def reduced(schema: Any) -> Any:
    """A schema without its words. A property may have the name of one: below NAMED, keys are names."""
    if isinstance(schema, list):
        return [reduced(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: reduced(below) for name, below in value.items()} if key in NAMED else reduced(value)
        for key, value in schema.items()
        if key not in WORDS
    }


def closure(definitions: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """These definitions, and all that they refer to."""
    kept: dict[str, Any] = {}
    while names:
        if (name := names.pop()) not in kept:
            kept[name] = definitions[name]
            names += re.findall(r'"#/\$defs/([^"]+)"', json.dumps(kept[name]))
    return dict(sorted(kept.items()))


def main(file: str, name: str, *definitions: str) -> None:
    loaded = yaml.safe_load(Path(file).read_bytes())
    if loaded.get("kind") == "CustomResourceDefinition":
        (version,) = loaded["spec"]["versions"]
        loaded = version["schema"]["openAPIV3Schema"]
    if definitions:
        loaded = {"$defs": closure(loaded["$defs"], list(definitions))}
    FOLDER.joinpath(f"{name}.json").write_text(json.dumps(reduced(loaded), separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
