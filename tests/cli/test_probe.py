"""`gdr probe`: the text for a record, and the result on a machine without a GPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gdrkit.cli import probe
from gdrkit.cli.exit import OK, UNKNOWN
from gdrkit.formats.errors import FormatError

RECORDED = Path(__file__).parents[1] / "agent" / "probe" / "h200"


def shown(name, verbose=False):
    return probe._as_text(name, (RECORDED / f"{name}.json").read_text(), verbose)


def record(name, *calls, error=""):
    return json.dumps({"schema": f"gdrkit.probe.{name}/1", "calls": calls, "error": error})


def call(name, argument, result, value=None):
    return {"call": name, "argument": argument, "device": "0000:1b:00.0", "result": result, "value": value}


def line(text, words):
    return next(line for line in text.splitlines() if words in line)


def test_a_record_of_an_h200_is_shown():
    assert line(shown("cuda"), "116 GPU_DIRECT_RDMA_SUPPORTED").endswith(" 1 [0]")
    assert line(shown("memory"), "readlink(device plain)").endswith("/dmabuf: [a dma-buf]")
    assert line(shown("memory"), "(device pcie)").endswith("refused: NOT_SUPPORTED [801]")
    assert line(shown("rm"), "BAR1(bytes)").endswith("256 GiB")
    assert line(shown("rm"), "NV50_THIRD_PARTY_P2P BAR1").endswith("ok [0]")


def test_a_success_of_the_kernel_module_is_shown_with_what_it_proves():
    words = " ".join(shown("rm").split())

    assert "does not prove that the product is supported" in words
    assert "that nvidia-peermem is loaded" in words


def test_a_refusal_of_the_kernel_module_is_shown_by_name():
    text = probe._as_text(
        "rm", record("rm", call("NV_ESC_RM_ALLOC", "NV50_THIRD_PARTY_P2P BAR1", 0x56)), False
    )

    assert "refused: NOT_SUPPORTED [86]" in text
    assert "prove" not in text


def test_an_attribute_unknown_to_libcuda_is_unknown_and_not_zero():
    found = line(shown("cuda", verbose=True), "cuDeviceGetAttribute(152)")

    assert found.endswith("refused: unknown to this libcuda [1]")


def test_a_file_that_is_not_a_dmabuf_is_reported():
    text = probe._as_text(
        "memory", record("memory", call("readlink", "device plain", 0, "/dev/null")), False
    )

    assert "/dev/null [not a dma-buf]" in text


def test_a_probe_that_could_not_run_has_a_reason():
    assert "no libcuda" in probe._as_text("cuda", record("cuda", error="no libcuda: x"), False)
    assert "nothing to probe" in shown("verbs")
    denied = record("rm", {"call": "open", "argument": "/dev/nvidiactl", "result": 13})
    assert "Permission denied [13]" in probe._as_text("rm", denied, False)


def test_an_invalid_record_is_refused():
    with pytest.raises(FormatError):
        probe._as_text("rm", "{}", False)


@pytest.mark.parametrize(
    ("results", "code"), [((0, 0), OK), ((100, 0), OK), ((100, 801), UNKNOWN), ((), UNKNOWN)]
)
def test_one_call_that_succeeds_is_an_answer(results, code, monkeypatch, capsys):
    calls = (call("cuInit", "", result) for result in results)
    answer = record("cuda", *calls)
    monkeypatch.setattr(probe, "_ask", lambda names: {"cuda": answer})
    assert probe.main(["cuda", "--json"]) == code
    assert json.loads(capsys.readouterr().out)["calls"] == json.loads(answer)["calls"]


def test_all_four_probes_run_in_parallel_on_this_machine(capsys):
    code = probe.main(["--json"])
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    assert [record["schema"] for record in records] == [f"gdrkit.probe.{name}/1" for name in probe.PROBES]
    answered = any(call["result"] == 0 for record in records for call in record["calls"])
    assert code == (OK if answered else UNKNOWN)


def test_one_probe_can_run_alone(capsys):
    probe.main(["rm"])

    assert "nvidiactl" in capsys.readouterr().out or Path("/dev/nvidiactl").exists()
