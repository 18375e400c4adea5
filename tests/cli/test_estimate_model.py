"""The options of a job, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gdrkit.cli import estimate, main
from gdrkit.cli.arguments import Parser
from gdrkit.cli.exit import NO_INPUT, OK, UNKNOWN, USAGE
from gdrkit.fabric.ceilings.node_links import LinkedGpu, NodeLinks
from tests.evidence_nodes import laid_down
from tests.fabric.topology.xml_files import DUMP

ONE_GPU = NodeLinks(gpus=(LinkedGpu("0000:1b:00.0"),))


def run(*words: str, links: NodeLinks = ONE_GPU) -> int:
    parser = Parser("estimate", "Estimate.", "")
    parser.output()
    parser.add_argument("--measured")
    parser.add_argument("--quiet", action="store_true")
    estimate.add_options(parser)
    return estimate.cost(parser.parse(list(words)), links, "NVIDIA H100 80GB HBM3")


@pytest.fixture
def h100(tmp_path) -> str:
    return str(laid_down("ubuntu-6.8-h100"))


def test_a_known_model_on_a_node_has_a_cost(h100, capsys):
    assert main(["estimate", h100, "--model", "llama-3-70b", "--tp", "16"]) == OK
    assert "GPUDirect would save you" in capsys.readouterr().out


def test_without_a_path_the_answer_is_unknown(capsys):
    assert run("--model", "llama-3-70b", "--tp", "2") == UNKNOWN
    assert "not known" in capsys.readouterr().out


def test_a_job_in_one_node_needs_no_path(capsys):
    eight = NodeLinks(gpus=tuple(LinkedGpu(f"0000:1{n}:00.0") for n in range(8)))

    assert run("--model", "llama-3-70b", "--tp", "8", links=eight) == OK
    assert "crosses the network (8 GPUs on 1 node)" in capsys.readouterr().out


def test_json_is_json(capsys):
    run("--model", "llama-3-70b", "--tp", "2", "--json")

    assert json.loads(capsys.readouterr().out)["layout"]["tensor"] == 2


def test_a_config_json_is_read(tmp_path, capsys):
    path = tmp_path / "config.json"
    path.write_text(
        '{"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, '
        '"intermediate_size": 128, "vocab_size": 1000}'
    )

    assert run("--model", str(path), "--tp", "2") == UNKNOWN
    assert "config.json" in capsys.readouterr().out


@pytest.mark.parametrize("text", ['{"model_type": "llama", "hidden_size": 64', "{}", "", "[]"])
def test_a_truncated_config_json_is_refused(tmp_path, capsys, text):
    path = tmp_path / "config.json"
    path.write_text(text)

    assert run("--model", str(path)) == NO_INPUT
    assert "config.json" in capsys.readouterr().err


def test_a_missing_config_is_refused(tmp_path, capsys):
    assert run("--model", str(tmp_path / "config.json")) == NO_INPUT
    assert "No such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--model", "lama-3-70b"), "llama-3-70b"),
        (("--model", "llama-3-70b", "--tp", "3"), "--tp 3"),
    ],
)
def test_wrong_values_are_refused_by_name(capsys, words, named):
    assert run(*words) == USAGE
    assert named in capsys.readouterr().err


def test_a_saved_topology_is_a_target_as_for_ceilings(tmp_path, capsys):
    """Its NICs give the paths, its PCI ids the product."""
    saved = tmp_path / "topo.xml"
    saved.write_text(DUMP.replace('class="0x030200"', 'class="0x030200" device="0x2330"'))
    assert main(["estimate", "--model", "llama-3-8b", "--tp", "4", str(saved), "--json"]) in (OK, UNKNOWN)
    cost = json.loads(capsys.readouterr().out)
    assert cost["layout"]["gpus_per_node"] == 2
    assert cost["gpu"] == "H100-SXM" and cost["paths"] != []


def test_a_node_without_gpus_is_assumed_to_have_those_of_a_board_and_says_so(capsys):
    none = NodeLinks()
    run("--model", "llama-3-70b", "--tp", "16", links=none)
    shown = " ".join(capsys.readouterr().out.split())

    assert "on 2 nodes" in shown and "8 GPUs in a node, since this one shows none" in shown


def test_gpus_that_are_seen_are_not_assumed(capsys):
    run("--model", "llama-3-70b", "--tp", "2")
    assert "GPUs in a node" not in capsys.readouterr().out


JOB = str(Path(__file__).parent / "examples" / "job.log")
PART = "part of one host that a job used: the node may have more GPUs and NICs"


@pytest.mark.parametrize(
    "words", [["topo", JOB], ["estimate", JOB], ["estimate", "--model", "llama-3-70b", "--tp", "16", JOB]]
)
def test_a_log_of_a_job_is_called_its_part_of_a_node(words, capsys):
    main(words)
    assert PART in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("command", ["topo", "estimate"])
def test_a_whole_node_is_not_called_a_part(command, h100, capsys):
    main([command, h100])
    assert "a job used" not in capsys.readouterr().out
