"""Each row of the catalogue matches its own line and no other row's, with any text before it."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdrkit import catalogue
from gdrkit.catalogue import every_message, rule_of
from gdrkit.messages import errors, kernel, modprobe
from gdrkit.messages.message import Match, MessageMatcher, MessageTemplate
from gdrkit.messages.verbs_failures import FAILINGS
from gdrkit.programs.nccl.log_records import Failure
from gdrkit.programs.nccl.network_messages import FAILED_STEPS, NO_FABRIC_MEMORY
from tests.messages.samples import FILLING, sample

CODES = set(catalogue.CODES)
IDS = [f"{row.program}: {row.template[:50]}" for row in every_message()]
BLAMING = [row for row in every_message() if row.causes or "{error}" in row.template]

BEFORE = (
    "[   12.345678] ", "[   12.345678][ T1234] ", "<4>[   12.345678] ",
    "kern  :warn  : [Thu Nov 20 17:55:01 2025] ", "[Thu Nov 20 17:55:01 2025] ", "dmesg: ",
    "Nov 20 17:55:01 dgx-01 kernel: ", "2025-11-20T17:55:01+0100 dgx-01 systemd-modules-load[312]: ",
    "2025-11-20T17:55:01.123456Z ", "INFO:root:", "2025-11-20 17:55:01,123 ERROR worker: ",
    "[1,3]<stdout>:", "3: ", "[rank3]: ", "(Worker pid=7, ip=10.0.0.9) ", "E1120 17:55:01.1 1 main.go:42] ",
    "nvidia-driver-daemonset-x7k2p nvidia-peermem-ctr ", "| ", "> ", "\t", "$ ", "ERROR: ",
)  # fmt: skip
"""Prefixes by dmesg, journald, syslog, a container runtime, launchers, Python's logging, klog and people."""


def a_match(text: str) -> Match:
    found = catalogue.match(text)
    assert found is not None
    return found


@pytest.mark.parametrize("row", every_message(), ids=IDS)
def test_each_row_matches_its_own_line(row: MessageTemplate):
    assert a_match(sample(row)).message is row


@pytest.mark.parametrize(
    "row", [row for row in every_message() if not row.sample], ids=lambda row: row.template[:50]
)
def test_values_filled_in_are_matched_again(row: MessageTemplate):
    assert a_match(sample(row)).values == {
        name: FILLING[name] for name in re.findall(r"\{(\w+)[:}]", row.template)
    }


def test_a_line_has_the_causes_of_only_one_row():
    """Two rows may match a line only if the first one is more specific."""
    both = {
        (row.template, other.template)
        for row in BLAMING
        for other in BLAMING
        if other is not row and other.match(sample(row))
    }

    assert both == {
        (kernel.LAYOUT.template, kernel.VERSION.template),
        ("{what:could not insert 'off'|Module off not found}", modprobe.NOT_FOUND.template),
        (
            r'error loading module {quote:\\?"}{module:nvidia[-_]peermem}{unquote:\\?"}',
            "load {module} failed: {error}",
        ),
    }


@pytest.mark.parametrize("row", every_message(), ids=IDS)
def test_any_prefix_of_a_line_gives_the_same_match(row: MessageTemplate):
    alone = a_match(sample(row))

    for outer, inner in itertools.product(("", *BEFORE), BEFORE):
        found = a_match(outer + inner + sample(row))
        assert found.message is row, outer + inner
        assert (found.values, found.causes) == (alone.values, alone.causes), outer + inner


@settings(deadline=None)
@given(host=st.from_regex(r"[a-z0-9][a-z0-9.-]{0,30}", fullmatch=True), seconds=st.floats(0, 1e6))
def test_no_hostname_and_no_time_hides_a_line(host: str, seconds: float):
    for before in (f"{host}: ", f"{host} kernel: [{seconds:12.6f}] ", f"[{seconds:.6f}] {host}[7]: "):
        for row in every_message():
            assert a_match(before + sample(row)).message is row, before


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([*map(sample, every_message()), *BEFORE, "of", "module", " "]), max_size=4).map(
        " ".join
    )
)
def test_the_index_misses_no_line(text: str):
    one_by_one = next((found for row in every_message() if (found := row.match(text))), None)
    found = catalogue.match(text)

    assert (found and found.message) is (one_by_one and one_by_one.message)


def test_the_order_of_rows_decides_not_that_of_words():
    rows = (MessageTemplate("a", "x some rare y{:.*}"), MessageTemplate("b", "z other words q"))
    found = MessageMatcher(rows).match("z other words q x some rare y")

    assert found is not None
    assert found.message is rows[0]


@settings(deadline=None)
@given(st.text())
def test_any_text_can_be_matched(text: str):
    catalogue.match(text)
    catalogue.match(f"modprobe: ERROR: could not insert 'x': {text}")


@pytest.mark.parametrize("row", every_message(), ids=IDS)
def test_a_row_has_a_source_and_causes_that_rules_declare(row: MessageTemplate):
    assert row.source
    assert len(row.causes) == len(set(row.causes))
    assert not set(row.causes) - CODES


def test_what_a_message_means_comes_before_what_to_do():
    todo = [row.meaning.todo for row in every_message() if row.meaning]
    assert [words for words in todo if words.startswith(("A ", "An ", "The "))] == []


def test_names_of_rows_are_unique():
    names = [row.name for row in every_message() if row.name]

    assert len(names) == len(set(names))


def test_every_ambiguous_cause_has_a_deciding_command():
    """Only codes that are one of several causes of a line need one."""
    several = {
        code for row in every_message() if len(row.causes) > 1 or not row.decides for code in row.causes
    }
    several |= {code for error in errors.ERRORS for code in errors.causes(error.words)}

    assert not [code for code in several if not rule_of(code).reported_by]


@pytest.mark.parametrize(
    "text",
    ["", "nvidia-smi -q", "Couldn't allocate", "error=14", "Couldn't allocate MR with error=140"],
)
def test_other_lines_do_not_match(text: str):
    assert catalogue.match(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "GPU Direct RDMA Enabled for HCA 0 'mlx5_0'",
        "NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'",
        "NET/Socket : GPU Direct RDMA Disabled for HCA 0 'eth0'",
        "GPU Direct RDMA Enabled for GPU 3 / HCA 1 (distance 4 <= 5), read 1",
    ],
)
def test_lines_without_a_failure_have_no_cause(text: str):
    found = catalogue.match(text)

    assert found is None or found.causes == ()


@pytest.mark.parametrize(
    "line",
    [
        "ibv_devinfo: symbol lookup error: ibv_devinfo: undefined symbol: ibv_x, version IBVERBS_PRIVATE_34",
        "/lib/libmlx5.so.1: symbol ibv_x, version IBVERBS_PRIVATE_34 not defined in file libibverbs.so.1",
        "OSError: /lib/libmlx5.so.1: version `IBVERBS_PRIVATE_34' not found (required by libx.so)",
    ],
)
def test_each_form_of_a_private_version_that_is_missing_has_the_same_cause(line: str):
    assert a_match(line).causes == ("verbs-provider-mismatch",)


def test_a_line_on_module_layout_means_another_kernel_not_another_crc():
    assert a_match("x: disagrees about version of symbol module_layout").causes == ("module-wrong-kernel",)


def test_dashes_and_underscores_are_the_same_name():
    found = a_match("modprobe: ERROR: could not insert 'nvidia-peermem': Exec format error")

    assert found.values["module"] == "nvidia_peermem"


def test_a_loader_of_another_name_matches_with_its_module():
    found = a_match("systemd-modules-load[300]: Failed to insert module 'nvidia_peermem': Invalid argument")

    assert found.values["module"] == "nvidia_peermem"
    assert found.causes == errors.causes("Invalid argument")


@pytest.mark.parametrize(
    ("key", "line"),
    [
        (("ibv_reg_mr", 14), "Call to ibv_reg_mr failed with error Bad address"),
        (("ibv_reg_mr", 14), "ibv_reg_mr(addr=0x7f) failed, errno: 14"),
        (("ibv_reg_mr", 12), "Call to ibv_reg_mr failed with error Cannot allocate memory"),
        (("ibv_reg_mr", 12), "Couldn't allocate MR with error=12"),
        (("ibv_reg_dmabuf_mr", 95), "Call to ibv_reg_dmabuf_mr failed with error Operation not supported"),
        (("ibv_reg_dmabuf_mr", 93), "ibv_reg_dmabuf_mr: Protocol not supported"),
        (("ibv_reg_dmabuf_mr", 22), "Call to ibv_reg_dmabuf_mr failed with error Invalid argument"),
        (("ibv_reg_dmabuf_mr", 14), "Call to ibv_reg_dmabuf_mr failed with error Bad address"),
        (("ibv_reg_dmabuf_mr", 12), "ibv_reg_dmabuf_mr: Cannot allocate memory"),
        (("ibv_reg_mr", 22), "ibv_reg_mr failed (errno 22)"),
        (("completion", 12), "a work item failed: status 12"),
        (("completion", 12), "Transport retry count exceeded on mlx5_0:1/RoCE (synd 0x15 vend 0x81)"),
        (("ibv_modify_qp", 22), "Call to ibv_modify_qp failed with error Invalid argument"),
        (
            ("completion", 4),
            "Got completion from peer 10.0.0.2<1> with status=4 opcode=0 len=0 vendor err 81",
        ),
        (("completion", 4), "Got completion from peer 10.0.0.2<1> with status=IBV_WC_LOC_PROT_ERR(4) len=0"),
        (("completion", 12), "Got completion with error 12, opcode 0, len 0, vendor err 129"),
    ],
)
def test_an_error_of_a_call_has_the_same_causes_in_a_line_and_by_number(key: tuple[str, int], line: str):
    assert FAILINGS[key].causes == a_match(line).causes


def test_a_failed_step_has_the_same_causes_in_a_line_and_by_name():
    rows = [row for row in every_message() if row.make is not None and row.program == "nccl"]
    steps = {
        row.template: (row.causes, FAILED_STEPS[record.call].causes)
        for row in rows
        if isinstance(record := row.make(found(row)), Failure) and record.call in FAILED_STEPS
    }

    assert {text: pair for text, pair in steps.items() if pair[0] != pair[1]} == {
        # a failure only beside lines about NVLink between hosts
        r"Cuda failure {number:80[01]} '": ((), FAILED_STEPS[NO_FABRIC_MEMORY].causes)
    }
    assert len(steps) > 8


def found(row: MessageTemplate) -> Match:
    """The match of a row in its own line."""
    match = row.match(sample(row))
    assert match is not None
    return match


def test_causes_of_failed_calls_are_declared():
    assert {code for failing in FAILINGS.values() for code in failing.causes} <= CODES
