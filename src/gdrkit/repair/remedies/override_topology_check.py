"""The driver maps GPU memory regardless of the PCIe topology."""

from __future__ import annotations

from collections.abc import Mapping

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts.driver import driver_parameters
from gdrkit.node import Node
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.driver_options import loaded_with, set_options
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.remedy_names import RemedyName

TOPOLOGY_CHECK = "GrdmaPciTopoCheckOverride"


def _options(node: Node) -> Mapping[str, str]:
    """The kernel ignores an option that the driver does not have: it is in 570.86.15 to 595.45.04, and gone
    from 595.91.07 and 615.71.09 (open-gpu-kernel-modules kernel-open/nvidia/nv-reg.h; NVIDIA/aicr pull
    request 2459). The loaded driver lists those that it has."""
    if TOPOLOGY_CHECK not in driver_parameters(node):
        raise EvidenceMissing(
            Missing(f"NVreg_{TOPOLOGY_CHECK}", MissingReason.ABSENT, "this driver has no such option")
        )
    return {TOPOLOGY_CHECK: "1"}


OVERRIDE_TOPOLOGY_CHECK = Remedy(
    name=RemedyName.OVERRIDE_TOPOLOGY_CHECK,
    title="set NVreg_GrdmaPciTopoCheckOverride=1",
    effect=loaded_with(_options),
    changes=Change.OPTION,
    becomes="the driver maps GPU memory for this NIC without checking the PCIe topology",
    risk="NVIDIA distrusts this chipset: data may be corrupted; better move the NIC below the GPU's switch",
    undo="remove the option from /etc/modprobe.d and reboot",
    needs_reboot=True,
    procedure=set_options(
        RemedyName.OVERRIDE_TOPOLOGY_CHECK,
        _options,
        "the driver maps GPU memory regardless of the PCIe topology",
    ),
    driver_options=_options,
)
