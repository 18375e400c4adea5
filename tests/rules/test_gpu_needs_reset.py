"""GPUs that an error left unusable."""

from __future__ import annotations

from typing import ClassVar

import pytest

from gdrkit.diagnosis import report_on
from gdrkit.evidence import Confidence, Host
from gdrkit.evidence.target import open_host
from gdrkit.facts.commands import DMESG, NVIDIA_SMI
from gdrkit.node import Node
from gdrkit.repair.remedies.plan import plan, what_then
from gdrkit.report.pages import advice
from gdrkit.report.text import text
from gdrkit.rules.rule import Passed
from gdrkit.verdict import Verdict, judge_node
from gdrkit.verdict.path_state import State
from tests.evidence_nodes import laid_down
from tests.rules.altered_host import AlteredHost

GPU, SLOT = "0000:1b:00.0", "0000:1b:00"
XID = f"NVRM: Xid (PCI:{SLOT}): "
UNCONTAINED = XID + "95, pid=7062, name=python, Uncontained: LTC TAG (0x2, 0x1). RST: Yes, D-RST: No"
TIMEOUT = XID + "119, pid=7062, name=python, Timeout after 6s of waiting for RPC response from GPU0 GSP!"
OFF = XID + "79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
REBOOT = XID + "154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
LOADS = "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.158.01  Release Build"


@pytest.fixture(scope="module")
def good() -> Host:
    return open_host(str(laid_down("ubuntu-6.8-h100")))


def verdict(host: Host, **changes: object) -> Verdict:
    return judge_node(Node(AlteredHost(host, **changes)))  # type: ignore[arg-type]


def prints(field: str):
    """An edit of nvidia-smi's output: the first GPU has another field."""
    return lambda text: text.replace("    GSP Firmware", f"    {field}\n    GSP Firmware", 1)


def blocked_by(found: Verdict) -> tuple[str, str] | None:
    """Code and subject of what blocks the node; None if it is ready."""
    state = found.of("nccl")
    if state.state is State.READY:
        return None
    assert state.state is State.BLOCKED and state.cause is not None
    subjects = {
        f.subject for f in found.findings if f.code == state.cause.rule.code and f.status == "failed"
    }
    return state.cause.rule.code, ",".join(sorted(subjects))


@pytest.mark.parametrize("lines", [(UNCONTAINED,), (TIMEOUT,), (OFF,), (OFF, REBOOT), (REBOOT,)])
def test_an_error_of_this_boot_blocks_the_node_and_names_the_gpu(good: Host, lines: tuple[str, ...]):
    # drivers before 565 print no recovery action; of a GPU off the bus, nvidia-smi prints nothing
    smi = (lambda text: text.partition("GPU 0000")[0]) if OFF in lines else None
    assert blocked_by(verdict(good, log=lines, smi=smi)) == ("gpu-needs-reset", GPU)


@pytest.mark.parametrize(("lines", "resets"), [((UNCONTAINED,), True), ((OFF,), False), ((REBOOT,), False)])
def test_a_gpu_that_only_a_reboot_brings_back_is_not_to_be_reset(
    good: Host, lines: tuple[str, ...], resets: bool
):
    """A GPU that fell off the bus answers no command, a reset included."""
    smi = (lambda text: text.partition("GPU 0000")[0]) if OFF in lines else None
    report = report_on(Node(AlteredHost(good, log=lines, smi=smi)))
    (finding,) = (one for one in report.findings if one.code == "gpu-needs-reset" and one.status == "failed")
    words = finding.advice or advice("gpu-needs-reset")

    assert ("--gpu-reset" in words) == resets and ("--gpu-reset" in text(report)) == resets
    assert "restart" in words


def test_programs_go_on_with_the_other_gpus(good: Host):
    """Also those that have no path through host memory: seven of eight GPUs are as good as before."""
    report = report_on(Node(AlteredHost(good, log=(UNCONTAINED,))))

    assert {report.consumers[name].without for name in ("nccl", "nvshmem", "verbs")} == {
        "cannot use that GPU at all"
    }


@pytest.mark.parametrize(
    "lines",
    [
        (XID + "13, pid=7062, name=python, Graphics SM Warp Exception on (GPC 0, TPC 1, SM 0)",),
        (XID + "31, pid=7062, name=python, Ch 00000008, intr 00000000. MMU Fault",),
        (XID + "94, pid=7062, name=python, Contained: CE User Channel (0x9). RST: No, D-RST: No",),
        (TIMEOUT.replace(SLOT, "0000:99:00"),),
        (TIMEOUT, LOADS),
        (OFF, f"pci {GPU}: [10de:2330] type 00 class 0x030200 PCIe Endpoint"),
    ],
    ids=["13", "31", "94", "other slot", "driver loaded again", "found again"],
)
def test_lines_that_show_no_broken_gpu(good: Host, lines: tuple[str, ...]):
    assert blocked_by(verdict(good, log=lines)) is None


def test_a_line_of_an_earlier_boot_shows_nothing(good: Host):
    boot = "[    0.000000] Linux version 6.8.0-45-generic (buildd@x) #45-Ubuntu\n"
    earlier = f"{boot}[   41.120000] {TIMEOUT}\n{boot}[    9.100000] {LOADS}\n"

    assert blocked_by(verdict(good, outputs={DMESG.line: earlier})) is None
    assert blocked_by(
        verdict(good, outputs={DMESG.line: earlier.removesuffix(f"{boot}[    9.100000] {LOADS}\n")})
    )


@pytest.mark.parametrize(
    "field",
    [
        "GPU Recovery Action                   : Reset",
        "GPU Recovery Action                   : Reboot",
        "GPU Recovery Action                   : Drain and Reset",
        "GPU Reset Status\n        Reset Required                    : Yes",
        "GPU Reset Status\n        Drain and Reset Recommended       : Yes",
        "Display Active                        : GPU requires reset",
        "Display Active                        : [GPU is lost]",
    ],
)
def test_what_nvidia_smi_prints_of_it_blocks_the_node(good: Host, field: str):
    found = verdict(good, smi=prints(field))
    (finding,) = [one for one in found.findings if one.code == "gpu-needs-reset"]

    assert blocked_by(found) == ("gpu-needs-reset", GPU)
    assert finding.confidence is Confidence.CERTAIN


@pytest.mark.parametrize(
    "field",
    [
        "GPU Recovery Action                   : None",
        "GPU Recovery Action                   : N/A",
        "GPU Reset Status\n        Reset Required                    : No",
        "GPU Reset Status\n        Reset Required                    : "
        "Requested functionality has been deprecated",
        "Fan Speed                             : Unknown Error",
    ],
)
def test_what_nvidia_smi_prints_of_a_gpu_that_works(good: Host, field: str):
    assert blocked_by(verdict(good, smi=prints(field))) is None


def test_nvidia_smi_shows_that_a_reset_was_done(good: Host):
    """The driver prints no line about a reset, so the log alone is never certain that it is still needed."""
    done = prints("GPU Recovery Action                   : None")
    (finding,) = [one for one in verdict(good, log=[TIMEOUT]).findings if one.code == "gpu-needs-reset"]

    assert finding.confidence is Confidence.LIKELY
    assert blocked_by(verdict(good, log=[TIMEOUT], smi=done)) is None


@pytest.mark.parametrize(
    "complaint",
    [
        "Unable to determine the device handle for GPU 0000:1B:00.0: GPU is lost.  Reboot the system",
        "Unable to determine the device handle for GPU0000:1B:00.0: Unknown Error",
        "Unable to determine the device handle for GPU0: 0000:1B:00.0: Unknown Error",
    ],
)
def test_a_gpu_that_nvidia_smi_cannot_open_is_named(good: Host, complaint: str):
    """It prints the line in place of the GPU, or of all of them."""

    def without_first(text: str) -> str:
        head, first, rest = text.partition("GPU 00000000:1B:00.0")
        return f"{head}{complaint}\n{first and rest[rest.index('GPU 0000') :]}"

    assert blocked_by(verdict(good, smi=without_first)) == ("gpu-needs-reset", GPU)
    alone = f"{complaint}\nNo devices were found\n"
    assert blocked_by(verdict(good, smi=lambda text: alone)) == ("gpu-needs-reset", GPU)


def test_the_kernel_log_shows_it_where_nvidia_smi_was_not_collected(good: Host):
    found = verdict(good, log=[UNCONTAINED], hidden={NVIDIA_SMI.line})
    assert found.of("nccl").state is State.BLOCKED


@pytest.mark.parametrize("hidden", [{DMESG.line}, {DMESG.line, NVIDIA_SMI.line}])
def test_without_the_log_no_error_is_likely_and_not_certain(good: Host, hidden: set[str]):
    """Ordinary users read no kernel log, and a folder has no output of nvidia-smi."""
    found = verdict(good, log=[UNCONTAINED], hidden=hidden)
    (result, *_) = [one for one in found.check_results if one.rule.code == "gpu-needs-reset"]
    assert isinstance(result.outcome, Passed) and result.outcome.lacking


def test_a_reset_is_tried_first_and_promises_nothing(good: Host):
    node = Node(AlteredHost(good, log=[UNCONTAINED]))
    (chain,) = what_then(node, judge_node(node), "nccl")

    assert [(step.remedy.name, step.then.state) for step in chain] == [
        ("reset-gpu", State.UNKNOWN),
        ("power-cycle", State.UNKNOWN),
    ]
    assert not plan(node, judge_node(node), "nccl")


def test_a_gpu_that_needs_a_reboot_is_not_reset(good: Host):
    node = Node(AlteredHost(good, log=[REBOOT]))
    (chain,) = what_then(node, judge_node(node), "nccl")
    assert [step.remedy.name for step in chain] == ["power-cycle"]


class TestGone:
    """A GPU that fell off the bus and is not listed any more."""

    GONE: ClassVar = {f"sys/bus/pci/devices/{GPU}": None, f"proc/driver/nvidia/gpus/{GPU}": None}

    def test_the_kernel_log_of_this_boot_makes_it_a_blocker(self, good: Host):
        found = verdict(good, log=[OFF], files=self.GONE)
        assert blocked_by(found) == ("gpu-missing", GPU)

    def test_without_such_a_line_it_is_a_warning(self, good: Host):
        found = verdict(good, files=self.GONE)
        assert blocked_by(found) is None
        assert {f.status.value for f in found.findings if f.code == "gpu-missing"} == {"warning"}

    def test_only_a_restart_shows_whether_it_comes_back(self, good: Host):
        node = Node(AlteredHost(good, log=[OFF], files=self.GONE))
        (chain,) = what_then(node, judge_node(node), "nccl")
        assert [(step.remedy.name, step.then.state) for step in chain] == [("power-cycle", State.UNKNOWN)]
