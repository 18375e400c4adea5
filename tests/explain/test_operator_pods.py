"""Outputs of the pods of NVIDIA's operators: which line is the cause, and which only follows from it."""

from __future__ import annotations

import pytest

from tests.explain.explaining import explained

PEERMEM_LOG = "$ kubectl logs -n gpu-operator nvidia-driver-daemonset-hx8vk -c nvidia-peermem-ctr --tail 5\n"
FAILED = "failed to load nvidia-peermem module\n"
NOT_FOUND = "modprobe: FATAL: Module nvidia-peermem not found in directory /lib/modules/6.8.0-1059-azure\n"
REFUSED = "modprobe: ERROR: could not insert 'nvidia_peermem': {}\n"
DISAGREES = "[81231.1] nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client\n"


# -- what the container says at its end --------------------------------------------------------------


@pytest.mark.parametrize(
    "why, code",
    [
        (NOT_FOUND, "operator-module-missing"),
        (
            REFUSED.format("Exec format error")
            + "$ dmesg\n[ 12.1] nvidia_peermem: version magic '6.8.0-1 SMP' should be '6.8.0-2 SMP'\n",
            "module-wrong-kernel",
        ),
        (
            REFUSED.format("Unknown symbol in module, or unknown parameter (see dmesg)")
            + "$ dmesg\n[ 12.1] nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -2)\n",
            "module-symbol-missing",
        ),
    ],
)
def test_that_the_module_did_not_load_is_no_failure_of_its_own(why, code):
    """NVIDIA/gpu-operator issue 2619."""
    first, _, rest = why.partition("\n")
    found = explained(f"{PEERMEM_LOG}{first}\n{FAILED}{rest}").answer
    assert found.cause == code
    assert found.besides == ()


def test_that_the_module_did_not_load_is_all_that_a_log_may_show():
    found = explained(PEERMEM_LOG + FAILED).answer
    assert {"operator-ofed-changed", "module-unsigned"} <= {cause.code for cause in found.others}


def test_a_module_of_another_name_does_not_explain_it():
    text = f"{PEERMEM_LOG}{FAILED}$ dmesg\n[ 12.1] mlx5_ib: Unknown symbol ib_register_device (err -2)\n"
    found = explained(text).answer
    assert found.cause == "module-symbol-missing"
    assert [failure.line.line for failure in found.besides] == [2]


def test_a_symbol_with_another_version_does_not_say_what_was_replaced():
    """NVIDIA/gpu-operator issue 2868; there is no OFED container where the host has the OFED."""
    host = "$ ofed_info -s\nMLNX_OFED_LINUX-24.10-3.2.5.0:\n$ kubectl get nicclusterpolicy -A\nNo resources"
    refused = PEERMEM_LOG + REFUSED.format("Invalid argument") + FAILED
    for text in (f"{refused}$ dmesg\n{DISAGREES}", f"{refused}{host} found\n$ dmesg\n{DISAGREES}"):
        found = explained(text).answer
        assert (found.cause, found.sureness) == ("operator-ofed-changed", "certain")
        assert "container was replaced" not in found.sentence and "another RDMA stack" in found.sentence
