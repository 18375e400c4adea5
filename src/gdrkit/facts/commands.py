"""Commands whose output is evidence, and the files in which bundles keep it. Files are read first."""

from __future__ import annotations

from gdrkit.evidence import Command

DMESG = Command(
    ("dmesg",),
    (
        "sos_commands/kernel/dmesg",
        "sos_commands/kernel/dmesg_-T",
        "sos_commands/general/dmesg",
        "sos_commands/logs/journalctl_--no-pager_--catalog_--boot",
        "sos_commands/logs/journalctl_--no-pager_--boot",
        "sos_commands/logs/journalctl_--no-pager_--dmesg",
    ),
)
LSPCI = Command(
    ("lspci", "-nnvvv"),
    ("sos_commands/pci/lspci_-nnvvv", "sos_commands/pci/lspci_-nnvv", "sos_commands/pci/lspci_-nn"),
)
LSPCI_TREE = Command(("lspci", "-tv"), ("sos_commands/pci/lspci_-tv",))
NVIDIA_SMI = Command(
    ("nvidia-smi", "-q"), ("sos_commands/gdr/nvidia-smi_-q", "sos_commands/nvidia/nvidia-smi_-q")
)
NVIDIA_SMI_MEMORY = Command(
    ("nvidia-smi", "-q", "-d", "MEMORY"), ("sos_commands/gdr/nvidia-smi_-q_-d_MEMORY", *NVIDIA_SMI.files)
)
NVIDIA_SMI_CONFIDENTIAL = Command(
    ("nvidia-smi", "conf-compute", "-f"), ("sos_commands/gdr/nvidia-smi_conf-compute_-f",)
)
NVIDIA_SMI_TOPO = Command(
    ("nvidia-smi", "topo", "-m"),
    ("sos_commands/gdr/nvidia-smi_topo_-m", "sos_commands/nvidia/nvidia-smi_topo_-m"),
)
FABRIC_MANAGER = Command(
    ("systemctl", "list-units", "--all", "--plain", "--no-legend", "nvidia-fabricmanager.service"),
    (
        "sos_commands/gdr/systemctl_list-units_--all_--plain_--no-legend_nvidia-fabricmanager.service",
        "sos_commands/systemd/systemctl_list-units_--all",
        "sos_commands/systemd/systemctl_list-units",
        "sos_commands/systemd/systemctl_list-units_--failed",
        "sos_commands/systemd/systemctl_--failed",
    ),
)
IBV_DEVINFO = Command(("ibv_devinfo", "-v"), ("sos_commands/infiniband/ibv_devinfo_-v",))
PROBE_CUDA = Command(("gdr", "probe", "cuda", "--json"), ("sos_commands/gdr/probe_cuda",))
PROBE_VERBS = Command(("gdr", "probe", "verbs", "--json"), ("sos_commands/gdr/probe_verbs",))
PROBE_MEMORY = Command(("gdr", "probe", "memory", "--json"), ("sos_commands/gdr/probe_memory",))
PROBE_RM = Command(("gdr", "probe", "rm", "--json"), ("sos_commands/gdr/probe_rm",))
RUNNING = Command(("gdr", "ps", "--record"), ("sos_commands/gdr/running",))
MAPPED = Command(("gdr", "ps"), RUNNING.files)
"""Only which libraries processes map, where nothing was collected."""
UNAME = Command(("uname", "-a"), ("sos_commands/kernel/uname_-a", "sos_commands/general/uname_-a"))
LSCPU = Command(("lscpu",), ("sos_commands/processor/lscpu", "sos_commands/hardware/lscpu"))
OFED_INFO = Command(("ofed_info", "-s"), ("sos_commands/gdr/ofed_info_-s",))
DKMS_STATUS = Command(("dkms", "status"), ("sos_commands/kernel/dkms_status",))
PACKAGES_DPKG = Command(
    ("dpkg-query", "-W", "-f=${Package}\\t${Version}\\t${Architecture}\\t${db:Status-Abbrev}\\n"),
    ("sos_commands/dpkg/dpkg_-l",),
)
PACKAGES_RPM = Command(
    ("rpm", "--nodigest", "-qa", "--qf=%{NAME}\\t%{VERSION}-%{RELEASE}\\t%{ARCH}\\tii\\n"),
    ("sos_commands/rpm/sh_-c_rpm_--nodigest_-qa_--qf_NAME_-_VERSION_-_RELEASE_._ARCH_INSTALLTIME_date",),
)
OWNERS_DPKG = Command(
    ("dpkg", "-S", "*peermem*.ko*", "*/nvidia.ko*", "*/nvidia-current*.ko*", "*/ib_core.ko*",
     "*/ib_uverbs.ko*", "*/mlx5_core.ko*", "*/mlx5_ib.ko*", "*/libibverbs.so.1*",
     "*/libnccl.so.2*", "*/libcuda.so.1*"),
    (),
)  # fmt: skip
UCX_INFO = Command(("ucx_info", "-v"), ("sos_commands/infiniband/ucx_info_-v",))
MOKUTIL_SB_STATE = Command(
    ("mokutil", "--sb-state"),
    ("sos_commands/boot/mokutil_--sb-state", "sos_commands/kernel/mokutil_--sb-state"),
)
LSINITRD = Command(("lsinitrd",), ("sos_commands/boot/lsinitrd",))
LSINITRAMFS = Command(
    ("lsinitramfs", "/boot/initrd.img"), ("sos_commands/boot/lsinitramfs_.boot.initrd.img",)
)
WRITTEN = Command(
    ("find", "/boot", "/lib/modules", "-path", "*/kernel", "-prune", "-o", "-regex",
     r".*/\(initr[a-z]*[-.][^/]*\|\(nvidia[^/]*\|ib_core\|ib_uverbs\|mlx[^/]*\)\.ko[^/]*\)",
     "-printf", r"%T@ %C@ %p\n"),
    ("sos_commands/boot/find_.boot_.lib.modules_-path_.kernel_-prune_-o_-regex_._._initr_a-z_-._._nvidia_._ib_core_ib_uverbs_mlx_._.ko_._-printf_T_C_p_n",),
)  # fmt: skip
