"""Messages of Kubernetes, and of the containers that NVIDIA's operators run on a node."""

from __future__ import annotations

from gdrkit.messages.message import Meaning, MessageTemplate

_SCRIPT = "gpu-driver-container ubuntu24.04/nvidia-driver"
_RELOAD = f"{_SCRIPT}, reload_nvidia_peermem()"

_EVERY = "--all-containers --ignore-errors --prefix --tail=50"
"""Without --ignore-errors, one container that waits to start ends the whole command."""
OFED_POD_LOG = f"`kubectl logs -n nvidia-network-operator -l nvidia.com/ofed-driver {_EVERY}`"
"""What every container of the pods prints that install an OFED. Source: manifests/state-ofed-driver."""
DRIVER_POD_LOG = f"`kubectl logs -n gpu-operator -l app=nvidia-driver-daemonset {_EVERY}`"

_OF_DRIVER_POD = (
    "operator-stub",
    "operator-ofed-changed",
    "operator-module-missing",
    "operator-waits-for-ofed",
)
_BUILDS_NONE = (
    "In an operator's container, set driver.repoConfig (ClusterPolicy) or ofedDriver.repoConfig"
    " (NicClusterPolicy), or take a precompiled image, which downloads no packages: driver.usePrecompiled,"
    " ofedDriver.forcePrecompiled"
)
_CONTAINER = "NVIDIA/gpu-driver-container nvidia-driver; Mellanox/doca-driver-build entrypoint"
_PRINTED = "kubernetes pkg/printers/internalversion, printPod(): a row of `kubectl get pods`"
_POD, _READY, _STEP = r"[\w.-]{1,80}", r"\d{1,3}/\d{1,3}", r"\d{1,3}/\d{1,3}"
_BROKEN = r"(?:Init:)?(?:CrashLoopBackOff|Error|OOMKilled)"
_NOT_STARTED = (
    r"(?:Init:)?(?:ImagePullBackOff|ErrImagePull|InvalidImageName|CreateContainer(?:Config)?Error"
    r"|RunContainerError)"
)
"""States of a container that never ran: kubernetes pkg/kubelet/images/types.go, kuberuntime_container.go."""

ROWS = (
    MessageTemplate(
        "gpu-operator",
        "failed to load nvidia-peermem module",
        ("operator-stub", "operator-ofed-changed", "module-unsigned", "module-unknown-key"),
        hides_error=True,
        source=_RELOAD,
        module="nvidia_peermem",
        open_end=True,
    ),
    MessageTemplate(
        "gpu-operator",
        "nvidia-peermem module is not loaded",
        ("operator-stub", "operator-ofed-changed", "operator-module-missing", "operator-waits-for-ofed"),
        source=f"{_SCRIPT}, probe_nvidia_peermem()",
        module="nvidia_peermem",
        open_end=True,
    ),
    MessageTemplate(
        "gpu-operator",
        "waiting for mellanox ofed and nvidia drivers to be installed",
        ("operator-waits-for-ofed",),
        source=f"{_RELOAD}; every node prints it for a while as it starts",
        decides=False,
        open_end=True,
    ),
    MessageTemplate(
        "gpu-operator",
        "Waiting for MOFED to be installed...",
        ("operator-waits-for-ofed",),
        source="NVIDIA/k8s-driver-manager cmd/driver-manager/main.go, waitForMofedDriver(): every 5 seconds",
        decides=False,
        open_end=True,
    ),
    MessageTemplate(
        "gpu-operator",
        "{what:nvidia-peermem driver is not ready|error validating nvidia-peermem driver installation}",
        ("operator-stub", "operator-ofed-changed", "operator-module-missing", "operator-waits-for-ofed"),
        source="NVIDIA/gpu-operator cmd/nvidia-validator/main.go",
        module="nvidia_peermem",
        open_end=True,
        sample="nvidia-peermem driver is not ready",
    ),
    MessageTemplate(
        "gpu-operator",
        "error validating MOFED driver installation",
        ("operator-waits-for-ofed",),
        source="NVIDIA/gpu-operator cmd/nvidia-validator/main.go: until /run/mellanox/drivers is ready",
        decides=False,
        open_end=True,
    ),
    MessageTemplate(
        "gpu-operator",
        "stat: cannot {:statx?} '/run/mellanox/drivers/.driver-ready': No such file or directory",
        ("operator-waits-for-ofed",),
        source="NVIDIA/gpu-operator cmd/nvidia-validator/main.go, runCommandWithWait; coreutils stat.c",
        decides=False,
        sample="stat: cannot statx '/run/mellanox/drivers/.driver-ready': No such file or directory",
    ),
    MessageTemplate(
        "network-operator",
        "Module nvidia_peermem is used and will FAIL driver reload",
        ("peermem-blocks-ofed",),
        source="Mellanox/doca-driver-build entrypoint.sh, unload_blocking_modules()",
        open_end=True,
    ),
    MessageTemplate(
        "network-operator",
        "{:[Ss]}torage modules are loaded for current driver,{: ?}terminating prior driver reload failure",
        meaning=Meaning(
            "The OFED container does not replace the NIC's driver: modules for storage over RDMA (NVMe-oF,"
            " iSER, SRP, NFS) are loaded, and UNLOAD_STORAGE_MODULES is not true. What waits for the OFED"
            " waits for this",
            "If no volume of the node is mounted by them, set UNLOAD_STORAGE_MODULES=true in"
            " NicClusterPolicy.spec.ofedDriver.env. Else remove ofedDriver, and use dma-buf with"
            " driver.rdma.enabled=false, which needs no OFED",
            brings=("operator-waits-for-ofed",),
        ),
        source="Mellanox/doca-driver-build entrypoint.sh and entrypoint/internal/entrypoint",
        open_end=True,
        sample="[20-Nov-26_08:22:40] Storage modules are loaded for current driver, terminating prior driver"
        ' reload failure due to UNLOAD_STORAGE_MODULES not set to "true"',
    ),
    MessageTemplate(
        "network-operator",
        "awating DTK compilation, {file:\\S{1,200}} not found",
        meaning=Meaning(
            "The OFED container gave up waiting for OpenShift's driver toolkit to build its modules",
            f"Read the log of the other container of this pod: {OFED_POD_LOG}",
            brings=("operator-waits-for-ofed",),
        ),
        source="Mellanox/doca-driver-build entrypoint.sh, build_driver()",
        open_end=True,
        sample="[20-Nov-26_08:22:40] Timeout (2790 sec.) awating DTK compilation,"
        " /mnt/shared-nvidia-nic-driver-toolkit/dtk_done_compile_25_04 not found",
    ),
    MessageTemplate(
        "kubernetes",
        "Startup probe failed: ls: cannot access '/run/mellanox/drivers/.driver-ready'",
        meaning=Meaning(
            "The Network Operator's OFED container has not loaded its modules: it still builds them,"
            " which may take 20 minutes, or it failed",
            f"Read its log: {OFED_POD_LOG}, and paste that into `gdr explain`",
            brings=("operator-waits-for-ofed",),
        ),
        source="Mellanox/network-operator manifests/state-ofed-driver, startupProbe",
        open_end=True,
        sample="Warning  Unhealthy  2m  kubelet  Startup probe failed: ls: cannot access"
        " '/run/mellanox/drivers/.driver-ready': No such file or directory",
    ),
    MessageTemplate(
        "gpu-operator",
        "chroot: failed to run command 'nvidia-smi': No such file or directory",
        meaning=Meaning(
            "The GPU Operator's validator finds no driver: the driver container has not installed one in"
            " /run/nvidia/driver, and there is no nvidia-smi on the host",
            f"Read the log of the driver's pod: {DRIVER_POD_LOG}. With driver.enabled=false, install the"
            " driver on the host",
            effect="follows",
        ),
        source="NVIDIA/gpu-operator cmd/nvidia-validator/main.go, validateDriver(); coreutils chroot.c",
        sample="chroot: failed to run command 'nvidia-smi': No such file or directory",
    ),
    MessageTemplate(
        "gpu-operator",
        r"{:\"msg\": ?\"}ClusterPolicy is not ready, states not ready: [{states:[\w -]{1,400}}]",
        meaning=Meaning(
            "The GPU Operator waits for pods of these states, each of which needs those before it",
            "Look at `kubectl get pods -n gpu-operator` for one that does not run, that of state-driver,"
            f" which is nvidia-driver-daemonset, first; its log: {DRIVER_POD_LOG}",
            effect="follows",
        ),
        source="NVIDIA/gpu-operator controllers/clusterpolicy_controller.go, Reconcile()",
        open_end=True,
        sample='{"level":"error","msg":"ClusterPolicy is not ready, states not ready: [state-driver]"}',
    ),
    MessageTemplate(
        "kernel",
        "oom-kill:constraint=CONSTRAINT_MEMCG",
        meaning=Meaning(
            "The kernel ended a process of a container that reached its limit of memory",
            "Raise the limit of that container; that of an operator's OFED container is"
            " NicClusterPolicy.spec.ofedDriver.containerResources",
        ),
        source="Linux mm/oom_kill.c, dump_oom_victim()",
        open_end=True,
        sample="[ 6020.4] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0-1",
    ),
    MessageTemplate(
        "curl",
        r"{:Could not resolve host: |Temporary failure resolving '}{host:[\w.-]{1,200}}",
        meaning=Meaning(
            "A download fails, because the name of its server does not resolve there: a driver or OFED"
            " that is built from such packages is not built",
            "Give the host or container a DNS server that knows the name, or a proxy (HTTPS_PROXY in"
            f" driver.env or ofedDriver.env of the policy). {_BUILDS_NONE}",
            brings=("operator-waits-for-ofed",),
        ),
        source=f"libcurl lib/strerror.c, CURLE_COULDNT_RESOLVE_HOST; apt methods/connect.cc; {_CONTAINER}",
        open_end=True,
        sample="Curl error (6): Couldn't resolve host name [Could not resolve host: cdn.redhat.com]",
    ),
    MessageTemplate(
        "package manager",
        r"{:E: Unable to locate package |Unable to find a match: |: Depends: |Package }"
        r"{package:(?:linux|kernel)-(?:headers|devel|modules|image|objects|signatures)[\w.+-]{0,100}}"
        r"{:$|, kernel| but it is not installable| +is not available}",
        meaning=Meaning(
            "The package repositories have no package of the running kernel that the driver or OFED is built"
            " with or made of, so that it is not installed",
            "Boot a kernel that the distribution's repositories still have, usually the newest, or add the"
            f" repository with this one. {_BUILDS_NONE}; NVIDIA makes those for some kernels only",
            brings=("operator-waits-for-ofed",),
        ),
        source=f"apt apt-pkg/cacheset.cc; dnf; {_CONTAINER}",
        open_end=True,
        sample="E: Unable to locate package linux-headers-6.8.0-1059-azure",
    ),
    MessageTemplate(
        "network-operator",
        'Command "/etc/init.d/openibd restart" failed with exit code',
        meaning=Meaning(
            "The OFED container built its modules, and they do not replace those of the node: one of"
            " these is in use, or a new one does not load",
            "Read why in the log of the node's kernel: `sudo dmesg | tail -50`, and paste that into `gdr"
            " explain`. Users of the old ones are nvidia_peermem, storage over RDMA, and what `lsmod |"
            " grep ib_` shows",
            brings=("operator-waits-for-ofed",),
        ),
        source="Mellanox/doca-driver-build entrypoint.sh, exec_cmd() and restart_driver()",
        open_end=True,
        sample='[21-Mar-25_03:03:41] Command "/etc/init.d/openibd restart" failed with exit code: 1',
    ),
    MessageTemplate(
        "gpu-operator",
        r"FATAL: failed to install {what:[\w-]{1,40}} packages. RHEL entitlement may be improperly deployed",
        meaning=Meaning(
            "The driver container gets no packages of Red Hat to build with, so that it builds no driver: no"
            " repository that it may use has them",
            "On OpenShift, set operator.use_ocp_driver_toolkit: true in the ClusterPolicy; if the log"
            " says `broken driver toolkit`, its image does not fit this release of OpenShift."
            f" {_BUILDS_NONE}",
        ),
        source="NVIDIA/gpu-driver-container rhel9/nvidia-driver, _install_prerequisites()",
        open_end=True,
        sample="FATAL: failed to install elfutils packages. RHEL entitlement may be improperly deployed.",
    ),
    MessageTemplate(
        "gpu-operator",
        "Could not resolve Linux kernel version",
        meaning=Meaning(
            "The driver container finds no headers of the node's running kernel in its package repositories,"
            " so that it builds no driver",
            "If lines above it say that a download failed, mend that: DNS, a proxy, a mirror. Else boot a"
            f" kernel that the repositories still have, usually the newest. {_BUILDS_NONE}",
        ),
        source=f"{_SCRIPT}, _resolve_kernel_version()",
        open_end=True,
        sample="Could not resolve Linux kernel version",
    ),
    MessageTemplate(
        "bash",
        r"{:/[\w./-]{0,80}nvidia-driver}: line {number:\d{1,6}}: {variable:\w{1,60}}: unbound variable",
        meaning=Meaning(
            "The script of the driver container stops at a variable that is not set: a fault of this image,"
            " or of one that does not fit the node's distribution, and not of a module or of the node",
            "Use a driver image and a GPU Operator of releases that fit each other and the distribution; for"
            " nvidia-peermem alone, dma-buf with the open kernel modules needs no such container",
        ),
        source="GNU bash, set -u; gpu-driver-container rhel9/nvidia-driver",
        open_end=True,
        sample="/usr/local/bin/nvidia-driver: line 769: RHEL_VERSION: unbound variable",
    ),
    MessageTemplate(
        "kubectl",
        r"{name:(?<![\w.-])[\w.-]{1,80}}{: +}notReady{: {2,}[\dT]}",
        meaning=Meaning(
            "A policy of NVIDIA's operators is not ready: some of the pods that it asks for do not run",
            "Paste what `kubectl get KIND NAME -o yaml` prints of it into `gdr explain`: its status names"
            " what is not ready",
            effect="follows",
        ),
        source="network-operator and gpu-operator CustomResourceDefinitions, additionalPrinterColumns",
        open_end=True,
        sample="nic-cluster-policy   notReady   6d2h",
    ),
    MessageTemplate(
        "kubectl",
        f"{{pod:(?:nvidia-driver-daemonset|mofed)-{_POD}}}{{: +}}{{ready:{_READY}}}{{: +}}"
        f"{{state:{_NOT_STARTED}}}",
        meaning=Meaning(
            "A container of the pod that loads the driver, or an OFED, never started, so that it has no"
            " log. Pods that need the driver wait until it is ready",
            "`kubectl describe pod -n NAMESPACE POD` ends with the reason: paste its Events into `gdr"
            " explain`",
            effect="state",
            after=_OF_DRIVER_POD,
        ),
        source=f"{_PRINTED}; gpu-operator assets/state-driver; network-operator manifests/state-ofed-driver",
        open_end=True,
        sample="gpu-operator  nvidia-driver-daemonset-abcde  0/2  ImagePullBackOff  0  9m",
    ),
    MessageTemplate(
        "kubectl",
        f"nvidia-driver-daemonset-{{pod:{_POD}}}{{: +}}{{ready:{_READY}}}{{: +}}{{state:{_BROKEN}}}",
        meaning=Meaning(
            "A container of the GPU Operator's driver pod does not stay up: the one that builds and loads"
            " the driver, or, where the other is ready, the one that loads nvidia-peermem. Pods that need"
            " the driver wait in Init until it is ready",
            f"Print why with {DRIVER_POD_LOG}, and paste that into `gdr explain`. After a restart, only"
            " `--previous -c CONTAINER` may print the reason",
            effect="state",
            after=_OF_DRIVER_POD,
        ),
        source=f"{_PRINTED}; gpu-operator assets/state-driver",
        open_end=True,
        sample="gpu-operator  nvidia-driver-daemonset-abcde  1/2  CrashLoopBackOff  34 (2m ago)  2h",
    ),
    MessageTemplate(
        "kubectl",
        f"nvidia-driver-daemonset-{{pod:{_POD}}}{{: +}}{{ready:{_READY}}}{{: +}}Init:{{step:{_STEP}}}",
        meaning=Meaning(
            "The GPU Operator's driver pod is still in its init container, k8s-driver-manager, so that no"
            " other container of it has a log. It ends pods that use the GPUs, unloads the old driver, and,"
            " with driver.rdma.enabled, waits for an OFED",
            f"Print what it waits for with {DRIVER_POD_LOG}, and paste that into `gdr explain`",
            effect="state",
            after=_OF_DRIVER_POD,
        ),
        source=f"{_PRINTED}; gpu-operator assets/state-driver; k8s-driver-manager, uninstallDriver()",
        open_end=True,
        sample="gpu-operator  nvidia-driver-daemonset-abcde  0/2  Init:0/1  0  41m",
    ),
    MessageTemplate(
        "kubectl",
        f"mofed-{{pod:{_POD}}}{{: +}}{{ready:{_READY}}}{{: +}}{{state:{_BROKEN}|Init:{_STEP}}}",
        meaning=Meaning(
            "The pod with which the Network Operator installs an OFED does not stay up. A GPU Operator with"
            " driver.rdma.enabled and useHostMofed: false waits for it",
            f"Print why with {OFED_POD_LOG}, and paste that into `gdr explain`. After a restart, only"
            " `--previous -c CONTAINER` may print the reason",
            effect="state",
            brings=("operator-waits-for-ofed",),
        ),
        source=f"{_PRINTED}; network-operator manifests/state-ofed-driver",
        open_end=True,
        sample="nvidia-network-operator  mofed-ubuntu22.04-ds-pqrst  0/1  CrashLoopBackOff  9  2h",
    ),
    MessageTemplate(
        "kubectl",
        f"nvidia-{{pod:(?:operator-validator|device-plugin-daemonset|container-toolkit-daemonset|dcgm-exporter"
        f"|mig-manager)-{_POD}}}{{: +}}{{ready:{_READY}}}{{: +}}Init:{{step:{_STEP}}}",
        meaning=Meaning(
            "A pod of the GPU Operator waits for the driver: its init container asks for it until it is"
            " ready, and so it fails of nothing itself",
            f"Look at the pod nvidia-driver-daemonset of the same node first: {DRIVER_POD_LOG}; if its"
            " own state is Running with all containers ready, `kubectl describe pod` of this one says"
            " what it waits for",
            effect="follows",
        ),
        source=f"{_PRINTED}; gpu-operator assets/state-operator-validation, init containers",
        open_end=True,
        sample="gpu-operator  nvidia-operator-validator-fghij  0/1  Init:0/4  0  2h",
    ),
)
