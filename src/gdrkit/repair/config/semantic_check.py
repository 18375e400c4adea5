"""Faults that a schema does not find: valid keys with wrong meanings."""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from urllib.parse import unquote

from msgspec.structs import replace

from gdrkit.catalogue import every_consumer
from gdrkit.facts.assignments import is_filled_in
from gdrkit.facts.cable_halves import other_half
from gdrkit.facts.kubernetes import Manifest, boolean, settings_of
from gdrkit.facts.modules import PEERMEM
from gdrkit.facts.talos import modules_of
from gdrkit.formats.module_name import canonical
from gdrkit.formats.regex import regex
from gdrkit.formats.yaml_values import Scalar, Value, YamlMapping, at, items_at, scalars, text_at
from gdrkit.programs.nccl.distance_rules import NAME as GDR_LEVEL
from gdrkit.programs.nccl.settings import gdr_level
from gdrkit.programs.nccl.variables import VariableLife, is_ineffective, life_of, meant
from gdrkit.programs.setting_codes import codes_of, leaves_another_path
from gdrkit.repair.config.boot_check import MODPROBE, boot_faults, kind_of
from gdrkit.repair.config.fault import ConfigFault, fault_at, not_shown
from gdrkit.repair.config.job_scripts import GID_INDEX, HCA, address_faults
from gdrkit.repair.config.plugin_config import plugin_faults
from gdrkit.repair.config.pod_settings import runs_mpi
from gdrkit.rules.manifest_invalid import ROLE


def semantic_faults(manifest: Manifest, shown: Mapping[str, str]) -> Iterator[ConfigFault]:
    """The faults in the meaning of an object. `shown` has the variables whose values its file shows."""
    check = _checks().get(manifest.kind)
    if check is not None:
        yield from check(manifest)
    of_mpi = manifest.kind == "MPIJob" or any(runs_mpi(one.text) for one in scalars(manifest.value))
    for line, name, given, path in settings_of(manifest.value):
        yield from as_meant(setting_faults(line, name, given, path, shown), name, of_mpi=of_mpi)


def has_meaning(manifest: Manifest) -> bool:
    """Whether something of an object is checked here; of a ConfigMap, the files of parameters alone."""
    if manifest.kind == "ConfigMap":
        return any(True for _ in _parameter_files(manifest))
    return manifest.kind in _checks()


def _checks() -> dict[str, Callable[[Manifest], Iterator[ConfigFault]]]:
    return {
        "ClusterPolicy": _cluster_policy,
        "NVIDIADriver": lambda m: _driver(m, "spec"),
        "NicClusterPolicy": _nic_cluster_policy,
        "NicNodePolicy": plugin_faults,
        "MachineConfig": _machine_config,
        "Ignition": lambda m: _ignition(m.value, ""),
        "Butane": _butane,
        "MachineConfiguration": _talos,
        "KernelModuleConfig": _talos,
        "Talos schematic": _schematic,
        "ConfigMap": _config_map,
        "cloud-config": _cloud_config,
    }


# -- the operators -----------------------------------------------------------------------------------


def _cluster_policy(manifest: Manifest) -> Iterator[ConfigFault]:
    rdma = manifest.at("spec", "driver", "rdma")
    if boolean(manifest.at("spec", "driver", "useNvidiaDriverCRD")) and rdma is not None:
        seen = "ignored: useNvidiaDriverCRD is true"
        yield fault_at(
            rdma.line, "wrong-place", "spec.driver.rdma", seen, "the key at NVIDIADriver spec.rdma"
        )
    yield from _driver(manifest, "spec", "driver")


NIC_POLICY = "nic-cluster-policy"
"""The only name that the Network Operator acts on: pkg/consts, NicClusterPolicyResourceName; Reconcile()."""


def _nic_cluster_policy(manifest: Manifest) -> Iterator[ConfigFault]:
    """A name that the operator sets aside. A patch has none."""
    if manifest.name not in ("", NIC_POLICY):
        seen = f"{manifest.name}: the Network Operator ignores a policy of any other name"
        line = (manifest.at("metadata", "name") or manifest.value).line
        yield fault_at(line, "wrong-value", "metadata.name", seen, NIC_POLICY)
    yield from plugin_faults(manifest)


def _driver(manifest: Manifest, *prefix: str) -> Iterator[ConfigFault]:
    where = ".".join(prefix)
    old = manifest.at(*prefix, "useOpenKernelModules")
    if old is not None:
        path = f"{where}.useOpenKernelModules"
        yield fault_at(old.line, "not-honoured", path, "no longer read", "kernelModuleType: open", "warning")
    enabled = manifest.at(*prefix, "rdma", "enabled")
    precompiled = manifest.at(*prefix, "usePrecompiled")
    if boolean(enabled) and boolean(precompiled) and precompiled is not None:
        seen = "true with rdma.enabled: true; precompiled images contain a stub of nvidia-peermem"
        path = f"{where}.usePrecompiled"
        yield fault_at(precompiled.line, "stub", path, seen, "rdma.enabled: false (use dma-buf)", "warning")


def _config_map(manifest: Manifest) -> Iterator[ConfigFault]:
    """Lines of the GPU Operator's parameter files that are not NAME=VALUE; they have no `options`."""
    for line_number, name, text in _parameter_files(manifest):
        for line in text.splitlines():
            if line.strip() and not re.fullmatch(r"\s*[\w]+=\S+\s*", line):
                seen = line.strip()[:60]
                yield fault_at(line_number, "wrong-value", f"data.{name}", seen, "NAME=VALUE on each line")


def _parameter_files(manifest: Manifest) -> Iterator[tuple[int, str, str]]:
    """Line, name and content of the GPU Operator's files of module parameters."""
    files = manifest.at("data")
    for entry in files.entries if isinstance(files, YamlMapping) else ():
        if re.fullmatch(r"nvidia(-\w+)?\.conf", entry.key) and isinstance(entry.value, Scalar):
            yield entry.line, entry.key, entry.value.text


# -- Ignition and Butane -----------------------------------------------------------------------------


def _machine_config(manifest: Manifest) -> Iterator[ConfigFault]:
    labels = manifest.at("metadata", "labels")
    if not isinstance(labels, YamlMapping) or labels.entry(ROLE) is None:
        line = manifest.line if labels is None else labels.line
        yield fault_at(
            line,
            "missing-key",
            "metadata.labels",
            f"missing label {ROLE}",
            "the label: without it, no pool applies the object",
        )
    config = manifest.at("spec", "config")
    if config is not None:
        yield from _ignition(config, "spec.config.")


def _ignition(config: Value, prefix: str) -> Iterator[ConfigFault]:
    for number, file in enumerate(_files(config)):
        path = f"{prefix}storage.files.{number}"
        inline = at(file, "contents", "inline")
        if inline is not None:
            seen = "a Butane key, unknown to Ignition"
            expected = "contents.source with a data: URL (gdr config machineconfig)"
            yield fault_at(inline.line, "butane-in-ignition", f"{path}.contents.inline", seen, expected)
        source = at(file, "contents", "source")
        if isinstance(source, Scalar) and source.text and ":" not in source.text:
            where = f"{path}.contents.source"
            yield fault_at(source.line, "wrong-value", where, source.text[:40], "a URL: data:, https:, ...")
        yield from _mode(file, path)
        content = inline if isinstance(inline, Scalar) else source
        text = inline.text if isinstance(inline, Scalar) else _data(source)
        yield from _boot_file(file, content, text, path)


def _butane(manifest: Manifest) -> Iterator[ConfigFault]:
    for number, file in enumerate(_files(manifest.value)):
        path = f"storage.files.{number}"
        yield from _mode(file, path)
        given = [key for key in ("source", "inline", "local") if at(file, "contents", key) is not None]
        if len(given) > 1:
            seen = " and ".join(given)
            yield fault_at(
                file.line, "wrong-value", f"{path}.contents", seen, "one of source, inline, local"
            )
        text = text_at(file, "contents", "inline")
        yield from _boot_file(file, at(file, "contents", "inline"), text, path)


def _files(config: Value) -> tuple[Value, ...]:
    return items_at(config, "storage", "files")


def _mode(file: Value, path: str) -> Iterator[ConfigFault]:
    """A mode such as 644 is decimal, and so not the intended octal mode."""
    mode = at(file, "mode")
    if isinstance(mode, Scalar) and re.fullmatch(r"[1-7]?[0-7]{3}", mode.text) and mode.text != "420":
        seen = f"{mode.text} is decimal: 0{int(mode.text):o} in octal"
        expected = f"{int(mode.text, 8)}, which is 0{mode.text} in octal"
        yield fault_at(mode.line, "wrong-value", f"{path}.mode", seen, expected)


def _data(source: Value | None) -> str:
    """The text of a data: URL; "" for anything else. Source: RFC 2397."""
    found = re.match(r"data:([^,]*),(.*)", source.text, re.DOTALL) if isinstance(source, Scalar) else None
    if found is None:
        return ""
    if not found[1].endswith(";base64"):
        return unquote(found[2])
    try:
        return b64decode(found[2], validate=True).decode("utf-8", "replace")
    except (Error, ValueError):
        return ""


def _boot_file(file: Value, content: Value | None, text: str, path: str) -> Iterator[ConfigFault]:
    """The faults of a file for the boot of a host whose driver is in a container."""
    yield from _modules(file, text, path)
    yield from _modprobe(file, content, text, path)


def _modules(file: Value, text: str, path: str) -> Iterator[ConfigFault]:
    """NVIDIA modules in a host's modules-load.d: with the GPU Operator, the driver is in a container."""
    if "/modules-load.d/" not in text_at(file, "path"):
        return
    names = [canonical(line.strip()) for line in text.splitlines()]
    nvidia = [name for name in names if name.startswith("nvidia")]  # comments do not
    if nvidia:
        seen = f"loads {', '.join(nvidia)} on the host"
        expected = "the GPU Operator to load them: its driver is not in the host's /lib/modules"
        yield fault_at(file.line, "module-not-on-host", path, seen, expected, "warning")


def _modprobe(file: Value, content: Value | None, text: str, path: str) -> Iterator[ConfigFault]:
    """The faults of a file of modprobe.d that an object writes, at their own lines where it shows them."""
    if isinstance(content, Scalar) and kind_of(text_at(file, "path"), "") == MODPROBE:
        for fault in boot_faults(MODPROBE, text):
            line = content.line + fault.line if content.literal else content.line
            yield replace(fault, line=line, path=".".join(filter(None, (path, fault.path))))


# -- Talos -------------------------------------------------------------------------------------------


def _talos(manifest: Manifest) -> Iterator[ConfigFault]:
    line = dict(modules_of(manifest)).get(PEERMEM)
    if line:
        seen = "nvidia_peermem: always a stub on Talos; loading fails with invalid argument"
        path = "machine.kernel.modules" if manifest.kind == "MachineConfiguration" else "name"
        yield fault_at(line, "talos-no-peermem", path, seen, "no such entry (use dma-buf: gdr config talos)")


def _schematic(manifest: Manifest) -> Iterator[ConfigFault]:
    for item in items_at(manifest.value, "customization", "systemExtensions", "officialExtensions"):
        if isinstance(item, Scalar) and "nonfree-kmod-nvidia" in item.text:
            path = "customization.systemExtensions.officialExtensions"
            seen = f"{item.text}: the proprietary driver has no dma-buf, and Talos has no peermem"
            expected = "siderolabs/nvidia-open-gpu-kernel-modules-lts or -production"
            yield fault_at(item.line, "talos-no-path", path, seen, expected)


# -- cloud-init and environments ---------------------------------------------------------------------


def _cloud_config(manifest: Manifest) -> Iterator[ConfigFault]:
    for number, file in enumerate(items_at(manifest.value, "write_files")):
        path = f"write_files.{number}"
        if at(file, "path") is None:
            yield fault_at(file.line, "missing-key", path, "missing key: path", "a path")
        mode = at(file, "permissions")
        if isinstance(mode, Scalar) and not mode.quoted and mode.text.isdigit():
            seen = f"{mode.text} without quotation marks"
            where = f"{path}.permissions"
            yield fault_at(mode.line, "wrong-type", where, seen, f'a string: "{mode.text}"', "warning")
        yield from _modprobe(file, at(file, "content"), text_at(file, "content"), path)


def as_meant(found: Iterator[ConfigFault], name: str, *, of_mpi: bool) -> Iterator[ConfigFault]:
    """The faults of a variable. Of UCX, where MPI starts the job: Open MPI sends its own messages by UCX."""
    for fault in found:
        if of_mpi and name.startswith("UCX_") and fault.severity == "warning":
            fault = replace(fault, severity="note", expected="no setting, unless only MPI uses UCX")
        yield fault


NOTHING: Mapping[str, str] = MappingProxyType({})
NAMES_PATH = (HCA, GID_INDEX, "NVSHMEM_HCA_LIST", "UCX_NET_DEVICES")
"""Variables of which a wrong value names no device or no address; a script may compute them."""
TURNED = ("0", "1", "n")
"""Values that turn a switch of a program off, whichever way it is meant."""
_REFERENCE = regex(r"\$(?:(?P<name>\w+)|\((?P<round>\w+)\)|\{(?P<braced>\w+)(?::?-(?P<default>[^}]*))?\})")


def _filled_in(
    line: int, name: str, value: str, path: str, shown: Mapping[str, str]
) -> Iterator[ConfigFault]:
    """The faults of what a value is by the file, or by its own default; else that it is not known, for a
    variable that can turn something off."""
    refers = _REFERENCE.fullmatch(value)
    other = next(filter(None, refers.group("name", "round", "braced")), "") if refers else ""
    if other == name and name in shown:
        return  # judged where it has its value
    if given := shown.get(other) or (refers["default"] if refers else ""):
        yield from (
            replace(fault, seen=f"by default, {fault.seen}")
            for fault in setting_faults(line, name, given, path)
            if fault.severity != "note"
        )
    elif (path and name in NAMES_PATH) or any(
        fault.severity != "note" for one in TURNED for fault in setting_faults(line, name, one, path)
    ):
        yield not_shown(line, f"{path}.{name}".lstrip("."), other or value)


def setting_faults(
    line: int, name: str, value: str, path: str, shown: Mapping[str, str] = NOTHING
) -> Iterator[ConfigFault]:
    """The faults of a variable of a program: what NCCL ignores, and what turns RDMA or a direct path off.
    `shown` has the variables of the same file that a value may refer to."""
    where = f"{path}.{name}".lstrip(".")
    if is_filled_in(value):
        yield from _filled_in(line, name, value, path, shown)
        return
    if name == GDR_LEVEL:
        yield from gdr_level_faults(line, value, path)
        return
    if name == HCA and (other := _other_link(value)):
        seen = f"{value} names one PCIe link alone, of four lanes: on a DGX Spark that is half of a port"
        yield fault_at(
            line, "hca-not-selected", where, seen, f"{other} as well, if this is a Spark", "warning"
        )
    yield from address_faults(line, name, value, where, shown)
    if right := meant(name):
        yield fault_at(line, "unknown-key", where, "NCCL reads no variable of this name", right, "warning")
    if (life := life_of(name)) is not None:
        yield _life_fault(line, life, value, where)
    for code in codes_of(every_consumer(), name, value)[:1]:  # the others follow from the first
        if leaves_another_path(every_consumer(), name):
            expected = "no setting, unless another path is meant: nvidia_peermem, or a NIC, not NVLink"
            yield fault_at(line, code, where, f"{value} turns one path off", expected, "note")
        else:
            all_of_it = code == "ib-disabled-by-env" or name == HCA
            seen = f"{value} turns {'RDMA' if all_of_it else 'the direct path'} off"
            yield fault_at(line, code, where, seen, "no setting, unless this is meant", "warning")


def _other_link(value: str) -> str:
    """The other devices of a Spark's ports, of those of which a list names one alone; "" if it has other
    names."""
    names = [name.removeprefix("=").removesuffix(":1") for name in value.split(",")]
    others = [other_half(name) for name in names]
    return ",".join(other for other in others if other not in names) if all(others) else ""


def _life_fault(line: int, life: VariableLife, value: str, where: str) -> ConfigFault:
    """That some releases of NCCL do not read a variable, or its value; they print no line about it."""
    if life.until:
        seen = f"NCCL {life.until} and newer do not read it"
        if life.since:
            seen += f"; only {life.since} and newer before that did"
        return fault_at(line, "variable-removed", where, seen, life.instead or "no setting", "warning")
    if is_ineffective(life, value):
        expected = f"one of {', '.join(life.values)}"
        return fault_at(line, "value-ignored", where, f"{value!r} is not a value of it", expected, "warning")
    seen = f"NCCL before {life.since} ignores it" + (f"; {life.effect}" if life.effect else "")
    return fault_at(line, "variable-new", where, seen, f"NCCL {life.since} or newer", "note")


def gdr_level_faults(line: int, value: str, path: str) -> Iterator[ConfigFault]:
    """The fault of a value of NCCL_NET_GDR_LEVEL: a word that NCCL ignores, or a number."""
    resolved = gdr_level(value)
    where = f"{path}.NCCL_NET_GDR_LEVEL".lstrip(".")
    if resolved is None:
        seen = f"{value!r} is not a valid level; NCCL ignores it silently"
        yield fault_at(line, "gdr-level-ignored", where, seen, "LOC, PIX, PXB, PHB or SYS, or no setting")
    elif resolved == "LOC":
        seen = f"{value} turns the direct path off"
        yield fault_at(line, "gdr-level-too-low", where, seen, "no setting, unless this is meant", "warning")
    elif value[:1].isdigit():
        seen = (
            f"{value} means {resolved}; there is no level ALL"
            if resolved == "SYS"
            else f"{value} means {resolved}"
        )
        expected = "no setting: the default is right if GPU and NIC share a switch"
        yield fault_at(line, "gdr-level-number", where, seen, expected, "warning")
