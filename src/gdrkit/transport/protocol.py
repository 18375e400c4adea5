"""The control messages of two connected processes: JSON, checked field by field.

Standard library only, like this whole package and `native`, so that it runs on a node without other
packages.
"""

import json
from typing import Any, NamedTuple, Union, get_args

from gdrkit.transport.errors import TransportError

VERSION = 9
"""Raise it with every change of what two processes exchange: the handshake, control messages, headers and
offers on sockets, and the layout and use of shared memory.
"""


class Hello(NamedTuple):
    """One side's identity. The version is not in it: the handshake needs the same one on both sides.

    `boot_id` shows whether both run on one kernel, `pid_namespace` whether they see each other in /proc (""
    if unknown). `gpu` is a PCI address or "", `device` an RDMA device or "". `authenticate_data`: this side
    wants a MAC for data on sockets too.
    """

    boot_id: str
    pid_namespace: str
    gpu: str
    device: str
    paths: tuple[str, ...]
    authenticate_data: bool = False


class RdmaEnd(NamedTuple):
    """A queue pair: its number, GID (32 hexadecimal digits), LID and MTU (the code of enum ibv_mtu)."""

    number: int
    gid: str
    lid: int
    mtu: int


class Proposal(NamedTuple):
    """The listener proposes a path; "" means that none is left.

    `rings` are the names of six shared memory files, or empty; `ends` are three queue pairs, or empty.
    """

    path: str
    rings: tuple[str, ...] = ()
    ends: tuple[RdmaEnd, ...] = ()


class ProposalAnswer(NamedTuple):
    """The connector's answer; `refused` is why it cannot use the proposed path, or ""."""

    refused: str = ""
    ends: tuple[RdmaEnd, ...] = ()


class Region(NamedTuple):
    """Memory that the other side may read or write; with `rkey` its RDMA device accesses it directly."""

    token: int
    size_bytes: int
    readable: bool
    writable: bool
    address: int = 0
    rkey: int = 0


class WindowOffer(NamedTuple):
    """Memory for both sides to map, in the file `path` ("" in the answer). `why` is the error, or ""."""

    size_bytes: int
    path: str = ""
    why: str = ""


class MemoryRequest(NamedTuple):
    """A request to read or write a region. `checked`: with a CRC-32."""

    number: int
    write: bool
    token: int
    offset: int
    size_bytes: int
    checked: bool


class RequestGranted(NamedTuple):
    """The other side has started its half of the request."""

    number: int


class RequestRefused(NamedTuple):
    """The other side refuses the request; `why` is the reason."""

    number: int
    why: str


class RequestDone(NamedTuple):
    """A write has completed; `why` is the error, or ""."""

    number: int
    why: str


class Bye(NamedTuple):
    """The other side closes the connection in good order."""


ProtocolMessage = Union[  # noqa: UP007 (Python 3.9)
    Hello,
    Proposal,
    ProposalAnswer,
    Region,
    WindowOffer,
    MemoryRequest,
    RequestGranted,
    RequestRefused,
    RequestDone,
    Bye,
]
_KINDS = {kind.__name__: kind for kind in get_args(ProtocolMessage)}


def encode(message: ProtocolMessage) -> bytes:
    """A message as one line of JSON: its name, then its fields in order."""
    return json.dumps([type(message).__name__, *message]).encode()


def decode(body: bytes) -> ProtocolMessage:
    """The message. Raises TransportError unless it is one of these messages, with valid fields."""
    try:
        name, *fields = json.loads(body)
        message: ProtocolMessage = _made(_KINDS[name], fields)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise TransportError(f"invalid control message: {error}") from None
    return message


def _made(kind: Any, fields: Any) -> Any:
    """A message of that kind, with each field checked against its type. Raises ValueError, TypeError."""
    types = list(kind.__annotations__.values())
    if not isinstance(fields, list) or len(fields) != len(types):
        raise ValueError(f"{kind.__name__} must have {len(types)} fields")
    return kind(*(_field(wanted, value) for wanted, value in zip(types, fields)))  # noqa: B905 (Python 3.9)


def _field(wanted: Any, value: Any) -> Any:
    if wanted in (int, str, bool):
        if type(value) is not wanted:
            raise ValueError(f"not of type {wanted.__name__}: {value!r:.40}")
        return value
    if not isinstance(value, list):
        raise TypeError(f"not a list: {value!r:.40}")
    if wanted == tuple[str, ...]:
        return tuple(_field(str, item) for item in value)
    return tuple(_made(RdmaEnd, item) for item in value)
