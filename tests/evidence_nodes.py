"""Nodes to test against: whole machines built from tests/evidence/<node>/.

    path = build("zgx-3285", tmp_path)      # what a user would give to `gdr doctor`
    expected("zgx-3285").consumers["nccl"]  # what a right doctor must say of it

tests/evidence/README.md tells how a node is described and how to add one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import Struct, toml

from tests.evidence_builder import node

FOLDER = Path(__file__).parent / "evidence"


class Modprobe(Struct, frozen=True, forbid_unknown_fields=True):
    """What `modprobe <module>` would do on the node."""

    module: str = "nvidia_peermem"
    exit_code: int = 0
    loaded: bool | None = None
    reason: str | None = None
    stderr: str | None = None
    kernel_log: tuple[str, ...] = ()  # lines that must be among those predicted


class Cell(Struct, frozen=True, forbid_unknown_fields=True):
    """One pair's state on one path. No `gpu` or `device` stands for every one."""

    path: str
    state: str
    gpu: str = ""
    device: str = ""
    consumer: str = "nccl"
    blocked_by: tuple[str, ...] = ()  # codes that must be among the blockers
    missing: tuple[str, ...] = ()


class Expected(Struct, frozen=True, forbid_unknown_fields=True):
    """What a right doctor must say. A field that is left out is not established by the evidence."""

    exit_code: int | None = None
    first_broken_layer: str | None = None  # "none" where no layer is broken
    best_fallback: str | None = None
    scope: str = "host"
    consumers: dict[str, str] = {}
    findings: dict[str, str | tuple[str, ...]] = {}  # code -> status, one of several, or "seen"
    subjects: dict[str, tuple[str, ...]] = {}  # code -> subjects it must name, among others
    absent: tuple[str, ...] = ()  # codes that must not be among failed, warning or note
    distances: dict[str, str] = {}  # "<gpu> <device>" -> PIX, PXB, PHB, NODE, SYS
    cells: tuple[Cell, ...] = ()
    plan_is_empty: bool | None = None
    every_chain_ends: str | None = None  # the state at the end of each what-then chain
    modprobe: Modprobe | None = None
    why: str = ""


def names() -> tuple[str, ...]:
    """Every node there is."""
    return tuple(sorted(folder.parent.name for folder in FOLDER.glob("*/node.toml")))


def build(node_name: str, folder: Path) -> Path:
    """Make a node below `folder`; the path of its tree, bundle, archive or log."""
    return node.write(FOLDER / node_name, folder)


def description(node_name: str) -> dict[str, Any]:
    """The node's own description, presets included."""
    return node.load(FOLDER / node_name)


def expected(node_name: str) -> Expected:
    """What a right doctor must say of the node."""
    return toml.decode((FOLDER / node_name / "expected.toml").read_bytes(), type=Expected)


def disagreements(node_name: str, report: dict[str, Any], exit_code: int | None = None) -> list[str]:
    """Where a report (as `gdr doctor --json` prints it) differs from what is expected of the node."""
    wanted = expected(node_name)
    verdict = report["verdict"]
    found = []
    if wanted.exit_code is not None and exit_code is not None and exit_code != wanted.exit_code:
        found.append(f"exit code {exit_code}, not {wanted.exit_code}")
    if wanted.first_broken_layer is not None:
        layer = verdict["first_broken_layer"] or "none"
        if layer != wanted.first_broken_layer:
            found.append(f"first broken layer {layer}, not {wanted.first_broken_layer}")
    if wanted.best_fallback is not None and verdict["best_fallback"] != wanted.best_fallback:
        found.append(f"fallback {verdict['best_fallback']}, not {wanted.best_fallback}")
    if report["node"]["scope"] not in (wanted.scope, ""):
        found.append(f"scope {report['node']['scope']}, not {wanted.scope}")
    for consumer, state in wanted.consumers.items():
        said = report["consumers"][consumer]["state"]
        if said != state:
            found.append(f"{consumer} {said}, not {state}")
    return [
        *found,
        *_findings(wanted, report),
        *_pairs(wanted, report),
        *_prospects(wanted, report),
        *_prediction(wanted.modprobe, report["modprobe"]),
    ]


def _findings(wanted: Expected, report: dict[str, Any]) -> list[str]:
    said: dict[str, list[dict[str, Any]]] = {}
    for finding in report["findings"]:
        said.setdefault(finding["code"], []).append(finding)
    found = []
    for code, status in wanted.findings.items():
        allowed = ("failed", "warning", "note") if status == "seen" else status
        allowed = (allowed,) if isinstance(allowed, str) else allowed
        statuses = [finding["status"] for finding in said.get(code, ())]
        if not set(statuses) & set(allowed):
            found.append(f"{code} is {' '.join(statuses) or 'not said'}, not {' or '.join(allowed)}")
    for code, subjects in wanted.subjects.items():
        named = {finding["subject"] for finding in said.get(code, ())}
        found += [f"{code} does not name {subject}" for subject in subjects if subject not in named]
    for code in wanted.absent:
        statuses = [f["status"] for f in said.get(code, ()) if f["status"] in ("failed", "warning", "note")]
        if statuses:
            found.append(f"{code} is {' '.join(statuses)}, and should not be said")
    return found


def _pairs(wanted: Expected, report: dict[str, Any]) -> list[str]:
    found = []
    for pair, distance in wanted.distances.items():
        said = [p["distance"] for p in report["pairs"] if f"{p['gpu']} {p['device']}" == pair]
        if said != [distance]:
            found.append(f"distance of {pair} is {said}, not {distance}")
    for cell in wanted.cells:
        pairs = [
            p for p in report["pairs"] if cell.gpu in ("", p["gpu"]) and cell.device in ("", p["device"])
        ]
        judgements = [
            report["judgements"][name]
            for pair in pairs
            for name in pair["judgements"]
            if report["judgements"][name]["path"] == cell.path
            and cell.consumer in report["judgements"][name]["consumers"]
        ]
        what = f"{cell.path} for {cell.consumer} at {cell.gpu or 'any GPU'}, {cell.device or 'any device'}"
        if not judgements:
            found.append(f"nothing is said of {what}")
        for judgement in judgements:
            lacking = {*cell.blocked_by} - {*judgement["blocked_by"]}
            unseen = {*cell.missing} - {*judgement["missing"]}
            if judgement["state"] != cell.state or lacking or unseen:
                said = f"{judgement['state']} by {judgement['blocked_by']} missing {judgement['missing']}"
                asked = f"{cell.state} by {list(cell.blocked_by)} missing {list(cell.missing)}"
                found.append(f"{what}: {said}, not {asked}")
                break
    return found


def _prospects(wanted: Expected, report: dict[str, Any]) -> list[str]:
    found = []
    if wanted.plan_is_empty is not None and wanted.plan_is_empty != (not report["plan"]):
        found.append(f"the plan has {len(report['plan'])} ways")
    if wanted.every_chain_ends is not None:
        ends = {chain[-1]["then"]["state"] for chain in report["what_then"] if chain}
        if ends - {wanted.every_chain_ends}:
            found.append(f"chains end {sorted(ends)}, not {wanted.every_chain_ends}")
    return found


def _prediction(wanted: Modprobe | None, said: dict[str, Any] | None) -> list[str]:
    if wanted is None:
        return []
    if said is None:
        return ["modprobe is not predicted"]
    found = []
    for name in ("exit_code", "loaded", "reason", "stderr"):
        value = getattr(wanted, name)
        if value is not None and said[name] != value:
            found.append(f"modprobe {name} {said[name]!r}, not {value!r}")
    missing = [line for line in wanted.kernel_log if not any(line in other for other in said["kernel_log"])]
    return [*found, *(f"modprobe's kernel log lacks {line!r}" for line in missing)]
