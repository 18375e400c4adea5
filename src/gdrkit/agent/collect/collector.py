"""One collection from start to end. Commands start first and run while files are read."""

from __future__ import annotations

import os
import re
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO, List, NamedTuple, Optional, Sequence, Tuple

from ..probe.program import program
from . import identity, subprocesses
from .anonymize import Anonymizer
from .bundle import Bundle
from .module_collector import ModuleCollector
from .progress import CollectorProgress
from .redact import NEVER_OPENED
from .reductions import BY_NAME
from .source_rows import CommandSource
from .sources import COMMANDS, FILES, FOLDERS, LIBRARY_NOTES, NET, PROBES
from .tree import Tree
from .walker import Walker

PARALLEL_COMMANDS = 4

COMMANDS_LIMIT_S = 60.0
"""All commands and probes together: each may take no more than what is left of this. On a sound machine they
take 3 s."""


INTERFACES_LIMIT = 64
"""The most interfaces that commands are run for, each of which takes some milliseconds."""


class CollectOptions(NamedTuple):
    """The options of one collection."""

    root: str = "/"
    anonymize: bool = False
    modules: Tuple[str, ...] = ()
    probe: bool = True
    search_path: Optional[str] = None  # folders to search for commands, in tests


class CollectSummary(NamedTuple):
    """The result of one collection."""

    files: "dict[str, int]"  # status -> number
    commands: "dict[str, int]"
    denied: List[str]  # paths that root could read
    seconds: float


class Collection:
    """One collection. The constructor identifies the machine, `write` collects."""

    def __init__(self, options: CollectOptions, progress: CollectorProgress) -> None:
        self.options, self.progress = options, progress
        self.tree = Tree(options.root)
        self._started = time.monotonic()
        peek = self.tree.peek
        self.release = identity.release(peek) if options.root == "/" else _release_of(self.tree, peek)
        self.hostname = identity.hostname(peek)
        self.scope = identity.scope(peek, lambda path: os.path.lexists(self.tree.at(path)))
        self._interfaces = self._rdma_interfaces()
        self.anonymizer = self._anonymizer(peek) if options.anonymize else None
        name = self.hostname if self.anonymizer is None else self.anonymizer.hostname(self.hostname)
        safe = (
            "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in name).strip(".")
            or "node"
        )
        self.top = f"gdr-{safe}-{time.strftime('%Y-%m-%dT%H%M%SZ', time.gmtime())}"

    def _anonymizer(self, peek: identity.Peek) -> Anonymizer:
        environment = os.environ if self.options.root == "/" else {}
        keep = {
            name
            for folder in ("sys/class/net", "sys/class/infiniband", "sys/module")
            for name in self._in(folder)
        }
        anonymizer = Anonymizer(identity.names(peek, self._in("home"), environment), keep)
        for address in identity.addresses(peek, self._in):  # so that it knows them without separators too
            anonymizer.content(address)
        return anonymizer

    def _rdma_interfaces(self) -> List[str]:
        """The network interfaces of RDMA devices. A name is never an option of a command."""
        found = {
            net
            for device in self._in("sys/class/infiniband")
            for net in self._in(f"sys/class/infiniband/{device}/device/net")
        }
        return sorted(net for net in found if re.match(r"\w", net))[:INTERFACES_LIMIT]

    def _in(self, folder: str) -> List[str]:
        try:
            return self.tree.names(self.tree.resolve(folder))
        except OSError:
            return []

    # -- collecting ----------------------------------------------------------------------------------

    def write(self, stream: IO[bytes]) -> CollectSummary:
        """Write the bundle to a stream. Raises OSError if writing fails; errors while reading are
        recorded."""
        bundle = Bundle(stream, self.top, self.anonymizer)
        walker = Walker(self.tree, bundle, self.release)
        loading = ModuleCollector(walker, self.options.modules)
        with ThreadPoolExecutor(PARALLEL_COMMANDS) as pool, ThreadPoolExecutor(len(PROBES)) as probes:
            try:
                self._write_all(bundle, walker, loading, self._start(pool, probes))
            except BaseException:  # an interrupt: the pools wait for what runs and what waits to be run
                self._started = float("-inf")
                subprocesses.kill_all()
                raise
        if self.options.root == "/":
            self._run_replacements(bundle)
        for path, target in sorted(self.tree.links.items()):
            bundle.link(path, target)
        user = "root" if os.geteuid() == 0 else "other"
        bundle.close(scope=self.scope, user=user, kernel=self._named(self.release))
        self.tree.close()
        return self._summary(bundle)

    def _write_all(
        self, bundle: Bundle, walker: Walker, loading: ModuleCollector,
        running: "List[Tuple[CommandSource, Future[subprocesses.CommandResult]]]",
    ) -> None:  # fmt: skip
        self._files(walker)
        self.progress.stage("libraries")
        loading.libraries(self.progress.step)
        self.progress.stage("modules")
        loading.modules(self.progress.step)
        self.progress.stage("tables of symbols")
        loading.tables(self.progress.step)
        self.progress.stage("commands")
        for row, job in running:
            self.progress.step(" ".join(row.argv))
            self._command(bundle, row, job.result())

    def _named(self, text: str) -> str:
        return text if self.anonymizer is None else self.anonymizer.words(text)

    def _files(self, walker: Walker) -> None:
        self.progress.stage("files")
        for row in FILES:
            self.progress.step(row.pattern)
            walker.files(row)
        for row in LIBRARY_NOTES:
            walker.files(row)
        for folder in FOLDERS:
            self.progress.step(folder.path)
            if folder.path:
                walker.folder(folder)
            else:
                walker.listing("")
        walker.port_tables()

    # -- commands ----------------------------------------------------------------------------------

    def _start(
        self, pool: ThreadPoolExecutor, probes: ThreadPoolExecutor
    ) -> "List[Tuple[CommandSource, Future[subprocesses.CommandResult]]]":
        """Start every command and the probes at once, so that one that hangs does not delay the others.

        Starts none for a tree that is not this machine's root."""
        if self.options.root != "/":
            return []
        jobs = [(row, pool.submit(self._run, row, row.argv)) for row in self.commands()]
        for probe in PROBES:
            if probe.asks_driver and not self.options.probe:
                continue
            row = CommandSource(probe.argv, probe.why, timeout_s=probe.timeout_s)
            argv = (sys.executable or "python3", "-I", "-c", program(probe.script))
            jobs.append((row, probes.submit(self._run, row, argv)))
        return jobs

    def commands(self) -> List[CommandSource]:
        """The commands to run first; one that names an interface is there once for each."""
        return [
            row._replace(argv=tuple(net if word == NET else word for word in row.argv))
            for row in COMMANDS
            if not row.instead_of
            for net in (self._interfaces if NET in row.argv else [""])
        ]

    def _run(self, row: CommandSource, argv: Sequence[str]) -> subprocesses.CommandResult:
        left_s = self._started + COMMANDS_LIMIT_S - time.monotonic()
        if left_s <= 0:
            return subprocesses.CommandResult("timed-out", None, b"", "other commands took all the time")
        path = self.options.search_path
        return subprocesses.run(argv, min(row.timeout_s, left_s), row.limit_bytes, path)

    def _command(self, bundle: Bundle, row: CommandSource, result: subprocesses.CommandResult) -> None:
        file = {probe.argv: probe.file for probe in PROBES}.get(row.argv, row.file)
        if result.status in ("found", "truncated"):
            output = BY_NAME[row.reduce](result.output) if row.reduce else result.output
            bundle.file(file, output, int(time.time()), result.status, addresses=row.addresses)
        bundle.command(list(row.argv), file, result.status, result.exit_code, result.complaint)

    def _run_replacements(self, bundle: Bundle) -> None:
        """Run the commands that replace others whose output is missing or incomplete."""
        for row in COMMANDS:
            if row.instead_of and not bundle.begins_at_boot(row.instead_of):
                self.progress.step(" ".join(row.argv))
                self._command(bundle, row, self._run(row, row.argv))

    def _summary(self, bundle: Bundle) -> CollectSummary:
        files: "dict[str, int]" = {}
        for note in (*bundle.files.values(), *bundle.folders.values()):
            files[note["status"]] = files.get(note["status"], 0) + 1
        commands: "dict[str, int]" = {}
        for command in bundle.commands:
            commands[command["status"]] = commands.get(command["status"], 0) + 1
        notes = [*bundle.files.items(), *bundle.folders.items()]
        denied = sorted(
            path for path, note in notes if note["status"] == "denied" and note.get("why") != NEVER_OPENED
        )
        return CollectSummary(files, commands, denied, time.monotonic() - self._started)


def _release_of(tree: Tree, peek: identity.Peek) -> str:
    """The kernel release of a tree: that of its /proc, else the last one that has modules."""
    named = peek("proc/sys/kernel/osrelease").decode("utf-8", "replace").strip()
    if named:
        return named
    for folder in ("lib/modules", "usr/lib/modules"):
        try:
            names = tree.names(tree.resolve(folder))
        except OSError:
            continue
        if names:
            return names[-1]
    return "unknown"
