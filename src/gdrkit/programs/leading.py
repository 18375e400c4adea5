"""Which program a verdict is about where none is asked for."""

from __future__ import annotations

from gdrkit.node import Node, if_missing
from gdrkit.programs.aws_ofi_nccl.consumer import AWS_OFI_NCCL
from gdrkit.programs.aws_ofi_nccl.facts import has_only_efa
from gdrkit.programs.names import NAMES


def leading_program(node: Node) -> str:
    """The program that a verdict is about unless another is asked for: NCCL; where all NICs are EFAs, which
    NCCL's own code leaves out, its plugin."""
    return AWS_OFI_NCCL.name if if_missing(False, has_only_efa, node) else NAMES[0]
