"""What keeps the next boot from loading a module that runs now: lines of modprobe.d, and the kernel's list.

A blacklist of modprobe counts for devices, which load by alias, and for systemd, not for what loads a module
by its name or as a dependency: kmod, kmod_module_probe_insert_module(); systemd, src/shared/module-util.c,
module_load_and_warn(). So the driver is loaded all the same, by the first CUDA program: nvidia-modprobe,
modprobe-utils/nvidia-modprobe-utils.c, modprobe_helper(). Of the RDMA drivers udev alone loads most:
rdma-core, kernel-boot/rdma-hw-modules.rules; OFED's openibd loads them by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from gdrkit.catalogue import Code
from gdrkit.facts.boot_loader import ArgumentLine, arguments_of_next
from gdrkit.facts.boot_loading import listed_loader, scripted_loader
from gdrkit.facts.driver import DRIVER, memory_peers
from gdrkit.facts.driver_files import driver_path, peermem_path
from gdrkit.facts.kernel import split_command_line
from gdrkit.facts.loaded_modules import PEERMEM, LoadedModule, loaded
from gdrkit.facts.module_index import dependencies, name_of
from gdrkit.facts.modules_load import autoload
from gdrkit.facts.peer_memory import CLIENT
from gdrkit.facts.rdma import RdmaDevice, rdma_devices
from gdrkit.facts.running_files import OPENIBD
from gdrkit.facts.verbs_kernel import verbs_module
from gdrkit.node import Node, Supposition, if_absent, if_missing
from gdrkit.rules.module_admission import module_blacklisted, on_a_blacklist
from gdrkit.rules.module_configuration import install_line, install_override
from gdrkit.rules.rule import Failed

MODPROBES = "modprobe.blacklist"
_LISTS = (MODPROBES, "module_blacklist")
UVM = "nvidia_uvm"
"""Without it no CUDA program starts: open-gpu-kernel-modules kernel-open/nvidia-uvm."""

RENEW = "Then renew what was made from it: the initramfs, or the boot loader's configuration."


class Barrier(Struct, frozen=True):
    """Why the boot does not load a module."""

    module: str  # that runs now
    code: Code
    seen: str
    advice: str  # what removes it; "" if the line is not known


def barriers(node: Node, kernel: str) -> tuple[Barrier, ...]:
    """What keeps a boot of this kernel from loading modules that the direct path needs now. Raises
    EvidenceMissing where an install line runs something whose effect is not known."""
    present, next_lines = loaded(node), arguments_of_next(node, kernel)
    found = (_barrier(node, name, next_lines) for name in dict.fromkeys(_needed(node)) if name in present)
    return tuple(barrier for barrier in found if barrier is not None)


def _needed(node: Node) -> Iterator[str]:
    yield from (DRIVER, UVM, PEERMEM)
    for device in if_missing((), rdma_devices, node):
        yield from modules_of(device)


def modules_of(device: RdmaDevice) -> tuple[str, ...]:
    """The modules that make an RDMA device: of its PCI function, and of its verbs."""
    return (device.driver, verbs_module(device.driver)) if device.driver else ()


def _barrier(node: Node, module: str, lines: Iterable[ArgumentLine]) -> Barrier | None:
    needs = if_missing((), dependencies, node, module)
    for name in dict.fromkeys((module, _file_name(node, module), *needs)):
        for code, outcome in _stopping(node, name, lines):
            always = outcome.takes is None  # not a blacklist of modprobe
            if always or (name == module and not _is_loaded_by_name(node, module)):
                seen = outcome.seen if name in outcome.seen else f"{name}: {outcome.seen}"
                return Barrier(module, code, seen, outcome.advice)
    return None


def _file_name(node: Node, module: str) -> str:
    """A module's name by its file, which Debian changes."""
    path = {DRIVER: driver_path, PEERMEM: peermem_path}.get(module)
    return name_of(if_missing(module, path, node)) if path else module


def _stopping(node: Node, name: str, lines: Iterable[ArgumentLine]) -> Iterator[tuple[Code, Failed]]:
    """What stops a module, which may be one that another needs."""
    for rule, outcome in (
        (install_override, install_line(node, name)),
        (module_blacklisted, on_a_blacklist(node, name)),
    ):
        if isinstance(outcome, Failed):
            yield rule.code, outcome
    for line in lines:
        for word in split_command_line(line.kept):
            argument, _, names = word.partition("=")
            if argument in _LISTS and name in names.split(","):
                yield (
                    module_blacklisted.code,
                    Failed(
                        seen=f"{word} in /{line.file}, line {line.line}",
                        expected="",
                        subject=name,
                        advice=f"Remove {name} from `{argument}=` in line {line.line} of /{line.file}.",
                        takes=() if argument == MODPROBES else None,
                    ),
                )


def _is_loaded_by_name(node: Node, module: str) -> bool:
    """Whether something that obeys no blacklist of modprobe loads a module. What loads nvidia-peermem is
    judged elsewhere."""
    if module in (DRIVER, UVM, PEERMEM) or node.exists(OPENIBD) or scripted_loader(node, module):
        return True
    listed = (one.name for one in autoload(node) if listed_loader(node, one.name))
    return any(module in if_missing((), dependencies, node, name) for name in listed)


def advice_on(found: Iterable[Barrier]) -> str:
    """What removes all of these barriers; "" if it is not known of one of them."""
    advice = dict.fromkeys(barrier.advice for barrier in found)
    return "" if "" in advice else " ".join((*advice, RENEW))


def without(node: Node, found: Iterable[Barrier]) -> Iterator[Supposition]:
    """The facts that such a boot sets."""
    lost = {barrier.module for barrier in found}
    yield loaded.becomes(_left(loaded(node), lost))
    devices = if_missing(None, rdma_devices, node)
    if devices is not None and any(lost.intersection(modules_of(device)) for device in devices):
        yield rdma_devices.becomes(
            tuple(device for device in devices if not lost.intersection(modules_of(device)))
        )
    peers = if_absent(None, memory_peers, node)
    if peers is not None and lost & {DRIVER, PEERMEM}:
        yield memory_peers.becomes(tuple(peer for peer in peers if not peer.client.startswith(CLIENT)))


def _left(present: Mapping[str, LoadedModule], lost: set[str]) -> dict[str, LoadedModule]:
    """What is loaded without some modules. All of NVIDIA's need its driver."""
    begins = "nvidia" if DRIVER in lost else " "
    return {name: one for name, one in present.items() if name not in lost and not name.startswith(begins)}
