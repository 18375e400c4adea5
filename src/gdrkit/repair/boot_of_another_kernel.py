"""What the boot of another kernel than the running one will make of a node that is ready now.

Its modules are judged as those of the running kernel are, by its files: whether its nvidia-peermem is a
stub, whether its driver is the proprietary one, whether its RDMA modules export and import what they must.
What /proc and /sys show is evidence of the kernel that runs alone (`is_running`).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from gdrkit.evidence import Confidence, EvidenceAbsent, Missing, MissingReason
from gdrkit.evidence.quoting import quoted
from gdrkit.facts.boot_loading import listed_loader, scripted_loader
from gdrkit.facts.driver import (
    DRIVER,
    DriverBuild,
    disk_driver_flavour,
    disk_driver_version,
    driver_build,
    driver_flavour,
    driver_path,
    driver_version,
    memory_peers,
    peer_api_exporter,
    peermem_path,
)
from gdrkit.facts.initramfs import Held, boot_copy
from gdrkit.facts.kernel import is_running, release
from gdrkit.facts.loaded_modules import PEERMEM, LoadedModule, loaded
from gdrkit.facts.modules import builtin, information, module_path, require_index
from gdrkit.facts.next_kernel import has_driver, rdma_stack_may_be_built
from gdrkit.facts.peer_memory import CLIENT
from gdrkit.facts.rdma import rdma_devices
from gdrkit.facts.running_files import RDMA_STACK, RunningFile, running_file
from gdrkit.facts.verbs_kernel import verbs_module
from gdrkit.node import Node, Supposition, if_missing
from gdrkit.repair.boot_verdict import (
    AT_BOOT,
    NOT_PERSISTENT,
    NVIDIA,
    STEP,
    NextBoot,
    cause_of,
    is_accepted,
    undecided,
    with_subject,
)
from gdrkit.repair.platforms.action import Action, RunCommand
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.command_shapes import fault, is_release
from gdrkit.repair.platforms.families import family
from gdrkit.repair.platforms.platform import Planner, Platform
from gdrkit.repair.remedies.build_driver_for_kernel import BUILD_DRIVER_FOR_KERNEL, build_for
from gdrkit.repair.remedies.plan import plan
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.verdict import judge_node
from gdrkit.verdict.node_state import ConsumerState
from gdrkit.verdict.path_state import GOOD, State

Modules = Mapping[str, LoadedModule]


def boot_of(node: Node, kernel: str, consumer: str, path: str) -> NextBoot:
    """The verdict after a boot of this kernel, which does not run now, with what keeps `path` open or opens
    another. Raises EvidenceMissing where its files do not decide."""
    other = node.after(STEP, (is_running.becomes(False), release.becomes(kernel)))
    if rdma_stack_may_be_built(node, kernel):
        raise undecided(f"RDMA modules that DKMS may build for {kernel}")
    found = _with_driver if has_driver(node, kernel) else _without_driver
    # its packages, and the menu of the boot loader, can still change before it boots
    return replace(found(node, other, consumer, path), kernel=kernel, confidence=Confidence.LIKELY)


# -- its driver is installed ---------------------------------------------------------------------------


def _with_driver(node: Node, other: Node, consumer: str, path: str) -> NextBoot:
    """The verdict where it has the driver. First as if it accepted every module: what is closed even so is
    closed whatever the kernel makes of them."""
    files = _files(node, other)
    without = other.after(STEP, _suppositions(other, files, _modules(node, other, files, PEERMEM)))
    state = judge_node(without, asked=consumer).toward(without, consumer, path).of(consumer)
    booted = without
    if state.state not in GOOD and PEERMEM in files and _only_lacks_loading(state):
        with_peermem = other.after(STEP, _suppositions(other, files, _modules(node, other, files)))
        then = judge_node(with_peermem, asked=consumer).of(consumer)
        if then.state in GOOD and not (listed_loader(node, PEERMEM) or scripted_loader(node, PEERMEM)):
            return NextBoot(
                state=state.state,
                cause=NOT_PERSISTENT,
                seen="nothing loads nvidia-peermem at boot",
                steps=(RemedyName.PERSIST_PEERMEM,),
            )
        if then.state in GOOD and is_accepted(without, PEERMEM):
            booted, state = with_peermem, then
    if state.state in GOOD:
        absent = _modules(node, other, files, NVIDIA)
        bare = other.after(STEP, _suppositions(other, files, absent))
        if is_accepted(bare, DRIVER):
            return NextBoot(state=State.READY)
        booted, state = bare, judge_node(bare, asked=consumer).of(consumer)
    return _blocked(booted, state, consumer)


def _only_lacks_loading(state: ConsumerState) -> bool:
    """Whether nothing closes the path over nvidia-peermem but that it is not loaded: neither a stub nor an
    import that nothing exports."""
    codes = {code for one in state.judgements if one.path == "peermem" for code in one.codes}
    return codes <= {"peermem-not-loaded"}


def _files(node: Node, other: Node, lacks_driver: bool = False) -> dict[str, str]:
    """The file that the boot loads of each module that is loaded now, by name; "" for one that is built in.
    One that the kernel does not have is left out. Raises EvidenceMissing for one that the RDMA devices need,
    and for one of which the initramfs holds a former copy."""
    require_index(other)
    needed = {*RDMA_STACK[1:], *(verbs_module(device.driver) for device in rdma_devices(node))}
    found = {}
    for name in loaded(node):
        try:
            path = _path(other, name)
        except EvidenceAbsent:
            if builtin(other, name):
                found[name] = ""
            elif name in needed or (name == DRIVER and not lacks_driver):
                raise undecided(f"{name} of Linux {release(other)}") from None
            continue
        watched = name in needed or name in (DRIVER, PEERMEM)
        copy = if_missing(None, boot_copy, other, name) if watched else None
        if copy is not None and copy.held is Held.FORMER:
            raise undecided(f"{name} in the initramfs of Linux {release(other)}")
        found[name] = path
    return found


def _path(other: Node, name: str) -> str:
    """The file of a module. Raises EvidenceAbsent if the kernel has none."""
    if name not in (DRIVER, PEERMEM):
        return module_path(other, name)
    path = driver_path(other) if name == DRIVER else peermem_path(other)
    if not other.exists(path):
        raise EvidenceAbsent(Missing(path, MissingReason.ABSENT, f"ls {quoted(f'/{path}')}"))
    return path


def _modules(node: Node, other: Node, files: Mapping[str, str], left_out: str = " ") -> Modules:
    """The modules that are loaded after the boot, without those whose names begin so. A module of the
    kernel's own build does not taint it, one that OFED had built for the former kernel did."""

    def of(name: str, module: LoadedModule) -> LoadedModule:
        own = name in RDMA_STACK and files[name] and information(other, files[name]).intree
        return replace(module, taint="") if own else module

    kept = {
        name: module for name, module in loaded(node).items() if name in files or name.startswith(NVIDIA)
    }
    if PEERMEM not in files:
        kept.pop(PEERMEM, None)
    return {
        name: module if name.startswith(NVIDIA) else of(name, module)
        for name, module in kept.items()
        if not name.startswith(left_out)
    }


def _suppositions(other: Node, files: Mapping[str, str], present: Modules) -> Iterator[Supposition]:
    """The facts that the boot sets, if it loads these modules."""
    yield loaded.becomes(present)
    for name in present:
        if files.get(name):
            yield running_file.becomes(RunningFile(files[name]), name)
    if DRIVER in files:
        version, flavour = disk_driver_version(other), disk_driver_flavour(other)
        yield driver_version.becomes(version)
        yield driver_flavour.becomes(flavour)
        yield driver_build.becomes(DriverBuild(version, flavour))
    yield from _peers(other, PEERMEM in present)


def _peers(other: Node, loads_peermem: bool) -> Iterator[Supposition]:
    """Whether another kernel shows its clients is not known: `memory_peers`."""
    peers = if_missing(None, memory_peers, other)
    if peers is not None and loads_peermem:
        missing = Missing(
            "clients of the next kernel", MissingReason.STALE, "ls /sys/kernel/mm/memory_peers"
        )
        yield memory_peers.becomes(missing)
    elif peers is not None:
        yield memory_peers.becomes(tuple(peer for peer in peers if not peer.client.startswith(CLIENT)))


def _blocked(booted: Node, state: ConsumerState, consumer: str) -> NextBoot:
    """What closes the paths, and the commands that open one for this kernel. Raises EvidenceMissing where
    one may be open."""
    if state.state not in (State.BLOCKED, State.IMPOSSIBLE):
        raise undecided(f"verdict on Linux {release(booted)}, which boots next")
    cause, outcome = cause_of(state)
    return NextBoot(
        state=state.state,
        cause=cause.rule.code,
        seen=f"Linux {release(booted)}, which boots next: {with_subject(cause.rule, outcome)}",
        commands=tuple(_opening(booted, consumer)),
    )


def _opening(booted: Node, consumer: str) -> Iterator[str]:
    """The commands of the shortest plan for this kernel; none where a person must decide."""
    plans = plan(booted, judge_node(booted, asked=consumer), consumer)
    for step in plans[0] if plans else ():
        if step.remedy.name not in AT_BOOT:
            yield from _commands(booted, step.remedy, step.remedy.procedure)


def _commands(node: Node, remedy: Remedy, procedure: Planner) -> Iterator[str]:
    """The commands of a step, for the kernel that boots; without those of no known shape."""
    platform = family(node)
    if platform is None or not is_release(release(node)):
        return
    shapes = (*remedy.commands, *platform.commands)
    for action in procedure(node, platform, ProcedureChoices()):
        if isinstance(action, RunCommand) and not fault(action, shapes):
            yield f"sudo {shlex.join(action.argv)}"


# -- it has none ---------------------------------------------------------------------------------------


def _without_driver(node: Node, other: Node, consumer: str, path: str) -> NextBoot:
    """The verdict where the kernel that boots has no NVIDIA module."""
    kernel = release(other)
    ask = f"ls {quoted(f'/lib/modules/{kernel}')}"
    absent = Missing(f"driver of Linux {kernel}", MissingReason.ABSENT, ask)
    present = {name: one for name, one in loaded(node).items() if not name.startswith(NVIDIA)}
    after = node.after(
        STEP,
        (
            loaded.becomes(present),
            driver_path.becomes(absent),
            peermem_path.becomes(absent),
            module_path.becomes(absent, DRIVER),
            module_path.becomes(absent, PEERMEM),
        ),
    )
    state = judge_node(after, asked=consumer).of(consumer)
    if state.state in GOOD or state.cause is None:
        raise undecided(f"verdict on Linux {kernel}, which boots next")
    installed = if_missing(None, _installed, node, other)
    then = judge_node(installed, asked=consumer).of(consumer) if installed is not None else None
    found = NextBoot(
        state=state.state,
        cause=state.cause.rule.code,
        seen=f"Linux {kernel}, which boots next, has no NVIDIA module",
        commands=tuple(_commands(other, BUILD_DRIVER_FOR_KERNEL, _builds)),
    )
    if then is not None and then.state in GOOD:
        return found
    if installed and then and then.state is State.BLOCKED and _lacks_api(installed):
        seen = f"{found.seen}, and no peer-memory API: the same driver would have no direct path there"
        return replace(found, seen=seen, commands=tuple(_opening(installed, consumer)))
    return replace(found, commands=(*found.commands, "gdr doctor") if found.commands else ())


def _lacks_api(node: Node) -> bool:
    """Whether nothing exports the peer-memory API, so that nvidia-peermem would be built as a stub. False
    also where that is not known."""
    return if_missing(False, lambda: not peer_api_exporter(node))


def _builds(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Install or build the driver for a kernel that does not run yet, without loading it."""
    del choices
    return build_for(node, platform, release(node))


def _installed(node: Node, other: Node) -> Node:
    """The other kernel with the same driver as now, and without nvidia-peermem: whether its build finds the
    peer-memory API is not known."""
    files = _files(node, other, lacks_driver=True)
    present = _modules(node, other, files, PEERMEM)
    absent = Missing(f"nvidia-peermem of Linux {release(other)}", MissingReason.ABSENT, "gdr doctor")
    return other.after(
        STEP,
        (
            *_suppositions(other, files, present),
            driver_flavour.becomes(driver_flavour(node)),
            peermem_path.becomes(absent),
            module_path.becomes(absent, PEERMEM),
        ),
    )
