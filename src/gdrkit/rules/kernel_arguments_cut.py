"""Kernel arguments that GRUB cuts off."""

from __future__ import annotations

from gdrkit.facts.boot_loader import (
    GRUB_DEFAULTS,
    OWN_DROP_IN,
    ArgumentLine,
    grub_arguments,
    is_systemd_boot,
)
from gdrkit.facts.kernel import command_line, split_command_line
from gdrkit.node import Node, if_missing
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.rule import Failed, Layer, NotApplicable, Outcome, Passed, Status, rule, the_node

_SHOWN_CHARACTERS = 120


@rule(
    "kernel-arguments-cut",
    Layer.KERNEL,
    per=the_node,
    default_status=Status.WARNING,
    whole_machine=True,
    reported_by=(
        DecidingCommand(
            "grep -r GRUB_CMDLINE_LINUX /etc/default/grub /etc/default/grub.d",
            "a `;` that no quotation marks enclose beside those of the whole value",
        ),
    ),
    cost="The kernel starts without the arguments behind the `;`, whatever they are for.",
    references=("https://www.gnu.org/software/grub/manual/grub/html_node/Shell_002dlike-scripting.html",),
)
def kernel_arguments_cut(node: Node, _: str) -> Outcome:
    """A bare `;` in GRUB's configuration ends the kernel's command line: the arguments after it are lost.

    Cost: `pci=disable_acs_redir=` and `pci=config_acs=` separate devices by `;`. Written without quotation
    marks, only the first device is configured, and every later argument is missing too: `console=`,
    `crashkernel=`, `iommu=pt`.

    How to tell: `cat /proc/cmdline` ends where the file has the `;`, and GRUB says `can't find command`
    while it boots. `grep ';' /boot/grub*/grub.cfg` shows it on a line that begins with `linux`. A word that
    begins with `#` has the same effect.

    What to do: If `gdr fix` wrote it (its file is /etc/default/grub.d/90-gdrkit-acs.cfg), run
    `sudo gdr fix --undo` and then the step again. Otherwise put quotation marks around the value that GRUB
    still sees: `GRUB_CMDLINE_LINUX_DEFAULT="quiet pci='disable_acs_redir=A;B'"`. Then run
    `sudo update-grub`, or change the entries with `sudo grubby`, and reboot.

    Why: The shell removes the outer quotation marks, grub-mkconfig writes the rest to grub.cfg as it is, and
    a bare `;` separates commands there. So do the options of boot loader entries, which GRUB turns into a
    script. systemd-boot hands them on as they are written.

    Source: GRUB manual 2.06, Shell-like scripting; /etc/grub.d/10_linux; rhboot/grub2
    grub-core/commands/blscfg.c; systemd-boot(7).
    """
    lines = grub_arguments(node)
    if not lines:
        return NotApplicable("no configuration of GRUB")
    cut = next((line for line in lines if line.lost), None)
    if cut is None:
        return Passed("no bare ; in the kernel arguments")
    if node.exists(GRUB_DEFAULTS):  # the sign of GRUB, unless the loader itself says otherwise
        other_loader = if_missing(False, is_systemd_boot, node)
    else:
        other_loader = is_systemd_boot(node)
    if other_loader:
        return NotApplicable("systemd-boot does not split its options at ;")
    node.cite(cut.file, text=cut.text, line=cut.line)
    ours = cut.file.startswith(OWN_DROP_IN)
    return Failed(
        seen=f"cut off: {cut.lost[:_SHOWN_CHARACTERS]}{_running(node, cut)}",
        expected="quotation marks around a value with ;",
        subject=f"/{cut.file}",
        advice="Run `sudo gdr fix --undo`, then the step again." if ours else "",
    )


def _running(node: Node, cut: ArgumentLine) -> str:
    """Whether the running kernel started without them; "" if its command line does not show it."""
    words = if_missing((), command_line, node)
    kept, lost = split_command_line(cut.kept), split_command_line(cut.lost)[1:]
    without = [word for word in lost if word not in words]
    if not kept or kept[-1] not in words or len(without) < len(lost):
        return ""
    return "; the running kernel started without them"
