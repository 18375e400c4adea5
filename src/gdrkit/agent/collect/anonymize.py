"""Replace what identifies the machine: names, addresses, GUIDs, serial numbers, UUIDs.

The same value gets the same replacement everywhere: in contents, paths and links, in text and in binary
files. Replacements keep the format, so parsers still read them: a GID keeps its link-local prefix, IPv4
addresses of different networks stay in different networks, names keep their length (so DER and ELF stay
valid), equal GUIDs stay equal. PCI addresses, module names, versions and certificate serial numbers stay as
they are.
"""

from __future__ import annotations

import ipaddress
import re
from functools import partial
from typing import Callable, Container, Dict, Iterable, List, Pattern, Tuple

from .identities import ADDRESS_BEFORE, CGROUP, HOSTNAME_AT, HOSTNAMES, OWN_UNITS, TOKENS, UNIT
from .ordinary_words import ORDINARY

_ADDRESSES = re.compile(
    rb"""(?ix)
    (?P<uuid> (?<![0-9a-f]) (?<![0-9a-f]-) [0-9a-f]{8} (?:-[0-9a-f]{4}){3} -[0-9a-f]{12} (?![0-9a-f-]) )
    | (?P<dashed> (?<![0-9a-z-]) (?:[0-9a-f]{2}-){5,7} [0-9a-f]{2} (?![0-9a-z-]) )
    | (?P<guid> (?<![0-9a-f:.]) (?:[0-9a-f]{4}:){3} [0-9a-f]{4} (?![0-9a-f:.]) )
    | (?P<pairs> (?: (?<![0-9a-z_:]) | (?<=[0-9a-z_.-]{3}:) | (?<=[^0-9a-f:][0-9a-z_]:) | (?<=[g-z_.-]:)
        | (?<=::) ) (?:[0-9a-f]{2}:){5,19} [0-9a-f]{2} (?![0-9a-z_]) (?!:[0-9a-f]{2}(?![0-9a-z_])) )
    | (?P<dotted> (?<![0-9a-z_.-]) (?:[0-9a-f]{4}\.){2} [0-9a-f]{4} (?![0-9a-z_.-]) )
    | (?P<bare> (?<![0-9a-z_]) (?:0x)? (?:[0-9a-f]{16}|[0-9a-f]{12}) (?![0-9a-z_]) )
    | (?P<ipv6> (?<![0-9a-z:.]) (?= [0-9a-f:]{0,40} :: | (?:[0-9a-f]{1,4}:){7} )
        [0-9a-f:][0-9a-f:.]{1,44} (?<!\.) (?![0-9a-z:]) )
    | (?P<ipv4> (?<![\w.+~-]) (?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3} (?:25[0-5]|2[0-4]\d|1?\d?\d)
        (?![\w.+~-]*\w) )
    | (?P<named> \b (?:enx|wlx|wwx|ibx|rocex|iwx|opax|usx|infx) (?:[0-9a-f]{16}|[0-9a-f]{12}) \b )
    """
)
"""One pattern and one pass, so that nothing is replaced twice. The last alternative matches names that
contain an address: systemd.net-naming-scheme(7); rdma-core kernel-boot/rdma_rename.c, NAME_GUID. An IPv6
address has at most 45 characters (RFC 4291, 2.2)."""

_VERSION_BEFORE = re.compile(
    rb"(?:version|revision|firmware|release|build|ver|rev|fw|v|bios)[\s:=\"'(]*\Z", re.I
)

_SERIAL = re.compile(
    rb"""(?ix) (?P<name> (?:serial (?:[ ]|[_-])? (?:number|no|nr)? | [ ]pdi | chassis[_ ]id)
        ["']? [ \t]* [:=] [ \t]* ["']? ) (?P<value>[\w./:+-]+)"""
)
_VPD = re.compile(rb"(?m)^(?P<name>[ \t]*\[(?:SN|V[0-9A-Z]|Y[0-9A-Z])\] [^:\n]*: )(?P<value>[^\n]+)")
_PROCESS_NAME = re.compile(rb"(?m)^(?P<name>[ \t]+Name[ \t]+: )(?P<value>[^\n]+)")  # nvidia-smi -q
_AUDIT = re.compile(rb"(?m)(?P<name>\baudit: type=\d+ )(?P<value>audit\([^\n]*)")
_URL_USER = re.compile(rb"(?P<name>\b[a-z]{2,16}://)(?P<value>[^\s/:@]{1,64})(?=(?::\(dropped\))?@)", re.I)
_HOME = re.compile(rb"(?P<name>/(?:home|Users)/)(?P<value>[\w.+-]+)")
_USER = re.compile(
    rb"""(?ix) (?P<name> \b (?:user|username|login|logname|acct|account|owner) [=:] [ ]? ["']? )
        (?P<value> [a-z_][\w.-]+ )"""
)

_NO_SERIALS = (b"n/a", b"none", b"unknown", b"0", b"number", b"[n/a]", b"not")

_VENDOR_GUIDS = re.compile(
    rb"(?i)8be4df61-93ca-11d2-aa0d-00e098032b8c|605dab50-e046-4300-abb6-3dd810dd8b23|"
    rb"d719b2cb-3d3a-4596-a3bc-dad00e67656f|77fa9abd-0359-4d32-bd60-28f4e78f784b|"
    rb"a5c059a1-94e4-4aa7-87b5-ab155c2bf072|c1c41626-504c-4092-aca9-41f936934328"
)
"""Owners of EFI variables and kinds of signatures: UEFI specification 32.4, shim lib/guid.c. They do not
identify the machine."""


class Anonymizer:
    """Replaces identifying values, each always by the same replacement."""

    def __init__(self, names: Iterable[Tuple[str, str]] = (), keep: Container[str] = ()) -> None:
        """`names`: pairs of kind ("host", "user", "net") and name. Ordinary words and names in `keep` are
        not replaced, but for a host's after an @."""
        self._tokens: Dict[Tuple[str, bytes], bytes] = {}
        self._counts: Dict[str, int] = {}
        self._networks: Dict[bytes, List[bytes]] = {}
        self._names: Dict[bytes, bytes] = {}
        words: List[bytes] = []
        for kind, name in sorted(set(names), key=lambda pair: (-len(pair[1]), pair)):
            text = name.encode(errors="surrogateescape").lower()  # as os.fsdecode() made it
            if is_identifying(name) and name not in keep:
                self._names.setdefault(text, self._name(kind, text))
            elif kind == "host":  # a word, replaced only where it can be nothing else
                words.append(re.escape(text))
        self._named = _words(self._names)
        self._at = re.compile(rb"(?i)(?P<name>@)(?P<value>" + (b"|".join(words) or b"$^") + rb")(?![\w-])")

    # -- entry points -----------------------------------------------------------------------

    def content(self, data: bytes, addresses: bool = True, path: str = "") -> bytes:
        """The content of a file, anonymized; only names if it is binary or `addresses` is False."""
        if path in HOSTNAME_AT:
            data = HOSTNAME_AT[path].sub(self._host, data)
        if not addresses or is_binary(data):
            return self._rename(data)
        return self._rename(self._text(data))

    def path(self, path: str) -> str:
        """A path or the target of a link, anonymized."""
        data = path.encode("utf-8", "surrogateescape")
        # The kernel chooses names in sys and proc: `link_layer` has nothing to do with a user called link.
        if not path.startswith(("sys/", "proc/")):
            data = self._rename(_HOME.sub(self._user, b"/" + data)[1:])
        return _ADDRESSES.sub(self._address, data).decode("utf-8", "surrogateescape")

    def words(self, text: str) -> str:
        """A short text for the manifest, anonymized: an error message, an argument."""
        return self.content(text.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")

    def hostname(self, name: str) -> str:
        """The replacement of a host name, even of one that is an ordinary word."""
        return self._name("host", name.lower().encode()).decode()

    def _identity(self, form: bytes, match: "re.Match[bytes]") -> bytes:
        value = match.group("value")
        quote = value[:1] if value[:1] in (b'"', b"'") else b""
        made = self._token(
            form.decode(), value.strip(b"\"'"), lambda number: form % number if b"%" in form else form
        )
        return match.group("name") + quote + made + quote

    def _host(self, match: "re.Match[bytes]") -> bytes:
        return match.group("name") + self._name("host", match.group("value").lower())

    def guid(self, value: bytes) -> bytes:
        """The replacement of a GUID of 8 bytes; zero stays zero."""
        if not any(value):
            return value
        return self._token("guid", value, lambda number: bytes([2, 0, 0, 0, 0]) + number.to_bytes(3, "big"))

    # -- text --------------------------------------------------------------------------------------

    def _text(self, data: bytes) -> bytes:
        data = _VPD.sub(self._serial, data)
        data = _SERIAL.sub(self._serial, data)
        data = _AUDIT.sub(rb"\g<name>(dropped)", data)
        data = _PROCESS_NAME.sub(rb"\g<name>(dropped)", data)
        for form, pattern in TOKENS:
            data = pattern.sub(partial(self._identity, form), data)
        data = CGROUP.sub(lambda match: UNIT.sub(self._unit, match.group()), data)
        data = _ADDRESSES.sub(self._address, data)
        for context in (_HOME, _USER, _URL_USER):
            data = context.sub(self._user, data)
        for context in (*HOSTNAMES, self._at):
            data = context.sub(self._host, data)
        return data

    def _address(self, match: "re.Match[bytes]") -> bytes:
        text, kind = match.group(), match.lastgroup
        if kind == "uuid":
            return self._uuid(text)
        if kind == "dashed":
            return _grouped(self._hardware(_value(text)), 1, b"-")
        if kind == "dotted":
            return _grouped(self._mac(_value(text)), 2, b".") if re.search(rb"[A-Fa-f]", text) else text
        if kind == "bare":
            return self._bare(text, match.string[max(0, match.start() - 48) : match.start()])
        if kind == "guid":
            return _grouped(self.guid(_value(text)), 2, b":")
        if kind == "pairs":
            return self._pairs(text)
        if kind == "ipv6":
            return self._ipv6(text)
        if kind == "named":
            digits = 12 if len(text) - len(text.partition(b"x")[0]) == 13 else 16
            value = _value(text[-digits:])
            return text[:-digits] + (self._mac(value) if digits == 12 else self.guid(value)).hex().encode()
        before = match.string[max(0, match.start() - 16) : match.start()]
        return text if _VERSION_BEFORE.search(before) else self._ipv4(text)

    def _rename(self, data: bytes) -> bytes:
        if not self._names:
            return data
        return self._named.sub(lambda match: self._names[match.group().lower()], data)

    def _pairs(self, text: bytes) -> bytes:
        value = _value(text)
        if len(value) <= 8:
            return _grouped(self._hardware(value), 1, b":")
        if len(value) == 20 and value[0] & 0x80:  # IPoIB: flags and queue pair number, then a GID
            return _grouped(value[:4] + self._gid(value[4:]), 1, b":")
        return text  # a fingerprint

    def _hardware(self, value: bytes) -> bytes:
        """A MAC address, perhaps after the type of the network (PXE's BOOTIF), or a GUID of 8 bytes."""
        return self.guid(value) if len(value) == 8 else value[:-6] + self._mac(value[-6:])

    def _bare(self, text: bytes, before: bytes) -> bytes:
        """An address without separators, if it is known or the text before it shows that it is one."""
        digits = text.lower().rpartition(b"x")[2]
        value = bytes.fromhex(digits.decode())
        known = ("mac" if len(value) == 6 else "guid", value) in self._tokens
        if not known and not ADDRESS_BEFORE.search(before):
            return text
        return text[: -len(digits)] + self._hardware(value).hex().encode()

    def _mac(self, value: bytes) -> bytes:
        if value in (bytes(6), b"\xff" * 6):
            return value
        return self._token("mac", value, lambda number: b"\x02\x00" + number.to_bytes(4, "big"))

    def _gid(self, value: bytes) -> bytes:
        prefix, identifier = value[:8], value[8:]
        if value[:12] == bytes(10) + b"\xff\xff":
            return value[:12] + ipaddress.IPv4Address(self._ipv4(_dotted(value[12:])).decode()).packed
        if prefix[:2] not in (b"\xfe\x80", b"\xff\x02", b"\x00\x00"):
            prefix = self._token("prefix", prefix, lambda number: b"\xfd\x00" + number.to_bytes(6, "big"))
        elif prefix == bytes(8):
            return value  # ::, ::1
        return prefix + self.guid(identifier)

    def _ipv6(self, text: bytes) -> bytes:
        if not text.strip(b"0:"):
            return text  # no machine's address, and how a line of cgroups(7) begins
        try:
            address = ipaddress.IPv6Address(text.decode())
        except ValueError:
            return text
        replaced = ipaddress.IPv6Address(self._gid(address.packed))
        if len(text) == 39:
            return ":".join(re.findall("....", replaced.packed.hex())).encode()  # 3.13 would print dots
        if replaced.ipv4_mapped is not None and b"." in text:
            return b"::ffff:" + str(replaced.ipv4_mapped).encode()
        return replaced.compressed.encode()

    def _ipv4(self, text: bytes) -> bytes:
        first = int(text.split(b".")[0])
        if first in (0, 127, 255) or text.startswith(b"255."):
            return text
        network, _, last = text.rpartition(b".")
        base = self._token(
            "network", network, lambda number: b"10.%d.%d" % (number >> 8 & 255, number & 255)
        )
        if last in (b"0", b"255"):
            return base + b"." + last
        hosts = self._networks.setdefault(network, [])
        if last not in hosts:
            hosts.append(last)
        return base + b".%d" % (hosts.index(last) + 1)

    def _uuid(self, text: bytes) -> bytes:
        if _VENDOR_GUIDS.fullmatch(text) or not text.strip(b"0-"):
            return text
        return self._token("uuid", text.lower(), lambda number: b"00000000-0000-4000-8000-%012x" % number)

    def _serial(self, match: "re.Match[bytes]") -> bytes:
        value = match.group("value")
        if value.lower() in _NO_SERIALS or not re.search(rb"\d", value) or _ADDRESSES.fullmatch(value):
            return match.group()
        return match.group("name") + self._token("serial", value, lambda number: b"SERIAL%04d" % number)

    def _unit(self, match: "re.Match[bytes]") -> bytes:
        value = match.group("value")
        if OWN_UNITS.fullmatch(value):
            return match.group()
        return match.group("name") + self._token("unit", value, lambda number: b"unit%04d" % number)

    def _user(self, match: "re.Match[bytes]") -> bytes:
        value = match.group("value").lower()
        if value.decode("utf-8", "replace") in ORDINARY:
            return match.group()
        return match.group("name") + self._name("user", value)

    # -- tokens ------------------------------------------------------------------------------------

    def _name(self, kind: str, name: bytes) -> bytes:
        """The replacement of a name, of the same length, with a number at the end."""
        if name in self._names:
            return self._names[name]

        def made(number: int) -> bytes:
            digits = b"%d" % number
            filled = (kind.encode() + b"0" * len(name))[: len(name)]
            return (filled[: -len(digits)] + digits)[: len(name)]

        return self._token(kind, name, made)

    def _token(self, kind: str, value: bytes, make: Callable[[int], bytes]) -> bytes:
        key = kind, value
        if key not in self._tokens:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._tokens[key] = make(self._counts[kind])
        return self._tokens[key]


def is_identifying(name: str) -> bool:
    """Whether a name can be replaced wherever it occurs: not an ordinary word, and not too short."""
    distinctive = len(name) >= 3 and any(character in "0123456789.-" for character in name)
    return (distinctive or len(name) >= 5) and name.lower() not in ORDINARY and not name.isdigit()


_TEXT = bytes([0, 9, 10, 13, *range(32, 127)])


def is_binary(data: bytes) -> bool:
    """Whether this is binary data; zero bytes that only separate texts, as in /proc/self/environ, do not
    count."""
    return b"\0" in data and data.translate(None, _TEXT) != b""


def _words(names: Iterable[bytes]) -> Pattern[bytes]:
    """A pattern for the names as whole words, the longest first."""
    choices = b"|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return re.compile(rb"(?<![A-Za-z0-9])(?:" + choices + rb")(?![A-Za-z0-9])", re.IGNORECASE)


def _value(digits: bytes) -> bytes:
    return bytes.fromhex(digits.translate(None, b":-.").decode())


def _grouped(value: bytes, size: int, separator: bytes) -> bytes:
    return separator.join(value[start : start + size].hex().encode() for start in range(0, len(value), size))


def _dotted(value: bytes) -> bytes:
    return b".".join(b"%d" % byte for byte in value)
