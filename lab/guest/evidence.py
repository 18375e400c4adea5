"""Runs in the guest: `gdr collect`, in this process, once for every case.

Each case gets a whole bundle of its own. What makes hundreds of them bearable in an emulated machine is
memory: three functions of the collector depend on their arguments alone. Two are asked once for equal
arguments; the third, which goes through long tables line by line, is asked once for all lines of a table.
For the first case it is asked outright, too, and must say the same. Nothing hangs in a guest, so files are
read without the second thread that would give up on one.
"""

import hashlib
import io
import json
import sys
import tarfile

sys.path.insert(0, "/lab/collect.pyz")

from gdrkit.agent.collect import bundle, module_collector, timeouts
from gdrkit.agent.collect.collector import Collection, CollectOptions
from gdrkit.agent.collect.progress import Progress


def key_of(argument):
    if isinstance(argument, bytes):
        return hashlib.sha256(argument).digest()
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
    """A set that holds whatever it is asked about, and remembers that."""

    def __init__(self):
        self.asked = []

    def __contains__(self, name):
        self.asked.append(name)
        return True


class Table:
    """The lines of a table of symbols, and where each symbol stands in it."""

    def __init__(self, function, path, data, wanted):
        everything = Everything()
        self.lines = function(path, data, everything, wanted).splitlines(True)
        self.places, self.always = {}, []
        for place, name in enumerate(everything.asked):
            self.places.setdefault(name, []).append(place)
            if wanted.match(name):
                self.always.append(place)

    def about(self, symbols):
        chosen = set(self.always)
        for symbol in symbols:
            chosen.update(self.places.get(symbol, ()))
        return b"".join(self.lines[place] for place in sorted(chosen))


class Tables:
    """The collector's symbol_table(), by tables that are kept. Only lines about modules change."""

    def __init__(self, function):
        self.function, self.kept, self.checked = function, {}, set()

    def __call__(self, path, data, symbols, wanted):
        if symbols is None:  # a module that cannot be unpacked here
            return self.function(path, data, symbols, wanted)
        end = data.find(b"\t[") if path.endswith("kallsyms") else -1
        end = data.rfind(b"\n", 0, end) + 1 if end >= 0 else len(data)
        key = path, key_of(data[:end])
        if key not in self.kept:
            self.kept[key] = Table(self.function, path, data[:end], wanted)
        lines = self.kept[key].about(symbols) + self.function(path, data[end:], symbols, wanted)
        if path not in self.checked:
            self.checked.add(path)
            if lines != self.function(path, data, symbols, wanted):
                raise AssertionError("a table of symbols was cut in another way: " + path)
        return lines


def at_once(self, function, *arguments):
    return function(*arguments)


timeouts.Patience.call = at_once
bundle.COMPRESSION = 0  # unpacked again at once
bundle.without_secrets = remembered(bundle.without_secrets)
module_collector.small = remembered(module_collector.small)
module_collector.symbol_table = Tables(module_collector.symbol_table)


def snapshot(keep, modules):
    """The bundle as a table: manifest, links by path, names of contents by path. `keep` names a content."""
    stream = io.BytesIO()
    Collection(
        CollectOptions("/", False, tuple(modules), False), Progress(sys.stderr, quiet=True, verbose=False)
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
