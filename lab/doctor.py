"""Compares `gdr doctor` live in a guest with `gdr doctor` on this machine, from the guest's bundle."""

from __future__ import annotations

import base64
import functools
import importlib.util
import json
import marshal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

import gdrkit
from lab.cache import LabError
from lab.kernels import Kernel
from lab.machine import Transcript
from lab.profiles import Profile
from lab.rdma import SETUP
from lab.rootfs import RDMA
from lab.session import boot

_LIBRARIES = ("msgspec", "rich", "cryptography", "cffi", "_cffi_backend", "backports.zstd")
_RUN = (
    "import sys; sys.path[:0] = ['/lab/gdr', '/lab/site']\n"
    "from gdrkit.cli import main; sys.exit(main({words!r}))"
)


class Verdicts(Struct, frozen=True):
    """The two reports on the same node."""

    live: dict[str, Any]
    bundle: dict[str, Any]
    archive: bytes  # the bundle itself


def verdicts(kernel: Kernel, profile: Profile) -> Verdicts:
    """Both reports of a guest with a software RDMA device and no GPU."""
    if kernel.flavour.architecture != "amd64" or sys.version_info[:2] != (3, 11):
        raise LabError("the guest uses this machine's compiled libraries: x86_64 and Python 3.11 only")
    setup = {"name": "setup", "argv": ["/bin/sh", "-c", SETUP], "seconds": 60}
    session = boot(
        kernel, profile, (), seed=0, packages=RDMA, scripts=[setup, *scripts()], files=gdrkit_files()
    )
    return reports(session.transcript)


def scripts() -> list[dict[str, Any]]:
    """What a guest runs for both reports, with `gdrkit_files()`."""
    return [
        {"name": "live", "argv": gdr("doctor", "--json"), "seconds": 240},
        {"name": "collect", "argv": gdr("collect", "-o", "/tmp/b.tar.gz", "--quiet"), "seconds": 240},
        {"name": "bundle", "argv": ["/bin/busybox", "base64", "/tmp/b.tar.gz"], "seconds": 60},
    ]


def reports(transcript: Transcript) -> Verdicts:
    """Both reports, of a guest that ran `scripts()`. Raises LabError where it printed none."""
    events = {event["name"]: event for event in transcript.of("script")}
    archive = base64.b64decode(events["bundle"]["stdout"])
    return Verdicts(_report(events["live"]), _from_bundle(archive), archive)


def gdr(*words: str) -> list[str]:
    """The command that runs gdrkit in a guest that has `gdrkit_files()`."""
    return ["/usr/bin/python3", "-S", "-E", "-c", _RUN.format(words=list(words))]


def _report(event: dict[str, Any]) -> dict[str, Any]:
    try:
        report: dict[str, Any] = json.loads(event["stdout"])
    except ValueError:
        raise LabError(f"{event['name']}: exit {event['exit_code']}\n{event['stderr']}") from None
    return report


def _from_bundle(bundle: bytes) -> dict[str, Any]:
    from tempfile import TemporaryDirectory

    import msgspec

    from gdrkit.diagnosis import diagnose
    from gdrkit.evidence.target import open_host

    with TemporaryDirectory(prefix="gdrkit-lab-") as scratch:
        path = Path(scratch, "bundle.tar.gz")
        path.write_bytes(bundle)
        report: dict[str, Any] = json.loads(msgspec.json.encode(diagnose(open_host(str(path)), "nccl")))
    return report


@functools.cache
def gdrkit_files() -> dict[str, bytes]:
    """gdrkit and the libraries it needs, as installed on this machine, with bytecode."""
    files = dict(_installed())
    return files | dict(_compiled(path, source) for path, source in files.items() if path.endswith(".py"))


def _compiled(path: str, source: bytes) -> tuple[str, bytes]:
    """A module's bytecode at the path where the guest's Python looks for it: compiling there takes minutes.

    Python does not check it against the source (PEP 552), since the archive does not keep the source's time.
    """
    code = compile(source, f"/{path}", "exec", dont_inherit=True)
    unchecked_hash = (1).to_bytes(4, "little")
    header = importlib.util.MAGIC_NUMBER + unchecked_hash + importlib.util.source_hash(source)
    return importlib.util.cache_from_source(path), header + marshal.dumps(code)


def _installed() -> Iterator[tuple[str, bytes]]:
    own = Path(gdrkit.__file__).parent
    for path in own.rglob("*.py"):
        yield f"lab/gdr/gdrkit/{path.relative_to(own)}", path.read_bytes()
    for name in _LIBRARIES:
        found = importlib.util.find_spec(name)
        if found is None or found.origin is None:
            raise LabError(f"{name} is not installed on this machine")
        origin = Path(found.origin)
        top = origin.parents[name.count(".") + 1] if origin.name == "__init__.py" else origin.parent
        files = origin.parent.rglob("*") if origin.name == "__init__.py" else (origin,)
        for path in files:
            if path.is_file() and "__pycache__" not in path.parts:
                yield f"lab/site/{path.relative_to(top)}", path.read_bytes()


def differences(both: Verdicts) -> tuple[str, ...]:
    """The differences between the two reports; the evidence may differ."""
    found = []
    for name in ("verdict", "consumers", "pairs", "plan"):
        if both.live[name] != both.bundle[name]:
            found.append(f"{name}: live {both.live[name]!r}, bundle {both.bundle[name]!r}")
    live, bundle = (
        {(row["code"], row["status"], row["subject"]) for row in report["findings"]}
        for report in (both.live, both.bundle)
    )
    found += [f"only live: {row}" for row in sorted(live - bundle)]
    found += [f"only from the bundle: {row}" for row in sorted(bundle - live)]
    return tuple(found)
