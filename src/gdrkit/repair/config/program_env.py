"""The environment of programs beside NCCL: which variables a node needs, and which to leave alone.

Source of each variable: the program at the tags that its folder in programs/ names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from gdrkit.programs.mooncake.consumer import MOONCAKE, SWITCH, SWITCH_SINCE, has_switch
from gdrkit.programs.names import NAMES
from gdrkit.repair.config.env_forms import EnvSetting, env_lines
from gdrkit.repair.config.output import TARGET, ConfigOutput, ConfigRefused
from gdrkit.repair.config.request import ConfigRequest, ask, choose, failed_subjects, known_ports

FORMS = ("shell", "kubernetes", "slurm")
_FORMS = {
    "shell": ("program-env.sh", "source it on every rank: . program-env.sh", ""),
    "kubernetes": ("env.yaml", "merge it into spec.containers[].env of each worker's pod", ""),
    "slurm": (
        "/etc/slurm/task_prolog.sh",
        "set TaskProlog= in slurm.conf to it; Slurm sets each printed `export NAME=value` for the task",
        "#!/bin/sh",
    ),
}
"""File, use, and first line of each form. Source of the last: slurm.conf(5), TaskProlog."""


def program_env(request: ConfigRequest) -> ConfigOutput | ConfigRefused:
    """The environment for the program of --consumer."""
    known = ", ".join(sorted(_SETTINGS))
    if request.consumer == NAMES[0]:
        return ConfigRefused(
            kind="program-env",
            why="NCCL has a kind of its own",
            instead=f"gdr config nccl-env {TARGET}; or --consumer with one of {known}",
        )
    if request.consumer not in _SETTINGS:
        return ConfigRefused(
            kind="program-env",
            why=f"no variable of {request.consumer} decides about the direct path",
            instead=f"--consumer with one of {known}",
        )
    form = request.form or "shell"
    choice = choose(request)
    file, use, lead = _FORMS[form]
    return ConfigOutput(
        kind="program-env",
        form=form,
        title=f"environment of {request.consumer}",
        file=file,
        use=use,
        lead=lead,
        lines=env_lines(tuple(_SETTINGS[request.consumer](request)), form),
        assumed=() if request.node is not None else ("no node is given: GPUs and NICs are unknown",),
        notes=choice.notes,
        always_explained=True,
    )


def _nvshmem(request: ConfigRequest) -> Iterator[EnvSetting]:
    yield EnvSetting(
        "NVSHMEM_IB_ENABLE_IBGDA",
        "",
        "1 selects IBGDA, where GPU kernels start transfers; DeepEP 1 sets it itself",
    )
    yield _prefix(request)
    name = "NVSHMEM_IBGDA_FORCE_NIC_BUF_MEMTYPE"
    if _failed(request, "gdaki-kernel-too-old"):
        why = "the NIC's queues cannot be in GPU memory on this node (gdaki-kernel-too-old)"
        yield EnvSetting(name, "hostmem", why)
    else:
        yield EnvSetting(name, "", "the queues are in GPU memory by default; hostmem is slower")
    why = "the CPU rings the doorbell where the GPU may not; gpu would end the program instead"
    yield EnvSetting("NVSHMEM_IBGDA_NIC_HANDLER", "", why)
    why = "dma-buf is tried first, then registration by address"
    yield EnvSetting("NVSHMEM_IB_DISABLE_DMABUF", "", why)


def _prefix(request: ConfigRequest) -> EnvSetting:
    """NVSHMEM takes devices whose name has the prefix in it, by default mlx5."""
    name = "NVSHMEM_HCA_PREFIX"
    devices = sorted({port.device for port in known_ports(request)})
    if not devices:
        return EnvSetting(name, "", "mlx5 by default; a renamed ConnectX needs the beginning of its name")
    if any("mlx5" in device for device in devices):
        return EnvSetting(name, "", "the active devices have mlx5 in their names, which is the default")
    letters = _letters(devices)
    if not letters:
        return EnvSetting(name, "", f"no prefix fits all active devices: {', '.join(devices)}")
    why = f"NVSHMEM looks for mlx5 in the names of devices, and the active ones are {', '.join(devices)}"
    return EnvSetting(name, letters, why)


def _letters(devices: list[str]) -> str:
    """What all names begin with, up to the first digit."""
    first, last = devices[0], devices[-1]  # of sorted names, these differ most
    common = ""
    for one, other in zip(first, last, strict=False):
        if one != other or one.isdigit():
            break
        common += one
    return common


MERGE = EnvSetting(
    "NCCL_IB_MERGE_NICS", "0", "NCCL joins the ports of one NIC, and GIN does not work with a joined device"
)


def _deepep(request: ConfigRequest) -> Iterator[EnvSetting]:
    name, ports = "EP_NIC_NAME", known_ports(request)
    devices = [port.device for port in ports]
    if not ports or "mlx5_0" in devices:
        yield EnvSetting(name, "", "DeepEP 2 asks mlx5_0 by default")
    else:
        yield EnvSetting(name, devices[0], "DeepEP 2 asks mlx5_0 by default, which is not active here")
    why = "DeepEP 1 sets it, NVSHMEM_QP_DEPTH excepted, over what the job has"
    yield EnvSetting("NVSHMEM_IB_ENABLE_IBGDA", "", why)
    yield MERGE


def _gin(request: ConfigRequest) -> Iterator[EnvSetting]:
    del request
    yield MERGE
    why = "GDAKI first, then the proxy of the CPU; 2 and 3 force one of the two for a comparison"
    yield EnvSetting("NCCL_GIN_TYPE", "", why)
    yield EnvSetting("NCCL_CROSS_NIC", "", "0 limits GIN to the NICs of one rail")
    why = "0 turns off the memory that GIN needs; some frameworks set it"
    yield EnvSetting("NCCL_CUMEM_ENABLE", "", why)
    yield EnvSetting("DOCA_GPUNETIO_LOG", "", "4 shows in the job why GDAKI is not used")


def _mnnvl(request: ConfigRequest) -> Iterator[EnvSetting]:
    del request
    why = "older vLLM, SGLang and verl set 0, which turns NVLink between hosts off"
    yield EnvSetting("NCCL_CUMEM_ENABLE", "1", why)
    yield EnvSetting("NCCL_MNNVL_ENABLE", "", "NCCL finds out by itself; 0 turns NVLink between hosts off")
    why = "UCX uses NVLink between hosts where it can (try); n turns it off"
    yield EnvSetting("UCX_CUDA_IPC_ENABLE_MNNVL", "", why)
    yield EnvSetting("NVSHMEM_DISABLE_MNNVL", "", "1 turns it off for NVSHMEM")


def _ucx(request: ConfigRequest) -> Iterator[EnvSetting]:
    del request
    why = "a list without cuda (cuda_copy) makes GPU memory host memory, one without rc or ib has no RDMA"
    yield EnvSetting("UCX_TLS", "", why)
    why = "a list leaves all other devices out; each has its port: mlx5_0:1"
    yield EnvSetting("UCX_NET_DEVICES", "", why)
    why = "try by default; y makes it an error where UCX would copy through host memory without a word"
    yield EnvSetting("UCX_IB_GPU_DIRECT_RDMA", "", why)
    yield EnvSetting("UCX_CUDA_COPY_DMABUF", "", "try by default, with registration by address after it")
    why = "y prints which path GPU memory takes; gdr prove log --log FILE and gdr explain read the tables"
    yield EnvSetting("UCX_PROTO_INFO", "", why)


def _nixl(request: ConfigRequest) -> Iterator[EnvSetting]:
    yield from _ucx(request)
    yield _allocator("UCX may send such memory over TCP")


def _allocator(cost: str) -> EnvSetting:
    why = f"with expandable_segments:True, a PyTorch before May 2025 makes no memory for RDMA: {cost}"
    return EnvSetting("PYTORCH_CUDA_ALLOC_CONF", "", why)


def _mooncake(request: ConfigRequest) -> Iterator[EnvSetting]:
    """The one way that it tries is chosen here; releases without the switch have it from their build."""
    path = choose(request).path
    since = ".".join(map(str, SWITCH_SINCE))
    copies = ask(request, MOONCAKE.copies) or ()
    old = [copy.version for copy in copies if not has_switch(copy.version)]
    if old:
        why = f"Mooncake {old[0]} has it from its build; releases from {since} on read it"
        yield EnvSetting(SWITCH, "", why)
    else:
        why = f"Mooncake tries one way only: 0 is dma-buf, 1 nvidia-peermem; read from {since} on"
        yield EnvSetting(SWITCH, "0" if path == "dmabuf" else "1", why)
    yield _allocator("registration fails")
    yield EnvSetting("MC_FORCE_TCP", "", "true leaves RDMA out")


def _failed(request: ConfigRequest, code: str) -> bool:
    return bool(ask(request, lambda node: failed_subjects(node, code)))


_SETTINGS: Mapping[str, Callable[[ConfigRequest], Iterator[EnvSetting]]] = {
    "nvshmem": _nvshmem,
    "deepep": _deepep,
    "nccl-gin": _gin,
    "mnnvl": _mnnvl,
    "ucx": _ucx,
    "nixl": _nixl,
    "mooncake": _mooncake,
}
