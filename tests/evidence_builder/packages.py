"""The owners of files: dpkg's database, rpm's list, DKMS's tree.

Formats: deb-control(5), dpkg-query(1); rpm(8) -qa; dkms(8): <name>/<version>/<kernel>/<arch>/module, and a
link kernel-<kernel>-<arch> to the installed one."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any

from tests.evidence_builder import pack
from tests.evidence_builder.tree import Tree


def write(tree: Tree, spec: Mapping[str, Any]) -> None:
    """`spec`: the whole node. Packages are "name=version", then what they own."""
    held = {**_usual(spec), **spec.get("packages", {})}
    arch = spec["kernel"].get("arch", "x86_64")
    if "dpkg" in held:
        _dpkg(tree, held["dpkg"], {"x86_64": "amd64", "aarch64": "arm64"}[arch])
    if "rpm" in held:
        _rpm(tree, held["rpm"], arch)
    for module in held.get("dkms", []):
        _dkms(tree, module, spec["kernel"]["release"], arch)


def _usual(spec: Mapping[str, Any]) -> dict[str, list[str]]:
    """The entries for libraries and prebuilt modules in Debian's and Ubuntu's package database."""
    if (
        "ID_LIKE=debian" not in spec["distribution"]["text"]
        and "ID=debian" not in spec["distribution"]["text"]
    ):
        return {}
    release = spec["kernel"]["release"]
    entries = [
        "base-files=1 etc/os-release",
        f"linux-image-{release}=1 boot lib/modules/{release}/kernel/drivers",
    ]
    libraries, driver = spec.get("libraries", {}), spec.get("driver", {})
    place = f"usr/lib/{spec['kernel'].get('arch', 'x86_64')}-linux-gnu"
    if libraries.get("verbs"):
        version = libraries["verbs"].split(".")[2]
        entries.append(
            f"libibverbs1={version}.0-1 {place}/libibverbs.so.1 {place}/libibverbs.so.{libraries['verbs']}"
        )
    if libraries.get("nccl"):
        entries.append(f"libnccl2={libraries['nccl']}-1+cuda12.8 {place}/libnccl.so.2")
    folder = driver.get("folder", "")
    if folder.startswith("kernel/nvidia-") and not driver.get("root"):
        entries.append(f"linux-modules-{folder.split('/')[1]}-{release}=1 lib/modules/{release}/{folder}")
    return {"dpkg": entries}


def _dpkg(tree: Tree, entries: list[str], arch: str) -> None:
    stanzas, listed, owned = [], [], []
    for entry in sorted(entries):
        what, *places = entry.split()
        name, version = what.split("=", 1)
        stanzas.append(
            f"Package: {name}\nStatus: install ok installed\nPriority: optional\nSection: misc\n"
            f"Architecture: {arch}\nVersion: {version}\nDescription: {name}\n"
        )
        listed.append(f"{name}\t{version}\t{arch}\tii \n")
        for place in places:
            held = (path for path in (*tree.files, *tree.links) if f"{path}/".startswith(place + "/"))
            owned += [f"{name}: /{path}\n" for path in sorted(held)]
    tree.file("var/lib/dpkg/status", "\n".join(stanzas) + "\n")
    tree.file(pack.PACKAGES, "".join(listed))
    tree.file(pack.OWNERS, "".join(owned))


def _rpm(tree: Tree, entries: list[str], arch: str) -> None:
    rows = sorted(entry.split()[0].replace("=", "\t") + f"\t{arch}\tii\n" for entry in entries)
    tree.file(pack.PACKAGES, "".join(rows))
    tree.folder("var/lib/rpm")


def _dkms(tree: Tree, entry: str, release: str, arch: str) -> None:
    """ "nvidia/535.183.01 updates/dkms/nvidia*": copies of what it installed, and the link to it."""
    what, *patterns = entry.split()
    place = f"var/lib/dkms/{what}/{release}/{arch}"
    installed = f"lib/modules/{release}/"
    for pattern in patterns:
        for path, content in list(tree.files.items()):
            if path.startswith(installed + pattern.rstrip("*")):
                tree.file(f"{place}/module/{posixpath.basename(path)}", content)
    tree.folder(f"{place}/module")
    tree.link(f"var/lib/dkms/{what.split('/')[0]}/kernel-{release}-{arch}", place)
