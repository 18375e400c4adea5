"""A benchmark and an estimate beside the report on a node."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from gdrkit.cli import main
from gdrkit.formats.errors import FormatError
from gdrkit.html.bench_and_cost import read
from tests.evidence_nodes import laid_down
from tests.html.test_node_page import HOSTILE, Reader
from tests.transport.bench.test_document import DOCUMENT, point


def test_a_benchmark_is_drawn_with_its_ceiling_and_stays_text(tmp_path):
    bench, page = tmp_path / "bench.json", tmp_path / "a.html"
    bench.write_bytes(msgspec.json.encode(replace(DOCUMENT, there=HOSTILE)))
    main(["report", str(laid_down("ubuntu-6.8-h100")), "--with", str(bench), "-o", str(page)])
    read_page = Reader(page.read_text())
    assert sum(tag == "polyline" for tag, _ in read_page.elements) == 4, "two paths, single and streaming"
    assert "copy between GPU and pinned memory" in read_page.text and "BYTES DIFFER" in read_page.text
    assert not any(tag == "img" for tag, _ in read_page.elements)


def test_what_a_path_costs_a_model_is_said_as_gdr_estimate_says_it(tmp_path, capsys):
    node, cost, page = str(laid_down("ubuntu-6.8-h100")), tmp_path / "cost.json", tmp_path / "a.html"
    job = ("--model", "llama-3-70b", "--tp", "16")
    main(["estimate", node, *job, "--json"])
    cost.write_text(capsys.readouterr().out)
    conclusion = msgspec.json.decode(cost.read_bytes())["conclusion"]
    main(["report", node, "--with", str(cost), "-o", str(page)])
    shown = Reader(page.read_text()).text
    assert conclusion in shown and "an estimate for" in shown.lower()


@pytest.mark.parametrize(
    "bench",
    [
        replace(DOCUMENT, runs=(replace(DOCUMENT.runs[0], points=(point(1, 1.0),) * 1001),)),
        replace(DOCUMENT, runs=(replace(DOCUMENT.runs[0], points=(replace(point(1, 1.0), size_bytes=0),)),)),
        replace(
            DOCUMENT,
            runs=(replace(DOCUMENT.runs[0], points=(point(1, 1.0), replace(point(1, 1.0), size_bytes=0))),),
        ),
        replace(DOCUMENT, runs=(replace(DOCUMENT.runs[0], points=(point(1, 1.0), point(1, -1.0))),)),
        replace(DOCUMENT, limits=(DOCUMENT.limits[0], replace(DOCUMENT.limits[0], high_gb_per_s=0.0))),
        replace(DOCUMENT, limits=(replace(DOCUMENT.limits[0], high_gb_per_s=0.0),)),
        replace(DOCUMENT, limits=(replace(DOCUMENT.limits[0], high_gb_per_s=1e9),)),
    ],
)
def test_a_benchmark_that_nothing_measured_is_refused(bench):
    with pytest.raises(FormatError):
        read(msgspec.json.encode(bench))


def test_another_document_is_refused_with_what_to_give(tmp_path, capsys):
    other = tmp_path / "other.json"
    other.write_text('{"schema": "gdrkit.report/1"}')
    assert main(["report", str(tmp_path), "--with", str(other), "-o", str(tmp_path / "a.html")]) == 66
    assert "gdr bench --json" in capsys.readouterr().err
