"""Faulty module files, and the folders in which depmod finds them."""

from __future__ import annotations

from lab.case import UPDATES, Case, one

_RM = ("/bin/busybox", "rm", f"/usr/lib/modules/KERNEL/{UPDATES}/" + "{module:plain}.ko")

CASES = (
    Case(
        name="vermagic-release",
        why="modversions let another release pass",
        modules=(one("plain", tamper=("vermagic-release",)),),
    ),
    Case(name="vermagic-flags", modules=(one("plain", tamper=("vermagic-flags",)),)),
    Case(
        name="vermagic-release-no-versions",
        modules=(one("plain", tamper=("no-versions", "vermagic-release")),),
    ),
    Case(name="no-versions", why="forced module taint", modules=(one("plain", tamper=("no-versions",)),)),
    Case(
        name="no-versions-symbols", modules=(one("talker", tamper=("no-versions",)),), load="{module:talker}"
    ),
    Case(
        name="struct-size",
        why="Linux 6.4 and later look at it",
        modules=(one("plain", tamper=("struct-size",)),),
    ),
    Case(name="truncated", modules=(one("plain", tamper=("truncate",)),), depmod=True),
    Case(name="garbage", modules=(one("plain", tamper=("garbage",), file="{module:plain}"),)),
    Case(name="empty", modules=(one("plain", tamper=("empty",), file="{module:plain}"),)),
    Case(name="other-architecture", modules=(one("plain", tamper=("architecture",)),)),
    Case(name="absent"),
    Case(name="depmod-not-run", modules=(one("plain"),), depmod=False),
    Case(name="file-gone-after-depmod", modules=(one("plain"),), before=(_RM,)),
    Case(name="xz", modules=(one("plain", compression="xz"),)),
    Case(name="zst", modules=(one("plain", compression="zst"),)),
    Case(name="gz", modules=(one("plain", compression="gz"),)),
    *(
        Case(
            name=f"{kind}-{word}",
            why=why,
            modules=(one("plain", compression=kind, **changes),),
            groups=("plain",),
        )
        for kind, word, why, changes in (
            ("xz", "crc64", "xz's own default, which Linux does not check", {"packing": "crc64"}),
            ("zst", "sized", "kmod 34 needs the size of the content", {"packing": "sized"}),
            ("xz", "cut", "", {"torn": "cut"}),
            ("zst", "cut", "", {"packing": "sized", "torn": "cut"}),
            ("gz", "cut", "", {"torn": "cut"}),
            ("xz", "altered", "", {"torn": "altered"}),
            ("zst", "altered", "", {"packing": "sized", "torn": "altered"}),
            ("gz", "altered", "", {"torn": "altered"}),
        )
    ),
    Case(name="xz-truncated", modules=(one("plain", tamper=("truncate",), compression="xz"),)),
    Case(
        name="updates-before-kernel",
        why="DKMS beside a distribution's copy; the good one is in updates",
        modules=(one("plain"), one("plain", tamper=("vermagic-flags",), at="kernel/drivers/misc")),
    ),
    Case(
        name="updates-bad-kernel-good",
        modules=(one("plain", tamper=("vermagic-flags",)), one("plain", at="kernel/drivers/misc")),
    ),
    Case(
        name="extra-and-kernel",
        why="Debian's depmod.d names updates alone",
        modules=(
            one("plain", tamper=("vermagic-flags",), at="extra"),
            one("plain", at="kernel/drivers/misc"),
        ),
    ),
    Case(
        name="depmod-search-extra-first",
        modules=(one("plain", tamper=("vermagic-flags",), at="extra"), one("plain")),
        texts=(("/etc/depmod.d/case.conf", "search extra updates built-in\n"),),
    ),
    Case(
        name="depmod-override",
        modules=(one("plain", tamper=("vermagic-flags",)), one("plain", at="extra")),
        texts=(("/etc/depmod.d/case.conf", "override {module:plain} * extra\n"),),
    ),
    Case(
        name="duplicate-compressed",
        why="one name, two endings in one folder",
        modules=(one("plain"), one("plain", tamper=("vermagic-flags",), compression="xz")),
    ),
    Case(
        name="dash-in-file-name",
        modules=(one("plain", file="a-{module:plain}"),),
        load="a-{module:plain}",
        judged="{module:plain}",
    ),
    Case(
        name="file-named-otherwise",
        why="modprobe goes by the file's name, the kernel by the module's",
        modules=(one("plain", file="{module:other}"),),
        load="{module:other}",
        judged="{module:plain}",
    ),
    Case(name="built-in", load="fscache_missing", why="neither built in nor a file"),
    Case(name="really-built-in", load="unix"),
    Case(name="alias-in-tree", why="an alias of Debian's own", load="crc32", judged="crc32_generic"),
    Case(name="in-tree", load="dummy", why="Debian's own module, signed by Debian's own key"),
    Case(name="in-tree-chain", load="ib_umad", why="Debian's own chain of modules"),
)
