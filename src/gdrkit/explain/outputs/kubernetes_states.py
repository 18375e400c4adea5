"""What kubectl shows of objects of Kubernetes that are as they should be, and what a node offers pods.

Sources: kubernetes pkg/printers and kubectl/pkg/describe; core/v1 types.go, PodPhase and NodeConditionType;
gpu-operator api/nvidia/v1/clusterpolicy_types.go and network-operator api/v1alpha1, State.
"""

from __future__ import annotations

from collections.abc import Iterator

from gdrkit.explain.explanation import KnownFact
from gdrkit.explain.lines.transcript import TextLine
from gdrkit.formats.plural import plural
from gdrkit.formats.regex import regex

PODS, OBJECTS, OFFERED = "pods of the operators", "objects of Kubernetes", "resources of a node"


def kubernetes_facts(shown: list[TextLine]) -> Iterator[KnownFact]:
    """What a text shows of pods and other objects, if all of them are ready, and of a node's resources."""
    facts = tuple(_of_pods(shown))
    yield from facts or _of_objects(shown)
    yield from _of_resources(shown)


_POD = regex(
    r"\s*(?:[\w-]{1,60} +)?(?:nvidia-|mofed-|rdma-|gpu-operator-|network-operator-|gpu-feature-)"
    r"[\w.-]{3,80} +(?P<ready>\d{1,3})/(?P<all>\d{1,3}) +(?P<state>[A-Z][\w:/]{2,40}) +\d"
)
_RESOURCE = regex(
    r"\s*(?P<name>nvidia\.com/gpu|(?:rdma|openshift\.io)/[\w.-]{1,60}|vpc\.amazonaws\.com/efa): +"
    r"(?P<count>[1-9]\d{0,6}k?)$"
)
"""Rows of `kubectl get pods` and `kubectl describe node`: kubernetes pkg/printers, kubectl/pkg/describe."""


def _of_pods(shown: list[TextLine]) -> Iterator[KnownFact]:
    """That every pod of NVIDIA's operators runs that a table shows."""
    rows = [(line, found) for line in shown if (found := _POD.match(line.text))]
    well = (
        one["state"] == "Completed" or (one["state"] == "Running" and one["ready"] == one["all"])
        for _, one in rows
    )
    if rows and all(well):
        line = rows[0][0]
        yield KnownFact(
            PODS,
            f"{plural(len(rows), 'pod')} of NVIDIA's operators, all of which run",
            line.number,
            line.text.strip(),
        )


def _of_resources(shown: list[TextLine]) -> Iterator[KnownFact]:
    """That a node offers GPUs and a resource of its network."""
    offers = {
        found["name"]: (line, found["count"]) for line in shown if (found := _RESOURCE.match(line.text))
    }
    if "nvidia.com/gpu" in offers and len(offers) > 1:
        line, _ = offers["nvidia.com/gpu"]
        counts = ", ".join(f"{name} {count}" for name, (_, count) in offers.items())
        yield KnownFact(OFFERED, f"a node that offers pods {counts}", line.number, line.text.strip())


_TITLES = regex(r"(?:NAMESPACE {2,})?NAME {2,}(?=.*\b(?:STATUS|READY)\b).*\bAGE\b")
_APART = regex(r" {2,}|\t")
MOST_CELLS = 16
WELL = frozenset(("running", "completed", "succeeded", "ready", "active", "bound", "available"))


def _of_rows(shown: list[TextLine]) -> Iterator[tuple[TextLine, bool]]:
    """Each row of the tables of `kubectl get`, and whether its object is ready."""
    titles: list[str] = []
    for line in shown:
        text = line.text.strip()
        cells = _APART.split(text, MOST_CELLS)
        if _TITLES.match(text):
            titles = cells
        elif not text or line.kind == "typed":
            titles = []
        elif titles and len(cells) > 2:
            row = dict(zip(titles, cells, strict=False))
            yield line, _is_ready(row)


def _is_ready(row: dict[str, str]) -> bool:
    ready, state = row.get("READY", ""), row.get("STATUS", "running").lower()
    some, _, every = ready.partition("/")
    whole = every or row.get("DESIRED", some)  # of the pods of a DaemonSet, or of the containers of a pod
    return state in WELL and (some == whole or state in ("completed", "succeeded"))


_KIND = regex(r"\s*(?:- )?\s*[Kk]ind: +[A-Z]\w{2,60}$|Node: +\S{1,80}/[\d.:a-f]{3,40}$")
_STATE = regex(
    r"\s*(?:- )?(?:[Ss]tate: +(?P<state>[a-z]\w{3,20})|(?:phase|syncStatus): +(?P<phase>[A-Z]\w{3,20})"
    r"|Status: +(?P<status>(?!True|False)[A-Z][a-z]{5,20})|[Rr]eady: +(?P<is_ready>[Tt]rue|[Ff]alse)"
    r"|Ready {2,}(?P<condition>True|False|Unknown)|(?P<waits>waiting:|Waiting|terminated:))$"
)
"""The state of an object: in YAML, in JSON without quotation marks, or as `kubectl describe` prints it."""
_CONDITION = regex(r"\s*(?:- )?[Ss]tatus: +True$")
_OF_READY = regex(r"\s*(?:- )?[Tt]ype: +Ready$")
_PASSED = frozenset((*WELL, "ignore", "true"))


def _of_records(shown: list[TextLine]) -> Iterator[tuple[TextLine, bool]]:
    """Each state in objects that are shown whole, and whether it is as it should be. Of a condition, the
    status is in the line above its type."""
    texts = [line.text.replace('"', "").rstrip(", {") for line in shown]
    if not any(map(_KIND.match, texts)):
        return
    for line, above, text in zip(shown, ["", *texts], texts, strict=False):
        if found := _STATE.match(text):
            yield line, found[found.lastgroup or 0].lower() in _PASSED
        elif _OF_READY.match(text):
            yield line, _CONDITION.match(above) is not None


def _of_objects(shown: list[TextLine]) -> Iterator[KnownFact]:
    """That all objects of a text are ready."""
    states = [*_of_rows(shown), *_of_records(shown)]
    if states and all(well for _, well in states):
        line = states[0][0]
        yield KnownFact(
            OBJECTS, "every object of Kubernetes that it shows is ready", line.number, line.text.strip()
        )
