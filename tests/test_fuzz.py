"""Altered input breaks nothing; longer runs are `python -m tools.fuzz --seconds N`."""

import ast
import io
import random
import re
import tarfile
from pathlib import Path

import pytest
from tools.fuzz import __main__ as fuzz
from tools.fuzz import parsers
from tools.fuzz.altering import altered
from tools.fuzz.commands import Commands, run
from tools.fuzz.corpus import Corpus
from tools.fuzz.target import Parser, Sample, why_broken

from tests.seed import SEED

SOURCE = Path(__file__).parent.parent / "src/gdrkit"
NODES = ("wsl2", "no-gpu", "h200-vm")
TODAYS = random.Random(SEED).randrange(1 << 31)
"""The seed of the inputs of parsers and facts, which are others every day."""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return Corpus(tmp_path_factory.mktemp("fuzz"), NODES)


def test_altered_input_breaks_no_parser_and_no_fact(corpus):
    targets = [target for target in fuzz.targets(corpus) if not isinstance(target, Commands)]
    counts = fuzz.drive(targets, seed=TODAYS, first=0, most=7, seconds=0)
    assert len(counts) > 100
    wrong = {name: count.kinds for name, count in counts.items() if count.kinds or count.inputs != 7}
    assert wrong == {}, f"GDRKIT_SEED={SEED}"


PATHS = {"fleet.runs:read", "jobs.logs:beginning"}
"""What takes a path, not a text."""


def test_every_parser_of_one_text_is_altered():
    """A public function of one text or of some bytes that raises FormatError is in the registry."""
    registry = Path(parsers.__file__).read_text()
    missing = {
        name
        for path in sorted(SOURCE.rglob("*.py"))
        for name in documented(path)
        if not {name, name.rpartition(".")[2].replace(":", ".")} & named_in(registry)
    }
    assert missing - {"jobs.running.record:decode"} == PATHS  # which a function there calls


def documented(path: Path) -> list[str]:
    module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
    found = []
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            first, *more = (ast.unparse(one.annotation or one) for one in node.args.args or [ast.arg("")])
            raises = [
                ast.unparse(one.exc) for one in ast.walk(node) if isinstance(one, ast.Raise) and one.exc
            ]
            known = "FormatError" in (ast.get_docstring(node) or "") or "FormatError" in str(raises)
            if first in ("str", "bytes") and len(more) <= len(node.args.defaults) and known:
                found.append(f"{module}:{node.name}")
    return found


def named_in(registry: str) -> set[str]:
    return set(re.findall(r"[\w.]+:\w+|\b\w+\.\w+\b", registry))


@pytest.mark.parametrize("kind", ["text", "node"])
def test_altered_input_breaks_no_command(corpus, kind):
    target = Commands(f"commands/{kind}", corpus)
    assert [why for number in range(12) if (why := why_broken(target, 1, number))] == []


def test_a_broken_command_is_noticed(corpus, monkeypatch):
    """An exception in a command, and its exit code 70, are failures that name the call."""
    monkeypatch.setattr("gdrkit.explain.explain.explain", lambda *_, **__: 1 / 0)
    target = Commands("commands/text", corpus)
    found = [why_broken(target, 1, number) for number in range(12)]
    assert any(why.startswith("gdr explain ") and "ZeroDivisionError" in why for why in found)
    assert found == [why_broken(target, 1, number) for number in range(12)]


def endless(content):
    while content:
        pass


@pytest.mark.parametrize(
    ("read", "why"),
    [
        (lambda content: {}["missing"], "KeyError"),
        (lambda content: int("x"), ""),
        (lambda content: bytearray(1 << 40), "MemoryError"),
        (endless, "took more than 0.2 s"),
    ],
)
def test_what_a_parser_does_not_document_is_noticed(read, why):
    target = Parser("a parser", [Sample(b"a\n" * 9, read)], (ValueError,), seconds=0.2)
    found = [why_broken(target, 7, number) for number in range(9)]
    assert any(found) == bool(why)
    assert all(why in one for one in found)


def test_an_input_depends_on_seed_and_number_alone(corpus):
    content = b"a 1 0x2\nb 3\n" * 20
    many = [altered(content, random.Random(f"1:{number}")) for number in range(300)]
    assert many == [altered(content, random.Random(f"1:{number}")) for number in range(300)]
    assert len(set(many)) > 200 and any(b"1" * 5000 in one for one in many)


def test_a_run_prints_its_failures_and_a_table(tmp_path, monkeypatch, capsys):
    broken = Parser("parsers/broken", [Sample(b"abcd", lambda content: {}["missing"])], ())
    monkeypatch.setattr(fuzz, "targets", lambda corpus: [broken])
    arguments = [
        "--seed",
        "3",
        "--count",
        "5",
        "--target",
        "broken",
        "--inputs",
        str(tmp_path),
        "--node",
        "wsl2",
    ]

    assert fuzz.main(arguments) == 1
    out = capsys.readouterr().out
    assert "parsers/broken, input 0 of seed 3" in out and "| parsers/broken | 5 |" in out
    assert out.count("Traceback") == 1


@pytest.mark.parametrize(
    "command", ["doctor", "topo", "estimate", "fix", "modprobe nvidia", "config nccl-env"]
)
@pytest.mark.parametrize("kept", [0, 1, 700])
def test_an_archive_that_is_cut_inside_its_manifest(command, kept, tmp_path):
    """The manifest's header is there, and its content is not."""
    at = tmp_path / "node.tar"
    with tarfile.open(at, "w") as tar:
        entry = tarfile.TarInfo("gdr-node/gdr_manifest.json")
        entry.size = 4096
        tar.addfile(entry, io.BytesIO(b'{"schema": "gdrkit.bundle/1", "files": {'.ljust(4096)))
    at.write_bytes(at.read_bytes()[: 512 + kept])
    code, _, error = run((*command.split(), str(at)))
    assert code == 66 and "Traceback" not in error and len(error.splitlines()) <= 3
