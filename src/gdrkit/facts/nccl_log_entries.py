"""The lines of one log of NCCL's as the entries of an NcclLog. PURE."""

from __future__ import annotations

from gdrkit.facts.nccl_lines import frame, given, record
from gdrkit.facts.nccl_log_types import (
    DeviceLine,
    Failure,
    Leg,
    LogSetting,
    NcclLog,
    Refusal,
    Said,
)
from gdrkit.messages import nccl_records as records


def entries(text: str) -> dict[str, list[object]]:
    """What each line that is understood adds, by the field of NcclLog that it belongs to."""
    found: dict[str, list[object]] = {field: [] for field in NcclLog.__struct_fields__ if field != "path"}
    for number, line in enumerate(text.splitlines(), 1):
        if "NCCL" not in line and "NET/" not in line:
            continue
        who = frame(line)
        said = None if who.cut else record(who.message)
        if said is None:
            found["settings"] += [
                LogSetting(variable.name, variable.value, number, who.process, resolved=False)
                for variable in given(line)
            ]
        elif (made := _made(said, number, who.process)) is not None:
            found[made[0]].append(made[1])
    return found


def _made(said: records.Record, line: int, process: str) -> tuple[str, object] | None:
    """The field of a log that a record belongs to, and its entry there; None for what no rule asks."""
    match said:
        case records.Variable():
            return "settings", LogSetting(said.name, said.value, line, process)
        case records.Leg(via=carried) if carried.kind in ("net", "collnet"):
            return "legs", Leg(said.direction, carried.network, carried.gdr, line)
        case records.NetDevice():
            network = f"{said.network} ({said.how})" if said.how else said.network
            return "devices", DeviceLine(network, said.device, said.enabled, line)
        case records.PairLine(allowed=False, distance=int() as distance, level=int() as level):
            return "refusals", Refusal(said.gpu, said.hca, distance, level, line)
        case records.Failure():
            failed = Failure(said.call, said.number, said.text, line, said.vendor_error)
            return "failures", failed
        case records.Rings():
            text = f"Connected all rings, use ring PXN {said.pxn:d} GDR {said.gdr:d}"
            return "rings", Said(text, line, process)
        case records.Network(name=name):
            return "networks", Said(name, line, process)
    field = _TEXTS.get(type(said))
    return None if field is None else (field, Said(getattr(said, "text"), line, process))  # noqa: B009


_TEXTS: dict[type, str] = {
    records.Version: "versions",
    records.MixedVersions: "mixed_versions",
    records.Plugin: "plugins",
    records.DmabufGpu: "dmabuf_gpus",
    records.NoVerbs: "no_verbs",
}
"""Records that are kept as the words of their line, and where."""
