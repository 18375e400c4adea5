"""Symbols, their CRCs, licences and namespaces."""

from __future__ import annotations

import msgspec

from lab.case import UPDATES, Case, one

_TREE = f"/usr/lib/modules/KERNEL/{UPDATES}"

_ROWS = (
    Case(name="symbols-missing", modules=(one("orphan"),), load="{module:orphan}"),
    Case(name="symbol-weak-missing", modules=(one("weak-orphan"),), load="{module:orphan}"),
    Case(
        name="provider-gone",
        why="built against a module that is not there",
        modules=(one("consumer"),),
        load="{module:consumer}",
    ),
    Case(
        name="provider-file-gone",
        why="modules.dep still names the file",
        modules=(one("provider"), one("consumer")),
        load="{module:consumer}",
        before=(("/bin/busybox", "rm", _TREE + "/{module:provider}.ko"),),
    ),
    Case(
        name="provider-rebuilt",
        why="another prototype, another CRC",
        modules=(one("provider-again"), one("consumer")),
        load="{module:consumer}",
    ),
    Case(
        name="provider-rebuilt-gpl",
        why="two symbols disagree",
        modules=(one("provider-again"), one("consumer-gpl")),
        load="{module:consumer}",
    ),
    Case(
        name="weak-provider-gone",
        modules=(one("weak-consumer"),),
        load="{module:consumer}",
    ),
    Case(
        name="crc-of-dependency",
        modules=(one("provider"), one("consumer", tamper=("crc:{symbol:alpha}",))),
        load="{module:consumer}",
    ),
    Case(
        name="crc-entry-missing",
        why="an import without a CRC is let through",
        modules=(one("provider"), one("consumer", tamper=("no-crc:{symbol:alpha}",))),
        load="{module:consumer}",
    ),
    Case(name="crc-of-module-layout", modules=(one("plain", tamper=("crc:module_layout",)),)),
    Case(
        name="crc-of-module-layout-missing",
        why="Debian refuses it, others let it through",
        modules=(one("plain", tamper=("no-crc:module_layout",)),),
    ),
    Case(
        name="crc-of-dependency-that-fails",
        why="its init comes first",
        modules=(one("provider", answer="EPERM"), one("consumer", tamper=("crc:{symbol:alpha}",))),
        load="{module:consumer}",
    ),
    Case(
        name="crc-of-kernel-symbol",
        modules=(one("talker", tamper=("crc:_printk",)),),
        load="{module:talker}",
    ),
    Case(
        name="gpl-only-kernel",
        modules=(one("gpl-user", tamper=("license:Pro",)),),
        load="{module:gpl-user}",
    ),
    Case(name="gpl-only-allowed", modules=(one("gpl-user"),), load="{module:gpl-user}"),
    Case(
        name="gpl-only-module",
        modules=(one("provider"), one("consumer-gpl", tamper=("license:Pro",))),
        load="{module:consumer}",
    ),
    Case(name="proprietary", modules=(one("plain", tamper=("license:Pro",)),)),
    Case(
        name="inherit-taint",
        why="a GPL module that uses a proprietary one",
        modules=(one("provider", tamper=("license:Pro",)), one("consumer")),
        load="{module:consumer}",
    ),
    Case(
        name="inherit-taint-of-one-that-fails",
        why="a module that is not loaded logs nothing",
        modules=(one("provider", tamper=("license:Pro",), answer="EPERM"), one("consumer")),
        load="{module:consumer}",
    ),
    Case(
        name="inherit-taint-gpl-only",
        why="it also uses a GPL-only symbol",
        modules=(one("provider", tamper=("license:Pro",)), one("consumer-gpl")),
        load="{module:consumer}",
    ),
    Case(name="namespace-imported", modules=(one("spaced"), one("space-user")), load="{module:space-user}"),
    Case(
        name="namespace-not-imported",
        modules=(one("spaced"), one("space-user", tamper=("namespace:space_one",))),
        load="{module:space-user}",
    ),
    Case(
        name="duplicate-export",
        modules=(one("provider"), one("rival")),
        load="{module:rival}",
        before=(("/usr/sbin/modprobe", "{module:provider}"),),
    ),
    Case(
        name="two-providers",
        why="depmod lets one win",
        modules=(one("provider"), one("rival"), one("consumer")),
        load="{module:consumer}",
    ),
    Case(
        name="two-providers-second-loaded",
        why="the one that is loaded keeps modules.dep's one out",
        modules=(one("provider"), one("rival"), one("consumer")),
        load="{module:consumer}",
        before=(("/usr/sbin/modprobe", "{module:rival}"),),
    ),
)

CASES = tuple(msgspec.structs.replace(case, groups=("matrix", "symbols")) for case in _ROWS)
