"""Mooncake's one way to register GPU memory, by its version and its setting."""

from __future__ import annotations

from gdrkit.evidence import Confidence, EvidenceMissing, Missing, MissingReason
from gdrkit.facts.wheels import LibraryCopy, certain_of
from gdrkit.node import Node, if_absent
from gdrkit.programs.environment import SYSTEM, ProgramSetting, environment
from gdrkit.programs.mooncake.consumer import MOONCAKE, NEWEST_READ, SWITCH, only_path
from gdrkit.rules.capabilities import Path
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import Failed, Layer, Outcome, Passed, rule, the_node

_MOONCAKE = "https://github.com/kvcache-ai/Mooncake"
_SETTING = DecidingCommand(
    "env | grep WITH_NVIDIA_PEERMEM, in the job", "nothing, or 1: it never uses dma-buf"
)


def _setting(node: Node) -> ProgramSetting | None:
    """The setting for every job of the node; a job may have its own."""
    return environment(node, SYSTEM).get(SWITCH)


def _never_uses(node: Node, path: Path) -> Outcome:
    """Failed if a copy never uses this path; if all copies do not, the path is closed."""
    setting = _setting(node)
    value = None if setting is None else setting.value
    assumed = (LibraryCopy(NEWEST_READ, ""),)
    copies = if_absent(assumed, MOONCAKE.copies, node)
    if copies == assumed:
        node.cite(f"{MOONCAKE.title} {NEWEST_READ}", confidence=Confidence.ASSUMED)
    used = {copy: only_path(copy.version, value) for copy in copies}
    others = certain_of(copies, tuple(copy for copy, only in used.items() if only not in (None, path)))
    if others:
        first = others[0]
        how = f"with {SWITCH}={value}" if value is not None else f"without {SWITCH}"
        where = f" ({first.source})" if first.source else ""
        return Failed(
            seen=f"{MOONCAKE.title} {first.version}{where} {how} uses only {used[first]}",
            expected=f"{SWITCH}={int(path is Path.PEERMEM)}, from 0.3.11-rc1 on",
            subject=first.source or f"{MOONCAKE.title} {first.version}",
            takes=None if len(others) == len(copies) else (),
        )
    if None in used.values():
        unread = next(copy for copy, only in used.items() if only is None)
        ask = f"env | grep {SWITCH}, in the job"
        source = f"default of {MOONCAKE.title} {unread.version}"
        raise EvidenceMissing(Missing(source, MissingReason.UNDECIDED, ask))
    return Passed(f"{MOONCAKE.title} uses {path} here")


@rule(
    "mooncake-forces-peermem",
    Layer.APPLICATION,
    per=the_node,
    takes=MOONCAKE.own("dmabuf"),
    remedies=(RemedyName.MOONCAKE_USE_DMABUF,),
    reported_by=(_SETTING,),
    cost="Mooncake needs nvidia_peermem, although dma-buf works.",
    references=(_MOONCAKE,),
)
def mooncake_forces_peermem(node: Node, _: str) -> Outcome:
    """Mooncake registers GPU memory only by address, which needs nvidia_peermem.

    Cost: Registration fails with EFAULT where nvidia_peermem is not loaded, although dma-buf would work.

    How to tell: Mooncake prints `Failed to register memory` with `Bad address [14]`, and nvidia_peermem is
    not loaded. All releases but 0.3.11 do so by default.

    What to do: Set WITH_NVIDIA_PEERMEM=0 (from 0.3.11-rc1 on), or load nvidia_peermem. Older releases need
    a build without that option.

    Why: Mooncake tries one of the two paths, never both.

    Source: kvcache-ai/Mooncake mooncake-common/src/environ.cpp and mooncake-transfer-engine
    rdma_context.cpp, at the tags from 0.2.0 to 0.3.12.post1.
    """
    return _never_uses(node, Path.DMABUF)


@rule(
    "mooncake-forces-dmabuf",
    Layer.APPLICATION,
    per=the_node,
    takes=MOONCAKE.own("peermem"),
    remedies=(RemedyName.MOONCAKE_USE_PEERMEM,),
    reported_by=(DecidingCommand("env | grep WITH_NVIDIA_PEERMEM, in the job", "0: it never uses peermem"),),
    cost="Mooncake needs dma-buf, although nvidia_peermem works.",
    references=(_MOONCAKE,),
)
def mooncake_forces_dmabuf(node: Node, _: str) -> Outcome:
    """Mooncake registers GPU memory only as a dma-buf, and never uses nvidia_peermem.

    Cost: Registration fails where the driver, the kernel or the NIC has no dma-buf, although nvidia_peermem
    is loaded.

    How to tell: The job has WITH_NVIDIA_PEERMEM=0, or Mooncake is release 0.3.11, whose default it is.
    Mooncake prints `DMA BUF supported required` or `Failed to register memory`.

    What to do: Set WITH_NVIDIA_PEERMEM=1, or install what dma-buf needs: the open kernel modules, Linux 5.12
    and rdma-core 34.

    Why: Mooncake tries one of the two paths, never both.

    Source: kvcache-ai/Mooncake mooncake-common/src/environ.cpp and mooncake-transfer-engine
    rdma_context.cpp, at the tags from 0.3.11-rc1 to 0.3.12.post1.
    """
    return _never_uses(node, Path.PEERMEM)
