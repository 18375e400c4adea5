"""The command `gdr estimate`."""

from __future__ import annotations

import io
import json
import re
import sys

import jsonschema
import pytest

from gdrkit.cli import main
from gdrkit.cli.exit import NO_INPUT, OK, UNKNOWN, USAGE, WARNING
from tests.cli.test_pasted_halves import nccl_tests
from tests.evidence_nodes import laid_down
from tests.fabric.ceilings.test_measured import perftest
from tests.fabric.topology.xml_files import DUMP
from tests.jobs.large_job import large_job
from tests.jobs.test_nic_lists import TWO, on_few_nics


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    return str(laid_down("spark-two-cables"))


@pytest.fixture(scope="module")
def h100(tmp_path_factory):
    return str(laid_down("ubuntu-6.8-h100"))


@pytest.fixture
def log(tmp_path):
    def of(text):
        path = tmp_path / "run.log"
        path.write_text(text)
        return str(path)

    return of


def test_a_spark_has_its_ceiling_and_a_remark_on_the_second_cable(spark, capsys):
    assert main(["estimate", spark]) == OK
    shown = " ".join(capsys.readouterr().out.split())
    assert "network 22.3 to 30.1 GB/s" in shown
    assert "the ceiling is about 52 % of the 400 Gb/s of 2 cables" in shown
    assert "A second cable adds almost nothing" in shown


def test_json_has_every_pair(h100, capsys):
    assert main(["estimate", h100, "--json"]) == OK
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "gdrkit.estimate/1"
    assert len(document["pairs"]) == 80
    assert document["pairs"][0]["paths"][0]["tightest"]["name"] == "port"


def test_the_document_fits_its_published_schema(h100, log, capsys):
    main(["schema", "estimate"])
    schema = json.loads(capsys.readouterr().out)
    assert schema["title"] == "gdrkit.estimate/1"
    for more in ([], ["--measured", log(perftest("mlx5_0", 391.0))]):
        main(["estimate", h100, "--json", *more])
        jsonschema.validate(json.loads(capsys.readouterr().out), schema)


def test_the_cost_document_fits_its_published_schema(h100, capsys):
    main(["schema", "cost"])
    schema = json.loads(capsys.readouterr().out)
    assert schema["title"] == "gdrkit.cost/1"
    assert main(["estimate", h100, "--model", "llama-3-70b", "--tp", "16", "--json"]) == OK
    jsonschema.validate(json.loads(capsys.readouterr().out), schema)


def test_a_run_at_its_ceiling_is_ok(h100, log, capsys):
    assert main(["estimate", h100, "--measured", log(perftest("mlx5_0", 391.0))]) == OK
    assert "You are at 98 %" in capsys.readouterr().out


@pytest.mark.parametrize("gbits", [150.0, 410.0])
def test_a_run_far_from_its_ceiling_or_above_it_is_a_warning(h100, log, gbits):
    assert main(["estimate", h100, "-q", "--measured", log(perftest("mlx5_0", gbits))]) == WARNING


def test_a_run_on_a_device_of_another_node_cannot_be_compared(h100, log):
    assert main(["estimate", h100, "-q", "--measured", log(perftest("mlx5_77", 391.0))]) == UNKNOWN


def test_a_run_is_read_from_standard_input(h100, monkeypatch, capsys):
    run = perftest("mlx5_0", 391.0).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(run)))

    assert main(["estimate", h100, "--measured", "-"]) == OK
    assert "measured:" in capsys.readouterr().out


RANK = "#  Rank {0:2} Group  0 Pid 295203 on {1} device {2:2} [0x18] NVIDIA H100 80GB HBM3\n"
TABLE = (
    "# nThread 1 nGpus 1 minBytes 4294967296 maxBytes 4294967296 step: 2(factor) warmup iters: 5\n"
    "# Using devices\n"
    + "".join(RANK.format(rank, f"gpu0{rank // 8 + 1}", rank % 8) for rank in range(16))
    + "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
    "  4294967296    1073741824     float     sum      -1    87590   49.04   91.94      0\n"
)
"""Sources: NVIDIA/nccl-tests src/common.cu and all_reduce.cu; issue 290 for the form."""


def test_a_slow_run_is_read_with_the_log_around_it(h100, log, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "600")
    main(["estimate", h100, "--measured", log(TABLE)])
    alone = capsys.readouterr().out
    main(["estimate", h100, "--measured", log(on_few_nics(large_job(2), TWO) + TABLE)])
    both = capsys.readouterr().out

    assert "Run it again with NCCL_DEBUG=INFO" in alone
    assert "Run it again with NCCL_DEBUG=INFO" not in both
    assert "8 GPUs share 2 NICs (mlx5_0, mlx5_1): NCCL_IB_HCA is set so" in both


def test_a_log_alone_is_no_benchmark_and_its_command_is_named(h100, log, capsys):
    assert main(["estimate", h100, "--measured", log(large_job(2))]) == NO_INPUT
    assert "an NCCL log: `gdr nccl` reads it" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "hello\n", '{"a": 1}', "\0\1\2"])
def test_text_of_no_benchmark_is_refused(h100, log, text, capsys):
    assert main(["estimate", h100, "--measured", log(text)]) == NO_INPUT
    assert "run.log" in capsys.readouterr().err


def test_a_missing_file_is_refused(h100, tmp_path, capsys):
    assert main(["estimate", h100, "--measured", str(tmp_path / "none")]) == NO_INPUT
    assert "no such file" in capsys.readouterr().err.lower()


def test_a_node_without_evidence_is_unknown(tmp_path, capsys):
    (tmp_path / "proc").mkdir()
    (tmp_path / "sys").mkdir()

    assert main(["estimate", str(tmp_path)]) == UNKNOWN
    assert "give it the file that gdr collect writes" in capsys.readouterr().err


def test_on_a_narrow_terminal_the_cost_of_a_job_fits(h100, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    main(["estimate", h100, "--model", "llama-3-70b", "--tp", "16"])
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 60
    assert re.search(
        r" staged [\d.]+ ms to [\d.]+ ms \([^()]+\); the direct path saves [\d.]+ % to \d+ % ",
        " ".join(shown.split()),
    )


def test_a_saved_topology_is_a_target(tmp_path, capsys):
    path = tmp_path / "topo.xml"
    path.write_text(DUMP)

    assert main(["estimate", str(path)]) == OK
    shown = capsys.readouterr().out
    assert shown.startswith("topo.xml: ceilings in one direction")
    assert "bound by nic-link: PCIe 32 GT/s x8" in " ".join(shown.split())


@pytest.mark.parametrize(("link", "useless"), [("8.0 GT/s PCIe", True), ("16.0 GT/s PCIe", False)])
def test_a_second_cable_is_called_useless_only_if_one_nearly_fills_the_link(link, useless, tmp_path, capsys):
    """Two ports of 50 or 80 Gb/s on eight lanes: on the faster link a second cable adds about 20 %."""
    rate = 50_000 if useless else 80_000
    nets = "".join(
        f'<net name="mlx5_{n}" dev="{n}" speed="{rate}" port="{n + 1}" guid="0x100000" maxconn="1" gdr="1"/>'
        for n in (0, 1)
    )
    path = tmp_path / "topo.xml"
    path.write_text(
        '<system version="1"><cpu numaid="0" affinity="ff" arch="x86_64" vendor="GenuineIntel" familyid="6" '
        'modelid="85"><pci busid="0000:18:00.0" class="0x020000" vendor="0x15b3" device="0x1017" '
        f'link_speed="{link}" link_width="8"><nic>{nets}</nic></pci></cpu></system>'
    )
    assert main(["estimate", str(path)]) == OK
    shown = " ".join(capsys.readouterr().out.split())
    assert "of 2 cables" in shown
    assert ("A second cable adds almost nothing" in shown) == useless


def test_a_truncated_topology_is_refused(tmp_path, capsys):
    path = tmp_path / "topo.xml"
    path.write_text(DUMP[: len(DUMP) // 2])

    assert main(["estimate", str(path)]) == NO_INPUT
    assert "topo.xml" in capsys.readouterr().err


def test_a_job_is_computed_for_the_node(h100, capsys):
    main(["estimate", h100, "--model", "llama-3-8b", "--tp", "16"])
    assert "llama-3-8b" in capsys.readouterr().out


def test_model_and_measured_together_are_wrong_usage(h100, log):
    assert main(["estimate", h100, "--model", "llama-3-8b", "--measured", log("x")]) == USAGE


def test_a_log_that_has_the_lines_is_not_asked_for_them(spark, log, capsys):
    lines = "spark-0:17:18 [0] NCCL INFO NET/IB : Using [0]rocep1s0f0:1/RoCE [RO]\n"
    for more, asks in (("", True), (lines, False)):
        main(["estimate", spark, "--measured", log(more + nccl_tests("11.96"))])
        shown = " ".join(capsys.readouterr().out.split())
        assert "`gdr nccl LOG`" in shown and ("NCCL_DEBUG=INFO" in shown) is asks
