"""Nodes to test against: whole machines built from tests/evidence/<node>/.

path = build("zgx-3285", tmp_path)      # what a user would give to `gdr doctor`
expected("zgx-3285").consumers["nccl"]  # the correct result of `gdr doctor`

tests/evidence/README.md explains how a node is described and how to add one."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any

from msgspec import Struct, toml

from gdrkit.diagnosis import diagnose
from gdrkit.evidence.target import open_host
from gdrkit.report.document import Report
from tests.evidence_builder import node

FOLDER = Path(__file__).parent / "evidence"


class Modprobe(Struct, frozen=True, forbid_unknown_fields=True):
    """The expected prediction of `modprobe <module>` on the node."""

    module: str = "nvidia_peermem"
    exit_code: int = 0
    loaded: bool | None = None
    reason: str | None = None
    stderr: str | None = None
    kernel_log: tuple[str, ...] = ()  # lines that must be predicted, perhaps among others


class Cell(Struct, frozen=True, forbid_unknown_fields=True):
    """One pair's state on one path. Without `gpu` or `device`, every one."""

    path: str
    state: str
    gpu: str = ""
    device: str = ""
    consumer: str = "nccl"
    blocked_by: tuple[str, ...] = ()  # codes that must be among the blockers
    missing: tuple[str, ...] = ()


class Expected(Struct, frozen=True, forbid_unknown_fields=True):
    """The correct result of `gdr doctor`. The evidence does not determine a field that is left out."""

    exit_code: int | None = None
    first_broken_layer: str | None = None  # "none" where no layer is broken
    best_fallback: str | None = None
    next_boot: str | None = None  # the state of nccl after the next boot
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
    """The names of all nodes."""
    return tuple(sorted(folder.parent.name for folder in FOLDER.glob("*/expected.toml")))


def described() -> tuple[str, ...]:
    """The names of nodes that are built from a description; the others were collected."""
    return tuple(name for name in names() if (FOLDER / name / "node.toml").exists())


def build(node_name: str, folder: Path) -> Path:
    """Write a node below `folder` unless it was collected; the path of its tree, bundle, archive or log."""
    if (collected := FOLDER / node_name / "bundle.tar.gz").exists():
        return collected
    return node.write(FOLDER / node_name, folder)


@functools.cache
def laid_down(node_name: str) -> Path:
    """The path of a node that each process builds only once, for tests that do not change it."""
    folder = Path(laid_down_below().name, node_name)
    folder.mkdir()
    return build(node_name, folder)


@functools.cache
def diagnosed(node_name: str) -> Report:
    """What `gdr doctor` says of a node, which each process judges only once."""
    return diagnose(open_host(str(laid_down(node_name))))


@functools.cache
def laid_down_below() -> tempfile.TemporaryDirectory[str]:
    """The folder of these nodes; tests/conftest.py removes it at the end."""
    return tempfile.TemporaryDirectory(prefix="gdrkit-nodes-")


def description(node_name: str) -> dict[str, Any]:
    """The node's own description, presets included."""
    return node.load(FOLDER / node_name)


def expected(node_name: str) -> Expected:
    """The correct result of `gdr doctor` for the node."""
    return toml.decode((FOLDER / node_name / "expected.toml").read_bytes(), type=Expected)
