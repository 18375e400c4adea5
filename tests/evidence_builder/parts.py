"""The hardware of nodes.

Ids: pci.ids and the GPU table of NVIDIA open-gpu-kernel-modules' README; class codes, BAR registers and
sizes: public lspci listings. Hopper and later put the frame buffer aperture into registers 2 and 3 and
all three BARs are 64 bit (resource file measured on an H200); Ampere and earlier have a 32 bit BAR0 and
the aperture in registers 1 and 2."""

from __future__ import annotations

from typing import NamedTuple

MIB = 1 << 20


class Part(NamedTuple):
    """One kind of PCI function."""

    kind: str  # as in config_space.PORT_TYPES, or "conventional"
    ids: str  # vendor:device:subvendor:subdevice
    class_code: int
    link: str = ""  # "<GT/s>x<lanes>", both what it is and what it can
    revision: int = 0
    bars: tuple[tuple[int, int, bool], ...] = ()  # register index, size in MiB, 64 bit
    resizable: tuple[int, int] | None = None  # register index, largest size in MiB
    driver: str = ""
    name: str = ""
    acs: bool = False
    ats: bool = False
    serial: bool = False


_HOPPER = ((0, 16, True), (4, 32, True))
_AMPERE = ((0, 16, False), (3, 32, True))


def _gpu(
    ids: str, link: str, name: str, aperture_mib: int, *, class_code: int = 0x030200, old: bool = False
) -> Part:
    index = 1 if old else 2
    bars = tuple(sorted((*(_AMPERE if old else _HOPPER), (index, aperture_mib, True))))
    return Part(
        "endpoint",
        ids,
        class_code,
        link,
        0xA1,
        bars,
        (index, max(aperture_mib, 256)),
        "nvidia",
        name,
        serial=True,
    )


def _nic(ids: str, link: str, name: str, class_code: int = 0x020000, driver: str = "mlx5_core") -> Part:
    return Part(
        "endpoint", ids, class_code, link, 0, ((0, 32, True),), None, driver, name, ats=True, serial=True
    )


def _port(kind: str, ids: str, link: str, revision: int = 0) -> Part:
    return Part(kind, ids, 0x060400, link, revision, driver="pcieport", acs=kind != "switch-up")


PARTS = {
    # GPUs
    "h100-sxm": _gpu("10de:2330:10de:16c1", "32.0x16", "NVIDIA H100 80GB HBM3", 131072),
    "h200-sxm": _gpu("10de:2335:10de:18bf", "32.0x16", "NVIDIA H200", 262144),
    "gh200": _gpu("10de:2342:10de:16eb", "32.0x16", "NVIDIA GH200 480GB", 131072),
    "gb200": _gpu("10de:2941:10de:2046", "32.0x16", "NVIDIA GB200", 262144),
    "gb10": Part(  # no frame buffer, so no aperture; a public NCCL topology dump says 2.5 GT/s x16
        *("endpoint", "10de:2e12:10de:0000", 0x030000, "2.5x16", 0xA1),
        *(((0, 16, True),), None, "nvidia", "NVIDIA GB10"),
    ),
    "a100-sxm-80": _gpu("10de:20b2:10de:1463", "16.0x16", "NVIDIA A100-SXM4-80GB", 131072, old=True),
    "a100-sxm-40": _gpu("10de:20b0:10de:134f", "16.0x16", "NVIDIA A100-SXM4-40GB", 65536, old=True),
    "v100-sxm": _gpu("10de:1db5:10de:1249", "8.0x16", "Tesla V100-SXM2-32GB", 32768, old=True),
    "t4": _gpu("10de:1eb8:10de:12a2", "8.0x16", "Tesla T4", 256, old=True),
    "l40s": _gpu("10de:26b9:10de:1851", "16.0x16", "NVIDIA L40S", 65536, old=True),
    "a40-vgpu": _gpu("10de:2235:10de:14ee", "16.0x16", "NVIDIA A40-48Q", 256, old=True),
    "rtx-3090": _gpu(
        "10de:2204:1462:3884", "16.0x16", "NVIDIA GeForce RTX 3090", 256, class_code=0x030000, old=True
    ),
    "rtx-4090": _gpu(
        "10de:2684:10de:16f4", "16.0x16", "NVIDIA GeForce RTX 4090", 256, class_code=0x030000, old=True
    ),
    "rtx-a6000": _gpu(
        "10de:2230:10de:1459", "16.0x16", "NVIDIA RTX A6000", 256, class_code=0x030000, old=True
    ),
    "nvswitch": Part(
        "endpoint", "10de:22a3:10de:1796", 0x068000, "32.0x16", 0xA1, name="GH100 [H100 NVSwitch]"
    ),
    # NICs
    "cx7-ib": _nic("15b3:1021:15b3:0040", "32.0x16", "MT2910 Family [ConnectX-7]", 0x020700),
    "cx7-eth": _nic("15b3:1021:15b3:0041", "32.0x16", "MT2910 Family [ConnectX-7]"),
    "cx7-spark": _nic("15b3:1021:15b3:0087", "32.0x4", "MT2910 Family [ConnectX-7]"),
    "cx6-ib": _nic("15b3:101b:15b3:0006", "16.0x16", "MT28908 Family [ConnectX-6]", 0x020700),
    "cx6-dx": _nic("15b3:101d:15b3:0016", "16.0x16", "MT2892 Family [ConnectX-6 Dx]"),
    "cx5-ib": _nic("15b3:1019:15b3:0008", "16.0x16", "MT28800 Family [ConnectX-5 Ex]", 0x020700),
    "cx4-lx": _nic("15b3:1015:15b3:0003", "8.0x8", "MT27710 Family [ConnectX-4 Lx]"),
    "cx7-recovery": _nic(
        "15b3:0218:15b3:0218", "32.0x16", "MT2910 Family [ConnectX-7 Flash Recovery]", 0x058000, ""
    ),
    "cx5-vf": _nic("15b3:1018:15b3:0000", "8.0x8", "MT27800 Family [ConnectX-5 Virtual Function]"),
    "efa": _nic("1d0f:efa2:1d0f:efa2", "16.0x16", "Elastic Fabric Adapter (EFA)", driver="efa"),
    "i225": _nic("8086:15f3:1043:87d2", "5.0x1", "Ethernet Controller I225-V", driver="igc"),
    # bridges
    "spr-root": _port("root-port", "8086:352a:8086:0000", "32.0x16", 0x30),
    "icx-root": _port("root-port", "8086:347a:8086:0000", "16.0x16", 0x04),
    "skx-root": _port("root-port", "8086:2030:8086:0000", "8.0x16", 0x07),
    "genoa-root": _port("root-port", "1022:14ab:1022:1453", "32.0x16", 0x01),
    "rome-root": _port("root-port", "1022:1483:1022:1453", "16.0x16"),
    "am5-root": _port("root-port", "1022:14db:1022:1453", "16.0x16"),
    "grace-root": _port("root-port", "10de:22b1:10de:0000", "32.0x16"),
    "gb10-root": _port("root-port", "10de:22ce:10de:0000", "32.0x4", 0x01),
    "gb10-gpu-root": _port("root-port", "10de:22d1:10de:0000", "2.5x16", 0x01),
    "qemu-root": _port("root-port", "1b36:000c:1b36:0000", "16.0x32"),
    "pex89-up": _port("switch-up", "1000:c030:1000:100b", "32.0x16", 0xB0),
    "pex89-down": _port("switch-down", "1000:c030:1000:100b", "32.0x16", 0xB0),
    "pex88-up": _port("switch-up", "1000:c010:1000:a096", "16.0x16", 0xB0),
    "pex88-down": _port("switch-down", "1000:c010:1000:a096", "16.0x16", 0xB0),
    "pex97-up": _port("switch-up", "10b5:9797:10b5:9797", "8.0x16", 0xAA),
    "pex97-down": _port("switch-down", "10b5:9797:10b5:9797", "8.0x16", 0xAA),
    "qemu-up": _port("switch-up", "104c:8232:104c:0000", "2.5x1", 0x02),
    "qemu-down": _port("switch-down", "104c:8233:104c:0000", "2.5x1", 0x01),
    # the rest of a virtual machine
    "wsl-gpu": Part("conventional", "1414:008e:0000:0000", 0x030200, driver="dxgkrnl"),
    "host-bridge": Part("conventional", "8086:0d57:0000:0000", 0x060000),
    "virtio-block": Part("conventional", "1af4:1042:1af4:1042", 0x018000, revision=1, driver="virtio-pci"),
    "virtio-net": Part("conventional", "1af4:1041:1af4:1041", 0x020000, revision=1, driver="virtio-pci"),
    "virtio-vsock": Part("conventional", "1af4:1053:1af4:1053", 0xFFFF00, revision=1, driver="virtio-pci"),
    "virtio-rng": Part("conventional", "1af4:1044:1af4:1044", 0xFFFF00, revision=1, driver="virtio-pci"),
}
