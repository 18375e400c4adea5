"""What `gdr` prints about a node of tests/evidence: for blocks `<!-- printed: ... -->` of the pages.

    printed: NODE WORDS              what `gdr WORDS` prints; NODE is `-` without a node
    printed: fleet WORDS             16 nodes of the machine generator with planted faults, in bundles/
    printed: sparks WORDS            two DGX Sparks of the generator, spark-a.tar.gz and spark-b.tar.gz
    printed: NODE WORDS < FILE       FILE of tests/cli/examples/ is standard input
    printed: NODE WORDS | 1-9,12     only these lines; `...` stands for each gap

The command runs in a folder that holds the node as an archive, under every name with .tar in WORDS, and the
files of tests/cli/examples/. Without such a name the node is the target, as if it were this machine.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "tests" / "cli" / "examples"
GDR = (sys.executable, "-P", "-c", "import sys; from gdrkit.cli import main; sys.exit(main())")
_TIME = re.compile(r"^((?:None|\d+) of \d+ nodes? .*?) \(judged in \d+ (?:s|min)\)$", re.MULTILINE)
"""How long a run took, which differs from run to run."""
_SPEC = re.compile(r"(?P<node>\S+) (?P<words>.+?)(?: < (?P<given>\S+))?(?: \| (?P<lines>[\d,-]+))?$")


def printed(spec: str) -> str:
    """A fenced block with the command and its output. Raises ValueError if the block is not valid."""
    match = _SPEC.match(spec)
    if match is None:
        raise ValueError(f"not NODE WORDS [< FILE] [| LINES]: {spec}")
    given = match["given"]
    output = ran(match["node"], match["words"], given)
    shown = f"$ gdr {match['words']}" + (f" < {given}" if given else "")
    lines = [line.rstrip() for line in output.rstrip().splitlines()]
    return "\n".join(["```console", shown, *_chosen(lines, match["lines"]), "```\n"])


def ran(node: str, line: str, given: str | None = None) -> str:
    """What `gdr LINE` writes to standard output about a node. Raises ValueError if it fails."""
    words = shlex.split(line)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(EXAMPLES, folder, dirs_exist_ok=True)
        words = [*words, *_target(node, words, folder)]
        text = (folder / given).read_text() if given else None
        environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
        environment["XDG_STATE_HOME"] = str(folder / ".state")  # where runs of fleets are kept
        done = subprocess.run(
            [*GDR, *words], cwd=folder, input=text, capture_output=True, text=True, env=environment
        )
    if done.returncode not in range(4):
        raise ValueError(f"{node} {line}: exit code {done.returncode}: {done.stderr}")
    return _TIME.sub(r"\1", done.stdout)


def _target(node: str, words: list[str], folder: Path) -> list[str]:
    """The argument to add for a node, which is first built and packed in the folder."""
    if node == "-":
        return []
    if node in _GENERATED:
        _GENERATED[node](folder)
        return []
    from tests.evidence_nodes import build

    (folder / ".node").mkdir()
    tree = build(node, folder / ".node")
    for word in words:
        if ".tar" in word:
            with tarfile.open(folder / word, "w:gz") as tar:
                tar.add(tree, tree.name)
            return []
    return [str(tree)]


def _fleet(folder: Path) -> None:
    from machines.fleet import bundles, incident

    (folder / ".node").mkdir()
    (folder / "bundles").mkdir()
    for packed in bundles(incident(0, 16).machines, folder / ".node"):
        packed.rename(folder / "bundles" / packed.name)


def _sparks(folder: Path) -> None:
    from machines.fleet import bundles
    from tests.fleet.sparks import two_sparks

    (folder / ".node").mkdir()
    for packed, letter in zip(bundles(two_sparks(), folder / ".node"), "ab", strict=True):
        packed.rename(folder / f"spark-{letter}.tar.gz")


_GENERATED: dict[str, Callable[[Path], None]] = {"fleet": _fleet, "sparks": _sparks}


def _chosen(lines: list[str], ranges: str | None) -> list[str]:
    if ranges is None:
        return lines
    found: list[str] = []
    last = 0
    for part in ranges.split(","):
        first, _, end = part.partition("-")
        if int(first) > last + 1:
            found.append("...")
        last = int(end or first)
        found += lines[int(first) - 1 : last]
    return [*found, "..."] if last < len(lines) else found
