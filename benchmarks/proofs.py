"""How often `gdr prove` tells each path apart: one line for each run, then one for each path.

    python -m benchmarks.proofs [KIND] [--runs N]

KIND is `pair` (two GPUs), `loopback` or `host`. Exit code 1 if a run of a path was not proven with high
confidence; a path that is not available is named, and counts as nothing.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter

HIGH = "proven, high"


def proofs(kind: str) -> dict[str, str]:
    """Each path with its verdict and confidence in one run of `gdr prove`."""
    command = [sys.executable, "-m", "gdrkit", "prove", kind, "--json", "--quiet"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    return {run["path"]: _verdict(run) for run in json.loads(done.stdout)["runs"]}


def _verdict(run: dict[str, dict[str, str] | str]) -> str:
    proof = run.get("proof")
    if not isinstance(proof, dict):
        return f"not available: {run.get('unavailable')}"
    if not proof["proven"]:
        return f"inconclusive: {proof['claim']}"
    return f"proven, {proof['confidence']}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", nargs="?", default="pair", choices=("pair", "loopback", "host"))
    parser.add_argument("--runs", type=int, default=10)
    options = parser.parse_args()
    found: dict[str, Counter[str]] = {}
    for number in range(1, options.runs + 1):
        verdicts = proofs(options.kind)
        print(f"run {number}: " + "; ".join(map(": ".join, verdicts.items())), flush=True)
        for path, verdict in verdicts.items():
            found.setdefault(path, Counter())[verdict] += 1
    for path, counts in found.items():
        words = ", ".join(f"{count} of {options.runs} {verdict}" for verdict, count in counts.items())
        print(f"{path}: {words}")
    verdicts_of_all = {verdict for counts in found.values() for verdict in counts}
    return int(any(it != HIGH and not it.startswith("not available") for it in verdicts_of_all))


if __name__ == "__main__":
    sys.exit(main())
