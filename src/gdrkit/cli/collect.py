"""`gdr collect`: write a bundle, through gdrkit.agent.collect, which runs without the rest of gdrkit."""

from __future__ import annotations

import argparse
import sys

from gdrkit.cli.help_formatter import HelpFormatter


def parser() -> argparse.ArgumentParser:
    from gdrkit.agent.collect.command import parser

    command = parser()
    command.formatter_class = HelpFormatter
    return command


def main(arguments: list[str]) -> int:
    from gdrkit.agent.collect import main as collect

    if arguments in (["-h"], ["--help"]):
        sys.stdout.write(parser().format_help())
        return 0
    return collect(arguments)
