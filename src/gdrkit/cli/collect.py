"""`gdr collect`: write a bundle, through gdrkit.agent.collect, which runs without the rest of gdrkit."""

from __future__ import annotations

import argparse


def parser() -> argparse.ArgumentParser:
    from gdrkit.agent.collect.command import parser

    return parser()


def main(arguments: list[str]) -> int:
    from gdrkit.agent.collect import main as collect

    return collect(arguments)
