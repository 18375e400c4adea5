"""All commands with their outputs, and a session in a terminal that shows them.

lspci, modinfo and modprobe are the real programs,
run on that tree; outputs that were recorded are printed as they are; the rest is printed from sysfs and proc
in the form of the programs' sources: infiniband-diags (ibstat.c, ibstatus), rdma-core
(libibverbs/examples/devinfo.c, device_list.c), kmod (tools/lsmod.c), bash (builtins/ulimit.def), dpkg
(src/query/main.c), mokutil (src/mokutil.c), driver 580 (nvidia-smi -L, topo -m). Nothing of gdrkit is used.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from machines.printed import rdma
from machines.printed.files import Files
from machines.printed.topo import matrix
from machines.programs import needed

MODULES = ("nvidia_peermem", "nvidia", "ib_core", "mlx5_ib")
"""Modules about which people ask modinfo."""

FILES = (
    "proc/cmdline",
    "proc/driver/nvidia/version",
    "proc/driver/nvidia/params",
    "sys/kernel/security/lockdown",
    "sys/module/module/parameters/sig_enforce",
    "etc/nccl.conf",
)
"""Files that people show with `cat`."""

NOT_TYPED = ("gdr", "dpkg", "dpkg-query", "rpm")
"""Programs whose recorded outputs only a collector asks for in that form."""


def printed(folder: Path) -> dict[str, str]:
    """What each command prints on the machine in a folder, by command line, in the order of a session."""
    files = Files(folder)
    recorded = dict(_recorded(files))
    found: dict[str, str] = {}
    if "uname -a" in recorded:
        found["uname -a"] = recorded.pop("uname -a")
    for writer in WRITERS:
        found.update(writer(files))
    for command, output in recorded.items():
        found.setdefault(command, output)
    return found


def session(outputs: Mapping[str, str], name: str) -> str:
    """The commands with their outputs as a terminal shows them, up to the next prompt."""
    prompt = f"root@{name}:~# "
    parts = []
    for command, output in outputs.items():
        parts += [f"{prompt}{command}", *([output.rstrip()] if output.strip() else [])]
    return "\n".join((*parts, prompt)) + "\n"


def _recorded(files: Files) -> Iterator[tuple[str, str]]:
    """The outputs of commands that the collector has recorded."""
    for row in files.manifest.get("commands", ()):
        if row["status"] == "found" and row["argv"][0] not in NOT_TYPED:
            yield " ".join(row["argv"]), files.text(row["file"])
    for file in files.below("sos_commands/*/*") if not files.manifest else ():
        name = file.name.replace("_", " ")
        if "ALL" not in name and file.parent.name != "gdr":
            yield name, files.text(str(file.relative_to(files.folder)))


def _files(files: Files) -> Iterator[tuple[str, str]]:
    configuration = (str(file.relative_to(files.folder)) for file in files.below("etc/modprobe.d/*.conf"))
    for path in (*FILES, *configuration):
        if files.has(path):
            yield f"cat /{path}", files.text(path)


def _modules(files: Files) -> Iterator[tuple[str, str]]:
    """lsmod, modinfo, and what modprobe would load."""
    rows = [line.split() for line in files.text("proc/modules").splitlines()]
    if rows:
        lines = [
            f"{name:<20} {size:>9}  {count}" + (f" {users.rstrip(',')}" if users != "-" else "")
            for name, size, count, users, *_ in rows
        ]
        head = "Module                  Size  Used by"
        yield "lsmod", "\n".join((head, *lines))
        yield "lsmod | grep peermem", "\n".join(line for line in lines if "peermem" in line)
    root = str(files.folder)
    if not files.has(f"lib/modules/{files.release}/modules.dep"):
        return
    for module in MODULES:
        output = _run(["modinfo", "-b", root, "-k", files.release, module])
        yield f"modinfo {module}", output.replace(root, "")
    configuration = [f"-C{folder}" for folder in files.below("*/modprobe.d") if folder.is_dir()]
    configuration += [f"-C{folder}" for folder in files.below("usr/lib/modprobe.d")]
    argv = ["modprobe", *(configuration or ["-C/dev/null"]), "-d", root, "-S", files.release]
    loads = _run([*argv, "--show-depends", "nvidia-peermem"])
    yield "modprobe --show-depends nvidia-peermem", loads.replace(root, "")


def _trust(files: Files) -> Iterator[tuple[str, str]]:
    efi = list(files.below("sys/firmware/efi/efivars/SecureBoot-*"))
    if efi:
        on = efi[0].read_bytes()[-1] == 1
        yield "mokutil --sb-state", f"SecureBoot {'enabled' if on else 'disabled'}"


def _limits(files: Files) -> Iterator[tuple[str, str]]:
    """`ulimit -l` prints units of 1024 bytes."""
    for line in files.text("proc/self/limits").splitlines():
        if line.startswith("Max locked memory"):
            soft = line.split()[3]
            yield "ulimit -l", soft if soft == "unlimited" else str(int(soft) // 1024)


def _packages(files: Files) -> Iterator[tuple[str, str]]:
    """`dpkg -l` and `rpm -qa` of the packages that matter, from the collector's list of them."""
    rows = [line.split("\t") for line in files.text("sos_commands/gdr/packages").splitlines()]
    if not rows:
        return
    if any(len(row) > 2 and row[2] in ("amd64", "arm64", "all") for row in rows):
        lines = [f"{row[3].strip():<3} {row[0]:<32} {row[1]:<28} {row[2]:<12} -" for row in rows]
        yield "dpkg -l | grep -E 'nvidia|nccl|verbs|ofed'", "\n".join(lines)
    else:
        yield (
            "rpm -qa | grep -E 'nvidia|nccl|verbs|ofed'",
            "\n".join("-".join(r[:2]) + f".{r[2]}" for r in rows),
        )


def _pci(files: Files) -> Iterator[tuple[str, str]]:
    """`lspci -nnvvv` of the tree: the real one, on a copy that has the files which libpci opens."""
    devices = files.folder / "sys/bus/pci/devices"
    if not devices.is_dir():
        return
    with tempfile.TemporaryDirectory() as name:
        for device in devices.iterdir():
            _mirror(device, Path(name, "devices", device.name))
        argv = ["lspci", "-A", "linux-sysfs", "-O", f"sysfs.path={name}", "-nnvvv"]
        shown = _run(argv, errors=subprocess.DEVNULL)  # it asks libkmod of another kernel
    yield "lspci -nnvvv", "\n\n".join(_with_driver(one, devices) for one in shown.rstrip().split("\n\n"))


def _with_driver(shown: str, devices: Path) -> str:
    """A device with its driver as ls-kernel.c prints it: lspci looks in /sys alone."""
    address = shown.partition(" ")[0]
    link = devices / (address if address.count(":") == 2 else f"0000:{address}") / "driver"
    return f"{shown}\n\tKernel driver in use: {link.readlink().name}" if link.is_symlink() else shown


def _mirror(device: Path, to: Path) -> None:
    """A folder of a device for libpci, which needs two files that a bundle lacks."""
    to.mkdir(parents=True)
    for file in device.iterdir():
        if file.is_file() and not file.is_symlink():
            (to / file.name).symlink_to(file.absolute())
    for missing, content in (("irq", "0\n"), ("resource", "")):
        if not (to / missing).exists():
            (to / missing).write_text(content)


def _gpus(files: Files) -> Iterator[tuple[str, str]]:
    """`nvidia-smi -L` and the matrix of `topo -m`, from what the driver says of its GPUs."""
    gpus = []
    for file in files.below("proc/driver/nvidia/gpus/*/information"):
        pairs = (line.partition(":")[::2] for line in file.read_text().splitlines())
        fields = {key.strip(): value.strip() for key, value in pairs}
        gpus.append((file.parent.name, fields))
    if gpus:
        lines = [
            f"GPU {number}: {fields.get('Model', '')} (UUID: {fields.get('GPU UUID', '')})"
            for number, (_, fields) in enumerate(gpus)
        ]
        yield "nvidia-smi -L", "\n".join(lines)
        yield "nvidia-smi topo -m", matrix(files, [address for address, _ in gpus])


def _run(argv: list[str], errors: int = subprocess.STDOUT) -> str:
    """What a program prints, with its errors unless they go elsewhere."""
    command = [needed(argv[0]), *argv[1:]]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, check=False)
    return done.stdout.decode(errors="replace")


WRITERS: tuple[Callable[[Files], Iterator[tuple[str, str]]], ...] = (
    _files, _modules, _trust, _limits, _packages, _pci, _gpus, rdma.printed,
)  # fmt: skip
