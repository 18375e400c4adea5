"""What the commands print that gdr asks for: the cause where it is shown, and the near miss."""

from __future__ import annotations

import pytest

from gdrkit.catalogue import rule_of
from gdrkit.explain.lines.transcript import read
from gdrkit.explain.outputs.asked_outputs import excluded
from gdrkit.explain.outputs.asked_rows import OUTPUTS
from tests.explain.explaining import explained, proven


def codes_of(text: str) -> list[str]:
    """The cause of an answer and the other ones, in order."""
    found = explained(text).answer
    return [*([found.cause] if found.cause else []), *(other.code for other in found.others)]


FABRIC = "$ nvidia-smi -q | grep -A 2 Fabric\n    Fabric\n        State    : {}\n        Status   : {}\n$\n"
SMI = "|   0  NVIDIA A100-SXM4-80GB     On  | 00000000:18:00.0 Off |                   On |\n"
SERVICE = "$ systemctl status nvidia-fabricmanager\n     Loaded: loaded\n     Active: {} (x) since Mon\n"

PING = (
    "$ ping -c 2 -I enp1s0f0np0 10.0.0.2\n"
    "PING 10.0.0.2 (10.0.0.2) from 10.0.0.1 enp1s0f0np0: 56(84) bytes of data.\n"
    "\n--- 10.0.0.2 ping statistics ---\n2 packets transmitted, {}% packet loss, time 1010ms\n"
)
RATES = "$ cat /sys/class/infiniband/*/ports/*/rate\n400 Gb/sec (4X NDR)\n400 Gb/sec (4X NDR)\n{}\n"

PROVING = [
    ("$ cat /proc/driver/nvidia/version\ncat: /proc/driver/nvidia/version: No such file or directory\n",
     "driver-not-loaded"),
    ("$ lspci -nnk | grep -A3 NVIDIA\n41:00.0 3D controller [0302]: NVIDIA Corporation GA100 [10de:20f1]\n"
     "\tKernel driver in use: nouveau\n", "driver-not-loaded"),
    ("$ grep Excluded /proc/driver/nvidia/gpus/*/information\n"
     "/proc/driver/nvidia/gpus/0000:1b:00.0/information:GPU Excluded:\t Yes\n", "gpu-excluded"),
    ("$ lspci -d 15b3:\n0000:81:00.0 Memory controller: Mellanox Technologies MT28908 Family"
     " [ConnectX-6 Flash Recovery]\n", "nic-failed"),
    ("$ modprobe --show-depends nvidia_peermem\ninstall /bin/true\n", "install-override"),
    (FABRIC.format("In Progress", "N/A"), "nvswitch-fabric-down"),
    (FABRIC.format("Completed", "Failure"), "nvswitch-fabric-down"),
    (SERVICE.format("failed"), "nvswitch-fabric-down"),
    ("$ nvidia-imex-ctl -N\nDomain State: DEGRADED\n", "mnnvl-imex-not-ready"),
    ("Nodes:\nNode #0   * 10.0.3.11 *    - READY          - Version: 580.95.05\n"
     "Node #1   - 10.0.3.12      - UNAVAILABLE    - Version: N/A\n", "mnnvl-imex-not-ready"),
    ("# Library version: 1.17.0\n# Configured with: --enable-mt --without-cuda --with-verbs\n",
     "ucx-lacks-cuda"),
    ("$ lsmod | grep mlx5\nmlx5_core   2273280  0\nmlxfw   36864  1 mlx5_core\n$\n", "no-rdma-device"),
    ("$ ucx_info -d | grep -i cuda\n$ uname -r\n6.8.0\n", "ucx-lacks-cuda"),
    ("| Warning  | GPU 3 is running at PCI link width 8X, which is below the minimum |\n",
     "link-degraded"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "code"), PROVING)
def test_an_output_that_shows_a_cause_names_it_as_likely(text: str, code: str):
    found = explained(text).answer

    assert (found.cause, str(found.sureness)) == (code, "likely")


STATES = [
    ("$ cat /sys/kernel/iommu_groups/*/type\nDMA-FQ\nDMA-FQ\n", "iommu-translating"),
    (SERVICE.format("inactive"), "nvswitch-fabric-down"),
    ('$ nvidia-smi -q | grep -A2 "MIG Mode"\n    MIG Mode\n        Current      : Enabled\n', "gpu-mig"),
    (f"{SMI}|                          |                      |              Enabled |\n", "gpu-mig"),
    ("[    0.612345] iommu: Default domain type: Translated\n", "iommu-translating"),
    ("$ ec2-metadata -t\ninstance-type: g6e.24xlarge\n", "efa-gdr-unsupported-instance"),
    ("$ cat /proc/cmdline\nBOOT_IMAGE=/boot/vmlinuz-5.15.0 ro quiet intel_iommu=on\n", "iommu-translating"),
    ("$ nvidia-smi conf-compute -f\nCC status: ON\n", "gpu-confidential"),
    ("$ modinfo -F license nvidia\nNVIDIA\n", "driver-proprietary"),
    ("ii  nvidia-dkms-570-server   570.133.20-0ubuntu0.24.04.1  amd64  NVIDIA DKMS package\n",
     "driver-proprietary"),
    ("$ sudo grep -w ib_register_peer_memory_client /proc/kallsyms\n$ uname -r\n6.8.0\n",
     "rdma-lacks-peer-api"),
    ("$ find /lib/modules/$(uname -r) -name '*peermem*'\n$ uname -r\n6.8.0\n", "module-not-found"),
    ("$ ls -l /dev/gdrdrv\nls: cannot access '/dev/gdrdrv': No such file or directory\n",
     "gdrcopy-not-loaded"),
    ("$ fi_info --version\nfi_info: 1.18.1\nlibfabric: 1.18.1\nlibfabric api: 1.18\n", "libfabric-too-old"),
    ("$ modinfo -F version efa\n2.6.0\n", "efa-driver-too-old"),
    ("$ grep -c ib_register_peer_memory_client /proc/kallsyms\n0\n$ uname -r\n6.8.0\n",
     "rdma-lacks-peer-api"),
    ("$ gdscheck -p\nNVMe P2PDMA        : Unsupported\nNVMe               : Supported\n", "gds-p2pdma-off"),
    ("$ gdscheck -p\nNVMe               : Unsupported\n", "nvidia-fs-symbols-missing"),
    ("$ cat /proc/driver/nvidia-fs/modules\nwekafsio: 1\n$\n", "nvidia-fs-symbols-missing"),
    (PING.format("0 received, +2 errors, 100"), "rail-unreachable"),
    (PING.partition("\n")[2].format("0 received, 100"), "rail-unreachable"),
    ("$ rdma statistic show\nlink mlx5_0/1 rx_write_requests 5 out_of_sequence 91 packet_seq_err 20\n",
     "retry-exceeded"),
    ("$ ldconfig -p | grep libibverbs\n$ uname -r\n6.8.0\n", "verbs-library-missing"),
    ("$ ls /dev/infiniband\nrdma_cm  uverbs0  uverbs1\n", "umad-device-missing"),
    ("$ cat /sys/module/nvidia_peermem/parameters/peerdirect_support\n1\n", "lock-inversion"),
    ("$ cat /sys/class/infiniband/*/ports/1/link_layer\nUnspecified\n", "nccl-skips-efa"),
    (RATES.format("25 Gb/sec (1X EDR)"), "port-on-one-lane"),
    (RATES.format("100 Gb/sec (4X EDR)"), "port-slower-than-others"),
    ("$ env | grep ALLOC_CONF\nPYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n",
     "torch-expandable-segments"),
    ("$ env | grep WITH_NVIDIA_PEERMEM\nWITH_NVIDIA_PEERMEM=0\n", "mooncake-forces-dmabuf"),
    ("$ modprobe -c | grep allow_unsupported_modules\nallow_unsupported_modules 0\n", "module-unsupported"),
    ("$ nm -u irdma.ko\n                 U ib_umem_get\n", "driver-ignores-peer-memory"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "code"), STATES)
def test_a_state_that_need_not_matter_is_called_so(text: str, code: str):
    found = explained(text).answer

    assert found.cause is None
    assert found.sentence.startswith("The text shows no failure, but what may be one")
    assert code in codes_of(text)


NEAR_MISSES = [
    "$ cat /sys/kernel/iommu_groups/*/type\nidentity\nidentity\n",
    f"{SMI}|                          |                      |             Disabled |\n",
    "[    0.612345] iommu: Default domain type: Passthrough (set via kernel command line)\n",
    "$ cat /proc/cmdline\nBOOT_IMAGE=/boot/vmlinuz-5.15.0 ro iommu=pt intel_iommu=on\n",
    "$ lsmod | grep mlx5_core\nmlx5_core   2273280  1 mlx5_ib\n$\n",
    "$ lsmod | grep mlx5\nmlx5_ib   434176  0\nmlx5_core   2273280  1 mlx5_ib\n$\n",
    FABRIC.format("Completed", "Success"),
    FABRIC.format("N/A", "N/A"),
    SERVICE.format("active"),
    "$ nvidia-imex-ctl -N\nNode #0   * 10.0.3.11 *    - READY     - Version: 580.95.05\nDomain State: UP\n",
    "# Library version: 1.17.0\n# Configured with: --enable-mt --with-cuda --with-verbs\n",
    "$ modinfo -F version efa\n2.17.3\n",
    "$ grep -c ib_register_peer_memory_client /proc/kallsyms\n2\n$ uname -r\n6.8.0\n",
    "$ gdscheck -p\n NVMe P2PDMA        : Supported\n NVMe               : Supported\n",
    "$ cat /proc/driver/nvidia-fs/modules\nnvme: 1\nwekafsio: 1\n$\n",
    "$ modinfo -F license nvidia\nDual MIT/GPL\n",
    "ii  nvidia-dkms-570-open   570.133.20-0ubuntu0.24.04.1  amd64  NVIDIA DKMS package\n",
    "$ fi_info --version\nlibfabric: 2.1.0\n",
    "$ ucx_info -d | grep -i cuda\n#     Component: cuda_copy\n$\n",
    "$ modprobe --show-depends nvidia_peermem\ninsmod /lib/modules/6.8.0/updates/dkms/nvidia-peermem.ko\n",
    "$ find /lib/modules/$(uname -r) -name '*peermem*'\n",  # cut off: the output may follow
    PING.format("2 received, 0"),
    PING.format("1 received, 50"),
    "$ rdma statistic show\nlink mlx5_0/1 rx_write_requests 5 out_of_sequence 0 packet_seq_err 0\n",
    "$ ldconfig -p | grep libibverbs\n\tlibibverbs.so.1 (libc6,x86-64) => /lib/libibverbs.so.1\n",
    "$ ls /dev/infiniband\nissm0  rdma_cm  umad0  uverbs0\n",
    "$ cat /sys/module/nvidia_peermem/parameters/peerdirect_support\n0\n",
    RATES.format("400 Gb/sec (4X NDR)"),
    "$ env | grep ALLOC_CONF\nPYTORCH_CUDA_ALLOC_CONF=expandable_segments:False\n",
    "$ modprobe -c | grep allow_unsupported_modules\nallow_unsupported_modules 1\n",
    "$ nm -u mlx5_ib.ko\n                 U ib_umem_get\n                 U ib_umem_get_peer\n",
]


@pytest.mark.parametrize("text", NEAR_MISSES)
def test_the_same_output_of_a_healthy_machine_names_nothing(text: str):
    assert codes_of(text) == []


def test_an_efa_that_libfabric_lists_is_there_for_the_call_that_fails():
    failing = "$ fi_pingpong -p efa\nfi_getinfo: -61\n"
    listed = "$ fi_info -p efa\nprovider: efa\n    fabric: efa\n    domain: rdmap0s6-rdm\n"

    assert "no-rdma-device" in codes_of(failing)
    assert codes_of(listed + failing) == ["libfabric-too-old"]


def test_an_output_that_shows_a_cause_beside_one_that_does_not_excludes_nothing():
    mixed = FABRIC.format("Completed", "Success") + FABRIC.format("In Progress", "N/A")
    assert excluded(read(mixed)) == ()


TRAY = "$ nvidia-smi -L\nGPU 0: NVIDIA {0} (UUID: GPU-1b2c)\nGPU 1: NVIDIA {0} (UUID: GPU-1b2d)\n"
SECTION = "    Fabric\n        State                    : {}\n        Status                   : {}\n"


@pytest.mark.parametrize(
    ("gpu", "code"), [("GB200", "mnnvl-fabric-incomplete"), ("B200", "nvswitch-fabric-down")]
)
def test_the_name_of_the_gpus_tells_whose_fabric_an_excerpt_shows(gpu: str, code: str):
    """A tray of GB200 has no Fabric Manager to start."""
    excerpt = SECTION.format("Completed", "Success") + SECTION.format("In Progress", "N/A")
    found = explained(f"{TRAY.format(gpu)}$ nvidia-smi -q | grep -A 2 Fabric\n{excerpt}").answer

    assert (found.cause, found.subject) == (code, "GPU 1")


def test_single_fields_of_nvidia_smi_are_those_of_its_gpus_in_order():
    names = "    Product Name                          : NVIDIA H100 80GB HBM3\n" * 2
    actions = (
        "    GPU Recovery Action                   : {}\n    GPU Recovery Action                   : Reset\n"
    )
    text = f"$ nvidia-smi -q | grep -E 'Product Name|Recovery'\n{names}{actions}"

    assert proven(text.format("None")) == {("gpu-needs-reset", "GPU 1")}
    assert proven(text.format("Reset")) == {("gpu-needs-reset", "GPU 0"), ("gpu-needs-reset", "GPU 1")}
    again = "$ nvidia-smi -q | grep Recovery\n    GPU Recovery Action                   : None\n"
    assert proven(text.format("None") + again) == set()  # which of the two is the state now, is not shown


def test_each_row_names_codes_of_rules():
    assert all(rule_of(code).code == code for row in OUTPUTS for code in row.codes)


WRAPPED = {
    "a code block": lambda text: f"I see this:\n\n```\n{text}```\n\nAny idea?\n",
    "Markdown's indentation": lambda text: "\n" + "".join(f"    {line}\n" for line in text.splitlines()),
    "a quotation": lambda text: "".join(f"> {line}\n" for line in text.splitlines()),
    "root's prompt": lambda text: "".join(
        f"root@gpu01:~# {line[2:]}\n" if line.startswith("$") else f"{line}\n" for line in text.splitlines()
    ),
    "stamps of journald": lambda text: "".join(
        f"{line}\n" if line.startswith("$") else f"Jun 12 08:11:02 n1 check[44]: {line}\n"
        for line in text.splitlines()
    ),
}


@pytest.mark.parametrize("around", WRAPPED)
@pytest.mark.parametrize(("text", "code"), [one for one in (*PROVING, *STATES) if "lspci" not in one[0]])
def test_an_output_shows_the_same_wherever_it_stands(text: str, code: str, around: str):
    assert code in codes_of(WRAPPED[around](text))


QOS = (
    "DCBX mode: OS controlled\nPriority trust state: {}\ndefault priority:\nCable len: 7\n"
    "PFC configuration:\n"
    "\tpriority    0   1   2   3   4   5   6   7\n\tenabled     {}   \n"
)


@pytest.mark.parametrize(
    ("trust", "enabled", "words"),
    [
        ("pcp", "0   0   0   0   0   0   0   0", "priorities by pcp, no priority with flow control"),
        ("dscp", "0   0   0   1   0   0   0   0", "priorities by dscp, flow control on priority 3"),
    ],
)
def test_priorities_of_a_port_are_shown_and_are_no_fault(trust: str, enabled: str, words: str):
    """The switch has to have the same settings, and the output does not show it."""
    found = explained(QOS.format(trust, enabled)).answer
    assert (found.kind, words in found.sentence) == ("no-problem", True)


def test_memory_for_the_next_kernel_is_seen_in_two_lines_alone():
    held = "CmaTotal:              0 kB\nCmaFree:         9753600 kB\n"
    assert explained(held).answer.cause == "memory-held-for-kexec"
    assert explained(f"$ grep Cma /proc/meminfo\n{held}").answer.cause == "memory-held-for-kexec"
    free = explained(held.replace(" 0 kB", "9900000 kB")).answer
    assert (free.kind, "CMA" in free.sentence) == ("no-problem", True)
    assert explained(held.splitlines()[1]).answer.cause is None  # one of the two decides nothing


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('RegistryDwords: "PeerMappingOverride=1;"\n', "ibgda-peer-mapping-denied"),
        ('RegistryDwords: "RMX=1;PeerMappingOverride=0x1"\n', "ibgda-peer-mapping-denied"),
        ("$ modinfo -F supported nvidia\nexternal\n", "module-unsupported"),
        ("$ ulimit -l\nunlimited\n", "memlock-limit"),
        ("Domain State: UP\n", "mnnvl-imex-not-ready"),
    ],
)
def test_an_output_that_only_excludes_a_cause_says_so(text: str, code: str):
    found = explained(text).answer
    assert (found.kind, found.sentence) == ("no-problem", f"The text shows no problem: it rules out {code}.")


@pytest.mark.parametrize(
    "text",
    ['RegistryDwords: ""\n', 'RegistryDwords: "PeerMappingOverride=0;"\n', 'RegistryDwords: "RMX=1;"\n'],
)
def test_no_permission_for_doorbells_is_a_state(text: str):
    found = explained(text).answer
    assert (found.kind, [one.code for one in found.others]) == ("several", ["ibgda-peer-mapping-denied"])


def test_the_whole_file_of_parameters_shows_no_cause():
    """RegistryDwords is empty on most nodes, and only who asks for it alone wants to know."""
    whole = 'ResmanDebugLevel: 4294967295\nRegistryDwords: ""\nRegistryDwordsPerDevice: ""\nRmMsg: ""\n'
    for text in (whole, f"$ cat /proc/driver/nvidia/params\n{whole}"):
        assert not explained(text).answer.others
    asked = explained('$ grep RegistryDwords /proc/driver/nvidia/params\nRegistryDwords: ""\n').answer
    assert [one.code for one in asked.others] == ["ibgda-peer-mapping-denied"]


def test_a_module_without_the_mark_of_suse_is_a_state():
    text = "$ modinfo -F supported nvidia_peermem\n$ uname -r\n6.4.0-150600-default\n"
    assert [one.code for one in explained(text).answer.others] == ["module-unsupported"]


ACS = "ACSCtl:\tSrcValid- TransBlk- ReqRedir{} CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-\n"


def test_ports_that_all_let_requests_through_exclude_a_redirection():
    clear = "$ sudo lspci -vvv | grep ACSCtl\n" + f"\t\t{ACS.format('-')}" * 8
    assert explained(clear).answer.sentence == "The text shows no problem: it rules out acs-redirect."
    assert codes_of(f"{clear}\t\t{ACS.format('+')}") == ["acs-redirect"]
    assert not excluded(read(clear + "\t\t[cut]\n"))


USERSPACE = (
    "$ kubectl logs nvidia-driver-daemonset-x -c nvidia-driver-ctr | grep already\n"
    "The NVIDIA driver is already loaded with the desired configuration, performing userspace-only install\n"
)
NOT_FOUND = "modprobe: FATAL: Module nvidia-peermem not found in directory /lib/modules/6.8.0-1059-azure\n"


def test_a_driver_container_that_installs_no_modules_is_why_one_is_not_found():
    assert explained(NOT_FOUND + USERSPACE).answer.cause == "operator-module-missing"
    assert explained(NOT_FOUND).answer.cause == "module-not-found"


def test_an_instance_that_has_no_gpudirect_rdma_is_why_efa_cannot_register_gpu_memory():
    failed = (
        "libfabric:1:2::efa:core:efa_hmem_info_check_p2p_support_cuda():160<warn> Failed to register CUDA"
        " buffer with the EFA device, FI_HMEM transfers that require peer to peer support will fail.\n"
        "libfabric:1:2::efa:core:efa_hmem_info_init_iface():298<info> FI_HMEM_CUDA P2P support is not"
        " available.\n"
    )
    without = ("g6e.24xlarge", "efa-gdr-unsupported-instance")
    for kind, code in (without, ("p5.48xlarge", "efa-p2p-unavailable")):
        text = f"$ ec2-metadata -t\ninstance-type: {kind}\n$ fi_pingpong\n{failed}"
        assert explained(text).answer.cause == code


LOSSES = (
    "# mlnx_qos -i {0}\nPriority trust state: dscp\ndscp2prio mapping:\n\tprio:0 dscp:07,06,\n"
    "PFC configuration:\n\tpriority    0   1   2   3   4   5   6   7\n"
    "\tenabled     {1}   0   0   1   0   0   0   0   \n"
    "# ethtool -S eth1 | grep prio\n     rx_prio0_discards: {2}\n     rx_prio3_bytes: {3}\n"
)


def test_traffic_misses_the_priority_with_flow_control_where_that_carried_nothing():
    found = explained(LOSSES.format("eth1", 0, 884123, 0)).answer

    assert (found.kind, found.cause, found.sureness) == ("elsewhere", None, "likely")
    assert "884123 discarded on priority 0, which has no flow control" in found.sentence
    assert "priority 3, which has it, carried nothing" in found.sentence


def test_whose_packets_were_lost_is_open_where_the_priority_with_flow_control_carried_some():
    found = explained(LOSSES.format("eth1", 0, 884123, 7)).answer
    assert (found.kind, found.cause, found.others) == ("several", None, ())
    assert "884123 discarded" in found.sentence and "carried nothing" not in found.sentence


PORT = (
    "# mlnx_qos -i eth1\nPriority trust state: dscp\nPFC configuration:\n"
    "\tpriority    0   1   2   3   4   5   6   7\n\tenabled     0   0   0   {}   0   0   0   0   \n"
    "# ethtool -S eth1 | grep discards\n     rx_discards_phy: {}\n"
)


def test_a_port_without_any_flow_control_lost_packets():
    found = explained(PORT.format(0, 884123)).answer
    assert (found.kind, found.others) == ("several", ())
    assert "884123 discarded by the port, of which no priority has flow control" in found.sentence


@pytest.mark.parametrize(("flow_control", "lost"), [(0, 0), (1, 884123)])
def test_a_port_that_lost_nothing_or_has_flow_control_on_some_priority_shows_no_loss(flow_control, lost):
    assert "discarded" not in explained(PORT.format(flow_control, lost)).answer.sentence


@pytest.mark.parametrize(
    ("interface", "flow_control", "lost"), [("eth1", 0, 0), ("eth1", 1, 884123), ("eth2", 0, 884123)]
)
def test_no_loss_a_lossless_priority_and_another_port_s_settings_show_nothing(
    interface: str, flow_control: int, lost: int
):
    text = LOSSES.format(interface, flow_control, lost, 0)
    assert "discarded" not in explained(text).answer.sentence


UCX = (
    "[1.8] [n1:37:0]  ib_md.c:307  UCX  ERROR ibv_reg_mr(address=0x7fee9e000000, length=115343360,"
    " access=0x10000f) failed: Bad address\n"
    "[1.8] [n1:37:0]  ucp_mm.c:81  UCX  ERROR failed to register address 0x7fee9e000000 ({}) length"
    " 115343360 on md[6]=mlx5_0: Input/output error (md supports: {})\n"
)


@pytest.mark.parametrize(
    "memory, supported, loaded",
    [
        ("cuda", "host|cuda", True),
        ("cuda", "host|cuda-managed", False),  # what page faults of the NIC give, without nvidia-peermem
        ("cuda", "host", False),
        ("cuda-managed", "host|cuda", False),
    ],
)
def test_memory_of_cuda_that_ucx_says_to_support_needs_a_loaded_module(memory, supported, loaded):
    """UCX adds the type for the file of a peer-memory module alone: uct_ib_check_gpudirect_driver()."""
    known = excluded(read(UCX.format(memory, supported)))
    assert ("peermem-not-loaded" in known) is loaded


MODIFY_QP = (
    "w0:100:500 [0] misc/ibvwrap.cc:205 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed"
    " out, on dev mlx5_0:1, curr state INIT, next state RTR, local GID index 3, local GID {}, remote GID"
    " {}\n"
)
ROUTED, OF_LINK = "::ffff:10.5.0.10", "fe80::966d:aeff:fe8b:df54"


@pytest.mark.parametrize("ends", [(ROUTED, OF_LINK), (OF_LINK, ROUTED)])
def test_an_address_of_the_link_at_one_end_is_of_a_wrong_index(ends):
    assert explained(MODIFY_QP.format(*ends)).answer.cause == "gid-index-wrong"


@pytest.mark.parametrize("ends", [(ROUTED, "::ffff:10.5.1.11"), (OF_LINK, OF_LINK)])
def test_two_addresses_of_one_kind_show_no_wrong_index(ends):
    assert explained(MODIFY_QP.format(*ends)).answer.cause != "gid-index-wrong"


LOADED = "$ lsmod | grep nvidia\nnvidia_uvm  4894720  0\nnvidia  104070144  86 nvidia_uvm\n"
MODINFO = "n1:/# modinfo nvidia{}\nfilename:  /lib/modules/6.8/updates/dkms/nvidia.ko\nlicense:        {}\n"


@pytest.mark.parametrize("filtered", ["", " | grep -E '^(filename|license)'"])
def test_the_licence_in_the_whole_output_of_modinfo_shows_the_driver(filtered: str):
    """Azure/aks-rdma-infiniband issue 50."""
    for license, shown in (("NVIDIA", "proprietary"), ("Dual MIT/GPL", "open")):
        (machine,) = explained(MODINFO.format(filtered, license) + f"n1:/# {LOADED[2:]}").machines
        assert ("kernel module", shown) in {(fact.name, fact.value) for fact in machine.known}
        codes = {found.code for found in (*machine.established, *machine.notes)}
        assert ("driver-proprietary" in codes) is (shown == "proprietary")


def test_what_a_node_shows_counts_for_a_pods_log_if_it_ran_there():
    log = (
        "$ kubectl logs worker-0\nworker-0:63:105 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0"
        " 'mlx5_0'\n"
    )
    node = MODINFO.format("", "NVIDIA") + f"n1:/# {LOADED[2:]}"
    assert any(
        "n1 has" in step and "driver-proprietary" in step for step in explained(node + log).answer.now
    )
    assert not any("n1 has" in step for step in explained(log).answer.now)


@pytest.mark.parametrize(
    ("name", "cause"),
    [("H100 80GB HBM3", "nvswitch-fabric-down"), ("GB200", "mnnvl-fabric-incomplete")],
)
def test_a_fabric_in_progress_is_that_of_the_gpu_that_a_list_names(name: str, cause: str):
    listed = f"$ nvidia-smi -L\nGPU 0: NVIDIA {name} (UUID: GPU-1b2c3d4e-0001-4a5b-8c9d-0e1f2a3b4c5d)\n"
    assert codes_of(FABRIC.format("In Progress", "N/A") + listed)[:1] == [cause]
    assert codes_of(FABRIC.format("Completed", "Success") + listed) == []
