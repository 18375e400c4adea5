"""The configuration of modprobe: blacklists, commands, options, aliases; and modules loaded at boot.

Sources: modprobe.d(5), modules-load.d(5); kmod, libkmod-config.c for what the manual pages leave out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from msgspec import Struct

from gdrkit.evidence import EvidenceMissing, MissingReason
from gdrkit.evidence.missing import is_loop
from gdrkit.facts.kernel import COMMAND_LINE_CHARACTERS
from gdrkit.facts.kmod import kmod_version
from gdrkit.facts.module_index import modules_dir
from gdrkit.formats.errors import FormatError
from gdrkit.formats.module_name import canonical
from gdrkit.formats.regex import regex
from gdrkit.node import Node, fact, if_absent, if_missing

# kmod, libkmod.c, default_config_paths: a file in an earlier folder hides files of its name in later ones.
FOLDERS = (
    "etc/modprobe.d",
    "run/modprobe.d",
    "usr/local/lib/modprobe.d",
    "usr/lib/modprobe.d",
    "lib/modprobe.d",
)


DIRECTIVES_LIMIT = 10_000
"""The most lines that count. Distributions' files and depmod's softdep list have some hundreds."""

PATTERNS_LIMIT = 1000
"""The most lines with a wildcard: each is compared with each name."""


class Directive(Struct, frozen=True):
    """One directive: the module or pattern, the value, and its file and line."""

    name: str  # dashes as underscores
    value: str  # the command, the options, the alias's module; empty for a blacklist entry
    file: str
    line: int


class SoftDependency(Struct, frozen=True):
    """Modules to load before and after another, if possible; their failure is ignored."""

    name: str
    pre: tuple[str, ...]
    post: tuple[str, ...]
    file: str
    line: int


class ModprobeConfig(Struct, frozen=True):
    """All directives in the order in which modprobe reads them."""

    blacklist: tuple[Directive, ...] = ()
    install: tuple[Directive, ...] = ()
    remove: tuple[Directive, ...] = ()
    options: tuple[Directive, ...] = ()
    alias: tuple[Directive, ...] = ()  # name is the pattern
    softdep: tuple[SoftDependency, ...] = ()
    allow_unsupported_modules: tuple[Directive, ...] = ()  # SUSE's kmod alone knows it
    ignored: tuple[Directive, ...] = ()
    """Lines that modprobe cannot parse: their first word, the line, and the number of its last part."""
    folders: tuple[str, ...] = ()  # with a name like that of a file: modprobe reads none of theirs
    dangling: tuple[str, ...] = ()  # links to nothing, and links that lead back to themselves

    def blacklisted(self, name: str) -> Directive | None:
        """The entry that prevents loading a module by its aliases. Only names are compared, not patterns."""
        return next((entry for entry in self.blacklist if entry.name == canonical(name)), None)

    def install_command(self, name: str) -> Directive | None:
        """The command that modprobe runs instead of loading a module: the first whose pattern matches."""
        return next((entry for entry in self.install if _matches(entry.name, name)), None)

    def remove_command(self, name: str) -> Directive | None:
        """The command that modprobe runs instead of removing a module."""
        return next((entry for entry in self.remove if _matches(entry.name, name)), None)

    def options_of(self, name: str, alias: str = "") -> tuple[Directive, ...]:
        """Options for a module, and for the alias that led to it, in order. If a parameter is given twice,
        the kernel uses the last."""
        names = (canonical(name), alias) if alias else (canonical(name),)
        return tuple(entry for entry in self.options if entry.name in names)

    def arguments_of(self, name: str, alias: str = "") -> str:
        """These options as one string, as modprobe passes them to the kernel: kmod_module_get_options()."""
        return " ".join(entry.value for entry in self.options_of(name, alias) if entry.value)

    def soft_dependencies(self, name: str) -> SoftDependency | None:
        """The first soft dependency whose pattern matches."""
        return next((entry for entry in self.softdep if _matches(entry.name, name)), None)

    def modules_of_alias(self, alias: str) -> tuple[Directive, ...]:
        """The alias entries that match."""
        return tuple(entry for entry in self.alias if _matches(entry.name, alias))


def _is_pattern(name: str) -> bool:
    return "*" in name or "?" in name or "[" in name


def _matches(pattern: str, name: str) -> bool:
    """Whether a name fits the pattern of a directive: fnmatch(3) without flags."""
    wanted = canonical(name)
    return pattern == wanted or (_is_pattern(pattern) and fnmatchcase(wanted, pattern))


@fact
def configuration(node: Node) -> ModprobeConfig:
    """modprobe's configuration: modprobe.d, the modules' soft dependencies, the kernel's command line."""
    found = _Directives()
    for path in _files(node, found):
        try:
            masked = node.resolve(path) == "dev/null"
            text = "" if masked else node.text(path)
            found.read(path, _with_end_of_file(node, text) if text.endswith("\\") else text)
        except EvidenceMissing as error:
            if _is_folder(node, path):
                found.folders.append(path)
            elif error.missing.why is not MissingReason.ABSENT and not is_loop(error.missing):
                raise
    found.read_command_line(if_absent("", node.text, "proc/cmdline"))
    return found.config()


_ENDS_LINES_SINCE = 34  # kmod commit 7805c95, "shared: Fix EOF handling in freadline_wrapped"


def _with_end_of_file(node: Node, text: str) -> str:
    """A text as older versions read it: where a lone backslash is last, the end of the file counts as one
    more character, a byte of ones."""
    is_lone = (len(text) - len(text.rstrip("\\"))) % 2
    return f"{text[:-1]}\ufffd" if is_lone and _version(node) < _ENDS_LINES_SINCE else text


def _version(node: Node) -> int:
    return if_missing(0, kmod_version, node)


_UNSUPPORTED = "allow_unsupported_modules"
YES, NO = ("1", "yes"), ("0", "no")


_ALIAS_FILES_UNTIL = 32
"""Until then, *.alias is read like *.conf: kmod commit 29cc8c2."""


_HIDES_NOTHING_SINCE = 34
"""Since then, a link to nothing does not hide a file of its name in a later folder."""


def _files(node: Node, found: _Directives) -> list[str]:
    """The files of the configuration, in the order in which kmod reads them. Adds links to nothing, and
    folders with the name of a file in another folder, which hide no file: conf_files_list()."""
    chosen = {path.rpartition("/")[2]: path for path in _module_softdeps(node)}
    for folder in FOLDERS[:-1] if is_merged(node) else FOLDERS:
        for name in if_absent((), node.list, folder):
            path = f"{folder}/{name}"
            if not is_file_of(name, (".conf", ".alias")):
                continue
            if name.endswith(".alias") and _version(node) > _ALIAS_FILES_UNTIL:
                continue
            if _leads_nowhere(node, path):
                found.dangling.append(path)
                if _version(node) >= _HIDES_NOTHING_SINCE:
                    continue
            elif name in chosen and _is_folder(node, path):
                found.folders.append(path)
            elif name in chosen and _is_folder(node, chosen[name]):
                found.folders.append(chosen.pop(name))
            chosen.setdefault(name, path)
    return by_name(chosen)


@fact
def is_merged(node: Node) -> bool:
    """Whether the last two folders are one, as /lib is a link to /usr/lib."""
    return if_missing(False, node.resolve, FOLDERS[-1]) == FOLDERS[-2]


def _is_folder(node: Node, path: str) -> bool:
    return if_missing(None, node.list, path) is not None


def _leads_nowhere(node: Node, path: str) -> bool:
    """Whether a name in a folder is a link to nothing, or back to itself."""
    try:
        return node.resolve(path) != "dev/null" and not node.exists(path)
    except EvidenceMissing as error:
        return is_loop(error.missing)


def is_file_of(name: str, endings: tuple[str, ...]) -> bool:
    return name.endswith(endings) and len(name) > len(".conf") and not name.startswith(".")


def _module_softdeps(node: Node) -> tuple[str, ...]:
    """modules.softdep is sorted among the configuration files by its name: kmod_config_new()."""

    def by_depmod() -> tuple[str, ...]:
        path = f"{modules_dir(node)}/modules.softdep"
        return (path,) if node.exists(path) else ()

    return if_missing((), by_depmod)  # optional evidence: failures of soft dependencies are ignored


def by_name(paths: Mapping[str, str]) -> list[str]:
    return [paths[name] for name in sorted(paths, key=str.encode)]


class _Directives:
    """Collects directives. Source of the grammar: kmod, kmod_config_parse()."""

    def __init__(self) -> None:
        self.lists: dict[str, list[Directive]] = {
            kind: []
            for kind in ("blacklist", "install", "remove", "options", "alias", _UNSUPPORTED, "ignored")
        }
        self.softdeps: list[SoftDependency] = []
        self.folders: list[str] = []
        self.dangling: list[str] = []
        self._count = self._patterns = 0

    def read(self, file: str, text: str) -> None:
        """Collect the lines of a file. Raises FormatError for more than any machine has."""
        for number, last, whole in _lines(text):
            line = whole.partition("\0")[0]
            if line and not line.startswith("#"):
                word, rest = _token(line)
                name, rest = _token(rest)
                self._count += 1
                self._patterns += _is_pattern(name)
                if self._count > DIRECTIVES_LIMIT or self._patterns > PATTERNS_LIMIT:
                    raise FormatError("more lines in modprobe's configuration than any machine has")
                if word and not self._directive(word, name, rest, file, number):
                    self.lists["ignored"].append(Directive(word, line, file, last))

    def _directive(self, word: str, name: str, rest: str, file: str, number: int) -> bool:
        """Collect one line; False if modprobe complains about it."""
        if not _has_brackets_in_pairs(name):
            return False
        if word == "blacklist" and name:
            self._add(word, name, "", file, number)
        elif word == "alias" and name and _token(rest)[0] and _has_brackets_in_pairs(_token(rest)[0]):
            self._add(word, name, _underscores(_token(rest)[0]), file, number)
        elif word in ("install", "remove", "options") and name and rest:
            self._add(word, name, rest.replace("\t", " ") if word == "options" else rest, file, number)
        elif word == _UNSUPPORTED and name in (*YES, *NO):
            self._add(word, name, "", file, number)
            return False  # for any other kmod
        elif word == "softdep" and name and rest:
            self.softdeps.append(_softdep(name, rest, file, number))
        else:
            return False
        return True

    def _add(self, kind: str, name: str, value: str, file: str, number: int) -> None:
        self.lists[kind].append(Directive(_underscores(name), value, file, number))

    def read_command_line(self, text: str) -> None:
        """`modprobe.blacklist=a,b` and `module.parameter[=value]`: kcmdline_parse_result()."""
        for module, option in _of_command_line(text[:COMMAND_LINE_CHARACTERS]):
            if module == "modprobe" and option.startswith("blacklist="):
                for name in option.partition("=")[2].split(","):  # dashes are kept: none matches a module
                    self.lists["blacklist"].append(Directive(name, "", "proc/cmdline", 1))
            else:
                self._add("options", module, option, "proc/cmdline", 1)

    def config(self) -> ModprobeConfig:
        return ModprobeConfig(
            **{kind: tuple(entries) for kind, entries in self.lists.items()},
            softdep=tuple(self.softdeps),
            folders=tuple(self.folders),
            dangling=tuple(self.dangling),
        )


def directives(text: str) -> ModprobeConfig:
    """The directives of one file alone. Raises FormatError for more than any machine has."""
    found = _Directives()
    found.read("", text)
    return found.config()


def _token(text: str) -> tuple[str, str]:
    """The first word, and the rest after the one blank that follows it: strtok_r(3)."""
    text = text.lstrip("\t ")
    end = min((index for index in (text.find(" "), text.find("\t")) if index >= 0), default=len(text))
    return text[:end], text[end + 1 :]


_PART = regex(r"\\(.?)|\n|[^\\\n]+", re.DOTALL)


def _lines(text: str) -> Iterator[tuple[int, int, str]]:
    """Lines with the numbers of their first and last part: kmod, freadline_wrapped().

    A backslash joins the next line if it ends one; before another character it is dropped."""
    joined: list[str] = []
    start = number = 1
    for found in _PART.finditer(text):
        if found[0] == "\n":
            yield start, number, "".join(joined)
            joined, start = [], number + 1
        elif found[0].startswith("\\"):
            joined.append(found[1].replace("\n", ""))
        else:
            joined.append(found[0])
        number += found[0].count("\n")
    if any(joined):
        yield start, number, "".join(joined)


def _has_brackets_in_pairs(name: str) -> bool:
    """Whether kmod takes a name: underscores()."""
    return re.fullmatch(r"(?:[^][]|\[[^]]*\])*", name) is not None


def _underscores(name: str) -> str:
    """Dashes become underscores, but not inside a pattern's brackets: kmod, underscores()."""
    parts = []
    for index, part in enumerate(name.split("[")):
        inside, closing, after = part.partition("]") if index else ("", "", part)
        parts.append(inside + closing + canonical(after) if closing or not index else part)
    return "[".join(parts)


def is_weakdep(line: str) -> bool:
    """Whether a line is a weak dependency, which versions before 33 do not know."""
    word, rest = _token(line)
    name, rest = _token(rest)
    return word == "weakdep" and bool(name and rest) and _has_brackets_in_pairs(name)


_BOOT_WORD = regex(
    r'(?P<outer>")?(?P<module>[^\s".=]*)\.(?P<option>[^\s".=]*(?(outer)=|(?:=|(?=\s|$))))', re.ASCII
)


def _of_command_line(text: str) -> Iterator[tuple[str, str]]:
    """Modules and their options on the kernel's command line: kmod_config_parse_kcmdline().

    Quotes group words in a value, or around the whole, where boot loaders put them: then they go around
    the value."""
    for word in re.findall(r'(?:[^\s"]|"[^"]*"|"[^"]*$)+', text, re.ASCII):
        found = _BOOT_WORD.match(word)
        if found is None or word.count('"') % 2:
            continue
        value = word[found.end() :]
        yield found["module"], found["option"] + ('"' if found["outer"] else "") + value


_SOFTDEP_WORD = regex(r"^\s?\S+|\S+", re.ASCII)
"""A single blank before the first word belongs to it: then it is not `pre:`. kmod_config_add_softdep()."""


def _softdep(name: str, rest: str, file: str, number: int) -> SoftDependency:
    kind = ""
    names: dict[str, list[str]] = {"": [], "pre:": [], "post:": []}
    for word in _SOFTDEP_WORD.findall(rest):
        if word in names:
            kind = word
        else:
            names[kind].append(canonical(word))
    return SoftDependency(_underscores(name), tuple(names["pre:"]), tuple(names["post:"]), file, number)
