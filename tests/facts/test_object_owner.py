"""What manages an object of Kubernetes, by its labels and annotations."""

from __future__ import annotations

import pytest

from gdrkit.facts.object_owner import owner_of


@pytest.mark.parametrize(
    ("line", "who"),
    [
        ("    argocd.argoproj.io/instance: gpu-operator", "Argo CD (application gpu-operator)"),
        (
            "  argocd.argoproj.io/tracking-id: gpus:nvidia.com/ClusterPolicy:gpus/a",
            "Argo CD (application gpus)",
        ),
        ("Labels:       argocd.argoproj.io/instance=gpus", "Argo CD (application gpus)"),
        ('    "kustomize.toolkit.fluxcd.io/name": "infra",', "Flux (source infra)"),
        ("    helm.toolkit.fluxcd.io/name: gpu-operator", "Flux (source gpu-operator)"),
        ("    app.kubernetes.io/managed-by: Terraform", "Terraform"),
        ("  - apiVersion: nvidia.com/v1\n    manager: Terraform", "Terraform"),
        ("    meta.helm.sh/release-name: gpu-operator", "Helm (release gpu-operator)"),  # gpu-operator#2150
    ],
)
def test_the_owner_is_named_by_its_sign(line: str, who: str):
    found = owner_of(["metadata:", *line.split("\n")])
    assert found is not None and found.who == who
    assert "reverts a direct edit" in found.sentence


@pytest.mark.parametrize(
    "line",
    [
        "    app.kubernetes.io/managed-by: Helm",  # helm template writes it too
        "    app.kubernetes.io/instance: gpu-operator",  # of Argo CD, of Helm, or of a person
        "    manager: kubectl-client-side-apply",
        "    manager: gpu-operator",
        "    note: see terraform",
    ],
)
def test_what_others_write_as_well_shows_no_owner(line: str):
    assert owner_of(["metadata:", line]) is None


def test_argo_cd_decides_where_helm_made_the_manifests():
    lines = ["meta.helm.sh/release-name: a", "argocd.argoproj.io/instance: b"]
    found = owner_of(lines)
    assert found is not None and (found.who, found.at) == ("Argo CD (application b)", 1)
