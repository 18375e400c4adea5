"""Findings about operators, their pods and their manifests."""

from __future__ import annotations

import pytest

from gdrkit.evidence import MissingReason
from gdrkit.facts.kubernetes import UnreadableManifest, manifests
from gdrkit.node import Node
from gdrkit.repair.platforms.immutable_systems import TALOS as TALOS_SYSTEM
from gdrkit.repair.platforms.immutable_systems import immutable
from gdrkit.rules.capabilities import Need
from gdrkit.rules.gpu_operator import (
    operator_module_missing,
    operator_ofed_changed,
    operator_stub,
    operator_waits_for_ofed,
)
from gdrkit.rules.manifest_invalid import manifest_invalid
from gdrkit.rules.module_signature import module_unsigned
from gdrkit.rules.policy_duplicate_key import policy_duplicate_key, repeated
from gdrkit.rules.rule import ADDRESS, Failed, Rule
from gdrkit.rules.talos_no_peermem import talos_no_peermem
from gdrkit.verdict.cells import paths_closed_by
from gdrkit.verdict.check_results import check_results
from tests.module_builder import build_module
from tests.rules.machines import (
    API,
    FULL,
    STUB,
    does_not_apply,
    failed,
    installed,
    kernel_log,
    loaded,
    missing,
    node,
    outcome,
    passes,
    peermem,
)

FOLDER = "sos_commands/kubernetes"
LOG = f"{FOLDER}/nvidia-peermem-ctr.log"
EINVAL = "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument"
GAVE_UP = "failed to load nvidia-peermem module"
NOT_FOUND = "modprobe: FATAL: Module nvidia-peermem not found in directory /lib/modules/6.1.0-56-amd64"
WAITING = "waiting for mellanox ofed and nvidia drivers to be installed"
DISAGREES = "nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client"
CONTAINER = "run/nvidia/driver/lib/modules/6.1.0-56-amd64/kernel/drivers/video/nvidia-peermem.ko"
NO_MODULES = installed({})


def said(*lines: str, path: str = LOG) -> dict[str, str]:
    return {path: "".join(f"{line}\n" for line in lines)}


def policy(rdma: str = "enabled: true, useHostMofed: true", **driver: str) -> dict[str, str]:
    more = "".join(f"    {key}: {value}\n" for key, value in driver.items())
    others = "".join(
        f"  {key}: {{}}\n"
        for key in (
            "daemonsets",
            "dcgm",
            "dcgmExporter",
            "devicePlugin",
            "gfd",
            "nodeStatusExporter",
            "operator",
            "toolkit",
        )
    )
    text = (
        f"apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata:\n  name: cluster-policy\nspec:\n{others}"
    )
    return {f"{FOLDER}/clusterpolicy.yaml": f"{text}  driver:\n    rdma: {{{rdma}}}\n{more}"}


# -- operator-stub -----------------------------------------------------------------------------------------


def test_the_containers_file_is_a_stub():
    machine = node(NO_MODULES, {CONTAINER: STUB}, said(EINVAL, GAVE_UP), policy())
    found = failed(machine, operator_stub)

    assert found.seen == f"{EINVAL.partition(': ERROR: ')[2]}; useHostMofed: true"
    assert found.takes == ()  # peermem-stub blocks, and counts once


def test_without_the_file_a_silent_kernel_log_decides():
    quiet = node(NO_MODULES, said(EINVAL, GAVE_UP), log=kernel_log("eth0: link up"))

    found = failed(quiet, operator_stub)
    assert found.subject == f"{LOG}:1"
    assert found.takes is None
    assert paths_closed_by(operator_stub.takes("node")) == ("peermem",)


def test_without_the_file_and_a_complete_log_it_is_unknown():
    machine = node(NO_MODULES, said(EINVAL, GAVE_UP), complete=False)

    assert missing(machine, operator_stub).why is MissingReason.UNDECIDED


@pytest.mark.parametrize(
    "machine",
    [
        node(NO_MODULES, {CONTAINER: FULL}, said(EINVAL, GAVE_UP)),
        node(NO_MODULES, said(EINVAL, GAVE_UP), log=kernel_log(DISAGREES)),
        node(NO_MODULES, {CONTAINER: STUB}, said(NOT_FOUND, GAVE_UP)),
        node(NO_MODULES, {CONTAINER: STUB}, said(WAITING)),
    ],
)
def test_other_reasons_are_not_a_stub(machine):  # type: ignore[no-untyped-def]
    assert passes(machine, operator_stub)


def test_a_container_that_fails_beside_a_loaded_module_is_not_applicable():
    machine = node(NO_MODULES, loaded("nvidia_peermem"), said(EINVAL, GAVE_UP))

    assert does_not_apply(machine, operator_stub)
    assert does_not_apply(machine, operator_module_missing)


@pytest.mark.parametrize(("line", "rule"), [(EINVAL, operator_stub), (NOT_FOUND, operator_module_missing)])
def test_a_container_that_fails_beside_nv_peer_mem_is_found_and_takes_nothing(line: str, rule: Rule):
    log = kernel_log("eth0: link up")
    alone = node(NO_MODULES, said(line, GAVE_UP), log=log)
    beside = node(NO_MODULES, loaded("nv_peer_mem"), said(line, GAVE_UP), log=log)

    def taken(machine: Node) -> tuple[Need, ...]:
        (result,) = check_results(machine, [rule])
        assert isinstance(result.outcome, Failed)
        return result.takes

    assert taken(alone) == (ADDRESS,)
    assert taken(beside) == ()


def test_a_node_without_the_operator_is_not_applicable():
    assert does_not_apply(node(), operator_stub)
    assert does_not_apply(node(policy("enabled: false")), operator_stub)


def test_a_node_of_the_operator_without_that_log_is_unknown():
    assert missing(node(policy()), operator_stub).source == "nvidia-peermem-ctr"
    assert missing(node({CONTAINER: STUB}), operator_waits_for_ofed)


# -- operator-ofed-changed ---------------------------------------------------------------------------------


def test_the_kernel_disagrees_about_a_version():
    found = failed(node(NO_MODULES, said(EINVAL, GAVE_UP), log=kernel_log(DISAGREES)), operator_ofed_changed)

    assert found.seen == DISAGREES
    assert passes(node(NO_MODULES, said(EINVAL, GAVE_UP), log=kernel_log()), operator_ofed_changed)


def test_other_crcs_are_enough():
    machine = node(peermem(FULL, provider=dict.fromkeys(API, 0xB2)), said(EINVAL, GAVE_UP))

    assert "CRC" in failed(machine, operator_ofed_changed).seen


def test_without_the_kernel_log_and_the_file_nothing_shows_what_changed():
    unseen = node(said(EINVAL, GAVE_UP), complete=False)

    assert missing(unseen, operator_ofed_changed).source == "dmesg"
    assert passes(node(peermem(FULL), said(EINVAL, GAVE_UP), complete=False), operator_ofed_changed)
    assert missing(node(policy()), operator_ofed_changed)


# -- operator-module-missing -------------------------------------------------------------------------------


def test_a_container_without_modules():
    assert "not found in directory" in failed(node(said(NOT_FOUND, GAVE_UP)), operator_module_missing).seen
    assert passes(node(said(EINVAL, GAVE_UP)), operator_module_missing)
    assert missing(node(policy()), operator_module_missing)


def test_only_the_last_attempt_counts():
    recovered = said(
        NOT_FOUND, GAVE_UP, WAITING, "successfully loaded nvidia-peermem module, now waiting for signal"
    )

    assert passes(node(recovered), operator_module_missing)


NIC_POLICY = """\
apiVersion: mellanox.com/v1alpha1
kind: NicClusterPolicy
metadata: {name: nic-cluster-policy}
spec:
  ofedDriver:
    image: doca-driver
    repository: nvcr.io/nvidia/mellanox
"""


@pytest.mark.parametrize(
    ("files", "in_vain"),
    [
        (installed({"ib_core": build_module("ib_core")}), True),
        (peermem(FULL), False),  # this ib_core exports the API
        ({**installed({"ib_core": build_module("ib_core")}), f"{FOLDER}/nic.yaml": NIC_POLICY}, False),
        ({}, False),  # not known
    ],
)
def test_a_driver_that_is_built_anew_is_no_remedy_where_nothing_exports_the_api(files, in_vain):
    """An OFED that a policy deploys may come, and then the driver is to be built against it."""
    machine = node(files, said(NOT_FOUND, GAVE_UP), complete=bool(files))

    found = failed(machine, operator_module_missing)

    assert found.advice.startswith("Set rdma.enabled: false") == in_vain
    assert bool(found.advice) == in_vain


# -- operator-waits-for-ofed -------------------------------------------------------------------------------


def test_it_waits_for_an_ofed_that_nothing_installs():
    machine = node(said(*[WAITING] * 6), policy("enabled: true, useHostMofed: false"))
    found = failed(machine, operator_waits_for_ofed)

    assert (
        found.seen
        == "the container waits, 6 times so far; useHostMofed: false and no NicClusterPolicy with ofedDriver"
    )


def test_it_waited_and_went_on():
    assert passes(node(said(WAITING, WAITING, EINVAL, GAVE_UP)), operator_waits_for_ofed)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({f"{FOLDER}/nic.yaml": NIC_POLICY}, "a NicClusterPolicy deploys OFED, which is not ready"),
        ({"run/mellanox/drivers/.driver-ready": ""}, "OFED is ready, the driver is not"),
    ],
)
def test_it_says_what_it_waits_for(files: dict[str, str], words: str):
    machine = node(said(WAITING), policy("enabled: true, useHostMofed: false"), files)

    assert failed(machine, operator_waits_for_ofed).seen.endswith(words)


def test_a_log_of_the_nodes_own_kubelet():
    path = "var/log/pods/gpu-operator_nvidia-driver-daemonset-x_1/nvidia-peermem-ctr/3.log"
    line = f"2026-11-20T16:00:00.000000000Z stdout F {WAITING}"

    assert failed(node(said(line, path=path)), operator_waits_for_ofed).subject == f"{path}:1"


# -- policy-duplicate-key ----------------------------------------------------------------------------------

TWICE = """\
apiVersion: nvidia.com/v1
kind: ClusterPolicy
spec:
  driver:
    enabled: true
    rdma:
      enabled: true
      useHostMofed: true
  # Or with containers:
  driver:
    rdma:
      enabled: true
      useHostMofed: false
"""


def test_a_repeated_key_is_found_with_the_keys_that_are_lost():
    machine = node({f"{FOLDER}/recipe.yaml": TWICE})
    (subject,) = repeated(machine)
    found = failed(machine, policy_duplicate_key, subject)

    assert found.seen == "spec.driver at lines 4 and 10: the last counts; lost: enabled"
    assert found.subject == f"{FOLDER}/recipe.yaml:4"
    assert paths_closed_by(policy_duplicate_key.takes(subject)) == ()


@pytest.mark.parametrize(("first", "lost"), [("{enabled: true, rdma: {}}", "; lost: enabled"), ("none", "")])
def test_an_earlier_value_that_is_no_mapping_has_no_keys_to_lose(first, lost):
    text = f"kind: ClusterPolicy\nspec:\n  driver: {first}\n  driver:\n    rdma: {{}}\n"
    machine = node({f"{FOLDER}/recipe.yaml": text})
    (subject,) = repeated(machine)
    seen = failed(machine, policy_duplicate_key, subject).seen
    assert seen == f"spec.driver at lines 3 and 4: the last counts{lost}"


def test_the_same_key_in_two_documents_is_not_repeated():
    one = TWICE.partition("  # Or")[0]

    assert tuple(repeated(node({f"{FOLDER}/two.yaml": f"{one}---\n{one}"}))) == ()
    assert tuple(repeated(node())) == ()


def test_a_document_that_cannot_be_read_is_unknown():
    machine = node({f"{FOLDER}/anchors.yaml": "kind: ClusterPolicy\nspec: &x {a: 1}\n"})
    (subject,) = repeated(machine)

    assert isinstance(subject, UnreadableManifest)
    assert missing(machine, policy_duplicate_key, subject).why is MissingReason.GARBLED


# -- manifest-invalid --------------------------------------------------------------------------------------


LABELLED = "kind: MachineConfig\nmetadata:\n  labels: {machineconfiguration.openshift.io/role: w}\n"
INLINE = """\
spec:
  config:
    storage:
      files:
        - path: /etc/modules-load.d/x.conf
          contents:
            inline: |
              nvidia_peermem
"""


def judged(text: str):  # type: ignore[no-untyped-def]
    machine = node({f"{FOLDER}/m.yaml": text})
    return outcome(machine, manifest_invalid, manifests(machine)[0])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind: ClusterPolicy\nspec:\n  driver: {enabled: true}\n", "spec has no daemonsets"),
        (next(iter(policy("enabled: true, useHostMOFED: true").values())), "rdma.useHostMOFED"),
        (next(iter(policy("enabled: 'true'").values())), "not true or false"),
        (next(iter(policy(kernelModuleType="opensource").values())), "kernelModuleType: opensource"),
        (next(iter(policy(useNvidiaDriverCRD="true").values())), "reads it from NVIDIADriver"),
        ("kind: NVIDIADriver\nspec: {driverType: gpu}\n", "spec has no image"),
        ("kind: NicClusterPolicy\nspec: {ofedDriver: {repository: x}}\n", "no image"),
        (
            LABELLED + INLINE,
            "contents.inline at line 10",
        ),
        ("kind: MachineConfig\nspec: {config: {}}\n", "no label"),
    ],
)
def test_what_does_not_fit(text: str, words: str):
    assert words in judged(text).seen


@pytest.mark.parametrize(
    "text",
    [
        next(iter(policy().values())),
        NIC_POLICY,
        "kind: NVIDIADriver\nspec: {driverType: gpu, image: driver, rdma: {enabled: true}}\n",
        LABELLED + "spec: {config: {}}\n",
    ],
)
def test_what_fits(text: str):
    assert judged(text).why == "its settings for GPUDirect RDMA fit"


def test_other_kinds_are_not_checked():
    assert judged("kind: ConfigMap\ndata: {a: b}\n").why == "ConfigMap is not checked"


# -- talos-no-peermem --------------------------------------------------------------------------------------

TALOS = {"etc/os-release": 'NAME="Talos"\nID=talos\nVERSION_ID=v1.13.0\n'}
CONFIG = """\
version: v1alpha1
machine:
  kernel:
    modules:
      - name: nvidia
      - name: nvidia_peermem
"""


def test_a_machine_configuration_with_the_entry_is_found():
    assert f"{FOLDER}/mc.yaml:6" in failed(node({f"{FOLDER}/mc.yaml": CONFIG}), talos_no_peermem).seen
    assert paths_closed_by(talos_no_peermem.takes("node")) == ("peermem",)
    plain = CONFIG.replace("name: ", "")
    assert f"{FOLDER}/mc.yaml:6" in failed(node({f"{FOLDER}/mc.yaml": plain}), talos_no_peermem).seen


def test_the_error_in_the_log_of_talos_is_found():
    line = '[talos] controller failed {"error": "error loading module \\"nvidia_peermem\\": load failed"}'

    assert failed(node(TALOS, log=kernel_log(line)), talos_no_peermem)


def test_talos_without_the_entry_passes_and_other_systems_do_not_apply():
    without = {f"{FOLDER}/mc.yaml": CONFIG.replace("nvidia_peermem", "nvidia_uvm")}

    assert passes(node(TALOS, without), talos_no_peermem)
    assert does_not_apply(node({"etc/os-release": "ID=debian\n"}), talos_no_peermem)
    assert missing(node(TALOS, complete=False), talos_no_peermem)


def test_a_machine_configuration_shows_talos_where_os_release_is_missing():
    assert immutable(node({f"{FOLDER}/mc.yaml": CONFIG}, complete=False)) is TALOS_SYSTEM
    assert immutable(node({f"{FOLDER}/mc.yaml": CONFIG, "etc/os-release": "ID=debian\n"})) is None


# -- the driver container's own files ----------------------------------------------------------------------

ENFORCED = {"sys/module/module/parameters/sig_enforce": "Y\n"}
UNSIGNED = {CONTAINER.replace("nvidia-peermem", "nvidia"): build_module("nvidia")}


def test_the_kernel_refuses_an_unsigned_module_of_the_driver_container_too():
    """Only the container's depmod lists it: its modprobe loads it into the same kernel."""
    assert failed(node(NO_MODULES, UNSIGNED, ENFORCED), module_unsigned, "nvidia").seen == "no signature"


@pytest.mark.parametrize(
    "near",
    [
        {"sys/module/module/parameters/sig_enforce": "N\n"},
        {**ENFORCED, **loaded("nvidia")},
    ],
)
def test_where_it_enforces_no_signatures_or_has_loaded_it_there_is_no_finding(near):
    assert does_not_apply(node(NO_MODULES, UNSIGNED, near), module_unsigned, "nvidia")


def test_a_file_that_neither_the_host_nor_a_container_has_is_not_judged():
    assert does_not_apply(node(NO_MODULES, ENFORCED), module_unsigned, "nvidia")
    unseen = node(NO_MODULES, UNSIGNED, ENFORCED, complete=False, without="lib/modules")
    assert missing(unseen, module_unsigned, "nvidia")
