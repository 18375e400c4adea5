"""The messages of the kernel for each reason to refuse a module."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gdrkit.evidence import Confidence, EvidenceMissing
from gdrkit.evidence.missing import is_loop
from gdrkit.facts.kernel import version
from gdrkit.facts.linkage import InheritedTaint, SymbolFault, SymbolProblem
from gdrkit.facts.module_state import SIZE_IS_CHECKED, Corruption, ModuleFlaw
from gdrkit.facts.peer_memory import CLIENT, MEMORY_PEERS
from gdrkit.facts.trust import SignatureState, digest_places, signature, untested_digest
from gdrkit.formats.module_name import canonical
from gdrkit.messages import kernel
from gdrkit.messages.errors import EINVAL, ELOOP, ENOKEY, ENOPKG
from gdrkit.messages.message import MessageTemplate
from gdrkit.node import Node, if_missing

REFUSED = {
    SignatureState.UNSIGNED: kernel.UNSIGNED,
    SignatureState.UNKNOWN_KEY: kernel.UNKNOWN_KEY,
    SignatureState.UNSUPPORTED: kernel.UNSUPPORTED,
}

# Versions since which a message has its current wording; messages/kernel.py has the sources.
REASONS_SINCE = 5, 4  # why a signature is refused, with EKEYREJECTED for each reason
_MISSING_IS_ENOENT = 4, 19  # `(err -2)` of a missing symbol, and `(err 0)` before
_SYMBOL_NAMED = 5, 19  # besides the proprietary module that exports it
_INVALID_HEADER_IS_LOGGED, _INVALID_HEADER_IS_EXPLAINED = (5, 4), (5, 15)  # an invalid file header
_EXACTLY = 6, 13  # one struct module
_KOBJECT_NAMED = 6, 5  # lib/kobject.c has a prefix
_PEERS = MEMORY_PEERS.removeprefix("sys")
_HEADER = (
    Corruption.SHORT, Corruption.MAGIC, Corruption.TYPE, Corruption.MACHINE, Corruption.TABLE,
    Corruption.NAMES,
)  # fmt: skip

# Linux include/linux/oid_registry.h, OID__NR, which means "no such identifier". It grows; for kernels that
# are not listed, the message is left out.
_NO_OID = {(6, 1): 98, (6, 8): 102, (6, 12): 103}
_NIST = "2.16.840.1.101.3.4.2"
_OIDS = {
    "sha3_256": f"{_NIST}.8",
    "sha3_384": f"{_NIST}.9",
    "sha3_512": f"{_NIST}.10",
    "md5": "1.2.840.113549.2.5",
}


def error_without_reason(node: Node, state: SignatureState) -> int:
    """The error of kernels before 5.4 for a signature: that of the check itself, without a line in the log.
    Distributions patched some of them to answer as newer ones."""
    node.cite("kernel/module.c", text="of a kernel before 5.4", confidence=Confidence.LIKELY)
    return ENOPKG if state is SignatureState.UNSUPPORTED else ENOKEY


def error_of_link(node: Node, path: str) -> int:
    """The error of a module file that is a link back to itself or to /dev/null; 0 for others."""
    try:
        return EINVAL if node.resolve(path) == "dev/null" else 0
    except EvidenceMissing as error:
        return ELOOP if is_loop(error.missing) else 0


def on_untested(node: Node, path: str) -> str:
    """The message about a signature's digest for which the kernel has no self-test; "" if it has one."""
    digest = if_missing("", untested_digest, node, path)
    tried = f"pkcs1pad(rsa,{digest}) (pkcs1pad(rsa-generic,{digest}))"
    return kernel.NO_SELF_TEST.say(algorithm=tried) if digest else ""


def on_taken_name(node: Node) -> list[str]:
    """The messages, beside a trace, where the RDMA stack makes a folder for a second client of a name."""
    prefix = "kobject: " if version(node) >= _KOBJECT_NAMED else ""
    return [
        kernel.TAKEN_FILE.say(path=f"{_PEERS}/{CLIENT}"),
        kernel.TAKEN_NAME.say(kobject=prefix, name=CLIENT),
        kernel.NOT_ADDED.say(kobject=prefix),
    ]


def on_unsupported(node: Node, path: str, fault: str) -> list[str]:
    """The messages for a signature of a kind that the kernel does not support."""
    if fault:
        return [kernel.NOT_PKCS7.say()]
    found = signature(node, path)
    oid = _OIDS.get(found.digest, "") if found is not None else ""
    lines = [kernel.UNKNOWN_OID.say(place=place, oid=oid) for place in digest_places(node, path)]
    number = _NO_OID.get(version(node))
    if number is None:
        node.cite("oid_registry.h", text="of another kernel", confidence=Confidence.LIKELY)
        return lines
    return [*lines, kernel.UNKNOWN_DIGEST.say(number=number)]


def on_problem(node: Node, module: str, problem: SymbolProblem) -> list[str]:
    """The messages for a symbol that cannot be resolved."""
    lines = []
    if problem.fault is SymbolFault.VERSION:
        lines.append(kernel.VERSION.say(module=module, symbol=problem.symbol))
    if problem.fault is SymbolFault.UNVERSIONED:
        lines.append(kernel.UNVERSIONED.say(module=module, symbol=problem.symbol))
    if problem.fault is SymbolFault.NAMESPACE:
        lines.append(kernel.NAMESPACE.say(module=module, symbol=problem.symbol, namespace=problem.namespace))
    if problem.fault is SymbolFault.PROPRIETARY:
        row = kernel.PROPRIETARY if version(node) >= _SYMBOL_NAMED else kernel.PROPRIETARY_UNNAMED
        lines.append(row.say(module=module, symbol=problem.symbol, owner=problem.owner))
    missing = kernel.NO_SYMBOL if version(node) >= _MISSING_IS_ENOENT else kernel.NO_SYMBOL_ONCE
    last = kernel.BAD_SYMBOL if problem.fault.errno == EINVAL else missing
    lines.append(last.say(module=module, symbol=problem.symbol))
    return lines


def on_inherited(node: Node, module: str, event: InheritedTaint) -> str:
    """The message for a module that inherits the taint of one that it uses."""
    row = kernel.INHERITED if version(node) >= _SYMBOL_NAMED else kernel.INHERITED_UNNAMED
    return row.say(module=module, symbol=event.symbol, owner=event.owner)


def on_flaw(node: Node, found: ModuleFlaw, name: str) -> str:
    """The message for a file that is not a valid module; "" if its wording is not known."""
    if found.kind in _HEADER and found.number >= 0 and version(node) < _INVALID_HEADER_IS_EXPLAINED:
        return kernel.ELF_INVALID.say() if version(node) >= _INVALID_HEADER_IS_LOGGED else ""
    say: Mapping[Corruption, Callable[[], str]] = {
        Corruption.SHORT: lambda: "" if found.number < 0 else kernel.ELF_LENGTH.say(size=found.number),
        Corruption.MAGIC: kernel.ELF_MAGIC.say,
        Corruption.TYPE: lambda: kernel.ELF_TYPE.say(found=found.number, wanted=1),
        Corruption.MACHINE: lambda: kernel.ELF_MACHINE.say(machine=found.number),
        Corruption.TABLE: kernel.ELF_TABLE.say,
        Corruption.NAMES: lambda: kernel.ELF_NAMES.say(
            found=found.number, index=found.number, count=found.limit
        ),
        Corruption.NO_MODULE: lambda: _no_module(node).say(
            module=canonical(name), how="Only" if version(node) < _EXACTLY else "Exactly"
        ),
        Corruption.NO_SYMBOLS: lambda: kernel.NO_SYMBOLS.say(module=canonical(name)),
    }
    return say[found.kind]() if found.kind in say else ""


def _no_module(node: Node) -> MessageTemplate:
    return kernel.NO_MODULE if version(node) < SIZE_IS_CHECKED else kernel.NOT_ONE_MODULE
