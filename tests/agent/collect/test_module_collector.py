"""Libraries in a bundle: their dynamic symbols, and the version of NCCL."""

from __future__ import annotations

import pytest

from tests.evidence_builder.library import shared_object

FOLDER = "usr/lib/x86_64-linux-gnu"
BANNER = b"NCCL version 2.28.3+cuda12.9 compiled with CUDA 12.9\0"


def test_the_symbols_of_a_library_are_kept_without_its_content(collected, root):
    root.file(
        f"{FOLDER}/libibverbs.so.1",
        shared_object("libibverbs.so.1", ["ibv_reg_dmabuf_mr"], data=b"code" * 50),
    )
    bundle = collected()
    kept = bundle.files[f"{FOLDER}/libibverbs.so.1"]
    assert bundle.status(f"{FOLDER}/libibverbs.so.1") == "reduced"
    assert b"ibv_reg_dmabuf_mr" in kept and b"codecode" not in kept


@pytest.mark.parametrize(("name", "kept"), [("libnccl.so.2", True), ("libnccl.so.2.28.3", False)])
def test_the_version_of_nccl_is_kept_where_the_name_of_the_file_lacks_it(collected, root, name, kept):
    root.file(f"{FOLDER}/{name}", shared_object("libnccl.so.2", ["ncclInit"], data=BANNER))
    if name != "libnccl.so.2":
        root.link(f"{FOLDER}/libnccl.so.2", name)
    assert (b"NCCL version 2.28.3+cuda12.9\0" in collected().files[f"{FOLDER}/{name}"]) is kept


def test_what_is_no_library_says_so(collected, root):
    root.file(f"{FOLDER}/libnccl.so.2", b"NCCL version 2.28.3" * 9)
    bundle = collected()
    assert bundle.status(f"{FOLDER}/libnccl.so.2") == "unreadable"
    assert f"{FOLDER}/libnccl.so.2" not in bundle.files
