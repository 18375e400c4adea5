"""Outputs of many machines: each group that a header names, and each label, is a machine of its own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.explain.lines.fan_out import command_there, drained, group_headers, labelled
from gdrkit.explain.lines.transcript import read
from gdrkit.explain.outputs.pasted_host import PastedHost
from tests.explain.explaining import explained

CLUSH, DSHBAK = "-" * 15, "-" * 16
OPEN = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.158.01  Release Build  (dvs-builder@U16)"
)
PROPRIETARY = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.158.01  Thu May 22 22:46:41 UTC 2025"


def grouped(command: str, ruler: str = CLUSH, **groups: str) -> str:
    """A command and what groups of machines printed; a `_` in their names stands for brackets."""
    shown = ""
    for name, output in groups.items():
        stem, _, numbers = name.partition("__")
        nodes = f"{stem}[{numbers.replace('_', '-')}]" if numbers else name
        shown += f"{ruler}\n{nodes}\n{ruler}\n{output}\n"
    return f"$ {command}\n{shown}"


def codes(text: str) -> dict[str, set[str]]:
    """By machine, what is proven or open there."""
    return {
        one.name: {found.code for found in (*one.established, *one.notes)}
        | {code for line in one.open for code in line.codes}
        for one in explained(text).machines
    }


@pytest.mark.parametrize("ruler", [CLUSH, DSHBAK])
def test_each_group_of_a_fleet_has_its_own_driver(ruler: str):
    text = grouped(
        "clush -bw gpu[001-500] cat /proc/driver/nvidia/version",
        ruler,
        gpu__001_497=OPEN,
        gpu498=PROPRIETARY,
    )
    found = codes(text)
    assert "driver-proprietary" in found["gpu498"]
    assert "driver-proprietary" not in found["gpu[001-497]"]
    assert not any(one.contradictions for one in explained(text).machines)
    assert explained(text).answer.machine == "gpu498"


def test_groups_need_no_command_and_no_rulers_of_one_kind_are_mixed():
    shown = f"{CLUSH}\ngpu1\n{CLUSH}\n{OPEN}\n{CLUSH}\ngpu2\n{CLUSH}\n{PROPRIETARY}\n"
    assert "driver-proprietary" in codes(shown)["gpu2"]
    mixed = [CLUSH, "gpu1", DSHBAK, OPEN]
    assert group_headers(mixed) == {}


@pytest.mark.parametrize(
    ("lines", "names"),
    [
        ([CLUSH, "gpu[001-497] (497)", CLUSH], ["gpu[001-497]"]),
        ([CLUSH, "login1,gpu[001-003,7]", CLUSH], ["login1,gpu[001-003,7]"]),
        ([CLUSH, "gpu1.example.org,gpu2.example.org (2)", CLUSH], ["gpu1,gpu2"]),
        ([CLUSH, "rack[1-2]node[1-8].example.org", CLUSH], ["rack[1-2]node[1-8]"]),
        ([CLUSH, "10.0.0.[1-4]", CLUSH], ["10.0.0.[1-4]"]),
        ([CLUSH, "RDMA_Write BW Test", CLUSH], []),
        ([CLUSH, "gpu1", "gpu2", CLUSH], []),
        (["-" * 14, "gpu1", "-" * 14], []),
        ([CLUSH, CLUSH, CLUSH], []),
    ],
)
def test_what_is_a_header(lines: list[str], names: list[str]):
    assert list(group_headers(lines).values()) == names


@pytest.mark.parametrize(
    ("command", "there"),
    [
        ("clush -bw gpu[001-500] 'modinfo -F license nvidia'", "modinfo -F license nvidia"),
        ('pdsh -w gpu[1-9] "lsmod | grep -c peermem" | dshbak -c', "lsmod | grep -c peermem"),
        ("sudo pdsh -R ssh -a uname -r", "uname -r"),
        ("/usr/bin/clush -a -b -t 5 --nostdin uname -r", "uname -r"),
        ("clush -bg compute lsmod", "lsmod"),
        ("pdsh -a lsmod | grep peermem", "lsmod | grep peermem"),
        ("clush -bw gpu1 'uname", ""),
        ("clush --version", ""),
        ("cat clush.txt", ""),
        ("modinfo nvidia", ""),
    ],
)
def test_what_a_command_runs_on_every_machine(command: str, there: str):
    assert command_there(command) == there


def test_a_short_output_of_a_group_is_one_of_the_command_that_ran_there():
    text = grouped(
        "clush -bw gpu[001-500] 'modinfo -F license nvidia'",
        gpu__001_250="Dual MIT/GPL",
        gpu__251_500="NVIDIA",
    )
    assert codes(text) == {"gpu[251-500]": {"driver-proprietary"}}


@pytest.mark.parametrize("label", ["gpu7: ", "gpu[007-009]: ", "gpu7:"])
def test_a_label_in_the_output_of_such_a_command_is_a_machine(label: str):
    shown = f"$ clush -w gpu[001-009] 'modinfo -F license nvidia'\nlogin: Dual MIT/GPL\n{label}NVIDIA\n"
    assert codes(shown) == {label.strip(" :"): {"driver-proprietary"}}


def test_the_errors_of_the_program_are_of_no_machine_named_like_it():
    assert labelled("clush: gpu7: exited with exit code 1", "clush -a true") is None
    assert labelled("login: 5", "clush -w gpu1 nproc") is None
    assert labelled("login: 5", "clush -w login nproc") == ("login", "5")


@pytest.mark.parametrize(
    ("counts", "gpu1", "gpu2"), [("grep -c peermem", "1", "0"), ("grep peermem | wc -l", "1", "0")]
)
def test_a_count_of_none_shows_the_group_without_the_module(counts: str, gpu1: str, gpu2: str):
    text = grouped(f'pdsh -a "lsmod | {counts}" | dshbak -c', gpu1=gpu1, gpu2=gpu2) + "$ date\n"
    assert codes(text) == {"gpu2": {"peermem-not-loaded"}}


def test_a_count_of_ports_that_redirect_names_the_group_that_has_some():
    command = """pdsh -a "lspci -vvv | grep -c 'ACSCtl:.*ReqRedir+'" | dshbak -c"""
    answer = explained(grouped(command, DSHBAK, gpu__001_212="0", gpu__213_214="16")).answer
    assert ([one.code for one in answer.others], answer.machine) == (["acs-redirect"], "gpu[213-214]")
    assert "clear-acs-redirect" in answer.now[0]
    assert explained(grouped(command, DSHBAK, gpu__001_212="0")).answer.kind in ("nothing", "no-problem")


def test_the_next_command_and_what_people_write_are_of_no_group():
    text = grouped("clush -a uname -r", gpu1="6.8.0-1-generic", gpu2="6.8.0-2-generic")
    text += "\nThis is what the login node says.\n\n$ uname -r\n5.15.0-9-generic\n"
    hosts = {line.text: line.host for line in read(text) if line.kind == "machine"}
    assert hosts == {"6.8.0-1-generic": "gpu1", "6.8.0-2-generic": "gpu2", "5.15.0-9-generic": ""}


def test_groups_of_a_long_text_keep_their_headers():
    groups = {f"gpu{number}": PROPRIETARY if number % 2 else OPEN for number in range(160)}
    text = grouped("clush -ab cat /proc/driver/nvidia/version", **groups)
    text += "a line of a job without a meaning\n" * 2000
    found = {name for name, own in codes(text).items() if "driver-proprietary" in own}
    assert found == {name for name, version in groups.items() if version is PROPRIETARY}


@given(
    st.lists(
        st.sampled_from([CLUSH, DSHBAK, "gpu1", "gpu[2-3] (2)", OPEN, "$ clush -a uname -r", "", "6.8"])
    )
)
def test_every_line_with_text_is_read_at_most_once_as_an_output(lines: list[str]):
    host = PastedHost("\n".join(lines) + "\n")
    numbers = [line.number for line in host.lines if line.kind == "machine"]
    assert len(numbers) == len(set(numbers))


DRAINED = (
    "NHC: check_hw_ib: No IB port mlx5_3:1 is ACTIVE (LinkUp 400 Gb/sec).  root      2026-11-29T03:12:44"
    " gpu-b[017,221]"
)


@pytest.mark.parametrize(
    ("command", "row", "nodes"),
    [
        ("sinfo -R", DRAINED, "gpu-b[017,221]"),
        ("ssh head sinfo -R", DRAINED.replace("gpu-b[017,221]", "n1.cluster,n2  "), "n1,n2"),
        ("sinfo -R", "REASON               USER      TIMESTAMP           NODELIST", ""),
        ("sinfo -R", DRAINED.replace("gpu-b[017,221]", "Unknown reason"), ""),
        ("cat notes", DRAINED, ""),
    ],
)
def test_a_reason_of_slurm_is_of_the_nodes_in_its_row(command: str, row: str, nodes: str):
    assert drained(row, command) == nodes


def test_what_slurm_says_of_a_node_is_not_of_the_machine_that_asks():
    lines = read(f"[root@login1 ~]# sinfo -R\nREASON  USER  TIMESTAMP  NODELIST\n{DRAINED}\n")
    assert [line.host for line in lines] == ["login1", "login1", "gpu-b[017,221]"]


@pytest.mark.parametrize(
    ("lines", "names"),
    [
        (["------- gpu[01-04] -------", "x", "------- gpu05 -------"], ["gpu[01-04]", "gpu05"]),
        (["gpu01 | CHANGED | rc=0 >>", "x", "gpu02.example.org | FAILED | rc=1 >>"], ["gpu01", "gpu02"]),
        (["[1] 10:00:00 [SUCCESS] gpu01", "[2] 10:00:01 [FAILURE] gpu02 Exited"], ["gpu01", "gpu02"]),
        (["--- step1 ---", "--- 10.0.0.2 ping statistics ---", "| a | CHANGED |"], []),
    ],
)
def test_what_is_a_header_in_one_line(lines: list[str], names: list[str]):
    assert list(group_headers(lines).values()) == names
