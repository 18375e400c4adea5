"""`gdr config check` finds faults and their lines, and accepts any bytes."""

from __future__ import annotations

import io
import os
from collections import Counter
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from ruamel.yaml import YAML
from ruamel.yaml.constructor import DuplicateKeyError

from gdrkit.repair.config.check import MOST_FAULTS, CheckedFile, check
from gdrkit.repair.config.fault import SEVERITIES
from gdrkit.repair.config.recognise import recognise

SHARED = Path(os.environ.get("GDRKIT_SHARED", Path(__file__).parents[4] / "shared"))

TWICE = """\
apiVersion: nvidia.com/v1
kind: ClusterPolicy
metadata:
  name: cluster-policy
spec:
  driver:
    enabled: true
    rdma:
      enabled: true
      useHostMofed: true
  driver:
    rdma:
      enabled: true
      useHostMofed: false
"""
INLINE = """\
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata:
  name: 99-gpu-peermem
  labels:
    machineconfiguration.openshift.io/role: gpu
spec:
  config:
    ignition:
      version: 3.2.0
    storage:
      files:
        - path: /etc/modules-load.d/gpu.conf
          mode: 0644
          contents:
            inline: |
              ib_core
              nvidia_peermem
"""
TALOS = """\
machine:
  kernel:
    modules:
      - name: ib_core
      - name: nvidia_peermem
"""
ARTICLE = f"How to\n\nFirst this:\n\n{TWICE}\nThen that:\n\n{INLINE}\nAt last:\n\n{TALOS}\n" + (
    "Set it\n\nexport NCCL_NET_GDR_LEVEL=5\n"
)


def found(text: str, version: str = "") -> CheckedFile:
    return check(text.encode(), "file.yaml", version)


def codes(text: str, version: str = "") -> list[tuple[int, str]]:
    return [(fault.line, fault.code) for fault in found(text, version).faults]


# -- faults in recipes -------------------------------------------------------------------------------


def test_a_duplicate_key_names_the_readers_and_the_line_that_they_use():
    (twice,) = [fault for fault in found(TWICE).faults if fault.code == "duplicate-key"]
    assert (twice.line, twice.path) == (11, "spec.driver")
    assert "lines 6 and 11" in twice.seen and "drop enabled of line 6" in twice.seen
    assert "PyYAML use only line 11" in twice.seen and "ruamel.yaml reject" in twice.seen


def test_yaml_readers_treat_a_duplicate_key_as_described():
    assert yaml.safe_load(TWICE)["spec"]["driver"] == {"rdma": {"enabled": True, "useHostMofed": False}}
    with pytest.raises(DuplicateKeyError):
        YAML(typ="safe", pure=True).load(io.StringIO(TWICE))


def test_missing_required_keys_are_named():
    (missing,) = [fault for fault in found(TWICE).faults if fault.code == "missing-key"]
    assert missing.path == "spec" and "operator, toolkit" in missing.seen and "patch" in missing.expected


def test_an_object_that_a_cluster_printed_lacks_no_key():
    """Its API server has checked it; who pastes it cuts it."""
    cut = "apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nspec: {driver: {enabled: true}}\n"
    assert [fault.code for fault in found(cut).faults] == ["missing-key"]
    assert found(f"{cut}status: {{state: ready}}\n").faults == ()


def test_a_butane_key_within_ignition_is_found():
    assert codes(INLINE) == [(13, "module-not-on-host"), (16, "butane-in-ignition")]


def test_a_module_that_talos_cannot_load_is_found():
    assert codes(TALOS) == [(5, "talos-no-peermem")]
    assert codes("apiVersion: v1alpha1\nkind: KernelModuleConfig\nname: nvidia_peermem\n") == [
        (1, "talos-no-peermem")
    ]


def test_an_article_is_searched_for_manifests():
    """Every error of a recipe is found in a text that is not YAML."""
    expected = ["missing-key", "duplicate-key", "operator-waits-for-ofed", "module-not-on-host",
                "butane-in-ignition", "talos-no-peermem", "gdr-level-number"]  # fmt: skip
    assert [code for _, code in codes(ARTICLE)] == expected
    lines = ARTICLE.splitlines()
    for line, code in codes(ARTICLE):
        marks = {"duplicate-key": "  driver:", "butane-in-ignition": "inline", "talos-no-peermem": "peermem"}
        assert marks.get(code, "") in lines[line - 1]


def test_the_faults_of_the_original_recipe():
    sources = sorted((SHARED / "sources").glob("002_*.txt"))
    if not sources:
        pytest.skip("set GDRKIT_SHARED to a folder with sources")
    result = check(sources[0].read_bytes(), "recipe")
    assert {fault.code for fault in result.faults} == {
        "duplicate-key", "missing-key", "butane-in-ignition", "talos-no-peermem", "module-not-on-host",
        "gdr-level-number", "operator-waits-for-ofed",
    }  # fmt: skip
    assert result.worst == "error"


# -- keys --------------------------------------------------------------------------------------------

POLICY = "spec:\n  driver:\n"


@pytest.mark.parametrize(
    ("text", "line", "code", "expected"),
    [
        (POLICY + "    useHostMofed: true\n", 3, "wrong-place", "spec.driver.rdma.useHostMofed"),
        (POLICY + "    enabled: true\n  rdma:\n    enabled: true\n", 4, "wrong-place", "spec.driver.rdma"),
        (POLICY + "    enabled: true\n  ofedDriver: {}\n", 4, "wrong-place", "NicClusterPolicy"),
        (POLICY + "    rdma:\n      enable: true\n", 4, "unknown-key", "enabled ("),
        (POLICY + "    rdma:\n      useHostMOFED: true\n", 4, "unknown-key", "useHostMofed ("),
        (POLICY + "    rdma:\n      peermem: true\n", 4, "unknown-key", "one of enabled, useHostMofed"),
        (POLICY + '    rdma:\n      enabled: "true"\n', 4, "wrong-type", "true or false"),
        (POLICY + "    rdma:\n      enabled: yes\n", 4, "wrong-type", "true or false"),
        (POLICY + "    kernelModuleType: closed\n", 3, "wrong-value", "auto or open or proprietary"),
        (POLICY + "    rdma: true\n", 3, "wrong-type", "a mapping"),
        (POLICY + "    useOpenKernelModules: true\n", 3, "not-honoured", "kernelModuleType: open"),
        (POLICY + "    version: 580\n", 3, "wrong-type", "quote it"),
        (
            POLICY + "    usePrecompiled: true\n    rdma:\n      enabled: true\n",
            3, "stub", "dma-buf",
        ),
        (
            POLICY + "    useNvidiaDriverCRD: true\n    rdma:\n      enabled: true\n",
            5, "wrong-place", "NVIDIADriver spec.rdma",
        ),
        ("kind: NicClusterPolicy\napiVersion: mellanox.com/v1alpha1\nspec:\n  ofedDriver:\n"
         "    repository: x\n", 5, "missing-key", "all required keys"),
        ("machine:\n  modules:\n    - name: nvidia\n", 2, "wrong-place", "machine.kernel.modules"),
        ("variant: openshift\nversion: 4.13.0\nstorage:\n  files:\n    - path: /a\n      mode: 644\n",
         6, "wrong-value", "420, which is 0644"),
        ("variant: openshift\nversion: 4.13.0\nstorage:\n  files:\n    - path: /a\n      mode: 600\n",
         6, "wrong-value", "384, which is 0600"),
        ("#cloud-config\nwrite_files:\n  - content: a\n    permissions: 0644\n", 3, "missing-key", "a path"),
        ("apiVersion: v1\nkind: ConfigMap\ndata:\n  nvidia-peermem.conf: |\n"
         "    options nvidia-peermem persistent_api_support=0\n", 4, "wrong-value", "NAME=VALUE"),
        ("customization:\n  systemExtensions:\n    officialExtensions:\n"
         "      - siderolabs/nonfree-kmod-nvidia-lts\n", 4, "talos-no-path", "open-gpu-kernel-modules"),
        ("kind: Pod\nspec:\n  containers:\n    - env:\n        - name: NCCL_NET_GDR_LEVEL\n"
         "          value: ALL\n", 6, "gdr-level-ignored", "PXB"),
        ("NCCL_DEBUG=INFO\nexport NCCL_IB_DISABLE=1\n", 2, "ib-disabled-by-env", "unless this is meant"),
        ("kind: Pod\nspec:\n  containers:\n    - env:\n        - name: NCCL_IB_DISABLE\n"
         "          value: '1'\n", 6, "ib-disabled-by-env", "unless this is meant"),
        ("NCCL_NET_GDR_LEVEL=sys\n", 1, "gdr-level-ignored", "PXB"),
        ("NCCL_NET_GDR_LEVEL=2x\n", 1, "gdr-level-number", "no setting"),
    ],
)  # fmt: skip
def test_a_fault_is_found_at_its_line(text, line, code, expected):
    faults = [f for f in found(text).faults if (f.line, f.code) == (line, code)]
    assert faults and expected in faults[0].expected, found(text).faults


@pytest.mark.parametrize(
    "text",
    [
        POLICY + "    rdma:\n      enabled: true\n      useHostMofed: false\n",
        POLICY + "    kernelModuleType: open\n    useNvidiaDriverCRD: false\n    rdma: {enabled: false}\n",
        "machine:\n  kernel:\n    modules:\n      - name: nvidia\n        parameters: [a=1]\n",
        "variant: openshift\nversion: 4.13.0\nstorage:\n  files:\n    - path: /a\n      mode: 0644\n"
        "      contents:\n        inline: a\n",
        "#cloud-config\nwrite_files:\n  - path: /a\n    permissions: '0644'\n",
        "NCCL_NET_GDR_LEVEL=PHB\nkind: x\n",
        "NCCL_IB_HCA=mlx5_0\nNCCL_IB_DISABLE=0\nNCCL_DMABUF_ENABLE=0\n",
        "kind: Pod\nspec:\n  env:\n    - name: NCCL_NET_GDR_LEVEL\n      value: PHB\n",
        '{"apiVersion": "v1", "kind": "ConfigMap", "data": {"a.conf": "options x y"}}',
    ],
)
def test_valid_files_have_notes_at_most(text):
    assert {fault.severity for fault in found(text).faults} <= {"unreadable", "note"}


def test_a_resource_is_checked_against_the_requested_version():
    text = "apiVersion: nvidia.com/v1alpha1\nkind: NVIDIADriver\nspec:\n  driverType: gpu\n  image: driver\n"
    assert codes(text, "v25.3.4") == []
    assert codes(text) == [(4, "missing-key")]


# -- streams and malicious texts ---------------------------------------------------------------------


def test_each_document_of_a_stream_is_checked_separately():
    text = f"{TALOS}---\nbroken: [\n---\n{INLINE}"
    assert [code for _, code in codes(text)] == [
        "talos-no-peermem", "unreadable", "module-not-on-host", "butane-in-ignition",
    ]  # fmt: skip
    assert [document.kind for document in found(text).documents] == ["MachineConfiguration", "MachineConfig"]


BOMB = "a: &a [x, x]\n" + "".join(
    f"{c}: &{c} [*{p}, *{p}]\n" for p, c in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (BOMB, 1, "'&'"),
        ("a:\n\tb: 1\n", 2, "a tab"),
        ("a: " + "[" * 5000 + "]" * 5000 + "\n", 1, "nested deeper"),
        ("".join(f"{' ' * n}a:\n" for n in range(200)), 65, "nested deeper"),
        ("a: !!python/object/apply:os.system [x]\n", 1, "'!'"),
        ("<<: {a: 1}\nb: 2\n", 1, "merge key"),
        ("a: 'unended\n", 1, "does not end"),
        ("", 1, "no known manifest"),
    ],
)
def test_malicious_yaml_is_rejected_with_a_reason(text, line, words):
    (fault,) = found(text).faults
    assert (fault.severity, fault.line) == ("unreadable", line)
    assert words in fault.seen


def test_bytes_that_are_not_text_are_rejected():
    assert check(b"a: 1\nb: \xff\n", "x").faults[0].line == 2
    assert "bytes" in check(b"x" * ((4 << 20) + 1), "x").faults[0].seen


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_a_manifest_is_checked_in_any_encoding_with_a_mark(encoding):
    """PowerShell writes both. PyYAML reads both, and other readers may not read UTF-16."""
    content = TWICE.encode(encoding)
    assert yaml.safe_load(content) == yaml.safe_load(TWICE)
    assert [fault for fault in check(content, "x").faults if fault.line > 1] == list(found(TWICE).faults)
    assert [fault.code for fault in check(content, "x").faults if fault.line == 1] == (
        ["wrong-value"] if encoding == "utf-16" else []
    )


OPTIONS = "options nvidia NVreg_RegistryDwords=a\noptions nvidia NVreg_RegistryDwords=b\n"


@pytest.mark.parametrize(
    ("content", "seen"),
    [
        (OPTIONS.encode(), [(2, "set-twice")]),
        (OPTIONS.encode("utf-8-sig"), [(1, "wrong-value")]),  # the first line is lost, so nothing is twice
        (f"# gdr\n{OPTIONS}".encode("utf-8-sig"), [(3, "set-twice")]),  # a lost comment does no harm
        (OPTIONS.encode("utf-16"), [(1, "wrong-value")]),
    ],
)
def test_an_encoding_hides_lines_from_modprobe(content, seen):
    faults = check(content, "etc/modprobe.d/nvidia.conf").faults
    assert [(fault.line, fault.code) for fault in faults] == seen


def test_nccl_loses_the_first_line_behind_a_mark():
    text = "NCCL_IB_DISABLE=1\nNCCL_DEBUG=INFO\n"
    assert [fault.code for fault in check(text.encode(), "nccl.conf").faults] == ["ib-disabled-by-env"]
    assert [fault.code for fault in check(text.encode("utf-8-sig"), "nccl.conf").faults] == ["wrong-value"]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32"])
def test_text_with_zero_bytes_is_refused_in_one_line(encoding):
    (fault,) = check(TWICE.encode(encoding), "x").faults
    assert (fault.severity, fault.line) == ("unreadable", 1) and "zero bytes" in fault.seen


@given(st.binary(max_size=300))
def test_any_bytes_give_a_result(content):
    assert isinstance(check(content, "x"), CheckedFile)


WORDS = [
    *("kind: ", "ClusterPolicy", "spec:", "driver:", "rdma:", "machine:", "kernel:", "modules:", "- name: "),
    *("nvidia_peermem", "ignition:", "storage:", "files:", "contents:", "mode: 644", "source: data:,a"),
    *("\n", "\n  ", "\n    ", "{", "}", "[", "]", ": ", '"', "---\n", "#cloud-config\n", "\t"),
]


@given(st.lists(st.sampled_from(WORDS), max_size=30).map("".join))
def test_any_manifest_gives_a_result(text):
    result = found(text)
    assert result.faults or result.documents
    assert all(1 <= fault.line <= text.count("\n") + 1 for fault in result.faults)


@pytest.mark.parametrize(
    "text",
    [
        POLICY + "".join(f"    key{n}: 1\n" for n in range(20_000)),
        "prose\n\n" + "kind: ClusterPolicy\nspec: 1\n\n\n\n\n\n" * 5_000,
    ],
    ids=["one document", "an article"],
)
def test_the_list_of_faults_is_limited(text):
    """A quadratic reader would take minutes for these."""
    assert len(found(text).faults) == MOST_FAULTS == 1000


def test_line_numbers_in_an_article_are_those_of_the_file():
    text = "# How to\r\n\r\nSome words.\r\n\r\n```yaml\r\n" + TALOS.replace("\n", "\r\n") + "```\r\n"
    assert codes(text) == [(10, "talos-no-peermem")]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (
            "This is the patch:\n\napiVersion: nvidia.com/v1\nspec:\n  driver:\n    enabled: true\n",
            "ClusterPolicy",
        ),
        ("#cloud-config\nspec:\n  driver:\n    enabled: true\n", "cloud-config"),
    ],
)
def test_a_patch_in_an_article_is_of_the_kind_that_its_keys_say(text, kind):
    assert [part.manifest.kind for part in recognise(text).parts] == [kind]


def test_the_summary_counts_the_faults_of_each_kind():
    """Two of one kind and one of another."""
    found = check(b"apiVersion: v1\nkind: ConfigMap\nmetadata: [\n", "x.yaml")
    (fault,) = found.faults
    several = structs.replace(found, faults=(fault, fault, structs.replace(fault, severity=SEVERITIES[0])))

    counts = Counter(one.severity for one in several.faults)
    assert all(f"{count} {severity}" in several.summary() for severity, count in counts.items())
    assert len(counts) == 2


@pytest.mark.parametrize(("name", "faults"), [("my-policy", 1), ("nic-cluster-policy", 0)])
def test_the_network_operator_takes_a_policy_of_one_name_alone(name, faults):
    text = (
        f"apiVersion: mellanox.com/v1alpha1\nkind: NicClusterPolicy\nmetadata:\n  name: {name}\nspec: {{}}\n"
    )
    found = check(text.encode(), "policy.yaml").faults
    assert [(one.line, one.path) for one in found] == [(4, "metadata.name")] * faults


@pytest.mark.parametrize(
    "text",
    [
        "driver:\n  rdma:\n    enabled: true\n",  # values of the GPU Operator's chart
        "nfd:\n  enabled: true\noperator:\n  tag: v26.4.1\n",  # of any other
        "{{- if .Values.a }}\nkind: Pod\n{{- end }}\n",  # a template
    ],
)
def test_what_helm_reads_is_not_judged_and_its_output_is_asked_for(text):
    found = check(text.encode(), "values.yaml")
    assert found.worst == "unreadable" and "helm template" in found.faults[0].expected


@pytest.mark.parametrize("text", ["a note\n", "kind: ConfigMap\nmetadata: [\n"])
def test_helm_is_not_named_where_nothing_is_of_helm(text):
    assert "helm" not in str(check(text.encode(), "x.yaml").faults)


OWNED = TWICE.replace("metadata:\n", "metadata:\n  labels:\n    argocd.argoproj.io/instance: gpus\n")


def test_an_object_with_a_fault_names_what_would_revert_its_repair():
    notes = [fault for fault in found(OWNED).faults if fault.code == "managed-elsewhere"]
    assert [(note.line, note.severity) for note in notes] == [(5, "note")]
    assert "Argo CD (application gpus)" in notes[0].seen


def test_an_object_without_a_fault_or_an_owner_has_no_such_note():
    other = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: other\n"
    owned = f"{other}  labels:\n    argocd.argoproj.io/instance: a\n"
    for text in (TWICE, owned, f"{TWICE}---\n{owned}"):
        assert "managed-elsewhere" not in {fault.code for fault in found(text).faults}
