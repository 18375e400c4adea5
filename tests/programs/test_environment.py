"""Settings of NCCL and UCX: files, numbers, device lists."""

from __future__ import annotations

import pytest

from gdrkit.evidence import EvidenceMissing
from gdrkit.formats.whole_number import integer
from gdrkit.node import Node
from gdrkit.programs.environment import NCCL_CONF, SHELL, SYSTEM, UCX_CONF, environment, parse_conf, sources
from gdrkit.programs.nccl.settings import selects
from tests.memory_host import MemoryHost


def test_the_first_of_two_lines_counts_because_nccl_does_not_overwrite():
    node = Node(MemoryHost({NCCL_CONF: "# a comment\nNCCL_DEBUG=INFO\nNCCL_DEBUG=WARN\nno line\n"}))
    found = environment(node, NCCL_CONF).get("NCCL_DEBUG")

    assert found is not None
    assert (found.value, found.line, environment(node, NCCL_CONF).scope) == ("INFO", 2, "node")


def test_blanks_are_kept_as_in_nccl():
    (setting,) = parse_conf("NCCL_NET_GDR_LEVEL=SYS \n", NCCL_CONF)

    assert setting.value == "SYS "


@pytest.mark.parametrize(
    ("line", "settings"),
    [
        ("NCCL_IB_HCA=mlx5_0", {"NCCL_IB_HCA": "mlx5_0"}),
        ("NCCL_IB_HCA==mlx5_0", {"NCCL_IB_HCA": "=mlx5_0"}),
        ("NCCL_IB_HCA=", {"NCCL_IB_HCA": ""}),
        ("NCCL_IB_HCA =mlx5_0", {"NCCL_IB_HCA ": "mlx5_0"}),
        ("NCCL_IB_HCA= mlx5_0", {"NCCL_IB_HCA": " mlx5_0"}),
        (" NCCL_IB_HCA=mlx5_0\t", {" NCCL_IB_HCA": "mlx5_0\t"}),
        ("NCCL_IB_HCA=mlx5_0\r", {"NCCL_IB_HCA": "mlx5_0\r"}),
        ('NCCL_IB_HCA="mlx5_0"', {"NCCL_IB_HCA": '"mlx5_0"'}),
        ("export NCCL_IB_HCA=mlx5_0", {"export NCCL_IB_HCA": "mlx5_0"}),
        ("nccl_ib_hca=mlx5_0", {"nccl_ib_hca": "mlx5_0"}),
        ("NCCL_IB_HCA=mlx5_0 # the near one", {"NCCL_IB_HCA": "mlx5_0 # the near one"}),
        ("# NCCL_IB_HCA=mlx5_0", {}),
        ("#NCCL_IB_HCA=mlx5_0", {}),
        (" # NCCL_IB_HCA=mlx5_0", {" # NCCL_IB_HCA": "mlx5_0"}),
        ("NCCL_IB_HCA=mlx5_0,\\\nmlx5_1", {"NCCL_IB_HCA": "mlx5_0,\\"}),
        ("NCCL_IB_HCA=mlx5_0\0NCCL_DEBUG=INFO", {"NCCL_IB_HCA": "mlx5_0"}),
        ("=mlx5_0", {}),
        ("NCCL_IB_HCA", {}),
        ("", {}),
    ],
)
def test_a_line_is_read_literally_as_in_nccl(line: str, settings: dict[str, str]):
    """src/misc/param.cc, setEnvFile()."""
    assert {s.name: s.value for s in parse_conf(f"{line}\n", NCCL_CONF)} == settings


@pytest.mark.parametrize("end", ["\v", "\f", "\x1c", "\x85", "\u2028", "\r"])
def test_only_a_line_feed_ends_a_line(end: str):
    """As in getline(3)."""
    (setting,) = parse_conf(f"NCCL_DEBUG=A{end}NCCL_NET=B\n", NCCL_CONF)
    assert setting.value == f"A{end}NCCL_NET=B"
    assert [s.line for s in parse_conf(f"x{end}\nNCCL_NET=B", NCCL_CONF)] == [2]


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("UCX_TLS = tcp\n", {"UCX_TLS": "tcp"}),
        ("\ufeffUCX_TLS:tcp ; for now\n", {"UCX_TLS": "tcp"}),
        ("UCX_TLS=tcp;rc\n", {"UCX_TLS": "tcp;rc"}),
        ("; UCX_TLS=tcp\n  # UCX_NET_DEVICES=all\n", {}),
        ("UCX_TLS=tcp\nUCX_TLS=rc\n", {"UCX_TLS": "rc"}),
        ("UCX_TLS=tcp\n\n  rc,cuda\n", {"UCX_TLS": "rc,cuda"}),
        ("UCX_TLS\n  UCX_NET_DEVICES=mlx5_0:1\n", {"UCX_NET_DEVICES": "mlx5_0:1"}),
        ("[Acme]\nProduct name=DGX*\nUCX_TLS=tcp\n  rc\n", {}),
        ("=tcp\n", {}),
        ("UCX_A=1\n[Grace]\nCPU model=Grace\nUCX_TLS=tcp\n[other]\nUCX_B=2\n", {"UCX_A": "1", "UCX_B": "2"}),
        ("", {}),
    ],
)
def test_a_ucx_file_is_read_as_ucx_reads_it(text: str, settings: dict[str, str]):
    """src/ucs/config/ini.c, ini_parse_stream(); parser.c, ucs_config_parse_set_section_info()."""
    found = environment(Node(MemoryHost({UCX_CONF: text})), UCX_CONF)
    assert {s.name: s.value for s in found.settings} == settings


def test_the_last_line_of_a_ucx_setting_counts():
    node = Node(MemoryHost({UCX_CONF: "UCX_TLS=rc\n# x\nUCX_TLS = tcp\n"}))
    assert [(s.value, s.line) for s in environment(node, UCX_CONF).settings] == [("tcp", 3)]


def test_ucx_files_can_have_sections_and_dos_line_ends():
    node = Node(MemoryHost({UCX_CONF: "[a=b]\r\nUCX_TLS=tcp\r\n"}))
    assert [(s.name, s.value) for s in environment(node, UCX_CONF).settings] == [("UCX_TLS", "tcp")]


def test_an_absent_file_sets_nothing_and_one_that_was_not_collected_is_unknown():
    assert environment(Node(MemoryHost(complete=True)), NCCL_CONF).settings == ()
    with pytest.raises(EvidenceMissing):
        environment(Node(MemoryHost()), NCCL_CONF)


def test_users_files_and_logs_are_read_where_they_are_visible():
    files = {
        "home/alice/.nccl.conf": "NCCL_DMABUF_ENABLE=0\n",
        "sos_commands/nccl/rank0": "h:1:2 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.\n",
        SHELL: "HOME=/root\0NCCL_NET=Socket\0",
        SYSTEM: 'export NCCL_DEBUG="INFO"\nPATH=/bin\n',
        UCX_CONF: "UCX_TLS=tcp\n",
    }
    node = Node(MemoryHost(files, absent={NCCL_CONF}))
    by_source = {source: environment(node, source) for source in sources(node)}

    assert {source: found.scope for source, found in by_source.items()} == {
        NCCL_CONF: "node",
        UCX_CONF: "node",
        SYSTEM: "node",
        SHELL: "user",
        "home/alice/.nccl.conf": "user",
        "sos_commands/nccl/rank0": "job",
    }
    assert [found.settings[0].value for found in by_source.values() if found.settings] == [
        "tcp", "INFO", "/root", "0", "1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "number"),
    [("0", 0), ("1", 1), (" 0x0", 0), ("-2", -2), ("010", 8), ("false", None), ("", None), ("2 # x", 2)],
)
def test_integers_are_parsed_as_by_strtoll(value: str, number: int | None):
    assert integer(value) == number


@pytest.mark.parametrize(
    ("spec", "device", "selected"),
    [
        ("mlx5_1", "mlx5_10", True),
        ("=mlx5_1", "mlx5_10", False),
        ("=mlx5_1:1", "mlx5_1", True),
        ("^mlx5_1", "mlx5_10", False),
        ("^=mlx5_1", "mlx5_10", True),
        ("^mlx5_2", "mlx5_1", True),
        ("mlx5_0,mlx5_2", "mlx5_1", False),
        ("", "mlx5_0", True),
        ("^", "mlx5_0", False),
        ("rocep1", "roceP2p1s0f0", False),
    ],
)
def test_device_lists_are_matched_as_in_nccl(spec: str, device: str, selected: bool):
    assert selects(spec, device) is selected


def test_a_port_in_the_list_selects_only_that_port():
    assert selects("mlx5_0:2", "mlx5_0", 2)
    assert not selects("mlx5_0:2", "mlx5_0", 1)
