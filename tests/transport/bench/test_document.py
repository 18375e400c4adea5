"""The contents of a benchmark as a table, as CSV, and as a plot."""

import csv
import functools
import io
import operator
import xml.etree.ElementTree as ElementTree
from typing import get_args

import jsonschema
import msgspec
import pytest

from gdrkit.transport import PATHS
from gdrkit.transport.bench.document import (
    BenchDocument,
    PathBound,
    PathRun,
    SizePoint,
    _Axis,
    as_text,
    limit_of,
    size,
    svg,
)
from gdrkit.transport.bench.document import csv as written
from gdrkit.transport.path_names import PathName


def point(size_bytes: int, gb_per_s: float, *, checked: bool = True) -> SizePoint:
    us = size_bytes / gb_per_s / 1e3
    return SizePoint(size_bytes, 10, us, us * 1.5, gb_per_s, gb_per_s * 1.1, checked)


BOUND = PathBound(
    "copy between GPU and pinned memory", ("shared", "tcp"), 54.9, 54.9, "measured in this run"
)
DOCUMENT = BenchDocument(
    kind="pair",
    here="GPU 0",
    there="node <b> & GPU 1",
    runs=(
        PathRun("shared", (point(1 << 20, 9.0), point(256 << 20, 50.8))),
        PathRun("tcp", (point(1 << 20, 2.6), point(256 << 20, 4.1, checked=False))),
        PathRun("verbs", unavailable="no RDMA device"),
    ),
    limits=(BOUND,),
)


SCHEMA = msgspec.json.schema(BenchDocument)


@pytest.mark.parametrize(
    ("axis", "marks"),
    [
        (_Axis(1024, 4096, 2), [1024, 2048, 4096]),
        (_Axis(1023, 4097, 2), [1024, 2048, 4096]),
        (_Axis(1025, 4095, 2), [2048]),
        (_Axis(1, 100, 10), [1, 2, 5, 10, 20, 50, 100]),
    ],
)
def test_an_axis_has_marks_from_one_end_to_the_other(axis, marks):
    assert axis.marks() == pytest.approx(marks)


def test_the_smallest_and_the_largest_size_are_marked():
    shown = ElementTree.fromstring(svg(DOCUMENT)).iter("{http://www.w3.org/2000/svg}text")
    assert {size(1 << 20), size(256 << 20)} <= {element.text for element in shown}


def test_the_document_matches_its_published_schema():
    for document in (DOCUMENT, TOOLS):
        jsonschema.validate(msgspec.json.decode(msgspec.json.encode(document)), SCHEMA)


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("schema",), "gdrkit.bench/2"),
        (("kind",), "triple"),
        (("runs", 0, "path"), "magic"),
        (("runs", 0, "points", 0, "size_bytes"), "1M"),
        (("limits", 0, "paths"), ["nccl"]),
    ],
)
def test_the_schema_rejects_values_outside_the_contract(where, value):
    document = msgspec.to_builtins(DOCUMENT)
    *way, last = where
    functools.reduce(operator.getitem, way, document)[last] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(msgspec.json.decode(msgspec.json.encode(document)), SCHEMA)


def test_the_schema_has_the_paths_of_the_transport():
    assert get_args(PathName) == PATHS


def test_the_table_shows_each_path_with_its_limit():
    text = as_text(DOCUMENT)
    assert "limit of shared, tcp: 54.9 GB/s" in text
    assert "verbs: not measured: no RDMA device" in text
    row = next(line for line in text.splitlines() if "256 MiB" in line)
    assert "50.80" in row and "102%" in row


def test_wrong_bytes_are_reported_prominently():
    assert as_text(DOCUMENT).count("BYTES DIFFER") == 1


def test_a_path_without_a_limit_has_none():
    assert limit_of(DOCUMENT, "peer") is None


def test_csv_can_be_read_back():
    rows = list(csv.DictReader(io.StringIO(written(DOCUMENT))))
    assert [row["size_bytes"] for row in rows] == ["1048576", "268435456"] * 2
    assert float(rows[1]["gb_per_s"]) == pytest.approx(50.8)
    assert rows[3]["checked"] == "false"


def test_the_plot_is_well_formed_has_no_scripts_and_escapes_names():
    drawing = svg(DOCUMENT)
    root = ElementTree.fromstring(drawing)
    assert root.tag.endswith("svg") and "script" not in drawing
    texts = [element.text for element in root.iter() if element.tag.endswith("text")]
    assert "pair: GPU 0 to node <b> & GPU 1, one way" in texts
    assert {"shared", "tcp"} <= set(texts)


def test_labels_do_not_overlap():
    root = ElementTree.fromstring(svg(DOCUMENT))
    right = [
        float(e.get("y", "0"))
        for e in root.iter()
        if e.tag.endswith("text") and float(e.get("x", "0")) > 660
    ]
    assert all(abs(a - b) >= 12 for i, a in enumerate(right) for b in right[:i])


def test_without_measurements_there_is_no_plot():
    assert svg(msgspec.structs.replace(DOCUMENT, runs=())) == ""


@pytest.mark.parametrize(
    ("count", "text"), [(1, "1 B"), (65536, "64 KiB"), (3 << 20, "3 MiB"), (1000, "1000 B")]
)
def test_sizes_have_binary_units(count, text):
    assert size(count) == text


def test_the_document_survives_json():
    assert msgspec.json.decode(msgspec.json.encode(DOCUMENT), type=BenchDocument) == DOCUMENT


def test_a_run_with_rates_of_streams_alone_has_the_dotted_line_alone():
    streamed = tuple(
        msgspec.structs.replace(one, gb_per_s=None, median_us=None) for one in DOCUMENT.runs[0].points
    )
    drawing = svg(msgspec.structs.replace(DOCUMENT, runs=(PathRun("shared", streamed),)))
    assert (drawing.count("<polyline"), drawing.count('stroke-dasharray="2 3" points')) == (1, 1)


TOOLS = msgspec.structs.replace(
    DOCUMENT,
    runs=(
        *DOCUMENT.runs,
        PathRun("verbs", (SizePoint(1 << 20, 1000, None, None, None, 11.0, None),), tool="ib_write_bw"),
        PathRun("verbs", (SizePoint(1 << 20, 0, 90.0, None, None, None, None),), tool="ib_read_lat"),
    ),
)


def test_values_that_a_tool_did_not_measure_are_left_out_everywhere():
    text = as_text(TOOLS)
    assert "verbs (ib_write_bw)" in text and "verbs (ib_read_lat)" in text
    assert text.count("BYTES DIFFER") == 1
    *_, bandwidth, latency = csv.DictReader(io.StringIO(written(TOOLS)))
    assert (bandwidth["median_us"], bandwidth["streaming_gb_per_s"], bandwidth["checked"]) == (
        "",
        "11.0000",
        "",
    )
    assert (latency["median_us"], latency["repeats"], latency["gb_per_s"]) == ("90.000", "", "")
    drawing = svg(TOOLS)
    ElementTree.fromstring(drawing)
    assert "verbs, ib_write_bw" in drawing and "ib_read_lat" not in drawing
    assert msgspec.json.decode(msgspec.json.encode(TOOLS), type=BenchDocument) == TOOLS
