"""Recorded sessions: what each guest's bundle held before modprobe ran, and what the kernel then said.

One JSON file a profile, and beside them one solid archive of every content that they name. The first case
holds the whole evidence, each further one only what differs from the one before.
"""

from __future__ import annotations

import hashlib
import lzma
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from gdrkit.host.bundle import FILE, FOLDER, LINK, BundleHost
from gdrkit.host.manifest import BundleRecord, CommandNote, FolderNote, Manifest, Note
from lab.profiles import Profile
from lab.session import Session

SCHEMA = "gdrkit.lab/1"
HOME = Path(__file__).parent.parent / "tests/lab/golden"
T = TypeVar("T")


class FileNote(Struct, frozen=True, omit_defaults=True):
    """One file of a guest."""

    status: str = "found"
    content: str = ""  # name of its content in the archive
    why: str = ""
    size: int = 0
    digests: dict[str, str] = {}


class Evidence(Struct, frozen=True, omit_defaults=True):
    """What a bundle of the guest holds; in a delta, None takes an entry away."""

    files: dict[str, FileNote | None] = {}
    links: dict[str, str | None] = {}
    folders: dict[str, FolderNote | None] = {}
    commands: tuple[CommandNote, ...] | None = None


class Answer(Struct, frozen=True, omit_defaults=True):
    """What the real modprobe and the real kernel did."""

    exit_code: int | None
    stderr: str
    log: tuple[str, ...]
    loaded: bool
    new: tuple[str, ...]  # every module that came, dependencies too
    tainted: str
    stdout: str = ""


class Recorded(Struct, frozen=True, omit_defaults=True):
    """One case as it went."""

    name: str
    argv: tuple[str, ...]
    module: str
    answer: Answer
    evidence: Evidence
    why: str = ""
    complaints: tuple[str, ...] = ()  # of the commands that set the case up
    stuck: tuple[str, ...] = ()  # modules that could not be taken out again


class KernelNote(Struct, frozen=True):
    """Which kernel judged."""

    flavour: str
    release: str
    package: str
    banner: str
    kmod: str


class Golden(Struct, frozen=True):
    """One profile's recorded session."""

    kernel: KernelNote
    profile: Profile
    seed: int
    cases: tuple[Recorded, ...]
    schema: str = SCHEMA


def folder_of(flavour: str) -> Path:
    """Where a kernel's recordings lie."""
    return HOME / flavour


# -- making ----------------------------------------------------------------------------------------


def of_session(session: Session) -> tuple[Golden, dict[str, bytes]]:
    """A session as it is recorded, and the contents that it names."""
    begin = next(session.transcript.of("begin"))
    note = KernelNote(
        session.kernel.flavour.name, session.kernel.release, session.kernel.version, begin["version"], begin["kmod"]
    )
    why = {row.case.name: row.case.why for row in session.cases}
    argv = {row.case.name: row.told for row in session.cases}
    before = Evidence(commands=())
    cases = []
    for event in session.transcript.of("case"):
        now = msgspec.convert(event["evidence"], Evidence)
        answer = msgspec.convert(event["answer"], Answer)
        told = argv[event["name"]]
        cases.append(
            Recorded(
                name=event["name"], argv=tuple(told["argv"]), module=told["module"], answer=answer,
                evidence=delta(before, now), why=why[event["name"]],
                complaints=tuple(event["complaints"]), stuck=tuple(event["stuck"]),
            )  # fmt: skip
        )
        before = now
    return Golden(note, session.profile, session.seed, tuple(cases)), session.transcript.contents


def delta(before: Evidence, now: Evidence) -> Evidence:
    """What turns one into the other."""
    return Evidence(
        _changed(before.files, now.files),
        _changed(before.links, now.links),
        _changed(before.folders, now.folders),
        None if before.commands == now.commands else now.commands,
    )


def _changed(before: Mapping[str, T | None], now: Mapping[str, T | None]) -> dict[str, T | None]:
    changed = {key: value for key, value in now.items() if before.get(key) != value}
    return changed | dict.fromkeys(before.keys() - now.keys())


def applied(before: Evidence, change: Evidence) -> Evidence:
    """The evidence of the next case."""
    return Evidence(
        _merged(before.files, change.files),
        _merged(before.links, change.links),
        _merged(before.folders, change.folders),
        before.commands if change.commands is None else change.commands,
    )


def _merged(before: Mapping[str, T | None], change: Mapping[str, T | None]) -> dict[str, T | None]:
    merged = {**before, **change}
    return {key: value for key, value in merged.items() if value is not None}


def write(golden: Golden, contents: dict[str, bytes]) -> None:
    """Record a session beside the others of its kernel; contents that nobody names any more go."""
    home = folder_of(golden.kernel.flavour)
    home.mkdir(parents=True, exist_ok=True)
    everything = (read_contents(golden.kernel.flavour) if (home / "contents.xz").exists() else {}) | contents
    _replace(home / f"{golden.profile.name}.json.xz", _xz(msgspec.json.encode(golden)))
    named = {
        note.content
        for path in home.glob("*.json.xz")
        for case in _decode(path).cases
        for note in case.evidence.files.values()
        if note is not None and note.content
    }
    kept = {name: everything[name] for name in sorted(named)}
    _replace(home / "contents.xz", _xz(_pack(kept)))


def _pack(contents: dict[str, bytes]) -> bytes:
    index = msgspec.json.encode({name: len(content) for name, content in contents.items()})
    return len(index).to_bytes(8, "big") + index + b"".join(contents.values())


def _xz(data: bytes) -> bytes:
    return lzma.compress(data, preset=6)


def _replace(path: Path, data: bytes) -> None:
    part = path.with_suffix(".part")
    part.write_bytes(data)
    os.replace(part, path)


# -- reading ---------------------------------------------------------------------------------------


def recorded(flavour: str) -> tuple[str, ...]:
    """Names of the profiles recorded of a kernel."""
    return tuple(sorted(path.name.removesuffix(".json.xz") for path in folder_of(flavour).glob("*.json.xz")))


def read(flavour: str, profile: str) -> Golden:
    """A recorded session."""
    return _decode(folder_of(flavour) / f"{profile}.json.xz")


def _decode(path: Path) -> Golden:
    return msgspec.json.decode(lzma.decompress(path.read_bytes()), type=Golden)


def read_contents(flavour: str) -> dict[str, bytes]:
    """Every content that a kernel's recordings name."""
    data = memoryview(lzma.decompress((folder_of(flavour) / "contents.xz").read_bytes()))
    size = int.from_bytes(data[:8], "big")
    index: dict[str, int] = msgspec.json.decode(data[8 : 8 + size])
    contents, at = {}, 8 + size
    for name, length in index.items():
        contents[name] = bytes(data[at : at + length])
        at += length
    return contents


def cases(golden: Golden) -> Iterator[tuple[Recorded, Evidence]]:
    """Each case with its whole evidence."""
    evidence = Evidence(commands=())
    for case in golden.cases:
        evidence = applied(evidence, case.evidence)
        yield case, evidence


# -- as a target -----------------------------------------------------------------------------------


class _Store:
    """The files of a guest as `gdrkit.host` reads them."""

    def __init__(self, evidence: Evidence, contents: Mapping[str, bytes]) -> None:
        self.contents = contents
        self.files = {path: note.content for path, note in evidence.files.items() if note and note.content}
        self.links = {path: target for path, target in evidence.links.items() if target is not None}
        self.folders = {path for path, note in evidence.folders.items() if note and note.status == "listed"}
        for path in (*self.files, *self.links):
            while path := path.rpartition("/")[0]:
                self.folders.add(path)

    def kind(self, path: str) -> str | None:
        if path in self.links:
            return LINK
        if path in self.files:
            return FILE
        return FOLDER if path in self.folders or not path else None

    def target(self, path: str) -> str:
        return self.links[path]

    def names(self, path: str) -> tuple[str, ...]:
        prefix = path + "/" if path else ""
        below = (name for name in (*self.files, *self.links, *self.folders) if name.startswith(prefix) and name != path)
        return tuple(sorted({name[len(prefix) :].split("/")[0] for name in below}))

    def read(self, path: str) -> memoryview:
        return memoryview(self.contents[self.files[path]])


def host(golden: Golden, evidence: Evidence, contents: Mapping[str, bytes]) -> BundleHost:
    """The guest as its bundle shows it."""
    manifest = Manifest(
        schema="gdrkit.bundle/1",
        kernel=golden.kernel.release,
        user="root",
        files={path: Note(note.status, note.why) for path, note in evidence.files.items() if note},
        folders={path: note for path, note in evidence.folders.items() if note},
        commands=evidence.commands or (),
    )
    return BundleHost(_Store(evidence, contents), BundleRecord(manifest), "bundle")


def fingerprint(content: bytes) -> str:
    """The name of a content in the archive, as the guest gives it."""
    return hashlib.sha256(content).hexdigest()[:16]


def as_json(value: Any) -> str:
    """For people."""
    return msgspec.json.format(msgspec.json.encode(value)).decode()
