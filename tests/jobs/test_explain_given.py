"""Variables next to a pasted log count as settings of its job."""

from __future__ import annotations

import pytest

from gdrkit.explain.explain import explain
from gdrkit.explain.outputs.pasted_host import PastedHost
from gdrkit.jobs.written import nccl_text
from tests.jobs.samples import info

LOG = info("n1:7", 0, "Using network IB", "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0")


@pytest.mark.parametrize("others", ["We see this on every node, since the update.\nx = 1\n", "x = 1\n"])
def test_one_sentence_makes_a_text_of_which_lines_without_a_process_do_not_count(others: str):
    quoted = "NCCL INFO Using network Socket\n"
    found = nccl_text((others * 9 + quoted + LOG).encode())

    assert bool(found.dropped) is ("We see" in others)
    assert ("" in found.lines) is ("We see" in others)


def test_the_version_between_lines_with_a_process_is_that_of_the_process():
    prose = "We see this on every node, since the update.\n" * 9
    version = "NCCL version 2.21.5+cuda12.4\n"

    assert version.strip() in nccl_text((prose + LOG + version + LOG).encode()).lines
    assert version.strip() not in nccl_text((prose + version + prose + LOG).encode()).lines


UNNAMED = (
    "NCCL INFO NET/IB : No device found.",
    "misc/ibvwrap.cc:212 NCCL WARN Call to ibv_open_device failed",
    "NCCL INFO Using network Socket",
)


def test_several_lines_in_a_row_are_a_log_whose_processes_were_cut_off():
    """NVIDIA/nccl issue 451; a single line of the kind may be an example."""
    prose = "We see this on every node, since the update.\n" * 9
    assert not nccl_text((prose + "\n".join(UNNAMED)).encode()).dropped
    assert len(nccl_text((prose + f"\n{prose}".join(UNNAMED)).encode()).dropped) == len(UNNAMED)


def codes(text: str) -> set[str]:
    machines = explain(PastedHost(text.encode())).machines
    return {found.code for machine in machines for found in machine.established}


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ("export NCCL_NET_GDR_LEVEL=ALL", "gdr-level-ignored"),
        (
            "$ mpirun -np 2 -x NCCL_DEBUG=INFO -x NCCL_DMABUF_ENABLE=0 ./all_reduce_perf",
            "dmabuf-disabled-by-env",
        ),
        ("$ export NCCL_IB_DISABLE=1", "ib-disabled-by-env"),
        ("$ NCCL_NET_GDR_READ=0 NCCL_DEBUG=INFO torchrun train.py", "gdr-read-off"),
    ],
)
def test_a_command_or_export_next_to_a_log_belongs_to_its_job(settings: str, code: str):
    assert code in codes(f"I run this:\n\n{settings}\n{LOG}")
    assert code not in codes(LOG)


def test_advice_is_not_a_setting_and_without_a_log_there_is_no_job():
    assert codes(f"Somebody told me to try NCCL_NET_GDR_LEVEL=ALL first.\n\n{LOG}") == codes(LOG)
    assert codes("$ export NCCL_IB_DISABLE=1\n") == set()
