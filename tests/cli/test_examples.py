"""Every example of a command in help, README and docs is valid, and runs unless it needs another machine."""

import gzip
import json
import os
import re
import shlex
import shutil
import tarfile
from importlib import import_module
from pathlib import Path

import msgspec
import pytest
from machines.fleet import bundles, fleet
from tools.measured import BLOCK
from tools.shown import EXAMPLES

from gdrkit.cli import COMMANDS, command_of, first_words, module_of
from tests.cli.forked import gdr
from tests.cli.test_fleet import BLOCKED_SEED
from tests.evidence_nodes import laid_down
from tests.fabric.topology.xml_files import DUMP
from tests.fleet.daemons import free_port
from tests.fleet.slurm_cluster import cluster, needs_slurm
from tests.fleet.ssh_daemon import needs_sshd, server
from tests.jobs.running.records import process, record
from tests.transport.bench.test_document import DOCUMENT

ROOT = Path(__file__).parent.parent.parent
EXAMPLE = re.compile(r"^(?:\$ )?(?P<before>[\w -]+ \| )?(?:sudo )?gdr (?P<words>[a-z].*)$")

NOT_RUN = {
    r"(doctor|report|ps|watch) ssh://|.* --host ": "needs another machine",
    r"fleet doctor --(ray|kubernetes --name)": "needs other machines",
}
"""Examples that are parsed but not run, by pattern, and why."""
ON_NODES = {
    r"fleet doctor ('|--hosts |--resume)": ("ssh_nodes", needs_sshd),
    r"fleet doctor --slurm": ("slurm_nodes", needs_slurm),
    r"fleet bench '": ("ssh_pairs", needs_sshd),
    r"fleet bench --slurm": ("slurm_pairs", needs_slurm),
}
"""Examples that ask nodes: the fixture with the environment in which those can be asked, and its marks."""
FIRST = {
    r"fleet .*--(run|since)|export --run": ("bundles/",),
    r"fleet doctor --resume": ("dead,login1",),
}
"""The targets of the run that comes before an example."""
ADDED = {
    r"fix --": ("--root", "tree"),  # a copy of a node, not this machine
    r"fix --(apply|resume|undo)": ("--root", "tree", "--yes"),
    r"topo --(?:write-nccl-xml|svg)": ("tree",),  # this machine may have no PCI devices
    r"bench (?!.*--sizes)": ("--sizes", "4K"),
    r"prove (?!log)": ("--size", "1M"),
    r"example \w": ("--force",),
    r"watch": ("--count", "1"),
    r"report (?!.*-o )": ("-o", "-"),  # several have the same name of a file by default
    r"fleet bench": ("--size", "4K", "--rounds", "1"),
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
        text = import_module(module_of(command)).parser().epilog
        found.update(_in([line.strip() for line in text.splitlines() if line.startswith("  ")]))
    for page in PAGES:
        commands = BLOCK.sub(lambda block: "" if block[1] == "measured" else block[0], page.read_text())
        blocks = re.findall(r"^```[^\n]*\n(.*?)^```", commands, re.DOTALL | re.MULTILINE)
        found.update(_in([line for block in blocks for line in block.splitlines()]))
    return sorted(found)


def _in(lines):
    for line in lines:
        if (match := EXAMPLE.match(line)) and match["words"].split()[0] in first_words():
            words = re.split(r"\s{2,}|\s+#|\s+\| ", match["words"])[0]
            yield (words, bool(match["before"])), None


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("examples")
    node = laid_down("acs-redirect")
    for name in ("bundle.tar.gz", "node.tar.gz", "gdr-r9-a100.tar.gz", "sosreport.tar.xz", "node17.tar.xz",
                 "node17.tar.gz", "h100.tar.xz", "spark-a.tar.gz", "spark-b.tar.gz",
                 "sosreport-node17.tar.xz", "zgx-3285.tar.xz", "a.tar.gz", "b.tar.gz",
                 "gdr-v100.tar.gz"):  # fmt: skip
        with tarfile.open(folder / name, f"w:{name[-2:]}") as tar:
            tar.add(node, node.name)
    (folder / "spark").mkdir()
    for name in ("spark-a.tar.gz", "spark-b.tar.gz"):
        shutil.copy(folder / name, folder / "spark")
    drawn = fleet(BLOCKED_SEED, 16)
    two = [
        next(m for m in drawn.machines if (m.name == drawn.planted) is planted) for planted in (True, False)
    ]
    for number, machine in enumerate(two, 1):
        machine.name = f"gpu{number}"
    (folder / "bundles").mkdir()
    for packed in bundles(tuple(two), tmp_path_factory.mktemp("work")):
        packed.rename(folder / "bundles" / packed.name)
    (folder / "hosts.txt").write_text("gpu[1-2] # rack 1\nlogin1\n")
    for name in ("nccl.log", "errors.txt", "logs/rank.log"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(LOG)
    (folder / "rank-0.log.gz").write_bytes(gzip.compress(LOG.encode()))
    for name in ("cluster-policy.yaml", "policy.yaml", "deployment/10-nicclusterpolicy.yaml", "job.yaml"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(POLICY)
    shutil.copytree(EXAMPLES, folder, dirs_exist_ok=True)
    for name in ("node.toml", "usual.toml"):
        (folder / name).write_text("gpus = 1\n")
    (folder / "node17.json").write_text(json.dumps(record(process(701))))
    (folder / "topo.xml").write_text(DUMP)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "bench.json").write_bytes(msgspec.json.encode(DOCUMENT))
    priced = gdr(
        ["estimate", "bundle.tar.gz", "--model", "llama-3-70b", "--tp", "16", "--json"], folder=folder
    )
    (folder / "cost.json").write_text(priced.out)
    return folder


def _sends(bundle):
    return f"/bin/cat >/dev/null; exec /bin/cat {shlex.quote(str(bundle))}"


@pytest.fixture(scope="module")
def ssh_nodes(folder):
    """Every name is a node that sends a bundle, but one."""
    programs = {"python3": _sends(folder / "bundle.tar.gz"), "sudo": '[ "$1" = -n ] && shift && exec "$@"'}
    with server() as running:
        running.node(".", programs)
        running.configure({"dead": f"  Port {free_port()}"})
        yield running.environment


@pytest.fixture(scope="module")
def ssh_pairs():
    """Every name is this machine."""
    with server() as running:
        yield running.environment


@pytest.fixture(scope="module")
def slurm_pairs():
    with cluster() as running:
        yield running.environment


@pytest.fixture(scope="module")
def slurm_nodes(folder, slurm_pairs, tmp_path_factory):
    python = tmp_path_factory.mktemp("bin") / "python3"
    python.write_text(f"#!/bin/sh\n{_sends(folder / 'bundle.tar.gz')}\n")
    python.chmod(0o755)
    return {**slurm_pairs, "PATH": f"{python.parent}:{os.environ['PATH']}"}


@pytest.fixture(scope="module")
def state_after(folder, tmp_path_factory):
    """The folder of state after a run over targets, which is made once."""
    made = {}

    def run(targets, environment):
        if targets not in made:
            made[targets] = tmp_path_factory.mktemp("state")
            own = {**environment, "XDG_STATE_HOME": str(made[targets])}
            gdr(["fleet", "doctor", *targets], folder=folder, environment=own)
        return made[targets]

    return run


def _marked():
    for words, piped in examples():
        marks = [mark for pattern, (_, own) in ON_NODES.items() if re.match(pattern, words) for mark in own]
        yield pytest.param(words, piped, marks=marks)


def _split(words):
    """The arguments without redirections, and the file of standard input."""
    given = re.search(r" < ?(\S+)", words)
    bare = re.sub(r"( \d?[<>] ?\S+)+$", "", words)
    return shlex.split(bare), given[1] if given else None


def _expanded(word, folder):
    """What a shell makes of a word."""
    return sorted(str(one.relative_to(folder)) for one in folder.glob(word)) if "*" in word else [word]


@pytest.mark.parametrize("words, piped", list(_marked()))
def test_an_example_is_valid_and_runs(words, piped, folder, state_after, tmp_path, request):
    arguments, given = _split(words)
    arguments = [one for word in arguments for one in _expanded(word, folder)]
    command = command_of(arguments)
    parser = import_module(module_of(command)).parser()
    own = arguments[len(command.split()) :]
    if any(action.nargs in ("*", "?") for action in parser._get_positional_actions()):
        parser.parse_intermixed_args(own)
    else:
        parser.parse_args(own)
    if any(re.match(pattern, words) for pattern in NOT_RUN):
        return
    place = next((fixture for pattern, (fixture, _) in ON_NODES.items() if re.match(pattern, words)), None)
    environment = {
        **(request.getfixturevalue(place) if place else os.environ), "XDG_STATE_HOME": str(tmp_path)
    }  # fmt: skip
    arguments += [word for pattern, added in ADDED.items() if re.match(pattern, words) for word in added]
    if "tree" in arguments:
        shutil.rmtree(folder / "tree", ignore_errors=True)
        shutil.copytree(laid_down("acs-redirect"), folder / "tree", symlinks=True)
    for option in ("-o", "--write-nccl-xml", "--pyz", "--plot"):
        if option in arguments:
            (folder / arguments[arguments.index(option) + 1]).unlink(missing_ok=True)
    text = Path(folder, given).read_text() if given else INPUT.get(arguments[0], LOG) if piped else PERFTEST
    for targets in (targets for pattern, targets in FIRST.items() if re.match(pattern, words)):
        shutil.copytree(state_after(targets, environment), tmp_path, dirs_exist_ok=True)
    run = gdr(arguments, given=text, folder=folder, environment=environment)
    assert run.code in (0, 1, 2, 3), run.err
    (folder / "topo.xml").write_text(DUMP)


INPUT = {"topo": "\tGPU0\tNIC0\nGPU0\t X \tPIX\nNIC0\tPIX\t X \n", "estimate": PERFTEST}


def test_examples_are_found_and_each_reason_is_needed():
    found = [words for words, _ in examples()]
    assert len(found) > 90
    assert {command_of(words.split()) for words in found} == set(COMMANDS)
    for pattern in (*NOT_RUN, *ADDED, *ON_NODES, *FIRST):
        assert any(re.match(pattern, words) for words in found), pattern


def test_every_option_that_a_page_names_is_one_of_its_command():
    wrong = []
    for page in PAGES:
        for span in re.findall(r"(?<!`)`(?:sudo )?gdr ([^`\n]+)`(?!`)", page.read_text()):
            words = span.split()
            if (command := command_of(words)) in COMMANDS:
                known = import_module(module_of(command)).parser()._option_string_actions
                options = [
                    word.partition("=")[0].strip(".,") for word in words if re.match(r"--?[a-z]", word)
                ]
                wrong += [(page.name, span) for option in options if option not in known]
    assert wrong == []
