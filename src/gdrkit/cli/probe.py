"""`gdr probe`: the answers of the GPU and NIC drivers, each call with its return value."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from gdrkit.agent.native.cuda_abi import DEVICE_ATTRIBUTES, INVALID_VALUE, REFUSALS
from gdrkit.cli.arguments import Parser, text_width, write, write_lines
from gdrkit.cli.exit import OK, UNKNOWN
from gdrkit.formats.whole_number import whole_number

if TYPE_CHECKING:
    from gdrkit.evidence import EvidenceMissing
    from gdrkit.facts.probe import ProbeCall

PROBES = ("rm", "cuda", "memory", "verbs")

MARKED = {
    DEVICE_ATTRIBUTES[name]: name
    for name in (
        "INTEGRATED", "PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES",
        "GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED", "GPU_DIRECT_RDMA_SUPPORTED", "DMA_BUF_SUPPORTED",
        "HOST_ALLOC_DMA_BUF_SUPPORTED",
    )
}  # fmt: skip
"""The attributes that matter most, shown without -v."""

DECIDING = (
    "cuPointerGetAttribute", "cuMemGetHandleForAddressRange", "readlink", "ibv_reg_dmabuf_mr", "ibv_reg_mr",
    "ibv_query_port", "BAR1",
)  # fmt: skip
"""Other calls that are shown without -v."""

WIDE = 100
"""Columns from which the answers are in a column of their own."""
DMA_BUF = "/dmabuf:"
"""The name of a dma-buf's file in the kernel: drivers/dma-buf/dma-buf.c, dmabuffs_dname()."""


def parser() -> Parser:
    parser = Parser(
        "probe",
        "Ask the GPU's kernel module, libcuda and libibverbs what this machine supports. Child processes "
        "with a time limit make the calls, in parallel. They allocate and free 2 MiB on one GPU of each "
        "product, and change nothing.",
        "  gdr probe                the answers that matter most\n"
        "  gdr probe -v             every call\n"
        "  gdr probe rm             the kernel module only: no CUDA, no GPU memory\n"
        "  gdr probe cuda --json    the record, as stored in bundles\n\n"
        "rm: the object that NVIDIA's kernel module offers to third parties\n"
        "cuda: the attributes of every GPU\n"
        "memory: GPU memory exported as a dma-buf, and registered with every RDMA device\n"
        "verbs: RDMA devices, their ports and GIDs, registration of host memory\n\n"
        "exit codes: 0 at least one call succeeded, 3 none did",
    )
    parser.add_argument("what", nargs="?", choices=PROBES, help="one of the four probes (all)")
    parser.add_argument("-v", "--verbose", action="store_true", help="show every call")
    parser.output()
    parser.one_output("--json", "--verbose")
    return parser


def main(arguments: list[str]) -> int:
    options = parser().parse(arguments)
    from gdrkit.evidence import EvidenceMissing
    from gdrkit.facts.probe import parse
    from gdrkit.formats.errors import FormatError

    code = UNKNOWN
    for name, answer in _ask((options.what,) if options.what else PROBES).items():
        if isinstance(answer, EvidenceMissing):
            missing = answer.missing
            sys.stderr.write(f"gdr probe: {name}: {missing.why.value}: {missing.ask}\n")
            continue
        try:
            output = _as_text(name, answer, options.verbose)
            if any(call.result == 0 for call in parse(answer)):
                code = OK
        except FormatError as error:
            sys.stderr.write(f"gdr probe: {name}: {error}\n")
            continue
        if options.json or text_width() >= WIDE:
            write(answer if options.json else output)
        else:
            write_lines(output, hanging=17)
    return code


def _ask(names: tuple[str, ...]) -> dict[str, str | EvidenceMissing]:
    """Each probe's record, or the missing evidence. The probes run in parallel: cuInit alone takes a third
    of a second with one GPU, and two of them call it.
    """
    from gdrkit.evidence import EvidenceMissing
    from gdrkit.evidence.live import LiveHost
    from gdrkit.facts import commands

    host = LiveHost(probe=True)
    host.start_probes(names)
    table = {
        "rm": commands.PROBE_RM,
        "cuda": commands.PROBE_CUDA,
        "memory": commands.PROBE_MEMORY,
        "verbs": commands.PROBE_VERBS,
    }
    answers: dict[str, str | EvidenceMissing] = {}
    for name in names:
        try:
            answers[name] = host.run(table[name]).decode("utf-8", "replace")
        except EvidenceMissing as missing:
            answers[name] = missing
    return answers


def _as_text(name: str, text: str, verbose: bool) -> str:
    """One line per call. A call that failed shows its return value, never 0. Raises FormatError."""
    from gdrkit.facts.probe import complaint, parse

    calls = parse(text)
    shown = [call for call in calls if verbose or _decides(call)]
    column = 71 if text_width() >= WIDE else 0
    lines = [f"{call.subject or name:<14} {_what(call):<{column}} {_value(name, call)}" for call in shown]
    if not lines:
        failed = next((call for call in calls if call.result), None)
        reason = f"{_what(failed)}: {_value(name, failed)}" if failed else "nothing to probe"
        lines.append(f"{name:<14} {complaint(text) or reason}")
    if any(_is_object(call) and call.result == 0 for call in calls):
        from textwrap import wrap

        from gdrkit.facts.third_party import PROVES

        lines += [f"{'':<14} {line}" for line in wrap(f"ok [0] means: {PROVES}", 84)]
    return "\n".join(lines) + "\n"


def _value(name: str, call: ProbeCall) -> str:
    if call.result:
        return f"refused: {_number(name, call)} [{call.result}]"
    if call.call == "BAR1" and call.value is not None:
        return f"{call.value / (1 << 30):g} GiB"
    if call.call == "readlink":
        return f"{call.returned} [{'a dma-buf' if call.returned == DMA_BUF else 'not a dma-buf'}]"
    return f"{call.returned or 'ok'} [0]"


def _decides(call: ProbeCall) -> bool:
    if call.call == "cuDeviceGetAttribute":
        return whole_number(call.argument) in MARKED
    return call.call in DECIDING or _is_object(call)


def _is_object(call: ProbeCall) -> bool:
    return call.argument.startswith("NV50_THIRD_PARTY_P2P")


def _what(call: ProbeCall) -> str:
    number = whole_number(call.argument)
    marked = f" {MARKED[number]}" if call.call == "cuDeviceGetAttribute" and number in MARKED else ""
    return f"{call.call}({call.argument}{marked})"


def _number(name: str, call: ProbeCall) -> str:
    """The meaning of the return value of a failed call."""
    if call.call.startswith("ibv_") or call.call in ("open", "ioctl", "readlink"):
        from os import strerror

        return strerror(call.result) if call.result > 0 else "no errno"
    if name == "rm":
        from gdrkit.facts.third_party import STATUS

        return STATUS.get(call.result, "an NV_STATUS")
    if call.call == "cuDeviceGetAttribute" and call.result == INVALID_VALUE:
        return "unknown to this libcuda"
    if call.result == -1:  # the probe's own number
        return "not in this libcuda"
    return REFUSALS.get(call.result, "a CUresult")
