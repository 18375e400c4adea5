"""`gdr config check`, `gdr nccl` and `gdr explain` do not contradict each other on one text."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from gdrkit.catalogue import CODES
from gdrkit.cli import main
from tests.jobs.samples import info
from tests.seed import SEED

LOCAL = info("n1:7", 0, "comm 0x1 rank 0 nRanks 8 nNodes 1 localRanks 8 localRank 0 MNNVL 0")
REMOTE = info("n1:7", 0, "comm 0x1 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0")
DISABLED = info("n1:7", 0, "NCCL_IB_DISABLE set by environment to 1.", "Using network Socket")
POD = (
    "apiVersion: v1\nkind: Pod\nmetadata:\n  name: job\nspec:\n"
    "  containers:\n  - name: job\n    image: job\n"
    '    env:\n    - name: {}\n      value: "{}"\n'
)
TEXTS = (
    "NCCL_NET_GDR_LEVEL=ALL\n",
    "export NCCL_NET_GDR_LEVEL=everything\nexport NCCL_IB_HCA=mlx5_0\n",
    POD.format("NCCL_NET_GDR_LEVEL", "near"),
    POD.format("NCCL_NET_GDR_LEVEL", "SYS"),
    POD.format("NCCL_IB_DISABLE", "1"),
    f"$ NCCL_NET_GDR_LEVEL=far mpirun -np 2 ./job\n{REMOTE}",
    f"export NCCL_NET_GDR_LEVEL=PIX\n{REMOTE}",
    DISABLED + REMOTE,
    DISABLED + LOCAL,
    LOCAL,
)


FOLDER = Path(__file__).parent.parent
MANIFESTS = sorted(
    path
    for pattern in ("repair/config/checked/*", "evidence/*/sos_commands/*/*.yaml", "cli/examples/*.yaml")
    for path in FOLDER.glob(pattern)
    if path.read_bytes().strip()
)
FORMS = (
    "{0}={1}\n",
    "#!/bin/bash\nexport {0}={1}\n./job\n",
    "export NCCL_DEBUG=INFO {0}={1}\n",
    "#!/bin/bash\nmpirun -np 2 \\\n  -x {0}={1} \\\n  ./all_reduce_perf\n",
    "docker run --gpus all -e {0}={1} image python train.py\n",
    "#!/bin/bash\n#SBATCH -N2\nsrun --export=ALL,{0}={1} ./a\n",
    "{0}={1} mpirun -np 2 ./all_reduce_perf\n",
    "FROM base\nENV {0}={1}\n",
    'import os\nos.environ["{0}"] = "{1}"\n',
    'services:\n  a:\n    image: x\n    environment:\n      {0}: "{1}"\n',
    "services:\n  a:\n    image: x\n    environment:\n      - {0}={1}\n",
    POD,
    "apiVersion: v1\nkind: Pod\nmetadata:\n  name: job\nspec:\n  containers:\n  - name: job\n"
    '    command: ["sh", "-c", "{0}={1} ./job"]\n',
    'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: job\ndata:\n  {0}: "{1}"\n',
    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: job\ndata:\n  run.sh: |\n    export {0}={1}\n",
    "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {{name: job}}\nspec: {{template: {{spec: {{containers: "
    '[{{name: c, env: [{{name: {0}, value: "{1}"}}]}}]}}}}}}\n',
)
SETTINGS = (
    ("NCCL_NET_GDR_LEVEL", "near"), ("NCCL_NET_GDR_LEVEL", "LOC"), ("NCCL_IB_DISABLE", "1"),
    ("NCCL_NET_GDR_READ", "0"), ("NCCL_DMABUF_ENABLE", "0"), ("UCX_TLS", "tcp"),
    ("UCX_IB_GPU_DIRECT_RDMA", "n"), ("UCX_NET_DEVICES", "eth0"), ("FI_HMEM_DISABLE_P2P", "1"),
)  # fmt: skip
GOOD = (
    ("NCCL_NET_GDR_LEVEL", "PHB"), ("NCCL_IB_DISABLE", "0"), ("UCX_TLS", "rc,cuda"),
    ("UCX_NET_DEVICES", "mlx5_0:1"),
)  # fmt: skip


def drawn(settings):
    """Each form with a third of the settings, another one each day."""
    return [
        pytest.param(form, *setting, id=f"{number}-{'='.join(setting)}")
        for number, form in enumerate(FORMS)
        for setting in random.Random(f"{SEED} {number}").sample(settings, -(-len(settings) // 3))
    ]


@pytest.fixture
def answers(tmp_path: Path, capsys):
    """What each of the three commands says about one text."""

    def run(text: str) -> dict[str, dict]:
        path = tmp_path / "text"
        path.write_text(text)
        found = {}
        for name, words in (("check", ("config", "check")), ("nccl", ("nccl",)), ("explain", ("explain",))):
            main([*words, "--json", str(path)])
            found[name] = json.loads(capsys.readouterr().out)
        return found

    return run


def shown(explanation: dict) -> set[str]:
    """Every code that an explanation has, as proven, as a note or as open."""
    found = {cause["code"] for cause in explanation["answer"]["others"]} | {explanation["answer"]["cause"]}
    for machine in explanation["machines"]:
        found |= {problem["code"] for problem in (*machine["established"], *machine["notes"])}
        found |= {cause["code"] for line in machine["open"] for cause in line["causes"]}
    return found


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_what_one_command_finds_the_other_does_not_deny(answers, text: str):
    said = answers(text)
    faults = {fault["code"] for fault in said["check"]["faults"]} & CODES.keys()
    failing = {one["code"] for one in said["nccl"]["findings"] if one["status"] in ("failed", "warning")}

    assert (faults | failing) - shown(said["explain"]) == set()


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_a_note_of_one_command_is_no_cause_of_the_other(answers, text: str):
    said = answers(text)
    notes = {one["code"] for one in said["nccl"]["findings"] if one["status"] == "note"}

    assert said["explain"]["answer"]["cause"] not in notes


def test_a_network_that_is_off_matters_only_where_one_is_needed(answers):
    assert answers(DISABLED + REMOTE)["explain"]["answer"]["cause"] == "ib-disabled-by-env"
    assert answers(DISABLED + LOCAL)["explain"]["answer"]["cause"] is None


@pytest.mark.parametrize(("form", "name", "value"), drawn(SETTINGS))
def test_a_setting_that_one_command_faults_the_other_names_in_every_form(answers, form, name, value):
    said = answers(form.format(name, value))
    faults = {fault["code"] for fault in said["check"]["faults"]}

    assert faults & CODES.keys() <= shown(said["explain"])
    assert said["explain"]["answer"]["cause"] in faults | {None}
    kinds = ("cause", "several")
    if form.startswith("#!"):  # a script gets the answer of config check
        noted = all(fault["severity"] == "note" for fault in said["check"]["faults"])
        kinds = ("nothing",) if noted else ("elsewhere",)
    assert faults and said["explain"]["answer"]["kind"] in kinds


@pytest.mark.parametrize(("form", "name", "value"), drawn(GOOD))
def test_a_setting_that_is_fine_is_no_fault_and_no_cause(answers, form, name, value):
    said = answers(form.format(name, value))

    assert not {fault["code"] for fault in said["check"]["faults"]} & CODES.keys()
    assert said["explain"]["answer"]["cause"] is None


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_a_file_of_manifests_that_has_errors_is_not_called_free_of_problems(answers, path: Path):
    text = path.read_bytes().decode("utf-8", "replace")
    said = answers(text)
    faults = [fault for fault in said["check"]["faults"] if fault["severity"] == "error"]

    assert {fault["code"] for fault in faults} & CODES.keys() <= shown(said["explain"])
    if faults and text.startswith(("apiVersion", "version", "machine", "spec", "kind")):
        assert said["explain"]["answer"]["kind"] not in ("nothing", "documentation", "harmless", "working")


def test_a_fault_that_has_no_code_heads_the_answer(answers):
    said = answers("apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nspec:\n  driver:\n    rdma: true\n")

    assert said["explain"]["answer"]["kind"] == "elsewhere"
    assert "ClusterPolicy" in said["explain"]["answer"]["sentence"]


def test_a_heading_about_a_variable_sets_nothing(answers):
    said = answers("NCCL_NET_GDR_LEVEL Values\n\nexport NCCL_NET_GDR_LEVEL=SYS\n")

    assert said["check"]["faults"] == []
    assert said["explain"]["answer"]["cause"] is None
