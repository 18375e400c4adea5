"""Classify one line of a pasted text by its form."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import dropwhile, islice

from msgspec import Struct

from gdrkit.formats import rdma_topo_check
from gdrkit.formats.container_log import BOX_END, BOX_START, REPEATED
from gdrkit.formats.month import MONTH
from gdrkit.formats.regex import regex
from gdrkit.formats.sentences import ENGLISH, has_words_of_others

_LETTERS = {
    **str.maketrans("\u2018\u2019\u201b\u201c\u201d\u201f\u00a0\u2007\u202f", "'''\"\"\"   "),
    **dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2212"), "-"),
    ord("\u2014"): "--",
    **dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff\x00\x01\x02\x07"), None),
    **dict.fromkeys(map(ord, "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"), " "),
}
"""Typographic quotation marks, dashes and spaces that web pages insert, and characters that end a line."""

COMMANDS = {
    "modprobe", "insmod", "rmmod", "modinfo", "lsmod", "dmesg", "journalctl", "lspci", "setpci", "lscpu",
    "uname", "hostname", "mokutil", "cat", "zcat", "head", "tail", "grep", "egrep", "zgrep",
    "nvidia-smi", "ibv_devinfo", "ibv_devices", "ibstat", "ibstatus", "ibdev2netdev", "rdma",
    "rdma_topo", "ofed_info", "ucx_info", "dkms", "ls", "strings", "nm", "find", "ethtool", "kubectl",
    "oc", "talosctl", "docker", "podman", "ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_write_lat",
    "ib_read_lat", "ib_send_lat", "mpirun", "srun", "ssh", "strace", "systemctl", "getenforce", "sysctl",
    "show_gids", "mlnx_qos", "mlxlink", "mlxconfig", "dcb", "env", "ulimit", "apt", "dnf", "yum", "rpm",
    "dpkg", "gdr",
}  # fmt: skip
"""Programs that make a line a command even without a prompt."""


NO_NAMES = frozenset((
    "host", "node", "server", "client", "machine", "box", "worker", "container", "pod", "vm", "guest",
    "user", "root", "admin", "shell", "sh", "bash", "zsh",
))  # fmt: skip
"""Words before the sign of a prompt that name no machine: many machines of a text may be meant."""


LINE_CHARACTERS = 4096
"""Length at which a line is cut. The longest output of these programs is a kernel message of 2048
characters, prefix included: Linux include/linux/printk.h, PRINTK_MESSAGE_MAX."""


class TypedCommand(Struct, frozen=True):
    """A command line, and the machine at whose prompt it was typed."""

    command: str  # "" at a prompt where nothing was typed
    host: str = ""
    prompted: bool = True  # a prompt precedes it


# Prefixes of a line: kernel time stamps (dmesg -r, -x, -T), syslog and ISO dates, klog, launchers'
# tags (mpirun, srun -l, Ray, docker compose), kubectl --prefix.
STAMP = (
    r"(?:<\d+>|\w+ {0,8}: ?\w+ {0,8}: (?=\[)|\[ *\d+\.\d+\] ?|\[ *[CT]\d+\] ?"
    r"|\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d [\d:]{8} \d{4}\] ?"
    r"|\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]? (?:\w+ )?"
    rf"|(?:{MONTH} [ \d]\d [\d:]{{8}}(?:\.\d+)? )[\w.-]+ [\w.@()/-]+(?:\[\d+\])?: (?=\S)"
    r"|[IWEF]\d{4} [\d:]{8}\.\d+ +\d+ \S+\] |\[\d+,\d+\]<\w+>: ?|\([^()]{0,60}pid=\d+[^()]{0,60}\) ?"
    r"|\d{1,4}: (?=\S)|[\w./-]+ +\| |\[(?:pod/)?[\w./-]+\] (?=\S))"
)
_CORE = (
    r"(?:sudo: )?(?:modprobe|insmod|rmmod|modinfo|libkmod|depmod): (?:ERROR|FATAL|WARNING)"
    r"|(?:(?:<[\w .-]+>|[\w.-]*):(?:\d+|X+):(?:\d+|X+) \[-?\d+\] )(?:\S+ ){0,3}NCCL (?:[A-Z]{4,5}|version)\b"
    r"|[\w.-]*:\d+ NCCL DIAG "
    r"|(?:\[-?\d+\] )?(?:[\w./-]+\.(?:cc|cu|c|h):\d+ )?(?:\(\w+\) )?NCCL (?:INFO|WARN|ATTN|TRACE|version) "
    r"|[\w./-]{1,200}\.(?:cpp|cu):(?:\w{1,80}:)?\d{1,5}: \S"  # NVSHMEM's errors, and those of compilers
    r"|terminate called after throwing an instance of |what\(\): "
    r"|NET/(?:IB|Plugin|OFI|Socket) ?: ?[A-Z]|(?:Channel|Ring) \d+(?:/\d+)? : \d+\[\w+\] -> "
    r"|(?:kernel: )?NVRM: |nvidia-peermem \w+:\d+ |nvidia-fs:|gdrdrv:"
    r"|(?:nvidia(?:[-_]\w+)?|nv_peer_mem|mlx\w+|ib_\w+|rdma_\w+|gdrdrv|irdma|bnxt_re)"
    r"(?: [\da-f]{4}:[\da-f]{2}:[\da-f]{2}\.\d)?: \S"
    r"|(?:nvidia-peermem-ctr:? )?(?:\+ )?chroot /run/nvidia/driver modprobe "
    r"|Module [\w-]+ not found$"
    r"|Error from server(?: \(\w+\))?: "
    r"|Loading of (?:unsigned )?module |Lockdown: \S+: |Module [\w-]+ is blacklisted|Invalid ELF "
    r"|Linux version \d|Linux \S+ \d+\.\d+\S* #\d|SecureBoot (?:en|dis)abled|Secure [Bb]oot (?:en|dis)abled"
    r"|Couldn't allocate MR|[Ff]ailed to create [mM][rR]\b|DMA-BUF is not supported|DMABUF requested"
    r"|CUDA device (?:\d+: PCIe|integrated:)|\[pid = \d+, dev = \d+\]|OFED stack does not support"
    r"|Perftest (?:doesn't )?supports |WARNING: BW peak won't be |\*{36}$|Couldn't create IB resources"
    r"|Using DMA-BUF for GPU buffer |Conflicting CPU frequency values detected: |Max msg size in RDMA READ "
    r"|Failed to insert module '|[Ff]ailed to load nvidia-peermem|waiting for mellanox ofed"
    r"|nvidia-peermem module |successfully loaded nvidia-peermem|Failed to initialize NVML"
    r"|NVRM version: |libibverbs: |cat: /|ls: cannot access|grep: /"
    r"|(?:ERROR: )?Unable to load the kernel module '|error loading module |load [\w-]+ failed: "
    r"|(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7]"
    r"(?: [A-Z0-9]|[: ]?\s*(?:Lnk|ACS|Dev)(?:Cap|Sta|Ctl)2?:)"
    r"|GPU [0-9A-F]{8}:[0-9A-F]{2}:|GPU \d+: .*\(UUID: |\| +\d+ +(?:NVIDIA|Tesla|Quadro|GeForce|GRID|TITAN) "
    r"|(?:filename|version|depends|vermagic|license|signer|srcversion|parm|name|sig_\w+|retpoline):(?:\s|$)"
    r"|[A-Za-z]\w+ +\d{3,} +-?\d+(?: +[\w,]+)?$|Module +Size +Used by"
    r"|CA '[\w.-]+'$|Infiniband device '[\w.-]+' port \d+ status:"
    r"|hca_id:|\s++(?:(?:CA type|Number of ports|Firmware version|(?:Node|System image|Port) GUID"
    r"|Link layer|Physical state|Base lid): |State: (?:Active|Down|Initializing|Armed)\b|Port \d+:$"
    r"|(?:LnkCap|LnkSta|ACSCtl|ACSCap|DevCtl|Kernel driver in use|Region \d|Capabilities):)"
    r"|\w{1,40}\.(?:c|cc|h|inl):\d{1,5} {1,8}UCX {1,8}[A-Z]{4,5} "  # ucs_log() without a time
    r"|\|? {0,40}+[\w .-]{0,60}(?:inter-node|intra-node|self) cfg#\d+"  # UCX_PROTO_INFO
    r"|\| {0,8}(?:remote memory (?:write|read)|(?:\w+ )?\w+ message) by ucp_"
    r"|\| {0,8}rendezvous data (?:send|fetch|drop)\b"
    r"|\|(?: *\d+ *\|)? *(?:\d+ +)?\d+[KMG]?(?:\.\.(?:inf|\d+[KMG]?))? +\| [(\w]"
    rf"|{rdma_topo_check.BEGINNING}"
    r"|finit_module\(|init_module\(|ibv_(?:create|reg|open|modify)\w+\(?\)? "
)
_FIELD = (
    r"(?:(?:Lnk|ACS|Dev)(?:Cap|Sta|Ctl)2?|Kernel driver in use|Kernel modules|Region \d|NUMA node"
    r"|IOMMU group|Subsystem|Physical Slot):"
)
"""A field of `lspci -vv` that a reader uses, or that ends one."""
_PATTERNS = {
    "box_start": regex(BOX_START),
    "box_end": regex(BOX_END),
    "quotation": regex(r"(?:\s{0,3}>)+(?: |$)(?P<text>.*)"),
    "bar": regex(r"\s{0,3}\| ?(?=[\w$#\[(<./~])(?!.*\|\s*$)"),
    "prompt": regex(
        # Of a path and of blanks nothing is given back: each of 80 lengths would be tried with all blanks.
        r"\s*`?(?:\([\w.-]+\)\s*)?"  # (base)
        r"(?:\[?(?P<user>[\w.-]+)@ ?(?P<host>[\w.-]+)(?::? ?|\s)(?P<path>[^\]$#%>]{0,80}+)\]?\s?[:>]?\s*+"
        r"|(?P<bare>[a-z][\w.-]{1,40}):?(?=[$#] ))?"  # PS1='\h$ ', or shortened by who posts it
        r"(?P<sign>[$#%>])\s+(?P<command>(?:\w+=\S* )*[a-z./~][\w./-]*(?:[\s|;&].*)?)`?$"
    ),
    "empty_prompt": regex(
        r"\s*(?:\([\w.-]+\)\s*)?\[?[\w.-]+@ ?(?P<host>[\w.-]+)(?::? ?|\s)[^\]$#%>]{0,80}+\]?\s?[:>]?\s*+"
        r"[$#%>]\s*$|\s*[$#]\s*$"
    ),
    # Without a user: a folder, or a digit as the names of hosts have, tells it from a sentence.
    "host_prompt": regex(
        r"\s*\[?(?P<host>[A-Za-z](?=[\w.-]*(?:\d|[: ][~/]))[\w.-]{1,60})"
        r"(?P<path>[: ][~/][^\]$#%>\s]{0,80})?\]? ?[$#]"
        r"(?:\s+(?P<command>[a-z./~][\w./-]*(?:[\s|;&].*)?))?\s*$"
    ),
    "fish": regex(r"\s*(?P<user>[\w.-]+)@(?P<host>[\w.-]+) [~/]\S{0,60}> (?P<command>[a-z./].*)$"),
    "machine": regex(rf"(?:\s{{0,16}}(?:#|//) ?)?\s{{0,16}}(?:{STAMP})*(?:{_CORE})"),
    "record": regex(
        r"\s{0,8}(?:\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d|[IWEF](?:\d{4}){1,2} \d\d:\d\d:\d\d)"
    ),
    "row": regex(r"\s{0,8}\S.{0,80}? {2,}\S.{0,80}? {2,}\S.{0,80}? {2,}\S"),
    "kernel": regex(
        r"\s{0,16}(?:(?:<\d+>|\w+ {0,8}: ?\w+ {0,8}: )?(?:\[ *\d+\.\d+\]"
        r"|\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d [\d:]{8} \d{4}\])"
        rf"|(?:{MONTH} [ \d]\d [\d:]{{8}}(?:\.\d+)?|\d{{4}}-\d\d-\d\dT\S+) "
        r"[\w.-]+ [\w.@()/-]+(?:\[\d+\])?: )"
    ),
    "listing": regex(
        r"\s*(?:GPU [0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]$|=+ ?NVSMI LOG ?=+|hca_id:"
        r"|Infiniband device '[\w.-]+' port|CA '[\w.-]+'$"
        r"|(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7] (?:[A-Z]|3D )[^:]{3,60}: \S)"
    ),
    "time": regex(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d) "
        r"(?:(?:stdout|stderr) [FP] |(?=GPU \d)|(?![\w.-]+ (?:[a-z(/][\w.@()/-]*|[\w.@()/-]+\[\d+\]): ))"
    ),
    "domain": regex(r"#(?: Memory domain: \S|  ?< (?:failed|no) |\s{5,20}[A-Za-z<][\w ]{2,30}[:>])"),
    "column": regex(r"[A-Z][\w ./()-]{1,50} {2,}: "),
    "flattened": regex(
        r"\s*(?P<address>(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7])[: ]?\s"
        rf"(?:.{{0,200}}?\s)??(?P<fields>{_FIELD}.*)"
    ),
    "field": regex(rf"\s(?={_FIELD})"),
    "comment": regex(r"^\s*(?:#|//) ?(?=\S)"),
    "arrow": regex(r"(?<!\s)(?:\s++(?:\u2190|<--|<==|\u25c4)|\s{2,}+<-\s).*$"),
    "emphasis": regex(r"\*\*(?=\S)([^*]{1,400}?)(?<=\S)\*\*"),
    "colour": regex(r"\x1b\[[0-9;?]*[A-Za-z]"),
    "repeated": regex(REPEATED),
    "advice": regex(
        r"\bif (?:you|it|that|this|modprobe|the \w+)\b.{0,40}\b(?:see|get|says|prints|fails|shows|encounter)"
        r"|\byou (?:may|might|should|will|would|could) (?:also )?(?:then )?"
        r"(?:see|get|find|run|try|add|use)\b"
        r"|\b(?:expected|sample|example|typical) (?:error|output|message|log|result)s?\b"
        r"|\bcommon(?:ly)? (?:error|seen|message)s?\b"
        r"|\b(?:would|should|ought to) (?:say|print|show|fail|look)"
        r"|\b(?:for example|for instance|e\.g\.|such as|something like|instead of)[^.]*:$"
        r"|\b(?:known|possible) errors?\b.*:$|\btroubleshooting\b",
        re.IGNORECASE,
    ),
}


def clean(raw: str) -> str:
    """A line without colours, emphasis, typographic characters, and annotations after an arrow."""
    text = raw.removesuffix("\r")
    if "\x1b" in text:
        text = _PATTERNS["colour"].sub("", text)
    text = text.rpartition("\r")[2].translate(_LETTERS)
    if "**" in text:
        text = _PATTERNS["emphasis"].sub(r"\1", text)  # Markdown's emphasis is not the program's
    if "repeated " in text:
        text = _PATTERNS["repeated"].sub(r"\g<line>", text)
    if "\u2190" in text or "<-" in text or "<=" in text or "\u25c4" in text:
        text = _PATTERNS["arrow"].sub("", text)
    text = text.rstrip()
    if (inside := _PATTERNS["box_end"].sub("", text)) != text:
        text = _PATTERNS["box_start"].sub("", inside)
    if text.endswith("`") and text.lstrip().startswith("`") and not is_fence(text):
        text = text.strip().strip("`")  # a line of inline code
    return text


def fields_apart(text: str) -> tuple[str, ...]:
    """A line of lspci, and below it each of its fields, if it begins with a device and has any: loops in a
    shell print the fields of a device on one line. The text alone if it is another line."""
    if not (found := _PATTERNS["flattened"].match(text)):
        return (text,)
    fields = (field.strip() for field in _PATTERNS["field"].split(found["fields"]))
    return (
        f"{found['address']} {text[found.end('address') :].lstrip(': ')}",
        *(f"\t{one}" for one in fields),
    )


FENCES = ("```", "~~~", "[code]", "[/code]")


def is_fence(text: str) -> bool:
    """Whether a line opens or closes a code block, in Markdown or in forum tags."""
    return text.lstrip().startswith(FENCES)


def begins_in_code(lines: Sequence[str]) -> bool:
    """Whether a text was cut within a code block: its first fence has text right above it, not below."""
    first = next((index for index, line in enumerate(lines) if is_fence(line)), 0)
    below = "".join(lines[first + 1 : first + 2])
    return (
        first > 0 and bool(lines[first - 1].strip()) and not lines[first].strip(" `~") and not below.strip()
    )


def without_quotation_mark(text: str) -> str | None:
    """The text after every `>`; None if the line is not a quotation."""
    if not text.lstrip().startswith(">"):
        return None
    found = _PATTERNS["quotation"].match(text)
    return found["text"] if found else None


def quoted_by_arrows(lines: list[str]) -> list[str]:
    """The lines, where those that mail quotes by `| ` have `> ` in its place. A row of a table has
    a bar at its end; a drawing has other signs behind the first one."""
    marked = [_PATTERNS["bar"].match(line) is not None for line in lines]
    beside = [above or below for above, below in zip((False, *marked), (*marked[1:], False), strict=False)]
    both = zip(lines, marked, beside, strict=True)
    return [line.replace("|", ">", 1) if here and near else line for line, here, near in both]


MOST_COMMANDS = 2
"""Lines without a time in a log with times at most: the command that printed it, and the next prompt."""
MOST_QUOTATIONS = 8
"""Quotations within quotations at most; a line with more marks was made to keep a reader busy."""


def without_common_quotation(lines: list[str]) -> list[str]:
    """The lines without the quotation mark that all of them have: a paste, and not a conversation."""
    for _ in range(MOST_QUOTATIONS):
        shown = [line for line in lines if line.strip()]
        if len(shown) < 2 or not all(line.lstrip()[:1] == ">" for line in shown):
            break
        lines = [line.lstrip()[1:].removeprefix(" ") for line in lines]
    return lines


def without_common_time(lines: list[str]) -> list[str]:
    """The lines without the time that kubectl, docker or a container runtime put before all of them, the
    commands of a person apart. What syslog puts there as well stays: it names a machine. A program's name
    with a capital letter has a process id there, so `Domain State: UP` is not of syslog."""
    shown = [line for line in lines if line.strip()]
    untimed = (None for line in shown if _PATTERNS["time"].match(line) is None)
    others = sum(1 for _ in islice(untimed, MOST_COMMANDS + 1))
    if others > MOST_COMMANDS or len(shown) - others < 2:
        return lines
    return [_PATTERNS["time"].sub("", line, count=1) for line in lines]


def typed(text: str) -> TypedCommand | None:
    """The command in a line: after a prompt, or starting with the name of a known program; else None."""
    if any(sign in text for sign in "$#%>"):
        found = _PATTERNS["fish"].match(text) or _PATTERNS["prompt"].match(text)
        bare = found.groupdict().get("bare") if found is not None else None
        host = (found["host"] or bare or "") if found is not None else ""
        if found is not None and (host or found["sign"] in "$%" or _is_command(found["command"])):
            return TypedCommand(found["command"].strip().rstrip("`"), _named(host))
        if found is None and (named := _PATTERNS["host_prompt"].match(text)) is not None:
            command = (named["command"] or "").strip()
            if named["path"] or _is_command(command):
                return TypedCommand(command, _named(named["host"]))
        empty = _PATTERNS["empty_prompt"].match(text) if found is None else None
        if empty is not None:
            return TypedCommand("", empty["host"] or "")
    command = text.strip(" `")
    if _is_command(command) and not is_machine(text):
        return TypedCommand(command, prompted=False)
    return None


def _named(host: str) -> str:
    """The host of a prompt; "" if its word names no machine."""
    return "" if host in NO_NAMES else host


def _is_command(text: str) -> bool:
    """Whether words start with a known program and are not an English sentence."""
    words = list(dropwhile(lambda word: word == "sudo" or "=" in word, text.split()))
    if not words or words[0].rpartition("/")[2] not in COMMANDS or words[-1].endswith((".", "?", ",")):
        return False
    plain = {word.lower().strip(",") for word in words[1:]}
    return not plain & ENGLISH and not has_words_of_others(text)


def is_machine(text: str) -> bool:
    """Whether a line has the form of a known program's output."""
    return _PATTERNS["machine"].match(text) is not None or _PATTERNS["kernel"].match(text) is not None


def is_record(text: str) -> bool:
    """Whether a line begins as that of a log: with a date and a time, or klog's level and date."""
    return _PATTERNS["record"].match(text) is not None


def is_row(text: str) -> bool:
    """Whether a line has columns, as a row of a table has, and no sentence."""
    return _PATTERNS["row"].match(text) is not None


def lists_domains(text: str) -> bool:
    """Whether a line is of `ucx_info -d`, which prints its tree behind the mark of a comment."""
    return text.startswith("#") and _PATTERNS["domain"].match(text) is not None


_LISTING_STARTS = set("0123456789abcdefCGhI=")


def opens_listing(text: str) -> bool:
    """Whether a line starts an output whose other lines are indented below it."""
    return text.lstrip()[:1] in _LISTING_STARTS and _PATTERNS["listing"].match(text) is not None


def continues_listing(text: str) -> bool:
    """Whether a line is indented, or has its colon far from its key as in `nvidia-smi -q`."""
    return text[:1] == "\t" or text[:2] == "  " or _PATTERNS["column"].match(text) is not None


def is_kernel_line(text: str) -> bool:
    """Whether a line has a prefix that dmesg or syslog puts before kernel messages."""
    return _PATTERNS["kernel"].match(text) is not None


def without_comment_mark(text: str) -> str:
    """A line without the comment mark that was put before pasted output."""
    if text.lstrip()[:1] in ("#", "/") and not text.lstrip().startswith("/proc"):
        return _PATTERNS["comment"].sub("", text, count=1)
    return text


def is_advice(text: str) -> bool:
    """Whether a sentence describes what may be printed, so that what it quotes was perhaps never printed."""
    return _PATTERNS["advice"].search(text.strip()) is not None
