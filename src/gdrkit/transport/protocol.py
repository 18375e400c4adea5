"""What two connected processes say to each other beside the data: JSON, checked field by field.

Standard library alone, like all of this package and of `native`, so that it runs on a node that has
nothing else.
"""

import json
from typing import Any, NamedTuple, Union

from gdrkit.transport.errors import TransportError

VERSION = 3


class Hello(NamedTuple):
    """Who is there.

    `boot_id` tells whether both run on one kernel, `gpu` is a PCI address or "", `device` an RDMA device
    or "".
    """

    version: int
    boot_id: str
    gpu: str
    device: str
    paths: tuple[str, ...]


class RdmaEnd(NamedTuple):
    """A queue pair: its number, GID (32 hexadecimal digits), LID and MTU (the code of enum ibv_mtu)."""

    number: int
    gid: str
    lid: int
    mtu: int


class Proposal(NamedTuple):
    """The listener wants to take this path; "" is none.

    `rings` are the names of shared memory, six of them, or none; `ends` are three queue pairs, or none.
    """

    path: str
    rings: tuple[str, ...] = ()
    ends: tuple[RdmaEnd, ...] = ()


class ProposalAnswer(NamedTuple):
    """The connector can take the proposed path, or why not."""

    refused: str = ""
    ends: tuple[RdmaEnd, ...] = ()


class Region(NamedTuple):
    """A piece of memory that the other side may read or write; with `rkey`, its device does so by itself."""

    token: int
    size_bytes: int
    readable: bool
    writable: bool
    address: int = 0
    rkey: int = 0


class WindowOffer(NamedTuple):
    """Memory for both to map, in the file `path`; as an answer, without one. `why` there is none, or ""."""

    size_bytes: int
    path: str = ""
    why: str = ""


class MemoryRequest(NamedTuple):
    """The wish to read or write a region. `checked`: with a CRC-32."""

    number: int
    write: bool
    token: int
    offset: int
    size_bytes: int
    checked: bool


class RequestGranted(NamedTuple):
    """The other side has begun its half of that request."""

    number: int


class RequestRefused(NamedTuple):
    """It will not, and why."""

    number: int
    why: str


class RequestDone(NamedTuple):
    """What was written has arrived; `why` is what went wrong, or ""."""

    number: int
    why: str


class Bye(NamedTuple):
    """The other side closes in good order."""


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
_KINDS = {
    kind.__name__: kind
    for kind in (
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
    )
}


def encode(message: ProtocolMessage) -> bytes:
    """A message as one line of JSON: its name, then its fields in order."""
    return json.dumps([type(message).__name__, *message]).encode()


def decode(body: bytes) -> ProtocolMessage:
    """Raises TransportError for what is none of these messages, to the last field."""
    try:
        name, *fields = json.loads(body)
        message: ProtocolMessage = _made(_KINDS[name], fields)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise TransportError(f"a control message that is not ours: {error}") from None
    return message


def _made(kind: Any, fields: Any) -> Any:
    """A tuple of that kind, each field of the type that it declares. Raises ValueError, TypeError."""
    types = list(kind.__annotations__.values())
    if not isinstance(fields, list) or len(fields) != len(types):
        raise ValueError(f"{kind.__name__} has {len(types)} fields")
    return kind(*(_field(wanted, value) for wanted, value in zip(types, fields)))  # noqa: B905 (Python 3.9)


def _field(wanted: Any, value: Any) -> Any:
    if wanted in (int, str, bool):
        if type(value) is not wanted:
            raise ValueError(f"{value!r:.40} is no {wanted.__name__}")
        return value
    if not isinstance(value, list):
        raise TypeError(f"{value!r:.40} is no list")
    if wanted == tuple[str, ...]:
        return tuple(_field(str, item) for item in value)
    return tuple(_made(RdmaEnd, item) for item in value)
