"""Only these modules bind the libraries, and a compiler and a linker accept their prototypes."""

from __future__ import annotations

import ast
import ctypes
import functools
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import gdrkit
from gdrkit.agent.native import cuda, cuda_abi, verbs
from gdrkit.agent.native.library import complaint, load
from gdrkit.agent.native.verbs_abi import NUMBERS, STRUCTURES
from tests.system_programs import needs, program

SOURCE = Path(gdrkit.__file__).parent
HOME = SOURCE / "agent" / "native"
LOADERS = {"CDLL", "PyDLL", "LoadLibrary", "dlopen"}
OTHERS = {
    "agent/running/sockets.py": "this process's own setns",
    "agent/running/trace.py": "this process's own syscall",
    "transport/buffers.py": "DLPack's tensors and Python's own buffers",
    "transport/operation.py": "this process's own sched_yield",
    "transport/ring.py": "this process's own syscall",
    "transport/steps.py": "this process's own poll",
}
"""Modules that load other libraries, or define other structures, with ctypes."""
LAID_OUT = {"Structure", "CFUNCTYPE", "PYFUNCTYPE", "argtypes", "restype"}
NAMES = {name for name in vars(cuda_abi) if name.isupper()} | {
    *cuda_abi.DEVICE_ATTRIBUTES,
    *NUMBERS,
    *STRUCTURES,
    *(name.removeprefix("IBV_") for name in NUMBERS),
}


@functools.cache
def outside() -> dict[str, tuple[ast.AST, ...]]:
    """The modules that are not in the folder of the two, each as all nodes of its syntax tree."""
    paths = [path for path in sorted(SOURCE.rglob("*.py")) if HOME not in path.parents]
    return {
        path.relative_to(SOURCE).as_posix(): tuple(ast.walk(ast.parse(path.read_text("utf-8"))))
        for path in paths
    }


def words(nodes: Iterable[ast.AST]) -> set[str]:
    """Every name and attribute in a module."""
    return {
        node.id if isinstance(node, ast.Name) else node.attr
        for node in nodes
        if isinstance(node, ast.Name | ast.Attribute)
    }


def is_number(node: ast.AST | None) -> bool:
    """Whether this is a number, a text of digits, or a sum of them."""
    match node:
        case ast.Constant(value=value):
            return type(value) is int or (isinstance(value, str) and value.isdigit())
        case ast.BinOp(left=left, right=right):
            return is_number(left) and is_number(right)
    return False


def numbers_named(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The names that a number is assigned to, alone or in a tuple, and the dictionary keys of numbers."""
    for node in nodes:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else (node.target,):
                several = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
                names = target.elts if several else [target]
                values = node.value.elts if several else [node.value]
                pairs = zip(names, values, strict=False)
                yield from (n.id.lstrip("_") for n, v in pairs if isinstance(n, ast.Name) and is_number(v))
        elif isinstance(node, ast.Dict):
            for pair in zip(node.keys, node.values, strict=True):
                if any(is_number(side) for side in pair):
                    yield from (
                        s.value for s in pair if isinstance(s, ast.Constant) and str(s.value) == s.value
                    )


def test_no_other_module_loads_a_library_or_defines_structures():
    found = {name for name, nodes in outside().items() if words(nodes) & (LOADERS | LAID_OUT)}
    assert found == set(OTHERS)


def test_other_modules_load_neither_of_the_two():
    for name, nodes in outside().items():
        if name in OTHERS:
            texts = {n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)}
            assert not [text for text in texts if text.startswith(("libcuda", "libibverbs", "ibv_", "cuD"))]


def test_no_number_of_their_headers_is_defined_twice():
    for name, nodes in outside().items():
        again = {word for word in numbers_named(nodes) if word in NAMES}
        assert not again, name


@pytest.mark.parametrize(
    "code",
    [
        "DMA_BUF_SUPPORTED = 124",
        "_DMA_BUF_SUPPORTED: int = 124",
        "FIRST, DMA_BUF_SUPPORTED = 116, 124",
        "PCI_BUS_ID = '33'",
        "def f():\n    IBV_ACCESS_LOCAL_WRITE = 1 | 2",
        "TABLE = {124: 'DMA_BUF_SUPPORTED'}",
        "TABLE = {'DMA_BUF_SUPPORTED': 124}",
    ],
)
def test_a_second_definition_is_detected(code):
    assert NAMES & set(numbers_named(ast.walk(ast.parse(code))))


def test_the_first_available_library_is_loaded_with_typed_functions():
    prototypes = {"abs": (ctypes.c_int, (ctypes.c_int,)), "no_such_function": (None, ())}
    library, name = load(("libnobody.so.1", "libc.so.6", "libm.so.6"), prototypes, ctypes.CDLL)

    assert name == "libc.so.6"
    assert (library.abs.restype, library.abs.argtypes) == (ctypes.c_int, (ctypes.c_int,))
    with pytest.raises(AttributeError, match="no_such_function"):
        library.no_such_function  # noqa: B018


@pytest.mark.parametrize(("keep_lock", "kind"), [(False, ctypes.CDLL), (True, ctypes.PyDLL)])
def test_functions_of_libcuda_release_the_interpreters_lock_unless_it_is_kept(monkeypatch, keep_lock, kind):
    monkeypatch.setattr(cuda, "LIBRARIES", ("libc.so.6",))
    assert type(cuda.load(keep_lock)[0]) is kind
    assert type(cuda.load()[0]) is ctypes.CDLL


def test_bytes_that_a_field_is_too_short_for_are_cut():
    record = verbs.VerbsStruct("ibv_port_attr")
    record.put("lid", b"\1\2\3\4")
    assert record["lid"].to_bytes(2, sys.byteorder) == b"\1\2"
    offset, size = STRUCTURES["ibv_port_attr"][1]["lid"]
    assert ctypes.string_at(record.address + offset + size, 1) == b"\0"


def test_without_a_library_the_first_error_is_raised():
    with pytest.raises(OSError, match=r"libnobody\.so\.1") as refused:
        load(("libnobody.so.1", "libnobody.so.2"), {}, ctypes.CDLL)
    assert complaint(refused.value) == "libnobody.so.1: cannot open shared object file: not installed"


def test_a_libibverbs_without_a_required_function_is_an_error(monkeypatch):
    monkeypatch.setattr(verbs, "LIBRARY", "libc.so.6")
    with pytest.raises(AttributeError, match="ibv_get_device_list"):
        verbs.load()


def test_a_structure_reads_what_it_wrote_and_has_only_the_headers_fields():
    record = verbs.VerbsStruct("ibv_port_attr")
    record["lid"] = 0xABCD
    assert (record["lid"], record["state"]) == (0xABCD, 0)
    with pytest.raises(KeyError):
        record["no_such_field"]


COPY_2D = (
    "srcXInBytes", "srcY", "srcMemoryType", "srcHost", "srcDevice", "srcArray", "srcPitch",
    "dstXInBytes", "dstY", "dstMemoryType", "dstHost", "dstDevice", "dstArray", "dstPitch",
    "WidthInBytes", "Height",
)  # fmt: skip


@needs("cc")
def test_structures_passed_to_libcuda_have_the_headers_layout(tmp_path):
    """Compares the offset and size of each field of CUDA_MEMCPY2D_v2 with a compiler's."""
    (tmp_path / "copy.c").write_text(
        "#include <stddef.h>\n#include <stdio.h>\ntypedef struct {\n"
        "  size_t srcXInBytes, srcY; int srcMemoryType; const void *srcHost; unsigned long long srcDevice;\n"
        "  void *srcArray; size_t srcPitch; size_t dstXInBytes, dstY; int dstMemoryType; void *dstHost;\n"
        "  unsigned long long dstDevice; void *dstArray; size_t dstPitch; size_t WidthInBytes, Height;\n"
        '} copy;\n#define TELL(f) printf("%zu %zu\\n", offsetof(copy, f), sizeof(((copy *)0)->f))\n'
        f"int main(void) {{ {' '.join(f'TELL({name});' for name in COPY_2D)} return 0; }}\n"
    )
    subprocess.run([program("cc"), "-o", tmp_path / "copy", tmp_path / "copy.c"], check=True)
    told = subprocess.run([tmp_path / "copy"], capture_output=True, text=True, check=True).stdout

    copy, side = cuda.Copy2D, cuda.Copy2D._CopyEnd
    fields = [getattr(side, row[0]) for row in side._fields_]
    found = [(part.offset + f.offset, f.size) for part in (copy.source, copy.destination) for f in fields]
    found += [(field.offset, field.size) for field in (copy.width, copy.rows)]
    assert told.splitlines() == [f"{offset} {size}" for offset, size in found]
    assert ctypes.sizeof(cuda.IpcHandle) == 64  # CU_IPC_HANDLE_SIZE


def test_the_refusals_are_those_of_the_header():
    """cuda.h, CUresult: CUDA_ERROR_INVALID_VALUE = 1, CUDA_ERROR_OUT_OF_MEMORY = 2."""
    assert (cuda_abi.REFUSALS[1], cuda_abi.REFUSALS[2]) == ("INVALID_VALUE", "OUT_OF_MEMORY")
