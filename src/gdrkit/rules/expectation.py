"""What differs from the expectation that the user gave with `gdr doctor --expect`."""

from __future__ import annotations

from collections.abc import Iterator

from gdrkit.evidence.quoting import quoted
from gdrkit.facts.expectation import expectation
from gdrkit.facts.expected_devices import (
    ANY_MODEL,
    Track,
    absent_gpus,
    counted_nics,
    differences,
    gpu_differences,
    is_kind,
    is_model,
    missing_gpus,
    model,
    number_of,
    tracks,
    version,
)
from gdrkit.facts.gpu import product_name
from gdrkit.facts.pci import PciGpu, gpus
from gdrkit.facts.rdma import RdmaDevice, nics, pairs, rdma_devices
from gdrkit.facts.supplied import not_collected
from gdrkit.formats.expectation import fits
from gdrkit.formats.plural import plural
from gdrkit.node import Node, if_absent, if_missing
from gdrkit.rules.rule import GPU, WIRE, Failed, Layer, NotApplicable, Outcome, Passed, Rule, Status, rule


def _source(node: Node) -> str:
    return expectation(node).file


def _gpus_to_compare(node: Node) -> Iterator[PciGpu | str]:
    """The stand-ins for missing GPUs; the node if none is missing."""
    wanted = expectation(node).content
    if wanted.gpus is not None or wanted.gpu_models or wanted.rails:
        yield from absent_gpus(node) or ("node",)


@rule(
    "expected-gpu-missing",
    Layer.HARDWARE,
    per=_gpus_to_compare,
    takes=(GPU,),
    whole_machine=True,
    default_status=Status.WARNING,
    cost="Jobs that ask for all GPUs of the machine do not start, or use fewer.",
)
def expected_gpu_missing(node: Node, gpu: PciGpu | str) -> Outcome:
    """The machine has fewer GPUs, or fewer of a model, than the expectation says.

    Cost: The machine has fewer GPUs than it should. Those that are there are not affected: `gdr doctor
    --json` still shows their paths as ready.

    How to tell: Compare `nvidia-smi -L` and `lspci -d 10de:` with `gpus` and `gpu_models` in the file that
    you gave to `gdr doctor --expect`.

    What to do: Search the kernel log for `Xid` 79 and `fallen off the bus`. Restart the machine with power
    removed; if the GPU stays away, it needs service. If the machine has changed for good, write a new
    expectation with `gdr expect`.

    Why: The GPU fell off the bus, failed at start, was removed, or was given to another virtual machine.

    Source: NVIDIA GPU Debug Guidelines, Xid 79; the file given with --expect.
    """
    if isinstance(gpu, str):
        return Passed(plural(len(gpus(node)), "GPU"))
    have = number_of(node, gpu.address)
    count = have + missing_gpus(node)[gpu.address]
    kind = plural(count, ANY_MODEL) if gpu.address == ANY_MODEL else f"{count} {gpu.address}"
    return Failed(
        seen=f"{have} of {kind}",
        expected=f"{count}, by {_source(node)}",
        subject="node",
        takes=None if if_missing(True, pairs, node) else (),
    )


def _nics_to_compare(node: Node) -> Iterator[PciGpu | str]:
    """The GPUs whose NICs are expected, and the node where their number is."""
    if expectation(node).content.nics is not None:
        yield "node"
    yield from dict.fromkeys(track.gpu for track in tracks(node))


@rule(
    "expected-nic-missing",
    Layer.HARDWARE,
    per=_nics_to_compare,
    takes=(WIRE,),
    whole_machine=True,
    default_status=Status.WARNING,
    cost="The GPU's data goes through a NIC of another GPU, over a slower path.",
)
def expected_nic_missing(node: Node, subject: PciGpu | str) -> Outcome:
    """The machine has fewer NICs than the expectation says, or a GPU lacks the NIC of its rail.

    Cost: A GPU without its NIC uses one that belongs to another GPU, over a slower path. Where only the
    number of NICs is too small, no GPU is known to lack one, and it is a warning.

    How to tell: Compare `ls /sys/class/infiniband` and `nvidia-smi topo -m` with `nics` and `rails` in the
    file that you gave to `gdr doctor --expect`. Devices implemented in software and virtual functions are
    not counted.

    What to do: Look for the NIC with `lspci -d 15b3:`. If it is listed but has no RDMA device, its driver
    refused it: `sudo dmesg | grep mlx5_core`. If it is not listed, try a cold restart, then reseat the card.
    If the machine has changed for good, write a new expectation with `gdr expect`; `nics = 0` says that it
    should have none.

    Why: The NIC failed, was removed, is turned off in firmware, belongs to a virtual machine, or its driver
    did not start.

    Source: the file given with --expect.
    """
    if isinstance(subject, str):
        wanted, have = expectation(node).content.nics or 0, len(counted_nics(node))
        if have >= wanted:
            return Passed(plural(have, "NIC"))
        return Failed(
            seen=plural(have, "NIC"),
            expected=f"{wanted}, by {_source(node)}",
            subject="node",
            cost="Fewer NICs than expected carry the machine's data.",
            takes=(),
        )
    for track in tracks(node):
        rail = track.rail
        if track.gpu == subject and len(track.nics) < rail.nics:
            at = f" at distance {rail.distance}" if rail.distance else ""
            return Failed(
                seen=f"{len(track.nics) or 'no'} NIC{_of_kind(track)}{at}",
                expected=f"{rail.nics}, by {_source(node)}",
                subject=subject.address,
                takes=None if track.unique and rdma_devices(node) else (),
            )
    return Passed("the NICs that are expected")


def _of_kind(track: Track) -> str:
    return f" {track.rail.nic}" if track.rail.nic else ""


def _unexpected(node: Node) -> Iterator[str]:
    wanted = expectation(node).content
    if wanted.gpus is not None or wanted.gpu_models:
        yield "GPUs"
    if wanted.nics is not None:
        yield "NICs"


@rule(
    "unexpected-device",
    Layer.HARDWARE,
    per=_unexpected,
    default_status=Status.WARNING,
    cost="Programs may use a device that they should not, such as a card for a display.",
)
def unexpected_device(node: Node, what: str) -> Outcome:
    """The machine has GPUs or NICs that the expectation does not have.

    Cost: Programs that count devices find more than they should. NCCL and CUDA use every device that is not
    hidden from them.

    How to tell: Compare `nvidia-smi -L` and `ls /sys/class/infiniband` with `gpus`, `gpu_models` and `nics`
    in the file that you gave to `gdr doctor --expect`.

    What to do: Remove the device, or hide it with CUDA_VISIBLE_DEVICES or NCCL_IB_HCA. If it is there to
    stay, write a new expectation with `gdr expect`.

    Why: A card was added or replaced by one of another model, or the expectation is that of another machine.

    Source: the file given with --expect.
    """
    wanted = expectation(node).content
    if what == "NICs":
        count, limit, others = len(counted_nics(node)), wanted.nics, ""
    else:
        count, limit, others = len(gpus(node)), wanted.gpus, _other_models(node)
    most = [f"at most {limit}"] if limit is not None and count > limit else []
    only = [f"only {', '.join(wanted.gpu_models)}"] if others else []
    if most or only:
        return Failed(
            seen=f"{plural(count, what[:-1])}{others}",
            expected=f"{', '.join(most + only)}, by {_source(node)}",
            subject="node",
        )
    return Passed(plural(count, what[:-1]))


def _other_models(node: Node) -> str:
    """The models that are not expected, where models are."""
    wanted = expectation(node).content.gpu_models
    others = [gpu for gpu in gpus(node) if not any(is_model(node, gpu, name) for name in wanted)]
    names = dict.fromkeys(if_missing(model(node, gpu), product_name, node, gpu) for gpu in others)
    return f", among them {', '.join(names)}" if wanted and names else ""


def _rail_nics(node: Node) -> Iterator[RdmaDevice]:
    yield from dict.fromkeys(nic for track in tracks(node) for nic in track.nics)


@rule(
    "expected-rail-differs",
    Layer.PCIE,
    per=_rail_nics,
    slows=(WIRE,),
    cost="A collective over all GPUs is as slow as its slowest rail.",
)
def expected_rail_differs(node: Node, nic: RdmaDevice) -> Outcome:
    """A rail has another port state, a lower rate, or fewer PCIe lanes at NIC or GPU than is expected.

    Cost: The bandwidth of this rail drops in proportion, and a collective over all GPUs is as slow as its
    slowest rail.

    How to tell: Compare `cat /sys/class/infiniband/<device>/ports/*/{state,rate}` and
    `cat /sys/class/infiniband/<device>/device/current_link_width`, and that file of the GPU in
    /sys/bus/pci/devices, with `rails` in the file that you gave to `gdr doctor --expect`.

    What to do: For the port, check the cable and the switch: `sudo mlxlink -d <device>`. For the lanes,
    reseat the card or change the riser. If the machine has changed for good, write a new expectation with
    `gdr expect`.

    Why: A cable or transceiver is bad or of a slower kind, the switch port is set to a lower rate, or the
    card is not seated well.

    Source: Linux drivers/infiniband/core/sysfs.c, rate_show(); the file given with --expect.
    """
    for track in tracks(node):
        if nic not in track.nics:
            continue
        found = (*differences(node, track.rail, nic), *gpu_differences(node, track.rail, track.gpu))
        if found:
            return Failed(
                seen=", ".join(seen for seen, _ in found),
                expected=f"{', '.join(wanted for _, wanted in found)}, by {_source(node)}",
                subject=nic.name,
            )
    return Passed("as expected")


def _with_firmware(node: Node) -> Iterator[RdmaDevice]:
    if expectation(node).content.firmware:
        yield from nics(node)


@rule(
    "expected-firmware-differs",
    Layer.FIRMWARE,
    per=_with_firmware,
    default_status=Status.WARNING,
    cost="NICs of one fabric behave differently, and errors are hard to compare.",
)
def expected_firmware_differs(node: Node, nic: RdmaDevice) -> Outcome:
    """The firmware of a NIC is not the version that the expectation says.

    Cost: NICs of one fabric behave differently. Fixes that the other machines have are missing here.

    How to tell: Compare `cat /sys/class/infiniband/<device>/fw_ver` with `firmware` in the file that you
    gave to `gdr doctor --expect`, by the board id in `board_id`.

    What to do: `sudo mlxfwmanager --query` shows the firmware that is installed and the one that is running.
    Install the expected version, then restart or run `mlxfwreset`. If the new version is right, change the
    expectation.

    Why: A NIC was replaced, an update failed or was not activated by a reset, or OFED updated the firmware.

    Source: Linux Documentation/ABI/stable/sysfs-class-infiniband, fw_ver; the file given with --expect.
    """
    for name, wanted in expectation(node).content.firmware.items():
        if is_kind(node, nic, name):
            if not nic.firmware:
                raise not_collected(f"firmware of {nic.name}", f"ibv_devinfo -d {quoted(nic.name)}")
            if not fits(nic.firmware, wanted):
                return Failed(seen=nic.firmware, expected=f"{wanted}, by {_source(node)}", subject=nic.name)
            return Passed(nic.firmware)
    return NotApplicable("no firmware is expected for this kind of NIC")


def _versions(node: Node) -> Iterator[str]:
    wanted = expectation(node).content.versions
    yield from (name for name in wanted.__struct_fields__ if getattr(wanted, name) is not None)


@rule(
    "expected-version-differs",
    Layer.LIBRARY,
    per=_versions,
    default_status=Status.WARNING,
    cost="Nodes of one job run different software, so one of them may work differently.",
)
def expected_version_differs(node: Node, name: str) -> Outcome:
    """The kernel, the driver, its module flavour, OFED or NCCL is not the version that the expectation says.

    Cost: Nodes of one job run different software, so one of them may take another path or fail where the
    others do not.

    How to tell: Compare `uname -r`, `cat /proc/driver/nvidia/version`, `ofed_info -s` and the installed
    NCCL with `versions` in the file that you gave to `gdr doctor --expect`.

    What to do: Install the expected version. If the new version is right, change the expectation;
    `>= 570.86` accepts later versions too.

    Why: The machine was updated alone, an update failed, or the running module is older than the installed
    one until the next restart.

    Source: the file given with --expect.
    """
    wanted = getattr(expectation(node).content.versions, name)
    found = if_absent("", version, node, name)
    if found and fits(found, wanted):
        return Passed(found)
    return Failed(
        seen=f"{name} {found}" if found else f"no {name}: not loaded, or not installed",
        expected=f"{wanted}, by {_source(node)}",
        subject=name,
    )


COMPARISONS: tuple[Rule, ...] = (
    expected_gpu_missing,
    expected_nic_missing,
    unexpected_device,
    expected_rail_differs,
    expected_firmware_differs,
    expected_version_differs,
)
