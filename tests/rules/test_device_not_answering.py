"""GPUs and NICs that are listed and do not answer."""

from __future__ import annotations

import pytest

from gdrkit.evidence import Command, EvidenceMissing, Host, Missing, MissingReason
from gdrkit.evidence.target import open_host
from gdrkit.node import Node
from gdrkit.repair.remedies.plan import plan, what_then
from gdrkit.rules.device_not_answering import device_not_answering
from gdrkit.rules.rule import Failed, Outcome, Passed, Unknown
from gdrkit.verdict import judge_node
from gdrkit.verdict.path_state import State
from tests.evidence_nodes import laid_down
from tests.hardware import BARE_METAL, SERVER, SMI, machine
from tests.hiding_host import HidingHost
from tests.known_answers import judged
from tests.rules.hardware import GPU, GPU_FOLDER, NIC, NIC_FOLDER, outcomes

DEAD_GPU = SERVER.replace("h100-sxm", "h100-sxm answers=no")
DEAD_NIC = SERVER.replace("cx7-ib", "cx7-ib answers=no")
DEAD_BOTH = DEAD_GPU.replace("cx7-ib", "cx7-ib answers=no")
SECOND_NIC = "    0000:17:02.0 pex89-down\n      0000:19:00.0 cx7-ib rdma=mlx5_1\n"
ONES = b"\xff" * 64
NO_CONFIG = (f"{GPU_FOLDER}/config", f"{NIC_FOLDER}/config")
DMESG = ("dmesg",)
LSPCI = ("lspci", "-nnvvv")
LINUX = "[    0.000000] Linux version 6.8.0-45-generic (x) #45\n"
XID = "[   41.12] NVRM: Xid (PCI:{slot}): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"


def kinds(node: Node) -> list[type[Outcome]]:
    """Of the GPU, then of the NIC."""
    return [type(found) for found in outcomes(node, device_not_answering)]


def failure(node: Node) -> Failed:
    (found,) = [found for found in outcomes(node, device_not_answering) if isinstance(found, Failed)]
    return found


def test_a_gpu_and_a_nic_that_answer_pass():
    assert kinds(machine()) == [Passed, Passed]
    assert kinds(machine(root=False)) == [Passed, Passed]


@pytest.mark.parametrize("root", [True, False])
@pytest.mark.parametrize(("outline", "subject"), [(DEAD_GPU, GPU), (DEAD_NIC, "mlx5_0")])
def test_a_device_whose_header_is_all_ones_is_named_and_blocks(outline: str, subject: str, root: bool):
    node = machine(outline, root=root)
    found = failure(node)
    verdict = judged(node)
    finding = next(f for f in verdict.findings if f.code == "device-not-answering")

    assert found.subject == finding.subject == subject
    assert subject in found.seen
    assert (verdict.of("nccl").state, verdict.of("nccl").cause.rule.code) == ("blocked", finding.code)
    assert (finding.status, finding.confidence, finding.remedies) == ("failed", "certain", ("power-cycle",))
    assert any("ff in each of the first 64 bytes" in evidence.text for evidence in finding.evidence)


def test_a_virtual_function_whose_id_alone_is_all_ones_answers():
    assert kinds(machine(SERVER.replace("cx7-ib", "cx7-ib id=ffff"))) == [Passed, Passed]


class TestHidden:
    def test_a_configuration_space_that_was_not_collected_is_no_fault(self):
        """The link in sysfs was read from the device; of one that is gone it shows nothing."""
        assert kinds(machine(without=NO_CONFIG)) == [Passed, Passed]
        assert kinds(machine(DEAD_BOTH, without=NO_CONFIG)) == [Unknown, Unknown]

    @pytest.mark.parametrize("size", [0, 1, 63])
    def test_less_than_a_header_shows_nothing(self, size: int):
        short = BARE_METAL | dict.fromkeys(NO_CONFIG, ONES[:size])

        assert kinds(machine(files=short)) == [Passed, Passed]
        assert kinds(machine(DEAD_BOTH, files=short)) == [Unknown, Unknown]

    def test_nor_does_a_file_that_may_not_be_read(self):
        node = Node(Denied(machine(DEAD_BOTH).host))
        assert kinds(node) == [Unknown, Unknown]


class Denied(HidingHost):
    """A host on which no configuration space may be read."""

    def _ask(self, name: str) -> None:
        super()._ask(name)
        if name.endswith("/config"):
            raise EvidenceMissing(Missing(name, MissingReason.DENIED, f"sudo xxd /{name}"))


def lspci(gpu: str, nic: str) -> Node:
    """A machine of which lspci alone shows whether its devices answer."""
    links = tuple(
        f"{at}/current_link_{what}" for at in (GPU_FOLDER, NIC_FOLDER) for what in ("speed", "width")
    )
    return machine(without=(*NO_CONFIG, *links), commands={LSPCI: gpu + "\n" + nic})


TITLE = f"{GPU} 3D controller [0302]: NVIDIA Corporation GH100 [10de:2330] (rev {{rev}})\n"
NIC_LISTED = f"{NIC} Infiniband controller [0207]: Mellanox [15b3:1021]\n\tFlags: bus master, fast devsel\n"


@pytest.mark.parametrize(
    ("listed", "kind"),
    [
        (TITLE.format(rev="ff") + "\t!!! Unknown header type 7f\n\tKernel driver in use: nvidia\n", Failed),
        (TITLE.format(rev="a1") + "\t!!! Unknown header type 7f\n", Failed),
        (TITLE.format(rev="ff") + "\tKernel driver in use: nvidia\n", Failed),
        (TITLE.format(rev="ff"), Failed),
        (TITLE.format(rev="ff") + "\tControl: I/O- Mem+ BusMaster+\n", Passed),
        (TITLE.format(rev="a1") + "\tFlags: bus master, fast devsel, latency 0\n", Passed),
        (TITLE.format(rev="a1") + "\t!!! Unknown header type 05\n", Unknown),
        (TITLE.format(rev="a1") + "\tKernel driver in use: nvidia\n", Unknown),
        (TITLE.format(rev="a1"), Unknown),
    ],
)
def test_lspci_shows_it_too(listed: str, kind: type[Outcome]):
    assert kinds(lspci(listed, NIC_LISTED)) == [kind, Passed]


def test_numbers_that_nvidia_smi_read_from_the_gpu_show_that_it_answers():
    printed = (
        "Attached GPUs : 1\nGPU 00000000:1B:00.0\n    BAR1 Memory Usage\n        Total : {}\n"
        "        Used : 1 MiB\n"
    )
    for total, kind in (("131072 MiB", Passed), ("N/A", Unknown), ("GPU is lost", Unknown)):
        hidden = (*NO_CONFIG, f"{GPU_FOLDER}/current_link_speed")
        node = machine(without=hidden, commands={SMI: printed.format(total)})
        assert kinds(node)[0] is kind, total


class TestKernelLog:
    @pytest.mark.parametrize(
        ("line", "quoted"),
        [
            (XID.format(slot=GPU[:-2]), "Xid 79"),
            (XID.format(slot=GPU), "Xid 79"),
            (f"[   41.12] NVRM: GPU {GPU}: GPU has fallen off the bus.\n", "fallen off the bus"),
            (XID.format(slot="0000:2b:00"), ""),
            (XID.format(slot=GPU[:-2]).replace("): 79,", "): 43,"), ""),
        ],
    )
    def test_a_line_about_this_slot_is_quoted_and_no_other(self, line: str, quoted: str):
        node = machine(DEAD_GPU, commands={DMESG: LINUX + line})
        found = failure(node)
        finding = next(f for f in judge_node(node).findings if f.code == "device-not-answering")

        assert quoted in found.seen
        assert ("kernel log" in found.seen) == bool(quoted)
        assert any("NVRM" in evidence.text for evidence in finding.evidence) == bool(quoted)

    def test_a_line_of_an_earlier_boot_is_not(self):
        node = machine(DEAD_GPU, commands={DMESG: LINUX + XID.format(slot=GPU[:-2]) + LINUX})
        assert "kernel log" not in failure(node).seen

    def test_a_line_alone_is_no_proof_that_the_device_is_still_gone(self):
        assert kinds(machine(commands={DMESG: LINUX + XID.format(slot=GPU[:-2])})) == [Passed, Passed]


class TestAsleep:
    ASLEEP = DEAD_GPU.replace("answers=no", "answers=no power=D3cold")

    def test_a_gpu_without_power_is_not_known_to_be_gone(self):
        assert kinds(machine(self.ASLEEP)) == [Unknown, Passed]

    def test_one_that_fell_off_the_bus_is(self):
        assert failure(machine(self.ASLEEP, commands={DMESG: LINUX + XID.format(slot=GPU[:-2])}))

    def test_and_so_is_one_that_has_power(self):
        assert failure(machine(self.ASLEEP.replace("D3cold", "D0")))


class TestNics:
    def test_another_nic_as_near_serves_the_gpu(self):
        verdict = judged(machine(DEAD_NIC + SECOND_NIC))
        (finding,) = [f for f in verdict.findings if f.code == "device-not-answering"]

        assert (finding.subject, finding.status) == ("mlx5_0", "note")
        assert {pair.device for pair in verdict.of("nccl").pairs} == {"mlx5_1"}

    def test_one_without_an_rdma_device_is_named_beside_others(self):
        dead = SECOND_NIC.replace(" rdma=mlx5_1", " answers=no")
        found = failure(machine(SERVER + dead))
        assert (found.subject, found.takes) == ("0000:19:00.0", None)

    def test_and_blocks_where_there_is_no_other(self):
        verdict = judged(machine(DEAD_NIC.replace(" rdma=mlx5_0", "")))
        assert (verdict.of("nccl").state, verdict.of("nccl").cause.rule.code) == (
            "blocked",
            "device-not-answering",
        )


class Gone(HidingHost):
    """A host one of whose devices does not answer any more: ones, and what the kernel makes of them."""

    def __init__(self, host: Host, address: str, hidden: frozenset[str] | set[str] = frozenset()) -> None:
        super().__init__(host, hidden)
        self._address = address

    def read(self, path: str) -> bytes:
        found = super().read(path)
        if self._address not in path:
            return found
        name = path.rpartition("/")[2]
        return {"config": ONES, "current_link_speed": b"Unknown\n", "current_link_width": b"63\n"}.get(
            name, found
        )

    def run(self, command: Command) -> bytes:
        if command.line.startswith(("lspci", "nvidia-smi")):
            raise EvidenceMissing(Missing(command.line, MissingReason.NOT_COLLECTED, command.line))
        return super().run(command)


READY_NODE = "ubuntu-6.8-h100"
ITS_GPU, ITS_NIC = "0000:1b:00.0", "0000:18:00.0"


@pytest.fixture(scope="module")
def good() -> Host:
    return open_host(str(laid_down(READY_NODE)))


class TestGoodMachine:
    @pytest.mark.parametrize("address", [ITS_GPU, ITS_NIC])
    def test_one_dead_device_of_a_good_machine_blocks_it(self, good: Host, address: str):
        assert judge_node(Node(HidingHost(good))).of("nccl").state is State.READY
        state = judge_node(Node(Gone(good, address))).of("nccl")

        assert (state.state, state.first_broken_layer) == (State.BLOCKED, "hardware")
        assert state.cause is not None and state.cause.rule.code == "device-not-answering"

    @pytest.mark.parametrize("address", [ITS_GPU, ITS_NIC])
    def test_whatever_is_hidden_of_it_the_machine_is_never_ready(self, good: Host, address: str):
        whole = Gone(good, address)
        judge_node(Node(whole))
        about = [source for source in whole.asked if address in source]
        assert any(source.endswith("/config") for source in about)
        for hidden in ({"sys/bus/pci/devices"}, set(about), *({source} for source in about)):
            state = judge_node(Node(Gone(good, address, hidden))).of("nccl")
            assert state.state in (State.BLOCKED, State.UNKNOWN), hidden

    def test_no_plan_promises_that_it_comes_back(self, good: Host):
        node = Node(Gone(good, ITS_GPU))
        verdict = judge_node(node)
        (chain,) = what_then(node, verdict, "nccl")

        assert not plan(node, verdict, "nccl")
        assert [(step.remedy.name, step.then.state) for step in chain] == [("power-cycle", State.UNKNOWN)]
