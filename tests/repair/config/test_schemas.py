"""The outputs of `gdr config` fit the schemas of their readers.

The schemas in src/gdrkit/repair/config/schemas are written for this project, reduced to what affects
GPUDirect RDMA. The published ones are used if present: CustomResourceDefinitions below
$GDRKIT_SHARED/data/crds, and in $GDRKIT_SCHEMAS: ignition-3.2.json (coreos/ignition
config/v3_2/schema/ignition.json), talos-1.13.json (siderolabs/talos v1.13.0
pkg/machinery/config/schemas/config.schema.json), talos-1.14.json and schema-cloud-config-v1.json (in the
package cloud-init).
"""

from __future__ import annotations

import copy
import functools
import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from gdrkit.repair.config.output import rendered
from gdrkit.repair.config.schema_check import BY_KIND, schema
from tests.repair.config.outputs import OUTPUTS, names_of

SHARED = Path(os.environ.get("GDRKIT_SHARED", Path(__file__).parents[4] / "shared"))
CRDS = SHARED / "data" / "crds"
WHOLE = Path(os.environ.get("GDRKIT_SCHEMAS", "/nonexistent"))
FILES = {
    "ClusterPolicy-v25.3.4": "gpu-operator_v25.3.4_nvidia.com_clusterpolicies.yaml",
    "ClusterPolicy-v26.7.0": "gpu-operator_v26.7.0_nvidia.com_clusterpolicies.yaml",
    "NVIDIADriver-v25.3.4": "gpu-operator_v25.3.4_nvidia.com_nvidiadrivers.yaml",
    "NVIDIADriver-v26.7.0": "gpu-operator_v26.7.0_nvidia.com_nvidiadrivers.yaml",
    "NicClusterPolicy-v25.7.0": "network-operator_v25.7.0_mellanox.com_nicclusterpolicies.yaml",
    "NicClusterPolicy-v26.4.1": "network-operator_v26.4.1_mellanox.com_nicclusterpolicies.yaml",
}
NEWEST = {
    "ClusterPolicy": "gpu-operator_nvidia.com_clusterpolicies.yaml",
    "NVIDIADriver": "gpu-operator_nvidia.com_nvidiadrivers.yaml",
    "NicClusterPolicy": "network-operator_mellanox.com_nicclusterpolicies.yaml",
}


@functools.cache
def crd(file: str) -> dict[str, Any]:
    if not CRDS.is_dir():
        pytest.skip("set GDRKIT_SHARED to a folder with data/crds")
    found: dict[str, Any] = yaml.safe_load((CRDS / file).read_text())["spec"]["versions"][0]
    return found["schema"]["openAPIV3Schema"]


@functools.cache
def whole(file: str) -> dict[str, Any]:
    if not (WHOLE / file).is_file():
        pytest.skip(f"put {file} into a folder and set GDRKIT_SCHEMAS to it")
    found: dict[str, Any] = json.loads((WHOLE / file).read_text())
    return found


def strict(found: dict[str, Any], *, patch: bool) -> dict[str, Any]:
    """A schema that rejects unknown keys, like --validate=strict, and for a patch requires none."""
    found = copy.deepcopy(found)

    def tighten(here: object) -> None:
        if isinstance(here, list):
            for item in here:
                tighten(item)
        if not isinstance(here, dict):
            return
        if isinstance(here.get("properties"), dict) and "x-kubernetes-preserve-unknown-fields" not in here:
            here.setdefault("additionalProperties", False)
        if patch and isinstance(here.get("required"), list):
            del here["required"]
        for value in list(here.values()):
            tighten(value)

    tighten(found)
    if isinstance(found.get("properties", {}).get("metadata"), dict):
        found["properties"]["metadata"] = {"type": "object"}
    return found


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
        jsonschema.validate(found, strict(schema(which), patch=True))


@pytest.mark.parametrize("which", BY_KIND["ClusterPolicy"])
def test_a_policy_patch_fits_both_whole_versions(which):
    wanted = strict(crd(FILES[which]), patch=True)
    for found in (found for name in POLICY for found in objects(name)):
        jsonschema.validate(found, wanted)


def test_a_policy_patch_fits_the_newest():
    wanted = strict(crd(NEWEST["ClusterPolicy"]), patch=True)
    for found in (found for name in POLICY for found in objects(name)):
        jsonschema.validate(found, wanted)


@pytest.mark.parametrize(
    ("name", "which"), of_version(DRIVERS, "NVIDIADriver") + of_version(NIC, "NicClusterPolicy")
)
def test_a_resource_fits_the_version_it_is_for(name, which):
    for found in objects(name):
        jsonschema.validate(found, strict(schema(which), patch=False))


@pytest.mark.parametrize(
    ("name", "which"), of_version(DRIVERS, "NVIDIADriver") + of_version(NIC, "NicClusterPolicy")
)
def test_a_resource_fits_the_whole_version_it_is_for(name, which):
    wanted = strict(crd(FILES[which]), patch=False)
    for found in objects(name):
        jsonschema.validate(found, wanted)


@pytest.mark.parametrize("name", [n for n in DRIVERS + NIC if not n.endswith("oldest")])
def test_a_resource_fits_the_newest(name):
    for found in objects(name):
        jsonschema.validate(found, strict(crd(NEWEST[found["kind"]]), patch=False))


def test_a_wrong_key_is_rejected():
    """The validation that these tests use does reject faults."""
    for wrong in ({"rdma": {"enable": True}}, {"rdma": {"enabled": "true"}}, {"kernelModuleType": "closed"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(
                {"spec": {"driver": wrong}}, strict(schema("ClusterPolicy-v26.7.0"), patch=True)
            )


@pytest.mark.parametrize("which", FILES)
def test_the_reduced_schema_agrees_with_the_published_one(which):
    compare(schema(which)["properties"]["spec"], crd(FILES[which])["properties"]["spec"], which)


def compare(reduced: Any, full: dict[str, Any], path: str) -> None:
    for word in ("type", "enum"):
        assert reduced.get(word) == full.get(word), (path, word)
    if "properties" in reduced:
        assert set(reduced["properties"]) == set(full["properties"]), path
        assert sorted(reduced.get("required", [])) == sorted(full.get("required", [])), path
        for key, below in reduced["properties"].items():
            compare(below, full["properties"][key], f"{path}.{key}")


# -- OpenShift, Talos, cloud-init --------------------------------------------------------------------


MACHINE_CONFIGS = names_of("machineconfig")
TALOS = names_of("talos", "machine")
TALOS_DOCUMENTS = names_of("talos", "documents")


@pytest.mark.parametrize("name", MACHINE_CONFIGS)
def test_a_machine_config_contains_valid_ignition(name):
    (found,) = objects(name)
    jsonschema.validate(found, strict(schema("MachineConfig"), patch=False))
    jsonschema.validate(found["spec"]["config"], strict(schema("Ignition"), patch=False))


@pytest.mark.parametrize("name", MACHINE_CONFIGS)
def test_a_machine_config_fits_the_schema_that_ignition_publishes(name):
    published = whole("ignition-3.2.json")
    jsonschema.validate(objects(name)[0]["spec"]["config"], published)


@pytest.mark.parametrize("name", names_of("butane"))
def test_butane_knows_every_key(name):
    (found,) = objects(name)
    jsonschema.validate(found, strict(schema("Butane"), patch=False))


@pytest.mark.parametrize("name", TALOS + TALOS_DOCUMENTS)
def test_talos_knows_every_key(name):
    for found in objects(name):
        kind = found.get("kind", "MachineConfiguration")
        jsonschema.validate(found, strict(schema(kind), patch=False))


@pytest.mark.parametrize("name", TALOS)
def test_every_key_is_in_the_published_talos_schema(name):
    published = whole("talos-1.13.json")
    jsonschema.validate(objects(name)[0], published)


@pytest.mark.parametrize("name", TALOS_DOCUMENTS)
def test_every_document_is_in_the_published_talos_schema(name):
    published = whole("talos-1.14.json")
    for found in objects(name):
        jsonschema.validate(found, published)


@pytest.mark.parametrize("name", names_of("cloud-init"))
def test_every_key_is_in_the_published_cloud_init_schema(name):
    published = whole("schema-cloud-config-v1.json")
    (found,) = objects(name)
    jsonschema.validate(found, published)
    known = {key for one in published["$defs"].values() for key in one.get("properties", {})}
    assert set(found) <= known
