"""What a case is: module files laid out in a guest, modprobe's configuration, one modprobe command."""

from __future__ import annotations

import random
import zlib
from typing import Any

import msgspec
from msgspec import Struct

from lab.kernels import Kernel
from lab.names import Naming, naming
from lab.sources import source
from lab.variants import DEFAULT_KEY, Variant, make

UPDATES = "updates/dkms"  # where DKMS puts modules on Debian; depmod prefers it to all else there


class Place(Struct, frozen=True):
    """A module file and where it lies below /lib/modules/RELEASE."""

    variant: Variant
    at: str = UPDATES
    file: str = ""  # name without endings; the module's own where empty


class Case(Struct, frozen=True, kw_only=True):
    """One row of the tables. Texts may hold `{module:x}`, `{symbol:x}`, `{parameter:x}`, `{alias:x}`."""

    name: str
    why: str = ""
    place: tuple[Place, ...] = ()
    load: str = "{module:plain}"  # what modprobe is asked for
    judged: str = ""  # the module whose being loaded is asked about; `load` where empty
    flags: tuple[str, ...] = ()  # before the name
    arguments: tuple[str, ...] = ()  # after it
    config: str = ""  # a file in /etc/modprobe.d
    append: str = ""  # for the kernel's command line, which all cases of a boot share
    texts: tuple[tuple[str, str], ...] = ()  # other files: (path, content)
    before: tuple[tuple[str, ...], ...] = ()  # commands after depmod, before the evidence is taken
    after: tuple[tuple[str, ...], ...] = ()  # commands that tidy up
    depmod: bool = True
    real_names: bool = False  # the peermem family under the names that the field knows
    last: bool = False  # changes the guest for good
    open_because: str = ""  # what else than an init decides and is in no bundle
    groups: tuple[str, ...] = ("matrix",)


class Prepared(Struct, frozen=True):
    """A case made ready for one kernel, profile and seed: what the runner is told, and file contents."""

    case: Case
    told: dict[str, Any]
    blobs: dict[str, bytes]
    append: str = ""  # its words for the kernel's command line


def one(source_name: str, **changes: Any) -> Place:
    """A placed module: `one("plain", answer="EINVAL")`; `at` and `file` say where."""
    where = {key: changes.pop(key) for key in ("at", "file") if key in changes}
    return Place(Variant(source_name, **changes), **where)


def names_of(case: Case, seed: int) -> Naming:
    """The case's own random names, the same for the same seed."""
    return naming(random.Random(f"{seed}/{case.name}").getrandbits(32), real_names=case.real_names)


def prepare(case: Case, kernel: Kernel, compiled: dict[str, bytes], key: str, seed: int) -> Prepared:
    """Make the case's files, signed with `key` where a variant leaves that to the profile."""
    names = names_of(case, seed)
    blobs: dict[str, bytes] = {}
    files: dict[str, str] = {}
    for place in case.place:
        variant = place.variant
        if variant.key == DEFAULT_KEY:
            variant = msgspec.structs.replace(variant, key=key)
        content = make(kernel, compiled, names, variant)
        blob = f"{zlib.crc32(content):08x}{len(content):08x}"
        blobs[blob] = content
        ending = ".ko" + (f".{variant.compression}" if variant.compression else "")
        name = names.fill(place.file) if place.file else names.module(source(variant.source).identity)
        files[f"/usr/lib/modules/{kernel.release}/{place.at}/{name}{ending}"] = blob
    texts = {path.replace("KERNEL", kernel.release): names.fill(text) for path, text in case.texts}
    if case.config:
        texts["/etc/modprobe.d/case.conf"] = names.fill(case.config)
    load = names.fill(case.load)
    told = {
        "name": case.name,
        "module": (names.fill(case.judged) if case.judged else load).replace("-", "_"),
        "asked": load,
        "argv": ["/usr/sbin/modprobe", *case.flags, load, *(names.fill(word) for word in case.arguments)],
        "files": files,
        "texts": texts,
        "depmod": case.depmod,
        "before": [_words(step, names, kernel) for step in case.before],
        "after": [_words(step, names, kernel) for step in case.after],
    }
    return Prepared(case, told, blobs, names.fill(case.append))


def _words(step: tuple[str, ...], names: Naming, kernel: Kernel) -> list[str]:
    return [names.fill(word).replace("KERNEL", kernel.release) for word in step]
