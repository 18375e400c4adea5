"""Files for Prometheus: a service and a timer that run `gdr export`, and alert rules on its metrics."""

from __future__ import annotations

from gdrkit.repair.config.boot_files import acs_systemd
from gdrkit.repair.config.output import ConfigOutput, ConfigRefused, annotated
from gdrkit.repair.config.request import ConfigRequest
from gdrkit.repair.config.yaml_writer import Field, Items, lines

SYSTEMD_FORMS = ("acs", "export-service", "export-timer")
ALERT_FORMS = ("rules", "prometheusrule")
SERVICE = "/etc/systemd/system/gdrkit-export.service"
TIMER = "/etc/systemd/system/gdrkit-export.timer"
DEADLINE_S = 60


def systemd(request: ConfigRequest) -> ConfigOutput | ConfigRefused:
    """A unit of one of the forms."""
    forms = {"export-service": _service, "export-timer": _timer}
    return forms.get(request.form, acs_systemd)(request)


SERVICE_REASONS = {
    "Description=": "shown by systemctl",
    "Type=oneshot": "the command runs once and exits",
    "ExecStart=": "the file is replaced at once, and stays as it is if there is no verdict in time",
    "TimeoutStartSec=": "longer than the deadline",
    "CapabilityBoundingSet=": "no program that it starts can load a kernel module",
    "SystemCallFilter=": "the same, for any way to do it",
    "SystemCallErrorNumber=": "such a call fails, instead of ending the program",
    "NoNewPrivileges=": "programs with the setuid bit gain nothing, such as nvidia-modprobe",
    "IPAddressDeny=": "nothing is sent over IP",
    "ProtectSystem=": "it can write nothing",
    "ReadWritePaths=": "except the metrics",
    "PrivateTmp=": "no file of other users is in the way",
}


def _service(request: ConfigRequest) -> ConfigOutput:
    folder = request.textfile_folder
    text = (
        "[Unit]\n"
        "Description=Write GPUDirect RDMA metrics for node-exporter\n"
        "\n"
        "[Service]\n"
        "Type=oneshot\n"
        f"ExecStart={request.gdr} export -o {folder}/gdrkit.prom --deadline {DEADLINE_S}\n"
        f"TimeoutStartSec={2 * DEADLINE_S}\n"
        "CapabilityBoundingSet=~CAP_SYS_MODULE\n"
        "SystemCallFilter=~@module\n"
        "SystemCallErrorNumber=EPERM\n"
        "NoNewPrivileges=yes\n"
        "IPAddressDeny=any\n"
        "ProtectSystem=strict\n"
        f"ReadWritePaths={folder}\n"
        "PrivateTmp=yes\n"
    )
    return ConfigOutput(
        kind="systemd",
        form="export-service",
        title="write metrics for node-exporter's textfile collector",
        file=SERVICE,
        use=f"install as {SERVICE}, with the timer of --form export-timer; systemctl daemon-reload",
        lines=annotated(text, SERVICE_REASONS),
        assumed=(
            request.gdr_assumed,
            f"node-exporter has --collector.textfile.directory={folder} (--textfile-folder sets it)",
        ),
        notes=("gdr export needs the Python package prometheus-client: pip install 'gdrkit[prometheus]'",),
    )


TIMER_REASONS = {
    "Description=": "shown by systemctl",
    "OnBootSec=": "first when drivers had time to load",
    "OnUnitInactiveSec=": "then again, counted from the end of the last run",
    "RandomizedDelaySec=": "not on all nodes at the same time",
    "WantedBy=": "start with the machine",
}


def _timer(request: ConfigRequest) -> ConfigOutput:
    text = (
        "[Unit]\n"
        "Description=Write GPUDirect RDMA metrics regularly\n"
        "\n"
        "[Timer]\n"
        "OnBootSec=2min\n"
        "OnUnitInactiveSec=5min\n"
        "RandomizedDelaySec=30s\n"
        "\n"
        "[Install]\n"
        "WantedBy=timers.target\n"
    )
    return ConfigOutput(
        kind="systemd",
        form="export-timer",
        title="run gdrkit-export.service every five minutes",
        file=TIMER,
        use=f"install as {TIMER}; systemctl daemon-reload; systemctl enable --now gdrkit-export.timer",
        lines=annotated(text, TIMER_REASONS),
    )


# -- alerts ------------------------------------------------------------------------------------------


def _alert(name: str, expr: str, lasts: str, severity: str, summary: str, why: str) -> tuple[Field, ...]:
    return (
        Field("alert", name, why),
        Field("expr", expr),
        Field("for", lasts),
        Field("labels", (Field("severity", severity),)),
        Field("annotations", (Field("summary", summary),)),
    )


GPU_LABELS = "(instance, node, consumer, gpu)"
BROKEN = (
    f'gdr_gpu_state{{state=~"blocked|impossible"}} == 1 and on {GPU_LABELS} '
    f'max by {GPU_LABELS} (max_over_time(gdr_gpu_state{{state=~"ready|active"}}[1d])) == 1'
)
BELOW = (
    "gdr_pair_measured_bytes_per_second < on (instance, node, gpu, nic) group_left () "
    'gdr_pair_ceiling_bytes_per_second{bound="low"}'
)
ALERTS = (
    _alert(
        "GPUDirectRDMABlocked",
        'gdr_node_state{consumer="nccl",state="blocked"} == 1',
        "15m",
        "warning",
        "GPU memory does not reach the network directly on {{ $labels.node }}: run gdr doctor there",
        "something blocks it that can be fixed; longer than a restart of the driver takes",
    ),
    _alert(
        "GPUDirectRDMALost",
        BROKEN,
        "15m",
        "critical",
        "GPU {{ $labels.gpu }} of {{ $labels.node }} reached the network directly within the last day, "
        "and does not now",
        "it broke: an upgrade, a cable, a restart",
    ),
    _alert(
        "GPUDirectRDMAUnknown",
        'gdr_node_state{consumer="nccl",state="unknown"} == 1',
        "1h",
        "info",
        "Evidence is missing on {{ $labels.node }}: gdr doctor names it",
        "never taken for good or bad",
    ),
    _alert(
        "GPUDirectRDMABelowCeiling",
        BELOW,
        "0m",
        "warning",
        "{{ $labels.gpu }} and {{ $labels.nic }} of {{ $labels.node }} carry less than their links can: "
        "gdr estimate --measured says more",
        "only where a benchmark was exported; the limit is the lower bound of gdr estimate",
    ),
    _alert(
        "GPUDirectRDMANotJudged",
        "time() - gdr_last_run_timestamp_seconds > 3600",
        "5m",
        "warning",
        "The metrics of {{ $labels.node }} are over an hour old: see systemctl status gdrkit-export",
        "what they say may have changed since",
    ),
    _alert(
        "GPUDirectRDMAFleetBlocked",
        'gdr_fleet_nodes{standing=~"blocked|unreachable|unreadable"} > 0',
        "0m",
        "warning",
        "{{ $value }} nodes are {{ $labels.standing }}: gdr fleet doctor --run last groups them by cause",
        "for the metrics of gdr fleet doctor",
    ),
)  # fmt: skip


def alerts(request: ConfigRequest) -> ConfigOutput:
    """Alert rules, as a file for Prometheus or as an object for its operator."""
    groups = Field("groups", Items(((Field("name", "gdrkit"), Field("rules", Items(ALERTS))),)))
    if request.form == "prometheusrule":
        metadata: tuple[Field, ...] = (Field("name", "gdrkit"),)
        document: tuple[Field, ...] = (
            Field("apiVersion", "monitoring.coreos.com/v1"),
            Field("kind", "PrometheusRule"),
            Field("metadata", metadata),
            Field("spec", (groups,)),
        )
        use = (
            "kubectl apply -f gdrkit-rules.yaml, with the namespace and labels that your Prometheus selects"
        )
    else:
        document = (groups,)
        use = "name it in rule_files of prometheus.yml; promtool check rules gdrkit-rules.yaml"
    return ConfigOutput(
        kind="alerts",
        form=request.form or ALERT_FORMS[0],
        title="alert rules on the metrics of gdr export",
        file="gdrkit-rules.yaml",
        use=use,
        lines=lines(document),
        notes=("severities and times are a start: change them to what your site does about an alert",),
    )
