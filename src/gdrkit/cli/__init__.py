"""The command `gdr`: finds the command that was asked for, and imports that one alone."""

from __future__ import annotations

import sys

from gdrkit.cli import process
from gdrkit.cli.exit import INTERNAL, NO_INPUT, USAGE

COMMANDS = {
    "doctor": "one verdict for a node: does GPU memory reach the network directly, and if not, why",
    "explain": "the same judgement from pasted text: an error, a log, a forum post",
    "nccl": "what a job of NCCL's did, from its logs: direct or not, per rank, and why",
    "topo": "which GPU talks to which NIC over what: tree, path types, what NCCL decides",
    "modprobe": "what modprobe would say of a module, without loading it",
    "fix": "what would mend a node; on this machine: do it, go on with it, take it back",
    "estimate": "what each path can move at most, how far a benchmark is from it, what a job costs",
    "bench": "how fast each path between two processes is, beside what bounds it",
    "prove": "which way known bytes went between two processes, shown by what moved and what did not",
    "collect": "write a bundle of a node's evidence, for a look at it elsewhere",
    "probe": "ask the CUDA driver what each GPU can do",
    "codes": "the finding codes, and the page of each",
    "schema": "the JSON Schema of `gdr doctor --json`",
    "config": "what an operator, OpenShift, Talos, cloud-init or NCCL must be told; check of such a file",
    "completion": "a completion script for bash, zsh or fish",
}
"""Every command, in the order of the help. Its module has the same name and a `main(arguments) -> int`."""


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code. The entry point of `gdr`."""
    if arguments is None:
        try:
            return main(sys.argv[1:])
        finally:
            process.end()
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        sys.stdout.write(_help())
        return 0 if arguments else USAGE
    if arguments[0] in ("-V", "--version"):
        from gdrkit import __version__

        sys.stdout.write(f"gdr {__version__}\n")
        return 0
    if arguments[0] not in COMMANDS:
        sys.stderr.write(
            f"gdr: there is no command {arguments[0]!r}{_meant(arguments[0])}; see gdr --help\n"
        )
        return USAGE
    return _run(arguments[0], arguments[1:])


def _run(command: str, arguments: list[str]) -> int:
    from importlib import import_module

    process.begin()
    from gdrkit.evidence.errors import TargetError

    debug = "--debug" in arguments
    try:
        code: int = import_module(f"gdrkit.cli.{command}").main([a for a in arguments if a != "--debug"])
    except TargetError as error:
        sys.stderr.write(f"gdr {command}: {error}\n" + (f"  {error.hint}\n" if error.hint else ""))
        return NO_INPUT
    except BrokenPipeError:
        sys.stderr.close()  # the reader has left; Python would complain of the flush at exit
        return 0
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if debug:
            raise
        where = _place(error)
        sys.stderr.write(
            f"gdr {command}: this is a fault in gdrkit: {type(error).__name__}: {error} ({where})\n"
            "  run it again with --debug for the traceback, and please report it\n"
        )
        return INTERNAL
    return code


def _place(error: BaseException) -> str:
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return f"{last.tb_frame.f_code.co_filename.rpartition('gdrkit/')[2]}:{last.tb_lineno}" if last else "?"


def _meant(word: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(word, COMMANDS, n=1)
    return f", did you mean {close[0]!r}?" if close else ""


def _help() -> str:
    width = max(map(len, COMMANDS))
    rows = "".join(f"  {name:<{width}}  {line}\n" for name, line in COMMANDS.items())
    return (
        "usage: gdr COMMAND [options]\n\n"
        "Does GPU memory reach the network directly on this machine? If not: why, what would fix it.\n\n"
        f"commands:\n{rows}\n"
        "examples:\n"
        "  gdr doctor                       this machine\n"
        "  gdr doctor sosreport.tar.xz      a node from its sosreport\n"
        "  gdr doctor ssh://node17          a node over ssh; nothing is installed there\n"
        "  dmesg | gdr explain              what a log establishes\n\n"
        "gdr COMMAND --help tells more. Nothing changes a machine but gdr fix --apply.\n"
    )
