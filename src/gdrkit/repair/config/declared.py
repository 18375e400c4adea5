"""Configuration of declared hosts: OpenShift, Talos, cloud-init."""

from __future__ import annotations

from base64 import b64encode

from msgspec import Struct
from msgspec.structs import replace

from gdrkit.facts.kernel import architecture
from gdrkit.facts.kubernetes import OPENSHIFT
from gdrkit.facts.passthrough import PASSTHROUGH, passthrough_costs_cuda
from gdrkit.facts.talos import module_entries
from gdrkit.repair.config.boot_files import (
    impossible,
    needs_passthrough,
    never_peermem,
    pairs_redirected,
    state_of_dmabuf,
)
from gdrkit.repair.config.nccl_env import conf_text
from gdrkit.repair.config.output import TARGET, ConfigOutput, ConfigRefused
from gdrkit.repair.config.request import ConfigRequest, PathChoice, ask, choose, choose_declared
from gdrkit.repair.config.template import filled
from gdrkit.repair.config.yaml_writer import Field, Items, Literal, lines
from gdrkit.repair.platforms import file_contents
from gdrkit.repair.remedies.clear_acs_redirect import acs_unit
from gdrkit.verdict.path_state import State

IGNITION = "3.2.0"
"""OpenShift 4.7 and newer read it, and translate it if necessary. Source: Butane's variants."""
BUTANE = "4.13.0"
"""The newest stable variant of butane 0.18.0, which the tests use. It produces Ignition 3.2.0."""
CRIO = "/etc/crio/crio.conf.d/90-gdrkit-memlock.conf"


class DeclaredFile(Struct, frozen=True):
    """A file on the host."""

    path: str
    content: str
    why: str


class DeclaredHost(Struct, frozen=True):
    """What a declared host needs in addition to its operators."""

    files: tuple[DeclaredFile, ...]
    unit: str  # the text of gdrkit-acs.service; "" if no bridge redirects
    kernel_arguments: tuple[tuple[str, str], ...]
    assumed: tuple[str, ...]


def crio_limits() -> str:
    """A drop-in for CRI-O: crio.conf(5), crio.runtime.default_ulimits. -1 is unlimited."""
    return f'{file_contents.HEAD}\n[crio.runtime]\ndefault_ulimits = ["memlock=-1:-1"]\n'


def _unit(request: ConfigRequest) -> str:
    bridges = ask(request, pairs_redirected)
    return acs_unit(request.node, bridges) if bridges else ""


def _arguments(request: ConfigRequest) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    translating = needs_passthrough(request)
    if translating is False or ask(request, passthrough_costs_cuda):
        return (), ()
    why = "the IOMMU does not translate the devices' addresses: peer traffic can go directly"
    assumed = (
        () if translating else ("x86 with a translating IOMMU; without one, the argument has no effect",)
    )
    return ((PASSTHROUGH.get(ask(request, architecture) or "", PASSTHROUGH["x86_64"]), why),), assumed


def _openshift_host(request: ConfigRequest) -> DeclaredHost:
    why = "no memlock limit in containers: RDMA pins registered memory, and the default is a few MiB"
    limits = DeclaredFile(CRIO, crio_limits(), why)
    if request.argument:
        return DeclaredHost((), "", ((request.argument, "added to the kernel's command line"),), ())
    if request.part:  # a step is shown, applied and undone alone
        acs = request.part == "acs"
        return DeclaredHost(() if acs else (limits,), _unit(request) if acs else "", (), ())
    arguments, assumed = _arguments(request)
    return DeclaredHost((limits,), _unit(request), arguments, assumed)


OPERATOR_LOADS = (
    "the GPU Operator's container must load nvidia-peermem, as modules-load.d on the host cannot find its "
    "modules: gdr config gpu-operator --path peermem"
)


def _notes(choice: PathChoice) -> tuple[str, ...]:
    return (*choice.notes, *((OPERATOR_LOADS,) if choice.path == "peermem" else ()))


OPENSHIFT_NODES = OPENSHIFT | {"rhel", "fedora/coreos", "fedora-coreos", "scos", "centos"}
"""Nodes that may be of OpenShift or of OKD, as `Distribution.systems`: until OpenShift 4.18 workers could be
plain RHEL, and OKD has Fedora CoreOS or CentOS Stream CoreOS."""
WHY_99 = "applied after the platform's own, which start with 00 and 01"


def machineconfig(request: ConfigRequest) -> ConfigOutput | ConfigRefused:
    """An OpenShift MachineConfig. Its files are data: URLs, as Ignition requires."""
    choice, host = choose_declared(request), _openshift_host(request)
    config = [Field("ignition", (Field("version", IGNITION, "supported by OpenShift 4.7 and newer"),))]
    if host.files:
        files = Items(tuple(_ignition_file(file) for file in host.files))
        config.append(Field("storage", (Field("files", files),)))
    if host.unit:
        config.append(Field("systemd", (Field("units", Items((_unit_fields(host.unit),))),)))
    name = "-".join(filter(None, ("99", request.role, "gdrkit", request.part)))
    file = f"machineconfig{f'-{request.part}' if request.part else ''}.yaml"
    spec = [Field("config", tuple(config))]
    if host.kernel_arguments:
        spec.append(_kernel_arguments("kernelArguments", host))
    return ConfigOutput(
        kind="machineconfig",
        form="machineconfig",
        title=f"MachineConfig for the pool {request.role}",
        file=file,
        use=f"oc apply -f {file}; the pool's nodes then reboot one after the other",
        lines=lines(
            (
                Field("apiVersion", "machineconfiguration.openshift.io/v1"),
                Field("kind", "MachineConfig"),
                Field("metadata", (Field("name", name, WHY_99), _role(request))),
                Field("spec", tuple(spec)),
            )
        ),
        assumed=host.assumed,
        notes=() if request.part else _notes(choice),
        always_explained=bool(request.part),
    )


def _role(request: ConfigRequest) -> Field:
    why = "the MachineConfigPool that it applies to, as listed by oc get machineconfigpool"
    return Field("labels", (Field("machineconfiguration.openshift.io/role", request.role, why),))


def _ignition_file(file: DeclaredFile) -> tuple[Field, ...]:
    source = "data:text/plain;charset=utf-8;base64," + b64encode(file.content.encode()).decode()
    return (
        Field("path", file.path, file.why),
        Field("mode", 420, "0644 in octal; written in decimal, on which all YAML readers agree"),
        Field("overwrite", True, "replace an existing file"),
        Field("contents", (Field("source", source, f"base64 of: {_without_comments(file)}"),)),
    )


def _without_comments(file: DeclaredFile) -> str:
    return "; ".join(line for line in file.content.split("\n") if line and not line.startswith("#"))


def _unit_fields(text: str) -> tuple[Field, ...]:
    name = file_contents.ACS_UNIT.rpartition("/")[2]
    why = "clears ACS redirection on this node's bridges: only for pools of identical machines"
    return (Field("name", name, why), Field("enabled", True), Field("contents", Literal(text)))


def _kernel_arguments(name: str, host: DeclaredHost) -> Field:
    why = "; ".join(why for _, why in host.kernel_arguments)
    return Field(name, Items(tuple(word for word, _ in host.kernel_arguments)), why)


def butane(request: ConfigRequest) -> ConfigOutput | ConfigRefused:
    """Input for butane, which converts it to the MachineConfig. Files are in plain text."""
    choice, host = choose_declared(request), _openshift_host(request)
    files = tuple(
        (
            Field("path", file.path, file.why),
            Field("mode", 420, "0644 in octal"),
            Field("overwrite", True, "replace an existing file"),
            Field(
                "contents",
                (Field("inline", Literal(file.content), "only Butane has inline; Ignition does not"),),
            ),
        )
        for file in host.files
    )
    top = [
        Field("variant", "openshift", "butane produces a MachineConfig"),
        Field(
            "version",
            BUTANE,
            "version of the Butane specification; newer OpenShift versions accept its output",
        ),
        Field("metadata", (Field("name", f"99-{request.role}-gdrkit", WHY_99), _role(request))),
        Field("storage", (Field("files", Items(files)),)),
    ]
    if host.unit:
        top.append(Field("systemd", (Field("units", Items((_unit_fields(host.unit),))),)))
    if host.kernel_arguments:
        top.append(Field("openshift", (_kernel_arguments("kernel_arguments", host),)))
    return ConfigOutput(
        kind="butane",
        form="openshift",
        title=f"Butane for the pool {request.role}",
        file="gdrkit.bu",
        use="butane --strict gdrkit.bu | oc apply -f -",
        lines=lines(tuple(top)),
        assumed=host.assumed,
        notes=_notes(choice),
    )


# -- Talos -------------------------------------------------------------------------------------------

TALOS_FORMS = ("machine", "documents", "schematic")
NO_PEERMEM = (
    "nvidia_peermem cannot work on Talos: its kernel has no peer-memory API, no extension provides an OFED, "
    "and the kernel rejects other modules (module.sig_enforce=1)"
)


_APPENDED = (
    "a patch adds to the list of modules: leave out those that your configuration has, for the last entry "
    "of a name decides its parameters"
)
"""Sources: siderolabs/talos pkg/machinery/config/merge/merge.go, Merge(), which joins slices;
internal/app/machined/pkg/controllers/runtime/kernel_module_config.go, Run()."""


def talos(request: ConfigRequest) -> ConfigOutput | ConfigRefused:
    """Talos: modules to load, or the schematic of an image with the open driver. For dma-buf only."""
    if request.path == "peermem":
        return ConfigRefused(kind="talos", why=NO_PEERMEM, instead=f"use dma-buf: gdr config talos {TARGET}")
    found = filled("talos", request.form or TALOS_FORMS[0], request)
    notes = (NO_PEERMEM, *_impossible_here(request))
    if found.form != "machine":
        return replace(found, notes=notes)
    entries = ask(request, module_entries)
    if entries is None:
        return replace(found, notes=(_APPENDED, *notes))
    listed = {f"- name: {entry.name}" for entry in entries}
    left = tuple(line for line in found.lines if line.text.strip() not in listed)
    if not any("- name: " in line.text for line in left):
        return ConfigRefused(
            kind="talos", why="its machine configuration already loads all of these modules"
        )
    return replace(found, lines=left, notes=notes)


def _impossible_here(request: ConfigRequest) -> tuple[str, ...]:
    if state_of_dmabuf(request) is State.IMPOSSIBLE:
        return ("this node's hardware does not support dma-buf",)
    return ()


# -- cloud-init --------------------------------------------------------------------------------------


def cloud_init(request: ConfigRequest) -> ConfigOutput | ConfigRefused:
    """User data for cloud-init: limits, NCCL's settings, and what peermem and ACS need."""
    choice = choose(request)
    if never_peermem(request, choice.path):
        return impossible("cloud-init", request)
    files, commands = _cloud_parts(request, choice)
    written = Items(tuple(_cloud_file(file) for file in files))
    run = Items(tuple(" ".join(command) for command in commands))
    return ConfigOutput(
        kind="cloud-init",
        form="user-data",
        title="user data for cloud-init",
        file="user-data.yaml",
        use="pass it to the machine as user data; to validate it: cloud-init schema -c user-data.yaml",
        lead="#cloud-config",
        lines=lines(
            (
                Field("write_files", written, "written early in the first boot"),
                Field("runcmd", run, "run once at the end of the first boot, so that the files take effect"),
            )
        ),
        assumed=choice.assumed,
        notes=(*choice.notes, "this does not install the driver: the image must contain it"),
    )


def _cloud_parts(
    request: ConfigRequest, choice: PathChoice
) -> tuple[list[DeclaredFile], list[tuple[str, ...]]]:
    """The files to write at first boot, and the commands to run after that."""
    files = [
        DeclaredFile(
            file_contents.LIMITS,
            file_contents.memlock_limits(),
            "no memlock limit for logins: RDMA pins memory",
        ),
        DeclaredFile(
            file_contents.SYSTEMD_LIMITS,
            file_contents.manager_limits(),
            "the same for services, and the jobs that they start",
        ),
    ]
    commands: list[tuple[str, ...]] = [("systemctl", "daemon-reexec")]
    if choice.path == "peermem":
        content = file_contents.modules_load(file_contents.PEERMEM_MODULE)
        files.append(DeclaredFile(file_contents.MODULES_LOAD, content, "loads nvidia-peermem at boot"))
        commands.append(("modprobe", file_contents.PEERMEM_MODULE))
    if conf := conf_text(request):
        files.append(
            DeclaredFile(
                file_contents.NCCL_CONF, conf, "settings for NCCL; gdr config nccl-env explains them"
            )
        )
    if unit := _unit(request):
        files.append(
            DeclaredFile(file_contents.ACS_UNIT, unit, "clears ACS redirection on this node's bridges")
        )
        commands.append(("systemctl", "enable", "--now", "gdrkit-acs.service"))
    return files, commands


def _cloud_file(file: DeclaredFile) -> tuple[Field, ...]:
    return (
        Field("path", file.path, file.why),
        Field("permissions", "0644", "a string, which cloud-init reads as octal"),
        Field("content", Literal(file.content)),
    )
