"""RDMA devices in pasted outputs, as the files of sysfs that the collector reads.

ibstat, ibstatus, ibv_devinfo, ibv_devices, `rdma link`, show_gids, `ibdev2netdev -v` and
`ls -l /sys/class/infiniband` print the same devices. The state of a network interface, which ibdev2netdev
prints, is not the state of its port.

Sources: infiniband-diags ibstat.c, ibstatus; rdma-core libibverbs/examples/devinfo.c, device_list.c;
iproute2 rdma/link.c; MLNX_OFED's show_gids, ibdev2netdev; Linux drivers/infiniband/core/sysfs.c (the files).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from msgspec import Struct

from gdrkit.explain.lines.blocks import Block
from gdrkit.explain.lines.transcript import TextLine
from gdrkit.formats.regex import regex

CLASS = "sys/class/infiniband"
STATES = {"DOWN": 1, "INIT": 2, "ARMED": 3, "ACTIVE": 4, "ACTIVEDEFER": 5}
PHYSICAL = {
    "sleep": "1: Sleep",
    "polling": "2: Polling",
    "disabled": "3: Disabled",
    "portconfigurationtraining": "4: PortConfigurationTraining",
    "linkup": "5: LinkUp",
    "linkerrorrecovery": "6: LinkErrorRecovery",
    "phytest": "7: Phy Test",
}
"""States as sysfs prints them, by their words without signs: sysfs.c, state_show() and phys_state_show()."""


class ShownFile(Struct, frozen=True):
    """A file of sysfs whose content a line of an output shows."""

    path: str  # without leading slash
    content: str
    line: int
    is_link: bool = False  # the content is what a link leads to


def rdma_files(evidence: Iterable[TextLine]) -> Iterator[ShownFile]:
    """The files that outputs about RDMA devices show, in the order of the lines."""
    reader = _Reader()
    for line in evidence:
        if not line.cut:
            yield from reader.read(line)


def asked_device(command: str) -> tuple[str, str]:
    """The device that a command's own arguments name, for an output that grep has cut its name from, and the
    number of its port; "" for what they name not, or for several devices."""
    found = list(_ASKED.finditer(command))
    if len({one["listed"] or one["verbs"] for one in found}) != 1:
        return "", ""
    return found[0]["listed"] or found[0]["verbs"], found[0]["port"] or ""


def devices(evidence: Iterable[TextLine]) -> set[str]:
    """The RDMA devices of which the outputs show a file."""
    return {shown.path.split("/")[3] for shown in rdma_files(evidence)}


class _Reader:
    """Reads outputs in which a device and its port are named above their fields."""

    def __init__(self) -> None:
        self.device = self.port = ""
        self.width = 0  # lanes of the port, until its speed follows
        self.unnumbered = 0  # ports of the device so far whose number is not shown: all have a state
        self.typed_at = 0  # the line of the command that printed the output

    def read(self, line: TextLine) -> Iterator[ShownFile]:
        text = line.text
        if line.typed_at not in (0, self.typed_at):
            self.typed_at = line.typed_at
            self.device, self.port = asked_device(line.command)
            self.width = self.unnumbered = 0
        if found := _PATTERNS["row"].match(text):
            yield from _of_row(found, line.number)
        elif found := _PATTERNS["device"].match(text):
            self.device = found["old"] or found["new"] or found["verbs"]
            self.port, self.width, self.unnumbered = found["port"] or "", 0, 0
        elif self.device and (found := _PATTERNS["port"].match(text)):
            self.port, self.width, self.unnumbered = found[1], 0, 0
        elif self.device and (found := _PATTERNS["field"].match(text)):
            yield from self._field(found[1].lower().replace(" ", "_"), found[2], line.number)
        elif text[:1] not in (" ", "\t"):
            self.device = ""

    def _field(self, key: str, value: str, line: int) -> Iterator[ShownFile]:
        folder = f"{CLASS}/{self.device}"
        if key == "state" and (self.unnumbered or not self.port):  # grep left out the line `Port 1:`
            self.unnumbered += 1
            self.port = str(self.unnumbered)
        if not self.port:
            name = _OF_DEVICE.get(key)
            if name is not None and (content := _guid(value) if "guid" in name else value):
                yield ShownFile(f"{folder}/{name}", content, line)
            return
        folder = f"{folder}/ports/{self.port}"
        if key == "active_width" and (lanes := re.match(r"(\d{1,2})X", value)):
            self.width = int(lanes[1])
        elif key == "active_speed" and self.width and (speed := re.match(r"(\d{1,4}(?:\.\d)?) Gbps", value)):
            yield ShownFile(f"{folder}/rate", f"{self.width * float(speed[1]):g} Gb/sec", line)
        elif key in _OF_PORT:
            name, convert = _OF_PORT[key]
            if content := convert(value):
                yield ShownFile(f"{folder}/{name}", content, line)


def _of_row(found: re.Match[str], line: int) -> Iterator[ShownFile]:
    """The files that a row of `rdma link`, ibv_devices, show_gids, `ibdev2netdev -v` or `ls -l` shows."""
    given = found.groupdict()
    if given["linked"]:
        folder = f"{CLASS}/{given['linked']}/ports/{given['number']}"
        for name, content in (
            ("state", _state(given["state"])),
            ("phys_state", _physical(given["physical"] or "")),
            ("gid_attrs/ndevs/0", given["netdev"] or ""),
        ):
            if content:
                yield ShownFile(f"{folder}/{name}", content, line)
    elif given["rated"]:
        yield ShownFile(f"{CLASS}/{given['rated']}/ports/1/rate", given["rate"], line)
    elif given["listed"]:
        yield ShownFile(f"{CLASS}/{given['listed']}/node_guid", _guid(given["guid"]), line)
    elif given["linking"]:
        yield ShownFile(f"{CLASS}/{given['linking']}", f"sys/devices/{given['to']}", line, is_link=True)
    elif given["verbose"]:
        address = f"sys/devices/{given['at']}/infiniband/{given['verbose']}"
        yield ShownFile(f"{CLASS}/{given['verbose']}", address, line, is_link=True)
    else:
        folder = f"{CLASS}/{given['addressed']}/ports/{given['of_port']}"
        kind = "RoCE v2" if given["version"] == "v2" else "IB/RoCE v1"
        yield ShownFile(f"{folder}/gids/{given['index']}", given["gid"], line)
        yield ShownFile(f"{folder}/gid_attrs/types/{given['index']}", kind, line)


def _state(text: str) -> str:
    """`Active`, `PORT_ACTIVE (4)` or `4: ACTIVE` as the file has it; "" for another word."""
    word = re.sub(r"^\d: |PORT_|\W.*$", "", text.strip().upper()).replace("_", "")
    word = {"INITIALIZING": "INIT", "INITIALIZE": "INIT"}.get(word, word)
    return f"{STATES[word]}: {word}" if word in STATES else ""


def _physical(text: str) -> str:
    return PHYSICAL.get(re.sub(r"^\d: |\(\d\)|[_ ]", "", text.strip().lower()), "")


def _rate(text: str) -> str:
    found = re.match(r"(\d{1,4}(?:\.\d)?)(?: Gb/sec.*)?$", text)
    return f"{found[1]} Gb/sec" if found else ""


def _guid(text: str) -> str:
    """A GUID as the file has it, `a088:c203:00ba:df10`; "" for another word."""
    digits = text.strip().lower().removeprefix("0x").replace(":", "")
    if not re.fullmatch(r"[0-9a-f]{16}", digits):
        return ""
    return ":".join(digits[start : start + 4] for start in range(0, 16, 4))


_OF_DEVICE = {
    "fw_ver": "fw_ver",
    "firmware_version": "fw_ver",
    "node_guid": "node_guid",
    "sys_image_guid": "sys_image_guid",
    "ca_type": "hca_type",
    "system_image_guid": "sys_image_guid",
    "board_id": "board_id",
}
_OF_PORT = {
    "state": ("state", _state),
    "phys_state": ("phys_state", _physical),
    "physical_state": ("phys_state", _physical),
    "rate": ("rate", _rate),
    "link_layer": ("link_layer", lambda text: text.strip()),
}
"""The file of each field, by its name in lower case."""


# -- listings of the whole machine ---------------------------------------------------------------------


_LISTING = (
    ("ibstat",), ("ibstatus",), ("ibv_devinfo",), ("ibv_devinfo", "-v"), ("ibv_devices",), ("rdma", "link"),
    ("rdma", "link", "show"), ("ls", "/sys/class/infiniband"), ("ls", "-l", "/sys/class/infiniband"),
)  # fmt: skip
"""Commands that list every RDMA device of a machine."""


def lists_every_device(blocks: Iterable[Block]) -> bool:
    """Whether a command that lists every RDMA device is shown with its whole output, which is not empty."""
    return any(
        tuple(word.rstrip("/") for word in block.argv) in _LISTING
        and block.ended
        and not block.filtered
        and block.lines
        and not any(line.cut for line in block.lines)
        for block in blocks
    )


_NAME = r"[a-z][\w.-]{1,40}"
_ASKED = regex(
    rf"\b(?:(?:ibstat|ibstatus|ethtool) (?P<listed>{_NAME})(?![\w.$*{{-])(?:[ :](?P<port>\d{{1,3}})\b)?"
    rf"|ibv_devinfo\b[^|;&]{{0,40}}? (?:-d ?|--ib-dev[= ])(?P<verbs>{_NAME})(?![\w.$*{{-]))"
)
"""Commands that print one device. Sources: ibstat(8), ibstatus(8), ibv_devinfo(1), ethtool(8)."""
_PATTERNS = {
    "device": regex(
        rf"\s*(?:CA '(?P<old>{_NAME})'|Infiniband device '(?P<new>{_NAME})' port (?P<port>\d{{1,3}}) status:"
        rf"|hca_id:\s*(?P<verbs>{_NAME})\s*$)"
    ),
    "port": regex(r"\s+[Pp]ort:?\s+(\d{1,3}):?\s*$"),
    "field": regex(r"\s+([A-Za-z][A-Za-z_ ]{1,30}):\s*(\S.{0,200}?)\s*$"),
    "row": regex(
        rf"\s*(?:link (?P<linked>{_NAME})/(?P<number>\d{{1,3}}) (?:subnet_prefix .{{0,120}} )?"
        rf"state (?P<state>\w{{1,20}})(?: physical_state (?P<physical>\w{{1,30}}))?"
        rf"(?: netdev (?P<netdev>[\w.-]{{1,15}}))?"
        rf"|(?P<rated>(?!rate\b){_NAME}):?\s+"
        r"(?P<rate>\d{1,4}(?:\.\d)? Gb/sec \(\d{1,2}X \w{1,6}\))\s*$"
        rf"|(?P<listed>(?!link ){_NAME})\s+(?P<guid>[0-9a-f]{{16}})\s*$"
        rf"|(?:l[rwx-]{{9}}.{{1,80}} )?(?P<linking>{_NAME}) -> \.\./\.\./devices/"
        r"(?P<to>[\w.:/-]{1,200}/infiniband/[\w.-]{1,41})\s*$"
        rf"|(?P<at>[0-9a-f]{{4,8}}:[0-9a-f]{{2}}:[0-9a-f]{{2}}\.[0-7]) (?P<verbose>{_NAME}) \("
        rf"|(?P<addressed>{_NAME})\s+(?P<of_port>\d{{1,3}})\s+(?P<index>\d{{1,4}})\s+(?P<gid>[0-9a-f:]{{39}})"
        r"\s+(?:[\d.]+\s+)?(?P<version>v[12])\b)"
    ),
}
