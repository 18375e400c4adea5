"""The messages of the kernel when a module taints it, depending on earlier taints.

Source: Linux kernel/module/main.c, check_modinfo() and, since 6.4, module_augment_kernel_taints();
kernel/panic.c, add_taint(). Bits: Documentation/admin-guide/tainted-kernels.rst.
"""

from __future__ import annotations

from gdrkit.facts.kernel import architecture, config_option, tainted, version
from gdrkit.facts.linkage import gpl_compatible
from gdrkit.facts.modules import information, loaded, module_path
from gdrkit.messages import kernel
from gdrkit.node import Node, first_of, if_missing, likely

PROPRIETARY, FORCED, STAGING, OUT_OF_TREE, UNSIGNED, LIVEPATCH, TEST = 0, 1, 10, 12, 13, 15, 18
# Taints that disable lock debugging, logged for the first of them: LOCKDEP_NOW_UNRELIABLE in the kernel's
# sources (proprietary and forced modules, forced unloading, machine checks, bad pages, oopses, ACPI tables).
_END_LOCK_DEBUGGING = (0, 1, 3, 4, 5, 7, 8)
AUGMENTS = 6, 4  # since then, a module taints after its name was taken, with a second line on its license


# Letters after a module in /proc/modules, for the bits used here: kernel/panic.c, taint_flags.
_LETTERS = {
    "P": PROPRIETARY,
    "F": FORCED,
    "C": STAGING,
    "O": OUT_OF_TREE,
    "E": UNSIGNED,
    "K": LIVEPATCH,
    "N": TEST,
}


def mask_of(node: Node) -> int:
    """The kernel's taints as a bit mask; if that was not read, those of the loaded modules."""

    def the_loaded_modules() -> int:
        letters = {letter for module in loaded(node).values() for letter in module.taint}
        return sum(1 << _LETTERS[letter] for letter in letters & _LETTERS.keys())

    def a_fresh_boot() -> int:
        return 0

    return first_of(lambda: tainted(node), likely(node, the_loaded_modules), likely(node, a_fresh_boot))


class Taints:
    """The kernel's taints while modules are loaded one after another."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.mask = mask_of(node)
        self.log: list[str] = []
        self._licensed_before = False  # before the module that is loaded now

    def has(self, bit: int) -> bool:
        return bool(self.mask >> bit & 1)

    def _set(self, bit: int) -> None:
        if bit in _END_LOCK_DEBUGGING and not any(self.has(other) for other in _END_LOCK_DEBUGGING):
            self.log.append(kernel.NO_LOCK_DEBUGGING.say())
        self.mask |= 1 << bit

    def force(self, module: str, what: str) -> None:
        """A check that the kernel skips, with a taint: try_to_force_load()."""
        if not self.has(FORCED):
            self.log.append(kernel.FORCED.say(module=module, what=what))
        self._set(FORCED)

    def add(self, name: str, module: str) -> None:
        """Add the taints of a module's own information. `name` is the file's, `module` the kernel's."""
        info = information(self.node, module_path(self.node, name))
        self._licensed_before = self.has(PROPRIETARY)
        if not info.intree:
            self._once(OUT_OF_TREE, kernel.OUT_OF_TREE.say(module=module))
        if not info.retpoline and self._retpolines_matter():
            self.log += (kernel.SPECTRE.say(), kernel.NO_RETPOLINE.say(module=module))
        if info.staging:
            self._set(STAGING)
            self.log.append(kernel.STAGING.say(module=module))
        if info.livepatch:
            self._once(LIVEPATCH, kernel.LIVEPATCH.say(module=module))
        if not gpl_compatible(info.license):
            line = kernel.LICENSE.say(module=module, license=info.license or "unspecified")
            self._once(PROPRIETARY, line)
        if info.test:
            self._once(TEST, kernel.TEST_MODULE.say(module=module))

    def add_in_list(self, module: str, verified: bool | None) -> None:
        """Add the taint of a module that enters the kernel's list and whose signature was not verified;
        None: the kernel does not check signatures."""
        if verified is False:
            self._once(UNSIGNED, kernel.UNVERIFIED.say(module=module))
        if self.has(PROPRIETARY) and not self._licensed_before and version(self.node) >= AUGMENTS:
            self.log.append(kernel.LICENSE_TAINTS.say(module=module))

    def _once(self, bit: int, line: str) -> None:
        if not self.has(bit):
            self.log.append(line)
        self._set(bit)

    def _retpolines_matter(self) -> bool:
        """retpoline_module_ok(), arch/x86/kernel/cpu/bugs.c: whether the processor needs a mitigation."""
        node = self.node
        if architecture(node) != "x86_64" or "y" not in (
            config_option(node, "CONFIG_RETPOLINE"),
            config_option(node, "CONFIG_MITIGATION_RETPOLINE"),
        ):
            return False
        return if_missing(
            False,
            lambda: node.text("sys/devices/system/cpu/vulnerabilities/spectre_v2").startswith("Mitigation:"),
        )
