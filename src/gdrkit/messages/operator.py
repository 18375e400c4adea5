"""Messages of the containers that NVIDIA's GPU Operator and Network Operator run on a node."""

from __future__ import annotations

from gdrkit.messages.message import Meaning, MessageTemplate

_SCRIPT = "gpu-driver-container ubuntu24.04/nvidia-driver"
_RELOAD = f"{_SCRIPT}, reload_nvidia_peermem()"

OFED_POD_LOG = (
    "`kubectl logs -n nvidia-network-operator -l nvidia.com/ofed-driver --all-containers --prefix --tail=50`"
)
"""What every container of the pods prints that install an OFED. Source: manifests/state-ofed-driver."""

_WITHOUT_DEVICE = (
    "umad-device-missing", "rdma-device-not-in-container", "no-rdma-device", "nic-missing", "nic-failed",
    "port-down", "no-efa-device",
)  # fmt: skip
_PLUGINS = (
    "Mellanox/k8s-rdma-shared-dev-plugin pkg/resources/resources_manager.go and server.go, and"
    " k8snetworkplumbingwg/sriov-network-device-plugin: selectors"
)
_OF_DRIVER_POD = (
    "operator-stub",
    "operator-ofed-changed",
    "operator-module-missing",
    "operator-waits-for-ofed",
)
_NETWORK_RESOURCE = (
    r"(?:rdma|openshift\.io|vpc\.amazonaws\.com)/[\w.-]{1,60}|nvidia\.com/(?!gpu\b|mig-|shared)[\w.-]{1,60}"
)
_NONE_OFFERED = Meaning(
    "The device plugin of Kubernetes offers none of a network resource on this node, so that no pod gets"
    " one: its selectors match no RDMA device, or a device has no complete set of device files",
    "Compare the selectors of the resource (ifNames, vendors, deviceIDs, drivers) with what `ibdev2netdev`"
    " prints on the node, and read the log of the plugin's pod there. It looks once, or at an interval:"
    " start it again after the driver of the NIC",
    after=_WITHOUT_DEVICE,
)
_PRINTED = "kubernetes pkg/printers/internalversion, printPod(): a row of `kubectl get pods`"
_POD, _READY, _STEP = r"[\w.-]{1,80}", r"\d{1,3}/\d{1,3}", r"\d{1,3}/\d{1,3}"
_BROKEN = (
    r"(?:Init:)?(?:CrashLoopBackOff|Error|ImagePullBackOff|ErrImagePull|CreateContainerError"
    r"|RunContainerError|OOMKilled)|Init:\d{1,3}/\d{1,3}"
)

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
        rf"Insufficient {{resource:{_NETWORK_RESOURCE}}}",
        meaning=Meaning(
            "Kubernetes finds no node with enough of a network resource that the pod requests: its device"
            " plugin offers none, or all of them are taken",
            "Look at Allocatable in `kubectl describe node`. If it is 0, the selectors of the resource"
            " (ifNames, vendors, deviceIDs, drivers) match no interface of the node: compare them with what"
            " `ibdev2netdev` prints there",
            after=_WITHOUT_DEVICE,
        ),
        source=f"kubernetes pkg/scheduler/framework/plugins/noderesources/fit.go; {_PLUGINS}",
        open_end=True,
        sample="0/3 nodes are available: 3 Insufficient rdma/rdma_shared_device_a.",
    ),
    MessageTemplate(  # of status.capacity or status.allocatable, in JSON, YAML and `kubectl describe node`
        "kubernetes",
        rf"{{resource:{_NETWORK_RESOURCE}}}{{:\"?: {{1,20}}\"?0\"?,?$}}",
        meaning=_NONE_OFFERED,
        source=f"kubernetes, status of a Node; {_PLUGINS}",
        sample='  "rdma/rdma_shared_device_a": "0"',
    ),
    MessageTemplate(
        "rdma-shared-device-plugin",
        '{what:no Rdma Devices were found for resource|exposing "0" devices}',
        meaning=_NONE_OFFERED,
        source=_PLUGINS,
        open_end=True,
        sample="2023/09/02 06:23:37 Warning: no Rdma Devices were found for resource hpc_shared_devices_b",
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
        f"nvidia-driver-daemonset-{{pod:{_POD}}}{{: +}}{{ready:{_READY}}}{{: +}}{{state:{_BROKEN}}}",
        meaning=Meaning(
            "A container of the GPU Operator's driver pod does not stay up: the one that builds and loads"
            " the driver, or, where the other is ready, the one that loads nvidia-peermem. Pods that need"
            " the driver wait in Init until it is ready",
            "Print why with `kubectl logs -n gpu-operator -l app=nvidia-driver-daemonset --all-containers"
            " --prefix --tail=50`, and paste that into `gdr explain`. After a restart, only"
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
        f"mofed-{{pod:{_POD}}}{{: +}}{{ready:{_READY}}}{{: +}}{{state:{_BROKEN}}}",
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
            "Look at the pod nvidia-driver-daemonset of the same node first: `kubectl logs -n gpu-operator"
            " -l app=nvidia-driver-daemonset --all-containers --prefix --tail=50`; if its own state is"
            " Running with all containers ready, `kubectl describe pod` of this one says what it waits for",
            effect="follows",
        ),
        source=f"{_PRINTED}; gpu-operator assets/state-operator-validation, init containers",
        open_end=True,
        sample="gpu-operator  nvidia-operator-validator-fghij  0/1  Init:0/4  0  2h",
    ),
)
