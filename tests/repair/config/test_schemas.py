"""The outputs of `gdr config` fit the schemas of their readers.

The schemas in src/gdrkit/repair/config/schemas are written for this project, reduced to what affects
GPUDirect RDMA. The published ones are in the folder schemas beside this file.
"""

from __future__ import annotations

import copy
import re
from typing import Any

import jsonschema
import pytest
import yaml

from gdrkit.formats.yaml_values import Scalar, YamlSequence
from gdrkit.repair.config.output import rendered
from gdrkit.repair.config.schema_check import BY_KIND, faults, schema
from tests.repair.config.outputs import OUTPUTS, names_of
from tests.repair.config.published import FOLDER, published, validator

CRDS = [name for kind in ("ClusterPolicy", "NVIDIADriver", "NicClusterPolicy") for name in BY_KIND[kind]]


def objects(name: str) -> list[Any]:
    """The documents of an output; patches and values as the object that they produce."""
    _, form, _ = name.split(":")
    loaded = list(yaml.safe_load_all(rendered(OUTPUTS[name])))
    if form == "json-patch":
        driver = {operation["path"].rpartition("/")[2]: operation["value"] for operation in loaded[0]}
        return [{"spec": {"driver": driver}}]
    return [{"spec": document} for document in loaded] if form == "helm" else loaded


POLICY = [n for form in ("merge", "json-patch", "helm") for n in names_of("gpu-operator", form)]
DRIVERS = names_of("gpu-operator", "nvidiadriver")
NIC = names_of("network-operator")


def of_version(names: list[str], kind: str) -> list[tuple[str, str]]:
    """Each output with the schema of the version that it was written for."""
    old, new = BY_KIND[kind]
    return [(name, old if name.endswith("oldest") else new) for name in names]


@pytest.mark.parametrize(("name", "which"), [(n, s) for n in POLICY for s in BY_KIND["ClusterPolicy"]])
def test_a_policy_patch_fits_both_versions(name, which):
    for found in objects(name):
        validator(schema, which, patch=True).validate(found)


@pytest.mark.parametrize("which", BY_KIND["ClusterPolicy"])
def test_a_policy_patch_fits_both_published_versions(which):
    wanted = validator(published, which, patch=True)
    for found in (found for name in POLICY for found in objects(name)):
        wanted.validate(found)


@pytest.mark.parametrize(
    ("name", "which"), of_version(DRIVERS, "NVIDIADriver") + of_version(NIC, "NicClusterPolicy")
)
def test_a_resource_fits_the_version_it_is_for(name, which):
    for found in objects(name):
        validator(schema, which).validate(found)


@pytest.mark.parametrize(
    ("name", "which"), of_version(DRIVERS, "NVIDIADriver") + of_version(NIC, "NicClusterPolicy")
)
def test_a_resource_fits_the_published_version_it_is_for(name, which):
    for found in objects(name):
        validator(published, which).validate(found)


@pytest.mark.parametrize("schema_of", [schema, published], ids=["ours", "published"])
@pytest.mark.parametrize(
    "wrong", [{"rdma": {"enable": True}}, {"rdma": {"enabled": "true"}}, {"kernelModuleType": "closed"}]
)
def test_a_wrong_setting_of_the_driver_is_rejected(wrong, schema_of):
    """The validation that these tests use does reject faults."""
    for which, found in (
        ("ClusterPolicy-v26.7.0", {"spec": {"driver": wrong}}),
        ("NVIDIADriver-v26.7.0", {"spec": wrong}),
    ):
        with pytest.raises(jsonschema.ValidationError):
            validator(schema_of, which, patch=True).validate(found)


@pytest.mark.parametrize("name", NIC)
def test_a_wrong_resource_of_the_network_operator_is_rejected(name):
    ((_, which),) = of_version([name], "NicClusterPolicy")
    (found,) = objects(name)
    for wrong in ({"ofedDrivers": {}}, {"ofedDriver": {"image": 1}}, {"ofedDriver": {"version": "1"}}):
        with pytest.raises(jsonschema.ValidationError):
            validator(published, which).validate({**found, "spec": {**found["spec"], **wrong}})


@pytest.mark.parametrize("which", CRDS)
def test_the_reduced_schema_agrees_with_the_published_one(which):
    compare(schema(which)["properties"]["spec"], published(which)["properties"]["spec"], which)


def compare(reduced: Any, full: dict[str, Any], path: str) -> None:
    for word in ("type", "enum"):
        assert reduced.get(word) == full.get(word), (path, word)
    if "properties" in reduced:
        assert set(reduced["properties"]) == set(full["properties"]), path
        assert sorted(reduced.get("required", [])) == sorted(full.get("required", [])), path
        for key, below in reduced["properties"].items():
            compare(below, full["properties"][key], f"{path}.{key}")


# -- OpenShift, Talos, cloud-init --------------------------------------------------------------------


@pytest.mark.parametrize("name", names_of("machineconfig"))
def test_a_machine_config_contains_valid_ignition(name):
    (found,) = objects(name)
    validator(schema, "MachineConfig").validate(found)
    for wanted in (validator(schema, "Ignition"), validator(published, "Ignition-3.2")):
        wanted.validate(found["spec"]["config"])


@pytest.mark.parametrize("name", names_of("butane"))
def test_butane_knows_every_key(name):
    (found,) = objects(name)
    validator(schema, "Butane").validate(found)


TALOS = [
    *((name, "MachineConfiguration", "Talos-1.13") for name in names_of("talos", "machine")),
    *((name, "KernelModuleConfig", "Talos-1.14") for name in names_of("talos", "documents")),
]


@pytest.mark.parametrize(("name", "ours", "theirs"), TALOS)
def test_talos_knows_every_key(name, ours, theirs):
    for found in objects(name):
        for wanted in (validator(schema, ours), validator(published, theirs)):
            wanted.validate(found)


@pytest.mark.parametrize("name", names_of("talos", "schematic"))
def test_the_image_factory_knows_every_key(name):
    for found in objects(name):
        validator(published, "Talos-schematic").validate(found)


@pytest.mark.parametrize("name", names_of("cloud-init"))
def test_cloud_init_knows_every_key(name):
    assert rendered(OUTPUTS[name]).startswith("#cloud-config\n")
    (found,) = objects(name)
    validator(published, "cloud-config").validate(found)


WRONG = [
    ("Butane", "butane:only:plain", "storage.files.0.contents.inlined", "x"),
    ("Butane", "butane:only:plain", "storage.files.0.mode", "0644"),
    ("Ignition-3.2", "machineconfig:only:plain", "storage.files.0.contents.inline", "x"),
    ("Ignition-3.2", "machineconfig:only:plain", "storage.files.0.owner", "root"),
    ("Ignition-3.2", "machineconfig:only:plain", "storage.files.0.mode", "0644"),
    ("Ignition-3.2", "machineconfig:only:plain", "ignition.version", 3.2),
    ("Talos-1.13", "talos:machine:plain", "machine.kernel.module", []),
    ("Talos-1.13", "talos:machine:plain", "machine.kernel.modules.0", "nvidia"),
    ("Talos-1.14", "talos:documents:plain", "kind", "KernelModulesConfig"),
    ("Talos-1.14", "talos:documents:plain", "module", "nvidia"),
    ("Talos-schematic", "talos:schematic:plain", "customization.extensions", []),
    ("cloud-config", "cloud-init:only:plain", "write_file", []),
    ("cloud-config", "cloud-init:only:plain", "write_files.0.mode", "0644"),
    ("cloud-config", "cloud-init:only:plain", "write_files.0.permissions", 420),
    ("cloud-config", "cloud-init:only:plain", "runcmd", "reboot"),
]
"""A schema, an output that fits it, and a place in that with a value that does not."""


@pytest.mark.parametrize(("which", "name", "place", "value"), WRONG)
def test_a_wrong_place_or_value_is_rejected(which, name, place, value):
    wanted = validator(schema if which == "Butane" else published, which)
    found = objects(name)[0]
    found = copy.deepcopy(found["spec"]["config"] if which.startswith("Ignition") else found)
    wanted.validate(found)
    *way, last = [int(word) if word.isdigit() else word for word in place.split(".")]
    here: Any = found
    for word in way:
        here = here[word]
    here[last] = value
    with pytest.raises(jsonschema.ValidationError):
        wanted.validate(found)


def test_each_schema_has_a_source_and_a_licence():
    rows = re.findall(r"(?m)^\| (\S+)\.json \| .+ \| Apache-2\.0[^|]* \| (?:[0-9a-f]{64}|-) \|$",
                      (FOLDER / "README.md").read_text())  # fmt: skip
    assert sorted(rows) == sorted(path.stem for path in FOLDER.glob("*.json"))


def test_the_lists_of_outputs_are_not_empty():
    """The tests above run over these lists."""
    kinds = ("machineconfig", "butane", "cloud-init", "talos:machine", "talos:documents", "talos:schematic")
    assert all((POLICY, DRIVERS, NIC, *(names_of(*kind.split(":")) for kind in kinds)))


def test_a_list_of_anything_holds_anything():
    listed = YamlSequence((Scalar("a", 1),), 1)

    assert list(faults(listed, {"type": "array"}, "ClusterPolicy", (), whole=True)) == []
