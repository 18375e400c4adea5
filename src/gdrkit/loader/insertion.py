"""The kernel's side: what finit_module() says of one module.

Source: Linux kernel/module/main.c, load_module(). The checks are the rules; here is their order, and what
the kernel says when one of them stops it.
"""

from __future__ import annotations

from collections.abc import Callable

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing, MissingReason
from gdrkit.facts import kernel_log
from gdrkit.facts.linkage import (
    InheritedTaint,
    Links,
    SymbolProblem,
    UnversionedSymbol,
    duplicate_export,
    links,
    links_without,
)
from gdrkit.facts.module_arguments import reading
from gdrkit.facts.module_init import InitOutcome, init
from gdrkit.facts.module_state import Corruption, Misfit, fit, flaw, kernel_name
from gdrkit.facts.modules import PEERMEM, content, module_path
from gdrkit.facts.secure_boot import module_signatures_supported, signatures_enforced
from gdrkit.facts.trust import SignatureState, signature_fault, standing, untested_digest
from gdrkit.loader.prediction import LoadRefusal
from gdrkit.loader.refusals import REFUSED, on_flaw, on_inherited, on_problem, on_unsupported
from gdrkit.loader.taints import Taints
from gdrkit.messages import kernel
from gdrkit.messages.errors import EBADMSG, EINVAL, EKEYREJECTED, ENOENT, ENOEXEC, ENOSPC, EPERM
from gdrkit.messages.message import MessageTemplate
from gdrkit.node import Node, if_missing
from gdrkit.rules.engine import judge
from gdrkit.rules.load_order import checks_at
from gdrkit.rules.module_admission import module_blacklisted, modules_are_disabled
from gdrkit.rules.module_build import module_corrupt, module_wrong_kernel
from gdrkit.rules.module_symbols import code_of
from gdrkit.rules.peermem_registration_refused import peermem_registration_refused
from gdrkit.rules.rule import Failed, Rule, Unknown
from gdrkit.rules.stage import Stage


class Kernel:
    """The kernel while modprobe runs: what is tainted, what came in, what was said."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.taints = Taints(node)
        self.log = self.taints.log
        self.came: set[str] = set()  # modules loaded meanwhile
        self.gone: set[str] = set()  # dependencies that modprobe took for loaded and that are not
        self.unless: list[str] = []
        self.init_unknown = False
        self.assumes: list[str] = []  # modules whose init is taken to return 0
        self.certain_lines: int | None = None  # of the log, before the first of them

    def insert(self, name: str, arguments: str) -> LoadRefusal | None:
        """Load one module by its file's name; None if it comes in. Appends to the log."""
        steps: tuple[Callable[[], LoadRefusal | None], ...] = (
            lambda: self._file(name),
            lambda: self._permission(name),
            lambda: self._signature(name),
            lambda: self._form(name),
            lambda: self._admission(name),
            lambda: self._build(name),
            lambda: self._entry(name),
            lambda: self._symbols(name),
            lambda: self._exports(name),
            lambda: self._arguments(name, arguments),
            lambda: self._init(name),
        )
        if self._is_unseen(name):
            self._assume(name)
            self._open("module-corrupt")
            self.came.add(name)
            return None
        for step in steps:
            refusal = step()
            if refusal is not None:
                return refusal
        self.came.add(name)
        return None

    def doubt(self) -> None:
        """From here on, what is logged depends on something that nobody knows."""
        if self.certain_lines is None:
            self.certain_lines = len(self.log)

    def _assume(self, module: str) -> None:
        self.doubt()
        self.assumes.append(module)
        self.init_unknown = True

    def _is_unseen(self, name: str) -> bool:
        """Whether the file itself is not in the evidence: then nothing can be said of this module."""
        try:
            content(self.node, module_path(self.node, name))
        except EvidenceMissing as lacks:
            return lacks.missing.why not in (MissingReason.ABSENT, MissingReason.GARBLED)
        return False

    def _fails(self, check: Rule, name: str) -> bool:
        """Whether a rule stops it; a rule that nobody can answer is noted."""
        outcome = judge(self.node, check, name)
        if isinstance(outcome, Unknown):
            self._open(check.code)
        return isinstance(outcome, Failed)

    def _open(self, code: str) -> None:
        if code not in self.unless:
            self.unless.append(code)

    def _name(self, name: str) -> str:
        return kernel_name(self.node, name)

    # -- the checks, in order --------------------------------------------------------------------------

    def _file(self, name: str) -> LoadRefusal | None:
        """kmod opens the file, and unpacks it: kmod_file_open()."""
        try:
            found = flaw(self.node, module_path(self.node, name))
        except EvidenceAbsent:
            return LoadRefusal(ENOENT, "module-not-found")
        if found is not None and found.kind in (Corruption.EMPTY, Corruption.COMPRESSED):
            return LoadRefusal(EINVAL, "module-corrupt")
        return None

    def _permission(self, name: str) -> LoadRefusal | None:
        return LoadRefusal(EPERM, "modules-disabled") if self._fails(modules_are_disabled, name) else None

    def _signature(self, name: str) -> LoadRefusal | None:
        """module_sig_check()."""
        failed = next((check for check in checks_at(Stage.SIGNATURE) if self._fails(check, name)), None)
        seen = if_missing(None, self._signature_seen, name)
        if seen is None:
            return None
        path, state, fault = seen
        self._say_untested(path)
        if state is SignatureState.UNSUPPORTED:
            self.log.extend(on_unsupported(self.node, path, fault))
        if failed is None:
            return None
        if fault == "bad-reserved":
            self.log.append(kernel.BAD_TRAILER.say())
        if state is SignatureState.ATTRIBUTES:
            self.log.append(kernel.ATTRIBUTES.say())
        if state in REFUSED and signatures_enforced(self.node):
            self.log.append(REFUSED[state].say())
        elif state in REFUSED:
            self.log.append(kernel.LOCKDOWN.say(process="modprobe"))
            return LoadRefusal(EPERM, failed.code)
        return LoadRefusal(EBADMSG if state is SignatureState.MALFORMED else EKEYREJECTED, failed.code)

    def _signature_seen(self, name: str) -> tuple[str, SignatureState, str] | None:
        """The file, what its signature is worth, and its fault; None for a kernel that does not look."""
        if not module_signatures_supported(self.node):
            return None
        path = module_path(self.node, name)
        return path, standing(self.node, path).state, signature_fault(self.node, path)

    def _say_untested(self, path: str) -> None:
        digest = if_missing("", untested_digest, self.node, path)
        if digest:
            tried = f"pkcs1pad(rsa,{digest}) (pkcs1pad(rsa-generic,{digest}))"
            line = kernel.NO_SELF_TEST.say(algorithm=tried)
            if line not in (*self._before(), *self.log):
                self.log.append(line)

    def _form(self, name: str) -> LoadRefusal | None:
        """elf_validity_check()."""
        if not self._fails(module_corrupt, name):
            return None
        found = flaw(self.node, module_path(self.node, name))
        if found is not None and (line := on_flaw(self.node, found, name)):
            self.log.append(line)
        return LoadRefusal(ENOEXEC, "module-corrupt")

    def _admission(self, name: str) -> LoadRefusal | None:
        """blacklisted(): the kernel's own list, which modprobe's blacklist is not."""
        outcome = judge(self.node, module_blacklisted, name)
        if isinstance(outcome, Unknown):
            self._open(module_blacklisted.code)
        if not isinstance(outcome, Failed) or outcome.takes == ():
            return None
        self.log.append(kernel.BLACKLISTED.say(module=self._name(name)))
        return LoadRefusal(EPERM, "module-blacklisted")

    def _build(self, name: str) -> LoadRefusal | None:
        """check_modstruct_version() and check_modinfo()."""
        failed = self._fails(module_wrong_kernel, name)
        found = if_missing(None, fit, self.node, name)
        if found is None:
            return None
        module = self._name(name)
        if found.misfit is Misfit.NO_LAYOUT or (found.unversioned and not self._said(kernel.UNVERSIONED)):
            self.log.append(kernel.UNVERSIONED.say(module=module, symbol="module_layout"))
        for what in found.forced:
            self.taints.force(module, what)
        if not failed:
            return None
        if found.misfit is Misfit.STRUCT_SIZE:
            self.log.append(kernel.STRUCT_SIZE.say(module=module))
        if found.misfit is Misfit.LAYOUT:
            self.log.append(kernel.LAYOUT.say(module=module))
        if found.misfit is Misfit.VERMAGIC:
            self.log.append(kernel.VERMAGIC.say(module=module, found=found.found, wanted=found.wanted))
        return LoadRefusal(ENOEXEC, "module-wrong-kernel")

    def _entry(self, name: str) -> LoadRefusal | None:
        """add_unformed_module(), and the taint that comes with it."""
        verified: bool | None = None
        try:
            if module_signatures_supported(self.node):
                verified = standing(self.node, module_path(self.node, name)).state is SignatureState.VERIFIED
        except EvidenceMissing:
            self._open("module-unknown-key")
        self.taints.add(name, self._name(name), verified)
        return None

    def _symbols(self, name: str) -> LoadRefusal | None:
        """simplify_symbols(): it goes on to the last symbol, whose error is the one returned."""
        try:
            found = (
                links_without(self.node, name, frozenset(self.gone)) if self.gone else links(self.node, name)
            )
        except EvidenceMissing:
            self._open("module-symbol-missing")
            return None
        if found.unseen:
            self._open("module-symbol-missing")
        return self._say_links(self._name(name), found)

    def _say_links(self, module: str, found: Links) -> LoadRefusal | None:
        refusal = None
        for event in found.events:
            if isinstance(event, SymbolProblem):
                self.log.extend(on_problem(self.node, module, event))
                refusal = LoadRefusal(event.fault.errno, code_of(event.fault))
            elif isinstance(event, InheritedTaint):
                self.log.append(on_inherited(self.node, module, event))
            elif isinstance(event, UnversionedSymbol) and not self._said(kernel.UNVERSIONED):
                self.log.append(kernel.UNVERSIONED.say(module=module, symbol=event.symbol))
        return refusal

    def _said(self, line: MessageTemplate) -> bool:
        """Whether a line that the kernel says once in a boot has been said; no, where its log is unseen."""
        return any(line.match(text) is not None for text in (*self._before(), *self.log))

    def _before(self) -> tuple[str, ...]:
        return if_missing((), lambda: tuple(row.text for row in kernel_log.lines(self.node).lines))

    def _exports(self, name: str) -> LoadRefusal | None:
        """complete_formation()."""
        try:
            found = duplicate_export(self.node, name)
        except EvidenceMissing:
            self._open("module-symbol-duplicate")
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
            self._open("module-bad-parameter")
            return None
        module = self._name(name)
        for complaint in found.complaints:
            name, value = complaint.argument.name, complaint.argument.shown
            if not complaint.errno:
                self.log.append(kernel.UNKNOWN_PARAMETER.say(module=module, parameter=name))
            else:
                line = kernel.LARGE_PARAMETER if complaint.errno == ENOSPC else kernel.INVALID_PARAMETER
                self.log.append(line.say(module=module, value=value, parameter=name))
        return LoadRefusal(found.bad[-1].errno, "module-bad-parameter") if found.bad else None

    def _init(self, name: str) -> LoadRefusal | None:
        """do_init_module()."""
        try:
            found = init(self.node, name)
        except EvidenceMissing:
            self._open("peermem-stub")
            found = InitOutcome.UNKNOWN
        if found is InitOutcome.STUB:
            return LoadRefusal(EINVAL, "peermem-stub")
        if found is not InitOutcome.UNKNOWN or self._name(name) == PEERMEM:
            refused = judge(self.node, peermem_registration_refused, PEERMEM)
            if isinstance(refused, Failed):  # as it did before in this boot
                self.log.append(refused.seen)
                return LoadRefusal(EINVAL, peermem_registration_refused.code)
        if found is InitOutcome.UNKNOWN:
            self._assume(self._name(name))
        return None
