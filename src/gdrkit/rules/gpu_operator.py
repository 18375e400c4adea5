"""Why the GPU Operator's nvidia-peermem container does not come up."""

from __future__ import annotations

from gdrkit.evidence import Confidence, EvidenceMissing, Missing, MissingReason
from gdrkit.facts.driver import PEER_API, peermem_linkage
from gdrkit.facts.driver_files import CONTAINER
from gdrkit.facts.driver_log import last_line, last_line_if_any
from gdrkit.facts.kubernetes import deploys_ofed, gpu_operator, has_gpu_operator
from gdrkit.facts.modules import PEERMEM, is_loaded
from gdrkit.facts.peermem_container import ContainerEvent, ContainerEventKind, events, last_attempt
from gdrkit.node import Node, if_missing
from gdrkit.rules.deciding_command import DMESG, DecidingCommand
from gdrkit.rules.rule import ADDRESS, Failed, Layer, NotApplicable, Outcome, Passed, rule, the_node

DISAGREES = r"disagrees about version of symbol (?:ib_(?:un)?register_peer_memory_client|nvidia_p2p_)"
ABOUT_PEERMEM = r"nvidia[-_]peermem.*(?:disagrees|Unknown symbol|ERROR|error|invalid)|Loading of .*rejected"
OFED_READY = "run/mellanox/drivers/.driver-ready"
PODS = "kubectl logs -n gpu-operator -l app=nvidia-driver-daemonset -c nvidia-peermem-ctr --tail=-1"
REFERENCE = "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-operator-rdma.html"


def attempt(node: Node) -> tuple[ContainerEvent, ...] | NotApplicable:
    """What the container said since it last started over, or why there is nothing to judge.

    Raises EvidenceMissing on a node of the operator whose log did not come along.
    """
    if if_missing(
        False, is_loaded, node, PEERMEM
    ):  # if not known, the container's own words are all there is
        return NotApplicable("nvidia_peermem is loaded, whatever the container says")
    settings = gpu_operator(node)
    if settings is not None and settings.rdma_enabled is False:
        return NotApplicable("rdma.enabled is false: there is no such container")
    try:
        return last_attempt(events(node))
    except EvidenceMissing:
        if not has_gpu_operator(node):
            return NotApplicable("no sign of the GPU Operator")
        raise


def kinds(said: tuple[ContainerEvent, ...]) -> frozenset[ContainerEventKind]:
    return frozenset(event.kind for event in said)


def at(said: tuple[ContainerEvent, ...], kind: ContainerEventKind) -> ContainerEvent:
    """The last line of a kind."""
    return next(event for event in reversed(said) if event.kind is kind)


@rule(
    "operator-stub",
    Layer.APPLICATION,
    per=the_node,
    takes=(ADDRESS,),
    reported_by=(
        DecidingCommand(DMESG, "nothing of nvidia_peermem; its container: `Invalid argument`"),
        DecidingCommand(PODS, "`Invalid argument`"),
    ),
    cost="The container restarts for ever, and the peermem path stays closed.",
    references=(REFERENCE,),
)
def operator_stub(node: Node, _: str) -> Outcome:
    """The GPU Operator built an nvidia-peermem that is a stub.

    Cost: CrashLoopBackOff. dma-buf does not need this container.

    How to tell: The container nvidia-peermem-ctr logs `could not insert 'nvidia_peermem': Invalid argument`
    and `failed to load nvidia-peermem module`, and the kernel's log is silent about it.

    What to do: dma-buf: driver.kernelModuleType=open and driver.rdma.enabled=false, by a merge patch of the
    cluster policy. Else deploy NicClusterPolicy.spec.ofedDriver and set useHostMofed to false, or install
    DOCA-OFED on the hosts.

    Why: With useHostMofed: true the operator takes any loaded mlx5_core for an OFED, also the kernel's own;
    precompiled driver images are built without one. The driver's build then finds no peer-memory API.

    Source: gpu-operator controllers and cmd/nvidia-validator, MOFED; gpu-driver-container,
    reload_nvidia_peermem().
    """
    said = attempt(node)
    if isinstance(said, NotApplicable):
        return said
    if ContainerEventKind.INVALID_ARGUMENT not in kinds(said):
        return Passed("the container does not say Invalid argument")
    if ContainerEventKind.DISAGREES in kinds(said) or last_line_if_any(node, DISAGREES):
        return Passed("the kernel names another reason")
    event = at(said, ContainerEventKind.INVALID_ARGUMENT)
    stub = _is_stub(node)
    if stub is None:
        stub = _silent(node)
    if not stub:
        return Passed("nvidia-peermem is no stub")
    return Failed(
        seen=f"{event.text}{_why(node)}",
        expected="a module with the peer-memory API, or rdma.enabled: false",
        subject=node.describe_line(event.source, event.line),
    )


def _is_stub(node: Node) -> bool | None:
    """By the module file; None where it is not to be seen."""
    return if_missing(None, lambda: not peermem_linkage(node).uses_peer_api)


def _silent(node: Node) -> bool:
    """Whether a whole kernel log says nothing about the module: then its own init refused. Raises
    EvidenceMissing."""
    try:
        line = last_line(node, ABOUT_PEERMEM)
    except EvidenceMissing as lacks:
        ask = f"modinfo -F depends $(find /{CONTAINER}/lib/modules -name 'nvidia-peermem.ko*'); dmesg"
        raise EvidenceMissing(Missing("nvidia-peermem.ko", MissingReason.UNDECIDED, ask)) from lacks
    node.cite("a silent kernel log", confidence=Confidence.LIKELY)
    return line is None


def _why(node: Node) -> str:
    """What in the cluster policy makes it a stub, in words; "" if the policy was not seen."""
    settings = gpu_operator(node)
    if settings is None:
        return ""
    if settings.use_precompiled:
        return "; usePrecompiled: true"
    return "; useHostMofed: true" if settings.use_host_mofed else ""


@rule(
    "operator-ofed-changed",
    Layer.APPLICATION,
    per=the_node,
    takes=(ADDRESS,),
    reported_by=(DecidingCommand(DMESG, "`nvidia_peermem: disagrees about version of symbol`"),),
    cost="The container restarts for ever until the driver is rebuilt against this OFED.",
    references=("https://github.com/NVIDIA/gpu-operator/issues/2868", REFERENCE),
)
def operator_ofed_changed(node: Node, _: str) -> Outcome:
    """The OFED container was replaced after the GPU Operator had built its driver.

    Cost: CrashLoopBackOff. dma-buf is not affected.

    How to tell: The container nvidia-peermem-ctr says `Invalid argument`, and the kernel's log
    `disagrees about version of symbol ib_register_peer_memory_client`.

    What to do: Rebuild: set FORCE_REINSTALL=true in the driver manager's environment and delete the driver
    pod (this drains the node), or reboot the node.

    Why: An upgrade of the Network Operator brought another OFED; the driver pod kept the modules that it had
    built before.

    Source: gpu-operator issue 2868 and release notes 26.3; Linux kernel/module/version.c.
    """
    said = attempt(node)
    if isinstance(said, NotApplicable):
        return said
    if not kinds(said) & {
        ContainerEventKind.INVALID_ARGUMENT,
        ContainerEventKind.FAILED,
        ContainerEventKind.DISAGREES,
    }:
        return Passed("the container did not fail")
    event = said[-1]
    line = last_line_if_any(node, DISAGREES)
    if ContainerEventKind.DISAGREES in kinds(said):
        event, words = at(said, ContainerEventKind.DISAGREES), at(said, ContainerEventKind.DISAGREES).text
    elif line is not None:
        words = line.text
    elif any(symbol in _mismatched(node) for symbol in PEER_API):
        words = f"CRC of {PEER_API[0]} differs"
    else:
        return Passed("no symbol is of another version, as far as is seen")
    return Failed(
        seen=words, expected="equal versions", subject=node.describe_line(event.source, event.line)
    )


def _mismatched(node: Node) -> tuple[str, ...]:
    return if_missing((), lambda: peermem_linkage(node).mismatched)


@rule(
    "operator-module-missing",
    Layer.APPLICATION,
    per=the_node,
    takes=(ADDRESS,),
    reported_by=(DecidingCommand(PODS, "`Module nvidia-peermem not found in directory`"),),
    cost="The container restarts for ever; the module is not where it looks.",
    references=("https://github.com/NVIDIA/gpu-operator/issues/2619", REFERENCE),
)
def operator_module_missing(node: Node, _: str) -> Outcome:
    """The driver container was restarted without its kernel modules.

    Cost: CrashLoopBackOff until the node is rebooted or the driver reinstalled. dma-buf is not affected.

    How to tell: The container nvidia-peermem-ctr logs `modprobe: FATAL: Module nvidia-peermem not found in
    directory /lib/modules/...`, after a pod restart; the driver's log says `performing userspace-only
    install`.

    What to do: FORCE_REINSTALL=true in the driver manager's environment, or a reboot of the node.

    Why: From 26.3 on a restarted driver pod keeps a driver that is loaded already and installs user space
    alone, so that its root has no module files.

    Source: gpu-operator issue 2619; gpu-driver-container, nvidia-driver, the userspace-only install.
    """
    said = attempt(node)
    if isinstance(said, NotApplicable):
        return said
    if ContainerEventKind.NOT_FOUND not in kinds(said):
        return Passed("the module was found")
    event = at(said, ContainerEventKind.NOT_FOUND)
    return Failed(
        seen=event.text, expected="a module file", subject=node.describe_line(event.source, event.line)
    )


@rule(
    "operator-waits-for-ofed",
    Layer.APPLICATION,
    per=the_node,
    takes=(ADDRESS,),
    reported_by=(
        DecidingCommand(PODS, "`waiting for mellanox ofed ...`, and nothing after it"),
        DecidingCommand("kubectl get nicclusterpolicy -A", "none, with driver.rdma.useHostMofed false"),
    ),
    cost="The container waits and nvidia-peermem is never loaded.",
    references=(REFERENCE,),
)
def operator_waits_for_ofed(node: Node, _: str) -> Outcome:
    """The GPU Operator waits for an OFED that nobody installs.

    Cost: The peermem path stays closed. dma-buf is not affected.

    How to tell: The last line of nvidia-peermem-ctr is `waiting for mellanox ofed and nvidia drivers to be
    installed`, one every ten seconds.

    What to do: rdma.enabled: false and dma-buf; or deploy NicClusterPolicy.spec.ofedDriver; or
    useHostMofed: true with DOCA-OFED on the hosts. GPU Operator and useHostMofed: false do not install an
    OFED.

    Why: With useHostMofed: false it waits for /run/mellanox/drivers/.driver-ready, which the Network
    Operator's OFED container writes. Without a NicClusterPolicy that has ofedDriver nobody writes it. With
    useHostMofed: true it waits for mlx5_core. In both cases it also waits for the driver's own container.

    Source: gpu-driver-container, reload_nvidia_peermem().
    """
    said = attempt(node)
    if isinstance(said, NotApplicable):
        return said
    if not said or said[-1].kind is not ContainerEventKind.WAITING:
        return Passed("it does not wait")
    event, times = said[-1], sum(event.kind is ContainerEventKind.WAITING for event in said)
    return Failed(
        seen=f"it waits, {times} times so far{_for_what(node)}",
        expected="an OFED that is ready",
        subject=node.describe_line(event.source, event.line),
    )


def _for_what(node: Node) -> str:
    """What is not there, in words; "" if that cannot be told."""
    if if_missing(False, node.exists, OFED_READY):
        return "; OFED is ready, the driver is not"
    settings = gpu_operator(node)
    if settings and settings.use_host_mofed:
        return "; useHostMofed: true, so for mlx5_core"
    if deploys_ofed(node):
        return "; a NicClusterPolicy deploys OFED, which is not ready"
    return "; useHostMofed: false and no NicClusterPolicy with ofedDriver" if settings else ""
