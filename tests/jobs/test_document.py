"""The output of `gdr nccl --json` fits its schema, and the schema allows no more."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from gdrkit.cli.schema import schema_of
from gdrkit.jobs.document import NcclDocument, document, encode
from gdrkit.jobs.job import LogPosition
from tests.jobs.test_samples import analysed

SCHEMA = jsonschema.Draft202012Validator(json.loads(schema_of(NcclDocument, "gdrkit.nccl/1")))
BOUNCED = """\
n1:1:2 [0] NCCL INFO NCCL_NET_GDR_LEVEL set by environment to LOC
n1:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0
n1:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM
n1:1:2 [0] NCCL WARN Call to ibv_reg_mr failed with error Bad address errno 14
"""


def written(text: str) -> Any:
    return json.loads(encode(document(analysed(text))))


def test_a_position_is_written_as_file_and_line():
    written_document = written(BOUNCED)
    leg = written_document["jobs"][0]["ranks"][0]["legs"][1]

    assert [found["line"] for found in written_document["errors"]] == ["log0:4"]
    assert (leg["direction"], leg["carried"], leg["line"]) == ("send", "bounced", "log0:2")
    assert leg["reasons"] == [
        {
            "text": "NCCL_NET_GDR_LEVEL=LOC allows no distance",
            "codes": ["gdr-level-too-low"],
            "line": "log0:1",
        }
    ]


def test_defaults_are_left_out_of_a_route():
    written_document = written(BOUNCED)

    assert written_document["jobs"][0]["ranks"][0]["legs"][0] == {
        "direction": "both",
        "carried": "p2p",
        "channels": [0],
        "line": "log0:3",
        "how": "CUMEM",
    }


def test_a_reason_without_a_line_has_no_position():
    written_document = written("n1:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0\n")
    (leg,) = written_document["jobs"][0]["ranks"][0]["legs"]

    assert [sorted(reason) for reason in leg["reasons"]] == [["text"]]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema",), "gdrkit.nccl/2"),
        (("verdict", "state"), "fine"),
        (("verdict", "summary"), "x" * 81),
        (("findings", 0, "code"), "no-such-code"),
        (("findings", 0, "layer"), "cellar"),
        (("findings", 0, "status"), "unknown"),
        (("why_not_direct", 0, "codes"), ["no-such-code"]),
        (("why_not_direct", 0, "directions"), ["up"]),
        (("errors", 0, "codes"), ["no-such-code"]),
        (("jobs", 0, "ranks", 0, "legs", 1, "carried"), "pigeon"),
        (("jobs", 0, "ranks", 0, "legs", 1, "direction"), "up"),
        (("jobs", 0, "ranks", 0, "legs", 1, "reasons", 0, "codes"), ["no-such-code"]),
        (("jobs", 0, "ranks", 0, "legs", 1, "reasons", 0, "line"), None),
        (("jobs", 0, "ranks", 0, "legs"), None),
    ],
)
def test_the_schema_refuses_what_is_never_written(path: tuple[str | int, ...], value: object):
    written_document = written(BOUNCED)
    inner = written_document
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value

    assert SCHEMA.is_valid(written(BOUNCED))
    assert not SCHEMA.is_valid(written_document)


def test_positions_are_compared_and_ordered_by_number():
    assert LogPosition("a", 9) < LogPosition("a", 10) < LogPosition("b", 1)
    assert len({LogPosition("a", 1), LogPosition("a", 1), LogPosition("a", 2), "a:1"}) == 3
