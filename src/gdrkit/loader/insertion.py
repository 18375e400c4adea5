"""The kernel's side: predict the result of finit_module() for one module.

Source: Linux kernel/module/main.c, load_module(). Rules make the checks; this module has their order, and
the messages of the kernel if one fails.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing
from gdrkit.facts import kernel_log
from gdrkit.facts.driver_files import DRIVER
from gdrkit.facts.kernel import version
from gdrkit.facts.linkage import (
    InheritedTaint,
    Links,
    SymbolProblem,
    UnversionedSymbol,
    duplicate_export,
    links_without,
    symbol_links,
)
from gdrkit.facts.module_arguments import number, reading
from gdrkit.facts.module_init import InitOutcome, barred_entry, init, is_legacy, refused_argument
from gdrkit.facts.module_packing import unpack_fault
from gdrkit.facts.module_state import (
    Corruption,
    KernelMismatch,
    file_flaw,
    kernel_match,
    kernel_name,
    state_in_kernel,
)
from gdrkit.facts.modules import PEERMEM, dependencies, information, module_path
from gdrkit.facts.peermem_source import parameter_line, registration_line, stub_checks
from gdrkit.facts.secure_boot import module_signatures_supported, signatures_enforced
from gdrkit.facts.trust import SignatureState, signature_check, signature_fault
from gdrkit.loader import refusals
from gdrkit.loader.argument_lines import on_arguments
from gdrkit.loader.prediction import LoadRefusal
from gdrkit.loader.taints import AUGMENTS, Taints
from gdrkit.loader.unseen import is_not_collected, refused_unseen
from gdrkit.messages import kernel, modprobe
from gdrkit.messages.errors import (
    EBADMSG,
    EEXIST,
    EINVAL,
    EKEYREJECTED,
    ENOENT,
    ENOEXEC,
    EPERM,
)
from gdrkit.messages.message import MessageTemplate
from gdrkit.node import Node, if_missing
from gdrkit.rules.engine import judge
from gdrkit.rules.load_order import checks_at
from gdrkit.rules.module_admission import module_blacklisted, modules_are_disabled
from gdrkit.rules.module_build import module_corrupt, module_wrong_kernel
from gdrkit.rules.module_symbols import code_of
from gdrkit.rules.peermem_registration_refused import REFUSED as REFUSED_CLIENT
from gdrkit.rules.peermem_registration_refused import peermem_registration_refused
from gdrkit.rules.rule import Failed, Rule, Unknown
from gdrkit.rules.stage import Stage


class Kernel:
    """The state of the kernel while modprobe runs: taints, loaded modules, log."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.taints = Taints(node)
        self.log = self.taints.log
        self.inserted: dict[str, None] = {}  # modules loaded by this modprobe, in order
        self.unavailable: set[str] = set()  # dependencies that modprobe treats as loaded, but which are not
        self.unless: list[str] = []
        self.init_unknown = False
        self.assumes: list[str] = []  # modules whose init is assumed to return 0
        self.certain_lines: int | None = None  # of the log, before the first of them

    def insert(self, name: str, arguments: str) -> LoadRefusal | None:
        """Load one module by its file's name; None on success. Appends to the log."""
        steps: tuple[Callable[[], LoadRefusal | None], ...] = (
            lambda: self._file(name),
            lambda: self._permission(name),
            lambda: self._unpacking(name),
            lambda: self._signature(name),
            lambda: self._form(name),
            lambda: self._admission(name),
            lambda: self._build(name),
            lambda: self._entry(name),
            lambda: self._symbols(name),
            lambda: self._exports(name),
            lambda: self._arguments(name, arguments),
            lambda: self._init(name, arguments),
        )
        if errno := if_missing(0, lambda: refusals.error_of_link(self.node, module_path(self.node, name))):
            return LoadRefusal(errno, "module-corrupt")
        if is_not_collected(self.node, name):
            self._note_unchecked("module-corrupt")
            if (refusal := refused_unseen(self.node, name)) is not None:
                self.mark_uncertain()  # another check may come first, with a line of its own
                return refusal
            self._assume(name)
            self.inserted[name] = None
            return None
        for step in steps:
            refusal = step()
            if refusal is not None:
                return refusal
        self.inserted[name] = None
        return None

    def mark_uncertain(self) -> None:
        """Mark all later log lines as uncertain."""
        if self.certain_lines is None:
            self.certain_lines = len(self.log)

    def _assume(self, module: str) -> None:
        self.mark_uncertain()
        self.assumes.append(module)
        self.init_unknown = True

    def _fails(self, check: Rule, name: str) -> bool:
        """Whether a rule fails; an unknown result is added to `unless`."""
        outcome = judge(self.node, check, name)
        if isinstance(outcome, Unknown):
            self._note_unchecked(check.code)
        return isinstance(outcome, Failed)

    def _note_unchecked(self, code: str) -> None:
        if code not in self.unless:
            self.unless.append(code)

    def _name(self, name: str) -> str:
        return kernel_name(self.node, name)

    # -- the checks, in order --------------------------------------------------------------------------

    def _file(self, name: str) -> LoadRefusal | None:
        """kmod opens and decompresses the file: kmod_file_open()."""
        try:
            found = file_flaw(self.node, module_path(self.node, name))
        except EvidenceAbsent:
            return LoadRefusal(ENOENT, "module-not-found")
        if found is None or found.kind not in (Corruption.EMPTY, Corruption.COMPRESSED):
            return None
        fault = unpack_fault(self.node, module_path(self.node, name))
        if fault is not None and fault.status is not None:
            return None  # the kernel finds it
        if fault is None:
            return LoadRefusal(EINVAL, "module-corrupt")
        said = (modprobe.NOT_UNPACKED.say(place="", damage=fault.said),) if fault.said else ()
        return LoadRefusal(fault.error, "module-corrupt", said)

    def _permission(self, name: str) -> LoadRefusal | None:
        return LoadRefusal(EPERM, "modules-disabled") if self._fails(modules_are_disabled, name) else None

    def _unpacking(self, name: str) -> LoadRefusal | None:
        """module_decompress()."""
        fault = if_missing(None, unpack_fault, self.node, module_path(self.node, name))
        status = fault.status if fault else None
        if status is None:
            return None
        self.log.append(kernel.NOT_UNPACKED.say(status=status))
        return LoadRefusal(EINVAL, "module-corrupt")

    def _signature(self, name: str) -> LoadRefusal | None:
        """module_sig_check()."""
        failed = next((check for check in checks_at(Stage.SIGNATURE) if self._fails(check, name)), None)
        signature = if_missing(None, self._signature_state, name)
        if signature is None:
            return None
        path, state, fault = signature
        untested = refusals.on_untested(self.node, path)
        if untested and untested not in (*self._logged_before(), *self.log):
            self.log.append(untested)
        old = version(self.node) < refusals.REASONS_SINCE
        if state is SignatureState.UNSUPPORTED and old:
            self.mark_uncertain()  # its line had other words
        elif state is SignatureState.UNSUPPORTED:
            self.log.extend(refusals.on_unsupported(self.node, path, fault))
        if failed is None:
            if old and state is SignatureState.UNSUPPORTED:
                self._note_unchecked("module-unknown-key")  # refused, except by patched kernels
            return None
        if old and state in refusals.REFUSED:
            return LoadRefusal(refusals.error_without_reason(self.node, state), failed.code)
        if fault == "bad-reserved":
            self.log.append(kernel.BAD_TRAILER.say())
        if state is SignatureState.ATTRIBUTES:
            self.log.append(kernel.ATTRIBUTES.say())
        if state in refusals.REFUSED and signatures_enforced(self.node):
            self.log.append(refusals.REFUSED[state].say())
        elif state in refusals.REFUSED:
            self.log.append(kernel.LOCKDOWN.say(process="modprobe"))
            return LoadRefusal(EPERM, failed.code)
        return LoadRefusal(EBADMSG if state is SignatureState.MALFORMED else EKEYREJECTED, failed.code)

    def _signature_state(self, name: str) -> tuple[str, SignatureState, str] | None:
        """The file, the state of its signature and its fault; None for a kernel without signatures."""
        if not module_signatures_supported(self.node):
            return None
        path = module_path(self.node, name)
        return path, signature_check(self.node, path).state, signature_fault(self.node, path)

    def _form(self, name: str) -> LoadRefusal | None:
        """elf_validity_check()."""
        if not self._fails(module_corrupt, name):
            return None
        found = file_flaw(self.node, module_path(self.node, name))
        if found is not None and (line := refusals.on_flaw(self.node, found, name)):
            self.log.append(line)
        return LoadRefusal(ENOEXEC, "module-corrupt")

    def _admission(self, name: str) -> LoadRefusal | None:
        """blacklisted(): the kernel's own list, not modprobe's."""
        outcome = judge(self.node, module_blacklisted, name)
        if isinstance(outcome, Unknown):
            self._note_unchecked(module_blacklisted.code)
        if not isinstance(outcome, Failed) or outcome.takes == ():
            return None
        self.log.append(kernel.BLACKLISTED.say(module=self._name(name)))
        return LoadRefusal(EPERM, "module-blacklisted")

    def _build(self, name: str) -> LoadRefusal | None:
        """check_modstruct_version() and check_modinfo()."""
        failed = self._fails(module_wrong_kernel, name)
        found = if_missing(None, kernel_match, self.node, name)
        if found is None:
            return None
        module = self._name(name)
        if found.misfit is KernelMismatch.NO_LAYOUT or (
            found.unversioned and not self._was_logged(kernel.UNVERSIONED)
        ):
            self.log.append(kernel.UNVERSIONED.say(module=module, symbol="module_layout"))
        for what in found.forced:
            self.taints.force(module, what)
        if not failed:
            return None
        if found.misfit is KernelMismatch.STRUCT_SIZE:
            self.log.append(kernel.STRUCT_SIZE.say(module=module))
        if found.misfit is KernelMismatch.LAYOUT:
            self.log.append(kernel.LAYOUT.say(module=module))
        if found.misfit is KernelMismatch.VERMAGIC:
            self.log.append(kernel.VERMAGIC.say(module=module, found=found.found, wanted=found.wanted))
        return LoadRefusal(ENOEXEC, "module-wrong-kernel")

    def _entry(self, name: str) -> LoadRefusal | None:
        """add_unformed_module(), and the taints before and after it."""
        taints_first = version(self.node) < AUGMENTS
        if taints_first:
            self.taints.add(name, self._name(name))
        if self._is_present(name):
            return LoadRefusal(EEXIST, "")
        if not taints_first:
            self.taints.add(name, self._name(name))
        verified: bool | None = None
        try:
            if module_signatures_supported(self.node):
                verified = (
                    signature_check(self.node, module_path(self.node, name)).state is SignatureState.VERIFIED
                )
        except EvidenceMissing:
            if if_missing(True, signatures_enforced, self.node):
                self._note_unchecked("module-unknown-key")
            self.mark_uncertain()  # whether it taints the kernel
        self.taints.add_in_list(self._name(name), verified)
        return None

    def _is_present(self, name: str) -> bool:
        """Whether the kernel has a module of this one's own name, which another file may have brought.

        It waits for one that is being loaded: module_patient_check_exists(). Symbols come later: on 6.12.95,
        modprobe of a file whose symbols nothing exports, and whose module's name was loaded, exited with 0.
        """
        own = self._name(name)
        if own in (if_missing(other, self._name, other) for other in self.inserted):
            return True
        state = if_missing("", state_in_kernel, self.node, name)
        if state not in ("", "Live"):
            self._assume(own)
        return state in ("Live", "Loading")

    def _symbols(self, name: str) -> LoadRefusal | None:
        """simplify_symbols(): it checks every symbol, and returns the last error."""
        try:
            found = (
                links_without(self.node, name, frozenset(self.unavailable))
                if self.unavailable
                else symbol_links(self.node, name)
            )
        except EvidenceMissing:
            self._note_unchecked("module-symbol-missing")
            return None
        if found.unseen:
            self._note_unchecked("module-symbol-missing")
        return self._log_links(self._name(name), found)

    def _log_links(self, module: str, found: Links) -> LoadRefusal | None:
        refusal = None
        for event in found.events:
            if isinstance(event, SymbolProblem):
                self.log.extend(refusals.on_problem(self.node, module, event))
                refusal = LoadRefusal(event.fault.errno, code_of(event.fault))
            elif isinstance(event, InheritedTaint):
                self.log.append(refusals.on_inherited(self.node, module, event))
            elif isinstance(event, UnversionedSymbol) and not self._was_logged(kernel.UNVERSIONED):
                self.log.append(kernel.UNVERSIONED.say(module=module, symbol=event.symbol))
        return refusal

    def _was_logged(self, line: MessageTemplate) -> bool:
        """Whether the kernel has logged a message that it prints once per boot; False without a log."""
        return any(line.match(text) is not None for text in (*self._logged_before(), *self.log))

    def _logged_before(self) -> tuple[str, ...]:
        return if_missing((), lambda: tuple(row.text for row in kernel_log.lines(self.node).lines))

    def _exports(self, name: str) -> LoadRefusal | None:
        """complete_formation()."""
        try:
            found = duplicate_export(self.node, name)
        except EvidenceMissing:
            self._note_unchecked("module-symbol-duplicate")
            return None
        if found is None:
            return None
        line = kernel.DUPLICATE.say(module=self._name(name), symbol=found.symbol, owner=found.owner)
        self.log.append(line)
        return LoadRefusal(ENOEXEC, "module-symbol-duplicate")

    def _arguments(self, name: str, arguments: str) -> LoadRefusal | None:
        """parse_args()."""
        try:
            found = reading(self.node, name, arguments)
        except EvidenceMissing:
            self._note_unchecked("module-bad-parameter")
            return None
        for line in on_arguments(self.node, self._name(name), found):
            if line is None:
                self.mark_uncertain()
            else:
                self.log.append(line)
        return LoadRefusal(found.bad[-1].errno, "module-bad-parameter") if found.bad else None

    def _init(self, name: str, arguments: str) -> LoadRefusal | None:
        """do_init_module()."""
        barred = if_missing(None, barred_entry, self.node, name)
        if barred is None:
            self._note_unchecked(module_blacklisted.code)
        elif barred:
            self.log.append(kernel.INITCALL_BLACKLISTED.say(function=barred))
            return LoadRefusal(EPERM, module_blacklisted.code)
        try:
            found = init(self.node, name)
        except EvidenceMissing:
            self._note_unchecked("peermem-stub")
            found = InitOutcome.UNKNOWN
        bad = if_missing(None, refused_argument, self.node, name, arguments)
        version = if_missing("", lambda: information(self.node, module_path(self.node, name)).version)
        if bad is not None and (found is not InitOutcome.STUB or stub_checks(version)):
            value = number(bad.shown)
            self._log_of_peermem(parameter_line(version, bad.name.replace("-", "_"), value or 0))
        if found is InitOutcome.STUB:
            return LoadRefusal(EINVAL, "peermem-stub")
        if bad is not None:
            return LoadRefusal(EINVAL, "module-bad-parameter")
        if (found is not InitOutcome.UNKNOWN or self._name(name) == PEERMEM) and self._is_refused(name):
            self.log += refusals.on_taken_name(self.node)
            self._log_of_peermem(registration_line(version, legacy=is_legacy(arguments)))
            return LoadRefusal(EINVAL, peermem_registration_refused.code)
        if found is InitOutcome.UNKNOWN:
            self._assume(self._name(name))
        return None

    def _log_of_peermem(self, line: str) -> None:
        """Append a line that nvidia-peermem logs; "" if its text is not known for this version."""
        if line:
            self.log.append(line)
        else:
            self.mark_uncertain()

    def _is_refused(self, name: str) -> bool:
        """Whether the RDMA core refuses to register nvidia-peermem.

        An earlier refusal in the log does not decide: what caused it may be gone, and if the core was not
        loaded, a new one starts without any client.
        """
        outcome = judge(self.node, peermem_registration_refused, PEERMEM)
        earlier = isinstance(outcome, Failed) and re.search(REFUSED_CLIENT, outcome.seen) is not None
        inserted = self.inserted.keys() & set(dependencies(self.node, name))
        new_core = {module for module in inserted if if_missing(module, self._name, module) != DRIVER}
        if (isinstance(outcome, Unknown) or earlier) and not new_core:
            self._note_unchecked(peermem_registration_refused.code)
        return isinstance(outcome, Failed) and not earlier
