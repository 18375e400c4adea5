"""Links read from the whole nodes described under tests/evidence."""

import pytest

from gdrkit.evidence.target import open_host
from gdrkit.fabric.ceilings.from_node import node_links
from gdrkit.fabric.ceilings.node_links import Attachment, CommonPoint
from gdrkit.fabric.ceilings.paths import chain, node_total
from gdrkit.node import Node
from tests.evidence_nodes import build
from tests.hardware import BARE_METAL, SERVER, machine
from tests.rules.hardware import NIC_FOLDER


@pytest.fixture
def read(tmp_path):
    def of(name):
        return node_links(Node(open_host(str(build(name, tmp_path)))))

    return of


def test_a_spark_is_one_card_with_two_links_and_two_ports(read):
    found = read("spark-two-cables")

    assert [gpu.attachment for gpu in found.gpus] == [Attachment.INTEGRATED]
    assert len(found.cards) == 1
    assert {function.links[0].address for function in found.functions} == {"0000:01:00", "0002:01:00"}
    assert {function.port_key[1] for function in found.functions} == {"p0", "p1"}
    assert 25.67 in node_total(found).rate


def test_an_idle_gpu_counts_with_the_best_speed_of_its_link(read):
    """The GPUs of these nodes idle at 2.5 GT/s."""
    found = read("ubuntu-6.8-h100")

    assert {gpu.links[0].pcie.gt_per_s for gpu in found.gpus} == {32.0}


def test_a_nic_in_a_slot_of_four_lanes_is_bound_by_it(read):
    found = read("nic-x4")
    tightest = chain(found, found.pairs[0], "direct").tightest

    assert tightest.name == "nic-link"
    assert "x4" in tightest.description


def test_redirecting_ports_move_the_common_point_to_the_root_complex(read):
    found = read("acs-redirect")

    assert {pair.common_point for pair in found.pairs} == {CommonPoint.ROOT_COMPLEX}


def test_a_port_that_is_down_does_not_count(read):
    found = read("acs-redirect")
    whole = node_total(found)

    assert {function.name: function.down for function in found.functions} == {"mlx5_0": "", "mlx5_1": "DOWN"}
    assert whole.unknown == ()
    assert whole.rate.high_gb_per_s == pytest.approx(49.68, abs=0.01)
    assert "down and not counted: mlx5_1" in whole.tightest.description


@pytest.mark.parametrize(
    ("state", "down"),
    [("1: DOWN", "DOWN"), ("2: INIT", "INIT"), ("3: ARMED", "ARMED"), ("4: ACTIVE", ""),
     ("5: ACTIVE_DEFER", ""), ("0: NOP", ""), (None, "")],
)  # fmt: skip
def test_a_port_is_down_only_if_its_state_was_read(tmp_path, state, down):
    path = build("acs-redirect", tmp_path)
    file = path.resolve() / "sys/class/infiniband/mlx5_1/ports/1/state"
    file.unlink()
    if state is not None:
        file.write_text(f"{state}\n")
    found = {function.name: function for function in node_links(Node(open_host(str(path)))).functions}

    assert found["mlx5_1"].down == down
    assert found["mlx5_1"].active is (state == "4: ACTIVE")


@pytest.mark.parametrize(("first", "second"), [("100", "200"), ("200", "100")])
def test_of_two_active_ports_the_faster_one_counts(first, second):
    port = {"state": "4: ACTIVE\n", "rate": f"{second} Gb/sec (4X)\n", "link_layer": "InfiniBand\n"}
    folder = f"{NIC_FOLDER}/infiniband/mlx5_0/ports/2"
    files = BARE_METAL | {f"{folder}/{name}": text for name, text in port.items()}
    (found,) = node_links(machine(SERVER.replace("cx7-ib", f"cx7-ib rate={first}"), files=files)).functions

    assert found.port.rate_gbit_per_s == 200


def test_a_gh200_is_attached_by_c2c(read):
    found = read("gh200")

    assert [gpu.attachment for gpu in found.gpus] == [Attachment.C2C]
    assert chain(found, found.pairs[0], "direct").tightest.name == "port"


def test_a_virtual_machine_without_a_nic_has_gpus_and_no_routes(read):
    found = read("h200-vm")

    assert found.gpus
    assert found.pairs == ()
    assert node_total(found).rate is None


def test_an_efa_is_known_by_its_pci_id(tmp_path):
    """Its driver reports 100 Gb/s of every generation; the id is that of a card of 200 Gb/s."""
    path = build("acs-redirect", tmp_path)
    uevent = path.resolve() / "sys/bus/pci/devices/0000:18:00.0/uevent"
    text = uevent.read_text().replace("PCI_ID=15B3:1021", "PCI_ID=1D0F:EFA2")
    uevent.write_text(text.replace("v000015B3d00001021", "v00001D0Fd0000EFA2"))
    (path.resolve() / "sys/class/infiniband/mlx5_0/ports/1/rate").write_text("100 Gb/sec (4X EDR)\n")
    found = {function.name: function for function in node_links(Node(open_host(str(path)))).functions}

    assert str(found["mlx5_0"].port) == "200 Gb/s EFA"


def test_a_gpu_that_no_nic_reaches_is_refused_by_the_code_of_its_kind(read):
    assert [gpu.refusal for gpu in read("rocky-3090-stock").gpus] == ["gpu-consumer"]


def test_a_gpu_that_a_nic_reaches_is_not_refused(read):
    assert {gpu.refusal for gpu in read("ubuntu-6.8-h100").gpus} == {""}
