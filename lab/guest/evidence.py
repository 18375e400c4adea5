"""Runs in the guest: `gdr collect`, in this process, once for every case.

Each case gets a whole bundle of its own. What makes hundreds of them bearable in an emulated machine is
memory: three functions of the collector that depend on their arguments alone are asked once for equal ones.
"""

import hashlib
import io
import json
import sys
import tarfile

sys.path.insert(0, "/lab/collect.pyz")

from gdrkit.collect import bundle, loading
from gdrkit.collect.collector import Collection, Options
from gdrkit.collect.progress import Progress


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


bundle.without_secrets = remembered(bundle.without_secrets)
loading.small = remembered(loading.small)
loading.symbol_table = remembered(loading.symbol_table)


def snapshot(keep, modules):
    """The bundle as a table: manifest, links by path, names of contents by path. `keep` names a content."""
    stream = io.BytesIO()
    Collection(
        Options("/", False, tuple(modules), False), Progress(sys.stderr, quiet=True, verbose=False)
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
