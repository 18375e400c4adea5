"""A rule declares everything about its code consistently, and no other file has a table of codes."""

import ast
import functools
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

import gdrkit
from gdrkit.catalogue import CODES, every_rule
from gdrkit.facts.modules import PEERMEM
from gdrkit.node import Node
from gdrkit.report.glossary import GLOSSARY
from gdrkit.rules.capabilities import ConsumerPath
from gdrkit.rules.deciding_command import fill
from gdrkit.rules.load_order import OF_ANY_MODULE, checks_at, in_load_order
from gdrkit.rules.rule import Rule, SettledBy, Status
from gdrkit.rules.stage import Stage
from gdrkit.verdict.cells import cells_of
from tests.memory_host import MemoryHost

SOURCE = Path(gdrkit.__file__).parent
MESSAGES = ("messages/", "rules/", "programs/", "catalogue.py")
"""Messages name the codes that can cause them; rules declare the codes, and the catalogue lists them."""

TABLES = {
    "facts/gpu.py": "which of several reasons a GPU is refused for",
    "jobs/reasons.py": "causes of messages: NCCL's lines about its routes",
    "jobs/diagnostics.py": "causes of messages: the checks of NCCL's diagnostics",
    "jobs/findings.py": "which codes the whole log of a job decides, whatever the rules of a node say",
    "fabric/topology/paths.py": "which findings slow a path down, as a closed set",
    "formats/rdma_topo_check.py": "causes of messages: the verdicts of rdma_topo check",
    "verdict/makers.py": "which causes only NVIDIA's software has",
    "cli/explained.py": "which causes are faults of a manifest",
    "explain/outputs/asked_rows.py": "what shows a cause in outputs that no rule of a node reads",
    "explain/answer.py": "which codes are too general to be a headline",
    "explain/chains.py": "which cause brings another one about",
    "explain/ranking.py": "causes that weigh differently",
    "explain/products.py": "the names of products that no direct path serves",
    "explain/outputs/pcie_links.py": "which of two codes a link's two ends show",
    "explain/outputs/hot_plug.py": "what a cable that was moved is taken for else",
    "explain/outputs/device_files.py": "why NCCL does not list a device of sysfs",
    "explain/outputs/ucx_outputs.py": "why UCX copies, or uses TCP, where its tables show that it does",
    "jobs/gpu_names.py": "which causes a GPU's name decides",
    "jobs/nic_lists.py": "causes of a host's list of NICs that is short",
    "jobs/without_dmabuf.py": "why the GPUs of a host offer no dma-buf",
    "jobs/hosts.py": "causes of which a setting of NCCL decides too",
    "report/glossary.py": "which pages say more about a word; its test compares them with the codes",
}
"""Files with tables of codes that are not properties of the codes."""


def each(rules: Iterable[Rule]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("rule", list(rules), ids=lambda rule: rule.code)


each_rule = each(every_rule())
CODE = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)+")


def test_every_code_is_declared_once():
    assert len(CODES) == len(every_rule())


@each(rule for rule in every_rule() if rule.permanent)
def test_what_is_permanent_is_part_of_what_a_rule_takes(rule: Rule):
    assert rule.permanent <= set(rule.takes(None))


@each(rule for rule in every_rule() if rule.permanent)
def test_what_can_never_be_cured_for_peermem_cannot_for_dma_buf(rule: Rule):
    cells = set(cells_of(rule.permanent))
    assert {("dmabuf", name) for path, name in cells if path == "peermem"} <= cells


@each_rule
def test_a_rule_lists_no_remedy_and_no_command_twice(rule: Rule):
    assert len(rule.remedies) == len(set(rule.remedies))
    assert len(rule.reported_by) == len(set(rule.reported_by))


@each(rule for rule in every_rule() if rule.reported_by)
def test_each_deciding_command_is_complete_once_the_module_is_filled_in(rule: Rule):
    for deciding in rule.reported_by:
        assert deciding.command
        assert deciding.shows
        assert not re.search(r"[{}]", fill(deciding.command + deciding.shows, "some_module"))


PROGRAMS = (
    "cat", "dmesg", "env", "ethtool", "fi_info", "gdr", "gdscheck", "grep", "ibv_devices",
    "ibv_devinfo", "kubectl", "ldconfig", "ls", "lsmod", "lspci", "mlxconfig", "modinfo", "modprobe",
    "mokutil", "nm", "nvidia-imex-ctl", "nvidia-smi", "ping", "rdma", "rdma_topo", "show_gids",
    "systemctl", "ucx_info", "ulimit", "uname",
)  # fmt: skip


@each(rule for rule in every_rule() if rule.reported_by)
def test_each_deciding_command_begins_with_a_program_or_a_setting_and_what_it_shows_does_not(rule: Rule):
    def is_command(text: str) -> bool:
        return re.match(rf"(sudo )?({'|'.join(PROGRAMS)})( |$)|[A-Z_]+=.*, set for ", text) is not None

    for deciding in rule.reported_by:
        assert is_command(deciding.command)
        assert not is_command(deciding.shows)


@each_rule
def test_a_finding_that_blocks_nothing_is_a_note_or_a_warning(rule: Rule):
    assert rule.default_status in (Status.NOTE, Status.WARNING)


@each(rule for rule in every_rule() if rule.module)
def test_a_rule_about_one_module_has_no_other_subject(rule: Rule):
    with_driver = MemoryHost({"proc/modules": "nvidia 16384 0 - Live 0x0000000000000000\n"})
    assert list(rule.per(Node(with_driver))) == [rule.module]


@each_rule
def test_only_rules_about_loading_are_logged_by_the_kernel(rule: Rule):
    assert rule.loading is not None or not rule.logged


@each(rule for rule in every_rule() if rule.settled_by is not SettledBy.HOST)
def test_what_an_image_or_a_driver_determines_is_above_the_hardware(rule: Rule):
    assert rule.layer in ("driver", "rdma", "library")


def test_only_nvidia_peermem_has_codes_of_its_own():
    assert {rule.module for rule in every_rule()} == {"", PEERMEM}


def test_the_order_of_loading_is_total():
    positions = [rule.loading for rule in in_load_order(every_rule())]

    assert positions == sorted(positions)
    assert len(positions) == len(set(positions)) == sum(rule.loading is not None for rule in every_rule())


def test_one_list_has_all_rules_that_apply_to_any_module():
    placed = [rule for rule in every_rule() if rule.loading is not None]

    before_its_code = [rule for rule in placed if rule.loading.stage < Stage.INIT]
    assert [rule for rule in before_its_code if rule.loading.stage is not Stage.DEPENDENCIES] == list(
        OF_ANY_MODULE
    )
    assert [rule for stage in Stage for rule in checks_at(stage)] == list(OF_ANY_MODULE)


def test_a_rule_takes_paths_of_one_program_or_capabilities():
    """A capability that a machine lacks is missing for every program."""
    for rule in every_rule():
        takes = (
            rule.takes("node") if rule.code not in ("dmabuf-disabled-by-env", "ib-disabled-by-env") else ()
        )
        assert len({isinstance(need, ConsumerPath) for need in takes}) <= 1, rule.code


# -- no other file has a table of codes ----------------------------------------------------------------


def strings(tree: ast.AST) -> set[str]:
    return {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}


def tables(path: Path) -> list[ast.AST]:
    """The literals of a file that have two or more codes as keys, values or members."""
    return [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Dict | ast.Tuple | ast.List | ast.Set)
        and len(strings(node) & CODES.keys()) > 1
    ]


@functools.cache
def files_with_tables() -> dict[str, list[ast.AST]]:
    paths = {str(path.relative_to(SOURCE)): path for path in sorted(SOURCE.rglob("*.py"))}
    found = {name: tables(path) for name, path in paths.items() if not name.startswith(MESSAGES)}
    return {name: here for name, here in found.items() if here}


def test_only_the_listed_files_have_tables_of_codes():
    assert set(files_with_tables()) == set(TABLES)


def test_every_code_in_such_a_table_exists():
    spellings = {spelling for term in GLOSSARY for spelling in (term.name, *term.also)}
    for name, here in files_with_tables().items():
        words = {word for table in here for word in strings(table) if CODE.fullmatch(word)}
        assert not words - CODES.keys() - spellings, name
