"""What remains of each kind of text: all that rules read, and no word more."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.agent.collect.configuration import without_unread
from tests.work import within

GRUB, MODPROBE, UNIT = "etc/default/grub", "etc/modprobe.d/a.conf", "etc/systemd/system/a.service"


def kept(path: str, text: str) -> str:
    return without_unread(path, text.encode()).decode()


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("proc/cmdline", "quiet iommu=pt pci=config_acs=101@0:1.0;1@0:2.0 modprobe.blacklist=a,b\n"),
        ("proc/cmdline", 'nvidia.NVreg_RegistryDwords="A=1;" module.sig_enforce -- nvidia_drm.modeset=1'),
        (
            "proc/cmdline",
            "root=UUID=0a1b-2c ro console=ttyS0,115200n8 hugepages=16 rd.driver.blacklist=nouveau",
        ),
        (GRUB, "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX quiet pci='disable_acs_redir=A;B' splash;\""),
        (GRUB, "GRUB_CMDLINE_LINUX='iommu=pt quiet'\nGRUB_CMDLINE_LINUX_DEFAULT=iommu=pt"),
        (GRUB, 'GRUB_DEFAULT="Advanced options for Ubuntu>Ubuntu, with Linux 6.8.0-45-generic"'),
        ("boot/grub2/grubenv", "saved_entry=gpu-5.14.0-427.el9.x86_64\nkernelopts=ro iommu=pt"),
        (
            "boot/loader/entries/a.conf",
            "linux /vmlinuz-6.1\noptions $kernelopts iommu.passthrough=1 nosplash",
        ),
        (MODPROBE, "install nvidia /bin/true && exit 1; test -e /sys/x || modprobe --ignore-install a b=1"),
        (
            MODPROBE,
            "install ib_core { modprobe -q a; } >/dev/null 2>&1; modprobe -i ib_core $CMDLINE_OPTS",
        ),
        (MODPROBE, "install a modprobe nvidia NVreg_CoherentGPUMemoryMode=driver"),
        (MODPROBE, 'options nvidia NVreg_EnableGpuFirmware=0 NVreg_RegistryDwords="PeerMappingOverride=1;"'),
        (MODPROBE, "install a /bin/fal\\se\n  #\nremove a modprobe -r -S 6.1.0 -- a"),
        (MODPROBE, 'options a n_a = 5 m=three -- x_y dyndbg="file a.c +p; module b +p"'),
        (MODPROBE, "blacklist nouveau\nalias pci:v000010DE* nvidia\nsoftdep nvidia post: nvidia-peermem"),
        (MODPROBE, "options mlx5_core \\\n  num_vfs=16,8\nallow_unsupported_modules 1"),
        ("etc/modules-load.d/a.conf", "nvidia-peermem\n\nib_umad"),
        ("etc/depmod.d/a.conf", "search updates extra built-in\noverride mlx5_core * updates/dkms"),
        (UNIT, "[Unit]\nAfter=openibd.service\n[Service]\nExecStart=-/sbin/modprobe nvidia-peermem"),
        (UNIT, "LimitMEMLOCK=infinity"),
        ("etc/rc.local", "modprobe nvidia-peermem || exit 0"),
        ("etc/udev/rules.d/a.rules", 'ACTION=="add", RUN+="/sbin/modprobe nvidia-peermem"'),
        ("etc/security/limits.d/a.conf", "* soft memlock unlimited\n@hpc - memlock 8388608"),
        ("etc/dkms/framework.conf", 'mok_signing_key="/var/lib/dkms/mok.key"'),
        ("etc/nccl.conf", "NCCL_IB_HCA==mlx5_0:1,mlx5_1:1\nNCCL_SOCKET_IFNAME=^lo,docker0\nNCCL_IB_PKEY=0"),
        ("etc/nccl.conf", "NCCL_DEBUG_FILE=/tmp/nccl.%h.%p\nNCCL_RAS_ADDR=localhost:28028"),
        ("etc/ucx/ucx.conf", "[Grace]\nCPU model=Grace\nUCX_TLS = rc,cuda\nUCX_NET_DEVICES: mlx5_0:1"),
        ("etc/environment", 'CUFILE_FORCE_COMPAT_MODE="true"\nLD_LIBRARY_PATH=/usr/lib:/opt/a'),
        ("proc/self/environ", "NCCL_DEBUG=INFO\0PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\0"),
        ("proc/driver/nvidia/params", 'DmaRemapPeerMmio: 1\nRegistryDwords: "PeerMappingOverride=1;"'),
        ("proc/driver/nvidia/params", 'CoherentGPUMemoryMode: "driver"'),
        ("sos_commands/kernel/dkms_status", "nvidia/580.95, 6.8.0-1, x86_64: installed (WARNING! Diff)"),
        (
            "var/log/pods/a/0.log",
            "2026-11-20T16:00:00.1Z stderr F modprobe: ERROR: could not insert 'nvidia_peermem'",
        ),
        ("var/log/pods/a/0.log", "waiting for mellanox ofed and nvidia drivers to be installed"),
        (
            "var/log/fabricmanager.log",
            "[Nov 20 2026 16:00:00] [ERROR] [tid 7] manager NVIDIA GPU driver interface version 570.1 "
            "don't match with driver version 580.2",
        ),
        ("etc/os-release", "NAME=Secret Linux"),
    ],
)
def test_what_rules_read_is_kept(path, text):
    assert kept(path, text) == text


@pytest.mark.parametrize(
    ("path", "text", "left"),
    [
        ("proc/cmdline", "nfsroot=h:/x quiet -p", "nfsroot=(dropped) quiet (dropped)"),
        ("proc/cmdline", "mlx5_core.dbg=a:b numa=off", "mlx5_core.dbg=(dropped) numa=off"),
        (GRUB, 'GRUB_DISTRIBUTOR="x"\n. /etc/x # y', "#\n#"),
        (GRUB, 'GRUB_CMDLINE_LINUX="a=\\"b c\\"; quiet"', 'GRUB_CMDLINE_LINUX="a=\\"(dropped)\\"; quiet"'),
        (
            "boot/loader/entries/a.conf",
            "title x\n#y\noptions ro z",
            "title (dropped)\n#\noptions ro (dropped)",
        ),
        (MODPROBE, "# by x\noptions nvidia a=bcdefg", "#\noptions nvidia a=(dropped)"),
        (MODPROBE, "install a curl x; modprobe b c=defghi", "install a (dropped); modprobe b (dropped)"),
        (MODPROBE, "install a sh -c 'modprobe b; x y'", "install a sh -c 'modprobe b; (dropped)'"),
        (MODPROBE, "blacklist nouveau # x", "blacklist nouveau (dropped)"),
        (MODPROBE, "optoins nvidia x\n;x\n # x", "optoins (dropped)\n(dropped)\n #"),
        (MODPROBE, "options nvidia swordfish x_y", "options nvidia (dropped) x_y"),
        (
            "etc/cufile.json",
            '{ "allow_compat_mode": true, "x": "y",\n// "use_pci_p2pdma": true\n"use_pci_p2pdma": false }',
            '"allow_compat_mode": true\n#\n"use_pci_p2pdma": false',
        ),
        (
            "etc/security/limits.conf",
            "* - memlock unlimited # x\n* - nofile 9",
            "* - memlock unlimited #\n#",
        ),
        ("var/log/pods/a/0.log", "+ modprobe nvidia-peermem key=x\n+ register x", "#\n#"),
        ("etc/modules", "ib_umad x=swordfish # y", "ib_umad x=(dropped) "),
        ("etc/rc.local", "# modprobe nvidia-peermem\n; modprobe a\nmodprobe b", "#\n#\nmodprobe b"),
        (UNIT, "Environment=A=b\nExecStart=/usr/bin/x", "#\n#"),
        ("etc/nccl.conf", "NCCL_NET_GDR_LEVEL=LOC # was SYS", "NCCL_NET_GDR_LEVEL=LOC #(dropped)"),
        ("etc/nccl.conf", "A=b\nNCCL_IB_HCA=a b", "#\nNCCL_IB_HCA=(dropped)"),
        ("proc/self/environ", "A=b\0NCCL_DEBUG=x y\0", "NCCL_DEBUG=(dropped)\0"),
        (
            "proc/driver/nvidia/params",
            'RegistryDwords: "PeerMappingOverride=1;x=y"\nA: b',
            'RegistryDwords: "PeerMappingOverride=1;(dropped)"\n#',
        ),
    ],
)
def test_of_anything_else_its_name_remains(path, text, left):
    assert kept(path, text) == left


KINDS = ("proc/cmdline", GRUB, "boot/grub/grubenv", "boot/loader/entries/a", MODPROBE, "etc/modules", UNIT,
         "etc/nccl.conf", "proc/self/environ", "etc/rc.local", "sos_commands/kernel/dmesg")  # fmt: skip
PIECES = st.sampled_from(
    [
        *"= \t\n\r\"'\\;$`#|&(<>-\0",
        "install a ",
        "options a ",
        "modprobe ",
        "iommu",
        "GRUB_CMDLINE_LINUX=",
        "[ 1.0] ",
    ]
)


@given(st.sampled_from(KINDS[:-1]), st.lists(PIECES, max_size=24).map("".join))
def test_a_word_between_any_marks_is_kept_nowhere(path, marks):
    """Words of one's own, among all that has a meaning in such a file."""
    text = marks.replace("=", "=Zx9Qw3Lm7Kp2Vt5R ").replace('"', '"Zx9Qw3Lm7Kp2Vt5R')
    assert "Zx9Qw3Lm7Kp2Vt5R" not in kept(path, text)


@given(st.sampled_from(KINDS), st.lists(PIECES, max_size=24).map("".join))
def test_what_was_reduced_is_not_reduced_further(path, text):
    once = kept(path, text)
    assert kept(path, once).count("\n") == once.count("\n")


def test_a_file_takes_as_long_as_it_is():
    with within(30):
        for path in KINDS:
            for text in ("a=1\n", "$(", "'", '\\"', "install a b=", "x" * 40, " #", "a,", "/a:"):
                kept(path, text * ((1 << 18) // len(text)))


ARGUMENTS = st.lists(
    st.sampled_from(
        ["iommu", "pci", "nvidia.x", "a", "x1", "quiet", "=", "=", " ", "\t", "\n", "\r", "-", "\x1c", "é"]
    ),
    max_size=20,
)


@given(ARGUMENTS.map("".join))
def test_plain_arguments_lose_the_values_that_they_lose_among_quotation_marks(text):
    """Words without any mark are read by one expression, others one by one."""
    marked = '\n""'
    assert kept("proc/cmdline", text) + marked == kept("proc/cmdline", text + marked)
