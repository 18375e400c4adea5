"""What programs beside NCCL's collectives say on two GPUs without an RDMA device, held against gdr.

    PYTHONPATH=SITE:src:. python3 -m benchmarks.h200_consumers FOLDER [UCX]
    uv run --no-sync python -m benchmarks.h200_consumers --print FOLDER/consumers.json

It starts NVSHMEM and NCCL's GIN of PyTorch's wheels in two processes, asks cuFile and libgdrapi whether they
can be opened, and UCX what it sees of the GPUs, if UCX is a folder with an unpacked wheel libucx-cu13. Each
has a prediction, which was written before it ran. `gdr doctor` is asked twice: before, and while NVSHMEM
runs from an environment where no search for files finds it. FOLDER/consumers.json has all that was printed.
Exit code 1 if a prediction is wrong or could not be checked.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.libraries import matched

RANKS = 2
LIMIT_S = 45.0
"""For one program with all its processes."""
_MEETING = "CONSUMERS_MEETING"
_STAYS = "CONSUMERS_STAYS"
NVSHMEM, NCCL = "libnvshmem_host.so.3", "libnccl.so.2"


class Case(NamedTuple):
    """A program, what it is started with, and what is predicted of its output."""

    name: str
    settings: dict[str, str]
    predicted: str
    holds: Callable[[str], bool]


def says(code: str) -> Callable[[str], bool]:
    """Whether a line of the output has this cause."""
    return lambda output: any(code in codes for _, codes in matched(output))


def prints(*parts: str) -> Callable[[str], bool]:
    return lambda output: all(part in output for part in parts)


_NO_MULTICAST = {"NVSHMEM_DISABLE_NVLS": "1", "NCCL_NVLS_ENABLE": "0"}
"""These machines do not have it to lend."""
_NVSHMEM = {**_NO_MULTICAST, "NVSHMEM_DEBUG": "INFO", "NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME": "lo"}
CASES = (
    Case("ucx", {}, "it offers memory of CUDA as a dma-buf", lambda output: cuda_as_dmabuf(output)),
    Case("nvshmem", _NVSHMEM, "it starts: NVLink reaches both", prints("rank 0: 0", "rank 1: 0")),
    Case(
        "nvshmem",
        {**_NVSHMEM, "NVSHMEM_IB_ENABLE_IBGDA": "1"},
        "it starts without IBGDA: NVLink reaches both",
        prints("rank 0: 0", "rank 1: 0"),
    ),
    Case(
        "nvshmem",
        {**_NVSHMEM, "NVSHMEM_DISABLE_P2P": "1"},
        "no transport reaches the other GPU; up to 3.4.5 at least, the call returns 0 all the same",
        says("no-rdma-device"),
    ),
    Case(
        "gin",
        {**_NO_MULTICAST, "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET"},
        "it is not offered (gin-unavailable)",
        says("gin-unavailable"),
    ),
    Case(
        "cufile",
        {"allow_compat_mode": "false"},
        "without nvidia-fs and the compatibility mode it cannot be opened",
        lambda output: "opened: " in output and "opened: 0\n" not in output,
    ),
    Case("cufile", {"allow_compat_mode": "true"}, "it opens all the same", prints("opened: 0\n")),
    Case("gdrcopy", {}, "its library is not there", prints("cannot open shared object file")),
)


def cuda_as_dmabuf(output: str) -> bool:
    """Whether `ucx_info -d` lists dmabuf among what a memory domain does with CUDA's memory.

    #   memory types: host (access,reg,cache), cuda (access,alloc,reg,dmabuf,cache)

    Source: openucx/ucx src/tools/info/tl_info.c."""
    listed = (line for line in output.splitlines() if "memory types:" in line)
    return any("dmabuf" in line.partition(" cuda (")[2].partition(")")[0] for line in listed)


# -- the programs, each in a process of its own -------------------------------------------------------


def library(name: str) -> ctypes.CDLL:
    """A library of PyTorch's wheels, else one of the linker's. Raises OSError if there is none."""
    for folder in filter(None, sys.path):
        for path in Path(folder).glob(f"nvidia/*/lib/{name}"):
            return ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(name)


def _on_gpu(rank: int) -> None:
    """Make the context of a GPU current. Raises OSError."""
    cuda, context, device = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_int()
    for name, *arguments in (
        ("cuInit", 0),
        ("cuDeviceGet", ctypes.byref(device), rank),
        ("cuDevicePrimaryCtxRetain", ctypes.byref(context), device),
        ("cuCtxSetCurrent", context),
    ):
        if status := getattr(cuda, name)(*arguments):
            raise OSError(f"{name} returned {status}")


class _Identity(ctypes.Structure):
    """ncclUniqueId and nvshmemx_uniqueid_v1, both of 128 bytes."""

    _fields_ = (("content", ctypes.c_char * 128),)


class _Attributes(ctypes.Structure):
    """nvshmemx_init_attr_v1: NVIDIA/nvshmem src/include/device_host/nvshmem_types.h."""

    _fields_ = (
        ("version", ctypes.c_int), ("mpi", ctypes.c_void_p), ("args_version", ctypes.c_uint64),
        ("id_version", ctypes.c_uint64), ("id", ctypes.c_void_p), ("rank", ctypes.c_int),
        ("ranks", ctypes.c_int), ("rest", ctypes.c_char * 96),
    )  # fmt: skip


class _Requirements(ctypes.Structure):
    """ncclDevCommRequirements at v2.28.9-1: src/include/nccl_device/core.h."""

    _fields_ = (
        ("resources", ctypes.c_void_p), ("teams", ctypes.c_void_p), ("multimem", ctypes.c_bool),
        ("barriers", ctypes.c_int * 3), ("blocks", ctypes.c_int * 2), ("gin", ctypes.c_bool),
        ("counts", ctypes.c_int * 3),
    )  # fmt: skip


def identity(rank: int, name: str, make: str) -> _Identity:
    """What the processes of a program find each other by. The first one listens, so it makes it."""
    place = Path(os.environ[_MEETING])
    made = _Identity()
    if rank == 0:
        if name.startswith(
            "libnvshmem"
        ):  # NVSHMEMX_UNIQUEID_INITIALIZER: bootstrap_device_host/nvshmem_uniqueid.h
            ctypes.memmove(ctypes.byref(made), ((1 << 16) + 128).to_bytes(4, "little"), 4)
        getattr(library(name), make)(ctypes.byref(made))
        place.with_suffix(".part").write_bytes(bytes(made))
        place.with_suffix(".part").rename(place)
    deadline = time.monotonic() + LIMIT_S
    while not place.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    return _Identity.from_buffer_copy(place.read_bytes())


def nvshmem(rank: int) -> int:
    """Initialise NVSHMEM. Returns its status."""
    _on_gpu(rank)
    shared = identity(rank, NVSHMEM, "nvshmemx_get_uniqueid")
    given = _Attributes(version=(1 << 16) + 144, args_version=(1 << 16) + 128, id_version=(1 << 16) + 24)
    given.id, given.rank, given.ranks = ctypes.addressof(shared), rank, RANKS
    return int(library(NVSHMEM).nvshmemx_hostlib_init_attr(1 << 3, ctypes.byref(given)))


def gin(rank: int) -> int:
    """Ask NCCL for a device communicator with GIN. Returns its status."""
    _on_gpu(rank)
    nccl = library(NCCL)
    shared = identity(rank, NCCL, "ncclGetUniqueId")
    communicator = ctypes.c_void_p()
    nccl.ncclCommInitRank.argtypes = (ctypes.c_void_p, ctypes.c_int, _Identity, ctypes.c_int)
    status = nccl.ncclCommInitRank(ctypes.byref(communicator), RANKS, shared, rank)
    if status:
        return int(status)
    wanted, made = _Requirements(gin=True), ctypes.create_string_buffer(1 << 16)
    return int(nccl.ncclDevCommCreate(communicator, ctypes.byref(wanted), made))


class _Error(ctypes.Structure):
    """CUfileError_t: cufile.h of CUDA."""

    _fields_ = (("error", ctypes.c_int), ("cuda", ctypes.c_int))


def cufile(rank: int) -> int:
    """Open cuFile. Prints its error: 0, or a CUfileOpError of 5001 or more. Returns 0."""
    _on_gpu(rank)
    opener = library("libcufile.so.0").cuFileDriverOpen
    opener.restype = _Error
    print(f"opened: {opener().error}")
    log = Path(os.environ["CUFILE_LOGFILE_PATH"])
    print(log.read_text(errors="replace") if log.exists() else "no log")
    return 0


def gdrcopy(rank: int) -> int:
    """Open GDRCopy. Returns 0 if it can be."""
    opener = library("libgdrapi.so.2").gdr_open
    opener.restype = ctypes.c_void_p
    return int(opener() is None)


STARTED: dict[str, Callable[[int], int]] = {
    "nvshmem": nvshmem,
    "gin": gin,
    "cufile": cufile,
    "gdrcopy": gdrcopy,
}


def one_rank(name: str, rank: int) -> None:
    """The body of a process: say the status, and stay as long as it is asked to."""
    try:
        print(f"rank {rank}: {STARTED[name](rank)}", flush=True)
    except Exception as error:  # a program that is not there is an answer too
        print(f"rank {rank}: {type(error).__name__}: {error}", flush=True)
        os._exit(1)
    if os.environ.get(_STAYS):
        sys.stdin.read()
    sys.stdout.flush()
    os._exit(0)  # without the programs' own ends, which wait for each other


# -- from outside -------------------------------------------------------------------------------------


@contextlib.contextmanager
def running(case: Case, folder: Path, *, stays: bool = False) -> Iterator[list[Path]]:
    """The processes of a program; afterwards they have ended. Yields the files that they print to."""
    env = {**os.environ, **case.settings, "PYTHONUNBUFFERED": "1"}
    count = RANKS if case.name in ("nvshmem", "gin") else 1
    if case.name == "cufile":
        settings = folder / "cufile-settings.json"
        allow = case.settings["allow_compat_mode"]
        settings.write_text(
            f'{{"logging": {{"level": "DEBUG"}}, "properties": {{"allow_compat_mode": {allow}}}}}\n'
        )
        env |= {"CUFILE_ENV_PATH_JSON": str(settings), "CUFILE_LOGFILE_PATH": str(folder / "cufile.log")}
        (folder / "cufile.log").unlink(missing_ok=True)
    env[_MEETING] = str(folder / "identity")
    (folder / "identity").unlink(missing_ok=True)
    env |= {_STAYS: "1"} if stays else {}
    children, outputs = [], [folder / f"rank{rank}.txt" for rank in range(count)]
    for rank, path in enumerate(outputs):
        argv = [sys.executable, "-m", "benchmarks.h200_consumers", "--rank", case.name, str(rank)]
        with path.open("wb") as out:
            children.append(
                subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT)
            )
    try:
        yield outputs
        deadline = time.monotonic() + LIMIT_S
        for child in children:
            assert child.stdin
            child.stdin.close()
        for child in children:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(max(0.1, deadline - time.monotonic()))
    finally:
        for child in children:
            child.kill()
            child.wait()


def _output(argv: Sequence[str], env: dict[str, str] | None = None) -> str:
    try:
        done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{type(error).__name__}: {error}\n"
    return done.stdout + done.stderr


def run(case: Case, folder: Path, ucx: Path | None) -> str:
    """All that a program prints, of one rank after the other."""
    if case.name == "ucx":
        if ucx is None:
            return "no folder with UCX was given\n"
        found = next((path for path in ucx.rglob("ucx_info") if path.is_file()), ucx / "ucx_info")
        found.chmod(0o755) if found.exists() else None
        places = ":".join(sorted({str(path.parent) for path in ucx.rglob("*.so*")}))
        env = {**os.environ, "LD_LIBRARY_PATH": f"{places}:{os.environ.get('LD_LIBRARY_PATH', '')}"}
        env |= {"UCX_MODULE_DIR": str(found.parent.parent / "lib" / "ucx"), "UCX_LOG_LEVEL": "debug"}
        return _output([str(found), "-v"], env) + _output([str(found), "-d"], env)
    with running(case, folder) as outputs:
        pass
    return "".join(path.read_text(errors="replace") for path in outputs)


def gdr(*words: str) -> dict[str, Any]:
    """A document of gdr about this machine, or what it printed instead."""
    done = _output([sys.executable, "-m", "gdrkit", *words])
    try:
        found: dict[str, Any] = json.loads(done)
        return found
    except ValueError:
        return {"printed": done}


def while_it_runs(folder: Path) -> dict[str, Any]:
    """What gdr says while NVSHMEM runs from PyTorch's environment."""
    case = CASES[1]
    with running(case, folder, stays=True) as outputs:
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline and not all(b"rank " in path.read_bytes() for path in outputs):
            time.sleep(0.2)
        found = {
            "doctor": gdr("doctor", "--json"),
            "text": _output([sys.executable, "-m", "gdrkit", "doctor"]),
            "ps": gdr("ps", "--json"),
        }
    return found


def states(report: dict[str, Any]) -> Iterator[str]:
    """The state of each program in a report, and whether it is installed and runs: four lines at most."""
    alike: dict[str, list[str]] = {}
    for name, one in report.get("consumers", {}).items():
        marks = [word for word in ("installed", "running") if one.get(word)]
        alike.setdefault(", ".join([one["state"], *marks]), []).append(name)
    for words, names in alike.items():
        yield f"  {words}: {', '.join(names)}"


def table(document: dict[str, Any]) -> Iterator[str]:
    """What was predicted, what held, and the lines that our catalogue knows."""
    yield "gdr doctor, before"
    yield from states(document["every"])
    for result in document["results"]:
        given = {name: value for name, value in result["settings"].items() if name not in _NVSHMEM}
        words = " ".join([result["name"], *(f"{name}={value}" for name, value in given.items())])
        yield f"\n{words}"
        yield f"  {'as' if result['holds'] else 'NOT as'} predicted: {result['predicted']}"
        for line, codes in dict(matched(result["output"])).items():
            if codes:
                yield f"    {line[:70]} ({codes[0]})"
    yield "\ngdr doctor, while NVSHMEM runs"
    yield from states(document["while"]["doctor"])


def main() -> int:
    if sys.argv[1:2] == ["--rank"]:
        one_rank(sys.argv[2], int(sys.argv[3]))
    if sys.argv[1:2] == ["--print"]:
        print("\n".join(table(json.loads(Path(sys.argv[2]).read_text()))))
        return 0
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    ucx = Path(sys.argv[2]) if sys.argv[2:] else None
    every = gdr("doctor", "--json", "--consumer", "all")
    results = []
    for case in CASES:
        start = time.monotonic()
        output = run(case, folder, ucx)
        results.append(
            {
                "name": case.name,
                "settings": case.settings,
                "predicted": case.predicted,
                "holds": case.holds(output),
                "seconds": round(time.monotonic() - start, 1),
                "output": output,
            }
        )
    document = {
        "machine": " ".join(platform.uname()),
        "python": sys.version,
        "gpus": _output(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]),
        "every": every,
        "results": results,
        "while": while_it_runs(folder),
    }
    (folder / "consumers.json").write_text(json.dumps(document, indent=1))
    print("\n".join(table(document)))
    return int(not all(result["holds"] for result in results))


if __name__ == "__main__":
    sys.exit(main())
