"""What two connected processes say to each other beside the data, as msgpack; anything else is an error."""

from __future__ import annotations

import msgspec

VERSION = 1


class Message(msgspec.Struct, frozen=True, tag=True):
    """The base of all of them; the tag is the class's name."""


class Hello(Message, frozen=True):
    """Who is there. `boot_id` tells whether both run on one kernel, `gpu` is a PCI address or ""."""

    version: int
    boot_id: str
    gpu: str
    paths: tuple[str, ...]


class Proposal(Message, frozen=True):
    """The listener wants to take this path; `rings` are the names of shared memory, six of them, or none."""

    path: str
    rings: tuple[str, ...] = ()


class Answer(Message, frozen=True):
    """The connector can take the proposed path, or why not."""

    refused: str = ""


class Region(Message, frozen=True):
    """A piece of memory that the other side may read or write."""

    token: int
    size_bytes: int
    readable: bool
    writable: bool


class Request(Message, frozen=True):
    """The wish to read or write a region. `checked`: with a CRC-32."""

    number: int
    write: bool
    token: int
    offset: int
    size_bytes: int
    checked: bool


class Granted(Message, frozen=True):
    """The other side has begun its half of that request."""

    number: int


class Refused(Message, frozen=True):
    """It will not, and why."""

    number: int
    why: str


class Done(Message, frozen=True):
    """What was written has arrived; `why` is what went wrong, or ""."""

    number: int
    why: str


class Bye(Message, frozen=True):
    """The other side closes in good order."""


Any = Hello | Proposal | Answer | Region | Request | Granted | Refused | Done | Bye

_DECODER: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(Any)


def encode(message: Message) -> bytes:
    return msgspec.msgpack.encode(message)


def decode(body: bytes) -> Any:
    """Raises msgspec.DecodeError (ValidationError among them) for what is none of these."""
    return _DECODER.decode(body)
