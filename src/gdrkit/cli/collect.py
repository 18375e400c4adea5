"""`gdr collect`: write a bundle. The work is done by gdrkit.agent.collect, which needs nothing of ours."""

from __future__ import annotations

import argparse


def parser() -> argparse.ArgumentParser:
    from gdrkit.agent.collect.command import parser

    return parser()


def main(arguments: list[str]) -> int:
    from gdrkit.agent.collect import main as collect

    return collect(arguments)
