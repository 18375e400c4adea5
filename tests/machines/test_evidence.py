"""What is composed, held against the tools of others: modinfo, openssl, depmod, lspci, readelf."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from elftools.elf.elffile import ELFFile
from machines.cases import case
from machines.compose import compose, write
from machines.pci import real

from machines import install, loading, signing, stacks
from tests.system_programs import program

MACHINES = [made for number in range(12) if (made := case(21, number).healthy).platform != "WSL"][:8]


def modules(machine):
    return [module for module in install.files(machine) if not module.damage]


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_modinfo_reads_every_module(machine, tmp_path):
    modinfo = program("modinfo")
    for module in modules(machine):
        file = tmp_path / module.file
        file.write_bytes(stacks.image(module, machine.kernel))
        fields = subprocess.run([modinfo, file], capture_output=True, text=True, check=True).stdout
        assert f"depends:        {','.join(module.needs)}\n" in fields
        assert f"vermagic:       {machine.kernel.release} " in fields
        assert ("signer:" in fields) == bool(module.signer)


def test_openssl_verifies_a_signature(tmp_path):
    module = next(m for machine in MACHINES for m in modules(machine) if m.signer)
    kernel = next(machine.kernel for machine in MACHINES if module in modules(machine))
    content = stacks.image(module._replace(signer=""), kernel)
    key = signing.key(module.signer)
    Path(tmp_path, "certificate").write_bytes(key.certificate.public_bytes(Encoding.PEM))
    Path(tmp_path, "content").write_bytes(content)
    Path(tmp_path, "signature").write_bytes(key.signature(content))
    words = f"{program('openssl')} cms -verify -binary -inform DER -in signature -content content -nointern"
    words += " -certfile certificate"

    done = subprocess.run(
        [*words.split(), "-noverify", "-out", "/dev/null"], cwd=tmp_path, capture_output=True, check=False
    )

    assert done.returncode == 0, done.stderr


def test_readelf_finds_imports_and_checksums(tmp_path):
    machine = MACHINES[0]
    module = next(module for module in modules(machine) if module.name == "ib_uverbs")
    file = tmp_path / "module"
    file.write_bytes(stacks.image(module, machine.kernel))
    with file.open("rb") as opened:
        elf = ELFFile(opened)
        names = {
            symbol.name
            for symbol in elf.get_section_by_name(".symtab").iter_symbols()
            if symbol["st_shndx"] == "SHN_UNDEF"
        }
        size = elf.get_section_by_name("__versions").data_size

    assert {symbol for symbol, _, _ in module.imports} <= names
    assert size == 64 * (len(module.imports) + 1)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_the_truth_loads_what_depmod_lists(machine):
    """The order of dependencies in the truth is that of the real depmod."""
    table = compose(machine).files[f"lib/modules/{machine.kernel.release}/modules.dep"].decode()
    line = next((row for row in table.splitlines() if "nvidia-peermem.ko" in row.split(":")[0]), None)
    assert line is not None
    listed = {Path(word).name.split(".ko")[0].replace("-", "_") for word in line.split(":")[1].split()}
    winners = loading._winners(machine)

    assert set(loading._closure(winners, "nvidia_peermem")) - {"nvidia_peermem"} == listed


def test_lspci_reads_the_configuration_space(tmp_path):
    machine = MACHINES[0]
    tree = compose(machine)
    text = ""
    for function in real(machine):
        raw = tree.files[tree_path(tree, function.address)]
        text += (
            f"{function.address} x\n"
            + "".join(f"{at:02x}: {raw[at : at + 16].hex(' ')}\n" for at in range(0, 4096, 16))
            + "\n"
        )
    (tmp_path / "dump").write_text(text)

    shown = subprocess.run(
        [program("lspci"), "-vvv", "-F", tmp_path / "dump"], capture_output=True, text=True, check=True
    ).stdout

    assert shown.count("LnkSta:") == len(real(machine))


def tree_path(tree, address):
    return next(path for path in tree.files if path.endswith(f"{address}/config"))


def test_the_folder_is_a_bundle(tmp_path):
    folder = write(MACHINES[0], tmp_path)

    assert (folder / "gdr_manifest.json").exists()
    assert (folder / "sys/class/infiniband").is_dir()
