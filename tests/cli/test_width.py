"""Every command's text is as wide as the terminal, within 60 to 200 columns."""

import json
import os
import re
import shlex
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from machines.fleet import bundles, fleet
from rich.cells import cell_len
from rich.text import Text
from tools.shown import EXAMPLES

from gdrkit.agent.streams import visible
from tests.cli.forked import gdr_on_a_terminal
from tests.cli.test_fleet import BLOCKED_SEED
from tests.evidence_nodes import laid_down
from tests.jobs.running.records import device, held, process, record
from tests.test_linters import ROOT

GDR = [sys.executable, "-c", "import sys; from gdrkit.cli import main; sys.exit(main())"]
PLAIN = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "NO_COLOR")}


def doctor(**streams):
    command = [*GDR, "doctor", str(laid_down("zgx-3285"))]
    return subprocess.run(command, **{"stdin": subprocess.DEVNULL, "timeout": 60, "env": PLAIN} | streams)


def widest(text: str) -> int:
    return max(map(len, text.splitlines()))


def on_a_terminal(columns: int, *words: str, rows: int = 50, folder: Path = ROOT) -> str:
    """What a terminal of that size shows, without its colours."""
    ended = gdr_on_a_terminal((columns, rows), words, folder=folder, environment=PLAIN)
    assert "internal error" not in ended.err and 0 <= ended.code < 64, ended.err
    return Text.from_ansi(ended.out).plain


@pytest.mark.parametrize(("columns", "least", "most"), [(60, 50, 60), (120, 101, 120), (400, 150, 200)])
def test_the_text_fits_the_terminal(columns, least, most):
    shown = on_a_terminal(columns, "doctor", str(laid_down("zgx-3285")))
    assert "gpu-integrated" in shown and shown == visible(shown)
    assert least <= widest(shown) <= most


def test_a_pipe_has_100_columns_and_obeys_the_variable():
    piped = doctor(capture_output=True, text=True)
    assert 80 < widest(piped.stdout) <= 100
    told = doctor(capture_output=True, text=True, env={**PLAIN, "COLUMNS": "72"})
    assert 60 < widest(told.stdout) <= 72
    narrow = doctor(capture_output=True, text=True, env={**PLAIN, "COLUMNS": "20"})
    assert 50 < widest(narrow.stdout) <= 60


NODES = ("acs-redirect", "rail-down", "zgx-3285", "signature-altered", "ubuntu-6.8-h100-no-verbs")
OF_A_NODE = (
    "doctor", "doctor -v", "doctor --consumer all", "topo", "topo -v", "fix", "estimate",
    "estimate --model llama-3-70b --tp 16", "modprobe nvidia_peermem",
)  # fmt: skip
RAN = record(process(701), rdma=[device(*held(1, 701, 4 << 20, pairs=2))])
OTHERS = (
    "doctor acs-redirect rail-down", "ps ran.tar.gz", "ps -v ran.tar.gz", "nccl job.log",
    "nccl --all job.log", "explain job.log", "explain -v job.log", "explain dmon.txt",
    "estimate --measured ib_write_bw.log acs-redirect", "prove log --log job.log",
    "bench loopback --sizes 4K", "codes", "codes port-down", "codes PXB",
    "codes 'port down'", "fleet doctor fleet/", "config --list", "--help", "doctor --help",
    "fleet --help", "estimate --help",
)  # fmt: skip

TO_COPY = (
    r" *(do +)?\$ ",  # a command of gdr fix
    r" +(?:gdr|sudo|nm|cat|lspci|dmesg|modinfo|kubectl|talosctl|ibv_\w+|nvidia-\w+) ",  # of help, an answer
    r" *\| ",  # a line of a file that gdr fix writes
    r"(modprobe: |kernel: )",  # what another program would print
)
"""Lines that may be longer: who copies or searches them wants them whole."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files of the examples, a fleet, and a node on which something runs."""
    folder = tmp_path_factory.mktemp("width")
    for file in EXAMPLES.iterdir():
        (folder / file.name).symlink_to(file)
    (folder / "fleet").mkdir()
    for packed in bundles(fleet(BLOCKED_SEED, 6).machines, tmp_path_factory.mktemp("work")):
        packed.rename(folder / "fleet" / packed.name)
    tree = tmp_path_factory.mktemp("ran") / "node17/sos_commands/gdr"
    tree.mkdir(parents=True)
    (tree / "running").write_text(json.dumps(RAN))
    with tarfile.open(folder / "ran.tar.gz", "w:gz") as archive:
        archive.add(tree.parent.parent, "node17")
    return folder


def commands():
    yield from (
        pytest.param(f"{words} {node}", id=f"{words} {node}") for words in OF_A_NODE for node in NODES
    )
    yield from OTHERS


@pytest.mark.parametrize("command", list(commands()))
def test_a_line_fits_60_columns_or_is_one_to_copy(command, folder):
    words = [str(laid_down(word)) if word in NODES else word for word in shlex.split(command)]
    shown = on_a_terminal(60, *words, folder=folder)
    assert shown.strip()
    long = [line for line in shown.splitlines() if cell_len(line) > 60]
    assert not [line for line in long if not any(re.match(pattern, line) for pattern in TO_COPY)]


FRAME = "\N{BOX DRAWINGS LIGHT DOWN AND RIGHT}"


@pytest.mark.parametrize(("rows", "drawn"), [(200, True), (20, False)])
def test_doctor_draws_the_node_below_its_answers_where_all_of_it_fits_the_terminal(rows, drawn):
    shown = on_a_terminal(80, "doctor", str(laid_down("acs-redirect")), rows=rows)
    assert shown.startswith("READY") and (FRAME in shown) is drawn
    assert ("-v shows the evidence and a picture" in " ".join(shown.split())) is not drawn
    assert FRAME in on_a_terminal(80, "doctor", "-v", str(laid_down("acs-redirect")), rows=rows)


@pytest.mark.parametrize(
    ("given", "frame"), [({"TERM": "dumb"}, FRAME), ({"NO_COLOR": "1"}, FRAME), ({"LC_ALL": "C"}, "+-")]
)
def test_a_pipe_has_the_picture_without_colour_and_without_utf_8_in_ascii(given, frame):
    command = [*GDR, "doctor", str(laid_down("acs-redirect"))]
    piped = subprocess.run(command, capture_output=True, env={**PLAIN, "COLUMNS": "60", **given}, timeout=60)
    shown = piped.stdout.decode()
    assert f"\n{frame}" in shown and "\x1b" not in shown and widest(shown) <= 60
    assert shown.isascii() is (frame != FRAME)
