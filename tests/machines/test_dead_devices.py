"""Devices that are there and do not work, beside what only looks so.

What each line means is NVIDIA's Xid catalogue's and mlx5's to say: machines/health.py."""

from __future__ import annotations

import random

import pytest
from machines.cases import Case, case, with_faults
from machines.compose import compose
from machines.facts import GPU_EXCLUDED, GPU_REFUSED, NEEDS_RESET, NIC_GIVEN_UP, SWITCHES_WAIT
from machines.faults import BY_NAME
from machines.faults.dead_devices import FAULTS
from machines.faults.decoys import DECOYS
from machines.pci import folder
from machines.truth import judge

from machines import health

WILLED = ("GPU excluded", "one GPU passed through")
"""Somebody's will, and no fault."""
KINDS = {NEEDS_RESET, GPU_REFUSED, NIC_GIVEN_UP, SWITCHES_WAIT}


def planted(name: str) -> Case:
    return with_faults(5, 0, random.Random(name), (BY_NAME[name],))


def log_of(made: Case) -> str:
    return compose(made.machine).files["sos_commands/kernel/dmesg"].decode()


@pytest.mark.parametrize("fault", ["GPU off the bus", "NIC that does not answer"])
def test_a_dead_device_blocks_and_is_the_cause(fault):
    made = planted(fault)

    assert judge(made.healthy).states["nccl"] <= {"ready", "active"}
    assert judge(made.machine).states["nccl"] == {"blocked"}
    assert "device-not-answering" in judge(made.machine).headline


def test_functions_without_an_id_of_their_own_change_nothing():
    made = planted("GPU off the bus")
    for nic in made.healthy.nics:
        nic.own_id = False

    assert judge(made.healthy).states["nccl"] <= {"ready", "active"}
    assert "device-not-answering" not in judge(made.healthy).codes


def test_the_evidence_has_ones_for_the_dead_device_alone():
    machine = planted("GPU off the bus").machine
    files = compose(machine).files
    spaces = {one.address: files[f"{folder(machine, one)}/config"] for one in (*machine.gpus, *machine.nics)}

    assert [address for address, space in spaces.items() if set(space) == {0xFF}] == [
        gpu.address for gpu in machine.gpus if not gpu.answers
    ]
    assert all(spaces[nic.address][:4] == b"\xff" * 4 for nic in machine.nics)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_node_is_never_ready_for_a_device_that_does_not_work(fault):
    made = planted(fault.name)

    if fault.name in WILLED:
        assert judge(made.machine).states["verbs"] == judge(made.healthy).states["verbs"]
        assert not judge(made.machine).codes & KINDS
    else:
        assert judge(made.machine).states["verbs"] == {"blocked"}
        assert judge(made.machine).headline & KINDS


@pytest.mark.parametrize("kind", health.XIDS)
def test_a_fatal_xid_names_the_slot_and_is_after_the_driver_was_loaded(kind):
    xid = health.XIDS[kind]
    made = planted(f"Xid {xid.number}, {kind}")
    (gpu,) = [gpu for gpu in made.machine.gpus if gpu.ill]
    lines = log_of(made).splitlines()
    said = next(at for at, line in enumerate(lines) if "Xid" in line)

    assert f"Xid (PCI:{gpu.address[:-2]}): {xid.number}, " in lines[said]
    assert any("NVRM: loading NVIDIA UNIX" in line for line in lines[:said])


def test_a_refused_gpu_has_no_entry_beside_one_that_has():
    made = planted("GPU that probe found dead")
    files = compose(made.machine).files
    (refused,) = [gpu for gpu in made.machine.gpus if gpu.ill]
    shown = {path.split("/")[4] for path in files if path.startswith("proc/driver/nvidia/gpus/")}

    assert refused.address not in shown
    assert shown == {gpu.address for gpu in made.machine.gpus} - {refused.address}
    assert "NVRM: The NVIDIA probe routine failed for 1 device(s)." in log_of(made)


def test_the_switches_of_a_board_are_set_up_unless_planted():
    made = planted("Fabric Manager not running")
    words = {
        name: compose(machine).files["sos_commands/gdr/nvidia-smi_-q"].decode()
        for name, machine in (("healthy", made.healthy), ("planted", made.machine))
    }

    assert "In Progress" not in words["healthy"] and ": Completed" in words["healthy"]
    assert "In Progress" in words["planted"]


def test_an_excluded_gpu_is_left_out_and_says_so():
    made = planted("GPU excluded")
    (gpu,) = [gpu for gpu in made.machine.gpus if gpu.excluded]
    files = compose(made.machine).files

    assert "GPU Excluded:\t Yes" in files[f"proc/driver/nvidia/gpus/{gpu.address}/information"].decode()
    assert GPU_EXCLUDED in judge(made.machine).codes


@pytest.mark.parametrize("kind", health.NIC_LOGS)
def test_a_nic_that_mlx5_gave_up_has_no_rdma_device_and_is_still_listed(kind):
    made = planted(f"NIC given up, {kind}")
    (nic,) = health.given_up(made.machine)
    files = compose(made.machine).files

    assert not any(path.startswith(f"{folder(made.machine, nic)}/infiniband") for path in files)
    assert f"{folder(made.machine, nic)}/config" in files
    assert f"mlx5_core {nic.address}: " in log_of(made)


@pytest.mark.parametrize("decoy", DECOYS, ids=lambda decoy: decoy.name)
def test_a_near_miss_leaves_evidence_and_changes_nothing(decoy):
    made = case(9, 0, decoy.name)
    without = with_faults(9, 0, random.Random(f"9 0 {decoy.name}"), (), decoys=())

    assert made.decoys == (decoy,)
    assert made.truth.states["verbs"] <= {"ready", "active"}
    assert not made.truth.codes & KINDS
    assert compose(made.machine).files != compose(without.machine).files


def test_some_machines_have_a_near_miss_beside_a_fault():
    made = [case(3, number) for number in range(12)]

    assert any(one.decoys and one.faults for one in made)
    assert any(not one.decoys for one in made)
