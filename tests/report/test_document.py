"""The document: valid against its schema, small, and correct for some nodes."""

from __future__ import annotations

import functools
import operator
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from msgspec.structs import replace

from gdrkit.agent.streams import visible
from gdrkit.catalogue import every_rule
from gdrkit.cli.schema import schema_of
from gdrkit.repair.platforms.action import Action
from gdrkit.report.document import Report
from gdrkit.report.fix_document import ActionKind
from gdrkit.report.line import line
from gdrkit.report.programs import program_lines
from gdrkit.report.text import TO_FIND_OUT, explained, text
from tests.evidence_nodes import diagnosed, names

SCHEMA = schema_of(Report, "gdrkit.report/1")
VALIDATOR = Draft202012Validator(msgspec.json.decode(SCHEMA))
KIB = 1024


@pytest.mark.parametrize("name", names())
def test_every_report_is_valid_against_the_schema(name):
    document = msgspec.json.decode(msgspec.json.encode(diagnosed(name)))
    assert [error.message for error in VALIDATOR.iter_errors(document)] == []


BROKEN = [
    ("schema", "gdrkit.report/2"),
    ("verdict.state", "fine"),
    ("verdict.consumer", "gremlins"),
    ("verdict.first_broken_layer", "cloud"),
    ("verdict.best_fallback", "dmabuf"),
    ("verdict.summary", "x" * 81),
    ("consumers.nccl.state", "fine"),
    ("consumers.nccl.first_broken_layer", "cloud"),
    ("judgements.j1.path", "pigeon"),
    ("judgements.j1.direction", "sideways"),
    ("judgements.j1.state", None),
    ("judgements.j1.confidence", "hoped"),
    ("judgements.j1.blocked_by", ["gremlins"]),
    ("findings.0.code", "gremlins"),
    ("findings.0.layer", 0),
    ("findings.0.status", "fine"),
    ("findings.0.confidence", 2),
    ("findings.0.evidence", [{"text": "from nowhere"}]),
    ("what_then.0.0.then.state", "fine"),
    ("what_then.0.0.modprobe", "nothing"),
    ("modprobe.exit_code", "1"),
    ("pairs.0.gpu", None),
]


@pytest.mark.parametrize(("key", "value"), BROKEN, ids=[key for key, _ in BROKEN])
def test_the_schema_rejects_what_is_not_in_the_contract(key, value):
    document = msgspec.json.decode(msgspec.json.encode(diagnosed("zgx-3285")))
    *above, last = (int(step) if step.isdigit() else step for step in key.split("."))
    parent = functools.reduce(operator.getitem, above, document)
    assert last in parent
    parent[last] = value
    assert list(VALIDATOR.iter_errors(document))


def test_the_schema_rejects_a_document_without_one_of_its_sections():
    document = msgspec.json.decode(msgspec.json.encode(diagnosed("zgx-3285")))
    for name in document.keys() - {"ask"}:  # only where somebody else must act
        incomplete = {key: section for key, section in document.items() if key != name}
        assert list(VALIDATOR.iter_errors(incomplete)), name


def test_eight_gpus_and_twelve_nics_stay_under_60_kb():
    whole = diagnosed("ubuntu-6.8-h100")
    assert len(whole.pairs) >= 64
    assert len(msgspec.json.encode(whole)) < 60 * KIB


def test_unknowns_that_one_command_answers_are_listed_once():
    unknown = [f for f in diagnosed("dgx-os-5-nv-peer-mem").findings if f.status == "unknown"]
    commands = [(f.code, f.seen, f.expected) for f in unknown]
    assert len(commands) == len(set(commands))
    assert len(next(f for f in unknown if f.code == "kernel-lacks-dmabuf").also) == 7


@pytest.mark.parametrize("name", names())
def test_the_line_has_at_most_80_characters_and_names_host_and_state(name):
    short = line(diagnosed(name))
    assert len(short) <= 80 and "\n" not in short
    host, state = diagnosed(name).node.hostname, diagnosed(name).verdict.state
    assert short.startswith(f"{host}: {state}" if host else state)


@pytest.mark.parametrize("name", ["ubuntu-6.8-h100", "peermem-blacklisted", "zgx-3285"])
@given(st.text(max_size=200), st.text(max_size=200))
def test_no_line_is_longer_whatever_a_node_calls_itself_and_its_parts(name, host, seen):
    """Escapes are longer than what they stand for, and a name has no limit in a bundle."""
    whole = diagnosed(name)
    verdict = replace(whole.verdict, summary=seen)
    hostile = replace(
        whole,
        node=replace(whole.node, hostname=host),
        verdict=verdict,
        findings=tuple(replace(finding, seen=seen) for finding in whole.findings),
    )
    short, nagios = line(hostile), line(hostile, nagios=True)
    assert len(short) <= 80 and short == visible(short) and len(short.splitlines()) == 1
    assert verdict.state in short
    status, bar, performance = nagios.partition(" | ")
    assert bar and status == short.replace("|", "/") and len(performance) < 100


def test_pairs_refer_to_every_judgement_and_to_no_other():
    whole = diagnosed("ubuntu-6.8-h100")
    named = {key for pair in whole.pairs for key in pair.judgements}
    assert named == set(whole.judgements)


def test_a_stub_next_to_ready_dmabuf_is_a_note_with_dmabuf_as_remedy():
    stub = next(f for f in diagnosed("ubuntu-6.8-h100").findings if f.code == "peermem-stub")
    assert (stub.status, stub.remedies[0]) == ("note", "use-dmabuf")


def test_a_capability_inferred_from_a_pci_id_is_likely_and_names_the_missing_evidence():
    whole = diagnosed("ubuntu-6.8-h100")
    dmabuf = next(j for j in whole.judgements.values() if j.path == "dmabuf" and j.state == "ready")
    assert dmabuf.confidence == "likely"
    assert {"cuda-attribute-116", "cuda-attribute-124"} <= set(dmabuf.missing)


def test_without_libibverbs_the_state_is_unknown_and_names_it():
    whole = diagnosed("ubuntu-6.8-h100-no-verbs")
    assert whole.verdict.state == "unknown"
    assert all("libibverbs" in j.missing for j in whole.judgements.values() if j.path == "dmabuf")


def test_the_spark_shows_where_each_fix_leads_and_plans_none():
    whole = diagnosed("zgx-3285")
    steps = [
        (step.remedy, step.modprobe.stderr.rpartition(": ")[2])
        for chain in whole.what_then
        for step in chain
    ]
    assert steps[:2] == [("sign-module", "Invalid argument"), ("install-ofed", "Invalid argument")]
    assert ("rebuild-driver", "") in steps
    assert whole.what_then[0][-1].then.blocked_by[0] == "gpu-integrated"
    assert whole.plan == ()


def test_the_spark_names_the_fallback_of_each_consumer():
    consumers = diagnosed("zgx-3285").consumers
    assert (consumers["verbs"].best_fallback, consumers["nccl"].best_fallback) == ("host-mapped", "staged")


@pytest.mark.parametrize("name", ["zgx-3285", "ubuntu-6.8-h100", "ofed-rebuilt", "ubuntu-6.8-h100-no-verbs"])
def test_the_text_for_a_terminal(name, snapshot):
    assert text(diagnosed(name)) == snapshot


def test_the_first_line_of_the_text_is_the_answer():
    first, second = text(diagnosed("zgx-3285")).splitlines()[:2]
    assert first == "IMPOSSIBLE  Ignore the error of `modprobe nvidia-peermem`: there is nothing to fix."
    assert second == "Direct      0 of 1 GPU reaches its NIC directly."


def test_colour_adds_escape_codes_and_changes_no_words():
    from rich.text import Text

    plain, coloured = text(diagnosed("zgx-3285")), text(diagnosed("zgx-3285"), colour=True)
    assert "\x1b" not in plain and "\x1b" in coloured
    assert Text.from_ansi(coloured).plain.split() == plain.split()


def test_a_report_survives_json():
    whole = diagnosed("zgx-3285")
    assert msgspec.json.decode(msgspec.json.encode(whole), type=Report) == whole


def test_action_kinds_are_the_tags_that_journals_use():
    tags = {action.__struct_config__.tag for action in get_args(Action)}
    assert tags == set(get_args(ActionKind))


def test_every_code_is_declared_once():
    codes = [rule.code for rule in every_rule()]
    assert len(codes) == len(set(codes))


def test_a_program_without_a_direct_path_is_described_in_its_own_words():
    """A program of its own on libibverbs does not copy by itself: it gets an error."""
    lines = [f"{names}: {words}" for _, names, words in program_lines(diagnosed("ofed-rebuilt"))]
    assert "nccl: blocked; it copies through host memory, and only its log says so" in lines
    assert "verbs: blocked; it gets an error, and decides itself" in lines


@pytest.mark.parametrize(
    ("rows", "last"),
    [
        (("a/b/c.log:1: gone", "in a/b/c.log:7."), "in .../c.log:7."),
        (("a/b/c.log:1: gone", "in d/b/c.log:7"), "in d/b/c.log:7"),
        (("a/b/c.log", "d/b/c.log", "a/b/c.log"), "a/b/c.log"),  # which of the two would it be
        (("a/b/c.log", "run `cat a/b/c.log`"), "run `cat a/b/c.log`"),
        (("a/b/c.log", f"x{TO_FIND_OUT}cat a/b/c.log"), f"x{TO_FIND_OUT}cat a/b/c.log"),
    ],
)
def test_a_path_that_stands_again_is_shortened_where_its_end_is_enough(rows, last):
    assert [*explained((0, "", words) for words in rows)][-1] == (0, "", last)


def test_a_command_that_stands_below_is_not_repeated_in_its_finding():
    shown = text(diagnosed("gpu-operator-waits"), width=200)
    assert shown.count("kubectl exec POD") == 1 and "? verbs-lacks-dmabuf" in shown
