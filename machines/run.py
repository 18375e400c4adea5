"""Judge many machines, in several processes."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

from machines.cases import Case, case
from machines.judge import Answer, Miss, accepts, ask, compare
from machines.nvidia import in_use
from machines.truth import CONSUMERS


class Result(NamedTuple):
    """The result of one machine; small enough to go between processes."""

    seed: int
    number: int
    only: str
    faults: tuple[tuple[str, tuple[str, ...]], ...]
    misses: tuple[Miss, ...]
    states: tuple[str, ...]  # true ones
    headline: tuple[str, ...]
    said: str
    cells: dict[str, str]
    decoys: tuple[str, ...] = ()

    @property
    def kinds(self) -> set[str]:
        return {miss.kind for miss in self.misses}


def judged(
    seed: int, count: int, only: str = "", number: int | None = None, jobs: int = 2
) -> Iterator[Result]:
    """The results of a seed's machines, in order."""
    numbers = range(count) if number is None else (number,)
    one = functools.partial(judge_one, seed, only)
    if jobs < 2 or len(numbers) < 4:
        yield from map(one, numbers)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(one, numbers, chunksize=5)


def judge_one(seed: int, only: str, number: int) -> Result:
    """The result of one machine, and of the same machine without its faults."""
    made = case(seed, number, only)
    answer = ask(made.machine)
    misses = compare(made, answer)
    if made.faults and made.repairable:
        misses += repaired(made)
    return Result(
        seed,
        number,
        only,
        tuple((fault.name, fault.codes) for fault in made.faults),
        tuple(misses),
        tuple(sorted(made.truth.states["nccl"])),
        tuple(sorted(made.truth.headline)),
        f"{answer.state} {answer.headline}",
        cells(made),
        tuple(decoy.name for decoy in made.decoys),
    )


def repaired(made: Case) -> list[Miss]:
    """What gdrkit says wrongly of the machine without its faults."""
    answer: Answer = ask(made.healthy, modprobe=False)
    if not answer.report:
        return [Miss("crash", "an answer", answer.complaint)]
    said = {name: answer.report["consumers"][name]["state"] for name in CONSUMERS}
    return [
        Miss(
            "repair",
            f"{name} {'/'.join(made.healthy_truth.states[name])}",
            f"{name} {state} {answer.headline}",
        )
        for name, state in said.items()
        if name == "nccl" and not accepts(made.healthy_truth.states[name], state)
    ]


def cells(made: Case) -> dict[str, str]:
    """The machine's place in the table of coverage."""
    machine = made.machine
    gpus = sorted({gpu.part for gpu in made.machine.gpus})
    driver = machine.driver
    nics = sorted({nic.part for nic in machine.functions if nic.nic})
    ports = {nic.state for nic in machine.nics}
    return {
        "GPU": " + ".join(gpus) or "none",
        "driver": f"{driver.branch} {'open' if driver.is_open else 'proprietary'}" if driver else "none",
        "OFED": f"{machine.ofed.kind} {machine.ofed_state}" if machine.ofed else "inbox",
        "keys": machine.trust.name,
        "kernel": machine.kernel.title,
        "topology": machine.platform,
        "NIC": " + ".join(nics) or ("software" if machine.nics else "none"),
        "port": "/".join(sorted(ports)) or "none",
        "IOMMU": machine.iommu,
        "build ids": "yes" if machine.build_ids else "no",
        "in use": "dma-buf" if in_use(machine) else "no",
        "IMEX": "yes" if machine.imex else "no",
        "bond": "yes" if any(nic.bond for nic in machine.nics) else "no",
        "mode": "MIG"
        if machine.mig
        else "confidential"
        if machine.confidential
        else "passed through"
        if any(gpu.bound == "vfio-pci" for gpu in machine.gpus)
        else "operator"
        if machine.operator
        else machine.scope,
    }
