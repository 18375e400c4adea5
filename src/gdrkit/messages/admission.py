"""Messages of Kubernetes and OpenShift about pods that do not start, for want of a right or of a device."""

from __future__ import annotations

from gdrkit.messages.message import Meaning, MessageTemplate

_POD_SECURITY = r"violates PodSecurity {level:\"[\w:.]{1,40}\"}"
_SCC = "unable to validate against any security context constraint"
_BY_POD_SECURITY = "kubernetes staging/src/k8s.io/pod-security-admission admission/admission.go"
_BY_SCC = "openshift/apiserver-library-go pkg/securitycontextconstraints/sccadmission/admission.go"

_WITHOUT = (
    "Without IPC_LOCK, the limit of locked memory is what the container runtime gives: `gdr config"
    " machineconfig` sets it for CRI-O, LimitMEMLOCK=infinity of its unit for containerd"
)
_LABEL = (
    "Where that is allowed: `kubectl label --overwrite namespace NAME"
    " pod-security.kubernetes.io/enforce=privileged`"
)
_GRANT = (
    "Let the service account use an SCC that allows it: `oc adm policy add-scc-to-user SCC -z ACCOUNT -n"
    " NAMESPACE`, with an SCC of your own"
)

_WITHOUT_DEVICE = (
    "umad-device-missing", "rdma-device-not-in-container", "no-rdma-device", "nic-missing", "nic-failed",
    "port-down", "no-efa-device",
)  # fmt: skip
_PLUGINS = (
    "Mellanox/k8s-rdma-shared-dev-plugin pkg/resources/resources_manager.go and server.go, and"
    " k8snetworkplumbingwg/sriov-network-device-plugin: selectors"
)
_NETWORK_RESOURCE = r"(?:rdma|openshift\.io)/[\w.-]{1,60}|nvidia\.com/(?!gpu\b|mig-|shared)[\w.-]{1,60}"
_NONE_OFFERED = Meaning(
    "The device plugin of Kubernetes offers none of a network resource on this node, so that no pod gets"
    " one: its selectors match no RDMA device, or a device has no complete set of device files",
    "Compare the selectors of the resource (ifNames, vendors, deviceIDs, drivers) with what `rdma link`"
    " and `lspci -nn` print on the node, and read the log of the plugin's pod there. It looks once, or at"
    " an interval: start it again after the driver of the NIC",
    after=_WITHOUT_DEVICE,
)
_EFA_NODES = (
    "Give the node group a launch template with interfaces of the type EFA (`efaEnabled` with eksctl):"
    " they are attached when an instance starts"
)
_NO_EFA = Meaning(
    "Kubernetes finds no node with enough EFA interfaces: the EFA device plugin is not installed, the nodes"
    " have no EFA interfaces, or pods have taken all of them",
    "Look for aws-efa-k8s-device-plugin in `kubectl get daemonsets -A`: EKS does not install it. With it,"
    f" look at vpc.amazonaws.com/efa under Allocatable in `kubectl describe node`. {_EFA_NODES}",
    after=_WITHOUT_DEVICE,
)
_EFA_GUIDE = "Amazon EKS user guide, Manage EFA devices"

ROWS = (
    MessageTemplate(
        "kubernetes",
        rf"{_POD_SECURITY}{{:.*must not include (?:\"\w+\", )*\"IPC_LOCK\"}}",
        meaning=Meaning(
            "The Pod Security level of the namespace does not allow the capability IPC_LOCK, so Kubernetes"
            " makes no pod: no program has started, and nothing is known of RDMA",
            f"{_LABEL}. {_WITHOUT}",
        ),
        source=f"{_BY_POD_SECURITY}, policy/check_capabilities_baseline.go",
        open_end=True,
        sample='Error from server (Forbidden): error when creating "t.yaml": pods "t" is forbidden: violates'
        ' PodSecurity "baseline:latest": non-default capabilities (container "t" must not include "IPC_LOCK"'
        " in securityContext.capabilities.add)",
    ),
    MessageTemplate(
        "kubernetes",
        _POD_SECURITY,
        meaning=Meaning(
            "The Pod Security level of the namespace does not allow what the pod asks for, so Kubernetes"
            " makes no pod: no program has started, and nothing is known of RDMA",
            f"Leave out what the line names, if the job does without. {_LABEL}",
        ),
        source=_BY_POD_SECURITY,
        open_end=True,
        sample='pods "t" is forbidden: violates PodSecurity "baseline:latest": host namespaces'
        " (hostNetwork=true)",
    ),
    MessageTemplate(
        "openshift",
        rf"{_SCC}{{:.*\"IPC_LOCK\": capability may not be added}}",
        meaning=Meaning(
            "No security context constraint (SCC) of the pod's service account allows the capability"
            " IPC_LOCK, so OpenShift makes no pod: no program has started, and nothing is known of RDMA",
            f"{_GRANT} that has IPC_LOCK in allowedCapabilities. {_WITHOUT}",
        ),
        source=f"{_BY_SCC}; capabilities/mustrunas.go",
        open_end=True,
        sample='Error creating: pods "t-" is forbidden: unable to validate against any security context'
        " constraint: [provider restricted-v2: .containers[0].capabilities.add: Invalid value:"
        ' "IPC_LOCK": capability may not be added]',
    ),
    MessageTemplate(
        "openshift",
        _SCC,
        meaning=Meaning(
            "No security context constraint (SCC) of the pod's service account allows what the pod asks for,"
            " so OpenShift makes no pod: no program has started, and nothing is known of RDMA",
            f"Leave out what the line names, if the job does without. {_GRANT}",
        ),
        source=_BY_SCC,
        open_end=True,
        sample='pods "t-" is forbidden: unable to validate against any security context constraint:'
        ' [provider "anyuid": Forbidden: not usable by user or serviceaccount]',
    ),
    MessageTemplate(
        "kubernetes",
        r"Insufficient vpc.amazonaws.com/efa{:(?![\w-])}",
        meaning=_NO_EFA,
        source=f"kubernetes pkg/scheduler/framework/plugins/noderesources/fit.go; {_EFA_GUIDE}",
        open_end=True,
        sample="0/64 nodes are available: 64 Insufficient vpc.amazonaws.com/efa.",
    ),
    MessageTemplate(
        "kubernetes",
        r"vpc.amazonaws.com/efa{:\"?: {1,20}\"?0\"?,?$}",
        meaning=_NO_EFA,
        source=f"kubernetes, status of a Node; {_EFA_GUIDE}",
        sample="  vpc.amazonaws.com/efa:  0",
    ),
    MessageTemplate(
        "efa-device-plugin",
        "No valid EFA devices found",
        meaning=Meaning(
            "The EFA device plugin finds no EFA interface on this node, so that Kubernetes has none to"
            " offer",
            f"{_EFA_NODES}; not every type of instance has EFA. The plugin needs /dev/infiniband of the"
            " host",
            after=_WITHOUT_DEVICE,
        ),
        source=f"aws-efa-k8s-device-plugin; {_EFA_GUIDE}",
        open_end=True,
        sample="2026/02/03 15:23:32 Error to get IB device: %v. No valid EFA devices found",
    ),
    MessageTemplate(
        "kubernetes",
        rf"{{:Insufficient|number of devices unavailable for}} {{resource:{_NETWORK_RESOURCE}}}",
        meaning=Meaning(
            "Kubernetes does not find enough of a network resource that the pod requests: its device plugin"
            " offers none, or all of them are taken",
            "Look at Allocatable in `kubectl describe node`. If it is 0, the selectors of the resource"
            " (ifNames, vendors, deviceIDs, drivers) match no interface of the node: compare them with what"
            " `rdma link` and `lspci -nn` print there",
            after=_WITHOUT_DEVICE,
        ),
        source="kubernetes pkg/scheduler/framework/plugins/noderesources/fit.go and"
        f" pkg/kubelet/cm/devicemanager; {_PLUGINS}",
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
        "whereabouts",
        "{what:Could not allocate IP in range|no IP addresses available in range set}: ",
        meaning=Meaning(
            "The pod's second network has no free address, so that the pod does not start: all addresses"
            " of its range are taken, or are still held for pods that are gone",
            "Enlarge the range in the NetworkAttachmentDefinition or IPPool, and look for addresses of"
            " pods that are gone: `kubectl get ippools.whereabouts.cni.cncf.io -A -o yaml`",
        ),
        source="k8snetworkplumbingwg/whereabouts pkg/allocate/allocate.go; containernetworking/plugins"
        " plugins/ipam/host-local",
        open_end=True,
        sample="Could not allocate IP in range: ip: 10.0.0.1 / - 10.0.0.2 / range: x",
    ),
    MessageTemplate(
        "containerd",
        'no runtime for "nvidia" is configured',
        meaning=Meaning(
            "The container runtime of the node does not know the runtime class nvidia: the GPU Operator's"
            " toolkit has not configured it yet, which waits for the driver, or the runtime has not read"
            " it",
            "Look at the pods nvidia-driver-daemonset and nvidia-container-toolkit-daemonset of that node"
            " first: the others wait for them. If both run, compare toolkit.env (CONTAINERD_CONFIG,"
            " CONTAINERD_SOCKET) with the files of the node's containerd, which k3s, RKE2 and MicroK8s"
            " have elsewhere",
            effect="follows",
        ),
        source="containerd internal/cri, GetSandboxRuntime(); gpu-operator assets/state-container-toolkit",
        sample='failed to get sandbox runtime: no runtime for "nvidia" is configured',
    ),
    MessageTemplate(
        "sriov-cni",
        "VF pci addr is required",
        meaning=Meaning(
            "The pod's second network got no device from Kubernetes, so that the pod does not start: its"
            " NetworkAttachmentDefinition does not name the resource, or the pod requests none of it",
            "Give the NetworkAttachmentDefinition the annotation k8s.v1.cni.cncf.io/resourceName, and the"
            " pod the same resource in resources.limits, one for each network",
        ),
        source="k8snetworkplumbingwg/sriov-cni and ib-sriov-cni pkg/config/config.go, LoadConf()",
        open_end=True,
        sample='error adding container to network "ib-net": SRIOV-CNI failed to load netconf: LoadConf(): VF'
        " pci addr is required",
    ),
    MessageTemplate(
        "kubernetes",
        'Failed to pull image "{image:[^"]{1,300}}"',
        meaning=Meaning(
            "The node cannot pull the image of a container, which therefore never starts and has no log",
            "Read the end of the line. `not found`: the registry has no such tag; the operators build it"
            " from the version and the node's system and kernel, and not all of these have one."
            " `unauthorized`: give the policy imagePullSecrets. No such host, or a timeout: a proxy or"
            " mirror",
        ),
        source="kubernetes pkg/kubelet/images/image_manager.go",
        open_end=True,
        sample='Failed to pull image "nvcr.io/nvidia/driver:580.95.05-ubuntu26.04": rpc error: code ='
        " NotFound",
    ),
    MessageTemplate(
        "kubernetes",
        r'failed to find plugin "{plugin:[\w.-]{1,60}}" in path{:s?} [{path:[^\]]{1,200}}]',
        meaning=Meaning(
            "The node has no CNI plugin {plugin} in {path}, so that the pod does not start: no program has"
            " started, and nothing is known of RDMA",
            "Look for the pod on that node that copies it there, and read its log. The SR-IOV Network"
            " Operator or a DaemonSet brings sriov, ib-sriov and rdma; secondaryNetwork.cniPlugins of the"
            " Network Operator, or containernetworking-plugins, macvlan, host-device and the like. If the"
            " pod runs, it writes to another folder than the runtime reads",
        ),
        source="containernetworking/cni pkg/invoke/find.go, FindInPath(); multus-cni issue 386",
        open_end=True,
        sample='failed to find plugin "sriov" in path [/opt/cni/bin]',
    ),
    MessageTemplate(
        "multus",
        r"cannot find a network-attachment-definition ({definition:[\w.-]{1,253}}) in namespace"
        r" ({home:[\w.-]{1,63}})",
        meaning=Meaning(
            "Multus finds no NetworkAttachmentDefinition {definition} in the namespace {home}, so that the"
            " pod does not start: no program has started, and nothing is known of RDMA",
            "Look where `kubectl get network-attachment-definitions -A` has it. In another namespace: write"
            " NAMESPACE/{definition} in the pod's annotation k8s.v1.cni.cncf.io/networks. Nowhere: create"
            " it, or the operator's SriovNetwork or MacvlanNetwork with networkNamespace: {home}",
        ),
        source="k8snetworkplumbingwg/multus-cni pkg/k8sclient/k8sclient.go, getKubernetesDelegate()",
        open_end=True,
        sample="cannot find a network-attachment-definition (ib-net) in namespace (team-a): "
        'network-attachment-definitions.k8s.cni.cncf.io "ib-net" not found',
    ),
)
