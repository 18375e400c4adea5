"""Signatures: the key, the digest, and changes to the file after signing."""

from __future__ import annotations

from lab.case import Case, one

_GROUPS = ("matrix", "signature")


def _plain(name: str, why: str = "", **changes: object) -> Case:
    return Case(name=name, why=why, modules=(one("plain", **changes),), groups=_GROUPS)


CASES = (
    _plain("unsigned", key=""),
    _plain("signed-lab", key="lab"),
    _plain("signed-unknown", key="unknown"),
    _plain("signed-lab-altered", "the signature no longer fits", key="lab", damage=("flip",)),
    _plain("signed-unknown-altered", key="unknown", damage=("flip",)),
    _plain("signed-lab-stripped", "strip drops a signature", key="lab", damage=("strip",)),
    _plain("signature-broken", key="lab", damage=("flip-signature",)),
    _plain("signature-magic-cut", key="lab", damage=("cut-magic",)),
    _plain("signature-byte-after", "a byte after the magic: unsigned", key="lab", damage=("append",)),
    _plain("signature-too-long", key="lab", damage=("long-signature",)),
    _plain("signature-id-type", key="lab", damage=("id-type",)),
    _plain("signature-reserved", key="lab", damage=("reserved",)),
    _plain("signature-trailer-twice", key="lab", damage=("twice",)),
    _plain("signature-sha512", key="lab", digest="sha512"),
    _plain("signature-sha384", key="lab", digest="sha384"),
    _plain("signature-sha1", key="lab", digest="sha1"),
    Case(
        name="signature-sha1-symbols-missing",
        why="a digest that the kernel has no test for; it says so once a boot",
        modules=(one("orphan", key="lab", digest="sha1"),),
        load="{module:orphan}",
        groups=_GROUPS,
    ),
    Case(
        name="signature-sha3",
        why="newer kernels know it",
        modules=(one("plain", key="lab", digest="sha3-256"),),
        complains="depmod of kmod 29 crashes at a digest that it does not know",
        groups=_GROUPS,
    ),
    _plain("signature-md5", key="lab", digest="md5"),
    _plain("signed-lab-xz", key="lab", compression="xz"),
    _plain("signed-lab-zst", key="lab", compression="zst"),
    _plain(
        "signed-after-xz",
        "a signature around the compressed file is none",
        key="",
        compression="xz",
        seal="lab",
    ),
    _plain("signed-after-zst", key="", compression="zst", seal="lab"),
    _plain(
        "unsigned-garbage",
        "the signature is asked about before anything else",
        key="",
        tamper=("garbage",),
        file="{module:plain}",
    ),
    _plain("unsigned-empty", key="", tamper=("empty",), file="{module:plain}"),
    _plain("signed-garbage", key="lab", tamper=("garbage",), file="{module:plain}"),
    _plain("signed-vermagic", key="lab", tamper=("vermagic-flags",)),
    _plain("signed-einval", key="lab", answer="EINVAL"),
    Case(
        name="signed-symbols-missing",
        modules=(one("orphan", key="lab"),),
        load="{module:orphan}",
        groups=_GROUPS,
    ),
    Case(
        name="mixed-signers-dependency-unsigned",
        modules=(one("provider", key=""), one("consumer", key="lab")),
        load="{module:consumer}",
        groups=_GROUPS,
    ),
    Case(
        name="mixed-signers-dependency-unknown",
        modules=(one("provider", key="unknown"), one("consumer", key="lab")),
        load="{module:consumer}",
        groups=_GROUPS,
    ),
    Case(
        name="mixed-signers-module-unsigned",
        modules=(one("provider", key="lab"), one("consumer", key="")),
        load="{module:consumer}",
        groups=_GROUPS,
    ),
    Case(
        name="signed-pair",
        modules=(one("provider", key="lab"), one("consumer", key="lab")),
        load="{module:consumer}",
        groups=_GROUPS,
    ),
    Case(
        name="unsigned-blacklisted-install",
        modules=(one("plain", key=""),),
        config="install {module:plain} /bin/false\n",
        groups=_GROUPS,
    ),
    Case(name="debian-signed", load="dummy", groups=_GROUPS),
    Case(
        name="in-tree-altered",
        why="the kernel's own key, and another content: refused even if nothing is enforced",
        modules=(one("kernel:dummy", key="", damage=("flip",), file="dummy"),),
        load="dummy",
        groups=("plain",),
    ),
)
