"""Compares gdrkit's model with NCCL's output: paths, bandwidths and decisions of every rank."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from gdrkit.fabric.nccl.gdr_check import GdrCheck, check
from gdrkit.fabric.nccl.graph import CPU, GPU, NET, NVS, GraphNode, NcclSystem
from gdrkit.fabric.nccl.paths import settle
from gdrkit.fabric.nccl.settings import Settings, settings
from gdrkit.fabric.nccl.system import system_of
from gdrkit.formats import nccl_xml
from gdrkit.programs.nccl.releases import release

_PATH = re.compile(r"(\w+/[0-9a-f-]+) \((\d+)/([\d.]+)/(\w+)\)")
_PAIR = re.compile(
    r"GPU Direct RDMA (Enabled|Disabled) for GPU (\d+) / HCA ([0-9a-f]+) "
    r"\(distance (\d+) (?:<=|>) (\d+)\)(?:, read (\d) mode (\w+))?"
)
_CHANNEL = re.compile(
    r"Channel \d+/\d+ : (\d+)\[\d+\] -> (\d+)\[\d+\] \[(send|receive)\] "
    r"via NET/\w+/(\d+)(?:\((\d+)\))?(/GDRDMA)?"
)
ALONE = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}


class Job(NamedTuple):
    """One run of NCCL: the topology that it dumped, its environment, and each rank's lines."""

    name: str
    mode: str
    environment: dict[str, str]
    xml: str
    ranks: list[list[str]]


class Verdict(NamedTuple):
    """The numbers of compared paths and decisions, and the disagreements."""

    paths: int
    decisions: int
    disagreements: list[str]


def judge(job: Job, version: str) -> Verdict:
    """The verdict on all ranks of a job."""
    paths = decisions = 0
    wrong: list[str] = []
    for rank, lines in enumerate(job.ranks):
        model = _Model(job, rank, version)
        found = list(model.paths(lines))
        decided = list(model.decisions(lines))
        paths, decisions = paths + len(found), decisions + len(decided)
        wrong += [f"{job.name} rank {rank}: {text}" for ok, text in (*found, *decided) if not ok]
    return Verdict(paths, decisions, wrong)


class _Model:
    """gdrkit's model of one rank."""

    def __init__(self, job: Job, rank: int, version: str) -> None:
        environment = job.environment | (ALONE if job.mode == "alone" else {})
        self.rules = release(version)
        self.settings: Settings = settings(self.rules, environment)
        self.system: NcclSystem = system_of(nccl_xml.parse(job.xml.encode()), self.rules)
        self.first = rank // 2 * 2 if job.mode == "two" else 0  # the dump names the ranks of the first host
        own = next(gpu for gpu in self.system.nodes[GPU] if gpu.rank + self.first == rank)
        self.asked = settle(self.system, own, self.settings)

    def paths(self, lines: list[str]) -> Iterator[tuple[bool, str]]:
        """Whether each path of NCCL's table equals ours, and the table has all of ours."""
        nodes = {node.printed: node for kind in (GPU, CPU, NET, NVS) for node in self.system.nodes[kind]}
        seen = set()
        for line in lines:
            source, colon, rest = line.partition(" :")
            if not colon or source not in nodes or not _PATH.match(rest):
                continue
            for target, hops, bandwidth, kind in _PATH.findall(rest):
                seen.add((source, target))
                path = nodes[source].paths.get(nodes[target])
                ours = (
                    (str(path.hops), f"{path.bandwidth:.1f}", self.rules.named(path.type))
                    if path
                    else ("0", "0.0", "DIS")
                )
                close = ours[1] == bandwidth or (path and abs(path.bandwidth - float(bandwidth)) < 0.0501)
                same = ours[0] == hops and ours[2] == kind and close
                yield (
                    bool(same),
                    f"{source} to {target}: NCCL {hops}/{bandwidth}/{kind}, we {'/'.join(ours)}",
                )
        tables = [nodes[name] for name in nodes if nodes[name].kind in (GPU, NET)]
        yield (
            len({source for source, _ in seen}) == len(tables),
            f"{len(tables)} tables expected, {len(seen)} paths",
        )

    def decisions(self, lines: list[str]) -> Iterator[tuple[bool, str]]:
        """Compare lines about pairs with the checks that we would make, and channels with our final
        decision.
        """
        made = {_words(asked.gpu, asked.net, asked.sends, asked.check, self) for asked in self.asked}
        made.discard("")
        final = {}
        for gpu in self.system.nodes[GPU]:
            for net in self.system.nodes[NET]:
                for sends in (False, True):
                    final[gpu.rank + self.first, net.dev, sends] = check(
                        self.system, gpu, net, sends, self.settings
                    )
        nets = {net.dev: net for net in self.system.nodes[NET]}
        gpus = {gpu.rank + self.first: gpu for gpu in self.system.nodes[GPU]}
        last = {_words(gpus[rank], nets[dev], sends, one, self) for (rank, dev, sends), one in final.items()}
        printed = {match[0] for line in lines if (match := _PAIR.search(line))}
        for text in made:
            yield text in printed, f"we expected {text!r}"
        for text in printed:
            yield text in made or text in last, f"NCCL printed {text!r}"
        for line in lines:
            if match := _CHANNEL.search(line):
                yield self._channel(match, final), line

    def _channel(self, match: re.Match[str], final: dict[tuple[int, int, bool], GdrCheck]) -> bool:
        source, target, direction, dev, helper, direct = match.groups()
        one = final.get((int(source if direction == "send" else target), int(dev), direction == "send"))
        if one is None or bool(direct) != (one.refused_by is None):
            return False
        return helper is None or (one.via is not None and one.via.rank + self.first == int(helper))


def _words(gpu: GraphNode, net: GraphNode, sends: bool, one: GdrCheck, model: _Model) -> str:
    """NCCL's line about a check; "" if it prints none."""
    number = model.rules.order
    if one.refused_by and one.refused_by != "distance":
        return ""
    pair = f"for GPU {gpu.rank + model.first} / HCA {net.dev:x}"
    distance, level = number[one.compared], number[one.level]
    if one.refused_by:
        return f"GPU Direct RDMA Disabled {pair} (distance {distance} > {level})"
    return (
        f"GPU Direct RDMA Enabled {pair} (distance {distance} <= {level}), read {int(sends)} mode {one.mode}"
    )
