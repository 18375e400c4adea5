"""`gdr prove` end to end, as far as possible without a GPU."""

import json

import pytest

from gdrkit.cli import prove
from gdrkit.cli.exit import NO_INPUT
from gdrkit.transport.measure import prove as measured

DIRECT = "node-a:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA\n"


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(measured, "IDLE_SECONDS", 0.05)


def test_host_memory_is_proven_to_be_host_memory(capsys):
    for _ in range(8):  # other tests use the loopback device at the same time, which leaves a run open
        code = prove.main(["host", "--size", "4M", "--repeats", "1", "--json"])
        document = json.loads(capsys.readouterr().out)
        if code == 0:
            break
        assert {run["proof"]["path"] for run in document["runs"]} <= {"", "host", "tcp"}
    assert code == 0
    assert document["schema"] == "gdrkit.prove/1"
    assert {run["path"]: run["proof"]["path"] for run in document["runs"]} == {
        "shared": "host",
        "tcp": "tcp",
    }
    windows = document["runs"][0]["trial"]["windows"]
    assert [window["bytes_moved"] for window in windows] == [0, 4 << 20, 0, 8 << 20]


def test_host_memory_is_never_proof_of_the_direct_path():
    assert prove.main(["host", "--size", "1M", "--path", "tcp", "--require", "direct"]) == 3


def test_an_unavailable_path_has_a_reason(capsys):
    assert prove.main(["host", "--path", "verbs", "--device", "nothing_0", "--size", "1M"]) == 3
    assert "verbs: not run: " in capsys.readouterr().out


def test_logs_can_be_judged_without_a_trial(tmp_path, capsys):
    log = tmp_path / "job.log"
    log.write_text(DIRECT)
    assert prove.main(["log", "--log", str(log), "--require", "direct"]) == 0
    assert "1 of 1 channel lines" in capsys.readouterr().out
    log.write_text(DIRECT.replace("/GDRDMA", ""))
    assert prove.main(["log", "--log", str(log), "--require", "direct"]) == 2
    log.write_text("node-a:1:2 [0] NCCL INFO DMA-BUF is available on GPU device 0\n")
    assert prove.main(["log", "--log", str(log), "--require", "direct"]) == 3


def test_a_file_that_is_not_a_log_is_an_input_error(tmp_path, capsys):
    (tmp_path / "x").write_text("hello\n")
    assert prove.main(["log", "--log", str(tmp_path / "x")]) == NO_INPUT
    assert prove.main(["log", "--log", str(tmp_path / "absent")]) == NO_INPUT


@pytest.mark.parametrize(
    "arguments",
    [["log"], ["host", "--size", "1M,2M"], ["host", "--repeats", "0"], ["pair", "--path", "carrier-pigeon"]],
)
def test_wrong_usage_is_an_error(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        prove.main(arguments)
    assert stopped.value.code == 64
