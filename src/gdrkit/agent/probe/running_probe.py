"""Look at the processes that use a GPU or an RDMA device now, and print what the node tells as JSON.

The script needs only Python 3.8 and its standard library. It changes nothing and starts no driver. Each
source is read in a child of its own; at the deadline the record has what came, and says what did not.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any, Dict, List, Mapping, Sequence, Set

from ..running.children import Emit, Relay, Source, gather
from ..running.files import namespace, start_of, ticks_after_boot
from ..running.libraries import emit_versions
from ..running.nvml import read as read_nvml
from ..running.options import FEW_PAIRS, PROGRAMS, RAS, RAS_DIAGNOSTICS, RAS_DIAGNOSTICS_S
from ..running.processes import Reader, identity, scan
from ..running.ras import read as read_ras
from ..running.rdma import read as read_rdma
from ..running.sockets import by_inode
from ..running.sockets import read as read_sockets
from ..running.system import read_buffers, read_node, read_ports

SCHEMA = "gdrkit.running/1"
DEADLINE_S = 4.0
"""With the start of Python and of ssh, an answer within 5 s."""
QUICK_DEADLINE_S = 1.0
"""For the libraries alone, which `gdr doctor` waits for."""
SPARE_S = 0.5
"""Before the end of all sources, so that what NCCL answered until then is kept."""
INTERVAL_S = 0.4
"""Between two samples. A QP at 400 Gb/s with an MTU of 4096 takes 1.4 s for its 2^24 sequence numbers."""


def main() -> int:
    """Print the record; returns 0."""
    options = sys.argv[1:]
    deadline = time.monotonic() + (QUICK_DEADLINE_S if PROGRAMS in options else DEADLINE_S)
    json.dump(record(deadline, INTERVAL_S, options), sys.stdout)
    sys.stdout.write("\n")
    return 0


def record(deadline: float, interval_s: float, options: Sequence[str] = ()) -> Dict[str, Any]:
    """What every source told until the deadline, with the options of gdrkit.agent.running.options."""
    began = ticks_after_boot()
    relay = Relay()
    sources: Dict[str, Source] = {
        "processes": lambda emit: emit_versions(scan(emit, others=relay), emit),
        "rdma": lambda emit: read_rdma(emit, deadline, interval_s, FEW_PAIRS not in options),
        "tcp": lambda emit: read_sockets(emit, deadline, interval_s, relay.places(deadline - interval_s)),
        "ports": lambda emit: read_ports(emit, interval_s),
        "buffers": read_buffers,
        "nvml": lambda emit: read_nvml(emit, interval_s),
        "node": read_node,
    }
    last = deadline
    if RAS in options:
        longer = RAS_DIAGNOSTICS in options
        last += RAS_DIAGNOSTICS_S if longer else 0.0
        sources["ras"] = lambda emit: read_ras(
            emit, deadline, diagnostics_deadline=last - SPARE_S if longer else None
        )
    asked = {"processes": _mapped} if PROGRAMS in options else sources
    try:
        results = gather(asked, last)
    finally:
        relay.close()
    rows = {name: results[name].rows if name in results else [] for name in sources}
    seen = [row for row in rows["processes"] if "pid" in row]
    _add_versions(seen, rows["processes"])
    seen = _lasting([*seen, *_others(seen, rows["rdma"], rows["nvml"])], began)
    _add_tcp(seen, rows["tcp"])
    return {
        "schema": SCHEMA,
        "uid": os.geteuid(),
        "namespaces": {kind: namespace("self", kind) for kind in ("pid", "net")},
        "sources": {
            name: {"status": result.status, "why": result.why[:200], "seconds": result.seconds}
            for name, result in results.items()
        },
        "processes": seen,
        "tcp_namespaces": [row["namespace"] for row in rows["tcp"] if "namespace" in row],
        "denied_processes": sum(row.get("denied_processes", 0) for row in rows["processes"]),
        "unreadable": [one for row in rows["processes"] for one in row.get("unreadable", ())],
        "hidden_processes": any(row.get("hidden") for row in rows["processes"]),
        "rdma": rows["rdma"],
        "ports": rows["ports"],
        "buffers": rows["buffers"],
        "nvml": rows["nvml"],
        "node": rows["node"],
        "ras": rows.get("ras", []),
    }


def _mapped(emit: Emit) -> None:
    scan(emit)


def _add_versions(seen: List[Dict[str, Any]], rows: List[Dict[str, Any]]) -> None:
    """Add the version that a library's file tells to each process that maps it. A program is
    kept only if NCCL was found in its file."""
    versions = {row["file"]: row for row in rows if "file" in row}
    for process in seen:
        for library in process["libraries"]:
            found: Mapping[str, Any] = versions.get(library["file"], {})
            library["version"] = found.get("version") or library["version"]
            library["why"] = found.get("why", "")
        process["libraries"] = [
            one for one in process["libraries"] if not one.pop("linked") or one["version"]
        ]


def _others(
    seen: List[Dict[str, Any]], objects: List[Dict[str, Any]], computing: List[Dict[str, Any]]
) -> List[Dict[str, Any]]:
    """Processes that only the tables of RDMA or NVML name: this user may not read their descriptors."""
    known = {process["pid"] for process in seen}
    threads = {row["thread"]: row["process"] for row in objects if "thread" in row}
    pids: Set[int] = {row["pid"] for row in computing if "pid" in row}
    for row in objects:
        for table in row.get("tables", {}).values():
            pids.update(threads.get(one["pid"], one["pid"]) for one in table["rows"] if "pid" in one)
    found = []
    for pid in sorted(pids - known - {0}):
        reader = Reader(pid, "/proc")
        process = identity(reader)
        if process is not None:
            process.update(
                devices={},
                mapped_devices=[],
                shared=[],
                sockets=[],
                buffers=[],
                libraries=[],
                environment={},
            )
            process["denied"] = sorted({"fd", "maps", "environ", *reader.denied})
            found.append(process)
    return found


def _lasting(seen: List[Dict[str, Any]], began: int) -> List[Dict[str, Any]]:
    """The processes that were there before and after all sources, which name them by pid alone and at
    different times: what a source says of another may be of one that had the pid before or has it now."""
    return [one for one in seen if one["started"] < began and start_of(one["pid"]) == one["started"]]


def _add_tcp(seen: List[Dict[str, Any]], moved: List[Dict[str, Any]]) -> None:
    """Replace the sockets of each process by what they moved, to this node and to others, in bytes/s."""
    rates = by_inode(moved)
    for process in seen:
        total = {
            "sockets": len(process["sockets"]),
            "sent": 0,
            "received": 0,
            "sent_here": 0,
            "received_here": 0,
        }
        for inode in process.pop("sockets"):
            row = rates.get(inode, {})
            for way in ("sent", "received") if row else ():
                total[way + ("_here" if row["here"] else "")] += int(row[way] / row["seconds"])
        process["tcp"] = total
