"""`gdr mcp`, asked by the client of the protocol's own SDK, in a process of its own."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from gdrkit.cli.mcp_server import TEXT_CHARACTERS
from tests.evidence_nodes import build, expected

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
    """The answers of one server, which may read `paths`; each call is a tool and its arguments."""

    async def talk():
        command = [sys.executable, ["-m", "gdrkit", "mcp", *map(str, paths)]]
        async with Client(StdioServerParameters(command=command[0], args=command[1])) as client:
            return await asyncio.gather(*(client.call_tool(name, words) for name, words in calls))

    return asyncio.run(talk())


def text(answer):
    (content,) = answer.content
    return content.text


def document(answer):
    assert not answer.is_error, text(answer)
    return json.loads(text(answer).rpartition("\nexit code ")[0])


def test_every_tool_says_that_it_only_reads():
    async def tools():
        command = StdioServerParameters(command=sys.executable, args=["-m", "gdrkit", "mcp"])
        async with Client(command) as client:
            return (await client.list_tools()).tools

    found = asyncio.run(tools())
    assert {tool.name for tool in found} == {"doctor", "fix", "explain", "nccl", "estimate", "codes"}
    assert all(tool.annotations.read_only_hint and tool.description for tool in found)


@pytest.mark.slow
def test_an_agent_finds_the_cause_and_the_plan_of_ten_nodes(tmp_path):
    paths = {name: str(build(name, tmp_path)) for name in BLOCKED}
    calls = [(tool, {"target": path, "json": True}) for path in paths.values() for tool in ("doctor", "fix")]
    answers = asked([tmp_path, *paths.values()], *calls)
    for name, judged, planned in zip(paths, answers[::2], answers[1::2], strict=True):
        verdict, plan, truth = document(judged)["verdict"], document(planned), expected(name)
        assert verdict["state"] == truth.consumers["nccl"] == "blocked", name
        assert verdict["cause"] in truth.findings, name
        ends = [chain["steps"][-1]["then"]["state"] for chain in plan["plans"]]
        assert set(ends) <= {"ready", "likely-ready"}, name
        assert ends or plan["by_hand"], "what to do, if only by hand"
        if truth.plan_is_empty is not None:
            assert truth.plan_is_empty is not bool(ends), name


def test_texts_are_explained_and_codes_have_pages():
    error = "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument"
    explained, page, search = asked(
        [],
        ("explain", {"text": error}),
        ("codes", {"word": "peermem-stub"}),
        ("codes", {"word": "port down"}),
    )
    assert "peermem-stub" in text(explained)
    assert "What to do" in text(page)
    assert "port-down" in text(search)


def test_a_log_is_given_by_its_path_or_as_text():
    log = Path(__file__).parent / "examples" / "job.log"
    by_path, by_text, both, neither = asked(
        [log],
        ("nccl", {"log": str(log)}),
        ("nccl", {"text": log.read_text()}),
        ("nccl", {"log": str(log), "text": "x"}),
        ("nccl", {}),
    )
    assert text(by_path).replace(str(log), "stdin").split() == text(by_text).split()
    assert text(by_path).endswith("exit code 2")
    assert both.is_error and neither.is_error


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
    answers = asked([named], *(("doctor", {"target": name}) for name in names))
    for name, answer in zip(names, answers, strict=True):
        assert answer.is_error
        assert text(answer).endswith(
            f"not below what `gdr mcp` was started with ({named}), or not there: {name!r}"
        )


def test_no_argument_becomes_an_option():
    answers = asked(
        [],
        ("doctor", {"program": "--apply"}),
        ("fix", {"program": "nccl --apply"}),
        ("codes", {"word": "--markdown"}),
        ("codes", {"word": "--glossary"}),
    )
    assert all(answer.is_error for answer in answers)
    assert all("unknown code or word: '--" in text(answer) for answer in answers[2:])


def test_a_text_has_a_limit():
    (answer,) = asked([], ("explain", {"text": "x" * (TEXT_CHARACTERS + 1)}))
    assert answer.is_error and "longer than 16,777,216 characters" in text(answer)


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
