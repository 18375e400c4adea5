"""Runs in the guest: `gdr collect`, in this process, once for every case.

Each case gets its own complete bundle. A cache makes hundreds of them affordable in an emulated machine:
four functions of the collector depend only on their arguments. Three run once for equal arguments. The
fourth, which reads long tables line by line, runs once for all lines of a table; for the first case it also
runs directly, and must give the same result. The probes run once, as this guest has none of the devices that
they ask. Files in a guest never hang, so they are read without the second thread that enforces a time limit.
"""

import io
import json
import sys
import tarfile

sys.path.insert(0, "/lab/collect.pyz")

from gdrkit.agent.collect import bundle, collector, module_collector, timeouts
from gdrkit.agent.collect.collector import Collection, CollectOptions
from gdrkit.agent.collect.progress import CollectorProgress


def key_of(argument):  # a digest of large tables takes a second in an emulated machine, comparing them not
    return frozenset(argument) if isinstance(argument, set) else argument


def remembered(function):
    answers = {}

    def ask(*arguments):
        key = tuple(map(key_of, arguments))
        if key not in answers:
            answers[key] = function(*arguments)
        return answers[key]

    return ask


class Everything:
    """A set that contains everything, and records what was looked up."""

    def __init__(self):
        self.looked_up = []

    def __contains__(self, name):
        self.looked_up.append(name)
        return True


class Table:
    """The lines of a symbol table, and the line numbers of each symbol."""

    def __init__(self, function, path, data, wanted):
        everything = Everything()
        self.lines = function(path, data, everything, wanted).splitlines(True)
        self.numbers, self.always = {}, []
        for number, name in enumerate(everything.looked_up):
            self.numbers.setdefault(name, []).append(number)
            if wanted.match(name):
                self.always.append(number)

    def about(self, symbols):
        chosen = set(self.always)
        for symbol in symbols:
            chosen.update(self.numbers.get(symbol, ()))
        return b"".join(self.lines[number] for number in sorted(chosen))


class Tables:
    """The collector's symbol_table(), with cached tables. Only lines about modules change."""

    def __init__(self, function):
        self.function, self.kept, self.checked = function, {}, set()

    def __call__(self, path, data, symbols, wanted):
        if symbols is None:  # a module could not be unpacked
            return self.function(path, data, symbols, wanted)
        end = data.find(b"\t[") if path.endswith("kallsyms") else -1
        end = data.rfind(b"\n", 0, end) + 1 if end >= 0 else len(data)
        head = data[:end]
        if path not in self.kept or self.kept[path][0] != head:
            self.kept[path] = head, Table(self.function, path, head, wanted)
        lines = self.kept[path][1].about(symbols) + self.function(path, data[end:], symbols, wanted)
        if path not in self.checked:
            self.checked.add(path)
            if lines != self.function(path, data, symbols, wanted):
                raise AssertionError("the cached symbol table gives other lines: " + path)
        return lines


class Programs:
    """The collector's subprocesses.run(). A probe of devices, which is a Python program, runs once."""

    def __init__(self, function):
        self.function, self.answers = function, {}

    def __call__(self, argv, *limits):
        if argv[0] != sys.executable:
            return self.function(argv, *limits)
        key = tuple(argv)
        if key not in self.answers:
            self.answers[key] = self.function(argv, *limits)
        return self.answers[key]


def at_once(self, function, *arguments):
    return function(*arguments)


timeouts.TimeLimitedCalls.call = at_once
bundle.COMPRESSION = 0  # the bundle is unpacked again at once
collector.program = remembered(collector.program)
collector.subprocesses.run = Programs(collector.subprocesses.run)
bundle.without_secrets = remembered(bundle.without_secrets)
module_collector.small = remembered(module_collector.small)
module_collector.symbol_table = Tables(module_collector.symbol_table)


def snapshot(keep, modules):
    """The bundle as a table: manifest, links by path, names of contents by path. `keep` names a content."""
    stream = io.BytesIO()
    Collection(
        CollectOptions("/", False, tuple(modules), False),
        CollectorProgress(sys.stderr, quiet=True, verbose=False),
    ).write(stream)
    stream.seek(0)
    contents, links = {}, {}
    with tarfile.open(fileobj=stream) as archive:
        for member in archive:
            path = member.name.partition("/")[2]
            if member.issym():
                links[path] = member.linkname
            elif path == "gdr_manifest.json":
                manifest = json.loads(archive.extractfile(member).read())
            elif member.isfile():
                contents[path] = keep(archive.extractfile(member).read())
    return {"manifest": manifest, "contents": contents, "links": links}
