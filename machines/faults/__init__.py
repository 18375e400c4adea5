"""Faults that can be planted in a healthy machine."""

from __future__ import annotations

from machines.faults.beside import FAULTS as BESIDE
from machines.faults.dead_devices import FAULTS as DEAD_DEVICES
from machines.faults.fault import Fault
from machines.faults.files import FAULTS as FILES
from machines.faults.hardware import FAULTS as HARDWARE
from machines.faults.links import FAULTS as LINKS
from machines.faults.programs import FAULTS as PROGRAMS
from machines.faults.racks import FAULTS as RACKS
from machines.faults.stacks import FAULTS as STACKS

FAULTS: tuple[Fault, ...] = (
    *HARDWARE, *DEAD_DEVICES, *FILES, *STACKS, *LINKS, *PROGRAMS, *RACKS, *BESIDE,
)  # fmt: skip
BY_NAME = {fault.name: fault for fault in FAULTS}
GROUPS = {"beside": BESIDE, "dead devices": DEAD_DEVICES}
"""Faults of one subject, of which each machine has one: GDRCopy, GPUDirect Storage and EFA; devices."""

OF_MESSAGES = (
    "device-file-stale", "devmem-header-split-off", "gcp-devices-missing", "gdr-disabled-by-env",
    "gin-library-mismatch",
    "gin-nics-fused", "gpu-shared-by-ranks", "mkeys-exhausted", "mnnvl-imex-not-ready",
    "nic-atomics-off", "rdma-transport-not-chosen", "tcpx-rxdm-missing", "torch-expandable-segments",
    "ucx-lacks-cuda", "umad-device-missing", "verbs-library-missing", "verbs-provider-mismatch",
    "vmm-not-rdma-capable",
)  # fmt: skip
NOT_SHOWN = {
    "acs-bits-differ": "no machine has a switch of ConnectX-8, a Grace or a Vera",
    "iommu-groups-shared": "no machine has a switch of ConnectX-8, a Grace or a Vera",
    "nic-ats-unexpected": "no machine has a switch of ConnectX-8, a Grace or a Vera",
    "efa-mapping-refused": "no machine has a coherent GPU beside an EFA",
    "port-on-one-lane": "no machine has a port that runs below its width",
    "port-slower-than-others": "no machine has a port that runs below the rate of its NIC",
    "link-layer-differs": "no machine has a NIC that is set to another link layer than its equals",
    "module-unsupported": "shown by a setting of SUSE's modprobe, which no machine has",
    "memory-held-for-kexec": "shown by /proc/meminfo of a kernel with handover, which no machine has",
    "env-differs-between-ranks": "shown by the log of a job",
    "versions-differ-between-ranks": "shown by the log of a job",
    "ucx-lacks-verbs": "shown by ucx_info, which no machine has",
    "perftest-tests-other-path": "shown by the command line of a run",
    "proof-misread": "shown by pasted text",
    "rail-unreachable": "shown by the log of a job",
    "retry-exceeded": "shown by the log of a job",
    "manifest-invalid": "shown by a manifest",
    "policy-duplicate-key": "shown by a manifest",
    "init-failed": "what an init function returns is in no file",
    "expected-gpu-missing": "needs an expectation",
    "expected-nic-missing": "needs an expectation",
    "expected-rail-differs": "needs an expectation",
    "expected-firmware-differs": "needs an expectation",
    "expected-version-differs": "needs an expectation",
    "unexpected-device": "needs an expectation",
    "memory-not-registrable": "needs the answer of a probe with memory of the GPU",
    "gin-unavailable": "true of each machine with an older NCCL, and not planted",
    "driver-ignores-peer-memory": "true of each machine with an EFA, and not planted",
    "provider-lacks-dmabuf": "no machine has the providers of libibverbs",
    "nccl-skips-efa": "true of each machine with an EFA, and not planted",
    "no-efa-device": "true of each machine without an EFA, and not planted",
    "kernel-arguments-cut": "needs the files of a boot loader, which these machines do not have",
    **dict.fromkeys(OF_MESSAGES, "shown only by a message of a program"),
}
"""Codes that no machine shows by itself."""
