"""`gdr export`: metrics that Prometheus's own programs read, and that say what the documents say."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from gdrkit.cli import main
from gdrkit.cli.export import LABEL_LIMIT, encoded
from gdrkit.diagnosis import diagnose
from gdrkit.evidence.target import open_host
from gdrkit.fleet.build import build
from gdrkit.fleet.document import NodeRow, Standing
from gdrkit.fleet.metrics import fleet_metrics, started_at
from gdrkit.report.document import Report
from gdrkit.report.metric import gauge
from gdrkit.report.metrics import node_metrics
from tests.cli.test_streams import EVIL, GDR, RAW
from tests.evidence_nodes import laid_down
from tests.system_programs import program

NODES = (
    "ubuntu-6.8-h100",
    "rail-down",
    "acs-redirect",
    "no-gpu",
    "h200-vm",
    "spark-two-cables",
    "display-card",
)


def gdr(*arguments: str) -> int:
    try:
        return main(["export", *arguments])
    except SystemExit as end:
        return int(str(end.code))


def report_of(name: str) -> Report:
    return diagnose(open_host(str(laid_down(name))))


def samples(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    """The series of a text by name, read by Prometheus's own library."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def holds(series: list[tuple[dict[str, str], float]], **labels: str) -> list[dict[str, str]]:
    """The labels of the series that are 1 and have these labels."""
    return [found for found, value in series if value == 1 and labels.items() <= found.items()]


def checked(text: str) -> str:
    """What promtool has to say on metrics: "" if nothing."""
    promtool = program("promtool")
    done = subprocess.run(
        [promtool, "check", "metrics"], input=text, capture_output=True, text=True, timeout=60
    )
    return done.stdout + done.stderr + ("" if done.returncode == 0 else f"exit code {done.returncode}")


# -- what is said -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NODES)
def test_promtool_has_nothing_to_say_on_the_metrics_of_a_node(name):
    assert checked(encoded(node_metrics(report_of(name), 1.5e9)).decode()) == ""


def test_promtool_complains_where_a_name_is_wrong():
    """The near miss: it does look at names."""
    assert "gdr_pair_ceiling_milliseconds" in checked(
        encoded([gauge("gdr_pair_ceiling_milliseconds", "x", (), [((), 1.0)])]).decode()
    )


@pytest.mark.parametrize("name", NODES)
def test_the_states_of_a_node_are_those_of_its_report(name):
    report = report_of(name)
    found = samples(encoded(node_metrics(report, 1.5e9)).decode())
    for consumer, section in report.consumers.items():
        (one,) = holds(found["gdr_node_state"], consumer=consumer)
        assert one["state"] == section.state
    for gpu in report.gpus:
        held = holds(found.get("gdr_gpu_state", []), gpu=gpu.gpu, nic=gpu.device)
        assert [one["state"] for one in held] == [gpu.state] * gpu.counts
    counts = {labels["status"]: value for labels, value in found["gdr_findings"]}
    assert sum(counts.values()) == len(report.findings)
    assert {one["code"] for one in holds(found["gdr_finding_info"])} == {f.code for f in report.findings}
    assert found["gdr_last_run_timestamp_seconds"] == [({"node": report.node.hostname}, 1.5e9)]


@pytest.mark.parametrize("name", NODES)
def test_every_pair_has_a_series_for_each_state_of_each_direct_path(name):
    report = report_of(name)
    found = samples(encoded(node_metrics(report, None)).decode())
    pairs = {(pair.gpu, pair.device) for pair in report.pairs}
    states = found.get("gdr_pair_state", [])
    assert {(labels["gpu"], labels["nic"]) for labels, _ in states} == pairs
    assert len(holds(states)) == 2 * len(pairs) and len(states) == 10 * len(pairs)
    assert "gdr_last_run_timestamp_seconds" not in found


def test_a_rail_that_is_down_is_one_blocked_gpu():
    found = samples(encoded(node_metrics(report_of("rail-down"), None)).decode())
    assert [one["nic"] for one in holds(found["gdr_gpu_state"], state="blocked")] == ["mlx5_7"]
    assert len(holds(found["gdr_gpu_state"], state="ready")) == 7
    for gpu, nic, state in (("0000:df:00.0", "mlx5_7", "blocked"), ("0000:1b:00.0", "mlx5_0", "ready")):
        (one,) = holds(found["gdr_pair_state"], gpu=gpu, nic=nic, path="dmabuf")
        assert (one["state"], one["node"], one["consumer"]) == (state, "rail-07", "nccl")


def test_a_path_that_is_closed_in_one_direction_has_the_worse_state():
    report = report_of("ubuntu-6.8-h100")
    pair = report.pairs[0]
    key, judged = next(
        (k, report.judgements[k]) for k in pair.judgements if report.judgements[k].path == "dmabuf"
    )
    halves = {"a": msgspec.structs.replace(judged, direction="send", state="blocked"),
              "b": msgspec.structs.replace(judged, direction="receive")}  # fmt: skip
    other = msgspec.structs.replace(
        report,
        pairs=(msgspec.structs.replace(pair, judgements=("a", "b")),),
        judgements={**report.judgements, **halves},
    )
    assert judged.state == "ready" and key
    (one,) = holds(samples(encoded(node_metrics(other, None)).decode())["gdr_pair_state"])
    assert (one["path"], one["state"]) == ("dmabuf", "blocked")


def test_ceilings_are_bytes_per_second():
    report = report_of("ubuntu-6.8-h100")
    found = samples(encoded(node_metrics(report, None)).decode())["gdr_pair_ceiling_bytes_per_second"]
    pair = report.pairs[0]
    assert pair.ceiling is not None
    values = {labels["bound"]: value for labels, value in found if labels["nic"] == pair.device
              and labels["gpu"] == pair.gpu}  # fmt: skip
    assert values == pytest.approx(
        {"low": pair.ceiling.low_gb_per_s * 1e9, "high": pair.ceiling.high_gb_per_s * 1e9}
    )


# -- fleets -----------------------------------------------------------------------------------------------

ROWS = (
    NodeRow(name="gpu1", target="a", standing=Standing.BLOCKED, causes=("port-down",)),
    NodeRow(name="gpu2", target="b", standing=Standing.READY),
    NodeRow(name="gpu3", target="c", standing=Standing.UNREACHABLE, causes=("connection refused",)),
)


def test_a_fleet_has_every_standing_and_one_for_each_node():
    report = build(ROWS, started="2026-11-22T23:31:05Z", seconds=2.0)
    text = encoded(fleet_metrics(report)).decode()
    found = samples(text)
    assert checked(text) == ""
    assert {labels["standing"]: value for labels, value in found["gdr_fleet_nodes"]} == {
        **dict.fromkeys(Standing, 0), "blocked": 1, "ready": 1, "unreachable": 1
    }  # fmt: skip
    held = {one["node"]: one["standing"] for one in holds(found["gdr_fleet_node_standing"])}
    assert held == {row.name: row.standing for row in ROWS}
    causes = holds(found["gdr_fleet_node_cause_info"])
    assert {(one["node"], one["cause"]) for one in causes} == {
        ("gpu1", "port-down"), ("gpu3", "connection refused")
    }  # fmt: skip
    assert found["gdr_fleet_last_run_timestamp_seconds"] == [({}, 1795390265.0)]


@pytest.mark.parametrize("started", ["", "yesterday", "2026-13-01T00:00:00Z", "2026-11-22T23:31:05"])
def test_a_time_that_is_not_known_is_left_out(started):
    report = build(ROWS, started=started)
    assert started_at(report) is None
    assert b"timestamp" not in encoded(fleet_metrics(report))


def test_the_run_that_was_kept_last_is_exported(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert gdr("--run", "last") == 66
    assert main(["fleet", "doctor", str(laid_down("rail-down")), "--json"]) == 2
    document = capsys.readouterr().out
    assert gdr("--run", "last") == 0
    kept = capsys.readouterr().out
    (tmp_path / "run.json").write_text(document)
    assert gdr(str(tmp_path / "run.json")) == 0
    assert capsys.readouterr().out == kept
    assert holds(samples(kept)["gdr_fleet_node_standing"]) == [{"node": "rail-07", "standing": "blocked"}]


# -- documents --------------------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    """The JSON of gdr doctor about a node whose rail is down."""
    file = tmp_path / "node.json"
    file.write_bytes(msgspec.json.encode(report_of("rail-down")))
    os.utime(file, (1.5e9, 1.5e9))
    return file


def test_the_json_of_a_node_was_judged_when_it_was_written(saved, capsys):
    assert gdr(str(saved)) == 0
    found = samples(capsys.readouterr().out)
    assert found["gdr_last_run_timestamp_seconds"] == [({"node": "rail-07"}, 1.5e9)]
    assert [one["nic"] for one in holds(found["gdr_gpu_state"], state="blocked")] == ["mlx5_7"]


def test_json_on_standard_input_has_no_time(saved):
    done = subprocess.run(
        [*GDR, "export", "-"], stdin=saved.open(), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0 and "gdr_node_state" in done.stdout
    assert "gdr_last_run_timestamp_seconds" not in done.stdout


@pytest.mark.parametrize(
    "text",
    ["{}", '{"schema":"gdrkit.bench/1"}', '{"schema":"gdrkit.report/1"}', "{" * 100_000, '{"a":' * 50_000],
)
def test_other_json_is_refused_in_one_line(text, tmp_path, capsys):
    (tmp_path / "x.json").write_text(text)
    assert gdr(str(tmp_path / "x.json")) == 66
    assert "not the JSON of gdr doctor or gdr fleet doctor" in capsys.readouterr().err


@pytest.mark.parametrize("option", [["--expect", "x"], ["--consumer", "ucx"], ["--deadline", "4"]])
def test_options_of_a_target_have_no_effect_on_json(saved, option, capsys):
    assert gdr(str(saved), *option) == 64
    assert f"{option[0]} has no effect on JSON" in capsys.readouterr().err


@given(st.text(st.characters(codec=None), max_size=300), st.text(max_size=300))
def test_any_label_is_written_and_read_as_it_is_shown(first, second):
    """Names come from strangers: no control character leaves, none is long, and no series appears twice."""
    rows = [((first,), 1.0), ((second,), 0.0), ((first,), 1.0)]
    text = encoded([gauge("gdr_x", "x", ("node",), rows)]).decode()
    assert not RAW.search(text)
    found = samples(text)["gdr_x"]
    assert len(found) == len({labels["node"] for labels, _ in found}) <= 2
    assert all(len(labels["node"]) <= 6 * LABEL_LIMIT for labels, _ in found)


def test_a_hostile_node_cannot_add_a_series(saved, capsys):
    document = json.loads(saved.read_text())
    document["node"]["hostname"] = f'x"}} 1\ngdr_fleet_complete 1\n{EVIL}'
    saved.write_text(json.dumps(document))
    assert gdr(str(saved)) == 0
    text = capsys.readouterr().out
    assert "gdr_fleet_complete" not in samples(text) and not RAW.search(text)
    assert checked(text) == ""


# -- measurements -----------------------------------------------------------------------------------------

RUN = """ib_write_bw -d {device} {options} --report_gbits
initializing CUDA
Listing all CUDA devices in system:
CUDA device 0: PCIe address is {bus}

Picking device No. 0
creating CUDA Ctx
making it the current CUDA Ctx
---------------------------------------------------------------------------------------
                    RDMA_Write {kind}BW Test
 Dual-port       : OFF          Device         : {device}
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      5000             390.10             384.00             0.743
"""


def perftest(device="mlx5_0", bus="1B:00", options="--use_cuda=0 --use_cuda_dmabuf", kind="") -> str:
    return RUN.format(device=device, bus=bus, options=options, kind=kind)


@pytest.mark.parametrize(
    ("options", "path"),
    [("--use_cuda=0 --use_cuda_dmabuf", "dmabuf"), ("--use_cuda=0", "peermem")],
)
def test_a_run_of_perftest_belongs_to_its_gpu_nic_and_path(saved, tmp_path, options, path, capsys):
    (tmp_path / "run.log").write_text(perftest(options=options))
    assert gdr(str(saved), "--measured", str(tmp_path / "run.log")) == 0
    found = samples(capsys.readouterr().out)["gdr_pair_measured_bytes_per_second"]
    assert found == [({"node": "rail-07", "gpu": "0000:1b:00.0", "nic": "mlx5_0", "path": path}, 48e9)]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (perftest(device="mlx5_99"), "does not show a GPU and a NIC of this node"),
        (perftest(bus="FF:00"), "does not show a GPU and a NIC of this node"),
        (perftest(options="--use_cuda=0 -b", kind="Bidirectional "), "the sum of both directions"),
        (perftest(options="").replace("CUDA", "cuda"), "the run used host memory"),
        (perftest().replace(" 65536", " x65536"), "shows no rate"),
        (perftest().partition("\n")[2].replace("DMA", ""), "does not show whether it used dma-buf"),
    ],
)
def test_a_run_that_belongs_to_no_pair_is_not_exported(saved, tmp_path, text, why, capsys):
    (tmp_path / "run.log").write_text(text)
    assert gdr(str(saved), "--measured", str(tmp_path / "run.log")) == 0
    printed = capsys.readouterr()
    assert "measured" not in printed.out and why in printed.err


# -- the file ---------------------------------------------------------------------------------------------


def test_the_file_is_replaced_and_readable_by_a_scraper(saved, tmp_path):
    target = tmp_path / "gdrkit.prom"
    for _ in range(2):
        assert gdr(str(saved), "-o", str(target)) == 0
    assert target.stat().st_mode & 0o777 == 0o644
    assert [path.name for path in tmp_path.iterdir() if path.suffix not in (".json",)] == ["gdrkit.prom"]


def test_a_file_that_is_not_ours_is_not_replaced(saved, tmp_path, capsys):
    other = tmp_path / "important.conf"
    other.write_text("# HELP yours\n")
    assert gdr(str(saved), "-o", str(other)) == 64
    assert gdr(str(saved), "-o", str(saved)) == 64
    link = tmp_path / "link.prom"
    link.symlink_to(tmp_path / "nowhere")
    assert gdr(str(saved), "-o", str(link)) == 73
    assert other.read_text() == "# HELP yours\n" and link.is_symlink()
    assert "gdr export did not write it" in capsys.readouterr().err


def test_no_verdict_in_time_leaves_the_old_file(tmp_path):
    """A stale file shows itself by its gdr_last_run_timestamp_seconds."""
    ssh = tmp_path / "ssh"
    ssh.write_text("#!/bin/sh\nexec sleep 600\n")
    ssh.chmod(0o755)
    old = tmp_path / "gdrkit.prom"
    old.write_text("# HELP gdr_old\n")
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = [*GDR, "export", "ssh://node", "--deadline", "1", "-o", str(old)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 3 and "no verdict within 1 s" in done.stderr
    assert old.read_text() == "# HELP gdr_old\n"


def test_openmetrics_has_the_same_samples_and_its_own_end(saved, tmp_path, capsys):
    """Read by the parser of that format, which refuses a text without its end."""
    from prometheus_client.openmetrics import parser

    assert gdr(str(saved)) == 0
    plain = samples(capsys.readouterr().out)
    target = tmp_path / "gdrkit.om"
    for _ in range(2):  # a file of its own is replaced, too
        assert gdr(str(saved), "--openmetrics", "-o", str(target)) == 0
    text = target.read_text()
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in parser.text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))

    assert found == plain and text.endswith("# EOF\n")
    with pytest.raises(ValueError, match="Missing # EOF"):
        list(parser.text_string_to_metric_families(text.removesuffix("# EOF\n")))


# -- node-exporter ----------------------------------------------------------------------------------------


@contextlib.contextmanager
def exporter(folder: Path) -> Iterator[str]:
    """The address of a node-exporter on loopback that reads a folder of text files."""
    found = program("prometheus-node-exporter")
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    options = ("--collector.disable-defaults", "--collector.textfile")
    given = (f"--collector.textfile.directory={folder}", f"--web.listen-address={address}")
    running = subprocess.Popen([found, *options, *given], stderr=subprocess.PIPE, text=True)
    assert running.stderr is not None
    try:
        for line in running.stderr:
            if "Listening on" in line or "TLS is disabled" in line:
                break
        yield address
    finally:
        running.kill()
        running.communicate()


def scraped(address: str) -> str:
    for _ in range(100):
        try:
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as answer:
                return str(answer.read().decode())
        except OSError:
            time.sleep(0.1)
    raise AssertionError("node-exporter gives no answer")


def test_node_exporter_serves_what_was_written(saved, tmp_path):
    """Every series of a node and of a fleet, side by side in one folder."""
    folder = tmp_path / "textfile"
    folder.mkdir()
    (tmp_path / "run.json").write_bytes(msgspec.json.encode(build(ROWS, started="2026-11-22T23:31:05Z")))
    assert gdr(str(saved), "-o", str(folder / "gdrkit.prom")) == 0
    assert gdr(str(tmp_path / "run.json"), "-o", str(folder / "fleet.prom")) == 0
    with exporter(folder) as address:
        served = samples(scraped(address))
    assert served["node_textfile_scrape_error"] == [({}, 0)]
    for name in ("gdrkit.prom", "fleet.prom"):
        for metric, series in samples((folder / name).read_text()).items():
            for one in series:
                assert one in served[metric], metric


def test_node_exporter_reports_a_file_with_one_series_twice(tmp_path):
    """The near miss: it does look at what it serves."""
    (tmp_path / "x.prom").write_text('gdr_x{a="1"} 1\ngdr_x{a="1"} 2\ngdr_x{a=} 1\n')
    with exporter(tmp_path) as address:
        assert samples(scraped(address))["node_textfile_scrape_error"] == [({}, 1)]


def test_a_fifo_that_another_user_left_is_not_opened(tmp_path):
    """To open it would wait for a writer."""
    document = tmp_path / "node.json"
    document.write_bytes(msgspec.json.encode(build([])))
    os.mkfifo(tmp_path / "gdr.prom")
    words = [*GDR, "export", str(document), "-o", str(tmp_path / "gdr.prom")]
    done = subprocess.run(words, capture_output=True, timeout=60, check=False)
    assert (done.returncode, b"not a regular file" in done.stderr) == (73, True)
