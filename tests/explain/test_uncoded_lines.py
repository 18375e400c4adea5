"""Problems without a code: what programs print about something else than the direct path."""

from __future__ import annotations

import pytest

from tests.explain.explaining import explained
from tests.jobs.samples import info

RANKS = """\
# nThread 1 nGpus 2 minBytes 8 maxBytes 268435456 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1
#  Rank  0 Group  0 Pid   3591 on   gpu1 device  0 [0x03] NVIDIA A100-PCIE-40GB
#  Rank  1 Group  0 Pid   3591 on   gpu1 device  1 [0x03] NVIDIA A100-PCIE-40GB
#  Rank  {} Group  0 Pid   2451 on   gpu2 device  0 [0x03] NVIDIA A100-PCIE-40GB
"""
RESULT = "     1048576        262144     float     sum      -1    85.1   12.32   23.10      0\n"


def test_two_processes_that_are_both_rank_0_are_two_jobs():
    """NVIDIA/nccl-tests issue 182: mpirun of a build without MPI=1."""
    found = explained(RANKS.format(0)).answer
    assert (found.kind, found.lines[0].line) == ("elsewhere", 4)
    assert "3591 on gpu1 and 2451 on gpu2 are both rank 0" in found.sentence


def test_one_list_of_ranks_and_two_runs_one_after_the_other_are_no_jobs_apart():
    assert "both rank 0" not in explained(RANKS.format(2)).answer.sentence
    first, _, second = RANKS.format(0).rpartition("#  Rank")
    assert "both rank 0" not in explained(f"{first}{RESULT}#  Rank{second}").answer.sentence


def test_a_remark_on_a_command_is_not_the_answer_to_its_output(cli):
    """That a level is written as a number explains nothing that the command prints."""
    command = "$ mpirun -x NCCL_NET_GDR_LEVEL=5 -np 2 ./all_reduce_perf -g 1\n"
    words = cli(command + RANKS.format(2))
    assert "config check finds" not in words.partition("\n")[0] and "there is no level ALL" in words
    assert "NCCL_NET_GDR_LEVEL" in cli(command)


@pytest.fixture
def cli(tmp_path, capsys):
    """The page of a text, as the command prints it."""
    from gdrkit.cli import main

    def run(text: str) -> str:
        (tmp_path / "text").write_text(text)
        main(["explain", str(tmp_path / "text")])
        return capsys.readouterr().out

    return run


WRONG_TYPE = "n1:7:9 [0] misc/socket.cc:441 NCCL WARN socketFinalizeAccept: wrong type {}\n"
MIXED = (
    "n1:7:9 [0] NCCL INFO NET/IB : No device found.\nn1:7:9 [0] NCCL INFO Using network Socket\n"
    "n2:7:9 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.2<0>\n"
    "n2:7:9 [0] NCCL INFO Using network IB\n"
)


@pytest.mark.parametrize("types", ["4 != 3", "3 != 4"])
def test_ranks_that_chose_different_networks_are_named_as_such(types: str):
    """NVIDIA/nccl-tests issue 188."""
    found = explained(MIXED + WRONG_TYPE.format(types)).answer
    assert found.kind == "elsewhere" and "different networks" in found.sentence
    assert "no-rdma-device" in [one.code for one in found.others]


def test_another_kind_of_connection_is_no_choice_of_networks():
    assert "different networks" not in explained(MIXED + WRONG_TYPE.format("1 != 2")).answer.sentence


LOOPBACK = (
    "p1:9:9 [1] NCCL INFO NET/IB : No device found.\n"
    "p1:9:9 [1] NCCL INFO NET/Socket : Using {}\np1:9:9 [1] NCCL INFO Using network Socket\n"
)


def test_a_job_whose_sockets_are_the_loopback_interface_needs_no_network():
    found = explained(LOOPBACK.format("[0]lo:127.0.0.1<0>"))
    assert (found.answer.kind, found.answer.others, found.question is None) == ("harmless", (), True)


@pytest.mark.parametrize("names", ["[0]eth0:10.0.0.1<0>", "[0]lo:127.0.0.1<0> [1]eth0:10.0.0.1<0>"])
def test_a_job_with_another_interface_may_need_one(names: str):
    assert explained(LOOPBACK.format(names)).answer.kind != "harmless"


# -- the first failure, and what follows from it ---------------------------------------------------------

NO_ANSWER = (
    "w0:104:361 [4] transport/net_ib.cc:2353 NCCL WARN NET/IB: Got completion from peer 10.5.0.11<4> with"
    " status=12 opcode=0 len=0 vendor err 129 (Send)\n"
)
START = "w0:104:104 [4] NCCL INFO Bootstrap: Using eth0:10.5.0.10<0>\n"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("[rank13]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n", "of memory"),
        ("[rank13]: RuntimeError: CUDA error: an illegal memory access\n", "error of its own"),
        ("(Worker pid=7) ValueError: could not broadcast input array\n", "error of its own"),
    ],
)  # fmt: skip
def test_a_process_that_stopped_before_its_peers_got_no_answer_is_the_first_failure(line, words):
    found = explained(START + line + NO_ANSWER).answer
    assert (found.kind, found.lines[0].line) == ("elsewhere", 2)
    assert words in found.sentence and "retry-exceeded" not in [one.code for one in found.others]


@pytest.mark.parametrize(
    "text",
    [
        START + NO_ANSWER,
        START + NO_ANSWER + "[rank13]: ValueError: could not broadcast input array\n",
        START + "[rank0]: torch.distributed.DistBackendError: NCCL error in: x.cpp:33\n" + NO_ANSWER,
    ],
)
def test_without_such_a_process_the_peer_gave_no_answer_and_why_is_open(text, cli):
    assert explained(text).answer.cause == "retry-exceeded"
    assert cli(text).startswith("What the text shows")  # and not the cause


def test_hanging_ranks_are_compared_as_gdr_nccl_does(cli):
    line = (
        "[rank{0}]:[E810 03:04:11.0 ProcessGroupNCCL.cpp:2241] [PG ID 0 PG GUID 0(default_pg) Rank {0}] "
        " failure detected by watchdog at work sequence id: {1} PG status: last enqueued work: {1}, last"
        " completed work: 806\n"
    )
    page = cli("".join(line.format(rank, 807) for rank in (0, 1, 3)) + line.format(2, 806))
    words = "Rank 2 did not start operation 807, or did not return from that call"
    assert words in page.partition("The job of the log")[0]
    assert f"no network channel; r{words[1:40]}" in page.partition("The job of the log")[2]


def test_a_plugin_that_cannot_be_loaded_is_the_answer_and_not_that_the_network_is_missing():
    log = (
        "h1:7:7 [0] NCCL INFO NET/Plugin: No plugin found (libnccl-net.so)\n"
        "h1:7:7 [0] NCCL INFO NET/Plugin: Plugin load returned 2 : /lib/libc.so.6: version `GLIBC_2.32' not"
        " found (required by /x/libnccl-net.so) : when loading libnccl-net.so\n"
        "h1:7:7 [0] net.cc:579 NCCL WARN Error: network gIB not found.\n"
    )
    found = explained(log).answer
    assert "newer glibc" in found.sentence and found.lines[0].line == 2

    alone = explained(log.splitlines(keepends=True)[2]).answer
    assert alone.sentence.startswith("NCCL_NET or NCCL_NET_PLUGIN names a network that does not start")


BOOTSTRAP = "{}:400:400 [0] NCCL INFO Bootstrap: Using {}<0>\n"
REFUSED = (
    "{}:400:700 [0] misc/socket.cc:550 NCCL WARN socketPollConnect: Connect to {}<33533> returned"
    " 111(Connection refused) errno 115(Operation now in progress)\n"
)


def bootstrap(*hosts: str, to: str = "172.17.0.1") -> str:
    """The answer for hosts and the interface of each, the second of which does not reach an address."""
    lines = "".join(BOOTSTRAP.format(*host.split()) for host in hosts)
    found = explained(lines + REFUSED.format(hosts[-1].split()[0], to)).answer
    return " ".join((found.sentence, *found.now))


def test_an_interface_that_has_one_address_on_every_host_connects_none():
    said = bootstrap("n1 docker0:172.17.0.1", "n2 docker0:172.17.0.1")
    assert "docker0, which has the address 172.17.0.1 on each of n1 and 1 more" in said
    assert "ip -br address" in said


def test_a_bridge_of_docker_that_ended_a_job_comes_before_what_its_path_lacks():
    """NVIDIA/nccl issue 1105, with TCP as the only network."""
    lines = (
        BOOTSTRAP.format("n1", "br-4e5f60905511:172.18.0.1")
        + "n1:400:400 [0] NCCL INFO NET/IB : No device found.\n"
        + "n1:400:400 [0] NCCL INFO Using network Socket\n"
        + BOOTSTRAP.format("n2", "enp67s0:192.168.1.9")
        + REFUSED.format("n2", "172.18.0.1")
        + "torch.distributed.DistBackendError: NCCL error in: x.cpp:13, unhandled system error\n"
    )
    found = explained(lines)
    assert found.answer.sentence.startswith("n1 offers 172.18.0.1, the address of its Docker bridge br-4e5")
    assert "NCCL_SOCKET_IFNAME=enp67s0" in found.answer.now[0] and found.question is None
    assert found.answer.others == ()


def test_the_host_of_the_error_that_ended_a_job_is_where_to_look():
    """NVIDIA/nccl-tests issue 206: the limit of locked memory, in a job that goes through host memory."""
    failed = "Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory"
    lines = (
        info("gpu07:7", 0, "Using network IB", "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0")
        + f"gpu07:7:9 [0] misc/ibvwrap.cc:278 NCCL WARN {failed}\n"
        + "[rank0]: torch.distributed.DistBackendError: NCCL error in: x.cpp:13, unhandled system error\n"
        + f"[rank0]: {failed}\n"
    )
    found = explained(lines)
    assert found.answer.sentence == "The job ended in an error: memory cannot be pinned."
    assert found.answer.others[0].code == "memlock-limit"
    assert found.question is not None and found.question.machine == "gpu07"


@pytest.mark.parametrize(
    "hosts, to",
    [
        (("n1 eth0:10.0.0.1", "n2 eth0:10.0.0.2"), "10.0.0.1"),  # a firewall
        (("n1 docker0:172.17.0.1",), "172.17.0.1"),  # one host reaches itself, or has no such process
        (("n1 docker0:172.17.0.1", "n2 docker0:172.17.0.1"), "10.0.0.1"),  # another connection
    ],
)
def test_another_address_is_not_why_a_host_is_not_reached(hosts: tuple[str, ...], to: str):
    assert "on each of" not in bootstrap(*hosts, to=to)


POD_IDENTITY = "pod-id-link0:169.254.170.23<0>"


@pytest.mark.parametrize(
    "line",
    [
        f"Bootstrap: Using {POD_IDENTITY}",
        f"NET/Socket : Using [0]enp73s0:10.1.216.156<0> [1]{POD_IDENTITY}",  # aws-samples/aws-do-eks 54
        f"NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB {POD_IDENTITY}",
        "Bootstrap : Using nodelocaldns:169.254.20.10<0>",
    ],
)
def test_an_interface_that_every_host_has_reaches_no_other_host(line: str):
    log = info("ip-10-1-2-3:7", 0, "NET/IB : No device found.", line, "Using network Socket")
    found = explained(log).answer

    assert found.kind == "elsewhere" and found.sentence.startswith(
        "NCCL uses an interface that reaches no other"
    )
    assert "NCCL_SOCKET_IFNAME" in found.now[0]


@pytest.mark.parametrize(
    "name", ["eth0", "my-pod-id-link0", "enp1s0f0np0"]
)  # two Sparks have link-local ones
def test_an_address_of_one_link_alone_may_reach_the_other_host(name: str):
    log = info("n1:7", 0, f"Bootstrap: Using {name}:169.254.3.1<0>", "Using network Socket")
    assert "reaches no other host" not in explained(log).answer.sentence


def test_on_one_host_any_interface_serves():
    log = "".join(
        info(f"n1:{7 + rank}", rank, f"Bootstrap: Using {POD_IDENTITY}",
             f"ncclCommInitRank comm 0x55 rank {rank} nranks 2 cudaDev {rank} busId 1b000 commId 0x9",
             "comm 0x55 rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0",
             f"Channel 00/0 : {rank}[{rank}] -> {1 - rank}[{1 - rank}] via P2P/CUMEM") for rank in (0, 1)
    )  # fmt: skip
    found = explained(log).answer

    assert found.kind == "no-problem"
    assert found.sentence == (
        "The log shows no failure: 2 ranks on one host: no network is needed; NCCL uses P2P."
    )
    first = explained(log.replace("nranks 2", "nranks 4").replace("nNodes 1", "nNodes 2")).answer
    assert "reaches no other host" in first.sentence


KILLED = """\
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
Root Cause (first observed failure):
[0]:
  host      : train-worker-0
  rank      : 12 (local_rank: 4)
  exitcode  : -9 (pid: 95)
  traceback : Signal 9 (SIGKILL) received by PID 95
============================================================
"""
COMPLETION = (
    "n1:1:2 [0] NCCL WARN NET/IB: Got completion from peer 10.0.0.2<4> with status=12 opcode=0 len=0 vendor"
    " err 129 (Send)\n"
)


@pytest.mark.parametrize(
    "before", ["", COMPLETION, "[rank3]: socketProgress: Connection closed by remote peer n1<39122>\n"]
)
def test_the_first_failure_of_torchruns_table_leads_before_what_peers_report(before: str):
    found = explained(before + KILLED).answer
    assert "rank 12 on train-worker-0 was ended by Signal 9" in found.sentence and not found.claimed


def test_a_table_without_the_reason_does_not_hide_a_peer_that_does_not_answer():
    exits = KILLED.replace("-9", "1").replace("Signal 9 (SIGKILL) received by PID 95", "see the log")
    assert explained(COMPLETION + exits).answer.cause == "retry-exceeded"


GLOO = (
    "RuntimeError: Gloo connectFullMesh failed with [/src/third_party/gloo/gloo/transport/tcp/pair.cc:144]"
)
"""sgl-project/sglang issue 3226; pytorch/gloo issue 223."""


@pytest.mark.parametrize(
    ("line", "words", "step"),
    [
        (f"{GLOO} timed out connecting: SO_ERROR: Connection refused, remote=[127.0.0.1]:14215",
         "at a loopback address", "getent hosts"),
        ("RuntimeError: [/src/third_party/gloo/gloo/transport/tcp/pair.cc:799] connect [127.0.1.1]:60817:"
         " Connection refused", "at a loopback address", "getent hosts"),
        (f"{GLOO} no error", "could not connect this rank", "getent hosts"),
        (f"{GLOO} timed out connecting: SO_ERROR: No route to host, remote=[10.127.0.1]:14215",
         "could not connect this rank", "getent hosts"),
        ("RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer"
         " [10.0.0.2]:41562", "lost its connection", "first error of all ranks"),
    ],
)  # fmt: skip
def test_a_failure_of_gloo_is_not_one_of_nccl_or_rdma(line, words, step):
    found = explained(f'Traceback (most recent call last):\n  File "/a.py", line 3, in run\n{line}\n').answer
    assert words in found.sentence and "Neither NCCL nor RDMA" in found.sentence
    assert step in found.now[0] and found.cause is None and not found.claimed


def test_the_host_of_deepspeeds_launcher_is_named_before_what_the_others_report():
    text = (
        "node2: [2025-03-08 00:03:40,207] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 94984\n"
        "node2: [2025-03-08 00:03:41,263] [ERROR] [launch.py:325:sigkill_handler] ['/usr/bin/python3', '-u',"
        " 'train.py', '--local_rank=3'] exits with return code = -9\n"
        "node1: node1:77120:77933 [1] misc/socket.cc:484 NCCL WARN socketProgress: Connection closed by"
        " remote peer node2.cluster<46112>\n"
    )
    found = explained(text).answer
    assert "a process on node2 was ended by SIGKILL" in found.sentence and "dmesg" in found.now[0]


@pytest.mark.parametrize(
    "text",
    [
        '[rank3]: Traceback (most recent call last):\n[rank3]:   File "/m.py", line 12, in wrap\n'
        "[rank3]: ValueError: the page table version of the transport differs\n",
        "gpu12: [2026-03-07 23:55:19,883] [WARNING] [engine.py:99:setup] RDMA transport fell back\n",
        "ERROR 03-07 23:55:18 core.py:99] EngineCore failed to start on the InfiniBand port\n",
        "mesh_agent: error: registration of the container failed\n",
    ],
)
def test_lines_of_programs_that_are_not_known_lead_to_no_code_by_their_words(text):
    found = explained(text).answer
    assert (found.kind, found.cause, found.now) == ("nothing", None, ())
    assert found.sentence == "gdr knows none of the lines that programs printed here."


def test_words_of_a_person_about_the_same_are_no_output():
    assert explained("Our RDMA transport fell back, why is InfiniBand slow?\n").answer.kind == "no-output"
