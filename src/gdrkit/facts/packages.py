"""Installed packages, DKMS modules, the owner of a file, and the RDMA stack."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from gdrkit.evidence import Confidence, EvidenceAbsent, EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.quoting import quoted
from gdrkit.facts import dpkg as dpkg_files
from gdrkit.facts import modules
from gdrkit.facts.commands import DKMS_STATUS, OFED_INFO, OWNERS_DPKG, PACKAGES_DPKG, PACKAGES_RPM
from gdrkit.formats.errors import FormatError
from gdrkit.formats.regex import regex
from gdrkit.node import Node, fact, first_collected, if_absent, if_missing

DKMS = "var/lib/dkms"


class Package(Struct, frozen=True):
    """A package and its manager. A module that DKMS built belongs to DKMS, not to the package of its
    source."""

    name: str
    version: str
    manager: str  # dpkg, rpm, dkms


class DkmsModule(Struct, frozen=True):
    """One version of a DKMS module for one kernel; kernel and arch are "" where it is only added."""

    name: str
    version: str
    kernel: str
    arch: str
    state: str  # added, built, installed


def is_driver(module: DkmsModule) -> bool:
    """Whether this is NVIDIA's driver: nvidia, nvidia-open, nvidia-srv, nvidia-current. nvidia-fs is that of
    GPUDirect Storage, nvidia-peer-memory nv_peer_mem."""
    return module.name.startswith("nvidia") and not module.name.startswith(("nvidia-fs", "nvidia-peer"))


class Ofed(Struct, frozen=True):
    """The RDMA stack of this node."""

    kind: str  # inbox, mlnx-ofed, doca-ofed
    version: str  # "24.10-0.7.0.0"; "" if not known, and for inbox


# -- packages ------------------------------------------------------------------------------------------


@fact
def installed(node: Node) -> Mapping[str, Package]:
    """Installed packages by name. Raises EvidenceMissing where there is no list of packages.

    A bundle keeps only packages of GPU, network and kernel: only such a package is known not to be installed
    where it is not listed.
    """

    def dpkg() -> Mapping[str, Package]:
        return first_collected(
            lambda: _Packages(dpkg_files.versions(node)),
            lambda: parse_packages(node.run(PACKAGES_DPKG), "dpkg"),
        )

    def debs_of_sosreport() -> Mapping[str, Package]:
        return parse_packages(node.text("installed-debs"), "dpkg")

    def rpm() -> Mapping[str, Package]:
        return parse_packages(node.run(PACKAGES_RPM), "rpm")

    def rpms_of_sosreport() -> Mapping[str, Package]:
        return parse_packages(node.text("installed-rpms"), "rpm")

    reason: EvidenceMissing | None = None
    for ask in (dpkg, debs_of_sosreport, rpm, rpms_of_sosreport):
        try:
            return ask()
        except EvidenceAbsent:  # the other family of distributions
            continue
        except EvidenceMissing as error:
            reason = reason or error.fresh()
        except FormatError:  # a tool of the other family, which runs but lists no packages
            reason = reason or EvidenceMissing(
                Missing("installed packages", MissingReason.GARBLED, PACKAGES_DPKG.line)
            )
    if reason is not None:
        raise reason.fresh()
    raise EvidenceMissing(Missing("installed packages", MissingReason.UNDECIDED, PACKAGES_DPKG.line))


class _Packages(Mapping[str, Package]):
    """dpkg's records as packages."""

    def __init__(self, versions: Mapping[str, str]) -> None:
        self._versions = versions

    def __getitem__(self, name: str) -> Package:
        return Package(name, self._versions[name], "dpkg")

    def __iter__(self) -> Iterator[str]:
        return iter(self._versions)

    def __len__(self) -> int:
        return len(self._versions)


LINE_CHARACTERS = 512  # of `rpm -qa`: a name, a version and a date
_RPM = regex(r"(?P<name>\S+)-(?P<version>[^-\s]+-[^-\s]+?)(?:\.(?:noarch|x86_64|aarch64))?(?=\s|$)")


def parse_packages(text: str, manager: str) -> dict[str, Package]:
    """Installed packages in a list of any of four formats. Raises FormatError if no line has one of them.

    nvidia-dkms-580-open<tab>580.95.05-0ubuntu1<tab>amd64<tab>ii    dpkg-query and rpm, as called here
    ii  rdma-core  50.0-2build2  amd64  RDMA core                   dpkg -l
    rdma-core 50.0-2build2                                          sosreport's installed-debs
    rdma-core-51.0-1.el9.x86_64  Fri 05 Sep 2025                    sosreport's installed-rpms
    """
    found = {}
    for line in text.splitlines():
        fields, words = line.split("\t"), line.split()
        if len(fields) >= 4 and fields[3].startswith("ii"):
            name, version = fields[0], fields[1]
        elif len(words) >= 3 and words[0] == "ii":
            name, version = words[1].partition(":")[0], words[2]
        elif manager == "dpkg" and len(words) == 2 and words[1][0].isdigit():
            name, version = words
        elif manager == "rpm" and (match := _RPM.match(line[:LINE_CHARACTERS])):
            name, version = match["name"], match["version"]
        else:
            continue
        found[name] = Package(name, version, manager)
    if not found:
        raise FormatError("no installed package listed")
    return found


@fact
def owner(node: Node, path: str) -> Package:
    """The package that owns a file. Raises EvidenceAbsent if none does, as for a file that was copied there.

    Sources: dkms(8), where it installs; `dpkg -S`, which prints `package: /path` per line.
    """
    built = re.match(
        r"(?:usr/)?lib/modules/(?P<kernel>[^/]+)/(?:updates/dkms|extra)/(?P<stem>[^/]+)\.ko", path
    )
    for module in _dkms_if_any(node) if built else ():
        if built and module.kernel == built["kernel"]:
            names = listed(
                node, f"{DKMS}/{module.name}/{module.version}/{module.kernel}/{module.arch}/module"
            )
            if any(name.partition(".ko")[0] == built["stem"] for name in names):
                return Package(module.name, module.version, "dkms")
    return first_collected(
        lambda: Package(dpkg_files.owner_by_lists(node, path), "", "dpkg"),
        lambda: _dpkg_owner(node, path),
        lambda: _rpm_owner(node, path),
    )


def _dpkg_owner(node: Node, path: str) -> Package:
    lines = node.run(OWNERS_DPKG).splitlines()
    for line in lines:
        names_of, _, file = line.partition(": /")
        if file and file.removeprefix("usr/") == path.removeprefix("usr/"):
            name = names_of.partition(",")[0].partition(":")[0]
            return Package(name, "", "dpkg")
    if not any(": /" in line for line in lines):
        raise FormatError("no line names a package and a file")
    raise EvidenceAbsent(Missing(f"owner of {path}", MissingReason.ABSENT, f"dpkg -S {quoted(f'/{path}')}"))


def _rpm_owner(node: Node, path: str) -> Package:
    """By the package's name, since bundles have no lists of files: the first package of NVIDIA's modules."""
    missing = Missing(f"owner of {path}", MissingReason.NOT_COLLECTED, f"rpm -qf {quoted(f'/{path}')}")
    known = installed(node)
    is_rpm = any(package.manager == "rpm" for package in known.values())
    if not is_rpm or not path.rpartition("/")[2].startswith("nvidia"):
        raise EvidenceMissing(missing)
    for name, package in known.items():
        if "nvidia" in name and re.search("kmod|kernel|dkms|driver|modules", name):
            node.cite(f"package {name}", text=package.version, confidence=Confidence.LIKELY)
            return package
    raise EvidenceAbsent(Missing(missing.source, MissingReason.ABSENT, missing.ask))


def listed(node: Node, folder: str) -> tuple[str, ...]:
    """The names in a folder; () if it does not exist."""
    return if_absent((), node.list, folder)


def _dkms_if_any(node: Node) -> tuple[DkmsModule, ...]:
    return if_absent((), dkms, node)


# -- DKMS ----------------------------------------------------------------------------------------------


@fact
def dkms(node: Node) -> tuple[DkmsModule, ...]:
    """The modules of DKMS. Raises EvidenceAbsent where there is no DKMS.

    Read from its tree: <name>/<version>/<kernel>/<arch>/module has the built files, and the link
    <name>/kernel-<kernel>-<arch> points to the installed version. Source: dkms(8), dkms.in.
    """
    return first_collected(lambda: _dkms_tree(node), lambda: parse_dkms_status(node.run(DKMS_STATUS)))


def _dkms_tree(node: Node) -> tuple[DkmsModule, ...]:
    found: list[DkmsModule] = []
    for name in node.list(DKMS):
        if not re.fullmatch(r"[\w.+-]+", name) or "." in name:  # mok.key, dkms_dbversion
            continue
        entries = listed(node, f"{DKMS}/{name}")
        links = {
            entry: node.resolve(f"{DKMS}/{name}/{entry}") for entry in entries if entry.startswith("kernel-")
        }
        for version in entries:
            if version.startswith("kernel-") or version == "original_module":
                continue
            built = list(_built(node, name, version, links))
            found += built or [DkmsModule(name, version, "", "", "added")]
    return tuple(found)


def _built(node: Node, name: str, version: str, links: Mapping[str, str]) -> list[DkmsModule]:
    found = []
    for kernel in listed(node, f"{DKMS}/{name}/{version}"):
        if kernel in ("source", "build", "log", "tarball"):
            continue
        for arch in listed(node, f"{DKMS}/{name}/{version}/{kernel}"):
            folder = f"{DKMS}/{name}/{version}/{kernel}/{arch}"
            installed_here = links.get(f"kernel-{kernel}-{arch}") == folder
            found.append(DkmsModule(name, version, kernel, arch, "installed" if installed_here else "built"))
    return found


def parse_dkms_status(text: str) -> tuple[DkmsModule, ...]:
    """The modules in `dkms status`: `nvidia/580.65.06, 6.8.0-45-generic, x86_64: installed`.

    Before version 3, a comma separates name and version. Without modules the output is empty. Raises
    FormatError.
    """
    found = []
    for line in text.splitlines():
        match = re.match(
            r"(?P<name>[\w.+-]+)(?:/|, )(?P<version>[^,:\s]+)(?:, (?P<kernel>[^,\s]+), (?P<arch>[^,:\s]+))?"
            r": (?P<state>added|built|installed)",
            line,
        )
        if match:
            found.append(
                DkmsModule(
                    match["name"],
                    match["version"],
                    match["kernel"] or "",
                    match["arch"] or "",
                    match["state"],
                )
            )
        elif line.strip() and not line.startswith(("Deprecated", "Warning", "WARNING")):
            raise FormatError(f"malformed line in dkms status: {line[:60]!r}")
    return tuple(found)


# -- OFED ----------------------------------------------------------------------------------------------


@fact
def ofed(node: Node) -> Ofed:
    """The RDMA stack of the kernel: its own (inbox), MLNX_OFED or DOCA-OFED.

    Out-of-tree stacks have the module mlx_compat, which is in no kernel. `ofed_info -s` prints the version:
    that of DOCA begins with OFED-internal, and MLNX_OFED ended with 24.10.
    """

    def loaded() -> bool:
        return modules.is_loaded(node, "mlx_compat") or if_absent(
            False, lambda: bool(modules.module_path(node, "mlx_compat"))
        )

    def named() -> Ofed:
        return parse_ofed_info(node.run(OFED_INFO))

    if not loaded():
        return Ofed("inbox", "")
    try:
        return named()
    except EvidenceMissing:
        node.cite("mlx_compat", text="OFED of unknown version", confidence=Confidence.LIKELY)
        return Ofed("doca-ofed" if has_doca_packages(node) else "mlnx-ofed", "")


def has_doca_packages(node: Node) -> bool:
    """Whether a package of DOCA is known to be installed. False also where there is no package list."""
    return if_missing(False, lambda: any(name.startswith("doca") for name in installed(node)))


def parse_ofed_info(text: str) -> Ofed:
    """The stack in `MLNX_OFED_LINUX-24.10-0.7.0.0:` or `OFED-internal-25.01-0.6.0:`. Raises FormatError."""
    match = re.search(r"\b(?P<stack>MLNX_OFED_LINUX|OFED-internal|doca-ofed)-(?P<version>\d[\w.-]*)", text)
    if match is None:
        raise FormatError("no OFED version in the output of ofed_info")
    return Ofed(
        "mlnx-ofed" if match["stack"].startswith("MLNX") else "doca-ofed", match["version"].rstrip("-.")
    )
