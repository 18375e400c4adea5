"""Links: of modprobe's configuration, and of module files, also out of /lib/modules."""

from __future__ import annotations

from typing import Any

from lab.case import UPDATES, Case, one

_BUSYBOX, _DEPMOD = "/bin/busybox", ("/usr/sbin/depmod", "-a")
_TREE = "/usr/lib/modules/KERNEL"
_AWAY = "/opt/lab"
_CONF = "/etc/modprobe.d"


def _link(target: str, path: str) -> tuple[str, ...]:
    return (_BUSYBOX, "ln", "-sfn", target, path)


def _conf(name: str, *before: tuple[str, ...], **more: str) -> Case:
    paths = [step[-1] for step in before if step[1] == "ln"]
    return Case(
        name=f"link-conf-{name}", modules=(one("plain"),), before=before,
        texts=((more["path"], more["text"]),) if more else (),
        after=((_BUSYBOX, "rm", "-rf", *paths),), groups=("modprobe",),
    )  # fmt: skip


def _module(name: str, *before: tuple[str, ...], at: str = _AWAY, **changes: Any) -> Case:
    paths = [step[-1] for step in before if step[1] == "ln"]
    return Case(
        name=f"link-module-{name}", modules=(one("plain", at=at, **changes),),
        before=((_BUSYBOX, "mkdir", "-p", f"{_TREE}/{UPDATES}"), *before, _DEPMOD),
        after=((_BUSYBOX, "rm", "-f", *paths), _DEPMOD), groups=("modprobe",),
    )  # fmt: skip


_HERE = f"{_TREE}/{UPDATES}/{{module:plain}}.ko"
_PROVIDER = f"{_TREE}/{UPDATES}/{{module:provider}}.ko"
_THERE = f"{_AWAY}/{{module:plain}}.ko"
_FALSE = "install {module:plain} /bin/false\n"

CASES = (
    _conf("loop-of-two", _link("b.conf", f"{_CONF}/a.conf"), _link("a.conf", f"{_CONF}/b.conf")),
    _conf(
        "loop-hides-a-file",
        _link("a.conf", f"{_CONF}/a.conf"),
        path="/usr/lib/modprobe.d/a.conf",
        text=_FALSE,
    ),
    _conf("to-a-file", _link(f"{_AWAY}/any", f"{_CONF}/a.conf"), path=f"{_AWAY}/any", text=_FALSE),
    _conf("to-a-folder", _link("/usr/lib/modprobe.d", f"{_CONF}/a.conf")),
    _module("out-of-the-tree", _link(_THERE, _HERE)),
    _module("in-two-steps", _link(_THERE, f"{_AWAY}/next.ko"), _link(f"{_AWAY}/next.ko", _HERE)),
    _module("of-a-folder", _link(_AWAY, f"{_TREE}/{UPDATES}/away")),
    _module(
        "of-another-release", _link("../../../0.0.0/{module:plain}.ko", _HERE), at="/usr/lib/modules/0.0.0"
    ),
    _module("compressed", _link(f"{_THERE}.xz", f"{_HERE}.xz"), compression="xz"),
    Case(
        name="link-module-gone-since",
        why="depmod saw the file, the link leads nowhere now",
        modules=(one("plain", at=_AWAY),),
        before=(
            (_BUSYBOX, "mkdir", "-p", f"{_TREE}/{UPDATES}"), _link(_THERE, _HERE), _DEPMOD,
            (_BUSYBOX, "rm", _THERE),
        ),
        after=((_BUSYBOX, "rm", "-f", _HERE), _DEPMOD),
        groups=("modprobe",),
    ),
    Case(
        name="link-module-loop-since",
        modules=(one("plain"),),
        before=(_link("{module:plain}.ko", _HERE),),
        groups=("modprobe",),
    ),
    Case(
        name="link-module-to-null",
        why="how a module is masked: the link is to a device",
        modules=(one("plain"),),
        before=(_link("/dev/null", _HERE),),
        groups=("modprobe",),
    ),
    Case(
        name="link-of-a-dependency",
        modules=(one("provider", at=_AWAY), one("consumer")),
        load="{module:consumer}",
        before=(_link(f"{_AWAY}/{{module:provider}}.ko", _PROVIDER), _DEPMOD),
        after=((_BUSYBOX, "rm", "-f", _PROVIDER), _DEPMOD),
        groups=("modprobe",),
    ),
)  # fmt: skip
