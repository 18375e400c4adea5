"""The rules about whether modules may be loaded at all, and about blacklisted modules."""

from __future__ import annotations

from gdrkit.facts.kernel import modules_disabled
from gdrkit.facts.modprobe_config import configuration
from gdrkit.facts.module_state import boot_blacklist, kernel_name
from gdrkit.node import Node
from gdrkit.rules.deciding_command import DMESG, DecidingCommand
from gdrkit.rules.module_subjects import lost_without, modules_to_load, not_applicable_if_loaded
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import Failed, Layer, Outcome, Passed, Status, rule
from gdrkit.rules.stage import LoadPosition, Stage


@rule(
    "modules-disabled",
    Layer.KERNEL,
    per=modules_to_load,
    takes=lost_without,
    loading=LoadPosition(Stage.PERMISSION, 1),
    reported_by=(DecidingCommand("cat /proc/sys/kernel/modules_disabled", "1"),),
    cost="No module can be loaded or unloaded until the next boot.",
    references=("https://docs.kernel.org/admin-guide/sysctl/kernel.html#modules-disabled",),
)
def modules_are_disabled(node: Node, module: str) -> Outcome:
    """The kernel is set to load no more modules until the next boot.

    Cost: A module that is not loaded yet stays out. Only a reboot undoes this.

    How to tell: `cat /proc/sys/kernel/modules_disabled` prints 1. modprobe says "Operation not permitted",
    and the kernel's log has no line about it.

    What to do: Load the module before the setting is made (list it in /etc/modules-load.d), or remove the
    setting. Then reboot.

    Why: A hardening script or a sysctl file set kernel.modules_disabled after boot, or the kernel was
    started with `nomodule`.

    Source: Linux kernel/module/main.c, may_init_module().
    """
    if (not_applicable := not_applicable_if_loaded(node, module)) is not None:
        return not_applicable
    if not modules_disabled(node):
        return Passed("kernel.modules_disabled is 0")
    return Failed(seen="kernel.modules_disabled is 1", expected="0", subject=module)


@rule(
    "module-blacklisted",
    Layer.KERNEL,
    per=modules_to_load,
    takes=lost_without,
    default_status=Status.WARNING,
    loading=LoadPosition(Stage.BLACKLIST, 1),
    reported_by=(DecidingCommand(DMESG, "`Module {module} is blacklisted`"),),
    remedies=(RemedyName.ALLOW_MODULE,),
    cost="The module is not loaded at boot.",
    references=("man:modprobe.d(5)", "https://docs.kernel.org/admin-guide/kernel-parameters.html"),
)
def module_blacklisted(node: Node, module: str) -> Outcome:
    """The module is blacklisted by name, in the kernel or in modprobe's configuration.

    Cost: On the kernel's list, the module cannot be loaded. On modprobe's list, it is missing after each
    boot until it is loaded by hand.

    How to tell: With `module_blacklist=` on the kernel command line (`cat /proc/cmdline`), modprobe says
    "Operation not permitted", and the kernel's log says "Module ... is blacklisted". A `blacklist` line in
    modprobe.d (`modprobe -c | grep blacklist`) or `modprobe.blacklist=` on the kernel command line causes
    no message: the module is just not loaded at boot.

    What to do: Remove the name from the list. For the kernel's list, reboot.

    Why: The module was shut out on purpose, often long ago. The two lists differ: the kernel's refuses
    every attempt; modprobe's only keeps aliases, udev and systemd from loading the module, and a plain
    `modprobe <module>` still loads it.

    Source: Linux kernel/module/main.c, blacklisted(); kmod libkmod-module.c, module_is_blacklisted().
    """
    return not_applicable_if_loaded(node, module) or on_a_blacklist(node, module)


def on_a_blacklist(node: Node, module: str) -> Failed | Passed:
    """Whether a list names a module, which may be loaded now. One of modprobe takes nothing away: what loads
    the module by its name still does."""
    shut_out = boot_blacklist(node)
    if shut_out and kernel_name(node, module) in shut_out:
        return Failed(
            seen=f"module_blacklist={','.join(shut_out)}",
            expected=f"a kernel command line that does not blacklist {module}",
            subject=module,
        )
    entry = configuration(node).blacklisted(module)
    if entry is None:
        return Passed("on no blacklist")
    node.cite(entry.file, text=f"blacklist {entry.name}", line=entry.line)
    return Failed(
        seen=f"blacklist {entry.name} in /{entry.file}, line {entry.line}",
        expected="no such line for a module to be loaded at boot",
        subject=module,
        advice=f"Remove line {entry.line} of /{entry.file}.",
        takes=(),
    )
