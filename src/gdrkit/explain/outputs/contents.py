"""Files and command outputs that a pasted text contains.

Only what the text shows is answered; what an excerpt leaves out is unknown. If the text shows two different
contents of one file or command, they come from two machines or two times, and neither is used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from gdrkit.explain.lines.attribution import DRIVER_PODS
from gdrkit.explain.lines.blocks import EVIDENCE, Block, blocks
from gdrkit.explain.lines.transcript import TextLine
from gdrkit.explain.outputs.absent_modules import absent_modules, whole_listing
from gdrkit.explain.outputs.gpus import lists_every_function, lspci_text, smi_text
from gdrkit.explain.outputs.logs import kernel_log, log_files
from gdrkit.explain.outputs.manifests import manifests
from gdrkit.explain.outputs.rdma_files import lists_every_device, rdma_files
from gdrkit.facts import kubernetes
from gdrkit.facts.commands import PACKAGES_DPKG, PACKAGES_RPM
from gdrkit.facts.contiguous_memory import MEMINFO
from gdrkit.facts.driver_files import CONTAINER
from gdrkit.formats.module_name import canonical
from gdrkit.formats.regex import regex
from gdrkit.messages.strerror import in_english

ONE_LINE_FILES = regex(
    r"sys/(?:module|kernel|class|bus|devices|firmware)/.*|proc/sys/kernel/\w+|proc/cmdline|proc/version"
    r"|proc/driver/nvidia/(?:version|gpus/[^/]+/information)|etc/hostname"
)
"""Files that one line shows completely, or of which one line is enough."""

MERGED_COMMANDS = ("dmesg", "journalctl", "lspci", "modinfo", "lsmod")
"""Commands whose outputs are assembled from all their parts in the text."""


PACKAGES = {
    ("dpkg", "-l"): PACKAGES_DPKG.argv,
    ("dpkg", "--list"): PACKAGES_DPKG.argv,
    ("rpm", "-qa"): PACKAGES_RPM.argv,
}
"""Lists of all packages that people paste, and the command with which the collector asks for the same. Of
a list that grep has cut it is not known what else is installed."""


class CommandAnswer(Struct, frozen=True):
    """The content of one file or command, and its lines in the text."""

    text: str
    lines: tuple[int, ...]  # one for each line of `text`; if contradicted, the lines of all answers
    contradicted: bool = False  # the text also shows a different content
    missing: str = ""  # "absent" or "denied", if a command printed that error
    title: str = ""  # what to call it, if no machine has such a file
    numbered: bool = True  # the title needs a line number


NOTHING = CommandAnswer("", ())
DEVINFO, NO_DEVICES = ("ibv_devinfo",), "No IB devices found"


class MachineOutputs(Struct, frozen=True):
    """All files and command outputs of one machine."""

    files: dict[str, CommandAnswer]  # by path without leading slash
    commands: dict[tuple[str, ...], CommandAnswer]
    modules: dict[str, int]  # loaded modules by name, with the line that shows it
    modinfo: dict[str, CommandAnswer]  # by module
    lsmod: int  # the line of a command whose complete output lists `modules`; 0 if there is none
    links: dict[str, CommandAnswer]  # what links in sysfs lead to
    whole: bool  # every PCI function and every RDMA device of the machine is listed


def outputs(lines: Iterable[TextLine]) -> MachineOutputs:
    """The files and command outputs among the lines of one machine."""
    return _Collector(tuple(lines)).outputs()


def _in_english(line: TextLine) -> TextLine:
    """A line with the errors of the C library in English, as facts expect them."""
    text = in_english(line.text) if line.kind in EVIDENCE else line.text
    return line if text is line.text else replace(line, text=text)


_SHOWN_FILE = regex(
    r"(?P<cmdline>BOOT_IMAGE=\S+ .*)|(?P<key>(?:kernel|vm)\.\w+) = (?P<value>\S+)"
    r"|/(?P<path>(?:sys|proc)/[\w./:-]+):(?P<content>\S.*)"
)
"""The boot parameters, as GRUB begins them; a row of sysctl; a row of `grep . FILE FILE`."""
OS_RELEASE = "etc/os-release"
_SYSTEM = regex(r"(?<![\w.-])\d{1,2}\.\d{1,3}\.\d{1,4}-(talos|flatcar)\b")
"""A release of a kernel that names its system; those of the other systems that boot an image are a number
alone, or their distribution's."""
_MODULE = regex(r"([a-z]\w+) +\d{3,} +-?\d+(?: +[\w,-]+)?(?: Live 0x\w+.*)?")
"""A row of lsmod or /proc/modules."""


_NOT_FOUND = regex(
    r"modprobe: .{0,20}Module \S{1,100} not found in directory \S{0,100}?/lib/modules/(\S{1,100})$"
)
RELEASE = "proc/sys/kernel/osrelease"


class _Collector:
    def __init__(self, lines: tuple[TextLine, ...]) -> None:
        self.lines = tuple(_in_english(line) for line in lines)
        self.evidence = tuple(line for line in self.lines if line.kind in EVIDENCE)
        self.blocks = blocks(self.lines)
        self.files: dict[str, CommandAnswer] = {}
        self.commands: dict[tuple[str, ...], CommandAnswer] = {}
        self.modules: dict[str, int] = {}
        self.modinfo: dict[str, CommandAnswer] = {}
        self.links: dict[str, CommandAnswer] = {}
        self.total: TextLine | None = None  # the last line of CmaTotal
        self.searched: CommandAnswer | None = None  # the release for which modprobe looked for a module

    def outputs(self) -> MachineOutputs:
        for block in self.blocks:
            self._block(block)
        self._modinfo()
        for line in self.evidence:
            self._line(line)
        if of_driver := next((line for line in self.lines if _is_of_driver_pod(line)), None):
            self.files.setdefault(CONTAINER, CommandAnswer("", (of_driver.number,)))
        if self.searched is not None:  # unless -S names another, that of uname(2): kmod tools/modprobe.c
            self.files.setdefault(RELEASE, self.searched)
        for module, numbers in absent_modules(self.blocks).items():
            for path in (f"sys/module/{module}", f"sys/module/{module}/initstate"):
                self.files.setdefault(path, CommandAnswer("", numbers, missing="absent"))
        for shown in rdma_files(self.evidence):
            if shown.is_link:
                self._add(self.links, shown.path, shown.content, (shown.line,))
            elif not (shown.path.endswith("/rate") and shown.path in self.files):  # tools round it
                self._add(self.files, shown.path, shown.content + "\n", (shown.line,))
        self._listings()
        self._logs()
        whole = lists_every_function(self.blocks) and (
            lists_every_device(self.blocks) or NO_DEVICES in self.commands.get(DEVINFO, NOTHING).text
        )
        lsmod = whole_listing(self.blocks)
        return MachineOutputs(
            self.files, self.commands, self.modules, self.modinfo, lsmod, self.links, whole
        )

    def _logs(self) -> None:
        """Add logs and manifests as files of a bundle."""
        kernel, _ = kernel_log(self.blocks, self.lines)
        if kernel:
            self.commands["dmesg",] = _numbered(kernel)
        for log in log_files(self.blocks, self.lines):
            answer = _numbered(log.lines)
            self.files[log.path] = replace(answer, title=log.title, numbered=log.numbered)
        for number, text in manifests(self.lines).items():
            lines = tuple(range(number, number + text.count("\n")))
            self.files[f"{kubernetes.FOLDER}/line-{number}.yaml"] = CommandAnswer(
                text, lines, title=f"kubernetes at line {number}", numbered=False
            )

    # -- outputs of commands ---------------------------------------------------------------------------

    def _block(self, block: Block) -> None:
        program, *arguments = block.argv or ("",)
        text = "\n".join(line.text for line in block.lines)
        numbers = tuple(line.number for line in block.lines) or (block.number,)
        if any(line.cut for line in block.lines):
            return
        if (
            program
            and not block.filtered
            and text
            and program not in MERGED_COMMANDS
            and not _is_error(text)
        ):
            self._add(self.commands, block.argv, text + "\n", numbers)
        if block.argv in PACKAGES and block.ended and not block.filtered and block.lines:
            self._add(self.commands, PACKAGES[block.argv], text + "\n", numbers)
        paths = [word for word in arguments if not word.startswith("-")]
        if program == "cat" and len(paths) == 1 and paths[0].startswith("/") and not block.filtered:
            path = paths[0].strip("/")
            if ONE_LINE_FILES.fullmatch(path) and text and not _is_error(text):
                content = _content(path, block)
                self._add(self.files, path, content, numbers[: content.count("\n")])
            elif path == OS_RELEASE and "ID=" in text:
                self._add(self.files, path, text + "\n", numbers)
        elif program == "uname" and arguments == ["-r"] and len(block.lines) == 1:
            self._add(self.files, RELEASE, text.strip() + "\n", numbers)
        elif program == "hostname" and not arguments and len(block.lines) == 1:
            self._add(self.files, "proc/sys/kernel/hostname", text.strip() + "\n", numbers)
        elif program == "modinfo" and arguments[:1] in (["-F"], ["--field"]) and len(arguments) == 3:
            self._field(block, arguments[1], canonical(arguments[2]))

    def _field(self, block: Block, field: str, module: str) -> None:
        """Add `modinfo -F depends MODULE`: an empty output counts if a later line shows it is complete."""
        if len(block.lines) == 1 and ": " not in block.lines[0].text:
            value = block.lines[0].text.strip()
        elif not block.lines and block.ended:
            value = ""
        else:
            return
        name = module.rpartition("/")[2].partition(".ko")[0]
        lines = tuple(line.number for line in block.lines) or (block.number,)
        known = self.modinfo.get(name)
        if known is not None and not known.contradicted and f"{field}: " not in known.text:
            self.modinfo[name] = CommandAnswer(f"{known.text}{field}: {value}\n", (*known.lines, *lines))
        else:
            self._add(self.modinfo, name, f"{field}: {value}\n", lines)

    def _modinfo(self) -> None:
        """Add outputs of modinfo, each from its `filename:` line, or of a command that names the module."""
        for block in self.blocks:
            if block.argv[:1] == ("modinfo",) and len(block.argv) == 2 and block.lines:
                fields = [line for line in block.lines if _modinfo_field(line)]
                if fields and not any(line.text.startswith("filename:") for line in fields):
                    self._add_modinfo(canonical(block.argv[1]), fields)
        group: list[TextLine] = []
        for line in (*self.evidence, TextLine(0, "filename:", "machine")):
            if line.text.lstrip("`").startswith("filename:"):
                if group:
                    self._add_modinfo(_name(group), group)
                group = [line]
            elif group and line.typed_at == group[0].typed_at and _modinfo_field(line):
                group.append(line)

    def _add_modinfo(self, name: str, fields: list[TextLine]) -> None:
        lines = [line for line in fields if not line.cut]
        if name and lines:
            pairs = (line.text.strip().partition(":") for line in lines)
            text = "".join(f"{key}: {value.strip()}\n" for key, _, value in pairs)
            self._add(self.modinfo, name, text, tuple(line.number for line in lines))

    def _listings(self) -> None:
        for argv, (text, lines) in (
            (("lspci",), lspci_text(self.blocks, self.evidence)),
            (("nvidia-smi", "-q"), smi_text(self.blocks, self.evidence)),
            (("ibv_devinfo",), self._ibv_devinfo()),
        ):
            if text:
                self.commands[argv] = CommandAnswer(text, lines)

    def _ibv_devinfo(self) -> tuple[str, tuple[int, ...]]:
        found = [line for line in self.evidence if re.match(r"hca_id:|\s+[\w ]+:\s+\S", line.text)]
        start = next((i for i, line in enumerate(found) if line.text.startswith("hca_id:")), None)
        if start is None:
            return "", ()
        own_lines = [line for line in found[start:] if line.typed_at == found[start].typed_at]
        return "\n".join(line.text for line in own_lines), tuple(line.number for line in own_lines)

    # -- single lines ----------------------------------------------------------------------------------

    def _line(self, line: TextLine) -> None:
        text = line.text.strip()
        if line.cut:
            return
        if found := _SYSTEM.search(text):
            self._add(self.files, OS_RELEASE, f"ID={found[1]}\n", (line.number,))
        if (found := _MODULE.fullmatch(text)) and _lists_modules(line.command):
            self.modules.setdefault(canonical(found[1]), line.number)
        elif text in ("SecureBoot enabled", "SecureBoot disabled"):
            self._add(self.commands, ("mokutil", "--sb-state"), text + "\n", (line.number,))
        elif text.startswith("NVRM version: "):
            self._add(self.files, "proc/driver/nvidia/version", text + "\n", (line.number,))
        elif re.match(
            r"Linux \S+ \d+\.\d+\S* #\d+.* GNU/Linux$|Linux \S+ \d+\.\d+\S* #\d+.*(?:x86_64|aarch64)", text
        ):
            self._add(self.commands, ("uname", "-a"), text + "\n", (line.number,))
            self._add(self.files, RELEASE, text.split()[2] + "\n", (line.number,))
        elif found := re.search(r"(?:^|\] )(Linux version \d\S* .*)", text):
            self._add(self.files, "proc/version", found[1] + "\n", (line.number,))
        elif found := re.search(r"\] Kernel command line: (.+)", text):
            self._add(self.files, "proc/cmdline", found[1] + "\n", (line.number,))
        elif found := _NOT_FOUND.search(text):
            self.searched = CommandAnswer(found[1] + "\n", (line.number,))
        elif found := _SHOWN_FILE.fullmatch(text):
            self._shown_file(found, line.number)
        elif found := re.match(
            r"(?:cat|ls|grep|head): .*?'?(/[\w./:-]+)'?: (No such file|Permission denied)", text
        ):
            missing = "absent" if found[2].startswith("No") else "denied"
            self.files.setdefault(found[1].strip("/"), CommandAnswer("", (line.number,), missing=missing))
        elif text.startswith("CmaTotal:"):
            self.total = line
        elif text.startswith("CmaFree:") and self.total is not None:  # the two lines that are read of it
            memory = f"{self.total.text.strip()}\n{text}\n"
            self._add(self.files, MEMINFO, memory, (self.total.number, line.number))
            self.total = None
        elif "dmesg: read kernel buffer failed" in text:
            self.commands.setdefault(("dmesg",), CommandAnswer("", (line.number,), missing="denied"))

    def _shown_file(self, found: re.Match[str], number: int) -> None:
        """Add a file of one line: of sysctl, of grep with names of files, or the boot parameters."""
        if found["cmdline"]:
            path, content = "proc/cmdline", found["cmdline"]
        elif found["key"]:
            path, content = f"proc/sys/{found['key'].replace('.', '/')}", found["value"]
        else:
            path, content = found["path"], found["content"]
        if ONE_LINE_FILES.fullmatch(path):
            self._add(self.files, path, content + "\n", (number,))

    def _add(self, table: dict, key: object, text: str, lines: tuple[int, ...]) -> None:  # type: ignore[type-arg]
        """Add an answer; mark it as contradicted if an earlier one differs."""
        old = table.get(key)
        if old is None or old.missing:
            table[key] = CommandAnswer(text, lines)
        elif old.text.split() != text.split() and not _is_part(old.text, text):
            both = tuple(sorted({*old.lines, *lines}))
            table[key] = CommandAnswer(old.text, both, contradicted=True)
        elif len(text) > len(old.text):
            table[key] = CommandAnswer(text, lines, old.contradicted)


def _numbered(lines: Mapping[int, str]) -> CommandAnswer:
    """An answer made of numbered lines."""
    numbers = tuple(sorted(lines))
    return CommandAnswer("".join(f"{lines[number]}\n" for number in numbers), numbers)


def _is_of_driver_pod(line: TextLine) -> bool:
    """Whether a line asks for a log of the GPU Operator's driver pod, or is the first of its own."""
    asks = line.kind == "typed" and "logs" in line.text and any(pod in line.text for pod in DRIVER_PODS)
    return asks or (line.kind in EVIDENCE and "= NVIDIA Software Installer =" in line.text)


def _lists_modules(command: str) -> bool:
    return not command or any(word in command for word in ("lsmod", "proc/modules", "grep"))


_FIELDS = (
    "filename version depends vermagic license signer srcversion parm name alias sig_id sig_key sig_hashalgo"
    " signature retpoline description author intree rhelversion supported firmware softdep import_ns"
)


def _modinfo_field(line: TextLine) -> bool:
    key, colon, _ = line.text.strip().partition(":")
    return bool(colon) and key in _FIELDS.split()


def _name(fields: list[TextLine]) -> str:
    """The module that an output of modinfo describes: its `name`, else the name of its file."""
    values = dict(line.text.strip().partition(":")[::2] for line in reversed(fields))
    return canonical(
        values.get("name", "").strip() or values["filename"].rpartition("/")[2].partition(".ko")[0].strip()
    )


def _content(path: str, block: Block) -> str:
    """The content of a file: one line of nearly all of them, since unrelated text may follow."""
    lines = block.lines if path.startswith("proc/driver/") else block.lines[:1]
    return "".join(line.text + "\n" for line in lines)


def _is_part(one: str, other: str) -> bool:
    """Whether one output is a filtered copy of the other."""
    few, many = sorted((set(one.splitlines()), set(other.splitlines())), key=len)
    return few <= many


def _is_error(text: str) -> bool:
    return text.startswith(("cat: ", "bash: ", "-bash: ", "sudo: ")) or text.endswith(
        ("not permitted", "ermission denied", "command not found", "No such file or directory")
    )
