"""Machines that are declared: OpenShift, Talos, cloud-init."""

from __future__ import annotations

from base64 import b64encode

from msgspec import Struct

from gdrkit.facts.kernel import architecture
from gdrkit.repair.config.boot_files import (
    acs_unit_text,
    impossible,
    needs_passthrough,
    never_peermem,
    redirecting,
    state_of_dmabuf,
)
from gdrkit.repair.config.nccl_env import conf_text
from gdrkit.repair.config.output import ConfigOutput, ConfigRefused, OutputLine
from gdrkit.repair.config.request import ConfigRequest, PathChoice, ask, choose, choose_declared
from gdrkit.repair.config.yaml_writer import Field, Items, Literal, Value, documents, lines
from gdrkit.repair.platforms import file_contents
from gdrkit.verdict.path_state import State

IGNITION = "3.2.0"
"""Read by every OpenShift from 4.7 on, which translates it if need be. Source: Butane's variants."""
BUTANE = "4.13.0"
"""The newest stable variant of butane 0.18.0, with which the texts were tried. It makes Ignition 3.2.0."""
PASSTHROUGH = {"aarch64": "iommu.passthrough=1"}
"""iommu=pt is for x86 alone: Linux Documentation/admin-guide/kernel-parameters.txt, iommu= and
iommu.passthrough=."""
CRIO = "/etc/crio/crio.conf.d/90-gdrkit-memlock.conf"


class DeclaredFile(Struct, frozen=True):
    """A file on the host."""

    path: str
    content: str
    why: str


class DeclaredHost(Struct, frozen=True):
    """What a declared host needs beside its operators."""

    files: tuple[DeclaredFile, ...]
    unit: str  # the text of gdrkit-acs.service; "" where no bridge redirects
    kernel_arguments: tuple[tuple[str, str], ...]
    assumed: tuple[str, ...]


def crio_limits() -> str:
    """A drop-in for CRI-O: crio.conf(5), crio.runtime.default_ulimits. -1 is unlimited."""
    return f'{file_contents.HEAD}\n[crio.runtime]\ndefault_ulimits = ["memlock=-1:-1"]\n'


def _unit(request: ConfigRequest) -> str:
    bridges = ask(request, redirecting)
    return acs_unit_text(request, tuple(bridges)) if bridges else ""


def _arguments(request: ConfigRequest) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    translating = needs_passthrough(request)
    if translating is False:
        return (), ()
    why = "the IOMMU leaves the addresses of devices as they are: peer traffic needs no detour"
    assumed = () if translating else ("x86 with an IOMMU that translates; without one it changes nothing",)
    return ((PASSTHROUGH.get(ask(request, architecture) or "", "iommu=pt"), why),), assumed


def _openshift_host(request: ConfigRequest) -> DeclaredHost:
    arguments, assumed = _arguments(request)
    why = "containers lock memory without limit: registered memory is pinned, the default is a few MiB"
    return DeclaredHost((DeclaredFile(CRIO, crio_limits(), why),), _unit(request), arguments, assumed)


OPERATOR_LOADS = (
    "nvidia-peermem is loaded by the GPU Operator's container, whose modules no modules-load.d on the host "
    "can find: gdr config gpu-operator --path peermem"
)


def _notes(choice: PathChoice) -> tuple[str, ...]:
    return (*choice.notes, *((OPERATOR_LOADS,) if choice.path == "peermem" else ()))


def machineconfig(request: ConfigRequest) -> ConfigOutput | ConfigRefused:
    """An OpenShift MachineConfig, whose files are data: URLs as Ignition has them."""
    choice, host = choose_declared(request), _openshift_host(request)
    config = [
        Field("ignition", (Field("version", IGNITION, "every OpenShift from 4.7 on reads it"),)),
        Field("storage", (Field("files", Items(tuple(_ignition_file(f) for f in host.files))),)),
    ]
    if host.unit:
        config.append(Field("systemd", (Field("units", Items((_unit_fields(host.unit),))),)))
    spec = [Field("config", tuple(config))]
    if host.kernel_arguments:
        spec.append(_kernel_arguments("kernelArguments", host))
    return ConfigOutput(
        kind="machineconfig",
        form="machineconfig",
        title=f"a MachineConfig for the pool {request.role}",
        file="machineconfig.yaml",
        use="oc apply -f machineconfig.yaml; the pool's nodes reboot one after the other",
        lines=lines(
            (
                Field("apiVersion", "machineconfiguration.openshift.io/v1"),
                Field("kind", "MachineConfig"),
                Field("metadata", (Field("name", f"99-{request.role}-gdrkit", WHY_99), _role(request))),
                Field("spec", tuple(spec)),
            )
        ),
        assumed=host.assumed,
        notes=_notes(choice),
    )


WHY_99 = "applied after the platform's own, which start with 00 and 01"


def _role(request: ConfigRequest) -> Field:
    why = "the MachineConfigPool that takes it: oc get machineconfigpool must show it"
    return Field("labels", (Field("machineconfiguration.openshift.io/role", request.role, why),))


def _ignition_file(file: DeclaredFile) -> tuple[Field, ...]:
    source = "data:text/plain;charset=utf-8;base64," + b64encode(file.content.encode()).decode()
    return (
        Field("path", file.path, file.why),
        Field("mode", 420, "0644 in octal; written in decimal, which every YAML reader takes for the same"),
        Field("overwrite", True, "a file that is there already is replaced"),
        Field("contents", (Field("source", source, f"the text {_shown(file)}"),)),
    )


def _shown(file: DeclaredFile) -> str:
    return "; ".join(line for line in file.content.split("\n") if line and not line.startswith("#"))


def _unit_fields(text: str) -> tuple[Field, ...]:
    name = file_contents.ACS_UNIT.rpartition("/")[2]
    why = "clears ACS redirection on this node's bridges: only for a pool of machines of the same build"
    return (Field("name", name, why), Field("enabled", True), Field("contents", Literal(text)))


def _kernel_arguments(name: str, host: DeclaredHost) -> Field:
    why = "; ".join(why for _, why in host.kernel_arguments)
    return Field(name, Items(tuple(word for word, _ in host.kernel_arguments)), why)


def butane(request: ConfigRequest) -> ConfigOutput | ConfigRefused:
    """The same for butane, which makes a MachineConfig of it; files stand there as they are."""
    choice, host = choose_declared(request), _openshift_host(request)
    files = tuple(
        (
            Field("path", file.path, file.why),
            Field("mode", 420, "0644 in octal"),
            Field("overwrite", True, "a file that is there already is replaced"),
            Field("contents", (Field("inline", Literal(file.content), "Butane's; Ignition has no inline"),)),
        )
        for file in host.files
    )
    top = [
        Field("variant", "openshift", "makes a MachineConfig"),
        Field("version", BUTANE, "of the Butane specification; newer OpenShifts take its output"),
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
TALOS_MODULES = (
    ("nvidia", "the GPU's driver, from the extension (gdr config talos --form schematic)"),
    ("nvidia_uvm", "CUDA needs it"),
    ("nvidia_drm", "the GPU's device nodes"),
    ("nvidia_modeset", "nvidia_drm needs it"),
    ("mlx5_core", "the NIC's driver; a module in Talos's kernel"),
    ("mlx5_ib", "RDMA over it, and registering dma-bufs"),
    ("ib_uverbs", "/dev/infiniband, for programs"),
)
"""Source: siderolabs/extensions and siderolabs/pkgs, the NVIDIA and kernel recipes."""
NO_PEERMEM = (
    "nvidia_peermem cannot work on Talos: its kernel has no peer-memory API, no extension brings an OFED, "
    "and modules of one's own are refused (module.sig_enforce=1)"
)


def talos(request: ConfigRequest) -> ConfigOutput | ConfigRefused:
    """Talos: modules to load, or the schematic of an image with the open driver. dma-buf alone."""
    if request.path == "peermem":
        return ConfigRefused(kind="talos", why=NO_PEERMEM, instead="dma-buf: gdr config talos")
    form = request.form or "machine"
    title, file, use = _TALOS[form]
    body = {"machine": _talos_machine, "documents": _talos_documents, "schematic": _talos_schematic}
    return ConfigOutput(
        kind="talos", form=form, title=title, file=file, use=use, lines=body[form](),
        notes=(NO_PEERMEM, *_impossible_here(request)),
    )  # fmt: skip


def _impossible_here(request: ConfigRequest) -> tuple[str, ...]:
    if state_of_dmabuf(request) is State.IMPOSSIBLE:
        return ("dma-buf is impossible on this node's hardware",)
    return ()


_TALOS = {
    "machine": (
        "kernel modules for GPUDirect RDMA on Talos up to 1.13 (1.14 still reads it: --form documents)",
        "talos-patch.yaml", "talosctl patch machineconfig --patch @talos-patch.yaml",
    ),
    "documents": (
        "kernel modules for GPUDirect RDMA on Talos 1.14 and newer",
        "talos-modules.yaml", "talosctl patch machineconfig --patch @talos-modules.yaml",
    ),
    "schematic": (
        "an image of Talos with NVIDIA's open kernel modules",
        "schematic.yaml",
        "curl -X POST --data-binary @schematic.yaml https://factory.talos.dev/schematics; "
        "install factory.talos.dev/metal-installer/<id>:<Talos version>",
    ),
}  # fmt: skip


def _talos_machine() -> tuple[OutputLine, ...]:
    modules: tuple[Value, ...] = tuple((Field("name", name, why),) for name, why in TALOS_MODULES)
    return lines((Field("machine", (Field("kernel", (Field("modules", Items(modules)),)),)),))


def _talos_documents() -> tuple[OutputLine, ...]:
    return documents(
        *(
            (Field("apiVersion", "v1alpha1"), Field("kind", "KernelModuleConfig"), Field("name", name, why))
            for name, why in TALOS_MODULES
        )
    )


def _talos_schematic() -> tuple[OutputLine, ...]:
    extensions = Items(
        (
            "siderolabs/nvidia-open-gpu-kernel-modules-lts",
            "siderolabs/nvidia-container-toolkit-lts",
        )
    )
    why = "both of one branch; -production for the newer driver. nonfree-kmod-nvidia has no dma-buf"
    system = Field("systemExtensions", (Field("officialExtensions", extensions, why),))
    return lines((Field("customization", (system,)),))


# -- cloud-init --------------------------------------------------------------------------------------


def cloud_init(request: ConfigRequest) -> ConfigOutput | ConfigRefused:
    """User data for cloud-init: limits, NCCL's settings, and what peermem and ACS ask for."""
    choice = choose(request)
    if never_peermem(request, choice.path):
        return impossible("cloud-init", request)
    files = [
        DeclaredFile(
            file_contents.LIMITS,
            file_contents.memlock_limits(),
            "logins lock memory without limit: RDMA pins it",
        ),
        DeclaredFile(
            file_contents.SYSTEMD_LIMITS,
            file_contents.manager_limits(),
            "so do services, and jobs that they start",
        ),
    ]
    commands: list[tuple[str, ...]] = [("systemctl", "daemon-reexec")]
    if choice.path == "peermem":
        why = "nvidia-peermem at each boot"
        files.append(
            DeclaredFile(
                file_contents.MODULES_LOAD, file_contents.modules_load(file_contents.PEERMEM_MODULE), why
            )
        )
        commands.append(("modprobe", file_contents.PEERMEM_MODULE))
    if conf := conf_text(request):
        files.append(
            DeclaredFile(file_contents.NCCL_CONF, conf, "NCCL's settings: gdr config nccl-env tells why")
        )
    if unit := _unit(request):
        files.append(
            DeclaredFile(file_contents.ACS_UNIT, unit, "clears ACS redirection on this node's bridges")
        )
        commands.append(("systemctl", "enable", "--now", "gdrkit-acs.service"))
    written = Items(tuple(_cloud_file(file) for file in files))
    run = Items(tuple(" ".join(command) for command in commands))
    return ConfigOutput(
        kind="cloud-init",
        form="user-data",
        title="user data for cloud-init",
        file="user-data.yaml",
        use="give it to the machine as user data; cloud-init schema -c user-data.yaml checks it",
        lead="#cloud-config",
        lines=lines(
            (
                Field("write_files", written, "written early at first boot"),
                Field("runcmd", run, "once, at the end of the first boot: the files count from then on"),
            )
        ),
        assumed=choice.assumed,
        notes=(*choice.notes, "the driver is not installed by this: the image must have it"),
    )


def _cloud_file(file: DeclaredFile) -> tuple[Field, ...]:
    return (
        Field("path", file.path, file.why),
        Field("permissions", "0644", "a string: cloud-init reads it as octal"),
        Field("content", Literal(file.content)),
    )
