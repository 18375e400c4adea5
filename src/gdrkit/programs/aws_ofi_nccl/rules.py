"""Amazon's EFA: its driver, libfabric, and the settings of both."""

from __future__ import annotations

from gdrkit.evidence import Confidence, EvidenceAbsent, EvidenceMissing, Missing, MissingReason
from gdrkit.facts.driver import driver_flavour, driver_version
from gdrkit.facts.driver_log import last_line_if_any
from gdrkit.facts.modules import is_loaded, module_path
from gdrkit.facts.newest_read import cite_if_newer
from gdrkit.facts.rdma import RdmaDevice
from gdrkit.facts.wheels import LibraryCopy
from gdrkit.formats.regex import regex
from gdrkit.formats.versions import numbers
from gdrkit.node import Node, if_missing
from gdrkit.programs.aws_ofi_nccl.consumer import AWS_OFI_NCCL, SWITCH, without_dmabuf
from gdrkit.programs.aws_ofi_nccl.facts import (
    LIBFABRIC,
    VENDOR,
    efa_devices,
    efa_version,
    generation,
    instance_type,
    libfabric_copies,
    p2p_provider,
    plugin_copies,
)
from gdrkit.programs.environment import SYSTEM, environment
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.rule import EFA_P2P, Failed, Layer, NotApplicable, Outcome, Passed, rule, the_node

_EFA = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start-nccl.html"
_WARNINGS = "FI_LOG_LEVEL=warn, set for the job"
_VERSIONS = "fi_info --version"
_INFO = "fi_info -p efa -t FI_EP_RDM"
_COST = "GPU memory is copied through host memory, or the program stops."
_PEERMEM = "efa_nv_peermem"
_NO_EFA = NotApplicable("there is no EFA device")
OF_ITS_OWN = (2, 6)
FOR_DRIVER_580 = (2, 17, 3)
"""Releases of the module efa: with the file device/p2p, and with the newer form of NVIDIA's calls.
Source: amzn/amzn-drivers kernel/linux/efa/RELEASENOTES.md."""


@rule(
    "no-efa-device",
    Layer.HARDWARE,
    per=the_node,
    takes=AWS_OFI_NCCL.own(*AWS_OFI_NCCL.paths),
    permanent=AWS_OFI_NCCL.own(*AWS_OFI_NCCL.paths),
    whole_machine=True,
    reported_by=(DecidingCommand("fi_info -p efa", "no data"),),
    cost="aws-ofi-nccl is of no use here: NCCL's own code serves other NICs.",
    references=(_EFA,),
)
def no_efa_device(node: Node, _: str) -> Outcome:
    """The machine has no EFA, for which aws-ofi-nccl is made.

    Cost: None where other NICs have verbs: NCCL serves them by itself. On EC2 it is left with TCP.

    How to tell: `fi_info -p efa` lists nothing, and no device in /sys/class/infiniband has the driver efa. A
    pod sees only the EFAs that it requests: run both inside.

    What to do: Nothing on other machines. On EC2, attach EFA interfaces to the instance; in Kubernetes,
    request `vpc.amazonaws.com/efa` for the pod.

    Why: The plugin takes other providers of libfabric too, but what is known of it here is about EFA.

    Source: aws/aws-ofi-nccl src/platform-aws.cpp.
    """
    found = efa_devices(node)
    if found:
        return Passed(f"{found[0].name} is one")
    return Failed(seen="no RDMA device with the driver efa", expected="an EFA", subject="node")


@rule(
    "efa-p2p-unavailable",
    Layer.RDMA,
    per=efa_devices,
    takes=(EFA_P2P,),
    reported_by=(DecidingCommand(_WARNINGS, "Failed to register CUDA buffer with the EFA device"),),
    cost=_COST,
    references=(_EFA,),
)
def efa_p2p_unavailable(node: Node, device: RdmaDevice) -> Outcome:
    """The EFA driver cannot pin GPU memory, or libfabric's trial to register some failed.

    Cost: Only dma-buf is left. Without it, NCCL and others copy through host memory; on instances that must
    have GPUDirect RDMA, the plugin aws-ofi-nccl stops.

    How to tell: The file device/p2p of the device in /sys/class/infiniband is empty or missing: Linux's own
    efa has no such path. Or the kernel refuses it those of the proprietary driver, and logs `failing
    symbol_get of non-GPLONLY symbol nvidia_p2p_get_pages`. With FI_LOG_LEVEL=warn libfabric prints
    the error of its trial.

    What to do: Install the newest EFA installer, which has the module efa and libfabric, and the open kernel
    modules of NVIDIA. Remove settings that turn peer-to-peer off.

    Why: libfabric registers two pages of GPU memory when it starts, as a dma-buf and by address. The
    result holds for the whole run.

    Source: ofiwg/libfabric prov/efa/src/efa_hmem.c; amzn/amzn-drivers kernel/linux/efa; for symbol_get,
    aws/aws-parallelcluster issue 6014: open modules and EFA installer 1.29.0, both.
    """
    expected = "NVIDIA, or NVIDIA peermem"
    from gdrkit.messages.driver import SYMBOL_REFUSED

    refused = last_line_if_any(node, f"{SYMBOL_REFUSED}nvidia_p2p_")
    if refused is not None:
        return Failed(seen=refused.text, expected="the open kernel modules", subject=device.name)
    try:
        provider = p2p_provider(node, device)
    except EvidenceAbsent as error:
        version = efa_version(node)
        if version and numbers(version) < OF_ITS_OWN:
            missing = Missing("peer-to-peer of efa", MissingReason.UNDECIDED, _WARNINGS)
            raise EvidenceMissing(missing) from error
        seen = (
            f"efa {version} has no file device/p2p" if version else "Linux's own efa, without peer-to-peer"
        )
        return Failed(seen=seen, expected=expected, subject=device.name)
    if provider.startswith("NVIDIA"):
        return Passed(f"by the functions of {provider}")
    return Failed(seen=f"device/p2p is {provider or 'empty'}", expected=expected, subject=device.name)


@rule(
    "efa-driver-too-old",
    Layer.RDMA,
    per=the_node,
    takes=(EFA_P2P,),
    reported_by=(DecidingCommand("modinfo -F version efa", "a version before 2.17.3"),),
    cost=_COST,
    references=(_EFA,),
)
def efa_driver_too_old(node: Node, _: str) -> Outcome:
    """The EFA kernel driver is too old to register this GPU memory.

    Cost: GPU memory is copied through host memory, or the job stops.

    How to tell: `modinfo -F version efa` is below 2.17.3 with NVIDIA's driver 580 or newer, or empty: then
    it is the driver of the kernel itself, which has no path besides dma-buf.

    What to do: Install the newest EFA installer and reboot.

    Why: The driver learned dma-buf in 1.16, and the newer form of NVIDIA's peer-to-peer calls in 2.17.3.

    Source: amzn/amzn-drivers kernel/linux/efa/RELEASENOTES.md.
    """
    if not efa_devices(node):
        return _NO_EFA
    version = efa_version(node)
    if not version:
        return NotApplicable("Linux's own efa has no version: see efa-p2p-unavailable")
    try:
        driver = driver_version(node)
    except EvidenceAbsent:
        return NotApplicable("NVIDIA's driver is not loaded")
    cite_if_newer(node, "NVIDIA driver", driver)
    if numbers(driver) < (580,) or numbers(version) >= FOR_DRIVER_580:
        return Passed(f"efa {version} knows the functions of driver {driver}")
    return Failed(
        seen=f"efa {version} with driver {driver}",
        expected=f"efa {'.'.join(map(str, FOR_DRIVER_580))} or newer",
        subject="efa",
    )


@rule(
    "efa-peermem-proprietary-driver",
    Layer.DRIVER,
    per=the_node,
    reported_by=(DecidingCommand("modinfo -F license nvidia", "NVIDIA: the proprietary kernel modules"),),
    cost="The module efa_nv_peermem does not load; efa finds the proprietary driver without it.",
    references=("https://github.com/amzn/amzn-drivers/tree/master/kernel/linux/efa_nv_peermem",),
)
def efa_peermem_proprietary_driver(node: Node, _: str) -> Outcome:
    """efa_nv_peermem does not load because NVIDIA's proprietary kernel modules run.

    Cost: None by itself: the module efa calls the proprietary driver directly.

    How to tell: The kernel log has `efa_nv_peermem: Nvidia proprietary is unsupported`, and modprobe prints
    `Invalid argument`.

    What to do: Nothing, or install the open kernel modules.

    Why: efa_nv_peermem checks which flavour of NVIDIA's driver runs, and refuses the proprietary one.

    Source: amzn/amzn-drivers kernel/linux/efa_nv_peermem/src/efa_nv_peermem_main.c.
    """
    if not efa_devices(node):
        return _NO_EFA
    try:
        module_path(node, _PEERMEM)
        flavour = driver_flavour(node)
    except EvidenceAbsent:
        return NotApplicable(f"{_PEERMEM} is not installed, or NVIDIA's driver is not loaded")
    if flavour == "open" or is_loaded(node, _PEERMEM):
        return Passed(f"the {flavour} driver is loaded")
    return Failed(seen="the proprietary driver is loaded", expected="the open driver", subject=_PEERMEM)


WITHOUT_GDR = regex(r"(?:p3dn|g4dn|g5|g6|g6e|gr6)\.")
"""Instances with GPUs and EFA, and no GPUDirect RDMA. Source: a maintainer in aws/aws-ofi-nccl issue 547, of
August 2025: only the P series from p4d on has it. G7e is newer, and below."""


GPUS_WITH_EFA = regex(r"p4de?\.24xlarge|p(?:[5-9]|\d\d)(?!\.4xlarge)|g7e\.(?:12|24|48)xlarge")
"""Instances whose entry has gdr_required: aws/aws-ofi-nccl v1.21.1 src/platform-aws.cpp."""


@rule(
    "efa-gdr-unsupported-instance",
    Layer.HARDWARE,
    per=the_node,
    takes=AWS_OFI_NCCL.own(*AWS_OFI_NCCL.paths),
    permanent=AWS_OFI_NCCL.own(*AWS_OFI_NCCL.paths),
    reported_by=(DecidingCommand(_INFO, "no RDMA read"),),
    cost="GPU memory is copied through host memory.",
    references=(_EFA,),
)
def efa_gdr_unsupported_instance(node: Node, _: str) -> Outcome:
    """The hardware of this instance gives EFA no access to GPU memory.

    Cost: NCCL copies through host memory.

    How to tell: libfabric prints `the EFA device does not have RDMA support`, or fails to register CUDA
    memory. p3dn, g4dn, g5, g6 and g6e are such instances: `ec2-metadata -t`.

    What to do: Use an instance that has it, such as p4d or p5. No driver, module or libfabric helps here.

    Why: The first generation of EFA sends and receives only. In instances of the G series the GPU and the
    EFA cannot reach each other, whatever the GPU can do elsewhere.

    Source: aws/aws-ofi-nccl issue 547; ofiwg/libfabric prov/efa/src/efa_user_info.c; aws/aws-ofi-nccl
    src/platform-aws.cpp lists the instances that must have it.
    """
    if not efa_devices(node):
        return _NO_EFA
    try:
        kind = instance_type(node)
    except EvidenceAbsent:
        return NotApplicable(f"not a machine of {VENDOR}")
    if WITHOUT_GDR.match(kind):
        return Failed(
            seen=kind, expected="an instance with GPUDirect RDMA, such as p4d or p5", subject="EFA"
        )
    if GPUS_WITH_EFA.match(kind):
        return Passed(f"aws-ofi-nccl requires it on {kind}")
    raise EvidenceMissing(Missing(f"RDMA of EFA on {kind}", MissingReason.UNDECIDED, _INFO))


FOR_DMABUF, FOR_PLUGIN, PLUGIN_SINCE = (1, 20), (1, 22), (1, 13)
"""What aws-ofi-nccl requires of libfabric: for dma-buf, and on EFA at all from release 1.13 on."""


@rule(
    "libfabric-too-old",
    Layer.LIBRARY,
    per=the_node,
    takes=AWS_OFI_NCCL.own(*AWS_OFI_NCCL.paths),
    reported_by=(DecidingCommand(_VERSIONS, "a version before 1.22"),),
    cost=_COST,
    references=(_EFA,),
)
def libfabric_too_old(node: Node, _: str) -> Outcome:
    """The libfabric that the program loads, or with which its plugin was built, is too old.

    Cost: The plugin aws-ofi-nccl stops, or does without dma-buf.

    How to tell: `fi_info --version` in the job's environment shows less than 1.20 (dma-buf) or 1.22 (EFA
    with aws-ofi-nccl from 1.13 on). Of the build, the plugin's log says `not compiled with DMA-BUF support`
    or `Will not use DMA-BUF, requires Libfabric 1.20`.

    What to do: Install the newest EFA installer in the image, and check LD_LIBRARY_PATH: /opt/amazon/efa/lib
    must come before other copies. If the log shows the build, install a newer aws-ofi-nccl, or build it
    with libfabric 1.20 or newer: another libfabric alone does not help.

    Why: The plugin needs functions of newer releases to keep CUDA out of the transport. Whether it can pass
    a dma-buf on is decided when it is built, by the headers of libfabric.

    Source: aws/aws-ofi-nccl src/nccl_ofi_net.cpp, src/nccl_ofi_dmabuf.cpp, src/nccl_ofi_ofiutils.cpp,
    src/nccl_ofi_api.cpp, m4/check_pkg_libfabric.m4.
    """
    copy = _libfabric(node)
    if isinstance(copy, NotApplicable):
        return copy
    if numbers(copy.version) >= FOR_PLUGIN:
        return Passed(f"libfabric {copy.version}")
    return Failed(
        seen=f"libfabric {copy.version}",
        expected=f"libfabric {'.'.join(map(str, FOR_PLUGIN))} or newer",
        subject=copy.source,
        takes=None if numbers(copy.version) < FOR_DMABUF or _plugin_needs(node) else (),
    )


def _libfabric(node: Node) -> LibraryCopy | NotApplicable:
    """The libfabric that serves EFA here, or why there is none to judge."""
    if not efa_devices(node):
        return _NO_EFA
    try:
        return libfabric_copies(node)[0]
    except EvidenceAbsent:
        return NotApplicable("libfabric is not installed; an image brings its own")


def _plugin_needs(node: Node) -> bool:
    """Whether a plugin may be of a release that requires the newer libfabric; one in an image may."""
    copies = if_missing(None, plugin_copies, node)
    return copies is None or any(not c.version or numbers(c.version) >= PLUGIN_SINCE for c in copies)


@rule(
    "ofi-lacks-hmem",
    Layer.LIBRARY,
    per=the_node,
    takes=AWS_OFI_NCCL.own(*AWS_OFI_NCCL.paths),
    reported_by=(DecidingCommand(_WARNINGS, "EFA cannot support FI_HMEM"),),
    cost=_COST,
    references=(_EFA,),
)
def ofi_lacks_hmem(node: Node, _: str) -> Outcome:
    """This libfabric was built without CUDA, or finds no CUDA library.

    Cost: GPU memory is taken for host memory: registration fails, or data is copied; aws-ofi-nccl stops or
    copies.

    How to tell: libfabric prints that it was not compiled with FI_HMEM, or that no compatible libraries were
    found. `ldd libfabric.so.1` shows no libcuda or libcudart where it is linked to them.

    What to do: Use the libfabric of the EFA installer instead of the distribution's package, and make
    libcuda.so.1 visible in the container.

    Why: Distributions build libfabric without `--with-cuda`.

    Source: ofiwg/libfabric prov/efa/src/efa_user_info.c; ai-dynamo/nixl src/utils/libfabric.
    """
    copy = _libfabric(node)
    if isinstance(copy, NotApplicable):
        return copy
    name = copy.source.removeprefix("package ")
    if name in LIBFABRIC:
        return Passed("Amazon's libfabric is built with CUDA")
    node.cite(f"package {name}", text="of a distribution", confidence=Confidence.LIKELY)
    return Failed(seen=f"the distribution's {name}", expected="Amazon's libfabric", subject=copy.source)


@rule(
    "ofi-dmabuf-off-by-default",
    Layer.APPLICATION,
    per=efa_devices,
    takes=AWS_OFI_NCCL.own("dmabuf"),
    reported_by=(DecidingCommand("env | grep OFI_NCCL_DISABLE_DMABUF, in the job", "nothing, or 1"),),
    cost="The plugin registers GPU memory by address, which needs the driver's peer-to-peer calls.",
    references=("https://github.com/aws/aws-ofi-nccl/releases/tag/v1.14.0",),
)
def ofi_dmabuf_off_by_default(node: Node, device: RdmaDevice) -> Outcome:
    """This release of aws-ofi-nccl does not use dma-buf, without a setting that says so.

    Cost: None where efa reaches NVIDIA's driver in the other way. Otherwise there is no direct path.

    How to tell: The plugin prints `explicitly disabled by user`, `disabled due to EFA device id`, or
    `Support for DMA-BUF registrations: false`.

    What to do: Use 1.19.2 or newer. For 1.13.2, 1.14.0 and 1.14.1, OFI_NCCL_DISABLE_DMABUF=0 is enough.

    Why: Releases before 1.13 have no dma-buf. 1.13.2, 1.14.0 and 1.14.1 turned it off by default. From
    1.14.2 to 1.19.1, EFA of the first three generations, with the device ids 0xefa0 to 0xefa2, does not get
    it, because of a fault of firmware that was fixed since.

    Source: aws/aws-ofi-nccl src/nccl_ofi_dmabuf.cpp, src/nccl_ofi_net.cpp and include/nccl_ofi_param.h, at
    the tags from v1.13.0 to v1.21.1; commit 0f285d56.
    """
    try:
        copies = plugin_copies(node)
    except EvidenceAbsent:
        return NotApplicable(f"{AWS_OFI_NCCL.title} is not installed; {AWS_OFI_NCCL.assumed} is assumed")
    if any(not copy.version for copy in copies):
        ask = "strings libnccl-net.so | grep 'Initializing aws-ofi-nccl'"
        raise EvidenceMissing(Missing("version of aws-ofi-nccl", MissingReason.UNDECIDED, ask))
    setting = environment(node, SYSTEM).get(SWITCH)
    value = None if setting is None else setting.value
    device_id = generation(node, device)
    reasons = {copy: why for copy in copies if (why := without_dmabuf(copy.version, device_id, value))}
    if not reasons:
        return Passed(f"aws-ofi-nccl {copies[0].version} uses dma-buf")
    copy, why = next(iter(reasons.items()))
    return Failed(
        seen=f"aws-ofi-nccl {copy.version} {why}",
        expected="1.19.2 or newer",
        subject=device.name,
        takes=None if len(reasons) == len(copies) else (),
    )
