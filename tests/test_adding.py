"""The table "to add X, touch Y" of docs/architecture.md is correct: each row works in a copy of the sources.

A recipe makes the addition in the files of the row and in no other file. A process that runs the copy shows
the effect.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.evidence_nodes import build

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "architecture.md"


def table() -> dict[str, set[str]]:
    """The files to touch by what is added; NEW is the name of a new file."""
    rows = re.findall(r"^\| (an? [^|]+?) \| ([^|]+) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    return {addition: set(re.findall(r"`([\w/]+\.py)`", files)) for addition, files in rows}


class Copy:
    """A copy of the sources, which records the files that a recipe touches."""

    def __init__(self, folder: Path, node: str) -> None:
        self.source, self.node = folder / "src", node
        self.touched: set[str] = set()
        shutil.copytree(ROOT / "src", self.source, ignore=shutil.ignore_patterns("__pycache__"))

    def new(self, name: str, text: str) -> None:
        """Write a new file."""
        path = self.source / "gdrkit" / name
        assert not path.exists()
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
        self.touched.add(re.sub(r"programs/\w+/", "programs/NEW/", name) if name.startswith("programs/")
                         else str(Path(name).with_name("NEW.py")))  # fmt: skip

    def line(self, name: str, before: str, added: str) -> None:
        """Insert a text before another, which must occur once."""
        path = self.source / "gdrkit" / name
        text = path.read_text("utf-8")
        assert text.count(before) == 1, f"{name} holds {text.count(before)} of {before!r}"
        path.write_text(text.replace(before, added + before), "utf-8")
        self.touched.add(name)

    def python(self, program: str) -> str:
        """The output of a program that imports the copy."""
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=False,
            env={**os.environ, "PYTHONPATH": str(self.source), "PYTHONDONTWRITEBYTECODE": "1"},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def gdr(self, *arguments: str) -> str:
        """The output of the copy's `gdr`."""
        return self.python(f"from gdrkit.cli import main\nmain({list(arguments)!r})")


# -- recipes -------------------------------------------------------------------------------------------


def a_finding_code(copy: Copy) -> None:
    copy.new("rules/sky_is_green.py", GREEN_SKY)
    copy.line("catalogue.py", '    "talos-no-peermem"', '    "sky-is-green": "rules.sky_is_green",\n')

    report = json.loads(copy.gdr("doctor", copy.node, "--json"))
    (found,) = (f for f in report["findings"] if f["code"] == "sky-is-green")
    assert (found["status"], found["seen"]) == ("note", "green")
    assert "Nobody painted it blue." in copy.gdr("codes", "sky-is-green")
    assert '"sky-is-green"' in copy.gdr("schema")


GREEN_SKY = '''
from gdrkit.rules.rule import Failed, Layer, rule, the_node

@rule("sky-is-green", Layer.APPLICATION, per=the_node, takes=(), cost="Birds get lost.")
def sky_is_green(node, subject):
    """The sky above this machine is green.

    Why: Nobody painted it blue.

    Source: a window.
    """
    return Failed(seen="green", expected="blue", subject="sky")
'''


def a_program(copy: Copy) -> None:
    copy.new("programs/pigeon/consumer.py", PIGEON)
    copy.line("programs/names.py", '"ucx"', '"pigeon", ')
    copy.new("programs/pigeon/rules.py", TIRED_PIGEON)
    copy.line("catalogue.py", '    "talos-no-peermem"', '    "pigeon-tired": "programs.pigeon.rules",\n')
    copy.new("programs/pigeon/messages.py", COO)

    report = json.loads(copy.gdr("doctor", copy.node, "--json"))
    states = {name: section["state"] for name, section in report["consumers"].items()}
    assert (states["pigeon"], states["verbs"]) == ("blocked", "ready")
    assert "pigeon" in copy.gdr("doctor", "--help")
    text = copy.source / "post.txt"
    text.write_text("coo: 3 wings are tired\n")
    assert "pigeon-tired" in copy.gdr("explain", str(text), "--json")


PIGEON = """
from gdrkit.programs.consumer import Consumer, PathSupport
from gdrkit.rules.capabilities import Path

PIGEON = Consumer(
    name="pigeon", title="Pigeon", uses=(PathSupport(path=Path.PEERMEM), PathSupport(path=Path.STAGED))
)
"""
TIRED_PIGEON = '''
from gdrkit.programs.pigeon.consumer import PIGEON
from gdrkit.rules.rule import Failed, Layer, rule, the_node

@rule("pigeon-tired", Layer.APPLICATION, per=the_node, takes=PIGEON.own("peermem"), cost="It walks.")
def pigeon_tired(node, subject):
    """The pigeon is tired.

    Source: it yawns.
    """
    return Failed(seen="it yawns", expected="it flies", subject="pigeon")
'''
COO = """
from gdrkit.messages.message import MessageTemplate

ROWS = (MessageTemplate("pigeon", "coo: {count:[0-9]+} wings are tired", ("pigeon-tired",), "pigeon.c"),)
"""


def an_nccl_release(copy: Copy) -> None:
    copy.line(
        "programs/nccl/releases.py",
        ')  # fmt: skip\n"""Oldest first.',
        '    row("9.1.2", "src/sky.cc", has_dmabuf=False),\n',
    )

    ask = "from gdrkit.programs.nccl.releases import NEWEST, release; print(NEWEST, {}.has_dmabuf)"
    assert copy.python(ask.format("release('9.1.2')")) == "9.1.2 False\n"
    assert copy.python(ask.format("release('9.1.1')")) == "9.1.2 True\n"


def a_newer_release_that_was_read(copy: Copy) -> None:
    copy.line(
        "facts/newest_read.py",
        ')\n"""One row a program',
        '    NewestRead("Sky", "9.1", "2026-11-28", "sky"),\n',
    )

    ask = "from gdrkit.facts.newest_read import is_newer as it; print(it('Sky', '9.1'), it('Sky', '9.2'))"
    assert copy.python(ask) == "False True\n"


def a_message(copy: Copy) -> None:
    copy.line(
        "messages/driver.py",
        '    MessageTemplate(\n        "nvidia-fs",',
        '    MessageTemplate("kernel", "NVRM: the sky fell on {what}", ("bar1-exhausted",), "sky.c"),\n',
    )
    text = copy.source / "post.txt"
    text.write_text("[   12.345678] NVRM: the sky fell on GPU 3\n")

    document = json.loads(copy.gdr("explain", str(text), "--json"))
    assert "bar1-exhausted" in json.dumps(document)


def a_remedy(copy: Copy) -> None:
    copy.line("rules/remedy_names.py", '    CLEAN_NCCL_SETTINGS = "', '    PAINT_SKY = "paint-sky"\n')
    copy.new("repair/remedies/paint_sky.py", PAINT)

    assert "brush --blue" in copy.gdr("fix", copy.node, "--steps", "paint-sky")


PAINT = """
from gdrkit.repair.platforms.action import RunCommand
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.remedy_names import RemedyName

def paint(node, platform, choices):
    yield RunCommand(argv=("brush", "--blue"), why="the sky becomes blue", undo=())

PAINT_SKY = Remedy(
    name=RemedyName.PAINT_SKY, title="paint the sky", effect=lambda node: (), becomes="the sky is blue",
    changes=Change.REGISTER, procedure=paint, commands=("brush --blue",), risk="drips", undo="rain",
)
"""


def a_distribution(copy: Copy) -> None:
    suse = (copy.source / "gdrkit/repair/platforms/suse.py").read_text("utf-8")
    made_up = re.sub(r"members=frozenset\(.*\)", 'members=frozenset(("skynix",))', suse)
    copy.new(
        "repair/platforms/skynix.py",
        made_up.replace("SUSE = ", "SKYNIX = ").replace('"suse"', '"skynix"').replace("zypper", "sky"),
    )
    copy.line(
        "repair/platforms/families.py",
        "from gdrkit.repair.platforms.suse ",
        "from gdrkit.repair.platforms.skynix import SKYNIX\n",
    )
    copy.line("repair/platforms/families.py", "SUSE)\n", "SKYNIX, ")
    machine = copy.source / "machine"
    (machine / "etc").mkdir(parents=True)
    (machine / "etc/os-release").write_text("ID=skynix\n")
    (machine / "proc/sys/kernel").mkdir(parents=True)
    (machine / "proc/sys/kernel/osrelease").write_text("6.4.0-150600.21-default\n")

    steps = copy.gdr("fix", str(machine), "--steps", "upgrade-rdma-core,open-kernel-modules")
    assert "sudo sky --non-interactive update rdma-core" in steps
    assert "install the open kernel modules of the driver branch in use" in steps


def a_source_of_evidence(copy: Copy) -> None:
    copy.line(
        "agent/collect/sources.py",
        '    FileSource("proc/version",',
        '    FileSource("etc/sky", "its colour"),\n',
    )
    machine = copy.source / "machine"
    (machine / "etc").mkdir(parents=True)
    (machine / "etc/sky").write_text("green\n")

    bundle = copy.source / "bundle.tar.gz"
    copy.gdr("collect", "--root", str(machine), "-o", str(bundle), "--quiet", "--no-probe")
    ask = f"from gdrkit.evidence.target import open_host; print(open_host({str(bundle)!r}).read('etc/sky'))"
    assert copy.python(ask) == "b'green\\n'\n"


def a_command(copy: Copy) -> None:
    copy.new(
        "cli/sky.py",
        SKY,
    )
    copy.line("cli/__init__.py", '    "codes": "', '    "sky": "what is above",\n')

    assert copy.gdr("sky") == "blue\n"
    assert "what is above" in copy.gdr("help", "all")
    assert "sky" in copy.gdr("completion", "bash")


SKY = """
from gdrkit.cli.arguments import Parser, write

def parser():
    return Parser("sky", "Look up.", "")

def main(arguments):
    parser().parse_args(arguments)
    write("blue\\n")
    return 0
"""


RECIPES: Mapping[str, Callable[[Copy], None]] = {
    recipe.__name__.replace("_", " ").replace("nccl", "NCCL"): recipe
    for recipe in (
        a_finding_code,
        a_program,
        an_nccl_release,
        a_newer_release_that_was_read,
        a_message,
        a_remedy,
        a_distribution,
        a_source_of_evidence,
        a_command,
    )
}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(build("rhel-9-mofed", tmp_path_factory.mktemp("node")))


def test_the_table_has_a_recipe_for_each_row_and_no_other():
    assert set(RECIPES) == set(table())


@pytest.mark.parametrize("addition", RECIPES)
def test_the_files_in_the_table_are_enough(addition: str, node: str, tmp_path: Path):
    copy = Copy(tmp_path, node)

    RECIPES[addition](copy)

    assert copy.touched == table()[addition]
