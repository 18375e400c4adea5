"""What the kernel says when it refuses a module: the lines for each reason. PURE."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gdrkit.evidence import Confidence
from gdrkit.facts.kernel import version
from gdrkit.facts.linkage import Fault, Problem
from gdrkit.facts.module_state import Corruption, Flaw
from gdrkit.facts.trust import State, digest_places, signature
from gdrkit.formats.module_name import canonical
from gdrkit.messages import kernel
from gdrkit.messages.errors import EINVAL
from gdrkit.node import Node

REFUSED = {
    State.UNSIGNED: kernel.UNSIGNED,
    State.UNKNOWN_KEY: kernel.UNKNOWN_KEY,
    State.UNSUPPORTED: kernel.UNSUPPORTED,
}

# Linux include/linux/oid_registry.h, OID__NR: what stands for "no such identifier". It grows; of kernels
# that are not listed the line is left out.
_NO_OID = {(6, 1): 98, (6, 8): 102, (6, 12): 103}
_NIST = "2.16.840.1.101.3.4.2"
_OIDS = {
    "sha3_256": f"{_NIST}.8",
    "sha3_384": f"{_NIST}.9",
    "sha3_512": f"{_NIST}.10",
    "md5": "1.2.840.113549.2.5",
}


def on_unsupported(node: Node, path: str, fault: str) -> list[str]:
    """The lines on a signature of a kind that the kernel does not know."""
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


def on_problem(module: str, problem: Problem) -> list[str]:
    """The lines on a symbol that the module will not get."""
    lines = []
    if problem.fault is Fault.VERSION:
        lines.append(kernel.VERSION.say(module=module, symbol=problem.symbol))
    if problem.fault is Fault.UNVERSIONED:
        lines.append(kernel.UNVERSIONED.say(module=module, symbol=problem.symbol))
    if problem.fault is Fault.NAMESPACE:
        lines.append(kernel.NAMESPACE.say(module=module, symbol=problem.symbol, namespace=problem.namespace))
    if problem.fault is Fault.PROPRIETARY:
        lines.append(kernel.PROPRIETARY.say(module=module, symbol=problem.symbol, owner=problem.owner))
    last = kernel.BAD_SYMBOL if problem.fault.errno == EINVAL else kernel.NO_SYMBOL
    lines.append(last.say(module=module, symbol=problem.symbol))
    return lines


def on_flaw(found: Flaw, name: str) -> str:
    """The line on a file that is no module; empty where its wording is not known."""
    say: Mapping[Corruption, Callable[[], str]] = {
        Corruption.SHORT: lambda: "" if found.number < 0 else kernel.ELF_LENGTH.say(size=found.number),
        Corruption.MAGIC: kernel.ELF_MAGIC.say,
        Corruption.TYPE: lambda: kernel.ELF_TYPE.say(found=found.number, wanted=1),
        Corruption.MACHINE: lambda: kernel.ELF_MACHINE.say(machine=found.number),
        Corruption.TABLE: kernel.ELF_TABLE.say,
        Corruption.NAMES: lambda: kernel.ELF_NAMES.say(
            found=found.number, index=found.number, count=found.limit
        ),
        Corruption.NO_MODULE: lambda: kernel.NO_MODULE.say(module=canonical(name)),
        Corruption.NO_SYMBOLS: lambda: kernel.NO_SYMBOLS.say(module=canonical(name)),
    }
    return say[found.kind]() if found.kind in say else ""
