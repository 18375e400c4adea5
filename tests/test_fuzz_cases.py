"""What `python -m tools.fuzz` found, in its smallest form: hostile text is refused, or read as unknown."""

import contextlib
from collections.abc import Callable

import msgspec
import pytest
from tools.fuzz.target import limited

from gdrkit.agent.collect.reductions import cards
from gdrkit.evidence import EvidenceMissing, MissingReason, kernel_log
from gdrkit.fabric.cost.config import parse_config
from gdrkit.fabric.topology.from_node import natural_sort_key
from gdrkit.facts import (
    kernel_symbols,
    keyrings,
    loaded_modules,
    nvidia_smi,
    pci_registers,
    pci_text,
    probe,
    processors,
    verbs_text,
)
from gdrkit.facts.cuda_attributes import cuda_attributes
from gdrkit.facts.kernel import tainted, version
from gdrkit.facts.peer_memory import MEMORY_PEERS, memory_peers
from gdrkit.formats import perftest, versions, whole_number
from gdrkit.formats.errors import FormatError
from gdrkit.formats.yaml_text import documents
from gdrkit.formats.yaml_values import duplicates
from gdrkit.jobs.runtime_prefixes import Unwrapper
from gdrkit.node import Node
from gdrkit.programs.nccl import log_lines as nccl_lines
from gdrkit.programs.nccl import settings
from gdrkit.repair.apply import journal
from gdrkit.repair.apply.errors import ApplyError
from gdrkit.rules.policy_duplicate_key import keys_lost
from tests.memory_host import MemoryHost

DIGITS = "1" * 5000
"""More than int() accepts."""
DEEP = "[" * 100_000
KEY = "1 I--Q--- 1 perm 1f3f0000 0 65534 keyring "
GPU = "GPU 00000000:1B:00.0\n    FB Memory Usage\n        Total : "
DEVICE = "1b:00.0 3D controller [0302]: NVIDIA Corporation GH100 [10de:2330]\n\t"
PORT = (
    "hca_id: mlx5_0\n\tport: {}\n\t\tstate: PORT_ACTIVE\n\t\tactive_width: 4X\n\t\tactive_speed: 25 Gbps\n"
)

REFUSED: tuple[tuple[Callable[[str], object], str], ...] = (
    (processors.parse_list, DIGITS), (processors.parse_list, f"0-{DIGITS}"), (processors.parse_list, "0-"),
    (loaded_modules.parse, "nvidia ² 0 - Live 0x0"), (loaded_modules.parse, f"nvidia 1 {DIGITS} - Live 0x0"),
    (loaded_modules.parse, "nvidia 1 --1 - Live 0x0"), (nvidia_smi.pci_address, "1b"),
    (nvidia_smi.pci_address, "0:0_1:00.0"), (nvidia_smi.pci_address, "-1:00:00.0"), (probe.parse, DEEP),
    (lambda text: parse_config(text, "a model"), DEEP), 
    (pci_registers.regions, "f" * 6000 + " 0x1 0x2"),
    (pci_registers.regions, "0x0 0x1"), (verbs_text.parse, PORT.format("٣²")),
    (verbs_text.parse, PORT.format(DIGITS)),
)  # fmt: skip

READ: tuple[tuple[Callable[[str], object], str, object], ...] = (
    (versions.numbers, f"2.{DIGITS}", (2,)),
    (lambda text: [part for part, _ in natural_sort_key(text)][:1], f"mlx5_{DIGITS}", [-1]),
    (whole_number.integer, DIGITS, None), (whole_number.integer, "1٣", 1),
    (lambda text: settings.selects(text, "mlx5_0", 1), f"mlx5_0:{DIGITS}", False),
    (lambda text: settings.selects(text, "mlx5_0", 1), "mlx5_0:²", False),
    (lambda text: keyrings.parse(text).keyrings, f"{KEY}.a: {DIGITS}\n{KEY}.b: ²\n", {".a": 0, ".b": 0}),
    (lambda text: nvidia_smi.parse(text)[0].address, f"Attached GPUs : {DIGITS}\n{GPU}{DIGITS} MiB\n",
     "0000:1b:00.0"),
    (lambda text: pci_text.parse(text)[0].regions, f"{DEVICE}Region x: Memory at 0 [size=1M]\n", ()),
    (lambda text: pci_text.parse(text)[0].payload_bytes, f"{DEVICE}MaxPayload {DIGITS} bytes\n", None),
    (lambda text: pci_text.parse(text)[0].numa_node, f"{DEVICE}NUMA node: {DIGITS}\n", None),
    (lambda text: list(kernel_log.as_lines(iter([text.encode(), b"6,1,5;b"]))), "6,x,5;a",
     [b"[    0.000005] b\n"]),
    (lambda text: list(kernel_log.as_lines(iter([text.encode()]))), f"6,{DIGITS},5;a", []),
    (lambda text: Unwrapper(text.encode()).shows_ends, '{"a":' * 100_000, False),
    (lambda text: cards(text.encode()) == text.encode(), DEEP, True),
)  # fmt: skip


@pytest.mark.parametrize(("read", "text"), REFUSED)
def test_it_is_refused(read, text):
    with pytest.raises(FormatError):
        read(text)


@pytest.mark.parametrize(("read", "text", "answer"), READ)
def test_it_is_read_without_it(read, text, answer):
    assert read(text) == answer


def test_a_journal_of_brackets_is_damaged():
    with pytest.raises(ApplyError, match="line 1 of the journal is damaged"):
        journal.parse(f"{DEEP}\n{DEEP}\n".encode())


def node(files: dict[str, str]) -> Node:
    return Node(MemoryHost(files))


@pytest.mark.parametrize(
    ("ask", "files"),
    [
        (version, {"proc/sys/kernel/osrelease": "6.²"}),
        (version, {"proc/sys/kernel/osrelease": f"6.{DIGITS}.²"}),
        (tainted, {"proc/sys/kernel/tainted": "²"}),
        (memory_peers, {f"{MEMORY_PEERS}/nv_mem/version": "1", f"{MEMORY_PEERS}/nv_mem/num_mrs": "٣²0"}),
    ],
)
def test_a_fact_of_it_is_unknown_and_says_why(ask, files):
    with pytest.raises(EvidenceMissing) as caught:
        ask(node(files))
    assert caught.value.missing.why is MissingReason.GARBLED
    assert "²" in caught.value.missing.ask or MEMORY_PEERS in caught.value.missing.ask


def test_an_attribute_of_such_a_number_is_left_out():
    call = {"call": "cuDeviceGetAttribute", "errno": 0, "result": 0, "device": 0, "value": 1}
    calls = [{**call, "argument": argument} for argument in (33, 34, 50, "²", DIGITS)]
    record = msgspec.json.encode({"schema": "gdrkit.probe.cuda/1", "calls": calls}).decode()
    seen = Node(MemoryHost(commands={("gdr", "probe", "cuda", "--json"): record}))
    assert set(cuda_attributes(seen, "0001:01:01.0")) == {33, 34, 50}


def test_a_key_below_a_repeated_key():
    """The path of the duplicate leads below the first `a`, and the last one is another mapping."""
    (document,) = documents("a: {b: 1, b: 2}\na: {c: 3}\n")
    assert document.value is not None
    assert [keys_lost(document.value, found.path) for found in duplicates(document.value)]


@pytest.mark.parametrize(
    "read",
    [
        lambda: perftest.parse_perftest(" " * 200_000 + "x"),
        lambda: list(nccl_lines.given("NCCL_ " + "NCCL_A=b " * 100_000)),
        lambda: list(nccl_lines.given("NCCL_ " + "a=b " * 100_000)),
        lambda: kernel_symbols.export_tables(node({"proc/kallsyms": " __ksymtab_a" * 100_000})),
    ],
)
def test_the_work_does_not_grow_with_the_square_of_a_line(read):
    """Each took minutes of processor time."""
    with limited(5), contextlib.suppress(FormatError, EvidenceMissing):
        read()
