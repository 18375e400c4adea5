"""What init returns, and what modprobe makes of it. The answer itself is in no bundle."""

from __future__ import annotations

from lab.case import Case, one

_ERRNOS = (
    "EINVAL", "ENODEV", "EPERM", "EBUSY", "EIO", "ENOMEM", "ENOSYS", "EOPNOTSUPP", "ENOTSUPP", "ENOENT",
    "EEXIST", "ENOEXEC", "EKEYREJECTED", "EAGAIN",
)  # fmt: skip

CASES = (
    Case(name="init-ok", place=(one("plain"),)),
    Case(name="init-ok-again", why="taint is news once a boot", place=(one("plain"),)),
    Case(name="init-talks", place=(one("talker"),), load="{module:talker}"),
    Case(name="init-positive", why="suspicious, but loaded", place=(one("plain", answer="+3"),)),
    *(
        Case(name=f"init-{errno.lower()}", place=(one("plain", answer=errno),))
        for errno in _ERRNOS
    ),
    Case(
        name="already-loaded",
        place=(one("plain"),),
        before=(("/usr/sbin/modprobe", "{module:plain}"),),
    ),
    Case(
        name="already-loaded-first-time",
        place=(one("plain"),),
        flags=("--first-time",),
        before=(("/usr/sbin/modprobe", "{module:plain}"),),
    ),
    Case(name="dry-run", why="predicts nothing", place=(one("plain", answer="EINVAL"),), flags=("-n",)),
    Case(
        name="dependency-enodev",
        place=(one("provider", answer="ENODEV"), one("consumer")),
        load="{module:consumer}",
    ),
    Case(
        name="dependency-chain",
        place=(one("provider"), one("middle"), one("top")),
        load="{module:top}",
    ),
    Case(
        name="dependency-chain-middle-fails",
        place=(one("provider"), one("middle", answer="EIO"), one("top")),
        load="{module:top}",
    ),
    Case(
        name="dependency-eexist",
        why="EEXIST of a dependency passes for success, and its symbols are then missing",
        place=(one("provider", answer="EEXIST"), one("consumer")),
        load="{module:consumer}",
    ),
    Case(
        name="dependency-loaded",
        place=(one("provider"), one("consumer")),
        load="{module:consumer}",
        before=(("/usr/sbin/modprobe", "{module:provider}"),),
    ),
)  # fmt: skip
