"""Mutates valid files and reads them: modules, PKCS#7, certificates, EFI lists, configuration space.

    python -m tests.formats.fuzz --inputs 1000000 --seed 7

Prints inputs per second and the seed. A reader may answer or raise FormatError; an input that makes it do
anything else, or take longer than a second, is printed, and the exit status is 1. The seed says how files
are changed; the keys in them are made anew each time.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
import time
import traceback
from collections.abc import Callable
from typing import NamedTuple

from gdrkit.formats import efi_list, elf, module_signature, pci_config, x509
from gdrkit.formats.errors import FormatError
from tests.formats.test_efi_list import CERTIFICATE, HASHES, SHA256, X509, list_of
from tests.formats.test_elf import MODULE, QUESTIONS, with_symbols
from tests.formats.test_pci_config import space
from tests.module_builder import build_module, make_key, pkcs7, sign

SLOW_S = 1.0
EDGES = (
    0,
    1,
    2,
    3,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0x8000,
    0xFFFF,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
    (1 << 63),
    (1 << 64) - 1,
)


class Target(NamedTuple):
    """A reader and its inputs."""

    seeds: tuple[bytes, ...]
    read: Callable[[bytes], object]


def read_module(data: bytes) -> None:
    """Read a module as doctor does: its signature, then everything else."""
    size, trailer = module_signature.split(data)
    if trailer is not None and trailer.pkcs7:
        attempt(module_signature.parse, trailer.pkcs7)
    found = elf.parse(memoryview(data)[:size])
    for question in QUESTIONS:
        attempt(getattr(found, question))


def attempt(read: Callable[..., object], *arguments: object) -> None:
    try:
        read(*arguments)
    except FormatError:
        return


def targets() -> tuple[Target, ...]:
    key = make_key("gdrkit fuzz key")
    flagged = with_symbols(
        [
            ("__ksymtab_f", 3, 0, 0),
            ("__flags_f", 4, 0, 0),
            ("__crc_f", 0xFFF1, 9, 1),
            ("__export_symbol_g", 5, 0, 0),
        ],
        [
            ("__ksymtab", 1, 2, bytes(12), 0),
            ("__kflagstab", 1, 2, b"\1", 0),
            (".export_symbol", 1, 2, b"GPL\0\0", 0),
        ],
    )
    extended = build_module("m", imports={"a": 1, "b": 2}, exports={"c": 3}, extended_versions=True)
    library = with_symbols([("f", 3, 0, 1), ("g", 0, 0, 1)], [(".text", 1, 2, b"x", 0)], kind=3, table=11)
    message = pkcs7(MODULE, key)
    certificate = x509.parse(key.certificate_der)
    lists = list_of(X509, CERTIFICATE) + list_of(SHA256, *HASHES)

    def read_signature(data: bytes) -> None:
        signature = module_signature.parse(data)
        module_signature.verify(signature, lambda name: hashlib.new(name, MODULE).digest(), certificate)

    return (
        Target((sign(MODULE, key), flagged, extended, library), read_module),
        Target((message, pkcs7(MODULE, key, by_key_id=True)), read_signature),
        Target((key.certificate_der,), x509.parse),
        Target((lists,), lambda data: efi_list.parse(data, attributes=False)),
        Target((b"\7\0\0\0" + lists,), lambda data: efi_list.parse(data, attributes=True)),
        Target((space()[:0x200], space(port=4, seed=1)[:0x200], space()[:64]), pci_config.parse),
    )


def mutate(chance: random.Random, original: bytes) -> bytes:
    """Make a few random changes: bits, bytes, extreme integers, pieces moved, duplicated, cut."""
    data = bytearray(original)
    for _ in range(chance.choice((1, 1, 2, 3, 6))):
        if not data:
            break
        at = chance.randrange(len(data))
        kind = chance.randrange(8)
        if kind == 0:
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            data[at] = chance.randrange(256)
        elif kind in (2, 3, 4):  # headers and tables consist of aligned little-endian integers
            size = chance.choice((1, 2, 4, 8))
            at -= at % size
            value = chance.choice((*EDGES, len(data), chance.randrange(len(data)))) & (1 << 8 * size) - 1
            data[at : at + size] = value.to_bytes(size, chance.choice(("little", "little", "big")))
        elif kind == 5:
            del data[at : at + chance.choice((1, 4, 16, len(data)))]
        elif kind == 6:
            data[at:at] = data[at : at + chance.choice((1, 8, 64))]
        else:
            other = chance.randrange(len(data))
            size = chance.choice((1, 8, 24, 64))
            data[at : at + size] = data[other : other + size]
    return bytes(data)


def run(inputs: int, seed: int) -> int:
    """The number of inputs that failed; stops at ten."""
    every = targets()
    failures = 0
    started = time.perf_counter()
    for number in range(inputs):
        chance = random.Random(seed << 40 | number)
        target = every[number % len(every)]
        data = mutate(chance, chance.choice(target.seeds))
        began = time.perf_counter()
        try:
            target.read(data)
        except FormatError:
            pass
        except Exception:  # finding these is the purpose
            failures += 1
            print(f"input {number} of seed {seed}: {data.hex()}", file=sys.stderr)
            traceback.print_exc()
            if failures == 10:
                break
        if time.perf_counter() - began > SLOW_S:
            failures += 1
            print(f"input {number} of seed {seed} took too long: {data.hex()}", file=sys.stderr)
    seconds = time.perf_counter() - started
    print(f"{inputs} inputs, seed {seed}: {inputs / seconds:.0f} inputs per second, {failures} failures")
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(description="Feed broken files to the readers of gdrkit.formats.")
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument(
        "--seed", type=int, default=None, help="any number; by default another one each time"
    )
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(1 << 32)
    return 1 if run(arguments.inputs, seed) else 0


if __name__ == "__main__":
    sys.exit(main())
