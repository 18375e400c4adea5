"""Steps about loading modules: signing, modprobe.d, modules-load.d, the old module."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing
from gdrkit.facts.driver_files import driver_path, peermem_path
from gdrkit.facts.kernel import release
from gdrkit.facts.modprobe_config import Directive, autoload, configuration
from gdrkit.facts.module_index import module_path, modules_dir, name_of
from gdrkit.facts.modules import PEERMEM, dependencies, is_loaded
from gdrkit.facts.packages import installed
from gdrkit.facts.peer_memory import LEGACY
from gdrkit.facts.trust import SignatureState, standing
from gdrkit.node import Node, if_absent, if_missing
from gdrkit.repair.platforms import file_contents
from gdrkit.repair.platforms.action import (
    Action,
    AskPerson,
    EnrolKey,
    MakeKey,
    RemoveFile,
    RunCommand,
    SignModules,
    WriteFile,
)
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.conflicting_config import conflicting_config
from gdrkit.repair.platforms.edits import without_lines
from gdrkit.repair.platforms.platform import Platform

INDEX_FILES = "modules.[a-z]*"
"""What depmod writes beside what the kernel's package brings: depmod(8)."""


def depmod(node: Node, why: str) -> RunCommand:
    """Make the modules' index anew; its files are kept and put back."""
    kernel = release(node)
    return RunCommand(
        argv=("depmod", "-a", kernel),
        why=why,
        again=True,
        touches=(f"/{modules_dir(node)}/{INDEX_FILES}",),
        in_root=("depmod", "-b", "{root}", kernel),
    )


def to_sign(node: Node) -> tuple[str, ...]:
    """The modules that get one key: NVIDIA's, where nvidia-peermem lies, and what it needs that has none."""
    peermem = peermem_path(node)
    chosen: dict[str, None] = {}
    for path in (peermem, *_driver(node)):
        folder = posixpath.dirname(path)
        chosen.update({f"{folder}/{name}": None for name in _nvidia(node, folder)})
    for path in _needed(node, name_of(peermem)):
        if standing(node, path).state is not SignatureState.VERIFIED:
            chosen[path] = None
    return tuple(chosen)


def _driver(node: Node) -> tuple[str, ...]:
    return if_absent((), lambda: (driver_path(node),))


def _nvidia(node: Node, folder: str) -> Iterator[str]:
    for name in node.list(folder):
        if name.startswith("nvidia") and name.endswith((".ko", ".ko.xz", ".ko.zst", ".ko.gz")):
            yield name


def _needed(node: Node, name: str) -> Iterator[str]:
    for needed in if_absent((), dependencies, node, name):
        try:
            yield module_path(node, needed)
        except EvidenceAbsent:
            continue


def sign(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """A key, a signature on each module, the index, and the firmware's trust."""
    if not choices.key:
        yield MakeKey(
            key=choices.key_path,
            certificate=choices.certificate_path,
            why="a key of this machine's own, readable for root alone",
        )
    yield SignModules(
        paths=tuple(f"/{path}" for path in to_sign(node)),
        key=choices.key_path,
        certificate=choices.certificate_path,
        digest=choices.digest,
        why="one signer for all of them",
    )
    yield depmod(node, "packed modules changed their sizes")
    if choices.enrol:
        yield EnrolKey(certificate=choices.certificate_path, why="the firmware must trust the key")
    if if_missing(False, node.exists, _tool(platform)):
        yield platform.refresh_initramfs(release(node), "it may hold the unsigned modules")


def _tool(platform: Platform) -> str:
    return f"usr/sbin/{platform.initramfs[0]}" if platform.name == "debian" else "usr/bin/dracut"


def refresh_if_there(node: Node, platform: Platform, why: str) -> Iterator[Action]:
    """The initramfs anew, unless somebody looked and there is no tool for it."""
    try:
        if node.exists(_tool(platform)):
            yield platform.refresh_initramfs(release(node), why)
    except EvidenceMissing:
        yield platform.refresh_initramfs(release(node), why)


def allow(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Comments in place of the lines that keep nvidia-peermem from loading as its file says."""
    del platform, choices
    yield from silence(node, conflicting_config(node), "/etc/modprobe.d", "it keeps nvidia-peermem out")


def silence(node: Node, entries: Iterable[Directive], etc: str, why: str) -> Iterator[Action]:
    """Each file with those lines as comments; a vendor's file is hidden by one of its name in /etc."""
    by_file: dict[str, list[int]] = {}
    for entry in entries:
        by_file.setdefault(entry.file, []).append(entry.line)
    for file, lines in by_file.items():
        if file == "proc/cmdline":
            yield AskPerson(what="take the words about nvidia-peermem off the kernel's command line")
        else:
            yield without_lines(node, file, lines, etc, why)


def load(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """A line in modules-load.d, a unit that follows OFED's, and the module itself.

    What loads modules at boot obeys blacklists, modprobe by name does not: systemd, modules-load.c.
    """
    del platform, choices
    listed = [entry for entry in configuration(node).blacklist if entry.name == PEERMEM]
    yield from silence(node, listed, "/etc/modprobe.d", "systemd would not load it at boot")
    if not any(entry.name == PEERMEM for entry in autoload(node)):
        content = file_contents.modules_load(file_contents.PEERMEM_MODULE)
        yield WriteFile(path=file_contents.MODULES_LOAD, content=content, why="load it at each boot")
    if if_missing(False, node.exists, "etc/init.d/openibd"):
        yield WriteFile(
            path=file_contents.PEERMEM_UNIT,
            content=file_contents.peermem_unit(),
            why="OFED restarts without it",
        )
        yield WriteFile(
            path=file_contents.OPENIBD_DROP_IN,
            content=file_contents.openibd_drop_in(),
            why="OFED starts the unit",
        )
        yield RunCommand(argv=("systemctl", "daemon-reload"), why="systemd reads units", again=True,
                         never_executed=True)  # fmt: skip
    yield RunCommand(
        argv=("modprobe", file_contents.PEERMEM_MODULE),
        why="load it now",
        undo=()
        if if_missing(False, is_loaded, node, PEERMEM)
        else (("rmmod", PEERMEM),),  # -r would take the driver out, too
    )


def stop_loading(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """No line asks for nvidia-peermem any more; what is loaded stays until the next boot."""
    del platform, choices
    yield from _quiet(node, PEERMEM, "dma-buf needs no module")


def _quiet(node: Node, module: str, why: str) -> Iterator[Action]:
    by_file: dict[str, list[int]] = {}
    for entry in autoload(node):
        if entry.name == module:
            by_file.setdefault(entry.file, []).append(entry.line)
    for file, lines in by_file.items():
        yield without_lines(node, file, lines, "/etc/modules-load.d", why)


LEGACY_PACKAGES = ("nvidia-peer-memory", "nvidia-peer-memory-dkms", "nvidia_peer_memory",
                   "nvidia_peer_memory-dkms", "nv_peer_memory")  # fmt: skip
"""Names of nv_peer_mem's packages, deb and rpm: Mellanox/nv_peer_memory debian/control, the spec file."""
_SERVICE_FILES = ("etc/init.d/nv_peer_mem", "usr/lib/systemd/system/nv_peer_mem.service",
                  "lib/systemd/system/nv_peer_mem.service")  # fmt: skip


def remove_legacy(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """The service stops, the module goes, and what brought it: packages, or a file that nobody owns."""
    del choices
    if any(if_missing(False, node.exists, path) for path in _SERVICE_FILES):
        yield RunCommand(
            argv=("systemctl", "disable", "--now", "nv_peer_mem"),
            why="its service would load it again",
            undo=(("systemctl", "enable", "nv_peer_mem"),),
            never_executed=True,
        )
    yield from _quiet(node, LEGACY, "nvidia-peermem takes its place")
    if if_missing(False, is_loaded, node, LEGACY):
        yield RunCommand(argv=("rmmod", LEGACY), why="it holds the name nv_mem",
                         undo=(("modprobe", LEGACY),))  # fmt: skip
    packages = _legacy_packages(node)
    if packages:
        again = tuple(platform.with_version.format(name=n, version=v) for n, v in packages.items())
        yield RunCommand(
            argv=(*platform.remove, *packages),
            why="its packages",
            undo=((*platform.install, *again),),
            never_executed=True,
        )
    elif path := _legacy_file(node):
        yield RemoveFile(path=f"/{path}", why="no package owns it")
        yield depmod(node, "the index names it")


def _legacy_packages(node: Node) -> dict[str, str]:
    known = if_missing({}, installed, node)
    return {name: known[name].version for name in LEGACY_PACKAGES if name in known}


def _legacy_file(node: Node) -> str:
    return if_missing("", module_path, node, LEGACY)
