"""GPUs that NVIDIA's driver does not use."""

from __future__ import annotations

import pytest

from gdrkit.evidence import EvidenceMissing, Host, Missing, MissingReason
from gdrkit.evidence.target import open_host
from gdrkit.facts.commands import DMESG
from gdrkit.facts.driver import driver_flavour
from gdrkit.facts.gpu_refusal import Reason, refusal
from gdrkit.facts.pci import gpus
from gdrkit.node import Node
from gdrkit.repair.remedies.power_cycle import POWER_CYCLE
from gdrkit.rules.engine import judge
from gdrkit.rules.gpu_refused import gpu_excluded, gpu_refused_by_driver
from gdrkit.rules.rule import Failed, Passed, Unknown
from gdrkit.verdict import Verdict, judge_node
from gdrkit.verdict.check_results import check_results
from gdrkit.verdict.path_state import State
from tests.evidence_nodes import laid_down
from tests.rules.altered_host import AlteredHost

GPU = "0000:1b:00.0"
ENTRY, UEVENT = f"proc/driver/nvidia/gpus/{GPU}", f"{GPU}/uevent"
NOT_STARTED = f"NVRM: GPU {GPU}: RmInitAdapter failed! (0x26:0x56:1474)"
LOADS = "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.158.01  Release Build"


def unbound(text: str) -> str:
    return text.replace("DRIVER=nvidia\n", "")


def held_by(driver: str):
    return lambda text: text.replace("DRIVER=nvidia\n", f"DRIVER={driver}\n")


def without_values(text: str) -> str:
    """Of a GPU that does not start, nvidia-smi has no numbers."""
    head, first, rest = text.partition("GPU 00000000:1B:00.0")
    return f"{head}{first}\n    Product Name : N/A\n{rest[rest.index('GPU 0000') :]}"


@pytest.fixture(scope="module")
def good() -> Host:
    return open_host(str(laid_down("ubuntu-6.8-h100")))


def verdict(host: Host, **changes: object) -> Verdict:
    return judge_node(Node(AlteredHost(host, **changes)))  # type: ignore[arg-type]


def refused(host: Host, **changes: object) -> list[str]:
    """The GPUs that the rule names."""
    results = check_results(Node(AlteredHost(host, **changes)), [gpu_refused_by_driver])  # type: ignore[arg-type]
    return [result.outcome.subject for result in results if isinstance(result.outcome, Failed)]


def test_a_gpu_without_an_entry_beside_others_blocks_the_node(good: Host):
    logged = f"NVRM: The NVIDIA GPU {GPU}"
    found = verdict(
        good,
        log=[logged, "NVRM: The NVIDIA probe routine failed for 1 device(s)."],
        files={ENTRY: None, UEVENT: unbound},
    )
    state = found.of("nccl")
    (finding,) = [f for f in found.findings if f.code == "gpu-refused-by-driver"]

    assert (state.state, state.cause and state.cause.rule.code) == (State.BLOCKED, "gpu-refused-by-driver")
    assert (finding.subject, finding.status) == (GPU, "failed")
    assert logged in finding.seen


def test_whether_a_step_helped_is_not_known(good: Host):
    """The log and the driver's list were seen before it."""
    node = Node(AlteredHost(good, files={ENTRY: None, UEVENT: unbound}))
    gpu = next(one for one in gpus(node) if one.address == GPU)
    kinds = []
    for why in (MissingReason.STALE, MissingReason.NOT_COLLECTED):
        missing = refusal.becomes(Missing("the driver's list", why, "nvidia-smi"), gpu)
        kinds.append(type(judge(node.after("reset it", [missing]), gpu_refused_by_driver, gpu)))
    assert kinds == [Unknown, Passed]


def test_one_that_another_driver_holds_is_not_refused(good: Host):
    for driver in ("vfio-pci", "nouveau", "nvidia"):  # nvidia: a container has only its own GPUs' entries
        assert refused(good, files={ENTRY: None, UEVENT: held_by(driver)}) == [], driver


def test_without_a_driver_none_is(good: Host):
    assert refused(good, files={"proc/driver/nvidia": None, UEVENT: unbound}) == []


class TestNotStarted:
    def test_the_last_line_about_it_blocks(self, good: Host):
        found = verdict(good, log=[NOT_STARTED], smi=without_values).of("nccl")
        assert (found.state, found.cause and found.cause.rule.code) == (
            State.BLOCKED,
            "gpu-refused-by-driver",
        )

    @pytest.mark.parametrize(
        "log", [[NOT_STARTED, LOADS], [NOT_STARTED.replace(GPU, "0000:99:00.0")], ["NVRM: RmInitAdapter"]]
    )
    def test_no_other_line_does(self, good: Host, log: list[str]):
        assert refused(good, log=log, smi=without_values) == []

    def test_nvidia_smi_shows_that_it_was_started_since(self, good: Host):
        assert refused(good, log=[NOT_STARTED]) == []

    def test_hidden_it_blames_no_other_gpu(self, good: Host):
        assert refused(good, log=[NOT_STARTED], smi=without_values, hidden={DMESG.line}) == []


OLDER = "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  525.147.05  Wed Oct 25 20:27:35 UTC 2023"
STARTS = "nvidia-nvlink: Nvlink Core is being initialized, major device number 237"
NAMED = f"NVRM: The NVIDIA GPU {GPU} (PCI ID: 10de:2bb5)"
MESSAGES = {
    Reason.OPEN: "installed in this system requires use of the NVIDIA open kernel modules.",
    Reason.PROPRIETARY: "installed in this system is not supported by open nvidia.ko.",
    Reason.BRANCH: "installed in this system is not supported by the\n{}NVRM: NVIDIA 525 driver release.",
}
BLACKWELL = {f"{GPU}/{name}": lambda text: text.replace("2330", "2bb5") for name in ("device", "uevent")}
PROPRIETARY = {
    "proc/driver/nvidia/version": lambda text: text.replace(
        "Open Kernel Module for x86_64", "x86_64 Kernel Module"
    ),
    "proc/modules": lambda text: text.replace("(O", "(PO"),
}


class TestReasons:
    def reason(self, host: Host, **changes: object) -> tuple[str, str]:
        """What the finding sees, and what it advises."""
        results = check_results(Node(AlteredHost(host, **changes)), [gpu_refused_by_driver])  # type: ignore[arg-type]
        (one,) = [result.outcome for result in results if isinstance(result.outcome, Failed)]
        return one.seen, one.advice

    @pytest.mark.parametrize("reason", MESSAGES)
    @pytest.mark.parametrize("indent", ["[   14.2] ", " " * 15], ids=["by syslog", "by dmesg"])
    def test_the_driver_names_it_in_the_lines_below(self, good: Host, reason: Reason, indent: str):
        """A message of several lines: each with its stamp, or the further ones below the first one's."""
        text = MESSAGES[reason].format(indent)
        log = [f"{NAMED}\n{indent}NVRM: {text}", NOT_STARTED]
        seen, advice = self.reason(good, log=log, smi=without_values)
        assert reason.value in seen and "RmInitAdapter failed" in seen and advice

    def test_of_another_gpu_it_is_none(self, good: Host):
        other = NAMED.replace(GPU, "0000:99:00.0")
        log = [f"{other}\n{' ' * 15}NVRM: {MESSAGES[Reason.OPEN]}", NOT_STARTED]
        assert self.reason(good, log=log, smi=without_values)[1] == ""

    def test_proprietary_modules_support_no_blackwell(self, good: Host):
        """Also where no log was collected; and not where it works, nor where the open ones are loaded."""
        changes = {"smi": without_values, "hidden": {DMESG.line}}
        seen, advice = self.reason(good, files=BLACKWELL | PROPRIETARY, **changes)
        assert Reason.OPEN.value in seen and "open ones" in advice
        assert refused(good, files=BLACKWELL | PROPRIETARY, hidden={DMESG.line}) == []
        assert refused(good, files=BLACKWELL, **changes) == []
        assert refused(good, files=PROPRIETARY, **changes) == []

    def test_the_open_modules_cure_it_and_a_power_cycle_does_not(self, good: Host):
        log = [NOT_STARTED]
        node = Node(AlteredHost(good, files=BLACKWELL | PROPRIETARY, log=log, smi=without_values))  # type: ignore[arg-type]
        gpu = next(one for one in gpus(node) if one.address == GPU)
        after = node.after("open", [driver_flavour.becomes("open")])
        assert refusal(node, gpu) and not refusal(after, gpu)
        with pytest.raises(EvidenceMissing):
            tuple(POWER_CYCLE.effect(node))

    @pytest.mark.parametrize("machine", ["bare", "virtual"])
    def test_one_whose_window_has_no_address_needs_room_for_it(self, good: Host, machine: str):
        """The driver probes its GPUs before it prints that it is loaded."""
        invalid = "NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:"
        window = f"{invalid}\n{' ' * 15}NVRM: BAR1 is 0M @ 0x0 (PCI:{GPU})"
        guest = {"proc/cpuinfo": lambda text: text.replace("flags\t\t: ", "flags\t\t: hypervisor ")}
        files = {ENTRY: None, UEVENT: unbound} | (guest if machine == "virtual" else {})
        seen, advice = self.reason(good, log=[STARTS, window, OLDER], files=files)
        assert Reason.WINDOW.value in seen
        assert ("pciPassthru" if machine == "virtual" else "Above 4G Decoding") in advice
        earlier = [STARTS, window, OLDER, STARTS, OLDER]
        assert Reason.WINDOW.value not in self.reason(good, log=earlier, files=files)[0]


class TestExcluded:
    @staticmethod
    def exclude(text: str) -> str:
        return text.replace("GPU Excluded:\t No", "GPU Excluded:\t Yes")

    def test_it_is_a_note_and_the_other_gpus_decide(self, good: Host):
        found = verdict(good, files={f"{GPU}/information": self.exclude})
        (finding,) = [f for f in found.findings if f.code == "gpu-excluded"]

        assert found.of("nccl").state is State.READY
        assert GPU not in {pair.gpu for pair in found.of("nccl").pairs}
        assert (finding.subject, finding.status) == (GPU, "note")

    @pytest.mark.parametrize("lines", ["GPU Excluded:\t No\n", "GPU Excluded:\t Yex\n", ""])
    def test_a_gpu_that_is_not_excluded_is_no_note(self, good: Host, lines: str):
        """Also where the file ends before that line. Found by tools/fuzz/verdicts.py."""
        cut = {f"{GPU}/information": lambda text: text.partition("GPU Excluded")[0] + lines}
        results = check_results(Node(AlteredHost(good, files=cut)), [gpu_excluded])
        assert not any(isinstance(result.outcome, Failed) for result in results)


def test_a_gpu_of_a_virtual_machine_is_a_note_and_the_others_decide(good: Host):
    found = verdict(good, files={ENTRY: None, UEVENT: held_by("vfio-pci")})

    assert found.of("nccl").state is State.READY
    assert {f.status.value for f in found.findings if f.code == "gpu-passed-through"} == {"note"}
