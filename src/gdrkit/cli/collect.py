"""`gdr collect`: write a bundle. The work is done by gdrkit.collect, which needs nothing of ours."""

from __future__ import annotations


def main(arguments: list[str]) -> int:
    from gdrkit.collect import main as collect

    return collect(arguments)
