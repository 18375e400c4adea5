"""The pods that an object runs: one in a Pod, a template in a Deployment, several in an MPIJob.

They are found by their shape, not by the kind of the object: a mapping with a list of containers. So the
templates of an operator that is not known here are found too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from gdrkit.formats.regex import regex
from gdrkit.formats.yaml_values import Scalar, Value, YamlMapping, YamlSequence, at, items_at, text_at

GPU = "nvidia.com/gpu"
_GPUS = regex(r"(?:nvidia|amd)\.com/(?:gpu|mig-|pgpu).*")
_RDMA = regex(r"rdma/.+")
"""Resources of k8s-rdma-shared-dev-plugin, README: its default prefix. Those of the SR-IOV plugin have any
prefix and name, so that they tell nothing."""
EFA = "vpc.amazonaws.com/efa"
INFINIBAND, SHM = "/dev/infiniband", "/dev/shm"


class Container(Struct, frozen=True):
    """One container of a pod, with the path of its keys in the object."""

    path: str
    value: YamlMapping
    pod: Pod

    def resources(self, kind: str) -> dict[str, Scalar]:
        """The `limits` or the `requests`: quantities by their names."""
        found = at(self.value, "resources", kind)
        entries = found.entries if isinstance(found, YamlMapping) else ()
        return {entry.key: entry.value for entry in entries if isinstance(entry.value, Scalar)}

    @property
    def devices(self) -> tuple[str, ...]:
        """The extended resources that it asks for: devices of a plugin, GPUs included."""
        names = {**self.resources("limits"), **self.resources("requests")}
        return tuple(name for name in names if is_extended(name))

    @property
    def gpus(self) -> int:
        """How many GPUs it asks for, 1 for a share of one; 0 where that is not a number."""
        limit = self.resources("limits").get(GPU)
        if limit is not None:
            return int(limit.text) if re.fullmatch(r"[0-9]{1,3}", limit.text) else 0
        return int(any(_GPUS.fullmatch(name) for name in self.devices))

    @property
    def other_devices(self) -> tuple[str, ...]:
        """What it asks for besides GPUs. A name tells only of shared RDMA devices what they are."""
        return tuple(name for name in self.devices if not _GPUS.fullmatch(name))

    @property
    def is_given_rdma(self) -> bool:
        """Whether it certainly gets RDMA devices: shared ones, or those of the host by a path."""
        shared = any(_RDMA.fullmatch(name) for name in self.devices)
        return shared or self.host_path(INFINIBAND)

    @property
    def is_privileged(self) -> bool:
        return text_at(self.value, "securityContext", "privileged") == "true"

    @property
    def capabilities(self) -> tuple[Scalar, ...]:
        added = items_at(self.value, "securityContext", "capabilities", "add")
        return tuple(item for item in added if isinstance(item, Scalar))

    @property
    def user(self) -> str:
        """The user that the manifest sets; "" where the image decides."""
        own = text_at(self.value, "securityContext", "runAsUser")
        return own or text_at(self.pod.spec, "securityContext", "runAsUser")

    def mounted(self, path: str) -> Value | None:
        """The volume that is mounted at a path; None without one, or if the manifest does not declare it."""
        for mount in items_at(self.value, "volumeMounts"):
            if text_at(mount, "mountPath").rstrip("/") == path:
                return self.pod.volume(text_at(mount, "name"))
        return None

    def has_mount(self, path: str) -> bool:
        mounts = items_at(self.value, "volumeMounts")
        return any(text_at(mount, "mountPath").rstrip("/") == path for mount in mounts)

    def host_path(self, path: str) -> bool:
        """Whether a folder of the host is mounted that is this one or holds it."""
        for mount in items_at(self.value, "volumeMounts"):
            volume = self.pod.volume(text_at(mount, "name"))
            given = text_at(volume, "hostPath", "path").rstrip("/")
            if given and (given == path or path.startswith(f"{given}/")):
                return True
        return False


class Pod(Struct, frozen=True):
    """One pod, or the template of pods, with the path of its spec in the object."""

    path: str
    spec: YamlMapping
    annotations: tuple[str, ...] = ()

    def volume(self, name: str) -> Value | None:
        """The declared volume of a name."""
        volumes = items_at(self.spec, "volumes")
        return next((item for item in volumes if name and text_at(item, "name") == name), None)

    @property
    def has_host_network(self) -> bool:
        return text_at(self.spec, "hostNetwork") == "true"

    @property
    def has_more_networks(self) -> bool:
        """Whether something besides the cluster's network gives it interfaces: Multus, GKE, a claim."""
        named = any("network" in name or "interface" in name for name in self.annotations)
        return named or at(self.spec, "resourceClaims") is not None

    def containers(self) -> Iterator[Container]:
        for kind in ("initContainers", "containers"):
            for number, item in enumerate(items_at(self.spec, kind)):
                if isinstance(item, YamlMapping):
                    yield Container(f"{self.path}.{kind}.{number}", item, self)


def is_extended(resource: str) -> bool:
    """Whether a resource is a plugin's: Kubernetes pkg/apis/core/v1/helper, IsExtendedResourceName()."""
    domain, slash, _ = resource.partition("/")
    return bool(slash) and not domain.endswith("kubernetes.io") and not domain.startswith("requests.")


def pods_of(value: Value, path: tuple[str, ...] = ()) -> Iterator[Pod]:
    """The pods of an object, in the order of its lines."""
    if isinstance(value, YamlSequence):
        for number, item in enumerate(value.items):
            if not isinstance(item, Scalar):
                yield from pods_of(item, (*path, str(number)))
    elif isinstance(value, YamlMapping):
        spec = at(value, "spec")
        if isinstance(spec, YamlMapping) and _has_containers(spec):
            noted = at(value, "metadata", "annotations")
            names = tuple(entry.key for entry in noted.entries) if isinstance(noted, YamlMapping) else ()
            yield Pod(".".join((*path, "spec")), spec, names)
            return
        for entry in value.entries:
            if not isinstance(entry.value, Scalar):
                yield from pods_of(entry.value, (*path, entry.key))


def _has_containers(spec: YamlMapping) -> bool:
    found = at(spec, "containers")
    return isinstance(found, YamlSequence) and all(isinstance(item, YamlMapping) for item in found.items)
