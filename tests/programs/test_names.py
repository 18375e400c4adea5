"""No code outside the tables depends on a program's name: it uses the table, or the default program."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

from gdrkit.programs.names import NAMES

SOURCE = Path(__file__).parent.parent.parent / "src" / "gdrkit"
ROOMS = {name.replace("-", "_") for name in NAMES}
FILES = [
    path
    for path in sorted(SOURCE.rglob("*.py"))
    if path.parent.parent != SOURCE / "programs" and path != SOURCE / "programs" / "names.py"
]
"""All files but the list of names and those in the folder of a program."""

COMMAND = "a command's name, not a program's"
DOCUMENT = "a document's name"
PROBE = "the probe that asks libibverbs"
WAY = "a way that gdrkit itself or a tool moves bytes, as bench and prove name it"
LINE = "how lines of NCCL's logs begin, or are told from others"
PACKAGE = "a package's name"
TABLE = "the program of a table of messages"
SETTINGS = "whose variables are listed"
TOLD = "a fact about a log, told under its title"

LABELS = {
    **{
        ("facts/newest_read.py", name): "the newest release that was read"
        for name in ("deepep", "gdrcopy", "mooncake", "nccl", "nixl", "nvshmem", "ucx")
    },
    ("cli/__init__.py", "nccl"): COMMAND,
    ("cli/nccl.py", "nccl"): COMMAND,
    ("cli/schema.py", "nccl"): DOCUMENT,
    ("cli/probe.py", "verbs"): PROBE,
    ("agent/collect/sources.py", "verbs"): PROBE,
    ("evidence/live.py", "verbs"): PROBE,
    ("facts/commands.py", "verbs"): PROBE,
    ("facts/probe.py", "verbs"): PROBE,
    ("cli/bench.py", "verbs"): WAY,
    ("cli/fleet_bench.py", "verbs"): WAY,
    ("cli/bench_tools.py", "nccl"): WAY,
    ("cli/bench_tools.py", "verbs"): WAY,
    ("transport/measure/prove.py", "verbs"): WAY,
    ("transport/negotiation.py", "verbs"): WAY,
    ("explain/outputs/logs.py", "nccl"): LINE,
    ("explain/answer.py", "nccl"): TOLD,
    ("explain/log_events.py", "nccl"): LINE,
    ("explain/uncoded_lines.py", "nccl"): LINE,
    ("explain/outputs/rdma_files.py", "verbs"): LINE,
    ("cli/explained.py", "nccl"): LINE,
    ("html/pairs.py", "nccl"): "whose model of a send the picture shows",
    ("cli/mcp_server.py", "nccl"): COMMAND,
    ("html/node_page.py", "nccl"): "a key of the topology's document",
    ("explain/facts.py", "ucx"): TOLD,
    ("cli/completed.py", "nccl"): "an option of gdr topo",
    ("explain/lines/attribution.py", "nccl"): LINE,
    ("explain/outputs/readings.py", "verbs"): LINE,
    ("fabric/topology/from_nccl_log.py", "nccl"): LINE,
    ("jobs/line_counts.py", "nccl"): LINE,
    ("jobs/wanted_lines.py", "nccl"): LINE,
    ("jobs/reasons.py", "ucx"): "a network of NCCL, as its lines name it",
    ("messages/system.py", "nccl"): TABLE,
    ("messages/faults.py", "nccl"): TABLE,
    ("messages/jobs.py", "nccl"): TABLE,
    ("messages/jobs.py", "verbs"): TABLE,
    ("messages/libraries.py", "nccl"): TABLE,
    ("messages/libraries.py", "ucx"): TABLE,
    ("messages/libraries.py", "mooncake"): TABLE,
    ("messages/libraries.py", "deepep"): TABLE,
    ("messages/libraries.py", "gdrcopy"): TABLE,
    ("fleet/traits.py", "nccl"): "the name of a version that nodes must share",
    ("fleet/traits.py", "ucx"): "the name of a version that nodes must share",
    ("transport/bench/document.py", "nccl"): WAY,
    ("transport/path_names.py", "verbs"): WAY,
    ("report/glossary.py", "verbs"): "a word of the glossary",
    ("report/glossary.py", "mnnvl"): "a word of the glossary",
    **{
        ("programs/proofs.py", name): TABLE
        for name in ("nccl", "nvshmem", "ucx", "nixl", "gdrcopy", "mooncake", "aws-ofi-nccl")
    },
    **{
        ("repair/config/program_env.py", name): SETTINGS
        for name in ("nvshmem", "deepep", "nccl-gin", "mnnvl", "ucx", "nixl", "mooncake")
    },
    **{
        ("explain/subject.py", name): "how a text names it"
        for name in ("mnnvl", "deepep", "nccl-gin", "gds")
    },
}
"""Where a name is a label, and of what."""

REMEDY = "a remedy of one program"
ABOUT_ONE = {
    "programs": "rules about several programs",
    "explain/outputs/ucx_outputs.py": "what UCX's own tables show",
    "fabric/nccl/nic.py": "the model of NCCL",
    "fabric/nccl/view.py": "the model of NCCL",
    "fabric/topo_node.py": "doctor's verdict for a pair, which verbs alone has",
    "jobs/findings.py": "the memory that NCCL shares over NVLink between hosts",
    "jobs/hosts.py": "the variables of NCCL in the logs of a job",
    "jobs/setting_advice.py": "the variables of NCCL in the logs of a job",
    "repair/platforms/mooncake_switch.py": "what two remedies of Mooncake share",
    "repair/remedies/clean_nccl_settings.py": "the lines of NCCL's own file of settings",
    "repair/remedies/mooncake_use_dmabuf.py": REMEDY,
    "repair/remedies/mooncake_use_peermem.py": REMEDY,
    "repair/remedies/upgrade_nvshmem.py": REMEDY,
    "repair/remedies/upgrade_ucx.py": REMEDY,
    "repair/config/program_env.py": "the variables of single programs",
    "transport/path_options.py": "gdrkit's own transport is a verbs program",
}
"""Modules that may import the table of one program."""


def spelled_out(tree: ast.AST) -> set[str]:
    """The string and bytes literals of a module in lower case, without parts of f-strings, which are
    prose."""
    prose = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    texts = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in prose:
            value = node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value
            if isinstance(value, str):
                texts.add(value.strip().casefold())
    return texts


def labels() -> set[tuple[str, str]]:
    """Pairs of a file and a program's name in it."""
    return {
        (str(path.relative_to(SOURCE)), name)
        for path in FILES
        for name in spelled_out(ast.parse(path.read_text())) & set(NAMES)
    }


def test_a_programs_name_is_spelled_out_only_as_a_label():
    assert labels() == set(LABELS)


def test_only_modules_about_one_program_import_its_table():
    for path in FILES:
        place = path.relative_to(SOURCE)
        imported = {
            node.module
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.ImportFrom) and node.module
        }
        if imported & {f"gdrkit.programs.{room}.consumer" for room in ROOMS}:
            assert str(place) in ABOUT_ONE or place.parts[0] in ABOUT_ONE, place


def test_the_names_need_no_import():
    """`gdr doctor --help` needs them."""
    code = (
        "import sys; from gdrkit.cli import doctor, fix; doctor.parser(); fix.parser();"
        "print(*(name for name in sys.modules if name.startswith(('gdrkit.', 'msgspec'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = set(done.stdout.split())

    assert "gdrkit.programs.names" in imported
    assert not {"msgspec", "gdrkit.catalogue", "gdrkit.programs.consumer", "gdrkit.node"} & imported
