"""Cases: module files in a guest, modprobe's configuration, and one modprobe command."""

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

UPDATES = "updates/dkms"  # DKMS's folder on Debian, which depmod prefers to all others


class ModuleFile(Struct, frozen=True):
    """A module file and its folder below /lib/modules/RELEASE."""

    variant: Variant
    at: str = UPDATES  # or an absolute path, where depmod does not see it
    file: str = ""  # name without extensions; empty: the module's own name


class Case(Struct, frozen=True, kw_only=True):
    """One row of the tables. Strings may have `{module:x}`, `{symbol:x}`, `{parameter:x}`, `{alias:x}`."""

    name: str
    why: str = ""
    modules: tuple[ModuleFile, ...] = ()
    load: str = "{module:plain}"  # the name for modprobe
    judged: str = ""  # the module that should be loaded afterwards; empty: `load`
    flags: tuple[str, ...] = ()  # before the name
    arguments: tuple[str, ...] = ()  # after the name
    config: str = ""  # a file in /etc/modprobe.d
    append: str = ""  # for the kernel command line, which all cases of a boot share
    texts: tuple[tuple[str, str], ...] = ()  # other files: (path, content)
    before: tuple[tuple[str, ...], ...] = ()
    """Commands after depmod, before the bundle is collected; the first word "-" means that it may fail."""
    after: tuple[tuple[str, ...], ...] = ()  # commands that clean up
    depmod: bool = True
    real_names: bool = False  # the peermem family under its real names
    last: bool = False  # changes the guest permanently
    complains: str = ""  # why a command that sets the case up may fail
    open_because: str = ""  # what decides the result, other than an init, and is not in a bundle
    groups: tuple[str, ...] = ("matrix",)


class Prepared(Struct, frozen=True):
    """A case prepared for one kernel, profile and seed: the runner's task, and file contents."""

    case: Case
    task: dict[str, Any]
    blobs: dict[str, bytes]
    append: str = ""  # its arguments for the kernel command line


def one(source_name: str, **changes: Any) -> ModuleFile:
    """A module file: `one("plain", answer="EINVAL")`; `at` and `file` are its folder and name."""
    where = {key: changes.pop(key) for key in ("at", "file") if key in changes}
    return ModuleFile(Variant(source_name, **changes), **where)


def names_of(case: Case, seed: int) -> Naming:
    """The case's random names, determined by the seed."""
    return naming(random.Random(f"{seed}/{case.name}").getrandbits(32), real_names=case.real_names)


def prepare(case: Case, kernel: Kernel, compiled: dict[str, bytes], key: str, seed: int) -> Prepared:
    """Make the case's files, signed with `key` if a variant leaves the key to the profile."""
    names = names_of(case, seed)
    blobs: dict[str, bytes] = {}
    files: dict[str, str] = {}
    for module in case.modules:
        variant = module.variant
        if variant.key == DEFAULT_KEY:
            variant = msgspec.structs.replace(variant, key=key)
        content = make(kernel, compiled, names, variant)
        blob = f"{zlib.crc32(content):08x}{len(content):08x}"
        blobs[blob] = content
        ending = ".ko" + (f".{variant.compression}" if variant.compression else "")
        name = names.fill(module.file) if module.file else names.module(source(variant.source).identity)
        where = module.at if module.at.startswith("/") else f"/usr/lib/modules/{kernel.release}/{module.at}"
        files[f"{where}/{name}{ending}"] = blob
    texts = {path.replace("KERNEL", kernel.release): names.fill(text) for path, text in case.texts}
    if case.config:
        texts["/etc/modprobe.d/case.conf"] = names.fill(case.config)
    load = names.fill(case.load)
    task = {
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
    return Prepared(case, task, blobs, names.fill(case.append))


def _words(step: tuple[str, ...], names: Naming, kernel: Kernel) -> list[str]:
    return [names.fill(word).replace("KERNEL", kernel.release) for word in step]
