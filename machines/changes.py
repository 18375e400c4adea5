"""Changes that must not matter, and evidence that is taken away."""

from __future__ import annotations

import copy
import random

from machines.compose import compose
from machines.machine import Function, Machine
from machines.tree import Tree

_NEVER_HIDDEN = ("gdr_manifest.json",)


def renamed(machine: Machine, source: random.Random) -> tuple[Machine, dict[str, str]]:
    """The machine with other PCI addresses, other names of RDMA devices and another order of devices.

    Also returns the new name of each old one."""
    changed = copy.deepcopy(machine)
    names = _addresses(changed, source)
    devices = [nic.rdma for nic in changed.nics if nic.rdma.startswith("mlx5_")]
    names |= dict(
        zip(devices, source.sample([f"mlx5_{n}" for n in range(len(devices))], len(devices)), strict=True)
    )
    for function in changed.functions:
        function.address = names[function.address]
        function.above = names.get(function.above, "")
        function.rdma = names.get(function.rdma, function.rdma)
    source.shuffle(changed.functions)
    for calls in changed.probe.values():
        for at, (call, argument, device, result, value) in enumerate(calls):
            calls[at] = (call, argument, names.get(device, device), result, value)
    if wanted := changed.nccl_conf.get("NCCL_IB_HCA"):
        kept = [names.get(name, name) for name in wanted.lstrip("=").split(",")]
        changed.nccl_conf["NCCL_IB_HCA"] = "=" + ",".join(kept)
    return changed, names


def _addresses(machine: Machine, source: random.Random) -> dict[str, str]:
    """New addresses: root buses stay together, and what is below a root port keeps its shape."""
    names: dict[str, str] = {}
    domains: dict[str, list[Function]] = {}
    for function in machine.functions:
        domains.setdefault(function.address[:4], []).append(function)
    for domain, functions in domains.items():
        roots = [function for function in functions if not function.above]
        buses = sorted({root.address[5:7] for root in roots if ":" in root.address})
        fresh = dict(zip(buses, sorted(source.sample(range(0x01, 0x40), len(buses))), strict=True))
        following = 0x40
        source.shuffle(roots)
        for root in roots:
            below = [function for function in functions if root in machine.chain(function)]
            own = {bus: following + at for at, bus in enumerate(sorted({f.address[5:7] for f in below}))}
            following += len(own)
            for function, bus in [
                (root, fresh.get(root.address[5:7], 0)),
                *((f, own[f.address[5:7]]) for f in below),
            ]:
                rest = function.address[7:]
                names[function.address] = (
                    f"{domain}:{bus:02x}{rest}" if ":" in function.address else function.address
                )
    return names


def hide(machine: Machine, source: random.Random, count: int = 1) -> tuple[Tree, list[str]]:
    """The machine's evidence without some files, folders or outputs, which the manifest calls not
    collected."""
    tree = compose(machine)
    groups: dict[str, list[str]] = {}
    for candidate in candidates(tree):  # each subject is as likely as another, however many files it has
        groups.setdefault("/".join(candidate.split("/")[:2]), []).append(candidate)
    paths = [source.choice(groups[source.choice(sorted(groups))]) for _ in range(count)]
    for path in paths:
        tree.hide(path)
    return tree, paths


def candidates(tree: Tree) -> list[str]:
    """What a collector may have missed: single files, and the folders that hold one subject."""
    folders = {"/".join(path.split("/")[:depth]) for path in tree.files for depth in (2, 3, 4, 5)}
    subjects = [path for path in sorted(folders) if path.count("/") < 6 and path not in tree.files]
    files = [
        path
        for path in sorted(tree.files)
        if path not in _NEVER_HIDDEN and not path.startswith("sys/devices/")
    ]
    return files + subjects
