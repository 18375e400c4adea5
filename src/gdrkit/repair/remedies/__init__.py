"""All remedies, in the order of RemedyName."""

from __future__ import annotations

from collections.abc import Mapping

from gdrkit.repair.remedies.driver import (
    allow_peer_mapping,
    allow_topology,
    create_channel,
    load_driver,
    open_modules,
    reboot,
    remove_legacy,
    use_dmabuf,
)
from gdrkit.repair.remedies.fabric import (
    disable_redirect,
    enlarge_bar,
    large_requests,
    passthrough,
    power_cycle,
)
from gdrkit.repair.remedies.kernel_upgrade import build_for_kernel
from gdrkit.repair.remedies.modules import (
    allow_module,
    install_ofed,
    load_peermem,
    persist_peermem,
    rebuild_driver,
    sign_module,
)
from gdrkit.repair.remedies.ofed_restart import restart_ofed
from gdrkit.repair.remedies.programs import (
    give_devices,
    mooncake_dmabuf,
    mooncake_peermem,
    upgrade_nvshmem,
    upgrade_ucx,
)
from gdrkit.repair.remedies.rdma import clean_settings, raise_memlock, upgrade_nccl, upgrade_verbs
from gdrkit.repair.remedies.remedy import Remedy

REMEDIES: tuple[Remedy, ...] = (
    build_for_kernel,
    load_driver,
    reboot,
    power_cycle,
    use_dmabuf,
    open_modules,
    upgrade_verbs,
    upgrade_nccl,
    sign_module,
    allow_module,
    install_ofed,
    restart_ofed,
    rebuild_driver,
    remove_legacy,
    load_peermem,
    persist_peermem,
    allow_topology,
    disable_redirect,
    passthrough,
    enlarge_bar,
    raise_memlock,
    large_requests,
    allow_peer_mapping,
    create_channel,
    mooncake_dmabuf,
    mooncake_peermem,
    upgrade_nvshmem,
    upgrade_ucx,
    give_devices,
    clean_settings,
)
BY_NAME: Mapping[str, Remedy] = {remedy.name: remedy for remedy in REMEDIES}
