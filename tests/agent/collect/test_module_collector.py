"""Modules and libraries in a bundle: which are kept, their symbols, and the version of NCCL."""

from __future__ import annotations

import io
import os

import pytest

from gdrkit.agent.collect.bundle import Bundle
from gdrkit.agent.collect.module_collector import ModuleCollector
from gdrkit.agent.collect.tree import Tree
from gdrkit.agent.collect.walker import Walker
from tests.evidence_builder.library import shared_object

FOLDER = "usr/lib/x86_64-linux-gnu"
BANNER = b"NCCL version 2.28.3+cuda12.9 compiled with CUDA 12.9\0"


def test_the_symbols_of_a_library_are_kept_without_its_content(collected, root):
    root.file(
        f"{FOLDER}/libibverbs.so.1",
        shared_object("libibverbs.so.1", ["ibv_reg_dmabuf_mr"], data=b"code" * 50),
    )
    provider = f"{FOLDER}/libibverbs/libefa-rdmav34.so"
    root.file(provider, shared_object("libefa-rdmav34.so", ["efa_reg_dmabuf_mr"], data=b"code" * 50))
    bundle = collected()
    assert b"efa_reg_dmabuf_mr" in bundle.files[provider] and b"codecode" not in bundle.files[provider]
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


def test_modules_out_of_the_kernels_tree_are_kept_if_they_are_loaded_and_64_at_most(tmp_path):
    folder = tmp_path / "lib/modules/6.1/extra"
    folder.mkdir(parents=True)
    rows = [f"m{number:02} 1 0 - Live 0x0 (OE)" for number in range(66)]
    rows += ["intree 1 0 - Live 0x0", "forced 1 0 - Live 0x0 (F)", "odd 1 0 - Live OOO", ""]
    for name in (*(f"m{number:02}" for number in range(66)), "intree", "forced", "odd", "unloaded"):
        (folder / f"{name}.ko").write_text("no ELF")
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/modules").write_text("\n".join(rows))
    found = Walker(Tree(str(tmp_path)), Bundle(io.BytesIO(), "top", None), "6.1")
    ModuleCollector(found, ["un*"]).modules(lambda text: None)
    names = sorted(path.rpartition("/")[2] for path in found.bundle.files if path.endswith(".ko"))
    assert names == [*(f"m{number:02}.ko" for number in range(64)), "unloaded.ko"]


def test_folders_of_headers_and_sources_are_not_entered(tmp_path):
    for place in ("build", "extra", "extra/source", "extra/deep"):
        folder = tmp_path / "lib/modules/6.1" / place
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "nvidia.ko").write_text("no ELF")
    found = Walker(Tree(str(tmp_path)), Bundle(io.BytesIO(), "top", None), "6.1")
    ModuleCollector(found, []).modules(lambda text: None)
    kept = [path.partition("6.1/")[2] for path in found.bundle.files if path.endswith(".ko")]
    assert sorted(kept) == ["extra/deep/nvidia.ko", "extra/nvidia.ko"]


def test_a_module_that_is_too_large_or_cannot_be_read_is_recorded(tmp_path, monkeypatch):
    folder = tmp_path / "lib/modules/6.1/extra"
    folder.mkdir(parents=True)
    (folder / "nvidia.ko").write_bytes(b"x" * 200)
    (folder / "mlx5_core.ko").mkdir()
    os.mkfifo(folder / "mlx5_ib.ko")
    monkeypatch.setattr("gdrkit.agent.collect.module_collector.FILE_LIMIT_BYTES", 199)
    monkeypatch.setattr("gdrkit.agent.collect.module_collector.BROKEN_LIMIT_BYTES", 10)
    found = Walker(Tree(str(tmp_path)), Bundle(io.BytesIO(), "top", None), "6.1")
    shown: list[str] = []
    ModuleCollector(found, []).modules(shown.append)
    notes = {path.rpartition("/")[2]: note for path, note in found.bundle.files.items() if ".ko" in path}
    assert notes == {
        "nvidia.ko": {"status": "truncated", "why": "too large", "size": 200},
        "mlx5_core.ko": {"status": "unreadable", "why": "Is a directory"},
        "mlx5_ib.ko": {"status": "unreadable", "why": "not a regular file"},
    }  # fmt: skip
    assert shown == ["mlx5_core.ko", "mlx5_ib.ko", "nvidia.ko"]


def test_libraries_are_searched_where_the_environment_says_and_the_path_is_absolute(tmp_path, monkeypatch):
    monkeypatch.setattr("gdrkit.agent.collect.module_collector.LIBRARY_FOLDERS", ())
    (tmp_path / "libcuda.so.1").write_text("no ELF")
    monkeypatch.setenv("LD_LIBRARY_PATH", f"nowhere:{tmp_path}/:")
    for root, folders in (("/", {str(tmp_path)[1:]}), (str(tmp_path), set())):
        found = Walker(Tree(root), Bundle(io.BytesIO(), "top", None), "6.1")
        ModuleCollector(found, []).libraries(lambda text: None)
        assert {path.rpartition("/")[0] for path in found.bundle.files} == folders
        if folders:
            notes = {path.rpartition("/")[2]: note for path, note in found.bundle.files.items()}
            assert notes["libcuda.so.1"] == {"status": "unreadable", "why": "not a valid ELF file"}
            assert notes["libnccl.so.2"] == {"status": "absent"}
