"""What keeps NVSHMEM's IBGDA and NCCL's GIN, but no other program, from transfers that GPU kernels start."""

from __future__ import annotations

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts.rdma import RdmaDevice, rdma_devices
from gdrkit.node import Node, if_missing
from gdrkit.programs.environment import SYSTEM, environment, nccl_sources
from gdrkit.programs.gdrcopy.rules import gdrcopy_not_loaded
from gdrkit.programs.job_settings import settings_of, taken_by
from gdrkit.programs.nccl_gin.consumer import NCCL_GIN
from gdrkit.programs.nvshmem.consumer import NVSHMEM
from gdrkit.rules.capabilities import INITIATED, Path
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.rule import Failed, Layer, NotApplicable, Outcome, Passed, rule

_NVSHMEM = "https://docs.nvidia.com/nvshmem/release-notes-install-guide/install-guide/"
_PREFIX = "NVSHMEM_HCA_PREFIX"


@rule(
    "ibgda-cpu-assisted",
    Layer.APPLICATION,
    per=nccl_sources,
    takes=(*NVSHMEM.own(*INITIATED), *NCCL_GIN.own(Path.GPU_INITIATED)),
    reported_by=(DecidingCommand("NVSHMEM_DEBUG=INFO, set for the job", "NIC handler will be CPU"),),
    cost="Messages cost more time; the data still goes directly.",
    references=(_NVSHMEM,),
)
def ibgda_cpu_assisted(node: Node, source: str) -> Outcome:
    """The processor rings the NIC's doorbell for the GPU.

    Cost: Small messages are slower. The NIC still reads and writes GPU memory directly.

    How to tell: NVSHMEM prints `NIC handler will be CPU`, DOCA `Enabling CPU proxy mode`. A job or file has
    NVSHMEM_IBGDA_NIC_HANDLER=cpu or, for NCCL's GIN, NCCL_GIN_TYPE=2 or NCCL_GIN_GDAKI_NIC_HANDLER=1.

    What to do: Nothing if the rate of messages suffices. Otherwise remove the setting; without one, see
    ibgda-peer-mapping-denied. NVSHMEM_IBGDA_NIC_HANDLER=cpu needs GDRCopy: without it IBGDA stops, and
    cpu_host_memory is the value that works.

    Why: Either it was asked for, or the GPU may not map the NIC's doorbell.

    Source: NVIDIA/nvshmem src/modules/transport/ibgda/ibgda.cpp, ibgda_parse_nic_handler_request();
    NVIDIA/nccl src/transport/net_ib/gdaki.
    """
    found = settings_of(node, source)
    for consumer in (NVSHMEM, NCCL_GIN):
        for switch in consumer.switches:
            setting = found.get(switch.name)
            if setting and Path.GPU_INITIATED in switch.closes and switch.off(setting.value):
                without = _lacks_gdrcopy(node, setting.value) if consumer is NVSHMEM else ""
                return Failed(
                    seen=f"{switch.name}={setting.value}" + (f", and {without}" if without else ""),
                    expected="unset",
                    subject=node.describe_line(setting.source, setting.line),
                    takes=taken_by(found, consumer.own(*(INITIATED if without else INITIATED[:1]))),
                )
    return NotApplicable(f"{source} does not ask for it")


def _lacks_gdrcopy(node: Node, handler: str) -> str:
    """Why NVSHMEM refuses this handler: `cpu` needs GDRCopy, cpu_host_memory does not. "" if it takes it."""
    if "".join(handler.split()).lower() != "cpu":
        return ""
    found = if_missing(None, gdrcopy_not_loaded.check, node, "node")
    return found.seen if isinstance(found, Failed) else ""


@rule(
    "nic-not-mlx5",
    Layer.RDMA,
    per=rdma_devices,
    takes=(*NVSHMEM.own(*INITIATED), *NCCL_GIN.own(Path.GPU_INITIATED)),
    reported_by=(DecidingCommand("ibv_devices", "names that do not begin with mlx5"),),
    cost="NVSHMEM's IBGDA and ibdevx skip this NIC.",
    references=(_NVSHMEM,),
)
def nic_not_mlx5(node: Node, device: RdmaDevice) -> Outcome:
    """NVSHMEM and NCCL's GIN do not take this NIC for one of the mlx5 driver.

    Cost: NVSHMEM's IBGDA and ibdevx skip the device. With another driver, NCCL's GIN has no GDAKI, only its
    proxy.

    How to tell: `ibv_devices` lists names such as `ibp27s0` or `rocep1s0`, or devices of another driver.

    What to do: For a renamed ConnectX, set NVSHMEM_HCA_PREFIX to the beginning of its name. In a container,
    install libmlx5. Other NICs need NVSHMEM_REMOTE_TRANSPORT=ibrc or libfabric.

    Why: NVSHMEM searches for `mlx5` in the name, and then asks libmlx5 whether it is one. NCCL asks libmlx5
    alone.

    Source: NVIDIA/nvshmem src/modules/transport/ibgda/ibgda.cpp, nvshmemt_init(); NVIDIA/nccl
    src/transport/net_ib/gin.cc.
    """
    if not device.driver and not device.virtual:
        ask = f"ls -l /sys/class/infiniband/{device.name}/device/driver"
        raise EvidenceMissing(Missing(f"driver of {device.name}", MissingReason.UNDECIDED, ask))
    if device.driver != "mlx5_core":
        seen = f"driver {device.driver}" if device.driver else "a device in software"
        return Failed(seen=seen, expected="driver mlx5_core", subject=device.name)
    setting = environment(node, SYSTEM).get(_PREFIX)
    prefix = "mlx5" if setting is None else setting.value
    if prefix in device.name:
        return Passed(f"its name has {prefix}")
    return Failed(
        seen=f"a name without {prefix}",
        expected=f"{_PREFIX}, the beginning of its name",
        subject=device.name,
        takes=NVSHMEM.own(*INITIATED),
    )
