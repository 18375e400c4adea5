"""The file of `gdr expect` and `gdr doctor --expect`: what a machine should have, as TOML.

    gpus = 8
    nics = 8

    [gpu_models]
    "NVIDIA H100 80GB HBM3" = 8

    [[rails]]  # eight times: a GPU with one such NIC at this distance
    count = 8
    gpu = "NVIDIA H100 80GB HBM3"
    nic = "MT_0000000838"
    distance = "PIX"
    state = "ACTIVE"
    rate = 400
    width = 16
    gpu_width = 16

    [firmware]
    "MT_0000000838" = ">= 28.39"

    [versions]
    driver = "570.158.01"

What is left out is not expected. Source: TOML 1.0.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from gdrkit.formats.errors import FormatError
from gdrkit.formats.misspelt import did_you_mean

LIMIT_BYTES = 1 << 20
GPUS_LIMIT, NICS_LIMIT, ENTRIES_LIMIT = 256, 1024, 256
"""No machine has more, and each entry is compared with each device."""

DOTS_LIMIT = 250
"""In a line: tomllib takes a time that grows with the square of the parts of a key, for 500,000 of them
hours. A text has up to 200 characters."""

AT_LEAST = ">="

Text = Annotated[str, Meta(min_length=1, max_length=200)]
Gpus = Annotated[int, Meta(ge=0, le=GPUS_LIMIT)]
Nics = Annotated[int, Meta(ge=0, le=NICS_LIMIT)]


class Rail(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """GPUs of one kind, each with NICs of one kind near it. Empty or 0: not expected."""

    count: Annotated[int, Meta(ge=1, le=GPUS_LIMIT)] = 1  # GPUs
    gpu: str = ""  # model
    nics: Annotated[int, Meta(ge=1, le=NICS_LIMIT)] = 1  # of each GPU
    nic: str = ""  # board id, PCI id or driver
    distance: str = ""  # PIX, PXB, PHB, NODE, SYS: at most
    state: str = ""  # of a port
    rate: Annotated[float, Meta(ge=0, le=100_000)] = 0  # Gbit/s of a port, at least
    width: Annotated[int, Meta(ge=0, le=32)] = 0  # PCIe lanes of the NIC, at least
    gpu_width: Annotated[int, Meta(ge=0, le=32)] = 0  # PCIe lanes of the GPU, at least; idle, it is as wide


class ExpectedVersions(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Versions of software, or conditions such as `>= 570.86`. None: not expected."""

    kernel: Text | None = None
    driver: Text | None = None
    modules: Text | None = None  # open, proprietary
    ofed: Text | None = None  # inbox, or the version of MLNX_OFED or DOCA-OFED
    nccl: Text | None = None


class Expectation(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a machine should have. None, empty: not expected."""

    gpus: Gpus | None = None
    nics: Nics | None = None
    gpu_models: dict[Text, Gpus] = {}
    rails: tuple[Rail, ...] = ()
    firmware: dict[Text, Text] = {}
    versions: ExpectedVersions = ExpectedVersions()


def parse(text: str) -> Expectation:
    """The expectation in a file. Raises FormatError with one line that says what is wrong."""
    import tomllib

    if any(line.count(".") > DOTS_LIMIT for line in text.split("\n")):
        raise FormatError(f"a line with more than {DOTS_LIMIT} dots")
    try:
        table = tomllib.loads(text)
    except ValueError as error:
        raise FormatError(f"not TOML: {error}") from None
    except RecursionError:
        raise FormatError("not TOML: nested too deeply") from None
    _check_keys(table)
    try:
        found = msgspec.convert(table, Expectation)
    except msgspec.ValidationError as error:
        raise FormatError(_plain(str(error))) from None
    _check(found)
    return found


def _check_keys(table: Mapping[str, Any]) -> None:
    """Raises FormatError for an unknown key, and suggests the one that may be meant."""
    tables: list[tuple[str, Any, type[Struct]]] = [
        ("", table, Expectation), ("versions.", table.get("versions"), ExpectedVersions)
    ]  # fmt: skip
    rails = table.get("rails")
    tables += [("rails.", rail, Rail) for rail in (rails if isinstance(rails, list) else ())]
    for where, part, kind in tables:
        known = kind.__struct_fields__
        for key in part if isinstance(part, dict) else ():
            if key not in known:
                instead = did_you_mean(key, known) or f"; known: {', '.join(known)}"
                raise FormatError(f"unknown key {_quoted(where + key)}{instead}")


def _plain(message: str) -> str:
    """msgspec's message with the key first: `Expected `int`, got `str` - at `$.gpus``."""
    what, _, where = message.replace("`", "").partition(" - at ")
    return f"{where.removeprefix('$.') or 'the file'}: {what[:1].lower()}{what[1:]}"


DISTANCES = ("PIX", "PXB", "PHB", "NODE", "SYS")


def _check(found: Expectation) -> None:
    """Raises FormatError for what the types allow and no machine can have."""
    for name, entries in (
        ("gpu_models", found.gpu_models),
        ("rails", found.rails),
        ("firmware", found.firmware),
    ):
        if len(entries) > ENTRIES_LIMIT:
            raise FormatError(f"{name}: more than {ENTRIES_LIMIT} entries")
    for rail in found.rails:
        if rail.distance not in ("", *DISTANCES):
            raise FormatError(
                f"rails.distance: {_quoted(rail.distance)} is not one of {', '.join(DISTANCES)}"
            )
    if found.versions.modules not in (None, "open", "proprietary"):
        raise FormatError(f"versions.modules: {_quoted(found.versions.modules)} is not open or proprietary")
    for where, wanted in _conditions(found):
        if wanted.startswith(AT_LEAST) and not _numbers(wanted.removeprefix(AT_LEAST)):
            raise FormatError(f"{where}: {_quoted(wanted)} has no number")
    if found.gpus is not None and sum(found.gpu_models.values()) > found.gpus:
        raise FormatError(f"gpus: {found.gpus} is less than the sum of gpu_models")


def _conditions(found: Expectation) -> Iterator[tuple[str, str]]:
    for name in found.versions.__struct_fields__:
        yield f"versions.{name}", getattr(found.versions, name) or ""
    for name, wanted in found.firmware.items():
        yield f"firmware.{_quoted(name)}", wanted


def fits(seen: str, wanted: str) -> bool:
    """Whether a version is the one that is wanted, or for `>= 570.86` that or a later one."""
    if wanted.startswith(AT_LEAST):
        return _numbers(seen) >= _numbers(wanted.removeprefix(AT_LEAST))
    return seen == wanted.strip()


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers at the start: "6.8.0-45-generic" is (6, 8, 0, 45). Only for versions of one product."""
    start = re.match(r"\s*\d{1,18}(?:[.-]\d{1,18})*", version, re.ASCII)
    return tuple(int(number) for number in re.findall(r"\d+", start[0])) if start else ()


def write(found: Expectation, comments: Iterable[str] = ()) -> str:
    """The file of an expectation, with these comments above it."""
    lines = [f"# {_printable(comment)}" for comment in comments]
    counts = {"gpus": found.gpus, "nics": found.nics}
    lines += [f"{name} = {count}" for name, count in counts.items() if count is not None]
    if found.gpu_models:
        lines += ["", "[gpu_models]", *_assignments(found.gpu_models)]
    for rail in found.rails:
        lines += ["", "[[rails]]", *_assignments(_set_fields(rail))]
    if found.firmware:
        lines += ["", "[firmware]", *_assignments(found.firmware)]
    if versions := _set_fields(found.versions):
        lines += ["", "[versions]", *_assignments(versions)]
    return "\n".join(lines) + "\n"


def _set_fields(part: Rail | ExpectedVersions) -> dict[str, object]:
    values = {name: getattr(part, name) for name in part.__struct_fields__}
    return {name: value for name, value in values.items() if value or name == "count"}


def _assignments(table: Mapping[str, object]) -> list[str]:
    return [f"{_key(key)} = {_value(value)}" for key, value in table.items()]


_OURS = frozenset(Rail.__struct_fields__ + ExpectedVersions.__struct_fields__)


def _key(key: str) -> str:
    """A name of ours as it is, a name of a product in quotes."""
    return key if key in _OURS else _quoted(key)


def _value(value: object) -> str:
    return (
        _quoted(value)
        if isinstance(value, str)
        else f"{value:g}"
        if isinstance(value, float)
        else f"{value}"
    )


def _quoted(text: str) -> str:
    """A basic string: what is not printable, quotes and backslashes are escaped."""
    return '"' + "".join(c if c.isprintable() and c not in '"\\' else f"\\U{ord(c):08x}" for c in text) + '"'


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)
