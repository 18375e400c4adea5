"""The running kernel: release, architecture, command line, configuration and lockdown."""

from __future__ import annotations

import re

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing, Missing, MissingReason
from gdrkit.facts.commands import UNAME
from gdrkit.facts.machine import Distribution, Product, distribution, one_line, product
from gdrkit.formats.errors import FormatError
from gdrkit.formats.whole_number import whole_number
from gdrkit.node import Node, fact, first_of, if_missing, likely

__all__ = [
    "Distribution", "Product", "architecture", "boot_parameter", "command_line",
    "config_option",
    "distribution", "hostname", "is_running", "lockdown", "modules_disabled", "product", "release",
    "require_running", "split_command_line", "tainted", "version",
]  # fmt: skip

OWN_CONFIG = "proc/config.gz"
_CONFIG_LIMIT_BYTES = 8 << 20  # a kernel configuration has about 0.3 MB


# -- release and machine -------------------------------------------------------------------------------


@fact
def release(node: Node) -> str:
    """The running kernel's release, as `uname -r` prints it."""

    def the_running_kernel() -> str:
        return _checked(one_line(node.text("proc/sys/kernel/osrelease")))

    def the_kernel_banner() -> str:
        words = node.text("proc/version").split()
        if words[:2] != ["Linux", "version"] or len(words) < 3:
            raise FormatError("/proc/version does not begin with the words Linux version")
        return _checked(words[2])

    def uname() -> str:
        return _checked(_uname(node)[2])

    def the_only_kernel_with_modules() -> str:
        folders = [name for name in _module_folders(node) if name[:1].isdigit()]
        if len(folders) != 1:
            missing = Missing("lib/modules", MissingReason.UNDECIDED, "uname -r")
            raise EvidenceMissing(missing)
        return _checked(folders[0])

    return first_of(the_running_kernel, the_kernel_banner, uname, likely(node, the_only_kernel_with_modules))


@fact
def is_running(node: Node) -> bool:
    """Whether the kernel that is judged is the one that runs: until a boot of another one is supposed."""
    del node
    return True


def require_running(node: Node, source: str) -> None:
    """Raises EvidenceMissing for what a kernel shows of itself, where another one is judged than runs."""
    if not is_running(node):
        missing = Missing(f"{source} of Linux {release(node)}", MissingReason.UNDECIDED, "gdr doctor")
        raise EvidenceMissing(missing)


def _checked(text: str) -> str:
    """A release, which names folders and is a word of commands: Linux Makefile, filechk_kernel.release.

    Raises FormatError for one with a letter that no build of a kernel has, such as a blank or a quote."""
    if not re.fullmatch(r"[A-Za-z0-9._+~][A-Za-z0-9._+~-]{0,63}", text) or text in (".", ".."):
        raise FormatError(f"not a kernel release: {text!r}")
    return text


@fact
def built_by_debian(node: Node) -> bool:
    """Whether Debian built this kernel, by the address in its banner. False where the banner is not
    known."""
    return if_missing(False, lambda: "(debian-kernel@lists.debian.org)" in _banner(node))


def _banner(node: Node) -> str:
    require_running(node, "banner")
    return node.text("proc/version")


def _module_folders(node: Node) -> tuple[str, ...]:
    try:
        return node.list("lib/modules")
    except EvidenceAbsent:
        return node.list("usr/lib/modules")


@fact
def version(node: Node) -> tuple[int, int]:
    """Major and minor version of the running kernel.

    Distributions backport: where evidence shows a capability, ask for that instead."""
    numbers = release(node).split("-")[0].split("+")[0].split(".")
    major, minor = (whole_number(number) for number in (*numbers, "", "")[:2])
    if major is None or minor is None:
        raise FormatError(f"not a kernel release: {release(node)}")
    return major, minor


_MACHINES = ("x86_64", "aarch64", "ppc64le", "s390x", "riscv64")


# How distributions mark the machine in a kernel's release: Debian, Red Hat and openEuler, Debian, Red Hat.
_RELEASE_ENDINGS = (("amd64", "x86_64"), ("x86_64", "x86_64"), ("arm64", "aarch64"), ("aarch64", "aarch64"))


@fact
def architecture(node: Node) -> str:
    """The machine's architecture as `uname -m` prints it: x86_64, aarch64, ..."""

    def the_kernel() -> str:  # since Linux 6.1, kernel/utsname_sysctl.c
        return one_line(node.text("proc/sys/kernel/arch"))

    def uname() -> str:
        machines = [word for word in _uname(node)[3:] if word in _MACHINES]
        if not machines:
            raise FormatError("no known architecture in the output of uname -a")
        return machines[-1]

    def the_processors() -> str:
        text = node.text("proc/cpuinfo")
        if "\nflags\t" in text or "vendor_id\t" in text:
            return "x86_64"
        if "CPU implementer\t" in text:
            return "aarch64"
        raise FormatError("unknown architecture in /proc/cpuinfo")

    def the_kernel_release() -> str:
        name = release(node)
        for ending, machine in _RELEASE_ENDINGS:
            if ending in name:
                return machine
        raise EvidenceMissing(Missing("uname -m", MissingReason.UNDECIDED, "uname -m"))

    return first_of(the_kernel, uname, the_processors, likely(node, the_kernel_release))


@fact
def _uname(node: Node) -> tuple[str, ...]:
    """The words of `uname -a`: Linux, host name, release, version, machine. uname(1)."""
    words = tuple(node.run(UNAME).split())
    if len(words) < 5 or words[0] != "Linux":
        raise FormatError("not the output of uname -a on Linux")
    return words


@fact
def hostname(node: Node) -> str:
    """The node's name."""

    def the_kernel() -> str:
        return one_line(node.text("proc/sys/kernel/hostname"))

    def the_file() -> str:
        return one_line(node.text("etc/hostname"))

    def uname() -> str:
        return _uname(node)[1]

    return first_of(the_kernel, the_file, uname)


# -- command line and configuration --------------------------------------------------------------------


@fact
def command_line(node: Node) -> tuple[str, ...]:
    """The words of the kernel's command line. Double quotes group words and are removed.

    Source: Linux lib/cmdline.c, next_arg().
    """
    return split_command_line(node.text("proc/cmdline"))


COMMAND_LINE_CHARACTERS = 1 << 16
"""The longest command line that is read: the kernel's are 4096 bytes or less (asm/setup.h,
COMMAND_LINE_SIZE)."""


def split_command_line(text: str) -> tuple[str, ...]:
    """Words of a kernel command line or of a module's arguments, without their quotes."""
    words, word, quoted = [], "", False
    for letter in text[:COMMAND_LINE_CHARACTERS].strip() + " ":
        if letter == '"':
            quoted = not quoted
        elif letter.isspace() and not quoted:
            if word:
                words.append(word)
            word = ""
        else:
            word += letter
    if word.strip():  # a quote that was never closed
        words.append(word.rstrip())
    return tuple(words)


@fact
def boot_parameter(node: Node, name: str) -> tuple[str, ...]:
    """Every value given for a parameter on the command line, in order; "" where it is given without a value.

    Dashes and underscores are equal in a parameter's name: Linux kernel/params.c, parameq(). All after `--`
    is for init: Documentation/admin-guide/kernel-parameters.rst. Raises EvidenceMissing for a value that the
    collector took for a secret.
    """
    from gdrkit.agent.collect.module_parameters import DROPPED  # with expressions that take time to compile

    wanted = name.replace("-", "_")
    values = []
    for word in command_line(node):
        if word == "--":
            break
        key, _, value = word.partition("=")
        if key.replace("-", "_") == wanted:
            if DROPPED.decode() in value:
                raise EvidenceMissing(
                    Missing(f"{name}= in proc/cmdline", MissingReason.NOT_COLLECTED, "cat /proc/cmdline")
                )
            values.append(value)
    return tuple(values)


@fact
def config_option(node: Node, option: str) -> str:
    """A build option of the running kernel: y, m, n or its value without quotes."""
    text = _config(node)
    found = text.find(f"\n{option}=")
    if found < 0:
        node.cite("kernel configuration", option, "is not set")
        return "n"
    line = text[found + 1 : text.index("\n", found + 1)]
    node.cite("kernel configuration", option, line)
    return line.partition("=")[2].strip('"')


@fact
def _config(node: Node) -> str:
    """The running kernel's configuration; a line end precedes and follows each line."""
    kernel = release(node)
    reason: EvidenceMissing | None = None
    for path in (
        f"boot/config-{kernel}",
        f"lib/modules/{kernel}/config",
        OWN_CONFIG,
        f"usr/src/linux-headers-{kernel}/.config",
        f"lib/modules/{kernel}/build/.config",
    ):
        try:
            if path == OWN_CONFIG:
                require_running(node, path)
            text = _unpacked(node.read(path))
        except EvidenceMissing as error:
            reason = reason or error.fresh()
            continue
        if "\nCONFIG_" not in text:
            raise FormatError("no line sets a CONFIG_ option")
        return f"\n{text}\n"
    assert reason is not None  # the loop has candidates
    raise reason.fresh()


def _unpacked(content: bytes) -> str:
    from gdrkit.formats.compressed import decompress

    return bytes(decompress(content, _CONFIG_LIMIT_BYTES)).decode("utf-8", "replace")


# -- state ---------------------------------------------------------------------------------------------


_ASK_LOCKDOWN = "cat /sys/kernel/security/lockdown"


@fact
def lockdown(node: Node) -> str:
    """The lockdown level: none, integrity or confidentiality. kernel_lockdown(7).

    Source of the file's form: Linux security/lockdown/lockdown.c, lockdown_read().
    """

    def the_kernel() -> str:
        text = node.text("sys/kernel/security/lockdown")
        _, bracket, rest = text.partition("[")
        level, closing, _ = rest.partition("]")
        if not (bracket and closing and level in ("none", "integrity", "confidentiality")):
            raise FormatError("no lockdown level in brackets")
        return level

    def a_kernel_without_lockdown() -> str:
        if config_option(node, "CONFIG_SECURITY_LOCKDOWN_LSM") != "n":
            raise EvidenceMissing(
                Missing("sys/kernel/security/lockdown", MissingReason.NOT_COLLECTED, _ASK_LOCKDOWN)
            )
        return "none"

    def the_command_line() -> str:
        values = boot_parameter(node, "lockdown")
        if not values or values[-1] not in ("integrity", "confidentiality"):
            raise EvidenceMissing(
                Missing("sys/kernel/security/lockdown", MissingReason.NOT_COLLECTED, _ASK_LOCKDOWN)
            )
        return values[-1]

    return first_of(the_kernel, a_kernel_without_lockdown, likely(node, the_command_line))


@fact
def modules_disabled(node: Node) -> bool:
    """Whether the kernel refuses to load and unload modules until the next boot.

    Source: Linux Documentation/admin-guide/sysctl/kernel.rst, modules_disabled.
    """
    text = one_line(node.text("proc/sys/kernel/modules_disabled"))
    if text not in ("0", "1"):
        raise FormatError("modules_disabled is neither 0 nor 1")
    return text == "1"


@fact
def tainted(node: Node) -> int:
    """The kernel's taint as a bit mask. Source: Linux Documentation/admin-guide/tainted-kernels.rst."""
    text = one_line(node.text("proc/sys/kernel/tainted"))
    taint = whole_number(text)
    if taint is None:
        raise FormatError(f"the taint is not a number: {text[:20]!r}")
    return taint
