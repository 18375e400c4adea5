"""`gdr schema`: the output of each command is valid against its schema."""

from __future__ import annotations

import contextlib
import copy
import functools
import io
import json
import operator
from pathlib import Path

import jsonschema
import pytest

from gdrkit.cli import main
from gdrkit.cli.schema import DOCUMENTS, command_of
from tests.evidence_nodes import laid_down

COST = ("estimate", "--model", "llama-3-70b", "--tp", "16")
LEFT_OUT = object()


@functools.cache
def written(command, name):
    """The JSON output of a command for a node, and what validates it."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        main([*command, str(laid_down(name)), "--json"])
    document = json.loads(out.getvalue())
    return document, validator(document["schema"].split(".")[1].split("/")[0])


@functools.cache
def validator(what):
    """Of a schema of gdr, which is valid itself."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main(["schema", what]) == 0
    schema = json.loads(out.getvalue())
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    return kind(schema)


@pytest.mark.parametrize(
    ("what", "command"),
    [
        ("fix", ("fix",)),
        ("fix", ("fix", "--module")),
        ("modprobe", ("modprobe", "nvidia_peermem")),
        ("modprobe", ("modprobe", "mlx5_ib")),
    ],
)
@pytest.mark.parametrize("name", ["acs-redirect", "zgx-3285", "h200-vm"])
def test_output_is_valid_against_its_schema(capsys, what, command, name):
    main([*command, str(laid_down(name)), "--json"])
    document = json.loads(capsys.readouterr().out)
    valid = validator(what)

    valid.validate(document)
    assert valid.schema["title"] == f"gdrkit.{what}/1"
    document["module" if what == "modprobe" else "schema"] = 1
    assert not valid.is_valid(document)


def broken(document, where, value):
    """A copy of a document with another value at a path, or without it."""
    document = copy.deepcopy(document)
    *path, last = where
    parent = functools.reduce(operator.getitem, path, document)
    if value is LEFT_OUT:
        del parent[last]
    else:
        parent[last] = value
    return document


@pytest.mark.parametrize("command", [("topo",), ("estimate",), COST])
@pytest.mark.parametrize(
    "name", ["acs-redirect", "ubuntu-6.8-h100", "spark-two-cables", "no-gpu", "h200-vm"]
)
def test_output_of_the_fabric_commands_is_valid_against_its_schema(command, name):
    document, valid = written(command, name)

    valid.validate(document)
    assert valid.schema["title"] == document["schema"]


@pytest.mark.parametrize(
    ("command", "where", "value"),
    [
        (("topo",), ("schema",), LEFT_OUT),
        (("topo",), ("schema",), "gdrkit.topology/2"),
        (("topo",), ("topology", "origin"), "hearsay"),
        (("topo",), ("pairs", 0, "nvidia_smi"), ["PIXEL"]),
        (("topo",), ("pairs", 0, "nccl"), ["NODE"]),
        (("topo",), ("pairs", 0, "send", "direct"), LEFT_OUT),
        (("topo",), ("pairs", 0, "send", "mode"), "Fast"),
        (("topo",), ("pairs", 0, "obstacles"), [{"code": "gremlins", "address": "", "seen": ""}]),
        (("estimate",), ("schema",), LEFT_OUT),
        (("estimate",), ("schema",), "gdrkit.cost/1"),
        (("estimate",), ("network", "path"), "fast"),
        (("estimate",), ("network", "tightest"), LEFT_OUT),
        (("estimate",), ("network", "rate", "high_gbit_per_s"), LEFT_OUT),
        (("estimate",), ("pairs", 0, "common_point"), "near"),
        (("estimate",), ("pairs", 0, "paths", 0, "limits", 0, "name"), "cable"),
        (("estimate",), ("pairs", 0, "paths", 0, "limits", 0, "shared_with"), LEFT_OUT),
        (("estimate",), ("measured",), [{"what": "a run"}]),
        (COST, ("schema",), LEFT_OUT),
        (COST, ("steps", 0, "step"), "rest"),
        (COST, ("steps", 0, "paths", 0, "path"), "fast"),
        (COST, ("steps", 0, "paths", 1, "saved"), [0.1, 1.5]),
        (COST, ("weights",), "fp7"),
    ],
)
def test_a_schema_rejects_what_no_command_writes(command, where, value):
    document, valid = written(command, "ubuntu-6.8-h100")
    assert not valid.is_valid(broken(document, where, value))


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("schema",), LEFT_OUT),
        (("schema",), "gdrkit.report/1"),
        (("aim",), "profit"),
        (("verdict", "state"), "fine"),
        (("verdict", "summary"), "x" * 81),
        (("plans", 0, "steps", 0, "remedy"), "prayer"),
        (("plans", 0, "steps", 0, "then", "state"), "fine"),
        (("plans", 0, "steps", 0, "then", "blocked_by"), ["gremlins"]),
        (("plans", 0, "steps", 0, "actions", 0, "kind"), "dance"),
        (("plans", 0, "steps", 0, "actions", 0, "line"), LEFT_OUT),
    ],
)
def test_the_schema_of_a_plan_rejects_what_fix_does_not_write(where, value):
    document, valid = written(("fix",), "ofed-rebuilt")
    valid.validate(document)
    assert not valid.is_valid(broken(document, where, value))


# -- keys that stay --------------------------------------------------------------------------------

KEPT = Path(__file__).with_name("kept_keys.txt")


def kept_keys() -> dict[str, dict[str, set[str]]]:
    """The keys of each document in kept_keys.txt, by the place of their object."""
    found: dict[str, dict[str, set[str]]] = {}
    for line in KEPT.read_text("utf-8").splitlines():
        if line.startswith("gdrkit."):
            found[line] = {}
        elif line and not line.startswith("#"):
            place, _, keys = line.partition(": ")
            found[list(found)[-1]][place] = set(keys.split())
    return found


def keys_by_place(schema):
    """The keys of each object of a schema; NAME stands for any key, and [] for any item."""
    found: dict[str, set[str]] = {}

    def walk(part, place, above):
        if "$ref" in part:
            name = part["$ref"].rpartition("/")[2]
            if name not in above:
                walk(schema["$defs"][name], place, {*above, name})
        for key, below in part.get("properties", {}).items():
            found.setdefault(place, set()).add(key)
            walk(below, key if place == "." else f"{place}.{key}", above)
        for word, step in (("additionalProperties", ".NAME"), ("items", "[]")):
            if isinstance(part.get(word), dict):
                walk(part[word], f"{place}{step}", above)
        for word in ("anyOf", "oneOf", "allOf"):
            for choice in part.get(word, ()):
                walk(choice, place, above)

    walk(schema, ".", frozenset())
    return found


@pytest.mark.parametrize("what", DOCUMENTS)
def test_a_schema_is_found_by_the_name_of_its_command_too(what, capsys):
    words = command_of(what).split()[1:-1]
    if words[-1].startswith("--"):
        return
    main(["schema", what])
    by_document = capsys.readouterr().out
    main(["schema", "-".join(words)])

    assert capsys.readouterr().out == by_document


@pytest.mark.parametrize("name", ["gdrkit.report/1", "gdrkit.nccl/1"])
def test_no_key_of_a_document_vanishes_and_a_new_one_is_written_down(name, capsys):
    """Programs read these keys. A new key goes to kept_keys.txt, and stays from then on."""
    assert main(["schema", name.removeprefix("gdrkit.").removesuffix("/1")]) == 0
    schema = json.loads(capsys.readouterr().out)

    assert schema["title"] == name
    assert keys_by_place(schema) == kept_keys()[name]


@pytest.mark.parametrize("name", ["gdrkit.report/1", "gdrkit.nccl/1"])
def test_a_key_that_vanishes_is_noticed_wherever_it_stands(name, capsys):
    main(["schema", name.removeprefix("gdrkit.").removesuffix("/1")])
    schema = json.loads(capsys.readouterr().out)
    for struct in schema["$defs"].values():
        for key in list(struct.get("properties", ())):
            below = struct["properties"].pop(key)
            assert keys_by_place(schema) != kept_keys()[name], key
            struct["properties"][key] = below
