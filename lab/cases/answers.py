"""Results of init, and how modprobe reports them. The result itself is not in a bundle."""

from __future__ import annotations

from lab.case import Case, one

_ERRNOS = (
    "EINVAL", "ENODEV", "EPERM", "EBUSY", "EIO", "ENOMEM", "ENOSYS", "EOPNOTSUPP", "ENOTSUPP", "ENOENT",
    "EEXIST", "ENOEXEC", "EKEYREJECTED", "EAGAIN",
)  # fmt: skip

CASES = (
    Case(name="init-ok", modules=(one("plain"),)),
    Case(name="init-ok-again", why="taint is news once a boot", modules=(one("plain"),)),
    Case(name="init-talks", modules=(one("talker"),), load="{module:talker}"),
    Case(name="init-positive", why="suspicious, but loaded", modules=(one("plain", answer="+3"),)),
    *(
        Case(name=f"init-{errno.lower()}", modules=(one("plain", answer=errno),))
        for errno in _ERRNOS
    ),
    Case(
        name="already-loaded",
        modules=(one("plain"),),
        before=(("/usr/sbin/modprobe", "{module:plain}"),),
    ),
    Case(
        name="already-loaded-first-time",
        modules=(one("plain"),),
        flags=("--first-time",),
        before=(("/usr/sbin/modprobe", "{module:plain}"),),
    ),
    Case(name="dry-run", why="predicts nothing", modules=(one("plain", answer="EINVAL"),), flags=("-n",)),
    Case(
        name="dependency-enodev",
        modules=(one("provider", answer="ENODEV"), one("consumer")),
        load="{module:consumer}",
    ),
    Case(
        name="dependency-chain",
        modules=(one("provider"), one("middle"), one("top")),
        load="{module:top}",
    ),
    Case(
        name="dependency-chain-middle-fails",
        modules=(one("provider"), one("middle", answer="EIO"), one("top")),
        load="{module:top}",
    ),
    Case(
        name="dependency-eexist",
        why="EEXIST of a dependency passes for success, and its symbols are then missing",
        modules=(one("provider", answer="EEXIST"), one("consumer")),
        load="{module:consumer}",
    ),
    Case(
        name="dependency-loaded",
        modules=(one("provider"), one("consumer")),
        load="{module:consumer}",
        before=(("/usr/sbin/modprobe", "{module:provider}"),),
    ),
)  # fmt: skip
