"""What writes an object of Kubernetes again when somebody else changes it, by its labels and annotations.

Sources: Argo CD, Resource Tracking; Flux, Kustomization and HelmRelease, labels of the inventory; Terraform
provider kubernetes, kubernetes_manifest, field_manager; Helm pkg/action/validate.go, releaseName annotation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from gdrkit.formats.regex import regex

_IS = r"\"?(?:: ?|=)\"?"
_NAME = r"(?P<name>[A-Za-z0-9][\w.-]{0,62})"
_SIGNS: tuple[tuple[re.Pattern[str], str, str, str], ...] = (
    (
        regex(rf"\bargocd\.argoproj\.io/(?:instance|tracking-id){_IS}{_NAME}"),
        "Argo CD", "application", "in the source of that application: the next sync reverts a direct edit",
    ),
    (
        regex(rf"\b(?:kustomize|helm)\.toolkit\.fluxcd\.io/name{_IS}{_NAME}"),
        "Flux", "source", "in that source: the next reconciliation reverts a direct edit",
    ),
    (
        regex(rf"\b(?:app\.kubernetes\.io/managed-by|manager){_IS}[Tt]erraform\b(?P<name>)"),
        "Terraform", "", "in its configuration: the next apply reverts a direct edit",
    ),
    (
        regex(rf"\bmeta\.helm\.sh/release-name{_IS}{_NAME}"),
        "Helm", "release", "in the values of that release: the next upgrade reverts a direct edit",
    ),
)  # fmt: skip
"""The sign, whose it is, what its name is the name of, and where to make a change. The first one that an
object has decides: Argo CD and Flux write the labels of Helm as well."""


class Owner(Struct, frozen=True):
    """What manages an object."""

    who: str  # Argo CD (application gpu-operator)
    where: str  # where a change has to be made, and why
    at: int  # the position of the line that shows it

    @property
    def sentence(self) -> str:
        """What to mind about a change."""
        return f"{self.who} manages this object: make the change {self.where}."


def owner_of(lines: Iterable[str]) -> Owner | None:
    """What manages the object of some lines; None if nothing shows it."""
    every = list(lines)
    for sign, who, what, where in _SIGNS:
        for at, line in enumerate(every):
            if found := sign.search(line):
                name = f" ({what} {found['name']})" if found["name"] else ""
                return Owner(f"{who}{name}", where, at)
    return None
