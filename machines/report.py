"""The tables that `python -m machines` prints."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from machines.faults import FAULTS
from machines.run import Result


def describe(result: Result) -> str:
    """One machine in a few lines."""
    lines = [
        f"machine {result.number} of seed {result.seed}: "
        + (", ".join(name for name, _ in result.faults) or "healthy")
    ]
    lines.append("  " + "; ".join(f"{name} {cell}" for name, cell in result.cells.items()))
    lines.append(f"  truth: {'/'.join(result.states)} {'/'.join(result.headline)}   gdrkit: {result.said}")
    lines += [f"  {miss.kind}: expected {miss.expected}, got {miss.got}" for miss in result.misses]
    return "\n".join(lines)


def rates(results: list[Result]) -> dict[str, float]:
    """The shares that count, in percent: of the machines whose faults gdrkit has codes for."""
    new = [result for result in results if "not recognised" in result.kinds]
    ready = [r for r in new if set(r.states) == {"blocked"} and r.said.startswith(("ready", "active"))]
    results = [result for result in results if "not recognised" not in result.kinds]
    count = max(len(results), 1)
    planted = [result for result in results if result.faults]
    return {
        "state": 100 * sum("state" not in r.kinds for r in results) / count,
        "headline": 100 * sum(not {"state", "headline", "crash"} & r.kinds for r in results) / count,
        "named": 100 * sum("named" not in r.kinds for r in planted) / max(len(planted), 1),
        "device": 100 * sum("device" not in r.kinds for r in planted) / max(len(planted), 1),
        "cost": 100 * sum("cost" not in r.kinds for r in planted) / max(len(planted), 1),
        "remedy": 100 * sum("remedy" not in r.kinds for r in planted) / max(len(planted), 1),
        "modprobe": 100 * sum("modprobe" not in r.kinds for r in results) / count,
        "repair": 100 * sum("repair" not in r.kinds for r in planted) / max(len(planted), 1),
        "claims": sum(miss.kind == "claim" for r in results for miss in r.misses),
        "untrue": sum(
            miss.kind == "claim" and miss.expected == "not true" for r in results for miss in r.misses
        ),
        "unrecognised": len(new),
        "called ready": len(ready),
        "crashes": sum("crash" in r.kinds for r in results),
    }


def table(results: list[Result]) -> str:
    """Everything about a run."""
    parts = (
        summary(results),
        _by_fault(results),
        _by_decoy(results),
        coverage(results),
        _misses(results),
    )
    return "\n\n".join("\n".join(lines) for lines in parts if lines)


def summary(results: list[Result]) -> list[str]:
    """The shares of right answers, and the numbers of wrong ones."""
    share = rates(results)
    seeds = dict.fromkeys(result.seed for result in results)
    lines = [f"{len(results)} machines, seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"]
    for name, text in (
        ("state", "state of NCCL right"),
        ("headline", "state and headline right"),
        ("named", "every planted fault named"),
        ("device", "device, module or file right"),
        ("cost", "cost right"),
        ("remedy", "remedy right"),
        ("modprobe", "modprobe right"),
        ("repair", "ready without the faults"),
    ):
        lines.append(f"  {text:<32} {share[name]:5.1f} %")
    lines.append(f"  {'confident wrong claims':<32} {share['claims']:5.0f}")
    lines.append(f"  {'  of them plainly untrue':<32} {share['untrue']:5.0f}")
    lines.append(f"  {'crashes':<32} {share['crashes']:5.0f}")
    if share["unrecognised"]:
        lines.append(f"  {'not counted: not recognised':<32} {share['unrecognised']:5.0f}")
        lines.append(f"  {'  blocked, and called ready':<32} {share['called ready']:5.0f}")
    return lines


def _by_fault(results: list[Result]) -> list[str]:
    planted: Counter[str] = Counter()
    headline: Counter[str] = Counter()
    named: Counter[str] = Counter()
    for result in results:
        missing = {miss.expected for miss in result.misses if miss.kind == "named"}
        for name, codes in result.faults:
            planted[name] += 1
            headline[name] += not {"state", "headline", "crash"} & result.kinds
            named[name] += codes[0] not in missing and "crash" not in result.kinds
    lines = [f"{'fault':<40} {'code':<30} planted headline named"]
    for fault in FAULTS:
        if planted[fault.name]:
            lines.append(
                f"{fault.name:<40} {fault.codes[0]:<30} {planted[fault.name]:7} {headline[fault.name]:8} "
                f"{named[fault.name]:5}"
            )
    return lines


def _by_decoy(results: list[Result]) -> list[str]:
    """How often a near miss was there, and how often a machine with nothing else was judged wrong."""
    there = Counter(name for result in results for name in result.decoys)
    taken = Counter(name for r in results for name in r.decoys if r.kinds and not r.faults)
    rows = [f"{name:<40} {there[name]:7} {taken[name]:9}" for name in sorted(there)]
    return [f"{'near miss':<40} planted taken for a fault", *rows] if rows else []


def coverage(results: Iterable[Result]) -> list[str]:
    """Machines by each dimension, against the kinds of OFED."""
    counts: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    kinds: set[str] = set()
    for result in results:
        kinds.add(result.cells["OFED"])
        for name, cell in result.cells.items():
            counts[name][cell, result.cells["OFED"]] += 1
    columns = sorted(kinds)
    lines = ["coverage: " + " | ".join(columns)]
    for name, cells in counts.items():
        lines.append(f"{name}")
        for row in sorted({row for row, _ in cells}):
            shown = " ".join(f"{cells[row, column] or '-':>4}" for column in columns)
            lines.append(f"  {row:<34} {sum(n for (r, _), n in cells.items() if r == row):5}  {shown}")
    return lines


def _misses(results: list[Result]) -> list[str]:
    """What gdrkit says wrongly, the most frequent first, each with machines that show it."""
    groups: dict[tuple[str, str, str], list[Result]] = defaultdict(list)
    for result in results:
        for miss in result.misses:
            got = miss.got.split(" ")[0] if miss.kind in ("claim", "untrue note") else miss.got
            if miss.kind == "state":
                got += " " + result.said.split(" ")[-1]
            groups[miss.kind, miss.expected, got].append(result)
    ranked = sorted(groups.items(), key=lambda item: (item[0][0] == "other state", -len(item[1]), item[0]))
    lines = ["misses by frequency (kind: expected -> got; machines and what was planted in the first ones)"]
    for (kind, expected, got), found in ranked:
        shown = "; ".join(
            f"{r.number} {' + '.join(name for name, _ in r.faults) or 'healthy'}" for r in found[:4]
        )
        lines.append(f"{len(found):4}  {kind}: {expected} -> {got}; {shown}")
    return lines
