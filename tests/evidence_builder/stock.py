"""The modules of a node: in-tree, OFED's, NVIDIA's, and which copies are loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.evidence_builder import install as installed
from tests.evidence_builder import modules
from tests.evidence_builder.install import Build
from tests.evidence_builder.modules import Kernel


def kernel_of(spec: Mapping[str, Any]) -> Kernel:
    """The properties of this node's kernel that determine its modules."""
    held = spec["kernel"]
    return Kernel(
        held["release"],
        held.get("arch", "x86_64"),
        held.get("dmabuf", True),
        held.get("odp", True),
        held.get("namespaces", True),
    )


_IN_MEMORY = {"root": "run/replaced", "memory_only": True}
"""A build that is loaded, whose files are gone."""


def builds(spec: Mapping[str, Any]) -> tuple[list[Build], set[str]]:
    """Every module file of the node, and the names of those that are loaded."""
    shape = kernel_of(spec)
    held, stack, gpu = spec["kernel"], spec.get("rdma", {}), spec.get("driver", {})
    running = {*stack.get("loaded", []), *gpu.get("loaded", [])}
    inbox = modules.rdma_shapes(shape, stack.get("inbox_peer_api", ""))
    found = installed.intree(inbox, shape, held.get("signer", ""), held.get("compress", ""))
    client = stack.get("inbox_peer_api", "")
    if stack.get("ofed"):
        client = stack["peer_api"]
        found += _ofed(shape, stack)
    if stack.get("running"):
        found += _ofed(shape, {**stack, "ofed": stack["running"], **_IN_MEMORY})
    if gpu:
        found += _nvidia(shape, gpu, gpu.get("peermem_client", client))
    if gpu.get("running"):
        found += _nvidia(shape, {**gpu, "version": gpu["running"], **_IN_MEMORY}, client)
    for extra in spec.get("module", []):
        found.append(_extra(shape, extra, client, gpu))
        if extra.get("loaded"):
            running.add(extra["name"])
    ours = stack.get("loaded_from", "ofed" if stack.get("ofed") or stack.get("running") else "inbox")
    marked = [_mark(build, running, ours, inbox, spec) for build in found]
    old = {build.shape.name for build in marked if build.loaded and build.root == _IN_MEMORY["root"]}
    return [
        build._replace(loaded=False) if build.shape.name in old and not build.root else build
        for build in marked
    ], running


def _ofed(shape: Kernel, stack: Mapping[str, Any]) -> list[Build]:
    shapes = modules.rdma_shapes(shape._replace(dmabuf=True, odp=True), stack["peer_api"], stack["ofed"])
    layout = stack["layout"]
    return [
        Build(
            made,
            layout if layout == "updates/dkms" else f"{layout}/{_ofed_folder(name)}",
            f"ofed-{stack['ofed']}",
            stack.get("signer", ""),
            stack.get("compress", ""),
            root=stack.get("root", ""),
            memory_only=stack.get("memory_only", False),
        )
        for name, made in shapes.items()
    ]


def _ofed_folder(name: str) -> str:
    if name == "mlx_compat":
        return "compat"
    return installed.INTREE.get(name, "kernel/drivers/infiniband/core").removeprefix("kernel/")


def _mark(
    build: Build, running: set[str], ours: str, inbox: Mapping[str, Any], spec: Mapping[str, Any]
) -> Build:
    """Whether this copy is the one that is loaded, and whether the kernel trusts its signer."""
    keys = spec.get("trust", {})
    trusted = {*keys.get("builtin", []), *keys.get("mok", []), *keys.get("db", [])}
    untrusted = build.signer not in trusted
    loaded = build.shape.name in running
    if build.shape.name in inbox or build.shape.name == "mlx_compat":
        is_ofed = build.build.startswith("ofed-")
        loaded = loaded and is_ofed == (ours == "ofed")
    users = spec.get("users", {}).get(build.shape.name, 0)
    size = spec.get("sizes", {}).get(build.shape.name, build.shape.size)
    build = build._replace(shape=build.shape._replace(size=size))
    return build._replace(loaded=loaded, trusted=not untrusted, users=users)


def _nvidia(shape: Kernel, gpu: Mapping[str, Any], client: str) -> list[Build]:
    version = gpu["version"]
    shapes = modules.nvidia_shapes(shape, version, gpu["flavour"], gpu.get("peermem", "stub"), client)
    skipped = set(gpu.get("without", []))
    prefix = gpu.get("file_prefix", "")
    builds = []
    for name, made in shapes.items():
        if name in skipped:
            continue
        build = Build(
            made,
            gpu["folder"],
            gpu.get("build", f"nvidia-{version}"),
            gpu.get("signer", ""),
            gpu.get("compress", ""),
            file_name=_renamed(prefix, name) if prefix else "",
            root=gpu.get("root", ""),
            memory_only=gpu.get("memory_only", False),
        )
        if name == "nvidia_peermem":
            build = build._replace(
                signer=gpu.get("peermem_signer", build.signer),
                against=gpu.get("peermem_against", {}),
                shape=made._replace(version=gpu.get("peermem_version", version)),
                broken=gpu.get("peermem_broken", ""),
                release=gpu.get("peermem_release", ""),
            )
        builds.append(build)
    return builds


def _renamed(prefix: str, name: str) -> str:
    """Debian's names: nvidia-current.ko, nvidia-current-uvm.ko."""
    rest = name.removeprefix("nvidia").replace("_", "-")
    return f"{prefix}{rest}.ko"


def _extra(shape: Kernel, extra: Mapping[str, Any], client: str, gpu: Mapping[str, Any]) -> Build:
    made = modules.legacy_shape(shape, extra["version"], client)
    return Build(
        made,
        extra["folder"],
        f"{extra['name']}-{extra['version']}",
        extra.get("signer", ""),
        extra.get("compress", ""),
    )
