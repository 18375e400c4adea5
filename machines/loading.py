"""What `modprobe nvidia-peermem` does on a machine: the steps of kmod and of the kernel, one after another.

Sources: kmod libkmod/libkmod-module.c; Linux kernel/module/{main,signing,version}.c; nvidia-peermem.c
from 515 to 595; the order of the checks was measured on Debian's kernels 6.1 and 6.12."""

from __future__ import annotations

from typing import NamedTuple

from machines import stacks
from machines.install import files, running
from machines.machine import Machine
from machines.stacks import Module

REJECTED = "Key was rejected by service"
NO_KEY = "Required key not available"  # before Linux 5.4, as in RHEL 8: Atoptool/atop issue 177
NOT_PERMITTED = "Operation not permitted"
EXEC = "Exec format error"
INVALID = "Invalid argument"
UNKNOWN_SYMBOL = "Unknown symbol in module, or unknown parameter (see dmesg)"
NO_DEVICE = "No such device"
NOT_FOUND = "not found in directory"


class Loading(NamedTuple):
    """The outcome: the codes of its cause, modprobe's words, and whether the module is loaded afterwards."""

    error: str = ""  # the words of modprobe; "" if it succeeds
    causes: frozenset[str] = frozenset()
    loaded: bool = True
    module: str = "nvidia_peermem"  # which one fails
    unsure: bool = False  # an init function decides that no evidence shows


def modprobe(machine: Machine, name: str = "nvidia_peermem") -> Loading:
    """What modprobe prints for a module."""
    on_disk = _winners(machine)
    loaded = {module.name: module for module in running(machine)}
    if name in loaded:
        return Loading()
    override = _override(machine, name)
    if override is not None and name not in on_disk:  # else modprobe loads what it needs first
        return override
    if name not in on_disk:
        return Loading(NOT_FOUND, frozenset({"module-not-found"}), False, name)
    unsure = False
    for need in _closure(on_disk, name):
        if need in loaded:
            continue
        override = _override(machine, need)
        step = override or insert(machine, on_disk[need], {**loaded})
        unsure |= need != name  # what its init function returns is in no file
        if step.error or not step.loaded:
            if need != name:
                step = step._replace(causes=step.causes | {"dependency-failed"})
            return step._replace(unsure=step.unsure or (unsure and not step.error))
        loaded[need] = on_disk[need]
    return Loading(unsure=unsure)


def alone(machine: Machine) -> Loading:
    """What stops nvidia-peermem itself, once everything that it needs is loaded."""
    on_disk = _winners(machine)
    if machine.driver and machine.driver.root and machine.driver.on_disk:  # the operator's container has it
        on_disk |= {module.name: module for module in stacks.nvidia_stack(machine)}
    if "nvidia_peermem" not in on_disk:
        return Loading(NOT_FOUND, frozenset({"module-not-found"}), False)
    override = _override(machine, "nvidia_peermem")
    present = {**on_disk, **{module.name: module for module in running(machine)}}
    if "nvidia" in present:  # its exports are its own, whatever took them before
        present["nvidia"] = present.pop("nvidia")
    return override or insert(machine, on_disk["nvidia_peermem"], present)


def insert(machine: Machine, module: Module, loaded: dict[str, Module]) -> Loading:
    """What the kernel answers to finit_module()."""

    def fails(error: str, *codes: str) -> Loading:
        return Loading(error, frozenset(codes), False, module.name)

    if machine.modules_disabled:
        return fails(NOT_PERMITTED, "modules-disabled")
    if module.damage == "empty":
        # a compressed file is passed as memory, and that of no bytes has no header
        return fails(EXEC if machine.distribution.compress else INVALID, "module-corrupt")
    if refused := signature(machine, module):
        return fails(*refused)
    if module.damage in ("truncated", "foreign"):
        return fails(EXEC, "module-corrupt")
    if module.name in machine.module_blacklist:
        return fails(NOT_PERMITTED, "module-blacklisted")
    if module.flags:
        return fails(EXEC, "module-wrong-kernel")
    if unresolved := symbols(machine, module, loaded):
        return fails(*unresolved)
    for line in machine.modprobe_d:
        if line.startswith(f"options {module.name.replace('_', '-')} ") and "=yes" in line:
            return fails(INVALID, "module-bad-parameter")
    if module.name == "nvidia" and not any(gpu.bound in ("nvidia", "") for gpu in machine.gpus):
        return fails(NO_DEVICE, "no-gpu", "init-failed", "driver-not-loaded")._replace(unsure=True)
    if module.name == "nvidia_peermem":
        return _init(machine, module)
    return Loading(module=module.name)


def signature(machine: Machine, module: Module) -> tuple[str, ...] | None:
    """The words and the code of a refused signature; None if it passes."""
    trust = machine.trust
    has_trailer = module.signer and module.damage != "truncated"
    if has_trailer and module.signer in trust.revoked:
        return REJECTED, "module-key-revoked"
    trusted = trust.trusts(module.signer, machine.builtin) if module.signer else False
    if has_trailer and trusted and module.damage == "altered":
        return REJECTED, "module-signature-broken"
    if has_trailer and trusted:
        return None
    code = "module-unknown-key" if has_trailer else "module-unsigned"
    if trust.sig_enforce:
        return REJECTED if machine.kernel.number >= (5, 4) else NO_KEY, code
    if trust.lockdown != "none":
        return NOT_PERMITTED, "lockdown-blocks-module"
    return None


def symbols(machine: Machine, module: Module, loaded: dict[str, Module]) -> tuple[str, ...] | None:
    """The words and codes of symbols that do not resolve; the last one decides what modprobe prints."""
    kernel = {export.name: export for export in stacks.vmlinux(machine.kernel)}
    owners = {name: other for other in loaded.values() for name in other.exports}
    error, codes = "", set()
    for symbol, _, tag in module.imports:
        export = kernel.get(symbol)
        if export is not None:
            gpl = module.license in ("GPL", "Dual BSD/GPL", "Dual MIT/GPL")
            if export.gpl_only and not gpl:
                error = UNKNOWN_SYMBOL
                codes.add("module-symbol-gpl-only")
            elif export.namespace and export.namespace not in module.namespaces:
                error = INVALID
                codes.add("module-symbol-namespace")
        elif symbol not in owners:
            error = UNKNOWN_SYMBOL
            codes.add("module-symbol-missing")
        elif owners[symbol].tag != tag:
            error = INVALID
            codes.add("module-crc-mismatch")
    if not error and any(name in owners for name in module.exports):
        return EXEC, "module-symbol-duplicate"
    return (error, *sorted(codes)) if error else None


def _init(machine: Machine, module: Module) -> Loading:
    driver, full = machine.driver, machine.peermem.kind == "full"
    assert driver
    options = " ".join(line for line in machine.modprobe_d if line.startswith("options nvidia-peermem "))
    checks = full or driver.branch < 560  # nv_mem_param_conf_check() is inside the #if from 560 on
    names = ["peerdirect_support"] + (["persistent_api_support"] if driver.branch >= 560 else [])
    if checks and any(f"{name}=5" in options for name in names):
        return Loading(
            INVALID, frozenset({"module-bad-parameter"} | ({"peermem-stub"} if not full else set())), False
        )
    if not full:
        return Loading(INVALID, frozenset({"peermem-stub"}), False)
    if machine.legacy_client == "loaded" and machine.client_folders:  # else no one compares the names
        return Loading(INVALID, frozenset({"peermem-registration-refused", "legacy-nv-peer-mem"}), False)
    return Loading()


def _override(machine: Machine, name: str) -> Loading | None:
    for line in machine.modprobe_d:
        words = line.split()
        if words[:2] == ["install", name.replace("_", "-")] or words[:2] == ["install", name]:
            if words[2].endswith("false"):
                return Loading(INVALID, frozenset({"install-override"}), False, name)
            return Loading("", frozenset({"install-override"}), False, name)
    return None


def _winners(machine: Machine) -> dict[str, Module]:
    """The copy of each module that depmod prefers."""
    order = ["kernel" if word == "built-in" else word for word in machine.distribution.search.split()]

    def rank(module: Module) -> int:
        top = module.folder.split("/")[0]
        return order.index(top) if top in order else len(order)

    winners: dict[str, Module] = {}
    for module in sorted(files(machine), key=rank):
        winners.setdefault(module.name, module)
    return winners


def _closure(on_disk: dict[str, Module], name: str) -> list[str]:
    """A module after everything that it needs, by the exports of the files on disk."""
    order: list[str] = []

    def visit(current: str) -> None:
        if current in order:
            return
        readable = on_disk[current].damage not in ("truncated", "empty")
        for symbol, _, _ in on_disk[current].imports if readable else ():
            for owner in on_disk.values():
                if (
                    symbol in owner.exports
                    and owner.name != current
                    and owner.damage not in ("truncated", "empty")
                ):
                    visit(owner.name)
        if current not in order:
            order.append(current)

    visit(name)
    return order
