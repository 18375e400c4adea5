"""libibverbs comes from an rdma-core that supports dma-buf."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gdrkit.evidence import Missing, MissingReason
from gdrkit.facts.libraries import has_dmabuf, other_libibverbs, verbs_has_dmabuf
from gdrkit.facts.machine import distribution
from gdrkit.facts.verbs_provider import FIRST_RELEASES, provider_has_dmabuf
from gdrkit.node import Node, Supposition, if_missing
from gdrkit.repair.platforms.action import Action, AskPerson, RunCommand
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.platform import Platform
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.remedy_names import RemedyName

_TOO_OLD = {"rhel": 7.99, "debian": 11.99, "ubuntu": 20.99, "sles": 15.3}
"""The last release of a distribution whose rdma-core is older than 34: RHEL 7.9 has 22, Debian 11 33.2,
Ubuntu 20.04 28, and SLES 15 SP3 31. Sources: packages.debian.org, launchpad.net, release notes."""


def _stays_old(node: Node) -> bool:
    """Whether the newest rdma-core of the distribution is known to be older than 34."""
    system = distribution(node)
    number = re.match(r"\d{1,4}(?:\.\d{1,2})?", system.version)
    last = _TOO_OLD.get(system.id) or (_TOO_OLD["rhel"] if "rhel" in system.family else 0.0)
    return number is not None and float(number[0]) <= last


def _effect(node: Node) -> Iterable[Supposition]:
    yield verbs_has_dmabuf.becomes(True)
    for module in FIRST_RELEASES:
        if not if_missing(False, provider_has_dmabuf, node, module):
            # the distribution's newest rdma-core may be older than the first release in which it does
            unsure = Missing(f"provider of {module} that is installed", MissingReason.STALE, "gdr doctor")
            yield provider_has_dmabuf.becomes(unsure, module)
    for copy in if_missing((), other_libibverbs, node):
        yield has_dmabuf.becomes(True, copy.path)


def _procedure(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Upgrade to the distribution's newest rdma-core. Images of jobs have their own."""
    del choices
    if if_missing(False, _stays_old, node):
        yield AskPerson(
            what="run the job in an image with rdma-core 34 or newer, or upgrade the distribution: its own "
            "packages are older"
        )
        return
    yield RunCommand(
        argv=(*platform.upgrade, *platform.verbs),
        why="a libibverbs that supports dma-buf",
        never_executed=True,
    )
    yield AskPerson(
        what="use rdma-core 34 or newer also in the images of jobs, and update other copies of libibverbs"
    )


UPGRADE_RDMA_CORE = Remedy(
    name=RemedyName.UPGRADE_RDMA_CORE,
    title="install rdma-core 34 or newer, also in the image that the job runs in",
    effect=_effect,
    changes=Change.JOB,
    becomes="libibverbs has ibv_reg_dmabuf_mr",
    risk="programs that were linked to a vendor's libibverbs may need that one",
    undo="install the previous version",
    paths=("dmabuf",),
    procedure=_procedure,
)
