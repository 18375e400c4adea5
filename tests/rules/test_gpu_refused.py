"""GPUs that NVIDIA's driver does not use."""

from __future__ import annotations

import pytest

from gdrkit.evidence import Host, Missing, MissingReason
from gdrkit.evidence.target import open_host
from gdrkit.facts.commands import DMESG
from gdrkit.facts.gpu_refusal import refusal
from gdrkit.facts.pci import gpus
from gdrkit.node import Node
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
