"""Symbols, their CRCs, licences and namespaces."""

from __future__ import annotations

import msgspec

from lab.case import UPDATES, Case, one

_TREE = f"/usr/lib/modules/KERNEL/{UPDATES}"

_ROWS = (
    Case(name="symbols-missing", place=(one("orphan"),), load="{module:orphan}"),
    Case(name="symbol-weak-missing", place=(one("weak-orphan"),), load="{module:orphan}"),
    Case(
        name="provider-gone",
        why="built against a module that is not there",
        place=(one("consumer"),),
        load="{module:consumer}",
    ),
    Case(
        name="provider-file-gone",
        why="modules.dep still names the file",
        place=(one("provider"), one("consumer")),
        load="{module:consumer}",
        before=(("/bin/busybox", "rm", _TREE + "/{module:provider}.ko"),),
    ),
    Case(
        name="provider-rebuilt",
        why="another prototype, another CRC",
        place=(one("provider-again"), one("consumer")),
        load="{module:consumer}",
    ),
    Case(
        name="provider-rebuilt-gpl",
        why="two symbols disagree",
        place=(one("provider-again"), one("consumer-gpl")),
        load="{module:consumer}",
    ),
    Case(
        name="weak-provider-gone",
        place=(one("weak-consumer"),),
        load="{module:consumer}",
    ),
    Case(
        name="crc-of-dependency",
        place=(one("provider"), one("consumer", tamper=("crc:{symbol:alpha}",))),
        load="{module:consumer}",
    ),
    Case(
        name="crc-entry-missing",
        why="an import without a CRC is let through",
        place=(one("provider"), one("consumer", tamper=("no-crc:{symbol:alpha}",))),
        load="{module:consumer}",
    ),
    Case(name="crc-of-module-layout", place=(one("plain", tamper=("crc:module_layout",)),)),
    Case(
        name="crc-of-module-layout-missing",
        why="Debian refuses it, others let it through",
        place=(one("plain", tamper=("no-crc:module_layout",)),),
    ),
    Case(
        name="crc-of-dependency-that-fails",
        why="its init comes first",
        place=(one("provider", answer="EPERM"), one("consumer", tamper=("crc:{symbol:alpha}",))),
        load="{module:consumer}",
    ),
    Case(
        name="crc-of-kernel-symbol", place=(one("talker", tamper=("crc:_printk",)),), load="{module:talker}"
    ),
    Case(
        name="gpl-only-kernel",
        place=(one("gpl-user", tamper=("license:Pro",)),),
        load="{module:gpl-user}",
    ),
    Case(name="gpl-only-allowed", place=(one("gpl-user"),), load="{module:gpl-user}"),
    Case(
        name="gpl-only-module",
        place=(one("provider"), one("consumer-gpl", tamper=("license:Pro",))),
        load="{module:consumer}",
    ),
    Case(name="proprietary", place=(one("plain", tamper=("license:Pro",)),)),
    Case(
        name="inherit-taint",
        why="a GPL module that uses a proprietary one",
        place=(one("provider", tamper=("license:Pro",)), one("consumer")),
        load="{module:consumer}",
    ),
    Case(
        name="inherit-taint-of-one-that-fails",
        why="what nobody loads says nothing",
        place=(one("provider", tamper=("license:Pro",), answer="EPERM"), one("consumer")),
        load="{module:consumer}",
    ),
    Case(
        name="inherit-taint-gpl-only",
        why="it also uses a GPL-only symbol",
        place=(one("provider", tamper=("license:Pro",)), one("consumer-gpl")),
        load="{module:consumer}",
    ),
    Case(name="namespace-imported", place=(one("spaced"), one("space-user")), load="{module:space-user}"),
    Case(
        name="namespace-not-imported",
        place=(one("spaced"), one("space-user", tamper=("namespace:space_one",))),
        load="{module:space-user}",
    ),
    Case(
        name="duplicate-export",
        place=(one("provider"), one("rival")),
        load="{module:rival}",
        before=(("/usr/sbin/modprobe", "{module:provider}"),),
    ),
    Case(
        name="two-providers",
        why="depmod lets one win",
        place=(one("provider"), one("rival"), one("consumer")),
        load="{module:consumer}",
    ),
    Case(
        name="two-providers-second-loaded",
        why="the one that is loaded keeps modules.dep's one out",
        place=(one("provider"), one("rival"), one("consumer")),
        load="{module:consumer}",
        before=(("/usr/sbin/modprobe", "{module:rival}"),),
    ),
)

CASES = tuple(msgspec.structs.replace(case, groups=("matrix", "symbols")) for case in _ROWS)
