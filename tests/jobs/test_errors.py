"""What failed in a job beside the direct path: plugins, TCP, processes that stop."""

from __future__ import annotations

import pytest

from gdrkit.jobs.document import document, exit_code, summary
from gdrkit.jobs.line_counts import Tally
from gdrkit.jobs.text import text
from tests.explain.explaining import explained
from tests.jobs.large_job import large_job
from tests.jobs.samples import info, warn
from tests.jobs.test_samples import analysed

TWO = large_job(hosts=2)


def page(log: str) -> str:
    return text(document(analysed(log)), width=300)


# -- jobs that fail before any channel -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "line", "words"),
    [
        ("misc/socket.cc:550", "socketPollConnect: Connect to 10.0.0.4<5> returned 113(No route to host)",
         "does not reach the other host over TCP"),
        ("misc/socket.cc:550", "socketPollConnect: Connect to 172.17.0.1<3> returned 111(... refused)",
         "for Docker"),
        ("bootstrap.cc:45", "Bootstrap : no socket interface found", "names none that is up"),
        ("misc/shmutils.cc:87", "Error: failed to extend /dev/shm/nccl-Xh to 33030532 bytes, error",
         "(/dev/shm) is too small"),
        ("bootstrap.cc:77", "Message truncated : received 172 bytes instead of 64", "different jobs"),
    ],
)  # fmt: skip
def test_a_warning_that_is_known_is_the_headline_and_has_its_step(place, line, words):
    log = info("h1:7", 0, "Bootstrap: Using eth0:10.0.0.3<0>") + warn("h1:7", 0, place, line)
    found = analysed(log)

    assert "NCCL_DEBUG=INFO" not in summary(found) and summary(found).startswith("no network channel; ")
    assert words in page(log) and f"next: {found.errors[0].todo}" in page(log)


def test_two_versions_are_the_headline_of_a_job_without_a_channel():
    line = "Mismatched NCCL version detected : rank 0 version 22105 rank 8 version 22703"
    found = analysed(warn("h1:7", 0, "init.cc:1016", line))
    assert summary(found).startswith("no network channel; Mismatched NCCL version")


def test_of_errors_those_that_follow_come_last():
    log = warn("h1:7", 0, "misc/socket.cc:49", "Net : Connection closed by remote peer 10.0.0.2<4>")
    log += warn("h1:8", 1, "include/alloc.h:178", "Cuda failure 'out of memory'")
    assert analysed(log).errors[0].words == "Cuda failure 'out of memory'"


# -- events of the NIC, and memory of the GPU --------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("NET/IB : mlx5_32:1 Got async event : port error", "port-down"),
        ("NET/IB : mlx5_32:1 Got async error event: port error", "port-down"),
        ("NET/IB : mlx5_32:1 Got non-fatal async event: port error(10)", "port-down"),
        ("NET/IB : mlx5_0:1 Got async event : local catastrophic error", "nic-failed"),
        ("NET/IB : mlx5_0:1 async fatal event: local catastrophic error", "nic-failed"),
    ],
)
def test_an_event_of_the_nic_is_an_error_with_its_possible_cause(line: str, code: str):
    log = warn("h1:7", 0, "transport/net_ib.cc:199", line)
    (error,) = analysed(log).errors

    assert error.codes == (code,) and error.words == line
    assert explained(log).answer.cause == code and explained(log).answer.sureness == "likely"
    assert "NCCL_DEBUG=INFO" not in summary(analysed(log))


@pytest.mark.parametrize(
    "line",
    [
        "NET/IB : mlx5_32:1 Got async error event: port active",
        "NET/IB : mlx5_32:1 Got non-fatal async event: port active(9)",
        "NET/IB : mlx5_0:1 Got async event : client reregistration",
        "NET/IB : mlx5_0:1 GID table changed",
    ],
)
def test_an_event_that_stops_nothing_is_no_error(line: str):
    assert not analysed(warn("h1:7", 0, "transport/net_ib.cc:199", line)).errors


def test_a_port_that_fails_just_before_its_peer_misses_it_is_the_cause():
    port = warn("h1:7", 0, "transport/net_ib.cc:199", "NET/IB : mlx5_3:1 Got async error event: port error")
    completion = "NET/IB: Got completion from peer 10.0.0.4<4> with status=12 opcode=0 len=0 vendor err 129"
    late = warn("h2:8", 0, "transport/net_ib.cc:1800", f"{completion} (Recv)")

    assert explained(port + late).answer.cause == "port-down"
    assert explained(port.replace("error event: port error", "event : port active") + late).answer.cause == (
        "retry-exceeded"
    )


@pytest.mark.parametrize("failure", ["'out of memory'", "2 'out of memory'"])
def test_a_gpu_whose_memory_is_full_is_named_in_each_form_of_cudas_error(failure: str):
    (error,) = analysed(warn("h1:7", 0, "include/alloc.h:228", f"Cuda failure {failure}")).errors
    assert "ran out of memory" in error.meaning


def test_another_error_of_cuda_is_not_taken_for_a_full_memory():
    log = warn("h1:7", 0, "include/alloc.h:228", "Cuda failure 999 'unknown error'")
    assert all("ran out of memory" not in one.meaning for one in analysed(log).errors)


# -- plugins ---------------------------------------------------------------------------------------------

GLIBC = (
    "NET/Plugin: Plugin load returned 2 : /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.32' not found "
    "(required by /usr/local/nvidia/lib64/libnccl-net.so) : when loading libnccl-net.so"
)
NOT_FOUND = "libnccl-net.so: cannot open shared object file: No such file or directory"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (GLIBC, "newer glibc"),
        ("NET/Plugin : dlerror=/lib64/libc.so.6: version `GLIBC_2.34' not found (required by /x/l.so)"
         " No plugin found (libnccl-net.so), using internal implementation", "newer glibc"),
        ("NET/Plugin: libnccl-net-ofi.so: libfabric.so.1: cannot open shared object file: No such file or"
         " directory", "a library that it needs"),
        ("NET/Plugin: libcudart.so.11.0: cannot open shared object file: No such file or directory",
         "a library that it needs"),
        ("NET/Plugin : Plugin load (libnccl-net.so) returned 2 : /x/libnccl-net.so: undefined symbol: ibv_x",
         "dynamic loader refuses"),
    ],
)  # fmt: skip
def test_a_plugin_that_cannot_be_loaded_is_no_misleading_line(line, words):
    log = info("h1:7", 0, "NET/Plugin: No plugin found (libnccl-net.so)", line,
               "NET/Plugin: Using internal network plugin.")  # fmt: skip
    found = analysed(log + warn("h1:7", 0, "net.cc:579", "Error: network gIB not found."))

    first, last = found.errors
    assert "cannot be loaded" in first.meaning and words in first.meaning and first.todo
    assert last.words == "Error: network gIB not found."
    assert not found.misleading and "plugin cannot be loaded" in summary(found)


@pytest.mark.parametrize("demanded", ["IB", "AWS Libfabric"])
def test_a_network_that_is_demanded_and_has_no_device_stops_the_job_and_leaves_no_tcp(demanded: str):
    start = info("n1:7", 0, f"NCCL_NET set by environment to {demanded}", "NET/IB : No device found.")
    found = analysed(start + warn("n1:7", 0, "plugin/net.cc:321", "Failed to initialize any NET plugin"))
    own = demanded == "IB"

    assert found.state == "unknown" and "TCP" not in text(document(found))
    assert ("unset NCCL_NET" in found.errors[0].todo and "no plugin" in found.errors[0].todo) is own
    assert ("LD_LIBRARY_PATH" in found.errors[0].todo) is not own


@pytest.mark.parametrize("setting", ["NCCL_NET set by environment to Socket", "NCCL_DEBUG set to INFO"])
def test_without_a_device_nccl_uses_tcp_where_no_other_network_is_demanded(setting: str):
    found = analysed(info("n1:7", 0, setting, "NET/IB : No device found."))
    assert found.state == "blocked" and "TCP" in text(document(found))


def test_a_plugin_that_is_asked_for_and_not_found_is_no_misleading_line_either():
    log = info("h1:7", 0, "NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.")
    found = analysed(log + warn("h1:7", 0, "net.cc:579", "Error: network gIB not found."))
    assert not found.misleading and "LD_LIBRARY_PATH" in found.errors[0].todo


@pytest.mark.parametrize(
    "line",
    [
        f"NET/Plugin: Plugin load returned 2 : {NOT_FOUND} : when loading libnccl-net.so",
        f"NET/Plugin : Plugin load (libnccl-net.so) returned 2 : {NOT_FOUND}",
        f"NET/Plugin : dlerror={NOT_FOUND} No plugin found (libnccl-net.so), using internal implementation",
        f"TUNER/Plugin: {GLIBC.removeprefix('NET/Plugin: ')}",
    ],
)
def test_a_plugin_that_is_not_there_is_no_error(line):
    log = info("h1:7", 0, line, "NET/Plugin: Using internal network plugin.")
    found = analysed(log)
    assert not found.errors and found.misleading[0].truth.startswith("normal")


@pytest.mark.parametrize(("provider", "codes"), [("tcp", True), ("udp", True), ("efa", False)])
def test_the_provider_of_libfabric_says_why_a_leg_is_not_direct(provider, codes):
    log = info(
        "h1:7", 0, f"NET/OFI Selected Provider is {provider} (found 1 nics)", "Using network AWS Libfabric",
        "Channel 00/0 : 8[0] -> 0[0] [receive] via NET/AWS Libfabric/0",
    )  # fmt: skip
    (why,) = document(analysed(log)).why_not_direct
    assert (why.codes[:1] == ("rdma-device-not-in-container",)) is codes
    assert (f"its provider is {provider}" in why.text) is codes


# -- a job that runs, and then fails ---------------------------------------------------------------------

NO_ANSWER = warn(
    "gpu01:4104", 4, "transport/net_ib.cc:2353",
    "NET/IB: Got completion from peer 10.5.0.11<44206> with status=12 opcode=0 len=0 vendor err 129 (Send)",
)  # fmt: skip
MEMORY = "[rank13]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (MEMORY, "ran out of memory"),
        ("[rank13]: ValueError: could not broadcast input array\n", "an error of its own"),
        ("E1124 06:25:03.9 44 torch/distributed/elastic/api.py:874] failed (exitcode: -9) local_rank: 5\n",
         "an error of its own"),
    ],
)  # fmt: skip
def test_a_process_that_stops_by_itself_comes_before_what_its_peers_report(line, words):
    found = analysed(TWO + line + NO_ANSWER)

    assert [(error.call, error.count) for error in found.errors] == [("process", 1), ("completion", 1)]
    assert words in found.errors[0].meaning
    assert found.state == "active" and summary(found).endswith("; then errors")


TABLE = """\
E1124 06:25:03.9 44 torch/distributed/elastic/api.py:874] failed (exitcode: {0}) local_rank: 5
Root Cause (first observed failure):
[0]:
  time      : 2026-11-24_06:25:01
  host      : gpu02
  rank      : 13 (local_rank: 5)
  exitcode  : {0} (pid: 4711)
  error_file: <N/A>
  traceback : {1}
============================================================
"""
"""As the launchers of vllm-project/speculators issue 1115 and NVIDIA/nccl issue 1439 print it."""
KILLED = TABLE.format(-9, "Signal 9 (SIGKILL) received by PID 4711")


def test_the_process_that_torchrun_names_as_the_first_leads_the_page():
    log = TWO + NO_ANSWER + KILLED
    first, peers = analysed(log).errors
    shown = page(log)

    assert "rank 13 on gpu02 was ended by Signal 9 (SIGKILL)" in first.meaning and "OOMKilled" in first.todo
    assert log.splitlines()[first.line.line - 1].strip() == first.words
    assert peers.call == "completion"
    assert shown.index("torchrun's table") < shown.index("status=12")


@pytest.mark.parametrize("size", [1, 40, 4096])
def test_a_table_may_begin_in_one_chunk_and_end_in_another(size: int):
    tally, lines = Tally(), (NO_ANSWER + KILLED).splitlines(keepends=True)
    for at in range(0, len(lines), size):
        tally.feed("".join(lines[at : at + size]).encode(), 0)
    (found,) = tally.failures.first()
    assert found.by_itself and "rank 13" in found.words


def test_a_table_that_one_file_cuts_off_does_not_go_on_in_the_next():
    tally, lines = Tally(), KILLED.splitlines(keepends=True)
    tally.feed("".join(lines[:5]).encode(), 0)
    tally.feed("".join(lines[5:]).encode(), 1)
    assert not list(tally.failures.first())


def test_of_the_tables_of_several_launchers_one_that_says_why_counts():
    exits = TABLE.format(1, "To enable traceback see: docs/stable/elastic/errors.html")
    found = [error.meaning for error in analysed(TWO + NO_ANSWER + exits + KILLED).errors]
    assert "Signal 9" in found[0] and not any("exit code 1" in one for one in found)


@pytest.mark.parametrize("code", [1, -6])
def test_a_table_without_a_reason_comes_after_what_says_one(code: int):
    table = TABLE.format(code, "Signal 6 (SIGABRT) received by PID 4711" if code < 0 else "see the log")
    found = [error.call for error in analysed(TWO + NO_ANSWER + table).errors]
    assert found == ["completion", *["process"] * (code == 1)]


def test_an_exception_that_no_peer_notices_is_no_error_of_the_job():
    found = analysed(TWO + MEMORY)
    assert not found.errors and exit_code(document(found)) == 0
    assert not summary(found).endswith("errors")


def test_what_a_process_reports_of_its_peers_is_not_the_first_failure():
    line = "[rank13]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3356, remote\n"
    assert [error.call for error in analysed(TWO + line + NO_ANSWER).errors] == ["completion"]


def test_a_hang_of_the_watchdogs_is_compared():
    hang = (
        "[rank{0}]:[E810 03:04:11.0 ProcessGroupNCCL.cpp:2241] [PG ID 0 PG GUID 0(default_pg) Rank {0}] "
        " failure detected by watchdog at work sequence id: {1} PG status: last enqueued work: {1}, last "
        "completed work: 806\n"
    )
    log = "".join(hang.format(rank, 807) for rank in range(200)) + hang.format(200, 806)
    (error,) = analysed(log).errors

    assert error.meaning.startswith("Rank 200 did not start operation 807") and error.ranks == 201
    assert "py-spy" in page(log)


CALL_FAILED = (
    "[rank0]: torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/"
    "ProcessGroupNCCL.cpp:1333, unhandled system error, NCCL version 2.18.5\n"
)
REFUSED = warn(
    "ps-9:12",
    0,
    "misc/socket.cc:484",
    "socketStartConnect: Connect to {}<47113> failed : Connection refused",
)


def two_hosts(interface: str, address: str) -> str:
    """NVIDIA/nccl issue 1105: two hosts, one of which offers an address that the other does not reach."""
    return (
        info("ps-8:7", 1, f"Bootstrap : Using {interface}:{address}<0>", "NET/IB : No device found.",
             "Using network Socket")
        + info("ps-9:12", 0, "Bootstrap : Using enp67s0:192.168.1.9<0>", "Using network Socket")
        + warn("ps-9:12", 0, "misc/socket.cc:484", REFUSED.format(address))
    )  # fmt: skip


def test_the_error_that_ended_a_job_comes_before_its_path():
    log = two_hosts("br-4e5f60905511", "172.18.0.1")
    ended, going = document(analysed(log + CALL_FAILED)), document(analysed(log))
    assert (ended.ended, going.ended) == (True, False)
    assert text(ended).startswith("Errors: the first one ended the job") and text(going).startswith(
        "blocked"
    )


@pytest.mark.parametrize("name", ["br-4e5f60905511", "docker0"])
def test_a_bridge_of_docker_is_named_with_the_interface_of_the_others(name):
    (error,) = analysed(two_hosts(name, "172.18.0.1")).errors
    assert f"172.18.0.1, the address of its Docker bridge {name}" in error.meaning
    assert "NCCL_SOCKET_IFNAME=enp67s0" in error.todo


def test_another_interface_may_be_reached():
    (error,) = analysed(two_hosts("br0", "172.18.0.1")).errors  # a bridge of the host's own network
    assert "Docker" not in error.meaning
