"""Steps for loading modules: signing, modprobe.d, modules-load.d, removing nv_peer_mem."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator

from gdrkit.evidence import EvidenceMissing
from gdrkit.facts.driver_files import DRIVER, driver_path, peermem_path
from gdrkit.facts.kernel import release
from gdrkit.facts.modprobe_config import Directive, autoload, configuration
from gdrkit.facts.module_arguments import split_arguments
from gdrkit.facts.module_index import module_path, modules_dir, name_of
from gdrkit.facts.modules import PEERMEM, dependencies
from gdrkit.facts.packages import installed
from gdrkit.facts.peer_memory import LEGACY
from gdrkit.facts.running_files import OPENIBD, is_loaded_for_sure
from gdrkit.facts.trust import SignatureState, signature_check
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
from gdrkit.repair.platforms.driver_options import arguments
from gdrkit.repair.platforms.edits import without_lines
from gdrkit.repair.platforms.platform import Platform
from gdrkit.rules.remedy_names import RemedyName

INDEX_FILES = "modules.[a-z]*"
"""Files that depmod writes, or that the kernel's package installs beside them: depmod(8)."""


def depmod(node: Node, why: str) -> RunCommand:
    """Rebuild the index of modules. Undo restores its files."""
    kernel = release(node)
    return RunCommand(
        argv=("depmod", "-a", kernel),
        why=why,
        again=True,
        touches=(f"/{modules_dir(node)}/{INDEX_FILES}",),
        in_root=("depmod", "-b", "{root}", kernel),
    )


def to_sign(node: Node) -> tuple[str, ...]:
    """Paths of the modules to sign: NVIDIA's, and dependencies of nvidia-peermem that are not trusted."""
    peermem = peermem_path(node)
    chosen: dict[str, None] = {}
    for path in (peermem, *_driver(node)):
        folder = posixpath.dirname(path)
        chosen.update({f"{folder}/{name}": None for name in _nvidia(node, folder)})
    for path in _needed(node, name_of(peermem)):
        if signature_check(node, path).state is not SignatureState.VERIFIED:
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
        if path := if_absent("", module_path, node, needed):
            yield path


def sign(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Create a key, sign the modules, rebuild the index, and enrol the key."""
    if not choices.key:
        yield MakeKey(
            key=choices.key_path,
            certificate=choices.certificate_path,
            why="this machine's own key, readable only by root",
        )
    yield SignModules(
        paths=tuple(f"/{path}" for path in to_sign(node)),
        key=choices.key_path,
        certificate=choices.certificate_path,
        digest=choices.digest,
        why="all modules get the same signer",
    )
    yield depmod(node, "the sizes of the modules changed")
    if choices.enrol:
        yield EnrolKey(certificate=choices.certificate_path, why="the firmware must trust the key")
    if if_missing(False, node.exists, _tool(platform)):
        yield platform.refresh_initramfs(release(node), "it may contain the unsigned modules")


def _tool(platform: Platform) -> str:
    return f"usr/sbin/{platform.initramfs[0]}" if platform.name == "debian" else "usr/bin/dracut"


def refresh_if_there(node: Node, platform: Platform, why: str) -> Iterator[Action]:
    """Rebuild the initramfs, unless the evidence shows that the tool for it is absent."""
    try:
        if node.exists(_tool(platform)):
            yield platform.refresh_initramfs(release(node), why)
    except EvidenceMissing:
        yield platform.refresh_initramfs(release(node), why)


def set_options(
    remedy: RemedyName, why: str
) -> Callable[[Node, Platform, ProcedureChoices], Iterator[Action]]:
    """The procedure of a remedy that sets options. Of several files the last by name decides, and the
    kernel's command line after all of them: kmod, libkmod-config.c."""

    def procedure(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
        del choices
        options = arguments(node, remedy)
        yield WriteFile(
            path=f"/etc/modprobe.d/zz-gdrkit-{remedy}.conf",
            content=file_contents.modprobe_options(DRIVER, options),
            why=why,
        )
        lines = if_missing((), lambda: configuration(node).options_of(DRIVER))
        for line in lines:
            names = {word.name for word in split_arguments(line.value)}
            if line.file == "proc/cmdline" and names & options.keys():
                yield AskPerson(what=f"remove {DRIVER}.{line.value} from the kernel's command line")
        yield from refresh_if_there(node, platform, "it may contain the driver and its options")

    return procedure


def allow(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Comment out the lines of modprobe.d that keep nvidia-peermem from loading."""
    del platform, choices
    yield from comment_out(
        node, conflicting_config(node), "/etc/modprobe.d", "comment out what blocks nvidia-peermem"
    )


def comment_out(node: Node, entries: Iterable[Directive], etc: str, why: str) -> Iterator[Action]:
    """Comment out these lines. A file outside /etc is overridden by one of the same name in `etc`."""
    by_file: dict[str, list[int]] = {}
    for entry in entries:
        by_file.setdefault(entry.file, []).append(entry.line)
    for file, lines in by_file.items():
        if file == "proc/cmdline":
            yield AskPerson(what="remove the arguments for nvidia-peermem from the kernel's command line")
        else:
            yield without_lines(node, file, lines, etc, why)


def off_the_blacklist(node: Node) -> Iterator[Action]:
    """Let systemd load nvidia-peermem at boot.

    systemd-modules-load obeys blacklists, modprobe by name does not: systemd, modules-load.c.
    """
    blacklisted = [entry for entry in configuration(node).blacklist if entry.name == PEERMEM]
    yield from comment_out(
        node, blacklisted, "/etc/modprobe.d", "comment out the blacklist, which systemd obeys at boot"
    )


def load(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Load nvidia-peermem at boot (modules-load.d, and a unit beside OFED's), and now."""
    del platform, choices
    yield from off_the_blacklist(node)
    if not any(entry.name == PEERMEM for entry in autoload(node)):
        content = file_contents.modules_load(file_contents.PEERMEM_MODULE)
        yield WriteFile(path=file_contents.MODULES_LOAD, content=content, why="load it at each boot")
    if if_missing(False, node.exists, OPENIBD):
        yield WriteFile(
            path=file_contents.PEERMEM_UNIT,
            content=file_contents.peermem_unit(),
            why="unload it while OFED restarts",
        )
        yield WriteFile(
            path=file_contents.OPENIBD_DROP_IN,
            content=file_contents.openibd_drop_in(),
            why="start the unit with OFED",
        )
        yield RunCommand(argv=("systemctl", "daemon-reload"), why="make systemd read the units", again=True,
                         never_executed=True)  # fmt: skip
    yield RunCommand(
        argv=("modprobe", file_contents.PEERMEM_MODULE),
        why="load it now",
        undo=()
        if is_loaded_for_sure(node, PEERMEM)
        else (("rmmod", PEERMEM),),  # -r would also unload the driver
    )


def stop_loading(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Stop loading nvidia-peermem at boot, and unload it, unless a program uses it."""
    del platform, choices
    yield from _comment_out_autoload(node, PEERMEM, "do not load it at boot: dma-buf does not need it")
    for path in (file_contents.OPENIBD_DROP_IN, file_contents.PEERMEM_UNIT):
        if if_missing(False, node.exists, path.lstrip("/")):
            yield RemoveFile(path=path, why="it loads nvidia-peermem with OFED")
    if is_loaded_for_sure(node, PEERMEM):
        yield RunCommand(
            argv=("rmmod", PEERMEM),
            why="unload it now; if a program uses it, it stays until the next boot",
            undo=(("modprobe", file_contents.PEERMEM_MODULE),),
            may_fail=True,
        )


def _comment_out_autoload(node: Node, module: str, why: str) -> Iterator[Action]:
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
    """Disable the service, unload the module, and remove its packages, or its file if no package owns it."""
    del choices
    if any(if_missing(False, node.exists, path) for path in _SERVICE_FILES):
        yield RunCommand(
            argv=("systemctl", "disable", "--now", "nv_peer_mem"),
            why="this service would load it again",
            undo=(("systemctl", "enable", "nv_peer_mem"),),
            never_executed=True,
        )
    yield from _comment_out_autoload(node, LEGACY, "do not load it at boot: nvidia-peermem replaces it")
    if is_loaded_for_sure(node, LEGACY):
        yield RunCommand(argv=("rmmod", LEGACY), why="it occupies the name nv_mem",
                         undo=(("modprobe", LEGACY),))  # fmt: skip
    packages = _legacy_packages(node)
    if packages:
        again = tuple(platform.with_version.format(name=n, version=v) for n, v in packages.items())
        yield RunCommand(
            argv=(*platform.remove, *packages),
            why="remove its packages",
            undo=((*platform.install, *again),),
            never_executed=True,
        )
    elif path := _legacy_file(node):
        yield RemoveFile(path=f"/{path}", why="no package owns it")
        yield depmod(node, "remove it from the index of modules")


def _legacy_packages(node: Node) -> dict[str, str]:
    known = if_missing({}, installed, node)
    return {name: known[name].version for name in LEGACY_PACKAGES if name in known}


def _legacy_file(node: Node) -> str:
    return if_missing("", module_path, node, LEGACY)
