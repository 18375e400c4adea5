"""A Grafana dashboard of the metrics of `gdr export`, as JSON to import.

Shapes: Grafana 10.1's dashboard model, schemaVersion 38, as grafana-foundation-sdk has it in
models/dashboard.py; a test reads the output with that library."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from gdrkit.repair.config.output import ConfigOutput, OutputLine
from gdrkit.repair.config.request import ConfigRequest

SCHEMA_VERSION = 38
COLUMNS = 24
"""Of Grafana's grid."""
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
NODE = 'node=~"$node"'


class Panel(Struct, frozen=True, kw_only=True):
    """One panel: what it asks Prometheus, and how that is shown."""

    title: str
    kind: str  # of Grafana: stat, table, timeseries, row
    expr: str = ""
    legend: str = ""  # {{label}} stands for its value; a table has columns
    unit: str = ""  # of Grafana: s, Bps
    width: int = COLUMNS // 2
    height: int = 8
    about: str = ""


PANELS = (
    Panel(title="Fleet", kind="row", width=COLUMNS, height=1),
    Panel(
        title="Nodes by what they need", kind="stat", expr="max by (standing) (gdr_fleet_nodes)",
        legend="{{standing}}", width=18, height=4,
    ),
    Panel(
        title="Age of the last run", kind="stat", expr="time() - max(gdr_fleet_last_run_timestamp_seconds)",
        unit="s", width=6, height=4, about="What a run says may have changed since.",
    ),
    Panel(
        title="Nodes by what they need, over time", kind="timeseries",
        expr="max by (standing) (gdr_fleet_nodes)", legend="{{standing}}",
    ),
    Panel(
        title="Causes", kind="table", expr="sort_desc(count by (cause) (gdr_fleet_node_cause_info))",
        about="Nodes by code; gdr codes CODE explains it. Of an unknown node, the evidence that is missing.",
    ),
    Panel(
        title="Nodes that need something", kind="table",
        expr=f'gdr_fleet_node_standing{{{NODE},standing!~"ready|impossible"}} == 1',
    ),
    Panel(
        title="Not the same on all nodes", kind="table", expr="gdr_fleet_mismatch_info",
        about="What must be the same on all nodes of a job, and is not.",
    ),
    Panel(title="Nodes that export their own metrics", kind="row", width=COLUMNS, height=1),
    Panel(title="State for each program", kind="table", expr=f"gdr_node_state{{{NODE}}} == 1"),
    Panel(
        title="GPUs, each at its own NIC", kind="table", expr=f"gdr_gpu_state{{{NODE}}} == 1",
    ),
    Panel(
        title="Findings", kind="table", expr=f'gdr_finding_info{{{NODE},status=~"failed|warning"}} == 1',
    ),
    Panel(
        title="After the next boot", kind="table", expr=f"gdr_next_boot_state{{{NODE}}} == 1",
        about="Of nodes that are ready now.",
    ),
    Panel(
        title="What links can carry, lower bound", kind="timeseries", unit="Bps",
        expr=f'gdr_pair_ceiling_bytes_per_second{{{NODE},bound="low"}}',
        legend="{{node}} {{gpu}} {{nic}}", about="Of each GPU and NIC: gdr estimate explains it.",
    ),
    Panel(
        title="What a benchmark measured", kind="timeseries", unit="Bps",
        expr=f"gdr_pair_measured_bytes_per_second{{{NODE}}}",
        legend="{{node}} {{gpu}} {{nic}} {{path}}", about="Only where gdr export has --measured.",
    ),
)  # fmt: skip


def grafana(request: ConfigRequest) -> ConfigOutput:
    """The dashboard, which is the same for every node."""
    text = msgspec.json.format(msgspec.json.encode(dashboard()), indent=2).decode()
    return ConfigOutput(
        kind="grafana",
        form="",
        title="Grafana dashboard of the metrics of gdr export",
        file="gdrkit-dashboard.json",
        use="import it in Grafana (Dashboards, New, Import), and choose the Prometheus that has the metrics",
        lines=tuple(map(OutputLine, text.splitlines())),
        notes=("its queries were run against Prometheus; no Grafana has shown it",),
        commentable=False,
    )


def dashboard() -> dict[str, object]:
    """The document that Grafana imports."""
    return {
        "uid": "gdrkit",
        "title": "GPUDirect RDMA",
        "tags": ["gdrkit"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": True,
        "refresh": "5m",
        "time": {"from": "now-7d", "to": "now"},
        "templating": {"list": list(_variables())},
        "panels": list(_panels()),
    }


def _variables() -> Iterator[dict[str, object]]:
    """The data source and the nodes, to choose on top of the dashboard."""
    yield {"type": "datasource", "name": "datasource", "label": "Prometheus", "query": "prometheus"}
    yield {
        "type": "query",
        "name": "node",
        "label": "Node",
        "datasource": SOURCE,
        "query": 'label_values({__name__=~"gdr_node_info|gdr_fleet_node_standing"}, node)',
        "refresh": 2,  # VariableRefresh: on a change of the time range
        "sort": 1,  # VariableSort: alphabetically
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
    }


def _panels() -> Iterator[dict[str, object]]:
    """The panels from left to right, row by row."""
    x = y = tallest = 0
    for number, panel in enumerate(PANELS, 1):
        if x + panel.width > COLUMNS:
            x, y, tallest = 0, y + tallest, 0
        place = {"x": x, "y": y, "w": panel.width, "h": panel.height}
        yield {"id": number, "title": panel.title, "type": panel.kind, "gridPos": place, **_contents(panel)}
        x, tallest = x + panel.width, max(tallest, panel.height)


def _contents(panel: Panel) -> dict[str, object]:
    if panel.kind == "row":
        return {"collapsed": False, "panels": []}
    now = panel.kind != "timeseries"
    query = {
        "refId": "A",
        "datasource": SOURCE,
        "expr": panel.expr,
        "instant": now,
        "range": not now,
        "format": "table" if panel.kind == "table" else "time_series",
        **({"legendFormat": panel.legend} if panel.legend else {}),
    }
    hidden = dict.fromkeys(("Time", "__name__", "instance", "job"), True)
    return {
        "description": panel.about,
        "datasource": SOURCE,
        "targets": [query],
        "fieldConfig": {"defaults": {"unit": panel.unit} if panel.unit else {}, "overrides": []},
        **(
            {"transformations": [{"id": "organize", "options": {"excludeByName": hidden}}]}
            if panel.kind == "table"
            else {}
        ),
    }
