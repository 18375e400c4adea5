"""What runs is not what lies on disk: providers that are loaded, files replaced since, refusals before."""

from __future__ import annotations

from typing import Any

import msgspec

from lab.case import UPDATES, Case, ModuleFile, one

_LATER = "/lab/later"  # files that replace others before modprobe runs
_TREE = f"/usr/lib/modules/KERNEL/{UPDATES}"
_BUSYBOX, _MODPROBE = "/bin/busybox", "/usr/sbin/modprobe"
_DEPMOD = ("/usr/sbin/depmod", "-a")


def _later(source: str, **changes: Any) -> ModuleFile:
    return one(source, at=_LATER, **changes)


def _load(module: str) -> tuple[tuple[str, ...], ...]:
    return ((_MODPROBE, f"{{module:{module}}}"),)


def _refused(module: str, *arguments: str) -> tuple[tuple[str, ...], ...]:
    return (("-", _MODPROBE, f"{{module:{module}}}", *arguments),)


def _unload(module: str) -> tuple[tuple[str, ...], ...]:
    return (("/usr/sbin/rmmod", f"{{module:{module}}}"),)


def _replace(module: str) -> tuple[tuple[str, ...], ...]:
    file = f"{{module:{module}}}.ko"
    return ((_BUSYBOX, "cp", f"{_LATER}/{file}", f"{_TREE}/{file}"), _DEPMOD)


def _remove(module: str) -> tuple[tuple[str, ...], ...]:
    return ((_BUSYBOX, "rm", f"{_TREE}/{{module:{module}}}.ko"), _DEPMOD)


_USER = "{module:consumer}"
_OTHER_BUILD = "which symbol versions a provider has that runs and is not the file"
_FUNCTIONS_ALONE = "what a provider exports that runs and is not the file, without CONFIG_KALLSYMS_ALL"
_BROKEN = ("vermagic-flags",)
_CONSUMERS = (
    Case(
        name="running-provider-rebuilt-on-disk",
        why="the kernel compares with what runs, not with the file",
        modules=(one("provider"), _later("provider-again"), one("consumer")),
        load=_USER,
        before=(*_load("provider"), *_replace("provider")),
    ),
    Case(
        name="running-provider-is-the-rebuilt-one",
        why="the file would do, but the other one runs",
        open_because=_OTHER_BUILD,
        modules=(one("provider-again"), _later("provider"), one("consumer")),
        load=_USER,
        before=(*_load("provider"), *_replace("provider")),
    ),
    Case(
        name="running-provider-gone-from-disk",
        modules=(one("provider"), one("consumer")),
        load=_USER,
        before=(*_load("provider"), *_remove("provider")),
    ),
    Case(
        name="running-provider-broken-on-disk",
        modules=(one("provider"), _later("provider", tamper=_BROKEN), one("consumer")),
        load=_USER,
        before=(*_load("provider"), *_replace("provider")),
    ),
    Case(
        name="running-module-broken-on-disk",
        modules=(one("plain"), _later("plain", tamper=_BROKEN)),
        before=(*_load("plain"), *_replace("plain")),
    ),
    Case(
        name="running-rival-of-the-provider",
        why="another module owns the symbol that modules.dep's one exports",
        modules=(one("provider"), one("rival"), one("consumer-gpl")),
        load=_USER,
        before=_load("rival"),
    ),
    Case(
        name="refused-then-repaired",
        why="an old line in the log decides nothing",
        modules=(one("plain", tamper=_BROKEN), _later("plain")),
        before=(*_refused("plain"), *_replace("plain")),
    ),
    Case(
        name="refused-twice",
        modules=(one("plain", tamper=_BROKEN),),
        before=_refused("plain"),
    ),
    Case(
        name="refused-provider-then-repaired",
        modules=(one("provider", tamper=_BROKEN), _later("provider"), one("consumer")),
        load=_USER,
        before=(*_refused("consumer"), *_replace("provider")),
    ),
)  # fmt: skip

_CLIENT, _OFED, _GPU = one("peermem-full"), one("ofed"), one("gpu")
_BOTH = (*_load("ofed"), *_load("gpu"))


def _peermem(
    name: str,
    *modules: ModuleFile,
    before: tuple[tuple[str, ...], ...],
    why: str = "",
    open_because: str = "",
) -> Case:
    return Case(
        name=f"peer-{name}", why=why, modules=modules, load="{module:peermem}", before=before,
        groups=("plain",), open_because=open_because,
    )  # fmt: skip


_PEERMEM = (
    _peermem("providers-loaded", _CLIENT, _OFED, _GPU, before=_BOTH),
    _peermem("stub-providers-loaded", one("peermem-stub"), _OFED, _GPU, before=_BOTH),
    _peermem(
        "ofed-rebuilt-not-restarted", _CLIENT, _OFED, _later("ofed-rebuilt"), _GPU,
        before=(*_BOTH, *_replace("ofed")), why="the old one runs, and fits",
    ),
    _peermem(
        "ofed-restarted-and-put-back", _CLIENT, one("ofed-rebuilt"), _later("ofed"), _GPU,
        before=(*_BOTH, *_replace("ofed")), why="the file fits, what runs does not",
        open_because=_OTHER_BUILD,
    ),
    _peermem(
        "ofed-removed-still-running", _CLIENT, _OFED, _later("ofed-without"), _GPU,
        before=(*_BOTH, *_replace("ofed")),
    ),
    _peermem(
        "ofed-installed-not-restarted", _CLIENT, one("ofed-without"), _later("ofed"), _GPU,
        before=(*_BOTH, *_replace("ofed")), why="the stack without the API still runs",
        open_because=_FUNCTIONS_ALONE,
    ),
    _peermem(
        "driver-updated-not-reloaded", _CLIENT, _OFED, one("gpu-new"), _later("gpu"),
        before=(*_BOTH, *_replace("gpu")), open_because=_OTHER_BUILD,
    ),
    _peermem(
        "driver-reloaded-and-put-back", _CLIENT, _OFED, _GPU, _later("gpu-new"),
        before=(*_BOTH, *_replace("gpu")),
    ),
    _peermem("ofed-gone-still-running", _CLIENT, _OFED, _GPU, before=(*_BOTH, *_remove("ofed"))),
    _peermem(
        "refused-then-ofed-replaced", _CLIENT, one("ofed-refusing"), _later("ofed"), _GPU,
        before=(*_refused("peermem"), *_unload("ofed"), *_replace("ofed")), why="its old line is in the log",
    ),
    _peermem("refused-twice", _CLIENT, one("ofed-refusing"), _GPU, before=_refused("peermem")),
    _peermem(
        "bad-parameter-then-none", _CLIENT, _OFED, _GPU,
        before=_refused("peermem", "{parameter:peerdirect_support}=5"),
    ),
    _peermem(
        "stub-then-rebuilt", one("peermem-stub"), _later("peermem-full"), _OFED, _GPU,
        before=(*_refused("peermem"), *_replace("peermem")),
    ),
)  # fmt: skip

_OF_NVIDIAS_OWN = ("peer-refused-twice", "peer-ofed-restarted-and-put-back")
"""Under its real name gdrkit expects the lines of NVIDIA's own module about a refused registration."""

CASES = (
    *(msgspec.structs.replace(case, groups=("plain",)) for case in _CONSUMERS),
    *_PEERMEM,
    *(
        msgspec.structs.replace(case, name=f"named-{case.name}", real_names=True)
        for case in _PEERMEM
        if case.name not in _OF_NVIDIAS_OWN
    ),
)
