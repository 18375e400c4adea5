"""The settings of programs that hold in a container: its own, and what its object gives to each of its pods.

A leader and its workers have templates of their own: what only one of them sets does not hold in the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from gdrkit.facts.assignments import literal
from gdrkit.facts.kubernetes import Manifest, settings_of
from gdrkit.formats.regex import regex
from gdrkit.formats.yaml_values import at, scalars, text_at
from gdrkit.repair.config.workloads import Container, pods_of

_LAUNCHER = regex(r"^[^#\n]{0,1000}?(?<![\w-])(?:mpirun|mpiexec)(?![\w-])", re.MULTILINE)
_OF_MPI = regex(
    r"^[^#\n]{0,1000}?\b(?:(?:OMPI|PMIX)_MCA_\w+=|srun\b[^#\n]{0,400} --mpi[= ]pm)", re.MULTILINE
)
"""A setting of Open MPI, or srun with an interface of MPI, which starts a job in place of mpirun."""
PASSING_ALL = ("Intel", "MPICH")
"""mpiImplementation of an MPIJob whose launcher gives its ranks its whole environment: Hydra, -envall."""


def runs_mpi(text: str) -> bool:
    """Whether a text starts a job by MPI, whose own messages need no GPU memory."""
    if "mpi" not in text and "_MCA_" not in text and "srun" not in text:  # asked of every value of a file
        return False
    return any(pattern.search(text) is not None for pattern in (_LAUNCHER, _OF_MPI))


def container_settings(container: Container, shared: Mapping[str, str]) -> dict[str, str]:
    """The settings that hold in a container. `shared`: those of each pod of its object."""
    return {**shared, **_named(container)}


def shared_settings(manifest: Manifest) -> dict[str, str]:
    """The settings of each pod of an object: those outside of its pods, such as the runtime environment of a
    RayJob, and those that MPI passes on from the pod that runs it."""
    pods = tuple(pods_of(manifest.value))
    own = {one for pod in pods for one in settings_of(pod.spec)}
    every = literal(one for one in settings_of(manifest.value) if one not in own)
    found = {name: value for _, name, value, _ in every}
    passes_all = text_at(manifest.value, "spec", "mpiImplementation") in PASSING_ALL
    for pod in pods:
        for container in pod.containers():
            found.update(_passed_on(container, passes_all=passes_all))
    return found


def _named(container: Container) -> dict[str, str]:
    return {name: value for _, name, value, _ in literal(settings_of(container.value))}


def _passed_on(container: Container, *, passes_all: bool) -> Iterator[tuple[str, str]]:
    """What a container that runs MPI gives to the ranks: what its command assigns, and the variables of its
    own that the command names. Open MPI passes nothing else: mpirun(1), -x."""
    command = [one.text for key in ("command", "args") for one in scalars(at(container.value, key))]
    if not any(_LAUNCHER.search(text) for text in command):
        return
    words = set(" ".join(command).split())
    for _, name, value, key in literal(settings_of(container.value)):
        if passes_all or key in ("command", "args") or name in words:
            yield name, value
