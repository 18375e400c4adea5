"""Messages of Kubernetes and OpenShift that refuse a pod before it exists."""

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
)
