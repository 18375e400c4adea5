"""GPUs and PCI devices in pasted outputs, converted to `nvidia-smi -q` and `lspci -vvv`.

`nvidia-smi` prints the same GPUs as a table, as a list (-L), as CSV and in full (-q); perftest lists them
too. All are converted to the form of -q. In an excerpt of `lspci -vvv` only GPUs keep their details: the
details of bridges and other devices are meaningful only if the whole tree is shown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import Struct

from gdrkit.explain.lines.blocks import Block
from gdrkit.explain.lines.line import continues_listing
from gdrkit.explain.lines.transcript import TextLine
from gdrkit.facts import gpu_ids
from gdrkit.facts.nvidia_smi import without_handle
from gdrkit.formats.gpu_listing import cuda_gpu_in, rank_gpu_in, smi_gpu_in
from gdrkit.formats.regex import regex
from gdrkit.formats.whole_number import whole_number

NO_ADDRESS = "FFFF"
"""PCI domain of a GPU of which only the number is known; the bus is that number. No machine uses this
domain: PCI segment groups are numbered from 0 (ACPI specification 6.5, 6.5.6 _SEG)."""
OF_CUDA = "FFFE"
"""The same for CUDA's number, which need not be nvidia-smi's: CUDA puts the fastest GPU first."""

NAME = "Product Name"
NumberedText = tuple[str, tuple[int, ...]]
"""A text, and the number of each of its lines in the pasted text."""
_DEVICE = regex(r"((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7]) [A-Z0-9]")
_KINDS = regex(r"(?i:controller|bridge|memory|device|accelerator)[^:]*: ")


def gpu_label(address: str) -> str:
    """What to call a GPU: its address, or `GPU 3` or `CUDA device 3` if only its number is known."""
    domain, _, rest = address.partition(":")
    what = {NO_ADDRESS: "GPU", OF_CUDA: "CUDA device"}.get(domain.upper())
    return address if what is None else f"{what} {int(rest[:2], 16)}"


# -- lspci ---------------------------------------------------------------------------------------------


def lspci_text(blocks: tuple[Block, ...], lines: tuple[TextLine, ...]) -> NumberedText:
    """One listing of all PCI devices that are shown; empty if no NVIDIA GPU is among them.

    A listing without a GPU means that the machine has none, unless it may be an excerpt."""
    devices: dict[str, list[TextLine]] = {}
    for title, below in _devices(lines):
        address = _full_address(title.text)
        earlier = devices.get(address)
        if earlier is not None and _title(earlier[0]) != _title(title):
            return "", ()  # two machines
        if earlier is None or len(below) + 1 > len(earlier):
            devices[address] = [title, *below]
    whole = lists_every_function(blocks)
    if not whole and not any(_is_gpu(found[0].text) for found in devices.values()):
        return "", ()
    kept = [found if whole or _is_gpu(found[0].text) else found[:1] for found in devices.values()]
    shown = [line for found in kept for line in found]
    return "".join(_flat(line) + "\n" for line in shown), tuple(line.number for line in shown)


def _devices(lines: tuple[TextLine, ...]) -> Iterable[tuple[TextLine, list[TextLine]]]:
    current: tuple[TextLine, list[TextLine]] | None = None
    for line in lines:
        words = line.text.lstrip()
        starts = _DEVICE.match(words)
        if starts and _KINDS.search(words):
            if current:
                yield current
            current = line, []
        elif (
            current
            and line.typed_at == current[0].typed_at
            and line.text[:1] in ("\t", " ")
            and ":" in line.text
        ):
            current[1].append(line)
        elif line.text[:1] not in ("\t", " "):
            if current:
                yield current
            current = None
    if current:
        yield current


def _full_address(text: str) -> str:
    found = _DEVICE.match(text.lstrip())
    address = found[1] if found else ""
    return address if address.count(":") == 2 else f"0000:{address}"


def _title(line: TextLine) -> str:
    """A device's name without the IDs that only -nn prints."""
    return re.sub(r" \[[0-9a-f]{4}(?::[0-9a-f]{4})?\]| \(rev .*", "", line.text.strip().partition(" ")[2])


def _is_gpu(title: str) -> bool:
    return ("NVIDIA" in title or "[10de:" in title) and (
        "3D controller" in title or "VGA compatible" in title
    )


def lists_every_function(blocks: Iterable[Block]) -> bool:
    """Whether the whole output of `lspci -v` is shown."""
    return any(_is_whole(block) for block in blocks)


def _is_whole(block: Block) -> bool:
    """Whether a block is the whole output of `lspci -v`: unfiltered, with a bridge as on every machine."""
    options = {letter for word in block.argv[1:] if word.startswith("-") for letter in word[1:]}
    if block.argv[:1] != ("lspci",) or block.filtered or not block.ended or options - set("nvkDPqk"):
        return False
    titles = [line.text for line in block.lines if _DEVICE.match(line.text)]
    return "v" in options and any("Host bridge" in title or "PCI bridge" in title for title in titles)


def _flat(line: TextLine) -> str:
    """A line of lspci with one tab or no indentation: a web page may have replaced tabs by spaces."""
    return line.text.lstrip() if _DEVICE.match(line.text.lstrip()) else "\t" + line.text.lstrip()


# -- nvidia-smi ----------------------------------------------------------------------------------------


def smi_text(blocks: tuple[Block, ...], lines: tuple[TextLine, ...]) -> NumberedText:
    """All GPUs that are shown, in the form of `nvidia-smi -q`; empty if there are none."""
    full = _full(lines)
    if full[0]:
        return full
    gpus: dict[str, list[tuple[str, int]]] = {}
    lost = _lost(lines)
    heads: list[tuple[str, int]] = []
    of_rank: dict[str, list[tuple[str, int]]] = {}
    by_cuda: dict[str, list[tuple[str, int]]] = {}
    for line in lines:
        version = re.search(r"Driver Version: *(\d+\.[\d.]+)", line.text)
        if version and "NVIDIA-SMI" in line.text:
            heads.append((f"Driver Version : {version[1]}", line.number))
        if (gpu := smi_gpu_in(line.text)) is not None:
            address = gpu.address or _by_number(gpu.number or 0)
            gpus.setdefault(address, []).append((gpu.name, line.number))
        elif (gpu := rank_gpu_in(line.text)) is not None:
            of_rank.setdefault(_long(gpu.address), []).append((gpu.name, line.number))
        elif (gpu := cuda_gpu_in(line.text)) is not None:
            by_cuda.setdefault(_long(gpu.address), []).append((gpu.name, line.number))
    for address, field, value, number in _of_csv(blocks):
        if field == NAME:
            gpus.setdefault(address, []).append((value, number))
        else:
            lost.setdefault(address, []).append((f"    {field} : {value}", number))
    for used in _of_perftest(lines):
        _add_used(gpus, used)
    gpus = gpus or by_cuda or _of_ranks(of_rank)
    for address, fields in _placed(_bare_fields(lines), gpus).items():
        lost.setdefault(address, []).extend(fields)
    gpus.update((address, []) for address in lost if address not in gpus)
    gpus = gpus or _of_machine(lines)
    if not gpus or any(len({name for name, _ in found}) > 1 for found in gpus.values()):
        return "", ()  # one address, two GPUs: two machines
    printed = heads
    for address, found in sorted(gpus.items()):
        trouble = lost.get(address, [])
        printed.append((f"GPU {address}", (found or trouble)[0][1]))
        printed += [(f"    {NAME} : {name}", number) for name, number in found]
        printed += trouble
    return "".join(f"{text}\n" for text, _ in printed), tuple(number for _, number in printed)


GB10 = gpu_ids.INTEGRATED["2e12"]
_WITH_GB10 = regex(
    r"(?P<titled>.{0,80}\bDMI: (?:\S{1,40} ){0,3}?|(?:Hardware Model|Product Name|Family): "
    r"|DGX_(?:PRETTY_)?NAME=\")?"
    r"(?:(?P<own>NVIDIA_DGX_Spark)\b|(?:NVIDIA )?DGX Spark\b|Dell Pro Max with GB10|HP ZGX Nano)"
)
"""Machines whose only GPU is a soldered GB10, as DMI and DGX OS call them: the kernel, hostnamectl,
dmidecode, /etc/dgx-release, product_name. Source of the names: github.com/canonical/secboot/pull/560."""


def _of_machine(lines: tuple[TextLine, ...]) -> dict[str, list[tuple[str, int]]]:
    """The GPU of a machine whose name shows which it has."""
    for line in lines:
        found = _WITH_GB10.match(line.text.strip())
        if found is not None and (found["titled"] or found["own"] or "product" in line.command):
            return {_by_number(0): [(GB10, line.number)]}
    return {}


_SECTIONS = {
    "BAR1 Memory Usage": regex(r"(?:Total|Used|Free)\s+: \d{1,9} MiB"),
    "Fabric": regex(r"(?:State|Status|CliqueId|ClusterUUID)\s+: \w[\w -]{0,40}"),
}
"""Sections of -q that people cut out, and the fields of each that are read."""
SECTION_LINES = 5
"""How many lines below its title a section's fields are at most."""
_ALONE = regex(rf"(?P<field>{NAME}|GPU Recovery Action) {{4,40}}: (?P<value>\w[^:]{{0,80}})")
"""Fields of -q that people, and commands that gdr asks for, cut out."""


def _bare_fields(lines: tuple[TextLine, ...]) -> dict[int, list[tuple[str, int]]]:
    """What an excerpt of -q without the headings of GPUs shows of each GPU, by its place: the n-th section
    or field of a kind is of the n-th GPU. Nothing if they need not be the output of one command."""
    found: dict[int, list[tuple[str, int]]] = {}
    before: dict[str, TextLine] = {}
    place: Counter[str] = Counter()
    for position, line in enumerate(lines):
        text = line.text.strip()
        alone = _ALONE.fullmatch(text)
        key = alone["field"] if alone else text
        if alone is None and text not in _SECTIONS:
            continue
        if before.setdefault(key, line).typed_at != line.typed_at or (place[key] and not line.command):
            return {}
        own = [(f"    {text}", line.number)]
        if alone is None:
            below = lines[position + 1 : position + 1 + SECTION_LINES]
            cut = next((n for n, one in enumerate(below) if one.text.strip() in _SECTIONS), SECTION_LINES)
            fields = [one for one in below[:cut] if _SECTIONS[text].fullmatch(one.text.strip())]
            own = [*own, *((f"        {one.text.strip()}", one.number) for one in fields)] if fields else []
        found.setdefault(place[key], []).extend(own)
        place[key] += 1
    return {number: own for number, own in sorted(found.items()) if own}


def _placed(
    bare: Mapping[int, list[tuple[str, int]]], listed: Mapping[str, object]
) -> dict[str, list[tuple[str, int]]]:
    """Fields by the address of their GPU: nvidia-smi lists all in the order of their addresses. Nothing if
    not as many are listed."""
    if listed and len(listed) != len(bare):
        return {}
    addresses = sorted(listed) or [_by_number(number) for number in bare]
    return dict(zip(addresses, bare.values(), strict=True))


_NO_MEMORY = regex(r"\s*\|[^|]*\|\s*ERR!\s*/\s*ERR!\s*\|")


def _lost(lines: tuple[TextLine, ...]) -> dict[str, list[tuple[str, int]]]:
    """What -q prints of GPUs that do not answer, by address: those without a handle, and those of whose
    memory the table has `ERR!`."""
    found: dict[str, list[tuple[str, int]]] = {}
    above = ""
    for line in lines:
        for address, (why, _) in without_handle(line.text).items():
            text = f"Unable to determine the device handle for GPU {address}: {why}"
            found[_long(address)] = [(text, line.number)]
        if above and _NO_MEMORY.match(line.text):
            memory = (("    FB Memory Usage", line.number), ("        Total : Unknown Error", line.number))
            found[above] = list(memory)
        gpu = smi_gpu_in(line.text)
        above = gpu.address if gpu is not None else ""
    return found


def _long(address: str) -> str:
    """An address with a domain of eight digits, as nvidia-smi prints it in headings."""
    domain, _, rest = address.upper().partition(":")
    return f"{domain.zfill(8)}:{rest}"


def _full(lines: tuple[TextLine, ...]) -> NumberedText:
    """Outputs of -q, from each `GPU 00000000:1B:00.0` on, without `Attached GPUs`: it may be an excerpt.

    If a GPU is printed twice (`-q`, then `-q -d MEMORY`), the longer output counts."""
    head: list[TextLine] = []
    printed: dict[str, list[list[TextLine]]] = {}
    current: list[TextLine] = []
    for line in lines:
        if re.fullmatch(r"\s*GPU [0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]", line.text):
            current = [line]
            printed.setdefault(line.text.strip().upper(), []).append(current)
        elif current and line.typed_at == current[0].typed_at and continues_listing(line.text):
            current.append(line)
        elif line.text.startswith("Driver Version") and not head:
            head = [line]
    if any(len({name for one in same if (name := _name(one))}) > 1 for same in printed.values()):
        return "", ()  # one address, two GPUs: two machines
    found = [line for same in printed.values() for line in max(same, key=len)]
    if not found:
        return "", ()
    shown = (*head, *found)
    return "".join(f"{line.text}\n" for line in shown), tuple(line.number for line in shown)


def _name(lines: list[TextLine]) -> str:
    """The GPU's name in its section of `-q`; "" if it is not shown."""
    names = (re.match(r"\s*Product Name\s*: *(.+)", line.text) for line in lines)
    return next((name[1] for name in names if name), "")


_FIELDS = {"name": NAME, "gpu_name": NAME, "gpu_recovery_action": "GPU Recovery Action"}
"""What -q calls the columns that are read here: nvidia-smi --help-query-gpu."""
_INDEXED = ("index", "pci.bus_id", "gpu_bus_id")


def _of_csv(blocks: tuple[Block, ...]) -> Iterable[tuple[str, str, str, int]]:
    """Address, field of -q, value and line number of each value that `nvidia-smi --query-gpu=name,pci.bus_id
    --format=csv` prints."""
    for block in blocks:
        query = next((word for word in block.argv if word.startswith("--query-gpu=")), "")
        columns = query.partition("=")[2].split(",")
        if block.argv[:1] != ("nvidia-smi",) or _FIELDS.keys().isdisjoint(columns):
            continue
        rows = [line for line in block.lines if line.text.count(",") == len(columns) - 1]
        rows = [line for line in rows if not line.text.startswith((*_FIELDS, *_INDEXED))]
        for position, line in enumerate(rows):
            values = dict(zip(columns, (value.strip() for value in line.text.split(",")), strict=True))
            address = values.get("pci.bus_id", values.get("gpu_bus_id", ""))
            if not re.fullmatch(r"[0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d", address):
                index = whole_number(values.get("index", ""))
                address = _by_number(position if index is None else index)
            for column in values:
                if column in _FIELDS:
                    yield address.upper(), _FIELDS[column], values[column], line.number


OF_PERFTEST = regex(r"\[pid = \d{1,10}, dev = (?P<device>\d{1,4})\] device name = \[(?P<name>[^\]]{1,80})")
"""Source: perftest src/cuda_memory.c, init_gpu()."""
CUT = 20
"""The table of nvidia-smi cuts longer names."""


def is_name_of(listed: str, name: str) -> bool:
    """Whether a listed name is a GPU's name, which the list may have cut."""
    return listed == name or (len(listed) >= CUT and name.startswith(listed))


class _UsedGpu(Struct, frozen=True):
    """The GPU that a run of perftest prints that it uses."""

    name: str
    line: int
    device: int  # CUDA's number
    address: str  # "" if the run does not list the addresses


def _of_perftest(lines: tuple[TextLine, ...]) -> Iterable[_UsedGpu]:
    """The GPU of each run of perftest."""
    addresses: dict[str, str] = {}
    for line in lines:
        if listed := re.search(r"CUDA device (\d+): PCIe address is ([0-9A-F]{2}):([0-9A-F]{2})", line.text):
            addresses[listed[1]] = f"00000000:{listed[2]}:{listed[3]}.0"
        elif chosen := OF_PERFTEST.search(line.text):
            device = chosen["device"]
            yield _UsedGpu(chosen["name"], line.number, int(device), addresses.get(device, ""))


def _add_used(gpus: dict[str, list[tuple[str, int]]], used: _UsedGpu) -> None:
    """Add the GPU of a run to those that are listed. The name tells which of them it is: CUDA numbers GPUs
    in an order of its own, and nvidia-smi's table cuts long names."""
    same = [key for key, found in gpus.items() if any(is_name_of(name, used.name) for name, _ in found)]
    numbered = [key for key in same if key.startswith(f"0000{NO_ADDRESS}:")]
    proof = (used.name, used.line)
    if not used.address:
        key = same[0] if same else _by_number(used.device, OF_CUDA)
    else:
        key = used.address
        if key not in gpus and len(numbered) == 1:  # the list has no addresses
            gpus[key] = gpus.pop(numbered[0])
    found = gpus.setdefault(key, [])
    found.insert(0, (found[0][0], used.line) if key in same else proof)


def _of_ranks(gpus: dict[str, list[tuple[str, int]]]) -> dict[str, list[tuple[str, int]]]:
    """The GPUs of a job's ranks, where no output lists those of the machine. Ranks of many hosts share an
    address; of unlike GPUs at one, the text does not say which is the machine's. The name GB10 proves more
    by itself: the line has a message of its own."""
    alike = {address: found[:1] for address, found in gpus.items() if len({name for name, _ in found}) == 1}
    return {
        address: found for address, found in alike.items() if not gpu_ids.is_integrated_name(found[0][0])
    }


def _by_number(number: int, domain: str = NO_ADDRESS) -> str:
    return f"0000{domain}:{min(number, 255):02X}:00.0"
