"""Runs NCCL's own graph code, built from its source at a tag, on topologies without a GPU.

`python -m lab.nccl.from_source REPOSITORY CUDA_INCLUDE WORK [SEEDS]` builds src/graph of every release
that gdrkit supports (only host code, with graph_answers.cc and stubs.cc from this folder). It runs random
topologies through it and through gdrkit's model, and prints the differences. With `--record FILE` it
writes digests of NCCL's answers, with which a test compares the model. Cases that need a communicator
(GPUs connected only by the network) run on real GPUs: on_gpus.py.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from gdrkit.fabric.nccl.gdr_check import check
from gdrkit.fabric.nccl.graph import CPU, GPU, NET, NVS, GraphNode, NcclSystem
from gdrkit.fabric.nccl.paths import compute_paths
from gdrkit.fabric.nccl.search import local_gpu, local_nets
from gdrkit.fabric.nccl.settings import Settings, settings
from gdrkit.fabric.nccl.system import system_of
from gdrkit.formats import nccl_xml
from gdrkit.formats.errors import FormatError
from gdrkit.programs.nccl.releases import FROM_SOURCE, release
from lab.nccl.generate import Case, case

HERE = Path(__file__).parent
SOURCES = ("graph/topo.cc", "graph/paths.cc", "graph/xml.cc", "misc/utils.cc")
FAILS = ["NCCL fails"]
MODES = {"": 0, "Default": 1, "PCI": 2}


def build(repository: str, cuda: str, work: Path, version: str) -> Path:
    """The program of one version. Raises CalledProcessError if it does not compile."""
    program = work / f"graph-answers-{version}"
    if program.exists():
        return program
    tree = work / version
    tree.mkdir(parents=True)
    command = ["git", f"--git-dir={repository}", "archive", f"v{version}-1", "src"]
    archive = subprocess.run(command, capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", str(tree)], input=archive.stdout, check=True)
    major, minor, patch = version.split(".")
    code = str(int(major) * 10000 + int(minor) * 100 + int(patch))
    header = (tree / "src/nccl.h.in").read_text()
    values = {"Major": major, "Minor": minor, "Patch": patch, "Suffix": "", "Version": code}
    for name, value in values.items():
        header = header.replace(f"${{nccl:{name}}}", value)
    (tree / "src/include/nccl.h").write_text(header)
    below = ("include", "include/os", "include/plugin", "graph", "")
    folders = (*(tree / "src" / name for name in below), Path(cuda))
    flags = ["-std=c++17", "-O1", "-w", "-fpermissive", "-DNCCL_OS_LINUX", f"-DNCCL_CODE={code}"]
    flags += [f"-I{folder}" for folder in (Path(cuda) / "cccl", *folders)]
    files = [*(tree / "src" / name for name in SOURCES), HERE / "graph_answers.cc", HERE / "stubs.cc"]
    link = ["-no-pie", "-Wl,--unresolved-symbols=ignore-all", "-lpthread", "-ldl"]
    subprocess.run(["g++", *flags, *map(str, files), "-o", str(program), *link], check=True)
    return program


def ask(program: Path, one: Case) -> list[str]:
    """NCCL's answers as sorted lines."""
    with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
        file.write(one.xml)
        file.flush()
        environment = {"PATH": os.defpath, "NCCL_IGNORE_DISABLED_P2P": "2", **one.environment}
        command = [str(program), file.name]
        ended = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
    lines = ended.stdout.splitlines()
    return FAILS if ended.returncode else sorted(lines)


def predict(one: Case, version: str) -> list[str]:
    """The same lines from gdrkit's model."""
    rules = release(version)
    given = settings(rules, one.environment)
    try:
        system = system_of(nccl_xml.parse(one.xml.encode()), rules)
        compute_paths(system, given, between_ranks=False)
        return sorted([*_paths(system), *_decisions(system, given), *_nearest(system, given)])
    except FormatError:
        return FAILS


def _name(node: GraphNode) -> str:
    local = node.device << 40 | node.id if node.parent is not None else node.id
    return f"{node.kind}/{(node.system << 56) + local:x}"


def _paths(system: NcclSystem) -> list[str]:
    named = system.rules.named
    return [
        f"path {_name(node)} {_name(other)} {path.hops} {path.bandwidth:.4f} {named(path.type)}"
        for kind in (GPU, NET)
        for node in system.nodes[kind]
        for to in (GPU, NVS, CPU, NET)
        for other in system.nodes[to]
        if (path := node.paths.get(other))
    ]


def _decisions(system: NcclSystem, given: Settings) -> list[str]:
    return [
        f"gdr {gpu.rank} {net.id:x} {int(sends)} {MODES[check(system, gpu, net, sends, given).mode]}"
        for gpu in system.nodes[GPU]
        for net in system.nodes[NET]
        for sends in (False, True)
    ]


def _nearest(system: NcclSystem, given: Settings) -> list[str]:
    found = []
    for net in system.nodes[NET]:
        gpu = local_gpu(system, net, given)
        found.append(f"localgpu {net.id:x} {gpu.rank if gpu else -1}")
    for gpu in system.nodes[GPU]:
        nets = local_nets(system, gpu, given)
        found += [f"localnet {gpu.rank} {channel} {nets[channel % len(nets)].id:x}" for channel in range(4)]
    return found


def digest(lines: list[str]) -> str:
    """A short digest of an answer."""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def main() -> int:
    """Returns exit code 1 if the model and NCCL differ."""
    parser = argparse.ArgumentParser(prog="lab.nccl.from_source", description=__doc__)
    parser.add_argument("repository", help="git directory of github.com/NVIDIA/nccl")
    parser.add_argument("cuda", help="CUDA's headers, with those of CCCL in its subfolder cccl")
    parser.add_argument("work", type=Path, help="where to build")
    parser.add_argument("seeds", nargs="?", type=int, default=100)
    parser.add_argument("--record", type=Path, help="write digests of NCCL's answers")
    options = parser.parse_args()
    differ = 0
    answers: dict[str, list[str]] = {}
    for version in FROM_SOURCE:
        program = build(options.repository, options.cuda, options.work, version)
        wrong = []
        answers[version] = []
        for seed in range(options.seeds):
            answer = ask(program, one := case(seed))
            answers[version].append(digest(answer))
            wrong += [seed] if answer != predict(one, version) else []
        differ += len(wrong)
        print(f"NCCL {version}: {options.seeds} topologies, {len(wrong)} differ {wrong[:5]}", flush=True)
    if options.record:
        options.record.write_text(json.dumps(answers, indent=0) + "\n")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
