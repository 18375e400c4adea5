"""Why the nvidia-peermem container of the GPU Operator does not start."""

from __future__ import annotations

from gdrkit.evidence import Confidence, EvidenceMissing, Missing, MissingReason
from gdrkit.facts.driver import PEER_API, peer_api_exporter, peermem_linkage
from gdrkit.facts.driver_files import CONTAINER
from gdrkit.facts.driver_log import last_line, last_line_if_any
from gdrkit.facts.kubernetes import OFED_READY, deploys_ofed, gpu_operator, has_gpu_operator
from gdrkit.facts.modules import PEERMEM
from gdrkit.facts.peer_memory import peer_api_waits_in
from gdrkit.facts.peermem_container import ContainerEvent, ContainerEventKind, events, last_attempt
from gdrkit.facts.running_files import is_loaded_for_sure
from gdrkit.node import Node, first_of, if_missing
from gdrkit.rules.deciding_command import DMESG, DecidingCommand
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import (
    ADDRESS,
    CauseTrait,
    Failed,
    Layer,
    NotApplicable,
    Outcome,
    Passed,
    rule,
    the_node,
)

DISAGREES = r"disagrees about version of symbol (?:ib_(?:un)?register_peer_memory_client|nvidia_p2p_)"
ABOUT_PEERMEM = r"nvidia[-_]peermem.*(?:disagrees|Unknown symbol|ERROR|error|invalid)|Loading of .*rejected"
PODS = "kubectl logs -n gpu-operator -l app=nvidia-driver-daemonset -c nvidia-peermem-ctr --tail=-1"
REFERENCE = "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-operator-rdma.html"
BUILT_IN_VAIN = (
    "Set rdma.enabled: false and use dma-buf. With these RDMA modules, neither a reinstall nor a reboot "
    "brings nvidia-peermem back: none of them exports the peer-memory API."
)


def attempt(node: Node) -> tuple[ContainerEvent, ...] | NotApplicable:
    """The container's events since its last restart, or why there is nothing to judge.

    Raises EvidenceMissing on a node of the operator whose container log was not collected.
    """
    # Where it is not known whether the module is loaded, only the container's log can decide.
    if is_loaded_for_sure(node, PEERMEM):
        return NotApplicable(f"{PEERMEM} is loaded, whatever the container logs")
    settings = gpu_operator(node)
    if settings is not None and settings.rdma_enabled is False:
        return NotApplicable("rdma.enabled is false, so the container does not exist")
    try:
        return last_attempt(events(node))
    except EvidenceMissing:
        if not has_gpu_operator(node):
            return NotApplicable("the GPU Operator was not found")
        raise


def event_kinds(logged: tuple[ContainerEvent, ...]) -> frozenset[ContainerEventKind]:
    return frozenset(event.kind for event in logged)


def last_of_kind(logged: tuple[ContainerEvent, ...], kind: ContainerEventKind) -> ContainerEvent:
    """The last event of a kind."""
    return next(event for event in reversed(logged) if event.kind is kind)


@rule(
    "operator-stub",
    Layer.APPLICATION,
    per=the_node,
    takes=(ADDRESS,),
    remedies=(RemedyName.USE_DMABUF,),
    traits=(CauseTrait.OF_LOADING,),
    reported_by=(
        DecidingCommand(DMESG, "no line about nvidia_peermem, while its container logs `Invalid argument`"),
        DecidingCommand(PODS, "`Invalid argument`"),
    ),
    cost="The container restarts forever, and the peermem path stays closed.",
    references=(REFERENCE,),
)
def operator_stub(node: Node, _: str) -> Outcome:
    """The nvidia-peermem that the GPU Operator built is a stub, which cannot be loaded.

    Cost: The container is in CrashLoopBackOff. dma-buf does not need this container.

    How to tell: Print the log of the container nvidia-peermem-ctr with
    `kubectl logs -n gpu-operator -l app=nvidia-driver-daemonset -c nvidia-peermem-ctr --tail=-1`. It says
    `could not insert 'nvidia_peermem': Invalid argument` and `failed to load nvidia-peermem module`, but on
    the node `sudo dmesg | grep -i peermem` prints nothing.

    What to do: Use dma-buf: set driver.kernelModuleType=open and driver.rdma.enabled=false in the cluster
    policy: `gdr config gpu-operator` writes the patch, and the command that applies it. Otherwise deploy
    NicClusterPolicy.spec.ofedDriver and set useHostMofed to false; or, on hosts with packages, install
    DOCA-OFED.

    Why: With useHostMofed: true, the operator takes any loaded mlx5_core for an OFED, including the
    kernel's own. Precompiled driver images are built without an OFED. In both cases the driver's build
    finds no peer-memory API.

    Source: gpu-operator controllers and cmd/nvidia-validator, MOFED; gpu-driver-container,
    reload_nvidia_peermem().
    """
    logged = attempt(node)
    if isinstance(logged, NotApplicable):
        return logged
    if ContainerEventKind.INVALID_ARGUMENT not in event_kinds(logged):
        return Passed("the container does not log Invalid argument")
    if ContainerEventKind.DISAGREES in event_kinds(logged) or last_line_if_any(node, DISAGREES):
        return Passed("the kernel logs another reason")
    event = last_of_kind(logged, ContainerEventKind.INVALID_ARGUMENT)
    of_file = _is_stub(node)
    if not (_silent(node) if of_file is None else of_file):
        return Passed("nvidia-peermem is not a stub")
    return Failed(
        seen=f"{event.text}{_why(node)}",
        expected="a module with the peer-memory API, or rdma.enabled: false",
        subject=node.describe_line(event.source, event.line),
        takes=() if of_file else None,  # then peermem-stub blocks: one fault, one blocker
    )


def _is_stub(node: Node) -> bool | None:
    """Whether the module file is a stub; None if the file is not known."""
    return if_missing(None, lambda: not peermem_linkage(node).uses_peer_api)


def _silent(node: Node) -> bool:
    """Whether a complete kernel log has no line about the module: then the module's own init refused.
    Raises EvidenceMissing."""
    try:
        line = last_line(node, ABOUT_PEERMEM)
    except EvidenceMissing as error:
        ask = f"modinfo -F depends $(find /{CONTAINER}/lib/modules -name 'nvidia-peermem.ko*'); dmesg"
        raise EvidenceMissing(Missing("nvidia-peermem.ko", MissingReason.UNDECIDED, ask)) from error
    node.cite("a silent kernel log", confidence=Confidence.LIKELY)
    return line is None


def _why(node: Node) -> str:
    """The setting of the cluster policy that makes the module a stub; "" if the policy is not known."""
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
    remedies=(RemedyName.REBUILD_DRIVER,),
    traits=(CauseTrait.OF_LOADING,),
    reported_by=(DecidingCommand(DMESG, "`nvidia_peermem: disagrees about version of symbol`"),),
    cost="The container restarts until the driver is rebuilt against this OFED.",
    references=("https://github.com/NVIDIA/gpu-operator/issues/2868", REFERENCE),
)
def operator_ofed_changed(node: Node, _: str) -> Outcome:
    """The GPU Operator's nvidia-peermem was built for another RDMA stack or driver than the one that runs.

    Cost: The container is in CrashLoopBackOff. dma-buf is not affected.

    How to tell: Print the log of the container nvidia-peermem-ctr with
    `kubectl logs -n gpu-operator -l app=nvidia-driver-daemonset -c nvidia-peermem-ctr --tail=-1`. It says
    `Invalid argument`, and on the node `sudo dmesg | grep -i peermem` prints
    `disagrees about version of symbol ib_register_peer_memory_client`.

    What to do: Rebuild the driver: set FORCE_REINSTALL=true in the driver manager's environment and delete
    the driver pod (this drains the node). Or reboot the node.

    Why: The kernel compares the versions of the symbols that a module uses. They differ where the driver pod
    kept modules that it had built before: an upgrade of the Network Operator brought another OFED, or one
    was installed on the host (useHostMofed: true), or nvidia.ko is of another build.

    Source: gpu-operator issue 2868 and release notes 26.3; Linux kernel/module/version.c.
    """
    logged = attempt(node)
    if isinstance(logged, NotApplicable):
        return logged
    if not event_kinds(logged) & {
        ContainerEventKind.INVALID_ARGUMENT,
        ContainerEventKind.FAILED,
        ContainerEventKind.DISAGREES,
    }:
        return Passed("the container did not fail")
    event = logged[-1]
    line = last_line_if_any(node, DISAGREES)
    if ContainerEventKind.DISAGREES in event_kinds(logged):
        event = last_of_kind(logged, ContainerEventKind.DISAGREES)
        seen = event.text
    elif line is not None:
        seen = line.text
    elif any(symbol in _mismatched(node) for symbol in PEER_API):
        seen = f"CRC of {PEER_API[0]} differs"
    else:
        first_of(lambda: last_line(node, DISAGREES), lambda: peermem_linkage(node))
        return Passed("no symbol with another version was found")
    return Failed(seen=seen, expected="equal versions", subject=node.describe_line(event.source, event.line))


def _mismatched(node: Node) -> tuple[str, ...]:
    return if_missing((), lambda: peermem_linkage(node).mismatched)


def _instead_of_rebuild(node: Node) -> str:
    """What to do where a driver that is built anew cannot register either; "" where it may: the API is
    there, comes with a restart or an OFED container, or is not known."""
    lacks_api = if_missing(False, lambda: not peer_api_exporter(node))
    comes = lacks_api and (if_missing("?", peer_api_waits_in, node) or deploys_ofed(node))
    return BUILT_IN_VAIN if lacks_api and not comes else ""


@rule(
    "operator-module-missing",
    Layer.APPLICATION,
    per=the_node,
    takes=(ADDRESS,),
    traits=(CauseTrait.OF_LOADING,),
    reported_by=(DecidingCommand(PODS, "`Module nvidia-peermem not found in directory`"),),
    cost="The container restarts forever: it cannot find the module.",
    references=("https://github.com/NVIDIA/gpu-operator/issues/2619", REFERENCE),
)
def operator_module_missing(node: Node, _: str) -> Outcome:
    """The GPU Operator's driver container has no nvidia-peermem for the kernel that runs.

    Cost: The container is in CrashLoopBackOff until the node is rebooted or the driver reinstalled. dma-buf
    is not affected.

    How to tell: Print the log of the container nvidia-peermem-ctr with
    `kubectl logs -n gpu-operator -l app=nvidia-driver-daemonset -c nvidia-peermem-ctr --tail=-1`. It says
    `modprobe: FATAL: Module nvidia-peermem not found in directory /lib/modules/...`. After a restart of the
    pod, the driver's log says `performing userspace-only install`.

    What to do: With the open kernel modules, use dma-buf: set driver.rdma.enabled=false, and this container
    is gone. Else set FORCE_REINSTALL=true in the driver manager's environment, or reboot the node.

    Why: From 26.3 on, a restarted driver pod keeps a driver that is already loaded and installs only user
    space, so its root has no module files. Where nothing exports the peer-memory API (rdma-lacks-peer-api),
    the module cannot load after a reinstall either: then set rdma.enabled: false and use dma-buf.

    Source: gpu-operator issue 2619; gpu-driver-container, nvidia-driver, the userspace-only install.
    """
    logged = attempt(node)
    if isinstance(logged, NotApplicable):
        return logged
    if ContainerEventKind.NOT_FOUND not in event_kinds(logged):
        return Passed("the module was found")
    event = last_of_kind(logged, ContainerEventKind.NOT_FOUND)
    return Failed(
        seen=event.text,
        expected="a module file",
        subject=node.describe_line(event.source, event.line),
        advice=_instead_of_rebuild(node),
    )


@rule(
    "operator-waits-for-ofed",
    Layer.APPLICATION,
    per=the_node,
    takes=(ADDRESS,),
    remedies=(RemedyName.USE_DMABUF,),
    traits=(CauseTrait.OF_LOADING,),
    reported_by=(
        # first, as a pod in Init has no log of nvidia-peermem-ctr
        DecidingCommand("kubectl get nicclusterpolicy -A", "none, with driver.rdma.useHostMofed false"),
        DecidingCommand(PODS, "`waiting for mellanox ofed ...` as the last line"),
    ),
    cost="The container waits, and nvidia-peermem is never loaded.",
    references=("https://github.com/NVIDIA/k8s-driver-manager/issues/123", REFERENCE),
)
def operator_waits_for_ofed(node: Node, _: str) -> Outcome:
    """The GPU Operator waits for an OFED, which it does not install itself, or for its driver.

    Cost: The peermem path stays closed. dma-buf is not affected.

    How to tell: Print the log of the container nvidia-peermem-ctr with
    `kubectl logs -n gpu-operator -l app=nvidia-driver-daemonset -c nvidia-peermem-ctr --tail=-1`. It ends
    with `waiting for mellanox ofed and nvidia drivers to be installed`, one line every ten seconds. With
    driver.rdma.useHostMofed: false and no policy in `kubectl get nicclusterpolicy -A`, nothing installs an
    OFED. With a policy, the pods of the Network Operator show why theirs is not ready. Before, the driver
    pod's init container k8s-driver-manager may wait: the pod is in Init, and no other container of it has a
    log; that of k8s-driver-manager ends with `Waiting for MOFED to be installed...`. The init container
    mofed-validation waits for the same file.

    What to do: Set rdma.enabled: false and use dma-buf; or deploy NicClusterPolicy.spec.ofedDriver; or, on
    hosts with packages, install DOCA-OFED and set useHostMofed: true. If a policy deploys an OFED, or the
    OFED is ready, look at the log of the container that is not.

    With useHostMofed: true, `lsmod` on the node must list mlx5_core. If it does and k8s-driver-manager waits
    nevertheless, its image is v0.9.0, of GPU Operator 25.10.0, for which this wait has no end: upgrade to
    25.10.1, or set driver.manager.version to v0.9.1, or use dma-buf with rdma.enabled: false.

    Why: With useHostMofed: false, the container waits for /run/mellanox/drivers/.driver-ready, which the
    Network Operator's OFED container writes. Without a NicClusterPolicy that has ofedDriver, nothing writes
    that file. With useHostMofed: true it waits for mlx5_core. In both cases it also waits for the driver's
    own container. k8s-driver-manager waits for the same, except v0.9.0, which has the two cases exchanged:
    with useHostMofed: true it waits for a file that only an OFED container writes.

    Source: gpu-driver-container, reload_nvidia_peermem(); k8s-driver-manager, waitForMofedDriver() at v0.9.0
    and v0.9.1; gpu-operator values.yaml at v25.10.0 and v25.10.1, driver.manager.version.
    """
    logged = attempt(node)
    if isinstance(logged, NotApplicable):
        return logged
    if not logged or logged[-1].kind is not ContainerEventKind.WAITING:
        return Passed("the container is not waiting")
    event, times = logged[-1], sum(event.kind is ContainerEventKind.WAITING for event in logged)
    return Failed(
        seen=f"the container waits, {times} times so far{_for_what(node)}",
        expected="an OFED and a driver that are ready",
        subject=node.describe_line(event.source, event.line),
    )


def _for_what(node: Node) -> str:
    """What is not ready; "" if that is not known."""
    if if_missing(False, node.exists, OFED_READY):
        return "; OFED is ready, the driver is not"
    settings = gpu_operator(node)
    if settings and settings.use_host_mofed:
        return "; useHostMofed: true, so it waits for mlx5_core"
    if deploys_ofed(node):
        return "; a NicClusterPolicy deploys OFED, which is not ready"
    return (
        "; useHostMofed: false and no NicClusterPolicy with ofedDriver"
        if settings
        else "; for which one is open"
    )
