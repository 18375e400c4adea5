"""Recorded sessions: each case's bundle before modprobe ran, and the kernel's answer.

There is one JSON file per profile, and one archive with the contents of all files that they name. The
first case has the complete evidence, each further one only the differences from the case before.
"""

from __future__ import annotations

import fcntl
import lzma
from collections import ChainMap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from gdrkit.evidence.bundle import FILE, FOLDER, LINK, BundleHost
from gdrkit.evidence.manifest import GDR_MANIFEST, BundleRecord, parse
from lab.cache import folder
from lab.profiles import Profile
from lab.provenance import Provenance, provenance
from lab.session import Session

SCHEMA = "gdrkit.lab/1"
HOME = Path(__file__).parent.parent / "tests/lab/golden"
T = TypeVar("T")


class Evidence(Struct, frozen=True, omit_defaults=True):
    """A bundle as a table; in a delta, None removes an entry.

    `notes` and `folders` are copied from the manifest unchanged: gdrkit.evidence reads them.
    """

    contents: dict[str, str | None] = {}  # path -> name of its content in the archive
    links: dict[str, str | None] = {}
    notes: dict[str, dict[str, Any] | None] = {}
    folders: dict[str, dict[str, Any] | None] = {}
    facts: dict[str, Any] | None = None  # the rest of the manifest; None: as before


class Answer(Struct, frozen=True, omit_defaults=True):
    """The result of the real modprobe and the real kernel."""

    exit_code: int | None
    stderr: str
    log: tuple[str, ...]
    loaded: bool
    new: tuple[str, ...]  # every module that was loaded, including dependencies
    tainted: str
    stdout: str = ""
    ran: tuple[str, ...] | None = (
        None  # modules whose init was called, in order; None: the guest could not see
    )


class Recorded(Struct, frozen=True, omit_defaults=True):
    """One recorded case."""

    name: str
    argv: tuple[str, ...]
    module: str
    answer: Answer
    evidence: Evidence
    why: str = ""
    open_because: str = ""  # what decided the result, other than an init, and is not in a bundle
    complaints: tuple[str, ...] = ()  # errors of the commands that set up the case
    stuck: tuple[str, ...] = ()  # modules that could not be unloaded


class KernelNote(Struct, frozen=True):
    """The kernel of a session."""

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
    made: Provenance = Provenance()


def folder_of(flavour: str) -> Path:
    """The folder of a kernel's recordings."""
    return HOME / flavour


# -- recording -------------------------------------------------------------------------------------


def of_session(session: Session) -> tuple[Golden, dict[str, bytes]]:
    """A session as a recording, and the contents that it names."""
    begin = next(session.transcript.of("begin"))
    note = KernelNote(
        session.kernel.flavour.name,
        session.kernel.release,
        session.kernel.version,
        begin["version"],
        begin["kmod"],
    )
    rows = {row.case.name: row for row in session.cases}
    before = Evidence()
    cases = []
    for event in session.transcript.of("case"):
        now = _of_bundle(event["evidence"]) if event["evidence"] is not None else before
        answer = msgspec.convert(event["answer"], Answer)
        case, task = rows[event["name"]].case, rows[event["name"]].task
        cases.append(
            Recorded(
                name=event["name"],
                argv=tuple(task["argv"]),
                module=task["module"],
                answer=answer,
                evidence=delta(before, now),
                why=case.why,
                open_because=case.open_because,
                complaints=tuple(event["complaints"]),
                stuck=tuple(event["stuck"]),
            )
        )
        before = now
    recorded = Golden(note, session.profile, session.seed, tuple(cases), made=provenance(session.firmware))
    return recorded, session.transcript.contents


def _of_bundle(bundle: dict[str, Any]) -> Evidence:
    manifest = dict(bundle["manifest"])
    notes, folders = manifest.pop("files"), manifest.pop("folders")
    del manifest["collected"]  # a time, which differs for every case
    return Evidence(bundle["contents"], bundle["links"], notes, folders, manifest)


def delta(before: Evidence, now: Evidence) -> Evidence:
    """The changes from one to the other."""
    return Evidence(
        _changed(before.contents, now.contents),
        _changed(before.links, now.links),
        _changed(before.notes, now.notes),
        _changed(before.folders, now.folders),
        None if before.facts == now.facts else now.facts,
    )


def _changed(before: Mapping[str, T | None], now: Mapping[str, T | None]) -> dict[str, T | None]:
    changed = {key: value for key, value in now.items() if before.get(key) != value}
    return changed | dict.fromkeys(before.keys() - now.keys())


def applied(before: Evidence, change: Evidence) -> Evidence:
    """The evidence of the next case."""
    return Evidence(
        _merged(before.contents, change.contents),
        _merged(before.links, change.links),
        _merged(before.notes, change.notes),
        _merged(before.folders, change.folders),
        before.facts if change.facts is None else change.facts,
    )


def _merged(before: Mapping[str, T | None], change: Mapping[str, T | None]) -> dict[str, T | None]:
    merged = {**before, **change}
    return {key: value for key, value in merged.items() if value is not None}


def write(golden: Golden, contents: dict[str, bytes]) -> None:
    """Save a session with the others of its kernel; contents that no session names any more are removed."""
    with (folder() / "golden.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _write(golden, contents)


def _write(golden: Golden, contents: dict[str, bytes]) -> None:
    home = folder_of(golden.kernel.flavour)
    home.mkdir(parents=True, exist_ok=True)
    everything = (read_contents(golden.kernel.flavour) if (home / "contents.xz").exists() else {}) | contents
    _replace(home / f"{golden.profile.name}.json.xz", _xz(msgspec.json.encode(golden)))
    named = {
        name
        for path in home.glob("*.json.xz")
        for case in _decode(path).cases
        for name in case.evidence.contents.values()
        if name is not None
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
    part.replace(path)


# -- reading ---------------------------------------------------------------------------------------


def recorded(flavour: str) -> tuple[str, ...]:
    """Names of the profiles that are recorded for a kernel."""
    return tuple(sorted(path.name.removesuffix(".json.xz") for path in folder_of(flavour).glob("*.json.xz")))


def read(flavour: str, profile: str) -> Golden:
    """A recorded session."""
    return _decode(folder_of(flavour) / f"{profile}.json.xz")


def answers_on(recorded: Golden, release: str) -> dict[str, Answer]:
    """The recorded answers by case, as another release of the same kernel gives them: some name the release
    that runs, or the one with another last letter of variants.py. A distribution's archive keeps its newest
    one alone."""
    old, new = (name[:-1].encode() for name in (recorded.kernel.release, release))
    return {
        case.name: msgspec.json.decode(msgspec.json.encode(case.answer).replace(old, new), type=Answer)
        for case in recorded.cases
    }


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
    """Each case with its complete evidence."""
    evidence = Evidence()
    for case in golden.cases:
        evidence = applied(evidence, case.evidence)
        yield case, evidence


# -- as a target -----------------------------------------------------------------------------------


class _Store:
    """The files of a guest, for `gdrkit.evidence`."""

    def __init__(self, evidence: Evidence, contents: Mapping[str, bytes], manifest: bytes) -> None:
        self.contents = ChainMap({GDR_MANIFEST: manifest}, contents)  # type: ignore[arg-type]
        self.files = {path: name for path, name in evidence.contents.items() if name is not None}
        self.files[GDR_MANIFEST] = GDR_MANIFEST
        self.links = {path: target for path, target in evidence.links.items() if target is not None}
        self.folders = set()
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
        below = (
            name
            for name in (*self.files, *self.links, *self.folders)
            if name.startswith(prefix) and name != path
        )
        return tuple(sorted({name[len(prefix) :].split("/")[0] for name in below}))

    def read(self, path: str) -> memoryview:
        return memoryview(self.contents[self.files[path]])


def host(evidence: Evidence, contents: Mapping[str, bytes]) -> BundleHost:
    """The guest as a host, through the reader of bundles."""
    parts = {**(evidence.facts or {}), "files": evidence.notes, "folders": evidence.folders}
    manifest = msgspec.json.encode(parts)
    return BundleHost(_Store(evidence, contents, manifest), BundleRecord(parse(manifest)), "bundle")
