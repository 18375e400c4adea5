"""Lines of programs: each row hears its own sample and no other's, and its causes are declared codes."""

import re

import pytest

from gdrkit.rules import BY_CODE, RULES
from gdrkit.rules.program_rows import ROWS, Row
from gdrkit.rules.program_words import hear
from gdrkit.rules.words import CAUSES, WORDS, Words
from gdrkit.rules.words import hear as hear_loader

VALUES = {
    "module": "nvidia_peermem", "symbol": "ib_register_peer_memory_client", "owner": "ib_core",
    "namespace": "DMA_BUF", "license": "NVIDIA", "what": "module_layout",
    "parameter": "peerdirect_support", "value": "7", "found": "6.1 SMP", "wanted": "6.2 SMP",
    "process": "modprobe", "size": "0", "number": "3", "type": "9", "machine": "183", "kind": "nc",
    "directory": "/lib/modules/6.1", "place": "libkmod.c:1 f() ", "command": "/bin/false", "status": "1",
    "error": "Invalid argument", "file": "nvidia-peermem.ko", "pointer": "0x55",
    "path": "/lib/modules/6.1/x.ko", "oid": "2.16.840.1",
}  # fmt: skip


def sample(words: Words) -> str:
    names = re.findall(r"\{(\w+)\}", words.template)
    return words.say(**{name: VALUES.get(name, "x") for name in names})


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_hears_its_own_sample_and_no_other_rows(row: Row):
    assert re.search(row.pattern, row.sample)
    for other in ROWS:
        if other is not row:
            assert not re.search(other.pattern, row.sample), other.name
    said = hear(row.sample)
    assert said is not None
    assert said.row is row


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_has_a_source_and_codes_that_rules_declare(row: Row):
    assert row.source
    assert len(row.codes) == len(set(row.codes)) >= 1
    assert not set(row.codes) - {rule.code for rule in RULES}


@pytest.mark.parametrize("words", WORDS, ids=lambda words: words.template[:40])
def test_a_line_of_the_loader_is_heard_by_its_own_row_and_by_none_of_the_programs(words: Words):
    heard = hear_loader(sample(words))

    assert heard is not None
    assert heard.words.speaker == words.speaker
    assert hear(sample(words)) is None


@pytest.mark.parametrize("words", WORDS, ids=lambda words: words.template[:40])
def test_causes_of_the_loaders_lines_are_declared(words: Words):
    assert not set(words.codes) - {rule.code for rule in RULES}


def test_causes_of_errors_are_declared():
    assert not {code for codes in CAUSES.values() for code in codes} - {rule.code for rule in RULES}


def test_whatever_a_line_leaves_open_something_tells():
    """Only codes that one line can leave open beside others need one."""
    several = {code for row in ROWS if len(row.codes) > 1 or not row.decides for code in row.codes}
    several |= {code for codes in CAUSES.values() for code in codes}

    assert not [code for code in several if not BY_CODE[code].told_by]


@pytest.mark.parametrize(
    "text",
    ["", "nvidia-smi -q", "Couldn't allocate", "GPU Direct RDMA Enabled for HCA 0 'mlx5_0'", "error=14"],
)
def test_other_lines_are_not_heard(text):
    assert hear(text) is None


def test_network_sockets_are_no_finding():
    assert hear("NET/Socket : GPU Direct RDMA Disabled for HCA 0 'eth0'") is None
