"""The command `gdr`: dispatches to a subcommand and imports only that one."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # what `main` needs is imported there, where an interrupt is expected
if TYPE_CHECKING:
    from collections.abc import Iterable

    from gdrkit.agent.streams import SafeStream

GROUPS = {
    "diagnose": {
        "doctor": "judge a node, now and after its next boot: does GPU memory reach the network directly?",
        "expect": "write down what a good node has, to compare others with it",
        "report": "write the judgement of a node as one HTML file, with a picture of the node",
        "explain": "find the cause in what programs printed: an error, a log, the output of a command",
        "modprobe": "predict what modprobe would print for a module, without loading it",
        "probe": "ask the CUDA and RDMA drivers what each device can do",
        "fleet doctor": "judge many nodes: groups by cause, what to fix first, the odd ones, what changed",
        "fleet report": "write the judgement of many nodes as one HTML file, to look at",
        "export": "write metrics of a node or a fleet for Prometheus",
        "collect": "write a bundle of a node's evidence, to judge it elsewhere",
    },
    "repair": {
        "fix": "plan the repair of a node; on this machine, apply, resume or undo it",
        "config": "write or check configuration for operators, OpenShift, Talos, cloud-init and NCCL",
    },
    "fabric and jobs": {
        "topo": "show the path from each GPU to each NIC: PCIe tree, path types, NCCL's decision",
        "nccl": "show from its logs whether an NCCL job used direct paths, per rank, and why",
        "ps": "show which path the processes take that run now, without restarting them",
        "watch": "show the same again and again, with what changed",
        "estimate": "compute the limit of each path, compare a benchmark, estimate what a job would gain",
    },
    "measure": {
        "bench": "measure each path between two processes and compare it with its limit",
        "fleet bench": "measure between pairs of many nodes, and say which nodes are slow",
        "prove": "send known bytes and show by counters which path they took",
    },
    "plumbing": {
        "codes": "list the finding codes, print the page of one, or explain a word",
        "example": "write a node, a fleet or a log to try gdr on",
        "mcp": "let an agent ask gdr, over the Model Context Protocol",
        "schema": "print the JSON Schema of a command's --json output",
        "completion": "print a completion script for bash, zsh or fish",
        "man": "print or write manual pages",
    },
}
"""Every command, grouped and ordered as in the help. Each has a module of the same name, with `_` for the
space of `fleet doctor`, with a `parser()` and a `main(arguments) -> int`."""
COMMANDS = {name: line for group in GROUPS.values() for name, line in group.items()}
FAMILIES = {"fleet": "judge many nodes, measure between them, write a page about them"}
"""First words that need a second one."""


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code. The entry point of `gdr`.

    A reader that leaves early takes nothing from a verdict; what cannot be written for another reason is 74.
    Whatever the end, the code is in the style that the caller asked for.
    """
    words = sys.argv[1:] if arguments is None else arguments
    try:
        from gdrkit.cli.exit import in_style

        code = _streamed(words, whole_process=arguments is None)
    except KeyboardInterrupt as interrupt:
        from gdrkit.cli.exit import INTERRUPTED, in_style

        code = getattr(interrupt, "exit_code", INTERRUPTED)
    return in_style(code, words)


def _streamed(words: list[str], *, whole_process: bool) -> int:
    """Run a command with streams that show what a terminal would obey, and never raise."""
    from gdrkit.agent.streams import SafeStream
    from gdrkit.cli import process
    from gdrkit.cli.message_stream import MessageStream

    before = sys.stdout, sys.stderr
    out, err = SafeStream(sys.stdout), MessageStream(sys.stderr)
    sys.stdout, sys.stderr = out, err
    try:
        code = _command(words)
        _tell_monitor(code, words, out, err)
        return _written(code, out)
    finally:
        if whole_process:
            process.end()
        if commands := sys.modules.get("gdrkit.agent.collect.subprocesses"):
            commands.kill_all()
        err.flush()
        sys.stdout, sys.stderr = before
        if whole_process:
            out.give_up()
            err.give_up()


def _tell_monitor(code: int, words: list[str], out: SafeStream, err: SafeStream) -> None:
    """Repeat the reason of an error on standard output, the only stream that Nagios and
    node-problem-detector show; in 80 characters, as `--line`."""
    from gdrkit.cli.exit import USAGE, style_of

    if code >= USAGE and not out.first_line and style_of(words) in ("nagios", "npd"):
        from gdrkit.report.summary import in_line

        out.write(in_line(f"unknown {err.first_line or 'gdr failed'}").replace("|", "/") + "\n")


def _written(code: int, out: SafeStream) -> int:
    """The code, or NO_OUTPUT if standard output could not take what was printed."""
    from gdrkit.cli.exit import NO_OUTPUT

    out.flush()
    if out.failure is None or isinstance(out.failure, BrokenPipeError):
        return code
    sys.stderr.write(f"gdr: cannot write to standard output: {out.failure.strerror}\n")
    return NO_OUTPUT


def _knowledge() -> int:
    """Prints the version, and the newest release of each program that was read."""
    from gdrkit import __version__
    from gdrkit.facts.newest_read import table

    sys.stdout.write(
        f"gdr {__version__}\n\nnewest releases that gdr knows; what rests on releases is likely for newer"
        f" ones\n{table()}"
    )
    return 0


def _command(arguments: list[str]) -> int:
    from gdrkit.cli.exit import INTERRUPTED, USAGE

    if arguments == ["help", "all"]:
        sys.stdout.write(_help_all())
        return 0
    if arguments[:1] == ["help"] and 2 <= len(arguments) <= (3 if arguments[1] in FAMILIES else 2):
        arguments = [*arguments[1:], "--help"]
    if len(arguments) == 2 and arguments[0] in ("-V", "--version") and arguments[1] in ("-v", "--verbose"):
        return _knowledge()
    if arguments[1:] and arguments[0] in ("-h", "--help", "-V", "--version", "help"):
        sys.stderr.write(f"gdr: {arguments[0]} is for gdr itself, or follows a command\n  see gdr --help\n")
        return USAGE
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        sys.stdout.write(_help())
        return 0 if arguments else USAGE
    if arguments[0] in ("-V", "--version"):
        from gdrkit import __version__

        sys.stdout.write(f"gdr {__version__}\n")
        return 0
    command = command_of(arguments)
    if command not in COMMANDS:
        return _family(arguments) if arguments[0] in FAMILIES else _unknown_command(arguments[0], COMMANDS)
    try:
        return _run(command, arguments[1 + command.count(" ") :])
    except SystemExit as end:  # argparse: --help, or wrong usage
        return end.code if isinstance(end.code, int) else 0 if end.code is None else USAGE
    except KeyboardInterrupt as interrupt:
        sys.stderr.write(f"gdr {command}: interrupted\n")
        return getattr(interrupt, "exit_code", INTERRUPTED)


def command_of(words: list[str]) -> str:
    """What the first words call a command: one word, or two where the first is a family."""
    return " ".join(words[: 2 if words[0] in FAMILIES else 1])


def first_words() -> dict[str, str]:
    """The first words of all commands, with what each does."""
    words = {name.split()[0]: line for name, line in COMMANDS.items()}
    return words | FAMILIES


def members(family: str) -> dict[str, str]:
    """The commands of a family by their second words, with what each does."""
    return {name.split()[1]: line for name, line in COMMANDS.items() if name.startswith(f"{family} ")}


def _family(arguments: list[str]) -> int:
    """The help of a family; without one of its commands, wrong usage."""
    from gdrkit.cli.exit import USAGE

    family, *words = arguments
    known = members(family)
    if words in (["-h"], ["--help"]):
        sys.stdout.write(_family_help(family))
        return 0
    if words and not words[0].startswith("-"):
        return _unknown_command(words[0], known, family)
    example = next(line for line in _HELP.splitlines() if f" gdr {family} " in line).split("   ")[0].strip()
    sys.stderr.write(
        f"gdr {family}: a command is missing ({', '.join(known)})\n"
        f"  for example: {example}\n  see gdr {family} --help\n"
    )
    return USAGE


def _unknown_command(word: str, known: Iterable[str], family: str = "") -> int:
    from gdrkit.cli.exit import USAGE
    from gdrkit.formats.misspelt import did_you_mean

    name = f"gdr {family}".rstrip()
    meant = did_you_mean(word, known)
    hint = f"see {name} --help"
    if not family and not meant:  # a question, or an error as it was printed
        hint += '; gdr doctor judges this machine, gdr explain "TEXT" an error that a program printed'
    sys.stderr.write(f"{name}: unknown command {word!r}{meant}\n  {hint}\n")
    return USAGE


def module_of(command: str) -> str:
    """The module of a command."""
    return f"gdrkit.cli.{command.replace(' ', '_')}"


def _run(command: str, arguments: list[str]) -> int:
    from importlib import import_module

    from gdrkit.cli import process
    from gdrkit.cli.exit import CANNOT_CREATE, INTERNAL, NO_INPUT, UNKNOWN

    process.begin()
    from gdrkit.cli.files import OutputRefused
    from gdrkit.evidence.errors import TargetError

    try:
        code: int = import_module(module_of(command)).main([a for a in arguments if a != "--debug"])
    except (TargetError, OutputRefused) as error:
        sys.stderr.write(f"gdr {command}: {error}\n" + (f"  {error.hint}\n" if error.hint else ""))
        return NO_INPUT if isinstance(error, TargetError) else error.code
    except Exception as error:
        if (interrupt := _interrupt(error)) is not None:
            raise interrupt from None
        if (reason := _unknown(error)) is not None:
            sys.stderr.write(f"gdr {command}: {reason}\n")
            return UNKNOWN
        if (reason := _no_room(error)) is not None:
            sys.stderr.write(f"gdr {command}: {reason}\n")
            return CANNOT_CREATE
        if "--debug" in arguments:
            import traceback

            sys.stderr.write(traceback.format_exc())
            return INTERNAL
        sys.stderr.write(
            f"gdr {command}: internal error: {type(error).__name__}: {error} ({_location(error)})\n"
            "  please report it with the traceback: run the command again with --debug\n"
        )
        return INTERNAL
    return code


def _interrupt(error: BaseException | None) -> KeyboardInterrupt | None:
    """The interrupt that led to an error: what it interrupts may fail as it cleans up, such as argparse."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error


def _unknown(error: Exception) -> str | None:
    """Why the evidence does not answer, where a command has no answer of its own for that."""
    from gdrkit.evidence import EvidenceMissing

    if not isinstance(error, EvidenceMissing):
        return None
    missing = error.missing
    return f"not known: {missing.source} ({missing.why.value.replace('-', ' ')})\n  {missing.ask}"


def _no_room(error: Exception) -> str | None:
    """What could not be written to a disk that is full or read-only, such as a file that holds what a node
    sends."""
    from gdrkit.agent.output_file import NO_ROOM

    if not isinstance(error, OSError) or error.errno not in NO_ROOM:
        return None
    where = f"cannot write {error.filename or 'temporary files'}: {(error.strerror or '').lower()}"
    return f"{where}\n  free some space, or set TMPDIR to a folder on another disk"


def _location(error: BaseException) -> str:
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return f"{last.tb_frame.f_code.co_filename.rpartition('gdrkit/')[2]}:{last.tb_lineno}" if last else "?"


_HELP = """usage: gdr COMMAND [options]

Does GPU memory reach the network directly on this machine? If not, why, and what would fix it?

  gdr doctor                  judge this machine, a bundle, ssh://node17, ...
  dmesg | gdr explain         find the cause in what programs printed
  gdr fix                     plan the repair: where each step really leads
  gdr report FILE -o a.html   the judgement as one HTML file, with a picture
  gdr nccl job.log            which path an NCCL job used, and why
  gdr fleet doctor bundles/   many nodes: by cause, what to fix first

Nothing to judge here? `gdr example` writes nodes to try these on.
More: gdr help all; the options of a command: gdr help COMMAND; the release: gdr --version [-v].
Only `gdr fix --apply` changes a machine.
"""
_HELP_ALL = """usage: gdr COMMAND [options]

{groups}
`gdr help COMMAND` or `gdr COMMAND --help` lists the options. Only `gdr fix --apply` changes a machine.
"""


def _help() -> str:
    from gdrkit.cli.help_text import help_width, wrapped

    return "\n".join(wrapped(line, help_width()) for line in _HELP.split("\n"))


def _family_help(family: str) -> str:
    from gdrkit.cli.help_text import help_width, wrapped

    words = f"`gdr help {family} COMMAND` or `gdr {family} COMMAND --help` lists the options."
    listed = _listed({f"gdr {family} {name}": line for name, line in members(family).items()})
    return f"usage: gdr {family} COMMAND [options]\n\n{listed}\n{wrapped(words, help_width())}\n"


def _listed(commands: dict[str, str]) -> str:
    """Commands and what each does, in two columns."""
    from gdrkit.cli.help_text import hanging, help_width

    column = max(map(len, commands))
    return "".join(
        hanging(line, help_width(), f"  {name:<{column}}  ", " " * (column + 4)) + "\n"
        for name, line in commands.items()
    )


def _help_all() -> str:
    from gdrkit.cli.help_text import help_width, wrapped

    width = help_width()
    groups = "\n".join(f"{title}:\n{_listed(commands)}" for title, commands in GROUPS.items())
    return "\n".join(wrapped(line, width) for line in _HELP_ALL.format(groups=groups).split("\n"))
