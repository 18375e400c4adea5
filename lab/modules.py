"""Compiles the lab's modules against a kernel's headers, once, and caches the result."""

from __future__ import annotations

import os
import struct
from pathlib import Path

from lab.cache import LabError, command, digest, say
from lab.elf_edit import replace_once
from lab.kernels import Kernel
from lab.names import IDENTITIES, Name, fill, token
from lab.sources import SOURCES, Export, Source
from lab.toolchain import WORK, inside

ANSWER = 0x4C414221  # in a module's data; a variant replaces it by init's return value
_SPACE = (  # a namespace is a string since Linux 6.13
    "#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)",
    "#define SPACE(name) #name",
    "#else",
    "#define SPACE(name) name",
    "#endif",
)


def built(kernel: Kernel) -> dict[str, bytes]:
    """Every source's .ko, by the source's name, without debugging information."""
    home = kernel.home / f"modules-{digest(SOURCES, _texts(), *_cross(kernel))}"
    if not (home / "built").exists():
        _build(kernel, home)
        (home / "built").touch()
    files = {source.name: (home / f"{_object(source)}.ko").read_bytes() for source in SOURCES}
    return files | _same_prototypes(files, (home / "Module.symvers").read_text())


def _same_prototypes(files: dict[str, bytes], symvers: str) -> dict[str, bytes]:
    """Give exporters of one symbol with one prototype the same CRC. They differ only because the tokens
    do. A kernel without symbol versions has no CRCs.
    """
    crc = {line.split("\t")[1]: int(line.split("\t")[0], 16) for line in symvers.splitlines()}
    if not any(crc.values()):
        return {}
    tokens = _symbol_tokens()
    first: dict[tuple[str, str, str], int] = {}
    changed = {}
    for source in SOURCES:
        content = files[source.name]
        for export in source.exports:
            own = crc[tokens[source.name, export.symbol]]
            wanted = first.setdefault((export.symbol, export.arguments, export.result), own)
            content = replace_once(content, struct.pack("<I", own), struct.pack("<I", wanted))
        if content != files[source.name]:
            changed[source.name] = content
    return changed


def _object(source: Source) -> str:
    return token(Name("module", source.identity), _variant(source))


def _variant(source: Source) -> int:
    """The number of this build among the builds of the same module."""
    return [row.name for row in SOURCES if row.identity == source.identity].index(source.name)


def _symbol_tokens() -> dict[tuple[str, str], str]:
    """(source, symbol) -> token. Each exporter of a symbol gets its own letter, as modpost requires."""
    tokens: dict[tuple[str, str], str] = {}
    count: dict[str, int] = {}
    for source in SOURCES:
        for export in source.exports:
            number = count.get(export.symbol, 0)
            tokens[source.name, export.symbol] = token(Name("symbol", export.symbol), number)
            count[export.symbol] = number + 1
    return tokens


def _texts() -> dict[str, str]:
    return {_object(source): c_text(source) for source in SOURCES}


def c_text(source: Source) -> str:
    """The C source of one module."""
    tokens = _symbol_tokens()
    names = {name: token(name) for name in IDENTITIES}
    names[Name("module", source.identity)] = _object(source)
    exporters = {export.symbol: export for row in reversed(SOURCES) for export in row.exports}
    lines = ['#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt', "#include <linux/module.h>"]
    if source.namespaces or any(export.namespace for export in source.exports):
        lines += ["#include <linux/version.h>", *_SPACE]
    if source.vmlinux:
        lines += ["#include <linux/debugfs.h>", "#include <linux/err.h>"]
    lines += [f"static volatile int lab_answer = {ANSWER:#x};"]
    for kind, parameter in source.parameters:
        word = names[Name("parameter", parameter)]
        c_type = {"charp": "char *", "bool": "bool ", "uint": "unsigned int "}.get(kind, kind + " ")
        lines += [f"static {c_type}{word};", f"module_param({word}, {kind}, 0444);"]
    for symbol in (*source.calls, *source.weak):
        export = exporters.get(symbol, Export(symbol))
        weak = " __attribute__((weak))" if symbol in source.weak else ""
        lines += [f"extern {export.result} {names[Name('symbol', symbol)]}({export.arguments}){weak};"]
    lines += [fill(line, names) for line in source.head]
    lines += [
        line
        for export in source.exports
        for line in _export(export, tokens[source.name, export.symbol], names)
    ]
    lines += [fill(line, names) for line in source.extra]
    lines += [f"MODULE_IMPORT_NS(SPACE({names[Name('namespace', space)]}));" for space in source.namespaces]
    lines += [f"static int __init {source.entry}(void) {{", " int answer = lab_answer;"]
    lines += [f" {fill(source.init, names)}"] if source.init else []
    lines += [f" {statement}" for statement in source.vmlinux]
    for symbol in source.calls:
        export = exporters.get(symbol, Export(symbol))
        lines += [f" {names[Name('symbol', symbol)]}({_zeros(export.arguments)});"]
    for symbol in source.weak:
        word = names[Name("symbol", symbol)]
        lines += [f" if ({word}) {word}();"]
    lines += [" return answer;", "}", f"module_init({source.entry});"]
    if not any("module_exit" in line for line in source.extra):
        lines += ["static void __exit lab_exit(void) { }", "module_exit(lab_exit);"]
    lines += ['MODULE_LICENSE("GPL");', 'MODULE_DESCRIPTION("test module");', ""]
    return "\n".join(lines)


def _export(export: Export, word: str, names: dict[Name, str]) -> list[str]:
    declared = f"{export.result} {word}({export.arguments})"
    gpl = "_GPL" if export.gpl else ""
    if export.namespace:
        macro = f"EXPORT_SYMBOL_NS{gpl}({word}, SPACE({names[Name('namespace', export.namespace)]}));"
    else:
        macro = f"EXPORT_SYMBOL{gpl}({word});"
    return [f"{declared};", f"{declared} {{ {export.body} }}", macro]


def _zeros(arguments: str) -> str:
    return "" if arguments == "void" else ", ".join("0" for _ in arguments.split(","))


def _cross(kernel: Kernel) -> tuple[str, ...]:
    """Arguments for make. With the small code model gcc takes the address of a weak symbol from a table
    (GOT) that the kernel's module loader does not fill: arch/arm64/kernel/module.c.
    """
    if not kernel.cross:
        return ()
    return "ARCH=arm64", f"CROSS_COMPILE={kernel.cross}", "KCFLAGS=-mcmodel=large"


def _build(kernel: Kernel, home: Path) -> None:
    say(f"compiling {len(SOURCES)} modules for {kernel.release}")
    home.mkdir(parents=True, exist_ok=True)
    for name, text in _texts().items():
        (home / f"{name}.c").write_text(text)
    objects = " ".join(f"{_object(source)}.o" for source in SOURCES)
    (home / "Makefile").write_text(f"obj-m := {objects}\nccflags-y := -w\n")
    where = WORK if kernel.tools else home
    arguments = ["nice", "make", "-s", f"-j{os.cpu_count() or 1}", "-C", kernel.own_headers, f"M={where}"]
    arguments += ["KBUILD_MODPOST_WARN=1", "CONFIG_DEBUG_INFO_BTF_MODULES=", *_cross(kernel), "modules"]
    if kernel.tools is None:
        command(*arguments)
    else:
        inside(kernel.tools, home, *arguments)
    for source in SOURCES:
        module = home / f"{_object(source)}.ko"
        if not module.exists():
            raise LabError(f"kbuild did not make {module.name} for {source.name}")
        command(kernel.cross + "objcopy", "-g", module)
