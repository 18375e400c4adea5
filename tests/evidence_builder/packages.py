"""Who brought which file: dpkg's database, rpm's list, DKMS's tree.

Formats: deb-control(5), dpkg-query(1); rpm(8) -qa; dkms(8): <name>/<version>/<kernel>/<arch>/module, and a
link kernel-<kernel>-<arch> to what is installed."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any

from tests.evidence_builder.tree import Tree


def write(tree: Tree, spec: Mapping[str, Any]) -> None:
    """`spec`: the whole node. Packages are "name=version", then what they own."""
    held = spec.get("packages", {})
    arch = spec["kernel"].get("arch", "x86_64")
    if "dpkg" in held:
        _dpkg(tree, held["dpkg"], {"x86_64": "amd64", "aarch64": "arm64"}[arch])
    if "rpm" in held:
        names = [f"{entry.split()[0].replace('=', '-')}.{arch}" for entry in held["rpm"]]
        tree.file("sos_commands/rpm/rpm_-qa", "".join(f"{name}\n" for name in sorted(names)))
        tree.folder("var/lib/rpm")
    for module in held.get("dkms", []):
        _dkms(tree, module, spec["kernel"]["release"], arch)


def _dpkg(tree: Tree, entries: list[str], arch: str) -> None:
    stanzas = []
    for entry in sorted(entries):
        what, *owned = entry.split()
        name, version = what.split("=", 1)
        stanzas.append(
            f"Package: {name}\nStatus: install ok installed\nPriority: optional\nSection: misc\n"
            f"Architecture: {arch}\nVersion: {version}\nDescription: {name}\n"
        )
        listed = ["/."]
        for place in owned:
            listed += sorted(
                f"/{path}"
                for path in (*tree.files, *tree.links)
                if path == place or path.startswith(place + "/")
            )
        tree.file(f"var/lib/dpkg/info/{name}.list", "".join(f"{path}\n" for path in listed))
    tree.file("var/lib/dpkg/status", "\n".join(stanzas) + "\n")


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
