"""Every example of a command in help, README and docs is valid, and runs unless it needs another machine."""

import gzip
import json
import re
import shlex
import shutil
import subprocess
import tarfile
from importlib import import_module
from pathlib import Path

import pytest
from tools.measured import BLOCK
from tools.shown import EXAMPLES

from gdrkit.cli import COMMANDS
from tests.cli.test_streams import GDR
from tests.evidence_nodes import laid_down
from tests.fabric.topology.xml_files import DUMP

ROOT = Path(__file__).parent.parent.parent
EXAMPLE = re.compile(r"^(?:\$ )?(?P<before>[\w -]+ \| )?(?:sudo )?gdr (?P<words>[a-z].*)$")

NOT_RUN = {
    r"doctor ssh://|.* --host ": "needs another machine",
    r"fleet doctor ('|--hosts |--slurm|--resume)": "needs other machines",
    r"fleet doctor --run last --(group|compare)": "names groups and nodes of a larger run",
}
"""Examples that are parsed but not run, by pattern, and why."""
ADDED = {
    r"fix --": ("--root", "tree"),  # a copy of a node, not this machine
    r"fix --(apply|resume|undo)": ("--root", "tree", "--yes"),
    r"topo --write-nccl-xml": ("tree",),  # this machine may have no PCI devices
    r"bench (?!.*--sizes)": ("--sizes", "4K"),
    r"prove (?!log)": ("--size", "1M"),
}
"""What is added to examples that would change this machine, or take long; the last of two options counts."""

LOG = (
    "h:1:2 [0] NCCL INFO NCCL version 2.21.5+cuda12.4\n"
    "h:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA\n"
)
POLICY = "apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata: {name: x}\nspec: {driver: {rdma: {}}}\n"
CONFIG = {
    "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
    "architectures": ["LlamaForCausalLM"],
}  # fmt: skip
PERFTEST = """---
                    RDMA_Write BW Test
 Dual-port       : OFF          Device         : mlx5_0
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      5000             390.10             389.95             0.743
"""


PAGES = (
    *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")),
    *sorted((ROOT / "docs").rglob("*.md")),
)


def examples():
    """The text after `gdr` of each example, with whether something is piped into it."""
    found = {}
    for command in COMMANDS:
        text = import_module(f"gdrkit.cli.{command}").parser().epilog
        found.update(_in([line.strip() for line in text.splitlines() if line.startswith("  ")]))
    for page in PAGES:
        commands = BLOCK.sub(lambda block: "" if block[1] == "measured" else block[0], page.read_text())
        blocks = re.findall(r"^```[^\n]*\n(.*?)^```", commands, re.DOTALL | re.MULTILINE)
        found.update(_in([line for block in blocks for line in block.splitlines()]))
    return sorted(found)


def _in(lines):
    for line in lines:
        if (match := EXAMPLE.match(line)) and match["words"].split()[0] in COMMANDS:
            words = re.split(r"\s{2,}|\s+#|\s+\| ", match["words"])[0]
            yield (words, bool(match["before"])), None


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("examples")
    node = laid_down("acs-redirect")
    for name in ("bundle.tar.gz", "node.tar.gz", "gdr-r9-a100.tar.gz", "sosreport.tar.xz", "node17.tar.xz",
                 "sosreport-node17.tar.xz", "zgx-3285.tar.gz", "a.tar.gz", "b.tar.gz",
                 "bundles/gpu1.tar.gz", "bundles/gpu2.tar.gz"):  # fmt: skip
        (folder / name).parent.mkdir(exist_ok=True)
        with tarfile.open(folder / name, f"w:{name[-2:]}") as tar:
            tar.add(node, node.name)
    for name in ("nccl.log", "post.txt", "logs/rank.log"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(LOG)
    (folder / "rank-0.log.gz").write_bytes(gzip.compress(LOG.encode()))
    for name in ("cluster-policy.yaml", "policy.yaml"):
        (folder / name).write_text(POLICY)
    shutil.copytree(EXAMPLES, folder, dirs_exist_ok=True)
    (folder / "node.toml").write_text("gpus = 1\n")
    (folder / "topo.xml").write_text(DUMP)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    return folder


def _split(words):
    """The arguments without redirections, and the file of standard input."""
    given = re.search(r" < ?(\S+)", words)
    bare = re.sub(r"( \d?[<>] ?\S+)+$", "", words)
    return shlex.split(bare), given[1] if given else None


@pytest.mark.parametrize("words, piped", examples())
def test_an_example_is_valid_and_runs(words, piped, folder, tmp_path, monkeypatch):
    arguments, given = _split(words)
    parser = import_module(f"gdrkit.cli.{arguments[0]}").parser()
    if any(action.nargs in ("*", "?") for action in parser._get_positional_actions()):
        parser.parse_intermixed_args(arguments[1:])
    else:
        parser.parse_args(arguments[1:])
    if any(re.match(pattern, words) for pattern in NOT_RUN):
        return
    shutil.rmtree(folder / "tree", ignore_errors=True)
    shutil.copytree(laid_down("acs-redirect"), folder / "tree", symlinks=True)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    arguments += [word for pattern, added in ADDED.items() if re.match(pattern, words) for word in added]
    for option in ("-o", "--write-nccl-xml", "--pyz", "--plot"):
        if option in arguments:
            (folder / arguments[arguments.index(option) + 1]).unlink(missing_ok=True)
    text = Path(folder, given).read_text() if given else INPUT.get(arguments[0], LOG) if piped else PERFTEST
    if re.match(r"fleet .*--(run|since)|export --run", words):
        first = [*GDR, "fleet", "doctor", "bundles/"]
        subprocess.run(first, cwd=folder, capture_output=True, timeout=60, check=False)  # exit 2: blocked
    run = subprocess.run(
        [*GDR, *arguments], input=text, text=True, cwd=folder, capture_output=True, timeout=60
    )
    assert run.returncode in (0, 1, 2, 3), run.stderr
    (folder / "topo.xml").write_text(DUMP)


INPUT = {"topo": "\tGPU0\tNIC0\nGPU0\t X \tPIX\nNIC0\tPIX\t X \n", "estimate": PERFTEST}


def test_examples_are_found_and_each_reason_is_needed():
    found = [words for words, _ in examples()]
    assert len(found) > 90
    assert {words.split()[0] for words in found} == set(COMMANDS) - {"completion"}
    for pattern in (*NOT_RUN, *ADDED):
        assert any(re.match(pattern, words) for words in found), pattern


def test_every_option_that_a_page_names_is_one_of_its_command():
    wrong = []
    for page in PAGES:
        for span in re.findall(r"(?<!`)`(?:sudo )?gdr ([^`\n]+)`(?!`)", page.read_text()):
            command, *words = span.split()
            if command in COMMANDS and command != "completion":
                known = import_module(f"gdrkit.cli.{command}").parser()._option_string_actions
                options = [
                    word.partition("=")[0].strip(".,") for word in words if re.match(r"--?[a-z]", word)
                ]
                wrong += [(page.name, span) for option in options if option not in known]
    assert wrong == []
