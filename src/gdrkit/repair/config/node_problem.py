"""A node condition in Kubernetes, by node-problem-detector: its plugin, its configuration, and a DaemonSet.

Source: kubernetes/node-problem-detector, pkg/custompluginmonitor: types/config.go, types/types.go,
plugin/plugin.go (how a plugin is run), custom_plugin_monitor.go (what a condition becomes).
"""

from __future__ import annotations

import shlex

import msgspec

from gdrkit.repair.config.output import ConfigOutput, annotated
from gdrkit.repair.config.request import ConfigRequest
from gdrkit.repair.config.yaml_writer import Field, Items, Literal, documents

FORMS = ("config", "plugin")
CONDITION = "GPUDirectRDMAProblem"
"""True is bad, as for all conditions of node-problem-detector."""
IMAGE = "registry.k8s.io/node-problem-detector/node-problem-detector:v0.8.19"
"""The release that deployment/node-problem-detector.yaml of its repository names."""
TIMEOUT_S, DEADLINE_S = 5, 4
"""node-problem-detector's default, after which it kills the plugin; gdr answers before."""
ARGUMENTS = ("doctor", "--line", "--exit-style", "npd", "--deadline", str(DEADLINE_S))
PLUGIN = "/custom-config/gdrkit.sh"
"""Where deliveryhero/node-problem-detector, a Helm chart, mounts custom_monitor_definitions."""
NAME = "gdrkit-node-problem-detector"


def npd(request: ConfigRequest) -> ConfigOutput:
    """The configuration of node-problem-detector's custom plugin monitor, or its plugin."""
    if request.form == "plugin":
        return ConfigOutput(
            kind="npd",
            form="plugin",
            title="plugin for node-problem-detector, on the host or in a container that has / at /host",
            file="gdrkit.sh",
            use=f"install as {PLUGIN}, mode 755, beside the configuration of --form config",
            lead="#!/bin/sh",
            lines=annotated(_plugin(request), PLUGIN_REASONS),
            assumed=(request.gdr_assumed,),
        )
    return ConfigOutput(
        kind="npd",
        form="config",
        title="configuration of node-problem-detector's custom plugin monitor",
        file="gdrkit.json",
        use="node-problem-detector --config.custom-plugin-monitor=gdrkit.json; in values of its Helm chart, "
        "settings.custom_monitor_definitions has both files, and settings.custom_plugin_monitors this one",
        lines=annotated(_config(), CONFIG_REASONS),
        notes=(f"node-problem-detector ends if {PLUGIN} does not exist: gdr config npd --form plugin",),
        commentable=False,
    )


PLUGIN_REASONS = {
    "set -- /": "passive: it loads no module, sends nothing, and ends in time",
    "[ ! -d": "in a container: gdr of the host, with the host's /proc, /sys and libraries",
    "line=$": "the condition's message is what is printed",
    '[ -n "$line"': "a gdr that cannot start prints nothing, and may end with 1, which would be a problem",
    "exit": "0 no problem, 1 a problem, 2 unknown",
}


def _plugin(request: ConfigRequest) -> str:
    return (
        f"set -- {shlex.join((request.gdr, *ARGUMENTS))}\n"
        '[ ! -d /host/proc ] || set -- chroot /host "$@"\n'
        'line=$("$@" 2>/dev/null) && code=0 || code=$?\n'
        "printf '%s\\n' \"$line\"\n"
        '[ -n "$line" ] || exit 2\n'
        'exit "$code"\n'
    )


CONFIG_REASONS = {
    '    "invoke_interval"': "a verdict changes by an upgrade or a cable, not by the second",
    '    "timeout"': f"gdr answers after {DEADLINE_S} s, at worst with unknown",
    '    "max_output_length"': "gdr doctor --line has no more characters",
    '    "enable_message': "the message follows the first problem",
    '      "type": "permanent"': "a condition; a temporary rule would send an event for unknown, too",
    '      "type": "GPU': "True if GPUDirect RDMA is blocked, Unknown if evidence is missing",
    '      "path"': "it must exist: node-problem-detector ends if it does not",
}


def _config() -> str:
    rule = {
        "type": "permanent",
        "condition": CONDITION,
        "reason": "GPUDirectRDMABlocked",
        "path": PLUGIN,
        "timeout": f"{TIMEOUT_S}s",
    }
    document = {
        "plugin": "custom",
        "pluginConfig": {
            "invoke_interval": "5m",
            "timeout": f"{TIMEOUT_S}s",
            "max_output_length": 80,
            "concurrency": 1,
            "enable_message_change_based_condition_update": True,
        },
        "source": "gdrkit",
        "metricsReporting": True,
        "conditions": [
            {
                "type": CONDITION,
                "reason": "GPUDirectRDMANotBlocked",
                "message": "nothing is known to block GPUDirect RDMA",
            }
        ],
        "rules": [rule],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


# -- DaemonSet ---------------------------------------------------------------------------------------


def daemonset(request: ConfigRequest) -> ConfigOutput:
    """node-problem-detector with this one plugin, on each node with a GPU, and what it needs."""
    return ConfigOutput(
        kind="daemonset",
        form="yaml",
        title=f"the node condition {CONDITION}, by node-problem-detector on each node with a GPU",
        file="gdrkit-daemonset.yaml",
        use="kubectl apply -f gdrkit-daemonset.yaml; then kubectl describe node shows the condition",
        lines=documents(_account(), _binding(), _config_map(request), _daemonset()),
        assumed=(
            f"{request.gdr_assumed}, on the host of each node",
            "nodes with a GPU have the label nvidia.com/gpu.present, which the GPU Operator sets",
        ),
        notes=(
            "privileged: the kernel log, /dev/nvidiactl and PCI registers need it",
            "a node-problem-detector that you have already can run the plugin itself: gdr config npd",
        ),
    )


_NAMED = (Field("name", NAME), Field("namespace", "kube-system"))
_LABELS = (Field("app", NAME),)


def _account() -> tuple[Field, ...]:
    return (Field("apiVersion", "v1"), Field("kind", "ServiceAccount"), Field("metadata", _NAMED))


def _binding() -> tuple[Field, ...]:
    role = (
        Field("apiGroup", "rbac.authorization.k8s.io"),
        Field("kind", "ClusterRole"),
        Field("name", "system:node-problem-detector", "every cluster has this role"),
    )
    return (
        Field("apiVersion", "rbac.authorization.k8s.io/v1"),
        Field("kind", "ClusterRoleBinding"),
        Field("metadata", _NAMED[:1]),
        Field("roleRef", role),
        Field("subjects", Items(((Field("kind", "ServiceAccount"), *_NAMED),))),
    )


def _config_map(request: ConfigRequest) -> tuple[Field, ...]:
    files = (
        Field("gdrkit.json", Literal(_config())),
        Field("gdrkit.sh", Literal("#!/bin/sh\n" + _plugin(request))),
    )
    return (
        Field("apiVersion", "v1"),
        Field("kind", "ConfigMap"),
        Field("metadata", _NAMED),
        Field("data", files),
    )


def _daemonset() -> tuple[Field, ...]:
    tolerations = Items(((Field("operator", "Exists"),),))
    pod = (
        Field("serviceAccountName", NAME),
        Field("nodeSelector", (Field("nvidia.com/gpu.present", "true"),), "only nodes with a GPU"),
        Field("tolerations", tolerations, "also nodes that are tainted for GPU jobs"),
        Field("containers", Items((_container(),))),
        Field("volumes", Items(_volumes())),
    )
    return (
        Field("apiVersion", "apps/v1"),
        Field("kind", "DaemonSet"),
        Field("metadata", (*_NAMED, Field("labels", _LABELS))),
        Field(
            "spec",
            (
                Field("selector", (Field("matchLabels", _LABELS),)),
                Field("template", (Field("metadata", (Field("labels", _LABELS),)), Field("spec", pod))),
            ),
        ),
    )


def _container() -> tuple[Field, ...]:
    command = (
        "/node-problem-detector",
        "--logtostderr",
        "--config.custom-plugin-monitor=/custom-config/gdrkit.json",
    )
    own_name = (
        Field("name", "NODE_NAME"),
        Field("valueFrom", (Field("fieldRef", (Field("fieldPath", "spec.nodeName"),)),)),
    )
    resources = (Field("requests", (Field("cpu", "20m"), Field("memory", "128Mi"))),)
    mounts = Items(
        (
            (Field("name", "config"), Field("mountPath", "/custom-config"), Field("readOnly", True)),
            (
                Field("name", "host"),
                Field("mountPath", "/host"),
                Field("mountPropagation", "HostToContainer", "also drivers that are mounted later"),
                Field("readOnly", True),
            ),
        )
    )
    return (
        Field("name", "node-problem-detector"),
        Field("image", IMAGE),
        Field("command", Items(command)),
        Field("env", Items((own_name,))),
        Field("securityContext", (Field("privileged", True),)),
        Field("resources", resources, "no CPU limit: it would stretch a second of work beyond the timeout"),
        Field("volumeMounts", mounts),
    )


def _volumes() -> tuple[tuple[Field, ...], ...]:
    config = (
        Field("name", NAME),
        Field("defaultMode", 493, "0755: the plugin is run; YAML 1.1 and 1.2 differ on octal numbers"),
    )
    return (
        (Field("name", "config"), Field("configMap", config)),
        (Field("name", "host"), Field("hostPath", (Field("path", "/"),))),
    )
