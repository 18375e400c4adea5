"""A healthy machine, drawn from a seed."""

from __future__ import annotations

import random

from machines import other_programs, rack
from machines.hardware import GPUS, NICS
from machines.kernels import KERNELS, TALOS, WSL, Kernel
from machines.machine import Driver, Libraries, Machine, Ofed, Peermem, Trust
from machines.platforms import ORDINARY_GPUS, ORDINARY_NICS, PLATFORMS

DRIVERS = (
    "470.256.02",
    "525.147.05",
    "535.183.01",
    "550.90.07",
    "560.35.05",
    "570.158.01",
    "575.57.08",
    "580.95.05",
    "590.48.01",
    "595.45.04",
)
OFEDS = {"mlnx": ("5.8-4.1.5.0", "23.10-2.1.3.1", "24.10-1.1.4.0"), "doca": ("25.01-0.6.0", "25.07-0.9.7")}
TRUSTS = (
    "no Secure Boot",
    "BIOS",
    "Secure Boot",
    "key in db",
    "sig_enforce",
    "lockdown",
    "shim validation off",
)
NCCLS = ("2.18.5", "2.20.5", "2.21.5", "2.22.3", "2.23.4", "2.25.1", "2.26.2", "2.27.5", "2.28.9", "2.29.2")
UCXS = ("", "1.12.1", "1.15.0", "1.17.0", "1.18.0", "1.19.0")
NVSHMEMS = ("", "", "3.2.5", "3.4.5")
USUAL_PLATFORMS = (
    "rails",
    "rails",
    "rails",
    "shared switches",
    "shared switches",
    "VM with a switch",
    "Arm server",
    "coherent",
    "VM with a switch",
    "VM, flat",
    "display card beside",
    "AWS",
)


def machine(number: int, source: random.Random, platform: str = "") -> Machine:
    """One machine; whether it is healthy is for the truth to say."""
    platform = platform or source.choice(USUAL_PLATFORMS)
    if platform in ("Talos", "WSL"):
        return _special(number, source, platform)
    layout, cpus, allowed = PLATFORMS[platform]
    gpu = source.choice(allowed or ORDINARY_GPUS)
    cpu = source.choice(cpus)
    nic = _nic(source, platform, gpu)
    kernel = _kernel(source, platform, cpu)
    drawn = Machine(
        number, f"node{number}", platform, cpu, kernel, layout(source, gpu, nic, cpu), None, Peermem()
    )
    drawn.trust = trust(source.choice(TRUSTS))
    drawn.virtual = "vm" if cpu == "qemu" else ""
    drawn.topology_file = platform == "VM, flat"
    drawn.driver = _driver(source, drawn)
    _ofed(source, drawn)
    _signers(source, drawn)
    _peermem(source, drawn)
    drawn.libraries = _libraries(source, drawn)
    if rack.members(drawn) and source.random() < 0.6:
        rack.join(drawn)
    drawn.build_ids = source.random() < 0.7
    if source.random() < 0.15:
        drawn.in_use = "dmabuf"
    drawn.iommu = source.choice(("identity", "identity", "off")) if cpu != "qemu" else "off"
    drawn.beside = other_programs.draw(source, drawn)
    return drawn


def _nic(source: random.Random, platform: str, gpu: str) -> str:
    if platform == "AWS":
        return "EFA"
    if platform == "Spark":
        return "CX7 Spark"
    if platform == "coherent":
        return source.choice(("CX7 IB", "CX7", "BF3 NIC"))
    if platform.startswith("VM"):
        return source.choice(("CX6 VF", "CX7 IB", "CX6"))
    return source.choice(ORDINARY_NICS)


def _kernel(source: random.Random, platform: str, cpu: str) -> Kernel:
    arm = [kernel for kernel in KERNELS if kernel.arch == "aarch64"]
    if cpu in ("grace", "altra", "gb10"):
        return source.choice([k for k in arm if k.number >= (6, 14)] if cpu == "gb10" else arm)
    if platform == "AWS":
        return next(kernel for kernel in KERNELS if kernel.release.endswith("-aws"))
    return source.choice([k for k in KERNELS if k.arch == "x86_64" and not k.release.endswith("-aws")])


def trust(name: str) -> Trust:
    """One of the profiles of keys and enforcement.

    Secure Boot locks the kernel down and, by the IMA policy, enforces signatures; shim may switch it off."""
    if name == "BIOS":
        return Trust(name, efi=False)
    if name in ("Secure Boot", "key in db"):
        return Trust(name, secure_boot=True, sig_enforce=True, lockdown="integrity")
    if name == "sig_enforce":
        return Trust(name, efi=False, sig_enforce=True)
    if name == "lockdown":
        return Trust(name, efi=False, lockdown="integrity")
    if name == "shim validation off":
        return Trust(name, secure_boot=True, shim_validation=False)
    return Trust(name)


def _driver(source: random.Random, machine: Machine) -> Driver:
    products = [gpu.gpu for gpu in machine.gpus if gpu.gpu]
    since, until = max(gpu.since for gpu in products), min(gpu.until for gpu in products)
    if machine.kernel.number >= (6, 11):
        since = max(since, 550)
    if machine.kernel.number >= (6, 14):
        since = max(since, 570)
    if machine.kernel.number >= (6, 18):
        since = max(since, 580)
    versions = [version for version in DRIVERS if since <= int(version.split(".")[0]) <= until]
    version = source.choice(versions)
    branch = int(version.split(".")[0])
    old = any(gpu.architecture in ("volta", "pascal") for gpu in products)
    must = any(gpu.open_only for gpu in products)
    # until 535 the open modules needed an option for professional cards
    may = branch >= (525 if all(gpu.kind == "datacentre" for gpu in products) else 550) and not old
    return Driver(version, must or (may and source.random() < 0.65))


def _ofed(source: random.Random, machine: Machine) -> None:
    """Perhaps an OFED, which runs."""
    kind = source.choice(("none", "none", "mlnx", "doca"))
    if machine.platform == "AWS" or machine.cpu == "gb10":
        kind = "none"
    if kind == "mlnx" and machine.kernel.number >= (6, 9):
        kind = "doca"
    if machine.kernel.number >= (6, 18):
        kind = "none"  # DOCA 3.2's list of kernels ends before
    if kind == "none" or machine.trust.name == "sig_enforce":
        return
    versions = OFEDS[kind]
    if kind == "mlnx" and machine.kernel.number >= (6, 0):
        versions = versions[1:]
    if kind == "mlnx" and machine.kernel.number < (5, 0) and source.random() < 0.5:
        versions = versions[:1]
    version = source.choice(versions)
    tag = f"ofed-{version}"
    provider = "ib_uverbs" if version >= "24" and not version.startswith("5") else "ib_core"
    machine.ofed = Ofed(kind, version, provider, tag, running=tag)
    machine.ofed_state = "running"


def _signers(source: random.Random, machine: Machine) -> None:
    """Who signed what is not of the kernel itself; the keys are enrolled where they must be."""
    assert machine.driver
    profile, distribution = machine.trust, machine.distribution
    own = (
        "DKMS module signing key"
        if distribution.family == "rpm"
        else f"{machine.name} Secure Boot Module Signature key"
    )
    enforced = profile.sig_enforce or profile.lockdown != "none"
    prebuilt = (
        bool(distribution.driver_key)
        and machine.ofed is None
        and (profile.name in ("sig_enforce", "lockdown") or source.random() < 0.5)
    )
    if prebuilt:
        branch = machine.driver.branch
        machine.driver.signer = distribution.driver_key
        machine.driver.folder = f"kernel/nvidia-{branch}{'-open' if machine.driver.is_open else ''}"
    else:
        machine.driver.folder = "updates/dkms" if distribution.family == "deb" else "extra"
        machine.driver.signer = own if enforced or source.random() < 0.7 else ""
    if machine.ofed:
        rpm = machine.ofed.kind == "mlnx" and distribution.family == "rpm"
        machine.ofed.signer = "Mellanox Technologies signing key" if rpm else machine.driver.signer
    keys = [machine.driver.signer] + ([machine.ofed.signer] if machine.ofed else [])
    wanted = sorted({key for key in keys if key and key not in machine.builtin})
    (profile.db if profile.name == "key in db" else profile.mok).extend(wanted if enforced else [])


def _peermem(source: random.Random, machine: Machine) -> None:
    """Full where the API was there when the driver was built, else a stub; loaded if it is needed."""
    assert machine.driver
    provider = machine.provider(machine.running_stack)
    prebuilt = machine.driver.folder.startswith("kernel/nvidia-")
    machine.peermem = Peermem(
        "full" if provider and not (prebuilt and machine.ofed) else "stub", machine.running_stack
    )
    if machine.peermem.kind == "full":
        wanted = not machine.driver.is_open or source.random() < 0.5
        machine.peermem.loaded = machine.peermem.at_boot = wanted


def _libraries(source: random.Random, machine: Machine) -> Libraries:
    version = machine.distribution.rdma_core
    if machine.ofed:
        version = max(version, {"5": 41, "2": 50}[machine.ofed.version[0]])
    nccl = source.choice(NCCLS)
    if machine.platform == "coherent":
        nccl = source.choice([v for v in NCCLS if v >= "2.27"])
    blackwell = any(gpu.gpu and gpu.gpu.architecture == "blackwell" for gpu in machine.gpus)
    if blackwell:
        nccl = source.choice([v for v in NCCLS if v >= "2.25"])
    held = Libraries(version, version >= 34, 0, nccl, source.choice(UCXS), source.choice(NVSHMEMS))
    held.net_plugin = machine.platform == "AWS"
    return held


def _special(number: int, source: random.Random, platform: str) -> Machine:
    """Talos, and the Windows Subsystem for Linux."""
    layout, _, _ = PLATFORMS["rails"]
    if platform == "WSL":
        functions = layout(source, "RTX 4090", "CX5", "amd")[:1]
        functions[0].part, functions[0].driver = "wsl-gpu", "dxgkrnl"
        made = Machine(number, f"node{number}", platform, "amd", WSL, functions, None, Peermem("none"))
        made.trust, made.virtual, made.rdma_driver_loaded = trust("BIOS"), "vm", False
        made.iommu, made.files["dev/dxg"] = "off", ""
        made.libraries = Libraries(50, True, 0, "2.27.5")
        made.dropped += ["lib/modules", "boot", "usr/src"]
        return made
    gpu = source.choice(("A100", "H100", "L40S"))
    made = Machine(
        number,
        f"node{number}",
        platform,
        "intel",
        TALOS,
        layout(source, gpu, "CX7", "intel"),
        None,
        Peermem(),
    )
    made.driver = Driver("595.45.04", True, TALOS_KEY, "kernel/drivers/video", packaged=False)
    made.trust, made.libraries = trust("sig_enforce"), Libraries(0, False, 0, "")
    made.peermem = Peermem("stub", made.inbox_tag)
    made.hidden = {
        f"usr/lib/{made.kernel.arch}-linux-gnu": "not-collected",
        "usr/lib64": "not-collected",
        "lib64": "not-collected",
        "opt": "not-collected",
        "usr/local": "not-collected",
    }
    return made


TALOS_KEY = "Build time throw-away kernel key"


def unused_names() -> tuple[str, ...]:
    """Products that no layout uses, for the test that the catalogue is used up."""
    return tuple(name for name in (*GPUS, *NICS) if name not in (*ORDINARY_GPUS, *ORDINARY_NICS))
