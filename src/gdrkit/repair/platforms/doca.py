"""NVIDIA's repository of DOCA-OFED: the commands that set it up, once for each machine.

Sources: NVIDIA, DOCA-Host Installation and Upgrade, 3.2.1: an online repository for each major release,
whose modules DKMS builds on the machine, without NVIDIA's signature, or a package with a repository in it;
the folders of linux.mellanox.com/public/repo/doca/3.2.1, and for Debian the packages of
www.mellanox.com/downloads/DOCA, as published scripts use them. None was found for SLES and Debian on Arm.
"""

from __future__ import annotations

import re

from gdrkit.facts.kernel import architecture
from gdrkit.facts.machine import Distribution, distribution
from gdrkit.node import Node, if_missing
from gdrkit.repair.platforms.action import AskPerson

VERSION = "3.2.1"
"""The release with long-term support whose folders and key were looked up; 3.4 has another key."""
_ROOT = f"https://linux.mellanox.com/public/repo/doca/{VERSION}"
_FOLDERS = {"x86_64": "x86_64", "aarch64": "arm64-sbsa"}
_UBUNTU = ("22.04", "24.04")
_RHEL = ("8", "9", "10")
_DEBIAN = {  # the package that has the repository; no release was found that has one for both
    "12": ("3.1.0", "doca-host_3.1.0-091000-25.07-debian125_amd64.deb"),
    "13": (VERSION, f"doca-host_{VERSION}-044000-25.10-debian13_amd64.deb"),
}
_KEYRING = "/usr/share/keyrings/doca.gpg"


def repository(node: Node) -> AskPerson:
    """What a person does before DOCA-OFED can be installed; commands where NVIDIA documents them."""
    system = if_missing(None, distribution, node)
    processor = if_missing("", architecture, node)
    if system is not None and (system.id, processor) == ("debian", "x86_64") and system.version in _DEBIAN:
        version, package = _DEBIAN[system.version]
        return AskPerson(
            what=f"set up NVIDIA's repository of DOCA {version}", commands=_dpkg(version, package)
        )
    folder = _FOLDERS.get(processor, "")
    name = "" if system is None else _directory(system)
    if not folder or not name:
        where = "for this distribution (docs.nvidia.com/doca, DOCA-Host)"
        return AskPerson(what=f"set up NVIDIA's DOCA {VERSION} repository {where}")
    url = f"{_ROOT}/{name}/{folder}/"
    if name.startswith("ubuntu"):
        return AskPerson(
            what=f"set up NVIDIA's repository of DOCA {VERSION} (long-term support)", commands=_apt(url)
        )
    return AskPerson(
        what=f"set up NVIDIA's repository of DOCA {VERSION} (long-term support), and EPEL, which has dkms",
        commands=_dnf(url),
    )


def _directory(system: Distribution) -> str:
    """The distribution's folder in the repository; "" if it is not known to have one."""
    if system.id == "ubuntu" and system.version in _UBUNTU:
        return f"ubuntu{system.version}"
    major = re.match(r"\d+", system.version)
    if system.id in ("rhel", "rocky", "almalinux") and major and major[0] in _RHEL:
        return f"rhel{major[0]}"
    return ""


def _apt(url: str) -> tuple[str, ...]:
    return (
        f"curl -fsSL {url}GPG-KEY-Mellanox.pub | sudo gpg --dearmor --yes -o {_KEYRING}",
        f"echo 'deb [signed-by={_KEYRING}] {url} ./' | sudo tee /etc/apt/sources.list.d/doca.list",
        "sudo apt-get update",
    )


def _dpkg(version: str, package: str) -> tuple[str, ...]:
    return (
        f"curl -fsSLO https://www.mellanox.com/downloads/DOCA/DOCA_v{version}/host/{package}",
        f"sudo dpkg -i {package}",
        "sudo apt-get update",
    )


def _dnf(url: str) -> tuple[str, ...]:
    lines = ("[doca]", f"name=DOCA {VERSION}", f"baseurl={url}", "enabled=1", "gpgcheck=1",
             f"gpgkey={url}GPG-KEY-Mellanox.pub")  # fmt: skip
    quoted = " ".join(f"'{line}'" for line in lines)
    return (
        f"printf '%s\\n' {quoted} | sudo tee /etc/yum.repos.d/doca.repo",
        "sudo dnf makecache",
    )
