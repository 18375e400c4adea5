"""A setting counts wherever a text sets it for a job, and not where a sentence mentions it."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.explain.lines.transcript import read
from gdrkit.explain.outputs.settings import settings
from tests.explain.explaining import explained

SET = ("NCCL_IB_DISABLE", "1")
LOG = "h1:10:11 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>\n"
RAN = f"```\n{LOG}```\n"


def found(text: str) -> list[tuple[str, str]]:
    return [setting for given in settings(read(text)).values() for setting in given]


FORMS = [
    "$ export NCCL_IB_DISABLE=1\n",
    "export NCCL_IB_DISABLE=1\n",
    "$ NCCL_IB_DISABLE=1 torchrun train.py\n",
    "$ mpirun -np 2 -x NCCL_IB_DISABLE=1 ./all_reduce_perf\n",
    "$ mpirun -np 2 \\\n  -x NCCL_IB_DISABLE=1 \\\n  ./all_reduce_perf\n",
    "$ docker run -e NCCL_IB_DISABLE=1 image\n",
    "$ docker run --env NCCL_IB_DISABLE=1 image\n",
    "```\nFROM base\nENV NCCL_IB_DISABLE=1\n```\n",
    "```\nFROM base\nENV NCCL_IB_DISABLE 1\n```\n",
    "```\nenv:\n- name: NCCL_IB_DISABLE\n  value: '1'\n```\n",
    '```\nenv:\n  - name: "NCCL_IB_DISABLE"\n    value: "1"\n```\n',
    "```\nenv:\n- {name: NCCL_IB_DISABLE, value: '1'}\n```\n",
    '```\nenvironment:\n  NCCL_IB_DISABLE: "1"\n```\n',
    "```\nenvironment:\n  - NCCL_IB_DISABLE=1\n```\n",
    '```\n{"env": {\n  "NCCL_IB_DISABLE": "1",\n```\n',
    "```\nos.environ['NCCL_IB_DISABLE'] = '1'\n```\n",
    "$ env | grep NCCL\nNCCL_IB_DISABLE=1\n",
    "env:\n- name: NCCL_IB_DISABLE\n  value: '1'\n",
]


@pytest.mark.parametrize("text", FORMS)
def test_a_setting_is_found(text):
    assert found(text) == [SET]


@pytest.mark.parametrize("text", FORMS)
def test_an_empty_value_is_a_value(text):
    """`mpirun -x NCCL_IB_HCA= -np 8` ended in an internal error."""
    empty = re.sub(r"(['\"])1\1", r"\1\1", text).replace("=1", "=").replace("DISABLE 1", "DISABLE ")
    assert empty != text and found(empty) in ([], [("NCCL_IB_DISABLE", "")])


@pytest.mark.parametrize(
    "text",
    [
        "I set NCCL_IB_DISABLE=1 once, and it was no better.\n",
        "Run it as mpirun -x NCCL_IB_DISABLE=1 if you can.\n",
        "> - name: NCCL_IB_DISABLE\n>   value: '1'\n\nI would not do that.\n",
        "> export NCCL_IB_DISABLE=1\n\nI would not do that.\n",
        "```\n- name: NCCL_IB_DISABLE\n  valueFrom: x\n  value: '1'\n```\n",
        "```\nname: other\nvalue: '1'\n```\n",
        "h1:10:11 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.\n",  # NCCL's own line
    ],
)
def test_other_lines_set_nothing(text):
    assert found(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "```\nenv:\n- name: NCCL_IB_DISABLE\n  value: '1'\n```\nThe pod prints:\n\n" + RAN,
        "```\nENV NCCL_IB_DISABLE=1\n```\nThe container prints:\n\n" + RAN,
        "$ mpirun -np 2 -x NCCL_IB_DISABLE=1 ./all_reduce_perf\n# Avg bus bandwidth    : 1.2\n",
    ],
)
def test_a_setting_of_a_job_that_ran_decides(text):
    codes = [one.code for machine in explained(text).machines for one in machine.established]

    assert "ib-disabled-by-env" in codes


def test_a_setting_without_a_job_decides_nothing():
    codes = [
        one.code
        for machine in explained("```\nENV NCCL_IB_DISABLE=1\n```\n").machines
        for one in machine.established
    ]

    assert codes == []


@pytest.mark.parametrize(
    ("setting", "code"),
    [
        ("mpirun -np 2 -x NCCL_IB_DISABLE=1 ./all_reduce_perf", "ib-disabled-by-env"),
        ("env:\n- name: NCCL_NET\n  value: 'Socket'", "ib-disabled-by-env"),
        ("docker run -e NCCL_NET_GDR_LEVEL=LOC image", "gdr-level-too-low"),
        ("$ export NCCL_NET_GDR_READ=0", "gdr-read-off"),
        ("$ export NCCL_DMABUF_ENABLE=0", "dmabuf-disabled-by-env"),
        ("mpirun -np 2 -x NCCL_IB_DISABLE=0 ./all_reduce_perf", None),
        ("docker run -e NCCL_NET_GDR_LEVEL=SYS image", None),
    ],
)
def test_a_setting_that_turns_a_path_off_is_a_possible_cause_until_another_line_fails(setting, code):
    slow = "Training on H100 with ConnectX-7 and RDMA is slow, dma-buf included\n"
    answer = explained(slow + setting + "\n").answer
    assert (answer.cause, answer.sureness) == (code, "possible")
    failed = explained(
        f"{slow}{setting}\nmodprobe: FATAL: Module nvidia-peermem not found in directory /lib\n"
    )
    assert failed.answer.cause == "module-not-found"


@given(st.text(alphabet="-x export NCCL_IB=1:{}[]\"'name value,\n"))
def test_any_text_can_be_read(text):
    found(text)
