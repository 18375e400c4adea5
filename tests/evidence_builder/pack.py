"""Write a tree in a format: a collector's bundle, a plain folder, a sosreport, an NVIDIA bug report.

The manifest of a bundle is `gdr_manifest.json`, schema gdrkit.bundle/1."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gdrkit.agent.collect.module_files import small
from gdrkit.evidence import Command
from gdrkit.facts import commands
from tests.evidence_builder.tree import Tree

PACKAGES, OWNERS = "sos_commands/gdr/packages", "sos_commands/gdr/owners"
NAMED = {  # where collectors keep the output of a command
    "sos_commands/kernel/dmesg": commands.DMESG,
    "sos_commands/kernel/uname_-a": commands.UNAME,
    "sos_commands/nvidia/nvidia-smi_-q": commands.NVIDIA_SMI,
    "sos_commands/pci/lspci_-nnvv": Command(("lspci", "-nnvv"), ()),
    "sos_commands/infiniband/ibv_devinfo_-v": commands.IBV_DEVINFO,
    "sos_commands/gdr/nvidia-smi_conf-compute_-f": commands.NVIDIA_SMI_CONFIDENTIAL,
    "sos_commands/gdr/probe_cuda": commands.PROBE_CUDA,
    "sos_commands/gdr/ofed_info_-s": commands.OFED_INFO,
    OWNERS: commands.OWNERS_DPKG,
}
COMMANDS = {file: list(command.argv) for file, command in NAMED.items()}
SOS_TAKES = (  # sos 4.8: plugins boot, infiniband, kernel, nvidia, pci and dpkg, of what a node has here
    *(
        "boot/config-",
        "etc/",
        "proc/cmdline",
        "proc/cpuinfo",
        "proc/driver/",
        "proc/kallsyms",
        "proc/modules",
    ),
    *("proc/version", "sos_commands/", "sos_reports/", "var/lib/dpkg/status", "version.txt"),
)
SOS_TAKES_OF_MODULES = ("initstate", "refcnt", "taint", "version", "srcversion", "coresize")
DATE = 1795190400  # 2026-11-20 16:00 UTC, constant, so that archives are reproducible


def manifest(tree: Tree, spec: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest of a complete collection."""
    bundle = spec.get("bundle", {})
    unseen = list(bundle.get("unseen", []))
    folders: dict[str, dict[str, Any]] = {}
    for folder, names in tree.listing().items():
        if any(folder == path or folder.startswith(path + "/") for path in unseen):
            continue
        ahead = {p[len(folder) + 1 :].split("/")[0] for p in unseen if p.startswith(folder + "/")}
        folders[folder] = {"status": "listed", "names": sorted({*names, *ahead})}
    for folder in bundle.get("absent", []):
        folders[folder] = {"status": "absent"}
    files: dict[str, dict[str, Any]] = {
        path: {"status": "found"} for path in sorted((*tree.files, *tree.links)) if not _is_output(path)
    }
    if bundle.get("reduced"):
        files |= _reduce(tree)
    for path, why in tree.denied.items():
        files[path] = {"status": "denied", "why": why}
    rows = [_command(path, spec) for path in sorted(tree.files) if _is_output(path)]
    for path, failure in bundle.get("failed_commands", {}).items():
        argv = COMMANDS.get(path, failure.get("argv"))
        row = {"argv": argv, "file": path, "exit_code": failure["exit_code"], "status": failure["status"]}
        rows.append(row | {"stderr": failure.get("stderr", "")})
    return {
        "schema": "gdrkit.bundle/1",
        "collector": "0.1.0",
        "collected": "2026-11-20T16:00:00Z",
        "anonymized": False,
        "scope": bundle.get("scope", "host"),
        "user": bundle.get("user", "root"),
        "kernel": spec["kernel"]["release"],
        "files": files,
        "folders": folders,
        "commands": rows,
    }


def _reduce(tree: Tree) -> dict[str, dict[str, Any]]:
    """Reduce modules as `gdr collect` does, and record it in the manifest."""
    rows = {}
    for path in tree.reducible & tree.files.keys():
        raw = tree.files[path]
        module = small(raw, whole=False)
        tree.files[path] = module.data
        rows[path] = {"status": module.status, "size": len(raw), "digests": module.digests}
    return rows


def _is_output(path: str) -> bool:
    """Whether a command wrote the file; manifests and logs of a cluster are plain files."""
    return path.startswith("sos_commands/") and not path.startswith("sos_commands/kubernetes/")


def _command(path: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    argv = COMMANDS.get(path)
    if path == PACKAGES:
        packages = commands.PACKAGES_RPM if "rpm" in spec.get("packages", {}) else commands.PACKAGES_DPKG
        argv = list(packages.argv)
    if argv is None:  # sos names files so: blanks become underscores
        argv = path.rsplit("/", 1)[1].split("_")
    return {"argv": argv, "file": path, "exit_code": 0, "status": "found", "stderr": ""}


def bundle(tree: Tree, spec: Mapping[str, Any], folder: Path) -> Path:
    """Write an unpacked bundle."""
    at = folder / f"gdr-{spec['host']['name']}-20261120T160000Z"
    at.mkdir()
    said = manifest(tree, spec)
    tree.write(at)
    (at / "gdr_manifest.json").write_text(json.dumps(said, indent=1) + "\n")
    return at


def plain(tree: Tree, spec: Mapping[str, Any], folder: Path) -> Path:
    """Write a folder that looks like /; with `live`, it has all of /proc, so that missing paths are
    absent."""
    at = folder / str(spec["host"]["name"])
    at.mkdir()
    if spec.get("bundle", {}).get("live"):
        tree.line("proc/1/comm", "systemd")
        tree.file("proc/1/cgroup", "0::/init.scope\n")
    tree.write(at)
    return at


def sosreport(tree: Tree, spec: Mapping[str, Any], folder: Path) -> Path:
    """Write a .tar.xz as sos does, with its record of commands."""
    top = f"sosreport-{spec['host']['name']}-2026-11-20-abcdefg"
    kept = {path: content for path, content in tree.files.items() if _sos_takes(path)}
    ran = [
        {
            "command": "_".join(argv),
            "exec": " ".join(argv),
            "filepath": path,
            "return_code": 0,
            "truncated": False,
        }
        for path, argv in COMMANDS.items()
        if path in kept
    ]
    failed = spec.get("bundle", {}).get("failed_commands", {})
    for path, failure in failed.items():
        kept[path] = failure["stderr"].encode() + b"\n"  # sos keeps the complaint where the output would be
        argv = failure["argv"]
        row = {"command": "_".join(argv), "exec": " ".join(argv), "filepath": path, "truncated": False}
        ran.append(row | {"return_code": failure["exit_code"]})
    record = {"version": "4.8.2", "cmdline": "sos report --batch", "components": {"report": {"plugins": {
        "all": {"commands": ran, "files": []}}}}}  # fmt: skip
    kept["sos_reports/manifest.json"] = json.dumps(record, indent=1).encode()
    kept["version.txt"] = b"sos report: 4.8.2 (/usr/bin/sos)\n"
    at = folder / f"{top}.tar.xz"
    with tarfile.open(at, "w:xz", preset=0) as archive:
        for path in sorted(kept):
            member = tarfile.TarInfo(f"{top}/{path}")
            member.mtime, member.size = DATE, len(kept[path])
            archive.addfile(member, io.BytesIO(kept[path]))
    return at


def _sos_takes(path: str) -> bool:
    if path == "sos_commands/pci/lspci_-nnDvvvxxxx":
        return False
    if path.startswith("lib/modules/"):
        return path.rsplit("/", 1)[1].startswith("modules.")
    if path.startswith("sys/module/"):
        return path.rsplit("/", 1)[1] in SOS_TAKES_OF_MODULES or "/parameters/" in path
    return path.startswith(SOS_TAKES)


def bug_report(tree: Tree, spec: Mapping[str, Any], folder: Path) -> Path:
    """Write nvidia-bug-report.log.gz: sections between rules, files after three stars, commands by their
    path.

    Format: nvidia-bug-report.sh of the 5xx drivers."""
    rule = "____________________________________________\n\n"
    text = rule + "Start of NVIDIA bug report log file.  Please include this file, along\n"
    text += "with a detailed description of your problem, when reporting a graphics\n"
    text += "driver bug via the NVIDIA Linux forum (see forums.developer.nvidia.com)\n"
    text += "or by sending email to 'linux-bugs@nvidia.com'.\n\n"
    text += "nvidia-bug-report.sh Version: 34275561\n\nDate: Fri Nov 20 16:00:00 UTC 2026\n"
    text += "uname: " + tree.files["sos_commands/kernel/uname_-a"].decode()
    text += "command line flags: \n\n"
    chosen = [
        *("etc/os-release", "proc/cmdline", "proc/cpuinfo", "proc/version", "proc/modules"),
        *sorted(path for path in tree.files if path.startswith("proc/driver/nvidia/")),
    ]
    for path in chosen:
        shown = path.replace("proc/driver/nvidia/", "proc/driver/nvidia/./")
        size = len(tree.files[path])
        stamp = "2026-11-20 16:00:00.000000000 +0000"
        text += f"{rule}*** /{shown}\n*** ls: -r--r--r-- 1 root root {size} {stamp} /{shown}\n"
        text += tree.files[path].decode() + "\n"
    for title, path in spec.get("bundle", {}).get("commands_shown", {}).items():
        text += rule + f"{title}\n\n" + tree.files[path].decode() + "\n"
    text += rule + "End of NVIDIA bug report log file.\n"
    at = folder / "nvidia-bug-report.log.gz"
    at.write_bytes(gzip.compress(text.encode(), mtime=DATE))
    return at
