"""The options of a job, and its exit codes."""

from __future__ import annotations

import argparse
import json

import pytest

from gdrkit.cli import estimate_model, main
from gdrkit.cli.exit import NO_INPUT, OK, UNKNOWN, USAGE
from gdrkit.fabric.cost.job_machine import JobMachine
from tests.fabric.topology.xml_files import DUMP

PATHS = ("--path", "direct=20:24", "--path", "staged=10:14")


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    estimate_model.add_options(parser)
    return estimate_model.answer(parser.parse_args(words), JobMachine(None, "no target", 0, ""))


def test_a_known_model_on_given_paths_has_a_cost(capsys):
    assert run("--model", "llama-3-70b", "--tp", "2", "--gpu", "GB10", *PATHS) == OK
    assert "GPUDirect would save you" in capsys.readouterr().out


def test_without_a_path_the_answer_is_unknown(capsys):
    assert run("--model", "llama-3-70b", "--tp", "2", "--gpu", "GB10") == UNKNOWN
    assert "not known" in capsys.readouterr().out


def test_json_is_json(capsys):
    run("--model", "llama-3-70b", "--tp", "2", "--gpu", "GB10", "--json", *PATHS)

    assert json.loads(capsys.readouterr().out)["cost"]["job"]["layout"]["tensor"] == 2


def test_a_config_json_is_read(tmp_path, capsys):
    path = tmp_path / "config.json"
    path.write_text(
        '{"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, '
        '"intermediate_size": 128, "vocab_size": 1000}'
    )

    assert run("--model", str(path), "--tp", "2", "--gpu", "H200", *PATHS) == OK
    assert "config.json" in capsys.readouterr().out


@pytest.mark.parametrize("text", ['{"model_type": "llama", "hidden_size": 64', "{}", "", "[]"])
def test_a_truncated_config_json_is_refused(tmp_path, capsys, text):
    path = tmp_path / "config.json"
    path.write_text(text)

    assert run("--model", str(path), *PATHS) == NO_INPUT
    assert "config.json" in capsys.readouterr().err


def test_a_missing_config_is_refused(tmp_path, capsys):
    assert run("--model", str(tmp_path / "config.json")) == NO_INPUT
    assert "No such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--model", "lama-3-70b"), "llama-3-70b"),
        (("--model", "llama-3-70b", "--tp", "3"), "--tp 3"),
        (("--model", "llama-3-70b", "--gpu", "H9000"), "H9000"),
        (("--model", "llama-3-70b", "--path", "direct"), "NAME=LOW"),
        (("--model", "llama-3-70b", "--path", "direct=x"), "NAME=LOW"),
        (("--model", "llama-3-70b", "--path", "direct=5:4"), "LOW <= HIGH"),
        (("--model", "llama-3-70b", "--path", "direct=nan"), "LOW <= HIGH"),
        (("--model", "llama-3-70b", "--path", "direct=-5"), "LOW <= HIGH"),
        (("--model", "llama-3-70b", "--path", "nvlink=5"), "nvlink"),
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
    cost = json.loads(capsys.readouterr().out)["cost"]
    assert cost["job"]["layout"]["gpus_per_node"] == 2
    assert [on["path"]["name"] for on in cost["steps"][0]["paths"]] != []
