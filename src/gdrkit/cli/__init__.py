"""The command `gdr`: finds the command that was asked for, and imports that one alone."""

from __future__ import annotations

import sys

from gdrkit.cli import process
from gdrkit.cli.exit import INTERNAL, NO_INPUT, USAGE

GROUPS = {
    "diagnose": {
        "doctor": "one verdict per node: does GPU memory reach the network directly, and if not, why",
        "explain": "the same judgement from pasted text: an error, a log, a forum post",
        "modprobe": "predict what modprobe would print for a module, without loading it",
        "probe": "ask the CUDA and RDMA drivers what each device can do",
        "collect": "write a bundle of a node's evidence, to be judged elsewhere",
    },
    "repair": {
        "fix": "plan the repair of a node; on this machine: apply it, resume it, undo it",
        "config": "write or check configuration for operators, OpenShift, Talos, cloud-init and NCCL",
    },
    "fabric and jobs": {
        "topo": "which GPU reaches which NIC over what: PCIe tree, path types, NCCL's decision",
        "nccl": "what an NCCL job did, from its logs: direct or not, per rank, and why",
        "estimate": "the most each path can move, how close a benchmark comes, what a job would gain",
    },
    "measure": {
        "bench": "measure each path between two processes, beside its upper bound",
        "prove": "send known bytes and show by counters which path they took",
    },
    "plumbing": {
        "codes": "the finding codes, the page of one code, the glossary",
        "schema": "the JSON Schema of each command's --json output",
        "completion": "a completion script for bash, zsh or fish",
    },
}
"""Every command by what it is for, in the order of the help. Its module has the same name and a
`main(arguments) -> int`."""
COMMANDS = {name: line for group in GROUPS.values() for name, line in group.items()}


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
        sys.stderr.write(f"gdr: unknown command {arguments[0]!r}{_meant(arguments[0])}\n  see gdr --help\n")
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
            f"gdr {command}: internal error: {type(error).__name__}: {error} ({where})\n"
            "  please report it, with the traceback that --debug prints\n"
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
    groups = "\n".join(
        f"{title}:\n" + "".join(f"  {name:<{width}}  {line}\n" for name, line in commands.items())
        for title, commands in GROUPS.items()
    )
    return (
        "usage: gdr COMMAND [options]\n\n"
        "Does GPU memory reach the network directly on this machine? If not, why, and what would fix it?\n\n"
        f"{groups}\n"
        "examples:\n"
        "  gdr doctor                     this machine\n"
        "  gdr doctor sosreport.tar.xz    a node from its sosreport\n"
        "  gdr doctor ssh://node17        a node over ssh; nothing is installed there\n"
        "  dmesg | gdr explain            what a log shows\n\n"
        "`gdr COMMAND --help` has the options. Only `gdr fix --apply` changes a machine.\n"
    )
