"""The rules about who may load modules at all, and about modules that are shut out by name."""

from __future__ import annotations

from gdrkit.facts.kernel import modules_disabled
from gdrkit.facts.modprobe_config import configuration
from gdrkit.facts.module_state import boot_blacklist, kernel_name
from gdrkit.node import Node
from gdrkit.rules.deciding_command import DMESG, DecidingCommand
from gdrkit.rules.module_subjects import in_kernel_already, peermem_module
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import ADDRESS, Failed, Layer, Outcome, Passed, Status, rule
from gdrkit.rules.stage import LoadPosition, Stage


@rule(
    "modules-disabled",
    Layer.KERNEL,
    per=peermem_module,
    takes=(ADDRESS,),
    loading=LoadPosition(Stage.PERMISSION, 1),
    reported_by=(DecidingCommand("cat /proc/sys/kernel/modules_disabled", "1"),),
    cost="no module can be loaded or unloaded until the next boot",
    references=("https://docs.kernel.org/admin-guide/sysctl/kernel.html#modules-disabled",),
)
def modules_are_disabled(node: Node, module: str) -> Outcome:
    """The kernel was told to load no more modules until the next boot.

    Cost: Whatever was not loaded by then stays out. It cannot be undone without a reboot.

    How to tell: modprobe says "Operation not permitted", the kernel's log nothing.
    /proc/sys/kernel/modules_disabled is 1.

    What to do: Load the module before that point (modules-load.d), or take the setting away and reboot.

    Why: A hardening script or a sysctl file set kernel.modules_disabled after boot, or the kernel
    was started with `nomodule`.

    Source: Linux kernel/module/main.c, may_init_module().
    """
    if (outside := in_kernel_already(node, module)) is not None:
        return outside
    if not modules_disabled(node):
        return Passed("kernel.modules_disabled is 0")
    return Failed(seen="kernel.modules_disabled is 1", expected="0", subject=module)


@rule(
    "module-blacklisted",
    Layer.KERNEL,
    per=peermem_module,
    takes=(ADDRESS,),
    default_status=Status.WARNING,
    loading=LoadPosition(Stage.BLACKLIST, 1),
    reported_by=(DecidingCommand(DMESG, "`Module {module} is blacklisted`"),),
    remedies=(RemedyName.ALLOW_MODULE,),
    cost="the module is not loaded at boot",
    references=("man:modprobe.d(5)", "https://docs.kernel.org/admin-guide/kernel-parameters.html"),
)
def module_blacklisted(node: Node, module: str) -> Outcome:
    """The module is shut out by name, by the kernel or by modprobe's configuration.

    Cost: By the kernel's list the module cannot be loaded; by modprobe's it is missing after each
    boot until somebody loads it by hand.

    How to tell: With `module_blacklist=` on the kernel's command line, modprobe says "Operation not
    permitted" and the kernel's log "Module ... is blacklisted". A `blacklist` line in modprobe.d, or
    `modprobe.blacklist=` on the command line, is seen only by its effect: nothing loads the module at boot.

    What to do: Take the name off the list. The kernel's needs a reboot.

    Why: Somebody wanted it out, often long ago. The two lists are not the same: the kernel's
    refuses every attempt; modprobe's only keeps aliases, udev and systemd from loading the module, while a
    plain `modprobe nvidia_peermem` loads it all the same.

    Source: Linux kernel/module/main.c, blacklisted(); kmod libkmod-module.c, module_is_blacklisted().
    """
    if (outside := in_kernel_already(node, module)) is not None:
        return outside
    shut_out = boot_blacklist(node)
    if shut_out and kernel_name(node, module) in shut_out:
        return Failed(
            seen=f"module_blacklist={','.join(shut_out)}",
            expected=f"a kernel command line without {module} in it",
            subject=module,
        )
    entry = configuration(node).blacklisted(module)
    if entry is None:
        return Passed("on no blacklist")
    node.cite(entry.file, text=f"blacklist {entry.name}", line=entry.line)
    return Failed(
        seen=f"blacklist {entry.name} in /{entry.file}, line {entry.line}",
        expected="no such line, for a module that is to be loaded at boot",
        subject=module,
        takes=(),
    )
