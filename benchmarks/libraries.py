"""What the programs' own libraries say of our catalogue of messages: a second source beside their code.

    pip download --no-deps nvidia-nvshmem-cu12 mooncake-transfer-engine nixl-cu12 nvidia-cuda-runtime-cu12
    # unpack them, and Debian's libucx0, libfabric1, ibverbs-utils, perftest, rdmacm-utils and what they
    # need (dpkg -x), into one folder; a libgdrapi.so.2 too, if there is one; and then
    GDRKIT_LIBRARIES=FOLDER uv run --no-sync python -m benchmarks.libraries

It asks two things. Which rows have a fixed part in a binary of that release: what is not there is of
another release, of a build with other options, or of Python. And what is printed by a start without a GPU
and without a NIC: each line that we predict for such a machine must be matched. Exit code 1 if one is not,
or if a program was not there to be asked.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from gdrkit import catalogue
from gdrkit.messages.message import MessageTemplate
from gdrkit.programs import proofs

BINARIES = {
    "nvshmem": r"nvshmem_transport_\w+\.so|libnvshmem_host\.so",
    "mooncake": r"mooncake/\w+\.so|mooncake/.*\.so",
    "nixl": r"nixl\w*/.*(?:_bindings|libplugin|libnixl|libucx_utils)[^/]*\.so",
    "ucx": r"(?:^|/)lib(?:ucp|uct|ucs|ucm)[\w.-]*\.so",
    "libfabric": r"(?:^|/)libfabric[\w.-]*\.so",
    "gdrcopy": r"(?:^|/)libgdrapi\.so",
}
"""The binaries of a program, by their path in a wheel or package."""

EXPECTED: dict[str, set[str]] = {
    "mooncake": {"rdma-transport-not-chosen", "no-rdma-device"},
    "libfabric": {"rdma-device-not-in-container"},
    "nixl": set(),
    "rdma tools": {"no-rdma-device"},
    "gdrcopy": {"gdrcopy-not-loaded"},
}
"""The likeliest causes of the lines of a start without GPU and NIC; none where nothing fails."""

_MOONCAKE = """
from mooncake import engine
made = engine.TransferEngine()
print("started", made.initialize("127.0.0.1:12345", "P2PHANDSHAKE", "rdma", ""))
"""
_NIXL = """
from nixl_cu12._api import nixl_agent, nixl_agent_config
print("started", nixl_agent("a", nixl_agent_config(backends=["UCX"])).name)
"""
_GDRCOPY = """
import ctypes
library = ctypes.CDLL({path!r})
library.gdr_open.restype = ctypes.c_void_p
print("opened", library.gdr_open() is not None)
"""
_LAZY = "import os, sys; sys.setdlopenflags(os.RTLD_LAZY | os.RTLD_LOCAL)\n"
_NO_CUDA = "int cuInit(unsigned flags) { return 100; }\nint cuDriverGetVersion(int *v) { return 100; }\n"
"""A libcuda that finds no device: CUDA_ERROR_NO_DEVICE."""


SHORTEST = 12
"""Characters of a fixed part that tell a message from others."""


def rows_of(program: str) -> tuple[MessageTemplate, ...]:
    """The rows of a program, failures and proofs."""
    return tuple(row for row in (*catalogue.every_message(), *proofs.ROWS) if row.program == program)


def fixed(row: MessageTemplate) -> list[str]:
    """The fixed parts of a template that tell it from others, the longest first; without an error's text."""
    parts = re.split(r"\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}", row.template)
    parts += [part.rpartition(": ")[0] for part in parts]
    return sorted((part for part in parts if len(part) >= SHORTEST), key=len, reverse=True)


def binaries(folder: Path, program: str) -> list[Path]:
    every = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return [path for path in every if re.search(BINARIES[program], str(path.relative_to(folder)))]


def release(path: Path, folder: Path) -> str:
    """The release of a wheel, or the name of the folder that packages were unpacked into."""
    top = path.relative_to(folder).parts[0]
    found = re.match(r"[A-Za-z]\w*-(\d[\w.]*)-", top)
    return found[1] if found else top


def found_in(paths: list[Path], rows: tuple[MessageTemplate, ...]) -> set[str]:
    """The templates of which a fixed part is in one of these files."""
    contents = [path.read_bytes() for path in paths]

    def is_there(row: MessageTemplate) -> bool:
        return any(part.encode() in data for part in fixed(row) for data in contents)

    return {row.template for row in rows if is_there(row)}


def started(program: str, folder: Path) -> str:
    """What a program prints when it starts here; "" if it is not in the folder."""
    with tempfile.TemporaryDirectory() as made:
        (Path(made) / "cuda.c").write_text(_NO_CUDA)
        stub = f"{made}/libcuda.so.1"
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", stub, f"{made}/cuda.c"], check=True
        )
        places = {str(path.parent) for path in folder.rglob("*.so*") if path.is_file()}
        env = {
            **os.environ,
            "LD_LIBRARY_PATH": ":".join([made, *sorted(places)]),
            "FI_LOG_LEVEL": "warn", "NIXL_LOG_LEVEL": "INFO", "GLOG_logtostderr": "1",
            "GDRCOPY_ENABLE_LOGGING": "1", "GDRCOPY_LOG_LEVEL": "1",
        }  # fmt: skip
        printed = ""
        for command in _commands(program, folder):
            done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
            printed += done.stdout + done.stderr
    return printed


def _commands(program: str, folder: Path) -> list[list[str]]:
    """How to start a program; none if it is not in the folder."""
    found = {path.name: str(path) for path in folder.rglob("*") if path.is_file()}
    if program == "libfabric":
        return [[found["fi_info"], "-p", "efa"]] if "fi_info" in found else []
    if program == "rdma tools":
        words = (["ibv_devinfo"], ["ib_write_bw"], ["rping", "-s", "-a", "127.0.0.1"])
        return [[found[name], *more] for name, *more in words if name in found]
    if program == "gdrcopy":
        code = (_GDRCOPY.format(path=found[name]) for name in found if name == "libgdrapi.so.2")
        return [[sys.executable, "-c", one] for one in code]
    if not binaries(folder, program):
        return []
    path = f"sys.path[:0] = {sorted(str(path) for path in folder.iterdir())!r}\n"
    return [[sys.executable, "-c", _LAZY + path + (_MOONCAKE if program == "mooncake" else _NIXL)]]


def matched(printed: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The lines that a row matches, and the codes of each."""
    for line in printed.splitlines():
        if (found := catalogue.match(line)) is not None:
            yield found.words, found.causes
        elif (proof := proofs.matcher().match(line)) is not None:
            yield proof.words, ()


def main() -> int:
    folder = Path(os.environ["GDRKIT_LIBRARIES"])
    print(f"{'program':<10} {'release':<16} {'rows':>5} {'in it':>6}  not in it, the first two")
    for program in BINARIES:
        paths, rows = binaries(folder, program), rows_of(program)
        if not paths:
            continue
        there = found_in(paths, rows)
        absent = [row.template for row in rows if row.template not in there]
        releases = ", ".join(sorted({release(path, folder) for path in paths}))
        print(f"{program:<10} {releases:<16} {len(rows):>5} {len(there):>6}  {'; '.join(absent[:2])[:60]}")
    kept = True
    for program, wanted in EXPECTED.items():
        print(f"\n{program}, started without a GPU and without a NIC")
        printed = started(program, folder)
        seen = dict(matched(printed))
        for words, codes in seen.items():
            print(f"  {words[:90]}{f' ({codes[0]})' if codes else ''}")
        causes = {code for some in seen.values() for code in some[:1]}
        lines = printed.splitlines() or ["it is not in the folder"]
        if not printed or "Traceback" in printed or "error while loading shared libraries" in printed:
            print(f"  it did not start: {lines[-1]}")
            kept = False
            continue
        print(f"  as predicted: {'yes' if causes == wanted else f'no: {causes} instead of {wanted}'}")
        kept = kept and causes == wanted
    return int(not kept)


if __name__ == "__main__":
    sys.exit(main())
