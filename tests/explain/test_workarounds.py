"""Settings by which people avoid a problem: they are not its cause."""

from __future__ import annotations

import pytest

from tests.explain.explaining import explained

SET = "```bash\nexport NCCL_IB_DISABLE=1\nexport NCCL_SOCKET_IFNAME=br0\n```\n"
SLOW = "NCCL is slow between two nodes\n\nalice commented 2 days ago\n"


@pytest.mark.parametrize(
    "words",
    [
        "I solved it with the steps below.\n\nopen ~/.bashrc:\n\n",
        "It is fixed by the following lines in our script.\n\n",
        "We worked around it like this:\n\n",
    ],
)
def test_what_turns_rdma_off_in_a_solution_is_not_the_cause(words):
    assert explained(f"{SLOW}{words}{SET}").answer.cause is None


@pytest.mark.parametrize(
    "words",
    [
        "We start it with the following lines.\n\n",
        "Was it ever solved with the following lines?\n\n",
        "I solved another problem last year.\n\n",
        "I solved it with the steps below.\n\nbob commented a day ago\nMine has this in the script:\n\n",
    ],
)
def test_what_turns_rdma_off_in_what_fails_is(words):
    assert explained(f"{SLOW}{words}{SET}").answer.cause == "ib-disabled-by-env"


def test_what_a_program_prints_below_a_solution_is_what_was_the_case():
    line = "n1:1:2 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.\n"
    text = f"{SLOW}It is solved now, the log was:\n\n```\n{line}```\n"
    assert explained(text).answer.cause == "ib-disabled-by-env"


CHANGE = (
    "fix(ci): use sockets of NCCL on small runners\n\n## Background\n\nIt fails: `NET/X : No device`.\n\n"
)


@pytest.mark.parametrize(
    ("heading", "cause"),
    [("## What changed", None), ("## Tested", None), ("## Before", "ib-disabled-by-env")],
)
def test_what_a_change_sets_is_not_why_it_was_needed(heading, cause):
    text = f"{CHANGE}{heading}\n\n- The command sets the plugin to `none` and `NCCL_NET=Socket`\n"
    assert explained(text).answer.cause == cause


def test_a_report_with_a_heading_about_tests_is_no_change():
    text = f"NCCL is slow between two nodes\n\n## Tests\n\n{SET}"
    assert explained(text).answer.cause == "ib-disabled-by-env"
