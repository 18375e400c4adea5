"""The rules about modprobe's configuration of a module and about its parameters."""

from __future__ import annotations

import shlex

from gdrkit.evidence import Confidence, EvidenceMissing, Missing, MissingReason
from gdrkit.facts.install_command import Effect, effect
from gdrkit.facts.modprobe_config import configuration
from gdrkit.facts.module_arguments import reading
from gdrkit.facts.module_files import is_supported
from gdrkit.facts.module_index import module_path
from gdrkit.facts.module_init import refused_argument
from gdrkit.facts.suse_modules import refusing_unsupported
from gdrkit.node import Node
from gdrkit.rules.deciding_command import DMESG, DecidingCommand
from gdrkit.rules.module_subjects import lost_without, modules_to_load, not_applicable_if_loaded
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import Failed, Layer, Outcome, Passed, rule
from gdrkit.rules.stage import LoadPosition, Stage


@rule(
    "install-override",
    Layer.KERNEL,
    per=modules_to_load,
    takes=lost_without,
    loading=LoadPosition(Stage.MODPROBE, 2),
    reported_by=(DecidingCommand("modprobe --show-depends {module}", "a line that begins with `install`"),),
    remedies=(RemedyName.ALLOW_MODULE,),
    cost="modprobe runs a command and does not load the module.",
    references=("man:modprobe.d(5)",),
)
def install_override(node: Node, module: str) -> Outcome:
    """An install line in modprobe's configuration keeps the module from being loaded.

    Cost: The module is never loaded through modprobe.

    How to tell: `modprobe --show-depends <module>` prints a line that begins with `install`. With
    `install ... /bin/false`, modprobe says "Error running install command" and then "Invalid argument".
    With `/bin/true`, it prints nothing and exits 0, but loads nothing.

    What to do: Remove the line that `gdr doctor` names from modprobe.d. Until then,
    `sudo modprobe --ignore-install <module>` loads the module once.

    Why: It is the strong form of a blacklist, used by hardening guides. Distributions use the same kind of
    line to load a renamed module in place of another; that does no harm.

    Source: kmod libkmod-module.c, kmod_module_probe_insert_module(), command_do().
    """
    return not_applicable_if_loaded(node, module) or install_line(node, module)


def install_line(node: Node, module: str) -> Failed | Passed:
    """Whether an install line keeps modprobe from loading a module, which may be loaded now. Raises
    EvidenceMissing where what it runs is not known."""
    config = configuration(node)
    entry = config.install_command(module)
    if entry is None:
        return Passed("no install line")
    where = f"/{entry.file}, line {entry.line}"
    node.cite(entry.file, text=f"install {entry.name} {entry.value}", line=entry.line)
    if config.soft_dependencies(module) is not None:
        return Passed(f"a soft dependency makes modprobe ignore the install line in {where}")
    found = effect(entry.value)
    if found is Effect.UNKNOWN:
        raise EvidenceMissing(
            Missing(
                f"install {entry.name} in {where}",
                MissingReason.UNDECIDED,
                shlex.join(("modprobe", "--show-depends", module)),
            )
        )
    if found is Effect.LOADS:
        return Passed(f"the install line in {where} loads a module")
    return Failed(
        seen=f"install {entry.name} {entry.value} in {where}",
        expected="no install line, or one that loads the module",
        subject=module,
        advice=f"Remove line {entry.line} of /{entry.file}.",
    )


@rule(
    "module-unsupported",
    Layer.KERNEL,
    per=modules_to_load,
    takes=lost_without,
    loading=LoadPosition(Stage.MODPROBE, 3),
    reported_by=(
        DecidingCommand("modinfo -F supported {module}", "nothing, or `no`"),
        DecidingCommand("modprobe -c | grep allow_unsupported_modules", "0"),
    ),
    remedies=(RemedyName.ALLOW_UNSUPPORTED,),
    cost="modprobe refuses the module; the kernel would take it.",
    references=("https://documentation.suse.com/sles/15-SP6/html/SLES-all/cha-adm-support.html",),
)
def module_unsupported(node: Node, module: str) -> Outcome:
    """modprobe of SUSE refuses a module that is not marked as supported.

    Cost: The module is not loaded, by hand or at boot.

    How to tell: modprobe says "module 'nvidia_peermem' is unsupported", then "Use --allow-unsupported or set
    allow_unsupported_modules 1 in /etc/modprobe.d/10-unsupported-modules.conf" and "Operation not
    permitted". The kernel's log has no line about it. `modinfo -F supported <module>` prints nothing.

    What to do: Write `allow_unsupported_modules 1` into
    /etc/modprobe.d/10-unsupported-modules.conf; `sudo gdr fix --steps allow-unsupported --apply` does that.
    Or install the driver from packages that are marked as supported, such as SUSE's
    nvidia-open-driver-G06-signed-kmp. `sudo modprobe --allow-unsupported <module>` loads it once.

    Why: SUSE Linux Enterprise Server sets `allow_unsupported_modules 0`. A module that DKMS or NVIDIA's .run
    installer built has no mark; those of SUSE have "yes", those of its partners "external".

    Source: SLES Administration Guide, "Support of kernel modules"; public outputs of SUSE's kmod.
    """
    if (not_applicable := not_applicable_if_loaded(node, module)) is not None:
        return not_applicable
    line = refusing_unsupported(node)
    if line is None:
        return Passed("modprobe does not ask for support")
    node.cite(line.file, text=f"allow_unsupported_modules {line.name}", line=line.line)
    supported = is_supported(node, module_path(node, module))
    node.cite("modprobe", text="SUSE's, which was not run here", confidence=Confidence.LIKELY)
    if supported:
        return Passed("the module is marked as supported")
    return Failed(
        seen=f"no mark of support, and allow_unsupported_modules {line.name} in /{line.file}",
        expected="supported: yes or external, or allow_unsupported_modules 1",
        subject=module,
    )


@rule(
    "module-bad-parameter",
    Layer.KERNEL,
    per=modules_to_load,
    takes=lost_without,
    loading=LoadPosition(Stage.PARAMETERS, 1),
    logged=True,
    reported_by=(
        DecidingCommand(DMESG, "`invalid for parameter`, or `invalid ... param value`"),
        DecidingCommand(
            "modprobe -c | grep {module}", "`options {module} ...` with a value that it does not accept"
        ),
    ),
    remedies=(RemedyName.ALLOW_MODULE,),
    cost="The module cannot be loaded with these options.",
    references=("man:modprobe.d(5)",),
)
def module_bad_parameter(node: Node, module: str) -> Outcome:
    """A parameter in modprobe's configuration has a value that the module does not accept.

    Cost: The module cannot be loaded until the value is right.

    How to tell: modprobe says "Invalid argument" or "Numerical result out of range", and the kernel's log
    says "...: `...' invalid for parameter `...'", or nvidia-peermem's own "invalid peerdirect_support param
    value ...". `modprobe -c | grep <module>` prints the options. A
    parameter that the module does not have is ignored, with a line in the log.

    What to do: Correct the line; `modinfo -p <module>` lists the parameters and their types.

    Why: There is a typing error in an options line or on the kernel command line, or the type of a
    parameter changed with the driver's version. Both parameters of nvidia-peermem take only 0 and 1, and
    persistent_api_support exists since driver 560.28.03.

    Source: Linux kernel/params.c, parse_args(); lib/kstrtox.c; open-gpu-kernel-modules
    kernel-open/nvidia-peermem/nvidia-peermem.c, nv_mem_param_conf_check() in 515 to 555,
    nv_mem_param_peerdirect_conf_check() and nv_mem_param_persistent_api_conf_check() since 560.28.03.
    """
    if (not_applicable := not_applicable_if_loaded(node, module)) is not None:
        return not_applicable
    arguments = configuration(node).arguments_of(module)
    found = reading(node, module, arguments)
    argument = found.bad[0].argument if found.bad else refused_argument(node, module, arguments)
    if argument is None:
        return Passed("every option is valid")
    return Failed(
        seen=f"{argument.name}={argument.shown}",
        expected="a value of the parameter's type" if found.bad else "0 or 1",
        subject=module,
    )
