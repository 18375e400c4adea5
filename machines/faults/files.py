"""Faults of module files, of their signatures and of modprobe's configuration."""

from __future__ import annotations

import random
from collections.abc import Callable

from machines.faults.fault import Evidence, Fault
from machines.loading import alone
from machines.machine import Machine


def full(machine: Machine) -> bool:
    """nvidia-peermem is whole, so that something can be wrong with it."""
    state = machine.peermem
    if (
        machine.operator
        or state.damage
        or state.flags
        or state.extra_imports
        or state.signer is not None
        or state.driver_tag
    ):
        return False
    return state.kind == "full" and bool(machine.driver) and machine.platform != "AWS"


def _loads(machine: Machine) -> bool:
    """It can be loaded, or is."""
    return full(machine) and (machine.peermem.loaded or not alone(machine).error)


def _enforced(machine: Machine) -> bool:
    return full(machine) and machine.trust.sig_enforce


def _of_another(machine: Machine) -> bool:
    """The driver's signer is not that of the kernel."""
    assert machine.driver
    return _signed(machine) and machine.driver.signer != machine.distribution.kernel_key


def _locked(machine: Machine) -> bool:
    return full(machine) and machine.trust.name == "lockdown"


def _signed(machine: Machine) -> bool:
    assert machine.driver
    return full(machine) and machine.trust.trusts(machine.driver.signer, machine.builtin)


def _verifiable(machine: Machine) -> bool:
    """The certificate of the signer is in the evidence: those of built-in keys are not."""
    assert machine.driver
    return _signed(machine) and machine.driver.signer in (*machine.trust.mok, *machine.trust.db)


def _own_key(machine: Machine) -> bool:
    assert machine.driver
    signer = machine.driver.signer
    canonical = machine.kernel.distribution.startswith("ubuntu")
    return (
        canonical
        and full(machine)
        and machine.trust.secure_boot
        and signer in (*machine.trust.mok, *machine.trust.db)
    )


def _change(**values: object) -> Callable[[Machine, random.Random], None]:
    """A fault that changes nvidia-peermem's file; it is not loaded then."""

    def plant(machine: Machine, source: random.Random) -> None:
        for name, value in values.items():
            setattr(machine.peermem, name, source.choice(value) if isinstance(value, list) else value)
        machine.peermem.loaded = False

    return plant


def _line(text: str, at_boot: bool = True) -> Callable[[Machine, random.Random], None]:
    """A line in modprobe.d that keeps nvidia-peermem out."""

    def plant(machine: Machine, source: random.Random) -> None:
        machine.modprobe_d.append(text)
        machine.peermem.loaded = False

    return plant


def _modules_disabled(machine: Machine, source: random.Random) -> None:
    machine.modules_disabled, machine.peermem.loaded = True, False


def _kernel_list(machine: Machine, source: random.Random) -> None:
    machine.module_blacklist.append("nvidia_peermem")
    machine.peermem.loaded = False


def _list(machine: Machine, source: random.Random) -> None:
    machine.modprobe_d.append("blacklist nvidia-peermem")
    machine.peermem.loaded = False
    machine.claims.add("module-blacklisted")


def _revoked(machine: Machine, source: random.Random) -> None:
    """The key of the driver is revoked after the driver was loaded: only a load would fail."""
    assert machine.driver
    machine.trust.revoked.append(machine.driver.signer)
    machine.peermem.loaded = False
    machine.claims |= {"module-key-revoked"}


def _mixed(machine: Machine, source: random.Random) -> None:
    """nvidia-peermem bears the key of the kernel itself, the other modules another one."""
    machine.peermem.signer = machine.distribution.kernel_key
    machine.claims.add("mixed-signers")


def _lock_inversion(machine: Machine, source: random.Random) -> None:
    machine.modprobe_d.append("options nvidia-peermem peerdirect_support=1")
    machine.peermem.loaded = machine.peermem.at_boot = True


def _not_loaded(machine: Machine, source: random.Random) -> None:
    machine.peermem.loaded = machine.peermem.at_boot = False
    machine.claims.add("peermem-not-loaded")


def _not_persistent(machine: Machine, source: random.Random) -> None:
    machine.peermem.loaded, machine.peermem.at_boot = True, False


def _redundant(machine: Machine, source: random.Random) -> None:
    machine.peermem.at_boot = True


def _without_nv_peer_mem(machine: Machine) -> bool:
    """Where nv_peer_mem is loaded, nvidia-peermem is not missed."""
    return full(machine) and machine.legacy_client != "loaded"


def _stub(machine: Machine, source: random.Random) -> None:
    """A driver that was built before the OFED was installed, or by the distribution."""
    machine.peermem.kind, machine.peermem.built_against = "stub", machine.inbox_tag
    machine.peermem.loaded = False


def _stub_at_boot(machine: Machine) -> bool:
    return machine.peermem.kind == "stub" and machine.platform != "AWS"


def _blocks_ofed(machine: Machine, source: random.Random) -> None:
    machine.peermem.loaded = machine.peermem.at_boot = True


_ROWS = (
    Fault("peermem file missing", ("module-not-found",), _change(kind="none"), full),
    Fault(
        "install line with false", ("install-override",), _line("install nvidia-peermem /bin/false"), full
    ),
    Fault("install line with true", ("install-override",), _line("install nvidia-peermem /bin/true"), full),
    Fault("on the kernel's list", ("module-blacklisted",), _kernel_list, full),
    Fault("on modprobe's list", ("module-blacklisted",), _list, full),
    Fault("no more modules", ("modules-disabled",), _modules_disabled, full),
    Fault(
        "no number for a parameter",
        ("module-bad-parameter",),
        _line("options nvidia-peermem peerdirect_support=yes"),
        full,
    ),
    Fault(
        "value that peermem refuses",
        ("module-bad-parameter",),
        _line("options nvidia-peermem peerdirect_support=5"),
        full,
    ),
    Fault("altered after signing", ("module-signature-broken",), _change(damage="altered"), _verifiable),
    Fault("key revoked", ("module-key-revoked",), _revoked, _own_key),
    Fault("peermem unsigned", ("module-unsigned",), _change(signer=""), _enforced),
    Fault(
        "peermem signed by a stranger",
        ("module-unknown-key",),
        _change(signer="Somebody's own key"),
        _enforced,
    ),
    Fault(
        "peermem unsigned under lockdown",
        ("lockdown-blocks-module",),
        _change(signer=["", "Somebody's own key"]),
        _locked,
    ),
    Fault(
        "damaged file",
        ("module-corrupt", "module-unsigned", "lockdown-blocks-module"),
        _change(damage=["empty", "truncated", "foreign"]),
        lambda m: full(m) and not m.trust.sig_enforce,
    ),
    Fault(
        "peermem of another flavour",
        ("module-wrong-kernel",),
        _change(flags="SMP mod_unload modversions "),
        full,
    ),
    Fault(
        "symbol of nobody",
        ("module-symbol-missing",),
        _change(extra_imports=("nvidia_p2p_put_rsync_registers",)),
        full,
    ),
    Fault(
        "GPL symbol",
        ("module-symbol-gpl-only",),
        _change(extra_imports=("mmu_interval_notifier_remove",), license="Linux-OpenIB"),
        full,
    ),
    Fault(
        "peermem of another driver",
        ("module-crc-mismatch",),
        _change(driver_tag="nvidia-535.54.03-open"),
        full,
        needs=frozenset({Evidence.RUNNING}),
    ),
    Fault(
        "two signers",
        ("mixed-signers",),
        _mixed,
        _of_another,
    ),
    Fault("legacy PeerDirect", ("lock-inversion",), _lock_inversion, full),
    Fault("peermem not loaded", ("peermem-not-loaded",), _not_loaded, _without_nv_peer_mem),
    Fault("peermem not at boot", ("peermem-not-persistent",), _not_persistent, _loads),
    Fault("stub at boot", ("peermem-redundant", "peermem-stub"), _redundant, _stub_at_boot),
    Fault("stub instead", ("peermem-stub",), _stub, full),
    Fault("peermem holds OFED", ("peermem-blocks-ofed",), _blocks_ofed, lambda m: full(m) and bool(m.ofed)),
)

FAULTS = tuple(row._replace(needs=row.needs | {Evidence.HOST, Evidence.GPU}) for row in _ROWS)
"""All are shown by the host's files, and matter to a GPU."""
