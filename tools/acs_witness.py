"""Have rdma-core's rdma_topo judge the dumps of tests/acs_layouts.py, and keep what it says.

    python -m tools.acs_witness PATH/TO/kernel-boot/rdma_topo

Each line of tests/rules/acs_verdicts.txt: the seed, the layout, the ports whose bits are wrong, and whether
IOMMU groups and ATS are. `-` is none; a layout that rdma_topo does not know has `unsupported` alone.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.acs_layouts import SEEDS, dump, layout

VERDICTS = Path(__file__).parents[1] / "tests/rules/acs_verdicts.txt"
_PORT = re.compile(r"FAIL\tACS for \w+ (\S+) has")


def verdict(program: str, data: bytes) -> str:
    """What rdma_topo says of a dump, in a few words."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        file.write(data)
        file.flush()
        argv = (sys.executable, program, "check", "-F", file.name)
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    fails = [line for line in done.stdout.splitlines() if line.startswith("FAIL")]
    if not fails and done.returncode:
        return "unsupported"
    ports = sorted(match[1] for line in fails if (match := _PORT.match(line)))
    groups = any("iommu_group" in line for line in fails)
    ats = any("ATS capability" in line for line in fails)
    return f"{','.join(ports) or '-'} {'groups' if groups else '-'} {'ats' if ats else '-'}"


def main(program: str) -> None:
    """Write the verdicts on all dumps."""
    lines = []
    for seed in SEEDS:
        name, functions = layout(seed)
        lines.append(f"{seed} {name} {verdict(program, dump(functions))}\n")
    VERDICTS.write_text("".join(lines))


if __name__ == "__main__":
    main(*sys.argv[1:])
