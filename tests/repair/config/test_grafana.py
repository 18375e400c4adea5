"""The dashboard: Grafana's own types read it, and a Prometheus that scraped a node and a run answers it."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from gdrkit.cli.export import encoded
from gdrkit.diagnosis import diagnose
from gdrkit.evidence.target import open_host
from gdrkit.fleet.build import build
from gdrkit.fleet.document import STARTED, Standing
from gdrkit.fleet.metrics import fleet_metrics
from gdrkit.repair.config import ConfigRequest, generate
from gdrkit.repair.config.output import ConfigOutput, rendered
from gdrkit.report.metrics import MeasuredPair, node_metrics
from tests.evidence_nodes import laid_down
from tests.fleet.fleets import row
from tests.fleet.prometheus_daemon import needs_prometheus, prometheus

SDK = "grafana-foundation-sdk is a dependency of development: uv sync"


@pytest.fixture(scope="module")
def dashboard() -> dict[str, Any]:
    found = generate("grafana", ConfigRequest())
    assert isinstance(found, ConfigOutput)
    document = json.loads(rendered(found))
    assert isinstance(document, dict)
    return document


def queries(document: dict[str, Any]) -> dict[str, str]:
    """The query of each panel, by its title."""
    return {
        panel["title"]: target["expr"] for panel in document["panels"] for target in panel.get("targets", ())
    }


def lost(ours: Any, theirs: Any, where: str = "") -> list[str]:
    """The keys of ours that a library did not keep, or not with their value."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return [
            path
            for key, value in ours.items()
            for path in (lost(value, theirs[key], f"{where}.{key}") if key in theirs else [f"{where}.{key}"])
        ]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return [
            path
            for at, (one, other) in enumerate(zip(ours, theirs, strict=True))
            for path in lost(one, other, f"{where}.{at}")
        ]
    return [] if ours == theirs else [where]


def read_by_grafana(document: dict[str, Any]) -> Any:
    """The document as Grafana's types write what they have read of it: without what they do not know."""
    dashboards = pytest.importorskip("grafana_foundation_sdk.models.dashboard", reason=SDK)
    prom = pytest.importorskip("grafana_foundation_sdk.models.prometheus", reason=SDK)
    encoder = pytest.importorskip("grafana_foundation_sdk.cog.encoder", reason=SDK)
    plugins = pytest.importorskip("grafana_foundation_sdk.cog.plugins", reason=SDK)
    plugins.register_default_plugins()
    assert prom.Dataquery
    return json.loads(encoder.JSONEncoder(sort_keys=True).encode(dashboards.Dashboard.from_json(document)))


def test_grafanas_types_keep_every_key(dashboard):
    assert lost(dashboard, read_by_grafana(dashboard)) == []


@pytest.mark.parametrize("wrong", ["refreshes", "gridpos"])
def test_grafanas_types_lose_a_key_that_they_do_not_know(dashboard, wrong):
    """The near miss: they do have a list of keys, of a panel too."""
    changed = json.loads(json.dumps(dashboard))
    (changed if wrong == "refreshes" else changed["panels"][1])[wrong] = "1m"

    assert lost(changed, read_by_grafana(changed)) != []


def test_panels_lie_side_by_side_in_the_grid_and_none_over_another(dashboard):
    cells: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        own = {
            (place["x"] + column, place["y"] + line)
            for column in range(place["w"])
            for line in range(place["h"])
        }
        assert not own & cells and place["x"] + place["w"] <= 24, panel["title"]
        cells |= own
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


NODES = {"rail-down": ("mlx5_0", "0000:1b:00.0"), "ubuntu-6.8-h100": None}


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """What a Prometheus answers to an expression, once it has scraped two nodes and a run."""
    folder, metrics = tmp_path_factory.mktemp("server"), tmp_path_factory.mktemp("metrics")
    measured = [MeasuredPair(gpu="0000:1b:00.0", device="mlx5_0", path="dmabuf", gb_per_s=48.0)]
    for number, name in enumerate(NODES):
        report = diagnose(open_host(str(laid_down(name))))
        text = encoded(node_metrics(report, time.time(), measured if name == "rail-down" else ()))
        (metrics / f"node{number}.prom").write_bytes(text)
    rows = [
        row(
            "rail-07", Standing.BLOCKED, causes=("port-down",), traits={"failed": "port-down", "paths": "a"}
        ),
        row("gpu2", traits={"paths": "b"}),
    ]
    run = build(rows, started=time.strftime(STARTED, time.gmtime()))
    (metrics / "fleet.prom").write_bytes(encoded(fleet_metrics(run)))
    with prometheus(folder, metrics) as server:
        server.until_it_has("gdr_fleet_nodes")
        yield lambda expression: server.ask("query", query=expression)["result"]


@pytest.mark.services
@needs_prometheus
def test_every_query_has_an_answer_for_all_nodes_and_for_one(dashboard, answers):
    found = {title: answers(expr.replace("$node", ".*")) for title, expr in queries(dashboard).items()}
    of_nodes = {title: expr for title, expr in queries(dashboard).items() if "$node" in expr}

    assert len(found) == 12 and [title for title, result in found.items() if not result] == []
    assert len(of_nodes) == 7
    for title, expr in of_nodes.items():
        assert {one["metric"]["node"] for one in answers(expr.replace("$node", "gpu2|nobody"))} <= {
            "gpu2"
        }, title


@pytest.mark.services
@needs_prometheus
def test_the_answers_are_those_of_the_run(dashboard, answers):
    asked = queries(dashboard)
    counts = {
        one["metric"]["standing"]: one["value"][1] for one in answers(asked["Nodes by what they need"])
    }
    (needing,) = answers(asked["Nodes that need something"].replace("$node", ".*"))
    (age,) = answers(asked["Age of the last run"])
    names = answers('count by (node) ({__name__=~"gdr_node_info|gdr_fleet_node_standing"})')

    assert (counts["blocked"], counts["ready"], needing["metric"]["node"]) == ("1", "1", "rail-07")
    assert 0 <= float(age["value"][1]) < 600 and {one["metric"]["node"] for one in names} >= {
        "rail-07",
        "gpu2",
    }
