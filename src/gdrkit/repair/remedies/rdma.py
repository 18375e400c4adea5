"""Remedies for the RDMA stack: its libraries, limits and settings."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts.libraries import (
    has_dmabuf,
    memlock_limit_bytes,
    nccl_copies,
    other_libibverbs,
    verbs_has_dmabuf,
)
from gdrkit.facts.wheels import LibraryCopy
from gdrkit.node import Node, Supposition, if_missing
from gdrkit.programs.environment import NCCL_CONF, environment
from gdrkit.programs.nccl.releases import NEWEST, first_release_with
from gdrkit.repair.platforms.settings import disables_direct_path
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.capabilities import OF_ITS_OWN
from gdrkit.rules.remedy_names import RemedyName


def _newer_verbs(node: Node) -> Iterable[Supposition]:
    yield verbs_has_dmabuf.becomes(True)
    for copy in if_missing((), other_libibverbs, node):
        yield has_dmabuf.becomes(True, copy.path)


def _unlimited(node: Node) -> Iterable[Supposition]:
    yield memlock_limit_bytes.becomes(None)


def _newer_nccl(node: Node) -> Iterable[Supposition]:
    yield nccl_copies.becomes((LibraryCopy(NEWEST, "the newer NCCL"),))


def _clean_settings(node: Node) -> Iterable[Supposition]:
    """Only /etc/nccl.conf changes; settings of users and jobs are not touched."""
    found = environment(node, NCCL_CONF)
    kept = tuple(setting for setting in found.settings if not disables_direct_path(setting))
    if kept == found.settings:
        raise EvidenceMissing(Missing(NCCL_CONF, MissingReason.UNDECIDED, f"cat /{NCCL_CONF}"))
    yield environment.becomes(replace(found, settings=kept), NCCL_CONF)


upgrade_nccl = Remedy(
    name=RemedyName.UPGRADE_NCCL,
    title=f"use NCCL {first_release_with('sees_module')} or newer in the image or environment of the job",
    effect=_newer_nccl,
    becomes="NCCL detects nvidia-peermem and supports dma-buf",
    risk="all ranks of a job need the same NCCL",
    undo="install the previous version",
    needs_root=False,
)
upgrade_verbs = Remedy(
    name=RemedyName.UPGRADE_RDMA_CORE,
    title="install rdma-core 34 or newer, also in the image that the job runs in",
    effect=_newer_verbs,
    becomes="libibverbs has ibv_reg_dmabuf_mr",
    risk="programs that were linked to a vendor's libibverbs may need that one",
    undo="install the previous version",
    paths=("dmabuf",),
)
raise_memlock = Remedy(
    name=RemedyName.RAISE_MEMLOCK,
    title="remove the limit on locked memory",
    effect=_unlimited,
    becomes="RLIMIT_MEMLOCK is unlimited for users and for the services that start jobs",
    risk="one process can lock all memory of the machine",
    undo="remove the lines from /etc/security/limits.d and the units",
)
clean_settings = Remedy(
    name=RemedyName.CLEAN_NCCL_SETTINGS,
    title="remove the settings from /etc/nccl.conf that turn the direct path off",
    effect=_clean_settings,
    becomes="/etc/nccl.conf does not turn a direct path off",
    risk="the settings may be intentional; the finding names the lines",
    undo="restore the lines",
    paths=OF_ITS_OWN,
)
