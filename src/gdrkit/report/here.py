"""What a page recommends, in the words of the node's platform; and what to ask the owner of the host."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from gdrkit.catalogue import rule_of
from gdrkit.evidence.quoting import in_prose, quoted
from gdrkit.facts.cable_halves import halves_down
from gdrkit.facts.kernel import hostname
from gdrkit.facts.module_index import module_path
from gdrkit.facts.rdma import netdev, nics, ports, rdma_devices
from gdrkit.facts.roce_mtu import small_mtus
from gdrkit.facts.virtual import is_administrator, virtual_machine
from gdrkit.formats.regex import regex
from gdrkit.node import Node, if_missing
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.immutable_systems import ImmutableSystem, immutable
from gdrkit.repair.platforms.means import CONTAINER, OPERATOR, can_do, has_packages, means, platform_of
from gdrkit.repair.remedies import remedy_of
from gdrkit.report.causes import deciding, first_cause, missing_of
from gdrkit.report.document import Report
from gdrkit.report.pages import advice, split_sentences
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.verdict.path_state import GOOD, State

_PACKAGES = (
    r"\b(?:apt|apt-get|dpkg|dnf|yum|zypper|dkms|DKMS|mokutil|grubby|update-grub|update-initramfs|dracut|"
    r"initramfs|DOCA-OFED|MLNX_OFED|openibd)\b|/etc/(?:modprobe|modules-load|default|init|security)|"
    r"modprobe\.d|modules-load\.d|\bpackages?\b|/usr/src|\binstaller\b"
)
_SHELL = r"\bsudo\b|\bsystemctl\b|\bmodprobe\b|\brmmod\b|\bsetpci\b|\bnvidia-smi\b|\bmlxfwreset\b|\bmst"
_HOST = (
    rf"{_PACKAGES}|{_SHELL}|\b[Rr]eboot|\b[Rr]estart|kernel command line|firmware setup|\bBIOS\b|"
    r"\bthe host\b"
)
_LACKS = {CONTAINER: _HOST, OPERATOR: r"\b(?:dkms|DKMS|mokutil)\b|modprobe\.d|modules-load\.d"}
"""What a sentence must not name, by platform; of a system that boots an image, packages and a shell."""


ESTIMATE = "`gdr estimate`"
"""What knows nothing of a node whose RDMA devices are not known."""


FULL_PACKETS = "MTU 9000 on both nodes"
"""In advice for speed. Where ports of this node have less, it names them."""


BOTH_DEVICES = "use both RDMA devices of a cable"
"""In advice for speed. Where one of them is down, it names what brings it up."""


POINTER = "which says how"
"""In advice that is only where more is."""


def _of_subject(node: Node, words: str, subject: str) -> str:
    """Words of a page with the module, or the name and address of the device, that a finding is about."""
    if "<" not in words:
        return words
    nic = next((one for one in if_missing((), rdma_devices, node) if one.name == subject), None)
    address = nic.pci_address if nic is not None else subject if ":" in subject else ""
    numbers = [port.number for port in if_missing((), ports, node, subject)] if nic is not None else []
    known = {
        "<device>": nic.name if nic is not None else "",
        "<nic>": address,
        "<address>": address,
        "<port>": str(numbers[0]) if len(numbers) == 1 else "",
        "<module>": subject,
    }
    for placeholder, name in known.items():
        words = words.replace(placeholder, name or placeholder)
    return words


def _with_mtus(node: Node, words: str) -> str:
    """Words of a page with the interfaces for which RoCE sends smaller packets than it can."""
    small = if_missing({}, small_mtus, node) if FULL_PACKETS in words else {}
    if not small:
        return words
    names: dict[int, list[str]] = {}
    for name, mtu in small.items():
        names.setdefault(mtu, []).append(name)
    have = ", ".join(f"{in_prose(', '.join(those))} {mtu}" for mtu, those in names.items())
    command = f"sudo ip link set dev {quoted(next(iter(small)))} mtu 9000"
    return words.replace(FULL_PACKETS, f"{FULL_PACKETS} (here {have}: `{command}`)")


def _with_halves(node: Node, words: str) -> str:
    """Words of a page with the command that brings up the other device of a cable that has a link."""
    down = if_missing((), halves_down, node) if BOTH_DEVICES in words else ()
    names = [if_missing("", netdev, node, port.device, port.number) for port in down]
    if not down or not all(names):
        return words
    here = ", ".join(f"{port.device} is {port.state}" for port in down)
    command = " && ".join(f"sudo ip link set dev {quoted(name)} up" for name in names)
    return words.replace(BOTH_DEVICES, f"{BOTH_DEVICES} (here {in_prose(here)}: `{command}`)")


def advice_here(node: Node, code: str, given: str = "", subject: str = "") -> str:
    """What to do about a code on this node: `given` or the page's first sentences where the platform can do
    them; else those of its sentences that it can, and where the rest is. "" for the page as it is. It names
    the `subject` of the finding where the page has a placeholder for it."""
    words = _with_halves(node, _with_mtus(node, _of_subject(node, given or advice(code), subject)))
    given = words if given or words != advice(code) else ""
    if ESTIMATE in words and not if_missing((), nics, node):
        given = words = " ".join(one for one in split_sentences(words) if ESTIMATE not in one)
    if has_packages(node):
        return in_guest(node, words) or given
    platform, system = platform_of(node), immutable(node)
    sentences = split_sentences(words)
    able = [_by_container(one, node, system) for one in sentences] if system else sentences
    kept = _followable(able, _lacking(platform, system), lambda way: _without_loads(way, node, system))
    if kept == sentences:
        return given
    remedy = remedy_here(node, code)
    if platform == CONTAINER and remedy is not None and remedy_of(remedy).changes is not Change.JOB:
        names = [name for name in rule_of(code).remedies if can_do(node, remedy_of(name))]
        return f"Ask the owner of the host for {' or '.join(names)}: `gdr fix` there prints the commands."
    if remedy is not None:
        return f"Run `gdr fix --steps {remedy}`, {POINTER} {_on(platform, node)}."
    if any(_is_step(one) or _OWN_COMMAND.search(one) for one in kept):
        return " ".join(kept)
    page = f"`gdr codes {code}`"
    otherwise = {
        CONTAINER: f"Ask the owner of the host to do what {page} says.",
        OPERATOR: f"Do what {page} says by the settings or the image of the GPU Operator's driver.",
    }
    by_image = f"Do what {page} says in the image or the configuration of {system.title if system else ''}."
    return " ".join((*kept, otherwise.get(platform, by_image)))


_OF_MACHINE = regex(
    r"(?i)firmware setup|\bin the firmware\b|\bBIOS\b|\breseat|\brisers?\b|\bslots?\b|\bcables?\b"
    r"|\bremove its power\b|\bpower removed\b|\bipmitool\b|\bpower supply\b|\bon bare metal\b"
)
"""Parts and settings of a real machine, which its guests do not have."""
OF_GUEST = (
    "This is a virtual machine, whose cards, cables and firmware are its host's: report this to whoever runs"
    " it, as a cloud's support, or stop it from outside and start it again: a cloud then gives it another"
    " host."
)


def in_guest(node: Node, words: str) -> str:
    """What the owner of a virtual machine can do of some words, and whom to ask for the rest; "" where that
    is all, or on a real machine."""
    if not _OF_MACHINE.search(words) or if_missing("none", virtual_machine, node) in ("none", "wsl"):
        return ""
    kept = _followable(split_sentences(words), _OF_MACHINE, lambda way: way)
    return " ".join((*kept, OF_GUEST))


def _is_step(sentence: str) -> bool:
    return any(word.lower() in _ORDERS for word in _FIRST_WORD.findall(sentence))


def remedy_here(node: Node, code: str) -> RemedyName | None:
    """The first remedy for a code that the platform can carry out and that is possible on the node; else the
    first that the platform can carry out."""
    return _first_possible(node, [name for name in rule_of(code).remedies if can_do(node, remedy_of(name))])


def _first_possible(node: Node, names: Sequence[RemedyName]) -> RemedyName | None:
    possible = (
        name for name in names if if_missing((), lambda one: tuple(one.effect(node)), remedy_of(name))
    )
    return next(possible, names[0] if names else None)


_FIRST_WORD = regex(r"(?:^|[.,;:] |\b(?:or|and|then|first|otherwise) )(?=([a-z]+)\b)", re.IGNORECASE)
_ORDERS = frozenset((
    "add", "apply", "ask", "attach", "boot", "build", "change", "check", "choose", "clean", "compare",
    "connect", "count", "delete", "deploy", "do", "drain", "enable", "end", "enrol", "find", "fix",
    "free", "give", "grant", "increase", "install", "keep", "leave", "let", "list", "load", "look",
    "lower", "make", "measure", "mount", "move", "name", "open", "pass", "print", "put", "raise",
    "read", "rebuild", "register", "reinstall", "reload", "remove", "replace", "report", "reseat",
    "reset", "restart", "reboot", "return", "run", "search", "send", "set", "start", "stop", "switch",
    "take", "try", "turn", "unload", "unset", "update", "upgrade", "use", "wait", "write",
))  # fmt: skip
"""How a next step begins: an order, not a statement."""
_CONTINUES = regex(r"(?:Then|Or|Otherwise|If (?:it|that|they)) ?\b")
"""How a sentence begins that means nothing without the one before it."""
_BRINGS = regex(
    r"`sudo ((?:devlink|dmesg|ethtool|ibportstate|ip link|mlxconfig|mlxfwmanager|mlxlink|rdma|rdma_topo|"
    r"setpci) [^`]+)`"
)
"""Commands that a privileged container can bring, and that act on the devices of the host."""


_REBOOT = regex(r"(?:^|[.;,:] |\b(?:[Tt]hen|and) )[Rr]eboot\b(?! is)")
"""An order to reboot that belongs to what is to be done: not one of several ways, `or reboot`, and not that
none is needed."""


def ends_in_reboot(node: Node, words: str, remedies: Sequence[RemedyName]) -> bool:
    """Whether what is to be done by hand includes a reboot: by its first remedy here, or by its words."""
    first = _first_possible(node, remedies)
    by_remedy = first is not None and means(node, remedy_of(first)).needs_reboot
    return by_remedy or _REBOOT.search(words) is not None


def _by_container(sentence: str, node: Node, system: ImmutableSystem) -> str:
    """A sentence whose commands run in a privileged container, where the image has no such tool."""
    name = if_missing("", hostname, node)
    before = system.container.replace("NODE", quoted(name) if name else "NODE")
    found = _BRINGS.sub(lambda one: f"`{before} {one[1].split(' | ')[0]}`", sentence)
    return found if found == sentence else f"{found.removesuffix('.')} (IMAGE: one that has the tool)."


def _lacking(platform: str, system: ImmutableSystem | None) -> re.Pattern[str]:
    """What a sentence must not name: both what an operator's driver and what its system lacks."""
    without = [_LACKS[platform]] if platform in _LACKS else []
    if system is not None:
        without.append(rf"{_PACKAGES}|\bsudo modprobe\b" if _has_shell(system) else f"{_PACKAGES}|{_SHELL}")
        without += [r"\bofedDriver\b"] if Change.OFED in system.cannot else []
    return re.compile("|".join(without) or f"{_PACKAGES}|{_SHELL}")


_LOADS = regex(r"`sudo modprobe ([\w-]+)`")


def _without_loads(text: str, node: Node, system: ImmutableSystem | None) -> str:
    """A text without the loading of modules that the image has, which root does on a system with a shell.
    Others cannot be installed there, and without an OFED nvidia-peermem is a stub."""

    def here(name: str) -> bool:
        is_stub = system is not None and Change.PEERMEM in system.cannot and name == "nvidia-peermem"
        return not is_stub and if_missing("", module_path, node, name) != ""

    return _LOADS.sub(lambda one: "" if here(one[1]) else one[0], text) if _has_shell(system) else text


def _has_shell(system: ImmutableSystem | None) -> bool:
    return system is not None and system.container.startswith("sudo ")


def _followable(sentences: list[str], lacking: re.Pattern[str], without: Callable[[str], str]) -> list[str]:
    """The sentences without what names something that is lacking, and without what only continues it."""
    kept: list[str] = []
    is_lost = False
    for sentence in sentences:
        if is_lost and _CONTINUES.match(sentence):
            continue
        ways = sentence.removesuffix(".").split("; or")
        left = [way for way in ways if not lacking.search(without(_OWN_COMMAND.sub("", way)))]
        is_lost = not left
        if left:
            words = "; or".join(left).lstrip(", ")
            kept.append(sentence if left == ways else f"{words[:1].upper()}{words[1:]}.")
    return kept


_OWN_COMMAND = regex(r"`(?:kubectl debug|sudo (?:podman|docker) run) [^`]+`")


def _on(platform: str, node: Node) -> str:
    system = immutable(node)
    return "for the GPU Operator" if platform == OPERATOR else f"on {system.title}" if system else "here"


def request(node: Node, report: Report) -> str:
    """One sentence to send to the owner of the host, for a reader who cannot change it: in a container, in a
    virtual machine without a NIC, or without root. "" if there is nothing to ask."""
    inside = report.node.scope == "container"
    plain = report.node.source == "live" and not if_missing(True, is_administrator, node)
    cause = first_cause(report)
    guest = if_missing("none", virtual_machine, node) != "none"
    without_nic = guest and cause is not None and cause.code == "no-rdma-device"
    if report.verdict.state in GOOD or not (inside or plain or without_nic):
        return ""
    where = "the host of my container" if inside else "the machine"
    name = f" {in_prose(report.node.hostname)}" if report.node.hostname else ""
    if report.verdict.state is State.UNKNOWN:
        return _for_evidence(report, f"{where}{name}")
    if cause is None or not cause.expected or not _is_of_host(cause.code):
        return ""  # where nothing was expected, nothing is missing
    seen = f"{in_prose(cause.seen)} [{cause.code}]"
    if without_nic:
        return (
            f"My virtual machine{name} has GPUs and no RDMA device ({cause.code}): could you give it one, "
            "or tell me which type of machine has GPUs with a NIC beside each?"
        )
    steps = [remedy_of(step.remedy).title for step in report.plan[0].steps] if report.plan else []
    asked = " and then ".join(steps) if steps else f"look at it with `gdr codes {cause.code}`"
    return (
        f"On {where}{name}, GPU memory does not reach the network directly: {seen}. Please {asked}. "
        "`gdr fix` there prints how; what `gdr collect` wrote here, without root, is attached."
    )


def _for_evidence(report: Report, where: str) -> str:
    found = deciding(report)
    if not found:
        return ""
    source, _ = missing_of(found[0])
    return (
        f"Could you run `sudo gdr collect` on {where} and send me the file? Without root I cannot see "
        f"whether GPU memory reaches the network directly there ({in_prose(source)})."
    )


def _is_of_host(code: str) -> bool:
    """Whether something outside the job may have to be done about a code."""
    remedies = rule_of(code).remedies
    return not remedies or any(remedy_of(name).changes is not Change.JOB for name in remedies)
