"""The registry of parsers: the functions that read what strangers wrote."""

from __future__ import annotations

import functools
import hashlib
import importlib
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tools.fuzz.corpus import Corpus
from tools.fuzz.target import Parser, Sample

MOST_SAMPLES, FEWEST_SAMPLES, FIRST_TRIED = 200, 5, 400
SMALL_BYTES = 1 << 12
"""Larger samples are used only for parsers that accept few smaller ones."""

Read = Callable[[bytes], object]

TEXTS = (
    "agent.collect.module_choice:dependencies", "agent.collect.module_choice:soft_dependencies",
    "agent.launch:is_destination", "agent.streams:visible", "agent.streams:visible_json",
    "explain.lines.blocks:command_of", "explain.lines.line:clean", "explain.lines.line:typed",
    "explain.lines.transcript:read", "explain.outputs.gpus:gpu_label",
    "fabric.ceilings.measured:sniff", "fabric.ceilings.nccl_diagnostics:parse_diagnostics",
    "fabric.ceilings.gpus:rates_of", "fabric.nccl.system:number",
    "fabric.nccl.system:bus_id", "fabric.topology.from_nccl_xml:speed_gt_per_s",
    "fabric.topology.from_nccl_log:topology", "fabric.topology.from_node:natural_sort_key",
    "facts.assignments:commands_of", "facts.assignments:settings_in", "facts.dynamic_debug:answer",
    "facts.driver:parse_banner", "formats.whole_number:integer", "facts.gpu_chips:by_device_id",
    "facts.install_command:effect", "facts.kernel:split_command_line", "facts.keyrings:parse",
    "facts.loaded_modules:parse", "facts.machine:colon_pairs", "facts.machine:one_line",
    "facts.modinfo_text:parse", "facts.module_arguments:split_arguments", "programs.nccl.log_lines:frame",
    "programs.nccl.log_lines:record", "programs.nccl.log_lines:given", "programs.nccl.log:parse",
    "facts.nvidia_smi:parse", "facts.nvidia_smi:pci_address", "facts.nvidia_smi:parse_topology",
    "facts.packages:parse_dkms_status", "facts.packages:parse_ofed_info", "facts.pci_registers:regions",
    "facts.pci_text:parse", "facts.pci_tree:parse", "programs.verbs.perftest_log:parse", "facts.probe:parse",
    "facts.probe:complaint", "fabric.topology.from_nccl_xml:pci_address",
    "facts.processors:parse_list", "facts.rdma:parse_state", "facts.rdma:parse_rate",
    "facts.symvers:has_peer_api", "facts.usage:parse_attachments", "facts.usage:parse_buffers",
    "facts.modprobe_config:directives", "facts.verbs_text:parse", "fleet.hostlist:expand",
    "fleet.launcher:hosts_in", "fleet.racks:parse_racks", "fleet.slurm:parse_addresses",
    "fleet.slurm:parse_states", "formats.dmon:parse_dmon", "formats.expectation:parse",
    "formats.lspci_tree:parse",
    "formats.module_name:canonical", "formats.nccl_dump:begins_dump", "formats.nccl_tests:parse_nccl_tests",
    "formats.perftest:parse_perftest",
    "formats.gpu_listing:numbered_gpu_in", "formats.gpu_listing:pci_gpu_in",
    "formats.gpu_listing:smi_gpu_in",
    "formats.grub_script:command_end", "formats.topo_matrix:parse",
    "formats.ucx_proto:read_tables", "formats.versions:numbers",
    "catalogue:match",
    "messages.errors:number_in", "messages.errors:causes", "programs.nccl.log_records:via",
    "programs.nccl.diagnostic_records:rank_set", "programs.ucx.domains:memory_domains",
    "repair.config.recognise:recognise",
)  # fmt: skip
"""Parsers of text. They document FormatError alone."""

BYTES = (
    "agent.collect.anonymize:is_binary", "agent.collect.kernel_arguments:arguments_in_log",
    "agent.collect.module_choice:declared",
    "agent.collect.module_files:split", "agent.collect.redact:without_secrets",
    "agent.collect.reductions:processors", "agent.collect.reductions:container",
    "agent.collect.reductions:trusted_keys", "agent.collect.reductions:mounts",
    "agent.collect.reductions:packages", "agent.collect.reductions:package_records",
    "agent.collect.reductions:libraries", "agent.collect.reductions:cards", "agent.probe.rm_probe:cards",
    "agent.running.libraries:mapped", "agent.running.processes:buffer_of",
    "agent.running.processes:mapped_devices", "agent.running.processes:shared_files",
    "agent.running.processes:switches",
    "evidence.bundle:complaint", "evidence.bundle:without_complaints",
    "fabric.topology.from_file:kind_of", "fabric.topology.from_file:read_topology",
    "formats.der:parse", "formats.hwloc_xml:parse",
    "formats.nccl_xml:parse", "formats.pci_config:answers", "formats.xml_text:parse",
)  # fmt: skip
"""Parsers of bytes. They document FormatError alone."""


def parsers(corpus: Corpus) -> list[Parser]:
    """Every parser, with the files of the corpus that it accepts."""
    from gdrkit.formats.errors import FormatError

    every: dict[str, Read] = {}
    for name in TEXTS:
        every[_named(name)] = functools.partial(_decoded, _function(name))
    for name in BYTES:
        every[_named(name)] = _function(name)
    found = [
        Parser(name, _Samples(corpus, read, FormatError), (FormatError,)) for name, read in every.items()
    ]
    for name, read, *documented in _others():
        errors = tuple(documented) or (FormatError,)
        found.append(Parser(name, _Samples(corpus, read, *errors), errors))
    return [*found, *_made()]


class _Samples(Sequence[Sample]):
    """The contents of a corpus that a parser accepts, chosen when they are asked for."""

    def __init__(self, corpus: Corpus, read: Read, *documented: type[Exception]) -> None:
        self.corpus, self.read, self.documented = corpus, read, documented

    @functools.cached_property
    def chosen(self) -> tuple[Sample, ...]:
        every = self.corpus.contents
        small = [content for content in every if len(content) <= SMALL_BYTES]
        for contents in (small[:: 1 + len(small) // FIRST_TRIED], small, every[len(small) :]):
            chosen = [content for content in contents if self._accepts(content)]
            if len(chosen) >= FEWEST_SAMPLES:
                break
        return tuple(Sample(content, self.read) for content in chosen[:MOST_SAMPLES] or small)

    def _accepts(self, content: bytes) -> bool:
        try:
            return bool(self.read(content))
        except Exception:  # an honest file that breaks a parser is found below, like any other
            return False

    def __getitem__(self, index: Any) -> Any:
        return self.chosen[index]

    def __len__(self) -> int:
        return len(self.chosen)


def _named(name: str) -> str:
    module, _, function = name.partition(":")
    return f"{module.replace('.', '/')}:{function}"


def _function(name: str) -> Callable[[Any], object]:
    module, _, function = name.partition(":")
    found: Callable[[Any], object] = getattr(importlib.import_module(f"gdrkit.{module}"), function)
    return lambda content: _whole(found(content))


def _decoded(read: Callable[[str], object], content: bytes) -> object:
    return read(content.decode("utf-8", "replace"))


def _whole(found: object) -> object:
    """An iterator's items, so that it does its work."""
    return list(found) if hasattr(found, "__next__") else found


# -- parsers that need more than one argument, or document other errors ------------------------------------


def _others() -> Iterable[tuple[Any, ...]]:
    from gdrkit.evidence import foreign, kernel_log, manifest, rdma_topo
    from gdrkit.evidence.archive import DamagedArchive
    from gdrkit.evidence.bug_report import open_bug_report
    from gdrkit.evidence.errors import TargetError
    from gdrkit.evidence.stream import StreamEnded
    from gdrkit.evidence.tarball import open_tarball
    from gdrkit.explain.explain import explain
    from gdrkit.explain.outputs.pasted_host import PastedHost
    from gdrkit.fabric.cost.config import parse_config
    from gdrkit.formats.compressed import decompress
    from gdrkit.formats.yaml_text import documents
    from gdrkit.repair.apply import journal
    from gdrkit.repair.apply.errors import ApplyError
    from gdrkit.repair.config.check import check
    from gdrkit.transport import protocol
    from gdrkit.transport.errors import TransportError
    from gdrkit.transport.proof.log import judge_log

    for path in (
        "proc/cmdline",
        "etc/default/grub",
        "etc/modprobe.d/x.conf",
        "etc/rc.local",
        "etc/nccl.conf",
        "sos_commands/kernel/dmesg",
        "boot/loader/entries/x",
    ):
        yield f"agent/collect/redact:{path}", functools.partial(_without_secrets, path)
    yield "evidence/manifest", manifest.parse, ValueError
    yield "evidence/foreign:parse_sos", foreign.parse_sos, ValueError
    yield "evidence/kernel_log", lambda data: list(kernel_log.as_lines(iter(data.split(b"\n"))))
    yield "evidence/rdma_topo", _of_stream(rdma_topo.open_rdma_topo), TargetError, StreamEnded
    yield "evidence/bug_report", _of_stream(open_bug_report), TargetError, StreamEnded
    yield "evidence/tarball", _of_stream(open_tarball), TargetError, StreamEnded, DamagedArchive
    yield "explain/explain", lambda data: explain(PastedHost(data)), TargetError
    yield "fabric/cost/config", lambda data: parse_config(data, "a model")
    yield "formats/compressed", lambda data: decompress(data, 1 << 20)
    yield "formats/shell_assignments", _assigned
    yield "formats/yaml_text", lambda data: [d.value for d in documents(data.decode("utf-8", "replace"))]
    yield "jobs/running", _running
    yield "jobs/line_counts", _tally
    yield "repair/apply/journal", journal.parse, ApplyError
    yield "repair/config/check", lambda data: check(data, "a file").lines()
    yield "transport/protocol", protocol.decode, TransportError
    yield (
        "transport/proof/log",
        lambda data: judge_log(data.decode("utf-8", "replace"), "a log"),
    )
    for name, read in _of_lines():
        yield name, functools.partial(_decoded, read)


def _without_secrets(path: str, data: bytes) -> object:
    from gdrkit.agent.collect.redact import without_secrets

    return without_secrets(data, path)


def _assigned(data: bytes) -> object:
    from gdrkit.formats.shell_assignments import assignments

    return assignments(data.decode("utf-8", "replace"), ("GRUB_CMDLINE_LINUX", "PATH", "A"), {})


def _running(data: bytes) -> object:
    """A record of running processes, judged and printed."""
    from gdrkit.formats import json_text
    from gdrkit.jobs.running.judge import document
    from gdrkit.jobs.running.record import decode
    from gdrkit.jobs.running.text import text

    found = document(decode(data))
    return json_text.encode(found), text(found), text(found, verbose=True)


def _of_lines() -> Iterable[tuple[str, Callable[[str], object]]]:
    """Parsers of text with another argument."""
    from gdrkit.facts import kernel_log, packages, peermem_container
    from gdrkit.programs import environment
    from gdrkit.programs.nccl import settings

    yield "programs/environment:parse_conf", lambda text: environment.parse_conf(text, "a file")
    yield "programs/environment:parse_ucx_conf", lambda text: environment.parse_ucx_conf(text, "a file")
    yield "programs/nccl/settings:selects", lambda text: settings.selects(text, "mlx5_0", 1)
    yield "facts/kernel_log:parse", lambda text: kernel_log.parse(text, "a log")
    yield "facts/peermem_container:parse", lambda text: list(peermem_container.parse(text, "a log"))
    yield "facts/packages:rpm", lambda text: packages.parse_packages(text, "rpm")
    yield "facts/packages:dpkg", lambda text: packages.parse_packages(text, "dpkg")


def _of_stream(read: Callable[[Any, str], Any]) -> Read:
    """A reader of an archive, as a function of its bytes; asks for each file that it then has."""
    from gdrkit.evidence import EvidenceMissing
    from gdrkit.evidence.stream import open_stream

    def whole(data: bytes) -> object:
        fd = os.memfd_create("fuzz")
        with os.fdopen(fd, "w+b") as file:
            file.write(data)
            file.seek(0)
            host = read(open_stream(file, "an archive"), "an archive")
        for path in list(getattr(host.store, "entries", ()))[:20]:
            for ask in (host.read, host.list, host.resolve, host.exists):
                try:
                    ask(path)
                except EvidenceMissing:
                    continue
        return host

    return whole


def _tally(data: bytes) -> object:
    from gdrkit.jobs.analyse import analyse
    from gdrkit.jobs.job import LogPosition
    from gdrkit.jobs.line_counts import Tally
    from gdrkit.jobs.runtime_prefixes import Unwrapper

    tally, wrapper = Tally(), Unwrapper(data[: 1 << 16])
    half = data.rfind(b"\n", 0, len(data) // 2 + 1) + 1
    tally.feed(wrapper.feed(data[:half]), 0)
    tally.feed(wrapper.feed(data[half:]), 0)
    return tally.units and analyse(tally, lambda number: LogPosition("a log", number))


# -- parsers whose samples are made, not found ------------------------------------------------------------


def _made() -> Iterable[Parser]:
    yield from _binary()
    yield from _of_transport()


def _binary() -> Iterable[Parser]:
    from tests.formats.test_efi_list import CERTIFICATE, HASHES, SHA256, X509, list_of
    from tests.formats.test_elf import MODULE
    from tests.formats.test_pci_config import space
    from tests.index_builder import of_dependencies
    from tests.module_builder import make_key, pkcs7, sign

    from gdrkit.formats import efi_list, kmod_index, module_signature, pci_config, x509
    from gdrkit.formats.errors import FormatError

    key = make_key("gdrkit fuzz key")
    certificate = x509.parse(key.certificate_der)
    lists = list_of(X509, CERTIFICATE) + list_of(SHA256, *HASHES)

    def read_signature(data: bytes) -> None:
        signature = module_signature.parse(data)
        module_signature.verify(signature, lambda name: hashlib.new(name, MODULE).digest(), certificate)

    def made(name: str, read: Read, *contents: bytes) -> Parser:
        return Parser(name, [Sample(content, read) for content in contents], (FormatError,))

    yield made("formats/elf", _read_module, sign(MODULE, key), *_modules())
    yield made(
        "formats/module_signature", read_signature, pkcs7(MODULE, key), pkcs7(MODULE, key, by_key_id=True)
    )
    modules = of_dependencies("extra/nvidia.ko:\nextra/nvidia-peermem.ko: extra/nvidia.ko\n")
    yield made("formats/kmod_index", lambda data: kmod_index.Index(data).search("nvidia_peermem"), modules)
    yield made("formats/x509", x509.parse, key.certificate_der)
    yield made("formats/efi_list", lambda data: efi_list.parse(data, attributes=False), lists)
    yield made(
        "formats/efi_list:variable", lambda d: efi_list.parse(d, attributes=True), b"\7\0\0\0" + lists
    )
    yield made(
        "formats/pci_config", pci_config.parse, space()[:0x200], space(port=4, seed=1)[:0x200], space()[:64]
    )


def _modules() -> tuple[bytes, ...]:
    from tests.formats.test_elf import with_symbols
    from tests.module_builder import build_module

    flagged = with_symbols(
        [
            ("__ksymtab_f", 3, 0, 0),
            ("__flags_f", 4, 0, 0),
            ("__crc_f", 0xFFF1, 9, 1),
            ("__export_symbol_g", 5, 0, 0),
        ],
        [
            ("__ksymtab", 1, 2, bytes(12), 0),
            ("__kflagstab", 1, 2, b"\1", 0),
            (".export_symbol", 1, 2, b"GPL\0\0", 0),
        ],
    )
    extended = build_module("m", imports={"a": 1, "b": 2}, exports={"c": 3}, extended_versions=True)
    library = with_symbols([("f", 3, 0, 1), ("g", 0, 0, 1)], [(".text", 1, 2, b"x", 0)], kind=3, table=11)
    return flagged, extended, library


def _read_module(data: bytes) -> None:
    """Read a module as doctor does: its signature, then everything else."""
    from tests.formats.test_elf import QUESTIONS

    from gdrkit.formats import elf, module_signature
    from gdrkit.formats.errors import FormatError

    size, trailer = module_signature.split(data)
    found = elf.parse(memoryview(data)[:size])
    questions = [functools.partial(getattr(found, question)) for question in QUESTIONS]
    if trailer is not None and trailer.pkcs7:
        questions.append(functools.partial(module_signature.parse, trailer.pkcs7))
    for question in questions:
        try:
            question()
        except FormatError:
            continue


def _of_transport() -> Iterable[Parser]:
    from gdrkit.transport import handshake, protocol
    from gdrkit.transport.errors import TransportError

    messages = (
        protocol.Hello("a", "b", "0000:1b:00.0", "mlx5_0", ("tcp", "shared"), True),
        protocol.Proposal("verbs", ("a",) * 6, (protocol.RdmaEnd(7, "0" * 32, 1, 3),)),
        protocol.Region(1, 4096, True, False, 1 << 40, 9), protocol.MemoryRequest(1, True, 2, 0, 8, True),
        protocol.RequestRefused(1, "no"), protocol.Bye(),
    )  # fmt: skip
    yield Parser(
        "transport/protocol:messages",
        [Sample(protocol.encode(message), protocol.decode) for message in messages],
        (TransportError,),
    )

    def steps(data: bytes) -> None:
        waiting = handshake.authentication(bytes(32), "listen")
        _, wanted = next(waiting)
        while data:
            _, wanted = waiting.send(data[:wanted].ljust(wanted, b"\0"))
            data = data[wanted:]

    greeting = handshake.MAGIC + bytes(handshake.NONCE_BYTES + handshake.PROOF_BYTES)
    yield Parser("transport/handshake", [Sample(greeting, steps)], (TransportError,))
