"""`gdr mcp`, asked by the client of the protocol's own SDK, in a process of its own."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from gdrkit.cli.mcp_server import TEXT_CHARACTERS
from tests.evidence_nodes import build, expected
from tests.seed import SEED

BLOCKED = (
    "a100-nccl-2.20",
    "kernel-upgraded",
    "mixed-signers",
    "nic-gone",
    "no-rdma-device",
    "ofed-not-running",
    "ofed-rebuilt",
    "peermem-blacklisted",
    "rail-down",
    "signature-altered",
)


def asked(paths, *calls):
    """The tools of one server, which may read `paths`, and its answers; each call is a tool and its
    arguments."""

    async def talk():
        words = ["-m", "gdrkit", "mcp", *map(str, paths)]
        async with Client(StdioServerParameters(command=sys.executable, args=words)) as client:
            answers = asyncio.gather(*(client.call_tool(name, words) for name, words in calls))
            return (await client.list_tools()).tools, await answers

    return asyncio.run(talk())


def text(answer):
    (content,) = answer.content
    return content.text


def document(answer):
    assert not answer.is_error, text(answer)
    return json.loads(text(answer).rpartition("\nexit code ")[0])


LOG = Path(__file__).parent / "examples" / "job.log"
ERROR = "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument"
CALLS = {
    "explained": ("explain", {"text": ERROR}),
    "page": ("codes", {"word": "peermem-stub"}),
    "search": ("codes", {"word": "port down"}),
    "by path": ("nccl", {"log": str(LOG)}),
    "by text": ("nccl", {"text": LOG.read_text()}),
    "both": ("nccl", {"log": str(LOG), "text": "x"}),
    "neither": ("nccl", {}),
    "doctor --apply": ("doctor", {"program": "--apply"}),
    "fix --apply": ("fix", {"program": "nccl --apply"}),
    "--markdown": ("codes", {"word": "--markdown"}),
    "--glossary": ("codes", {"word": "--glossary"}),
    "too long": ("explain", {"text": "x" * (TEXT_CHARACTERS + 1)}),
}


@pytest.fixture(scope="module")
def answers():
    """The tools of a server that may read one log, and its answers to CALLS."""
    tools, found = asked([LOG], *CALLS.values())
    return tools, dict(zip(CALLS, found, strict=True))


def test_every_tool_says_that_it_only_reads(answers):
    found, _ = answers
    assert {tool.name for tool in found} == {"doctor", "fix", "explain", "nccl", "estimate", "codes"}
    assert all(tool.annotations.read_only_hint and tool.description for tool in found)


@pytest.mark.slow
def test_an_agent_finds_the_cause_and_the_plan_of_a_node(tmp_path):
    """Of three nodes, others each day."""
    paths = {name: str(build(name, tmp_path)) for name in random.Random(SEED).sample(BLOCKED, 3)}
    calls = [(tool, {"target": path, "json": True}) for path in paths.values() for tool in ("doctor", "fix")]
    _, answers = asked([tmp_path, *paths.values()], *calls)
    for name, judged, planned in zip(paths, answers[::2], answers[1::2], strict=True):
        verdict, plan, truth = document(judged)["verdict"], document(planned), expected(name)
        name = (f"GDRKIT_SEED={SEED}", name)
        assert verdict["state"] == truth.consumers["nccl"] == "blocked", name
        assert verdict["cause"] in truth.findings, name
        ends = [chain["steps"][-1]["then"]["state"] for chain in plan["plans"]]
        assert set(ends) <= {"ready", "likely-ready"}, name
        assert ends or plan["by_hand"], "what to do, if only by hand"
        if truth.plan_is_empty is not None:
            assert truth.plan_is_empty is not bool(ends), name


def test_texts_are_explained_and_codes_have_pages(answers):
    _, found = answers
    assert "peermem-stub" in text(found["explained"])
    assert "What to do" in text(found["page"])
    assert "port-down" in text(found["search"])


def test_a_log_is_given_by_its_path_or_as_text(answers):
    _, found = answers
    by_path = text(found["by path"])
    assert by_path.replace(str(LOG), "stdin").split() == text(found["by text"]).split()
    assert by_path.endswith("exit code 2")
    assert found["both"].is_error and found["neither"].is_error


def test_what_the_user_did_not_name_is_refused_in_the_same_words_whether_it_exists_or_not(tmp_path):
    named, other = tmp_path / "named", tmp_path / "other"
    named.mkdir()
    other.mkdir()
    (named / "link").symlink_to(other)
    names = [
        str(other),
        str(tmp_path / "no-such-file"),
        str(named / "link"),
        f"{named}/../other",
        "ssh://admin@node17",
        "--root=/",
        "/",
        "a\0b",
        "x" * 5000,
    ]
    _, answers = asked([named], *(("doctor", {"target": name}) for name in names))
    for name, answer in zip(names, answers, strict=True):
        assert answer.is_error
        assert text(answer).endswith(
            f"not below what `gdr mcp` was started with ({named}), or not there: {name!r}"
        )


def test_no_argument_becomes_an_option(answers):
    _, found = answers
    assert found["doctor --apply"].is_error and found["fix --apply"].is_error
    for word in ("--markdown", "--glossary"):
        assert found[word].is_error and f"unknown code or word: '{word}" in text(found[word])


def test_a_text_has_a_limit(answers):
    _, found = answers
    assert found["too long"].is_error
    assert "longer than 16,777,216 characters" in text(found["too long"])


def test_without_the_extra_one_line_says_what_to_install(tmp_path):
    (tmp_path / "mcp.py").write_text("raise ModuleNotFoundError(name='mcp')\n")
    done = subprocess.run(
        [sys.executable, "-c", "import sys; from gdrkit.cli import main; sys.exit(main(['mcp']))"],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (69, "")
    assert done.stderr == "gdr mcp: needs the Python package mcp: install gdrkit with its extra `mcp`\n"
