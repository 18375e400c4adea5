"""The inputs by which readers took more than a second per MiB, or more than twice as long for twice as much;
and the search that found them."""

from __future__ import annotations

import contextlib
import random
import re
from itertools import islice

import pytest
from tools.fuzz.parsers import _tally
from tools.fuzz.slowness import GROWTH, LETTERS, LINES, OPENINGS, Repeated, drawn, inputs, worst_of
from tools.fuzz.target import Parser, Sample, limited

from gdrkit.agent.collect.redact import without_secrets
from gdrkit.agent.running.processes import shared_files
from gdrkit.evidence.bundle import without_complaints
from gdrkit.explain.lines.attribution import _PATTERNS
from gdrkit.explain.lines.blocks import command_of
from gdrkit.explain.lines.line import clean, typed, without_comment_mark
from gdrkit.explain.lines.transcript import read
from gdrkit.fabric.ceilings.gpus import rates_of
from gdrkit.fabric.ceilings.measured import sniff
from gdrkit.fabric.topology.from_file import read_topology
from gdrkit.facts.gpu import VGPU_NAME
from gdrkit.facts.peermem_container import parse as parse_container_log
from gdrkit.facts.symvers import has_peer_api
from gdrkit.fleet.hostlist import expand
from gdrkit.fleet.racks import parse_racks
from gdrkit.formats.errors import FormatError
from gdrkit.formats.gpu_listing import numbered_gpu_in, pci_gpu_in, smi_gpu_in
from gdrkit.formats.log_store import without_frames
from gdrkit.formats.nccl_tests import parse_nccl_tests
from gdrkit.formats.perftest import parse_perftest
from gdrkit.formats.topo_matrix import parse as parse_matrix
from gdrkit.formats.ucx_proto import read_tables
from gdrkit.formats.xml_text import parse as parse_xml
from gdrkit.jobs.written import between_lines
from gdrkit.messages import registration
from gdrkit.programs.environment import parse_ucx_conf
from gdrkit.programs.nccl.log_lines import frame
from gdrkit.programs.ucx.proto_tables import _SHARE
from gdrkit.repair.config.check import check
from gdrkit.repair.config.unread_settings import unread_faults
from tests.work import steps


def job_of_hosts(hosts):
    """As many hosts as characters. A thousand are ordinary."""
    log = "".join(
        f"h{number}:10:11 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.\n"
        for number in range(len(hosts))
    )
    _tally(log.encode())


MATRIX = "\tGPU0\tNIC0\nGPU0\t X \tPIX\nNIC0\tPIX\t X \n" + "\n" * 2048
SHORT_LINES = {
    "nccl-tests": (parse_nccl_tests, "\n", 4),
    "perftest": (parse_perftest, "\n", 10),
    "any measurement": (sniff, "\n", 14),
    "error messages": (lambda text: without_complaints(text.encode()), "\n", 4),
    "a container's log": (lambda text: parse_container_log(text, "a log"), "nvidia\n", 4),
    "a file to check": (lambda text: check(text.encode(), "a file"), "\n", 22),
    "a host list": (expand, "a\n", 30),
    "a product": (rates_of, "on ", 12),
    "a job of many hosts": (job_of_hosts, "x", 2000),
    "settings of GRUB": (lambda text: without_secrets(text.encode(), "etc/default/grub"), "a=1\n", 7),
    "arguments of GRUB": (
        lambda text: without_secrets(f'GRUB_CMDLINE_LINUX="quiet {text}'.encode(), "etc/default/grub"),
        "a=1 ",
        5,
    ),
    "lines of a kernel's arguments": (
        lambda text: without_secrets(text.encode(), "proc/cmdline"),
        "#\n",
        42,
    ),
    "overlapping matrices": (parse_matrix, "\tGPU0\tNI C0\tCPU Affinity\n", 80),
    "lines below a matrix": (lambda text: read_topology((MATRIX + text).encode()), " \n", 4),
    "what a process maps": (lambda text: shared_files(text.encode()), "\n", 0),
    "settings of UCX": (lambda text: parse_ucx_conf(text, "a file"), ":\n", 19),
}
"""Readers of lines, a short line that says nothing, and the steps that it may take."""


@pytest.mark.parametrize("name", SHORT_LINES)
def test_a_reader_passes_over_short_lines(name):
    work, unit, most = SHORT_LINES[name]

    def tried(times):
        with contextlib.suppress(FormatError):
            work(unit * times)

    tried(1)
    assert steps(tried, 3000) - steps(tried, 1000) <= 2000 * most


def test_a_listing_of_more_nics_than_a_machine_has_is_refused_at_once():
    """Each function was looked up by a walk over all of them."""

    def tried(times):
        rows = (f"0000:{n >> 8:02x}:{n >> 3 & 31:02x}.{n & 7} {CONNECTX}\n" for n in range(times))
        with pytest.raises(FormatError, match="NICs are more than one machine has"):
            read_topology("".join(rows).encode())

    tried(2000)
    assert steps(tried, 4000) - steps(tried, 2000) <= 2000 * 200


CONNECTX = "Ethernet controller: Mellanox Technologies MT2892 Family [ConnectX-6 Dx]"


def mentions(text):
    return list(unread_faults(text, {("NCCL_DEBUG", f"a{number}") for number in range(1000)}, {}))


def kernel_arguments(text):
    return without_secrets(text.encode(), "proc/cmdline")


def unframed(text):
    return without_frames(text.encode())


BLANKS = " " * 900
LONG = {
    "words before a command": (command_of, "a=1 " * (1 << 17)),
    "indented lines of a post": (read, f"{BLANKS}POE\n" * 950),
    "a symbol in one line": (has_peer_api, "\tib_register_peer_memory_client" * (1 << 15)),
    "mentions of a setting": (mentions, "NCCL_DEBUG=a999\n" * (1 << 16)),
    "one word among arguments": (
        lambda text: without_secrets(text.encode(), "proc/cmdline"),
        "[" * (1 << 18),
    ),
    "arguments of a kernel": (lambda text: without_secrets(text.encode(), "proc/cmdline"), "${" * (1 << 18)),
    "lines of a screen": (between_lines(hosts=True).split, " " * 20000),
    "a rack": (parse_racks, f"SwitchName={'a' * 200000} Nodes=n1"),
    "quotation marks of a log store": (unframed, '{"a": "NCCL INFO "' + '\\"' * (1 << 16)),
    "columns of a log store": (unframed, "a,message\n1," + '"NCCL INFO ' * (1 << 17)),
    "the name of an element": (parse_xml, b"<" + b"a" * (1 << 16) + b"<"),
    "a product": (VGPU_NAME.search, "A" * 20000),
    "transports": (_SHARE.findall, "a" * 60000),
}
"""Texts whose reading took time that grew with the square of their length."""
LINES_OF_A_LOG = {
    "an arrow": (clean, f"{BLANKS * 4}<-x"),
    "a comment": (without_comment_mark, f"/{BLANKS * 4}x"),
    "a registration": (registration._WORDS.search, "_" * 900),
    "a heading": (_PATTERNS["markdown"].match, f"# a{BLANKS * 4}b"),
    "a GPU by its number": (numbered_gpu_in, f"GPU1: NVIDIA{BLANKS}x"),
    "a GPU of nvidia-smi": (smi_gpu_in, f"| 1 NVIDIA{BLANKS}x"),
    "a GPU of lspci": (pci_gpu_in, f"00:00.0 3D controller: NVIDIA Corporation A{BLANKS}x"),
    "a prompt": (typed, f"root@node:{BLANKS * 4}$x"),
    "a frame of NCCL": (frame, f"node-a:1:{',' * 390} [0] NCCL INFO x"),
    "a setting of perftest": (parse_perftest, f"8 1 1 1 1\nA{BLANKS}b:\n"),
    "a cell of UCX": (read_tables, f"| a{BLANKS}x cfg |"),
}
"""Lines that are each short, with the same fault."""


def within_a_second(work, text, times=1):
    """A loaded machine has three times as long."""
    with limited(3.0), contextlib.suppress(FormatError):
        for _ in range(times):
            work(text)
    return True


@pytest.mark.parametrize("name", LONG)
def test_time_follows_the_length_of_a_text(name):
    assert within_a_second(*LONG[name])


@pytest.mark.parametrize("name", LINES_OF_A_LOG)
def test_a_line_with_a_run_of_one_character_is_read_fast(name):
    work, text = LINES_OF_A_LOG[name]
    assert within_a_second(work, text, (1 << 21) // len(text))


def quadratic(content):
    return [content.count(b"x") for _ in range(0, len(content), 256)]


@pytest.mark.parametrize(("work", "grows"), [(quadratic, True), (bytes.split, False)])
def test_the_search_tells_what_grows_faster_than_its_input(work, grows):
    worst = worst_of(Parser("a parser", [Sample(b"a 1\nb 2\n", work)], ()), seed=1, seconds=0.5)
    assert (worst.growth > GROWTH) == grows


def test_the_search_tries_every_short_unit_alone_and_inside_a_file():
    short = (*LINES, *OPENINGS, *LETTERS)
    samples = [Sample(b"<a>1</a>\n", bytes.split)]
    tried = [repeated for _, repeated in islice(inputs(samples, random.Random(1)), 2 * len(short))]
    assert {one.unit for one in tried[: len(short)]} == {one.unit for one in tried[len(short) :]} == {*short}
    assert not any(one.head or one.tail for one in tried[: len(short)])
    assert all(one.head + one.tail == samples[0].content for one in tried[len(short) :])


def test_a_repeated_part_stands_where_it_stood_as_it_is_with_numbers_and_with_a_run():
    kinds = [one for seed in range(200) for one in drawn(b"a: 1\nb: 2\nc: 3\n", random.Random(seed))]
    assert any(one == Repeated(b"a: 1\n", b"b: 2\n", b"c: 3\n") for one in kinds)
    numbered = next(one for one in kinds if one.unit == b"b: 2\n" and one.numbered == (3, 4))
    assert numbered.content(40).count(b"\n") >= 5 and b"b: 0\nb: 1\nb: 2\n" in numbered.content(40)
    assert any(re.search(rb"b: *(.)\1{199}", one.unit) for one in kinds)
