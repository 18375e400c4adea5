"""The tools that an agent has, each a command of gdr in a process of its own, whose text is the answer.

An agent is as hostile as a peer: it may have read a log that tells it what to do. So the words of each
command are fixed, a path leads below what the user named, an answer has a bound and a deadline, and no tool
changes anything. Source: Model Context Protocol, specification 2025-11-25, Tools, Security Considerations.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import Field

from gdrkit import __version__
from gdrkit.agent.pipes import end_group, terminate_group
from gdrkit.cli.exit import USAGE
from gdrkit.programs.names import NAMES

SECONDS = 120.0
"""Of one answer. A node over ssh is the slowest; its own limits are in evidence/ssh.py."""
TEXT_CHARACTERS = 16 << 20
"""Of a text that the agent gives."""
ANSWER_CHARACTERS = 200_000
"""Of an answer. The JSON of a node with eight GPUs is about as long; a model reads no more at once."""
ENDING_S = 10.0
"""How long a command may take to end what it has started: ssh on a node has five seconds."""
WIDTH = "100"

INSTRUCTIONS = (
    "gdr answers one question: does GPU memory reach the network directly (GPUDirect RDMA), and if not,"
    " why, and what would fix it. Ask `doctor` for a node, `explain` for an error or the output of a "
    "command, `nccl` for the log of a job, then `fix` for the plan and `codes` for the page of a code. "
    "Believe an unknown: run the command that the answer names, and give its output to `explain`. No "
    "tool changes anything; `gdr fix --apply` is for a person."
)

_NODE = "a bundle of gdr collect, a sosreport or a root folder, by its path; this machine if empty"
Target = Annotated[str, Field(description=_NODE)]
Program = Annotated[str, Field(description=f"the program that uses the path: {', '.join(NAMES)}")]
AsJson = Annotated[bool, Field(description="the whole answer as JSON instead of text")]
Text = Annotated[str, Field(description="whole and unaltered")]
Log = Annotated[str, Field(description="the path of a log, or of a folder of logs")]
LogText = Annotated[str, Field(description="the log itself, if it has no path")]
Word = Annotated[str, Field(description="a code, a term such as PXB, an error; all codes if empty")]


def serve(paths: Sequence[str]) -> None:
    """Answer until standard input ends. The agent may name what is in `paths`, or below it."""
    # The SDK takes the descriptor of standard output; gdr's own stream, made for terminals, would alter it.
    sys.stdout = sys.__stdout__
    server(paths).run("stdio")


def server(paths: Sequence[str]) -> MCPServer:
    """The server with its tools."""
    made = MCPServer(
        "gdr", title="gdrkit", version=__version__, instructions=INSTRUCTIONS, log_level="WARNING"
    )
    reads = ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=False)
    for tool in _tools(Allowed(paths)):
        made.add_tool(tool, description=inspect.getdoc(tool), annotations=reads, structured_output=False)
    return made


class Allowed:
    """What an agent may name: this machine, and what the user named, or what is below it."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._remote = frozenset(path for path in paths if path.startswith("ssh://"))
        self._local = [os.path.realpath(path) for path in paths if path not in self._remote]

    def target(self, name: str) -> list[str]:
        """The words for a node; none for this machine. Raises ToolError for what the user did not name."""
        return ["--", self.path(name)] if name else []

    def path(self, name: str) -> str:
        """The path, without links. Raises ToolError for what the user did not name."""
        if name in self._remote:
            return name
        try:
            path = os.path.realpath(name, strict=True)
        except (OSError, ValueError):
            path = ""
        # The same words for both, or an agent learns which files exist.
        if not path or not any(os.path.commonpath((root, path)) == root for root in self._local):
            named = ", ".join([*self._local, *sorted(self._remote)]) or "nothing"
            raise ToolError(f"not below what `gdr mcp` was started with ({named}), or not there: {name!r}")
        return path


def _tools(allowed: Allowed) -> tuple[Callable[..., str], ...]:
    def doctor(target: Target = "", program: Program = "nccl", json: AsJson = False) -> str:
        """Judge a node: does GPU memory reach the network directly, and if not, which layer breaks first,
        with evidence and the next step."""
        return _answer("doctor", "--consumer", program, *_json(json), *allowed.target(target))

    def fix(target: Target = "", program: Program = "nccl", json: AsJson = False) -> str:
        """The plan that would make a blocked node ready: its steps, with commands, risk and undo. Nothing is
        carried out."""
        return _answer("fix", "--consumer", program, *_json(json), *allowed.target(target))

    def explain(text: Text, json: AsJson = False) -> str:
        """The cause in what programs printed: an error, a part of dmesg, the output of nvidia-smi, lspci,
        ibstat, modinfo, perftest, UCX or NCCL."""
        return _answer("explain", *_json(json), "-", given=text)

    def nccl(log: Log = "", text: LogText = "", json: AsJson = False) -> str:
        """Whether a job of NCCL (NCCL_DEBUG=INFO) or UCX used GPUDirect RDMA, by host and rank."""
        if bool(log) == bool(text):
            raise ToolError("give either the path of a log, or its text")
        return _answer("nccl", *_json(json), "--", allowed.path(log) if log else "-", given=text)

    def estimate(target: Target = "", json: AsJson = False) -> str:
        """The ceiling of each path between the GPUs of a node and the network, and what limits it."""
        return _answer("estimate", *_json(json), *allowed.target(target))

    def codes(word: Word = "") -> str:
        """The page of a finding code: what it means, how to check it, what fixes it. Or a search."""
        return _answer("codes", *(["--", word] if word else []))

    return doctor, fix, explain, nccl, estimate, codes


def _json(wanted: bool) -> list[str]:
    return ["--json"] if wanted else []


def _answer(*words: str, given: str = "") -> str:
    """What a command of gdr prints. Raises ToolError with its message if it has no answer."""
    import subprocess

    if len(given) > TEXT_CHARACTERS:
        raise ToolError(
            f"the text is longer than {TEXT_CHARACTERS:,} characters; give the part with the error"
        )
    try:
        child = subprocess.Popen(
            [sys.executable, "-m", "gdrkit", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "COLUMNS": WIDTH},
            start_new_session=True,
        )
    except ValueError as error:  # a null character in a word
        raise ToolError(f"gdr {words[0]}: {error}") from None
    try:
        printed = child.communicate(given.encode("utf-8", "replace"), SECONDS)
    except subprocess.TimeoutExpired:
        raise ToolError(f"gdr {words[0]} had no answer within {SECONDS:.0f} s") from None
    finally:
        if child.poll() is None:  # asked first, it ends what it has started in sessions of their own
            terminate_group(child)
            end_group(child, ENDING_S)
    code = child.returncode
    stdout, stderr = (text.decode("utf-8", "replace") for text in printed)
    if code >= USAGE or code < 0:
        raise ToolError(stderr.strip() or f"gdr {words[0]} ended with {code}")
    text = "\n".join(filter(None, (stdout.rstrip("\n"), stderr.rstrip("\n"))))
    if (left := len(text) - ANSWER_CHARACTERS) > 0:
        text = f"{text[:ANSWER_CHARACTERS]}\n... {left:,} more characters; ask for one code, rank or node"
    return f"{text}\nexit code {code}"
