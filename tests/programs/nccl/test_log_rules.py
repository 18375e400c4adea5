"""Findings in logs of NCCL and runs of perftest."""

from __future__ import annotations

import pytest

from gdrkit.programs.nccl.log_rules import (
    env_differs_between_ranks,
    proof_misread,
    rail_unreachable,
    retry_exceeded,
    versions_differ_between_ranks,
)
from gdrkit.verdict.cells import paths_closed_by
from tests.programs.nccl.diagnostic_reports import LOGS
from tests.rules.machines import does_not_apply, failed, missing, node, passes

LOG, RUN = "sos_commands/nccl/rank0", "sos_commands/perftest/run"
A, B = "n1:7:8 [0] NCCL INFO ", "n2:9:9 [0] NCCL INFO "


def log(*lines: str, path: str = LOG) -> dict[str, str]:
    return {path: "\n".join(lines) + "\n"}


# -- env-differs-between-ranks -----------------------------------------------------------------------------

LEVEL = "NCCL_NET_GDR_LEVEL set by environment to PHB"
DEBUG = "NCCL_DEBUG set by environment to INFO"


def test_a_variable_set_in_one_rank_only_is_found():
    found = failed(node(log(A + LEVEL, A + DEBUG, B + DEBUG)), env_differs_between_ranks)

    assert found.seen == "NCCL_NET_GDR_LEVEL is PHB on n1:7, unset on n2:9"


def test_different_values_in_two_ranks_are_found_across_files():
    one = log(A + "NCCL_DMABUF_ENABLE set by environment to 0.", path="sos_commands/nccl/n1")
    two = log(B + "NCCL_DMABUF_ENABLE set by environment to 1.", path="sos_commands/nccl/n2")

    assert failed(node(one, two), env_differs_between_ranks).subject == "NCCL_DMABUF_ENABLE"


def test_ranks_that_agree_pass_and_some_lists_may_differ():
    hca = "NCCL_IB_HCA set to mlx5_{}"

    assert passes(node(log(A + LEVEL, B + LEVEL)), env_differs_between_ranks)
    same_but_for_names = log(A + LEVEL, A + hca.format(0), B + LEVEL, B + hca.format(4))
    assert passes(node(same_but_for_names), env_differs_between_ranks)


def test_a_rank_that_prints_no_settings_is_not_compared():
    assert does_not_apply(node(log(A + LEVEL, B + "Using network IB")), env_differs_between_ranks)
    assert does_not_apply(node(), env_differs_between_ranks)


def test_a_report_of_diagnostics_names_the_variable_that_differs():
    report = (LOGS / "environment-differs.log").read_text()
    found = failed(node({LOG: report}), env_differs_between_ranks)

    assert found.subject == "NCCL_DMABUF_ENABLE"
    assert found.seen == "NCCL_DMABUF_ENABLE is unset on ranks 0-7, 0 on ranks 8-15"


def test_a_report_without_a_difference_passes_and_one_about_file_names_does_not_apply():
    equal = "n1:7 NCCL DIAG [OK]   NCCL environment: NCCL_* env vars consistent across 16 ranks in comm 0x1"
    files = "n1:7 NCCL DIAG [INFO] NCCL environment: NCCL_DEBUG_FILE=/tmp/a on rank(s) {0}"

    assert passes(node(log(equal)), env_differs_between_ranks)
    assert does_not_apply(node(log(files)), env_differs_between_ranks)


# -- versions-differ-between-ranks -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lines",
    [
        ("n1:1:1 [0] NCCL WARN Mismatched NCCL version detected : rank 0 version 22304 rank 1 version 1",),
        ("NCCL version 2.21.5+cuda12.4", "NCCL version 2.23.4+cuda12.6"),
    ],
)
def test_two_versions_in_one_job_are_found(lines: tuple[str, ...]):
    assert failed(node(log(*lines)), versions_differ_between_ranks).expected == "one version"


def test_two_logs_of_two_runs_are_not_one_job():
    before = log("NCCL version 2.21.5+cuda12.4", path="sos_commands/nccl/before")
    after = log("NCCL version 2.23.4+cuda12.6", path="sos_commands/nccl/after")

    assert passes(node(before, after), versions_differ_between_ranks)
    assert does_not_apply(node(), versions_differ_between_ranks)


# -- retry-exceeded ----------------------------------------------------------------------------------------

COMPLETION = "NET/IB : Got completion from peer 10.0.0.2<3> with status={} opcode=0 len=0 vendor err {}"


def test_a_completion_with_status_12_is_found():
    found = failed(node(log(A + COMPLETION.format(12, 129))), retry_exceeded, LOG)

    assert (found.seen, found.subject) == ("completion status 12, vendor error 129", f"{LOG}:1")
    assert paths_closed_by(retry_exceeded.takes(LOG)) == ()


@pytest.mark.parametrize(("status", "vendor"), [(4, 81), (5, 249), (13, 135)])
def test_other_completion_errors_are_not_found(status: int, vendor: int):
    assert passes(node(log(A + COMPLETION.format(status, vendor))), retry_exceeded, LOG)
    assert does_not_apply(node(log("no line of NCCL's")), retry_exceeded, LOG)


# -- rail-unreachable --------------------------------------------------------------------------------------


MODIFY = "Call to ibv_modify_qp failed with {}"


ON = "110 Connection timed out, on dev mlx5_1:1, curr state INIT, next state RTR, local GID index 3"


def test_an_address_that_does_not_resolve_is_found():
    words = f"{ON}, local GID ::ffff:10.7.1.4, remote GID ::ffff:10.7.2.4"
    found = failed(node(log(A + MODIFY.format(words))), rail_unreachable, LOG)

    assert "ibv_modify_qp failed with 110 on mlx5_1" in found.seen
    assert paths_closed_by(rail_unreachable.takes(LOG)) == (), "it says nothing against the direct path"


@pytest.mark.parametrize(
    "words",
    [ON, "error Connection timed out errno 110", "error Network is unreachable", "error No route to host",
     f"{ON}, local GID fe80::ac0:ebff:fe1a:2b3c, remote GID ::ffff:10.7.2.4",
     f"{ON}, local GID ::ffff:10.7.1.4, remote GID ::",
     f"{ON}, local GID ::ffff:169.254.9.1, remote GID ::ffff:169.254.9.2"],
)  # fmt: skip
def test_without_two_addresses_the_gid_can_be_wrong_instead(words: str):
    assert "both ends" in missing(node(log(A + MODIFY.format(words))), rail_unreachable, LOG).source


def test_another_error_of_the_same_call_is_not_found():
    words = "22 Invalid argument, on dev mlx5_1:1, curr state INIT, next state RTR"
    assert passes(node(log(A + MODIFY.format(words))), rail_unreachable, LOG)
    assert does_not_apply(node(log("no line of NCCL's")), rail_unreachable, LOG)


# -- proof-misread -----------------------------------------------------------------------------------------

CLAIMS = (
    "DMA-BUF is available on GPU device 0",
    "NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'",
    "NET/IB : GPU Direct RDMA (DMABUF) enabled for HCA 0 'mlx5_0",
    "Connected all rings, use ring PXN 0 GDR 1",
)
STAGED = "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0"


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_line_about_one_side_is_not_proof(claim: str):
    assert "no channel line" in failed(node(log(A + claim)), proof_misread, LOG).seen
    assert (
        "1 channel lines without /GDRDMA"
        in failed(node(log(A + claim, A + STAGED)), proof_misread, LOG).seen
    )


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_channel_line_with_gdrdma_is_proof(claim: str):
    assert passes(node(log(A + claim, A + STAGED + "/GDRDMA")), proof_misread, LOG)


def test_a_socket_with_gdrdma_is_not_proof():
    """NCCL prints it if a topology file says so, but TCP copies the data."""
    socket = (STAGED + "/GDRDMA").replace("NET/IB", "NET/Socket")

    assert failed(node(log(A + CLAIMS[0], A + socket)), proof_misread, LOG).seen == (
        f"{CLAIMS[0]}, and 1 channel lines through TCP or host memory"
    )


def test_a_log_without_such_lines_is_not_judged():
    assert does_not_apply(node(log(A + "Connected all rings, use ring PXN 0 GDR 0")), proof_misread, LOG)
    assert does_not_apply(node(log("prose")), proof_misread, LOG)


TABLE = " 65536      5000             105.1              104.9   0.2\n"


def test_a_perftest_run_on_an_integrated_gpu_is_not_proof():
    text = {RUN: f"ib_write_bw --use_cuda=0\nCUDA device integrated: 1\n{TABLE}"}

    assert failed(node(text), proof_misread, RUN).expected == "a run on a GPU with memory of its own"
    own = {RUN: f"ib_write_bw --use_cuda=0\nCUDA device integrated: 0\n{TABLE}"}
    assert does_not_apply(node(own), proof_misread, RUN)
