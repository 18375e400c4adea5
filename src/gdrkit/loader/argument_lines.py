"""The messages of the kernel about a module's arguments: parse_args(), load_module()."""

from __future__ import annotations

from collections.abc import Iterator

from gdrkit.facts import dynamic_debug
from gdrkit.facts.module_arguments import ArgumentComplaint, DebugQuery, ParsedArguments, has_dynamic_debug
from gdrkit.messages import kernel
from gdrkit.messages.errors import ENOSPC
from gdrkit.node import Node


def on_arguments(node: Node, module: str, found: ParsedArguments) -> Iterator[str | None]:
    """The lines in order; None where there may be others, whose words are not known."""
    for event in found.events:
        if isinstance(event, DebugQuery):
            yield from _on_query(node, event.query)
        else:
            yield _on_complaint(module, event)
    if found.behind_dashes is not None:
        yield kernel.BEHIND_DASHES.say(module=module, parameter=found.behind_dashes)


def _on_complaint(module: str, complaint: ArgumentComplaint) -> str:
    parameter, value = complaint.argument.name, complaint.argument.shown
    if not complaint.errno:
        return kernel.UNKNOWN_PARAMETER.say(module=module, parameter=parameter)
    line = kernel.LARGE_PARAMETER if complaint.errno == ENOSPC else kernel.INVALID_PARAMETER
    return line.say(module=module, value=value, parameter=parameter)


def _on_query(node: Node, query: str) -> tuple[str | None, ...]:
    """A query of dynamic debug, whose failure stops nothing."""
    if not has_dynamic_debug(node):
        return (kernel.NO_DYNAMIC_DEBUG.say(),)
    said = dynamic_debug.answer(query)
    return (None,) if said is None else said
