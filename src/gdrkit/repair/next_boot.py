"""What the next boot will make of a node that is ready now: a second verdict on the same node.

A boot replaces what runs by what is installed. The node is judged again under the supposition that it
booted: the modules come from their files, and nvidia-peermem is loaded only if something loads it and the
kernel accepts it. Where a boot changes nothing that the verdict rests on, nothing is judged again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from gdrkit.evidence import Confidence, EvidenceMissing
from gdrkit.facts.boot_loading import listed_loader, root_is_kept, scripted_loader
from gdrkit.facts.driver import (
    DRIVER,
    DriverBuild,
    disk_driver_flavour,
    disk_driver_version,
    driver_build,
    driver_flavour,
    driver_path,
    driver_version,
    memory_peers,
    peermem_path,
)
from gdrkit.facts.expected_gpu import has_own_driver
from gdrkit.facts.initramfs import Held, boot_copy
from gdrkit.facts.kernel import release
from gdrkit.facts.kubernetes import has_gpu_operator
from gdrkit.facts.loaded_modules import PEERMEM, LoadedModule, loaded
from gdrkit.facts.modprobe_config import configuration
from gdrkit.facts.modules import module_path
from gdrkit.facts.next_kernel import next_kernel
from gdrkit.facts.peer_memory import CLIENT, LEGACY
from gdrkit.facts.running_files import RDMA_STACK, RunningFile, running_file
from gdrkit.facts.secure_boot import module_signatures_supported
from gdrkit.facts.trust import SignatureState, signature_check
from gdrkit.facts.virtual import scope
from gdrkit.node import Node, Supposition, if_absent, if_missing
from gdrkit.repair.boot_barriers import UVM, advice_on, barriers, without
from gdrkit.repair.boot_verdict import (
    AT_BOOT,
    NOT_PERSISTENT,
    NVIDIA,
    STEP,
    NextBoot,
    cause_of,
    is_accepted,
    undecided,
    with_subject,
)
from gdrkit.repair.platforms.families import family
from gdrkit.repair.platforms.immutable_systems import immutable
from gdrkit.repair.remedies.plan import Chain, plan
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.verdict import Verdict, judge_node
from gdrkit.verdict.path_state import GOOD, State

PERSIST = RemedyName.PERSIST_PEERMEM


def next_boot(node: Node, verdict: Verdict, consumer: str) -> NextBoot | None:
    """The verdict after the next boot on a node that is ready for a program; None for any other node."""
    if verdict.of(consumer).state not in GOOD:
        return None
    try:
        return _judged(node, verdict, consumer)
    except EvidenceMissing as error:
        return NextBoot(state=State.UNKNOWN, seen=error.missing.source)


def _judged(node: Node, verdict: Verdict, consumer: str) -> NextBoot:
    _require_own_boot(node)
    kernel = next_kernel(node)
    confidence = node.confidence(next_kernel)
    if (found := _barred(node, kernel, consumer)) is not None:
        return found
    # The first program loads a blacklisted driver, if nvidia-modprobe is there.
    if configuration(node).blacklisted(DRIVER):
        confidence = min(confidence, Confidence.LIKELY)
    if kernel != release(node):
        from gdrkit.repair.boot_of_another_kernel import boot_of  # most nodes have one kernel

        return boot_of(node, kernel, consumer, verdict.of(consumer).path)
    now = verdict.of(consumer)
    changes = _Changes(node, any(judgement.path == "peermem" for judgement in now.judgements))
    confidence = min((confidence, *changes.confidences()))
    if not changes.any:
        return NextBoot(state=State.READY, kernel=kernel, confidence=confidence)
    after = node.after(STEP, changes.suppositions())
    found = _after(after, changes, consumer, now.path)
    return replace(found, kernel=kernel, confidence=confidence)


def _require_own_boot(node: Node) -> None:
    """Raises EvidenceMissing unless the node's own files decide what the next boot loads: not in a
    container, not where one installs the driver, not where a driver runs of which this disk has nothing, and
    not on an image that each boot unpacks anew."""
    if scope(node) != "host" or has_gpu_operator(node):
        raise undecided("host whose boot loads the modules")
    if DRIVER in loaded(node) and not has_own_driver(node):
        raise undecided("what loads the driver, which is not installed on this disk")
    if not root_is_kept(node) or immutable(node) is not None:
        raise undecided("image of the next boot")


def _barred(node: Node, kernel: str, consumer: str) -> NextBoot | None:
    """The verdict where a line of configuration keeps the boot from loading what is in use now; None where
    none does, or where the path stays open without it. Such a line is at most likely to count: an initramfs
    has its own copy of the configuration, and a script may pass over it."""
    found = barriers(node, kernel)
    if not found:
        return None
    after = node.after(STEP, without(node, found))
    state = judge_node(after, asked=consumer).of(consumer).state
    if state in GOOD and all(barrier.module != UVM for barrier in found):
        return None
    if state is State.UNKNOWN:
        raise undecided(found[0].seen)
    return NextBoot(
        state=State.BLOCKED,
        kernel=kernel,
        cause=found[0].code,
        seen=f"{found[0].module} will not be loaded: {found[0].seen}",
        advice=advice_on(found),
        confidence=Confidence.LIKELY,
    )


# -- the running kernel boots again --------------------------------------------------------------------


class _Changes:
    """What a boot of the same kernel changes in the modules. Raises EvidenceMissing if that is not known."""

    def __init__(self, node: Node, peermem: bool) -> None:
        self.node = node
        self.before = loaded(node)
        if LEGACY in self.before and peermem:
            raise undecided(f"service that loads {LEGACY}")
        watched = (DRIVER, *RDMA_STACK, *((PEERMEM,) if peermem else ()))
        here = {name: _booted(node, name) for name in watched if name in self.before}
        self.files = {name: path for name, path in here.items() if path is not None}
        self.is_former = any(path and path != _file(node, name) for name, path in self.files.items())
        self.loads_peermem = not peermem or bool(_loader(node))
        # what runs was accepted before its key was revoked, and is not accepted again
        ours = (name for name in (DRIVER, PEERMEM) if name in watched and name in self.before)
        self.revoked = frozenset(name for name in ours if _is_revoked(node, name))
        self.any = bool(self.files or self.revoked) or not self.loads_peermem

    def confidences(self) -> Iterator[Confidence]:
        """Of the facts that show what changes. It is likely that the boot loads the installed files, unless
        it is known that the initramfs does not hold the former ones."""
        for name in self.files:
            held = if_missing(None, boot_copy, self.node, name) if self.files[name] else None
            yield Confidence.LIKELY if held is None or held.held is Held.FORMER else Confidence.CERTAIN
            yield self.node.confidence(running_file, name)

    def suppositions(self) -> Iterator[Supposition]:
        """The facts that the boot sets."""
        yield from self._installed()
        after = self.before
        if (DRIVER in self.files or DRIVER in self.revoked) and not self._is_accepted(
            DRIVER, self._without(NVIDIA)
        ):
            after = self._without(NVIDIA)
        elif not self.loads_peermem or not self._peermem_is_accepted():
            after = self._without(PEERMEM)
        yield loaded.becomes(after)
        if PEERMEM in self.before and PEERMEM not in after:
            peers = if_absent(None, memory_peers, self.node)
            if peers is not None:
                left = tuple(peer for peer in peers if not peer.client.startswith(CLIENT))
                yield memory_peers.becomes(left)

    def _installed(self) -> Iterator[Supposition]:
        """The modules come from their files."""
        for name, path in self.files.items():
            if path:
                yield running_file.becomes(RunningFile(path), name)
        if self.files.get(DRIVER):
            version, flavour = disk_driver_version(self.node), disk_driver_flavour(self.node)
            yield driver_version.becomes(version)
            yield driver_flavour.becomes(flavour)
            yield driver_build.becomes(DriverBuild(version, flavour))

    def _without(self, start: str) -> Mapping[str, LoadedModule]:
        return {name: one for name, one in self.before.items() if not name.startswith(start)}

    def _peermem_is_accepted(self) -> bool:
        if not (self.files or self.revoked) or PEERMEM not in self.before:
            return True
        return self._is_accepted(PEERMEM, self._without(PEERMEM))

    def _is_accepted(self, module: str, present: Mapping[str, LoadedModule]) -> bool:
        """Whether modprobe is predicted to load a module while these are loaded."""
        if self.files.get(module) == "":
            return False
        return is_accepted(self.node.after(STEP, (*self._installed(), loaded.becomes(present))), module)


def _is_revoked(node: Node, name: str) -> bool:
    """Whether the key of a module's file is known to be revoked. The kernel reads the lists of the firmware
    and of shim at boot: security/integrity/platform_certs/load_uefi.c."""

    def revoked() -> bool:
        state = signature_check(node, _file(node, name)).state  # not known of a file that is gone
        return module_signatures_supported(node) and state is SignatureState.REVOKED

    return if_missing(False, revoked)


def _booted(node: Node, name: str) -> str | None:
    """The file that the boot loads in place of the one that runs, "" if there is none; None if it loads the
    one that runs. Raises EvidenceMissing where the initramfs holds a former build that is not on disk."""
    copy = if_missing(None, boot_copy, node, name)
    if copy is None or copy.held is not Held.FORMER:
        return _file(node, name) if _is_replaced(node, name) else None
    runs = running_file(node, name)
    if name in RDMA_STACK and copy.path:
        return None if runs.path == copy.path else copy.path
    if runs.differs:
        return None
    raise undecided(f"{name} in the initramfs, which is older than the installed one")


def _is_replaced(node: Node, name: str) -> bool:
    """Whether another file than the one that runs would be loaded, or none."""
    if not running_file(node, name).differs:
        return False
    own = _file(node, name)
    if own and own != if_absent("", module_path, node, name):
        # Debian's files have other names; the driver's version is all that is compared.
        return disk_driver_version(node) != driver_version(node)
    return True


def _file(node: Node, name: str) -> str:
    """The file of a module; "" if it is gone. Raises EvidenceMissing for one of the RDMA stack that is gone:
    what the boot loads in its place is not known."""
    if name not in (DRIVER, PEERMEM):
        return module_path(node, name)
    path = if_absent("", driver_path if name == DRIVER else peermem_path, node)
    return path if path and node.exists(path) else ""


def _loader(node: Node) -> str:
    """What loads nvidia-peermem at boot; "" if nothing does."""
    return listed_loader(node, PEERMEM) or scripted_loader(node, PEERMEM)


def _after(after: Node, changes: _Changes, consumer: str, path: str) -> NextBoot:
    """The verdict on the node after the boot, and what keeps the path open that is open now."""
    verdict = judge_node(after, asked=consumer).toward(after, consumer, path)
    state = verdict.of(consumer)
    if state.state in GOOD:
        return NextBoot(state=State.READY)
    cause, outcome = cause_of(state)
    code, seen = cause.rule.code, with_subject(cause.rule, outcome)
    if not changes.loads_peermem and code == "peermem-not-loaded":
        # it runs today, so to load it at boot is all that is missing, whatever else a plan would leave open
        return NextBoot(
            state=state.state,
            cause=NOT_PERSISTENT,
            seen="nothing loads nvidia-peermem at boot",
            steps=(PERSIST,),
        )
    if changes.is_former:
        return NextBoot(
            state=state.state,
            cause=code,
            seen=f"{seen}; the initramfs holds former modules",
            commands=tuple(_renewal(after)),
        )
    return NextBoot(
        state=state.state,
        cause=code,
        seen=seen,
        steps=_steps(plan(after, verdict, consumer), changes, path),
    )


def _renewal(node: Node) -> Iterator[str]:
    """The command that writes the initramfs of this kernel again."""
    platform = family(node)
    if platform is not None:
        yield f"sudo {' '.join(platform.refresh_initramfs(release(node), '').argv)}"


def _steps(plans: tuple[Chain, ...], changes: _Changes, path: str) -> tuple[RemedyName, ...]:
    """The steps of the plan for a path, else of the shortest one, without those that the boot takes; ()
    without a plan."""
    chain = next((chain for chain in plans if chain[0].path == path), plans[0] if plans else ())
    named = [step.remedy.name for step in chain if step.remedy.name not in AT_BOOT]
    if changes.loads_peermem:
        return tuple(name for name in named if name != RemedyName.LOAD_PEERMEM)
    return tuple(PERSIST if name == RemedyName.LOAD_PEERMEM else name for name in named)
