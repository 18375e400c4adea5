"""Faults of files that no schema describes: modprobe.d, and nccl.conf as NCCL reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gdrkit.facts.assignments import is_filled_in
from gdrkit.facts.install_command import Effect, effect
from gdrkit.facts.modprobe_config import ModprobeConfig, directives
from gdrkit.facts.module_arguments import split_arguments
from gdrkit.formats.errors import FormatError
from gdrkit.formats.misspelt import did_you_mean
from gdrkit.programs.environment import parse_conf
from gdrkit.repair.config.boot_files import REASONS
from gdrkit.repair.config.fault import ConfigFault, fault_at
from gdrkit.repair.config.workload_check import contradiction_faults

MODPROBE, NCCL = "modprobe.d", "nccl.conf"
WORDS = ("alias", "blacklist", "install", "options", "remove", "softdep", "weakdep")
"""The directives of modprobe.d(5); config and include are obsolete."""
NEEDED = ("nvidia", "nvidia_uvm", "nvidia_peermem", "mlx5_core", "mlx5_ib", "ib_core", "ib_uverbs", "gdrdrv")
"""Modules of the direct path."""


def kind_of(name: str, text: str) -> str:
    """Which of these files a text is, by its name, or nccl.conf by a first line that names it, or modprobe.d
    by most of its lines; "" for any other."""
    if re.search(r"(?:^|[/._-])nccl\.conf$", name) or re.match(r"#\s*(?:/etc/|~/\.)nccl\.conf\b", text):
        return NCCL
    if re.search(r"(?:^|/)modprobe\.d/[^/]+\.conf$", name):
        return MODPROBE
    if not any(word in text for word in WORDS):
        return ""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    known = sum(words[0] in WORDS and len(words) > 1 for words in (line.split(None, 1) for line in lines))
    return MODPROBE if known * 2 > len(lines) else ""


def boot_faults(kind: str, text: str) -> Iterator[ConfigFault]:
    """The faults of a file of such a kind."""
    yield from (_nccl if kind == NCCL else _modprobe)(text)


# -- nccl.conf ---------------------------------------------------------------------------------------


def _nccl(text: str) -> Iterator[ConfigFault]:
    """Lines that NCCL reads as something else. Source: NCCL src/misc/param.cc, setEnvFile()."""
    given: dict[str, str] = {}
    lines: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip() and not line.startswith("#") and "=" not in line:
            yield fault_at(number, "wrong-value", "", f"{line.strip()[:60]}: NCCL skips it", "NAME=VALUE")
    for setting in parse_conf(text, ""):
        name, value, at_line = setting.name, setting.value, setting.line
        if not is_name(name):
            right = re.sub(r"^(?:export|set)\s+|\s", "", name)[:60]
            seen = f"{name[:60]!r} is the name that NCCL sets, and nothing reads it"
            yield fault_at(at_line, "wrong-value", right, seen, f"{right}= at the start of the line")
        elif value != value.strip() or re.search(r"[\"']|\s#", value):
            seen = f"{value[:60]!r}: blanks, quotation marks and comments are part of the value"
            yield fault_at(at_line, "wrong-value", name, seen, "the value alone")
        elif is_filled_in(value):
            seen = f"{value[:60]}: NCCL replaces no variable, and takes this as the value"
            yield fault_at(at_line, "wrong-value", name, seen, "the value itself")
        elif name in given:
            seen = f"set on line {lines[name]} already, and NCCL never changes what is set"
            yield fault_at(at_line, "set-twice", name, seen, "each variable once", "warning")
        else:
            given[name], lines[name] = value, at_line
    yield from contradiction_faults(given, lines)


def is_name(name: str) -> bool:
    """Whether something reads a variable of this name, which for NCCL is all that is before `=`."""
    return re.fullmatch(r"\w+", name, re.ASCII) is not None


def unread_lines(text: str) -> set[int]:
    """The lines of nccl.conf that set what nothing reads, and so turn nothing on or off."""
    return {setting.line for setting in parse_conf(text, "") if not is_name(setting.name)}


# -- modprobe.d --------------------------------------------------------------------------------------


def _modprobe(text: str) -> Iterator[ConfigFault]:
    try:
        config = directives(text)
    except FormatError as error:
        yield fault_at(1, "unreadable", "", str(error), "fewer lines", "unreadable")
        return
    for entry in config.ignored:
        meant = did_you_mean(entry.name, WORDS) if entry.name not in WORDS else ""
        seen = f"{entry.value.strip()[:60]}: modprobe ignores the line{meant}"
        yield fault_at(entry.line, "wrong-value", "", seen, f"one of {', '.join(WORDS)}, and what it needs")
    for entry in config.blacklist:
        if entry.name in NEEDED:
            seen = f"{entry.name} is not loaded for its devices"
            yield fault_at(entry.line, "module-blacklisted", "", seen, "no line, unless meant", "warning")
    for entry in config.install:
        if entry.name in NEEDED and effect(entry.value) is not Effect.LOADS:
            seen = f"modprobe runs {entry.value[:60]} in place of loading {entry.name}"
            yield fault_at(entry.line, "install-override", "", seen, "no line, unless meant", "warning")
    yield from _options(config)


def _options(config: ModprobeConfig) -> Iterator[ConfigFault]:
    """Parameters that are given twice, and known ones in other letters: the kernel's names have a case."""
    known = {name.lower(): name for _, name in REASONS}
    seen_on: dict[tuple[str, str], tuple[int, str | None]] = {}
    for entry in config.options:
        for argument in split_arguments(entry.value):
            path = f"{entry.name}:{argument.name}"
            right = known.get(argument.name.lower(), argument.name)
            if right != argument.name:
                text = "the module has no parameter of this name, and its other parameters count"
                yield fault_at(entry.line, "unknown-key", path, text, right)
            key = (entry.name, argument.name)
            before = seen_on.get(key)
            if before is not None and before[1] != argument.value:
                text = f"given on line {before[0]} too: the kernel uses the last, {argument.shown[:60]}"
                yield fault_at(entry.line, "set-twice", path, text, "one line with all of it", "warning")
            seen_on[key] = entry.line, argument.value
