"""The content of a bundle and its manifest."""

from __future__ import annotations

import hashlib
import io
import os
import stat
import tarfile

import pytest

from gdrkit.agent.collect import bundle as bundles
from gdrkit.agent.collect.anonymize import Anonymizer
from gdrkit.agent.collect.version import VERSION
from gdrkit.formats import elf, module_signature
from tests.agent.collect import machine
from tests.agent.collect.machine import BRIDGES, GPU, MODULES, NIC, PORT, SWITCH


def test_the_manifest_has_schema_scope_and_user(collected):
    manifest = collected().manifest

    assert manifest["schema"] == "gdrkit.bundle/1"
    assert manifest["collector"] == VERSION
    assert manifest["kernel"] == machine.RELEASE
    assert manifest["scope"] == "host"
    assert manifest["user"] == ("root" if os.geteuid() == 0 else "other")
    assert manifest["anonymized"] is False


def test_everything_is_in_one_folder_named_after_the_machine(collected):
    (top,) = collected().tops

    assert top.startswith(f"gdr-{machine.HOSTNAME}-20")


def test_only_the_owner_may_read_a_bundle(collected):
    assert stat.S_IMODE(collected().path.stat().st_mode) == 0o600


def test_a_missing_file_is_recorded_as_absent(collected):
    bundle = collected()

    assert bundle.status("boot/config-" + machine.RELEASE) == "absent"
    assert bundle.manifest["folders"]["sys/kernel/mm/memory_peers"] == {"status": "absent"}


def test_a_listing_shows_which_other_names_are_absent(collected):
    names = collected().manifest["folders"]["etc/modprobe.d"]["names"]

    assert names == ["blacklist.conf", "nvidia.conf"]


def test_nothing_below_an_empty_mount_point_is_absent(collected):
    """Nothing is mounted on sys/kernel/security, so lockdown is not known."""
    lockdown = collected().manifest["files"]["sys/kernel/security/lockdown"]

    assert lockdown["status"] == "not-collected"


def test_links_remain_links_and_stay_inside(collected):
    bundle = collected()

    assert bundle.links["lib"] == "usr/lib"
    assert bundle.links["etc/modprobe.d/blacklist.conf"] == "../nvidia/alice/blacklist.conf"
    assert bundle.text("etc/nvidia/alice/blacklist.conf") == "blacklist nouveau\n"
    assert bundle.links[f"sys/bus/pci/devices/{GPU}"].endswith(f"{PORT}/{SWITCH}/{GPU}")
    assert bundle.links[f"{BRIDGES}/{GPU}/driver"] == "../../../../../bus/pci/drivers/nvidia"
    assert not any(target.startswith("/") for target in bundle.links.values())


def test_configuration_space_is_collected_for_cards_and_the_bridges_above_them(collected):
    bundle = collected()
    configs = {path.split("/")[-2] for path in bundle.files if path.endswith("/config")}

    assert configs == {PORT, SWITCH, GPU, NIC}
    assert "sys/devices/pci0000:00/0000:00:1f.0/vendor" in bundle.files


def test_empty_slots_of_the_gid_table_are_left_out(collected):
    bundle = collected()
    gids = f"{BRIDGES}/{NIC}/infiniband/mlx5_0/ports/1/gids"

    assert bundle.manifest["folders"][gids]["names"] == ["0", "1"]
    assert f"{gids}/2" not in bundle.files
    assert bundle.text(gids.replace("gids", "gid_attrs/types/1")) == "RoCE v2\n"


def test_every_copy_of_peermem_is_kept_complete(collected):
    bundle = collected()
    copies = [path for path in bundle.files if path.endswith("nvidia-peermem.ko")]

    assert len(copies) == 2
    assert f"{MODULES}/updates/dkms/nvidia-peermem.ko" in copies
    assert all(bundle.files[path].startswith(machine.PEERMEM) for path in copies)


def test_other_modules_are_reduced_and_can_still_be_verified(collected):
    bundle = collected()
    path = f"{MODULES}/updates/dkms/nvidia.ko"
    entry = bundle.manifest["files"][path]
    length, trailer = module_signature.split(bundle.files[path])

    assert entry["status"] == "reduced"
    assert entry["digests"]["sha256"] == hashlib.sha256(machine.NVIDIA).hexdigest()
    assert entry["content_size"] == len(machine.NVIDIA)
    assert len(bundle.files[path]) < len(machine.NVIDIA) / 10
    assert trailer is not None
    exports = elf.parse(bundle.files[path][:length]).exports()
    assert exports == elf.parse(machine.NVIDIA).exports()


def test_the_digest_that_a_signature_names_is_recorded(collected):
    entry = collected().manifest["files"][f"{MODULES}/kernel/tiny.ko"]

    assert set(entry["digests"]) == {"sha256", "sha512"}


def test_a_module_is_recorded_under_its_linked_path_too(collected):
    files = collected().manifest["files"]

    assert files[f"lib/modules/{machine.RELEASE}/kernel/ib_core.ko"] == files[f"{MODULES}/kernel/ib_core.ko"]


def test_a_broken_module_is_kept_unchanged(collected):
    bundle = collected()

    assert bundle.files[f"{MODULES}/extra/nvidia-drm.ko"] == b"not an ELF file"
    assert bundle.manifest["files"][f"{MODULES}/extra/nvidia-drm.ko"]["why"] == "not a valid ELF file"


def test_unrelated_modules_are_not_collected(collected):
    assert f"{MODULES}/kernel/other.ko" not in collected().files


def test_a_requested_module_is_collected_with_its_dependencies(collected):
    """ours.ko is not in modules.dep, so its dependencies are read from the file."""
    bundle = collected("--module", "ours")

    assert {f"{MODULES}/extra/ours.ko", f"{MODULES}/extra/helper.ko"} <= set(bundle.files)


def test_symbol_tables_keep_what_the_modules_import(collected):
    bundle = collected()
    symvers = f"usr/src/linux-headers-{machine.RELEASE}/Module.symvers"

    assert bundle.text(symvers).splitlines() == [
        "0x1\tmodule_layout\tvmlinux\tEXPORT_SYMBOL\t",
        "0x22\tprintk_there\tvmlinux\tEXPORT_SYMBOL\t",
    ]
    assert bundle.text(f"{MODULES}/modules.symbols") == "alias symbol:printk_there ib_core\n"
    assert bundle.status(symvers) == "reduced"


def test_addresses_of_the_running_kernel_are_not_collected(collected):
    assert collected().text("proc/kallsyms").splitlines() == [
        "0000000000000000 T ib_register_peer_memory_client\t[ib_core]",
        "0000000000000000 r __ksymtab_printk_there",
    ]


def test_aliases_of_other_devices_are_not_collected(collected):
    text = collected().text(f"{MODULES}/modules.alias")

    assert "net-pf-10" in text
    assert "mlx5_core" in text
    assert "e1000e" not in text


def test_only_system_keys_are_collected(collected):
    text = collected().text("proc/keys")

    assert "Debian Secure Boot CA" in text
    assert ".builtin_trusted_keys" in text
    assert "alice_login" not in text


def test_source_trees_of_dkms_are_not_entered(collected):
    bundle = collected()

    assert "var/lib/dkms/nvidia/580.95/source" not in bundle.manifest["folders"]
    assert bundle.links[f"var/lib/dkms/nvidia/kernel-{machine.RELEASE}-x86_64"].endswith("x86_64")


def test_no_command_is_run_for_a_tree(collected):
    assert collected().manifest["commands"] == []


def test_only_users_with_settings_are_listed(collected, root):
    root.file("home/carol/.bashrc", "x")
    bundle = collected()

    assert bundle.manifest["folders"]["home"]["names"] == ["alice", "max"]
    assert bundle.text("home/alice/.nccl.conf") == "NCCL_P2P_LEVEL=PIX\n#\n"
    assert b"carol" not in bundle.everything()


def test_logs_of_other_pods_are_not_collected(collected, root):
    pod = "var/log/pods/gpu-operator_nvidia-driver-daemonset-x_1"
    root.file(f"{pod}/nvidia-peermem-ctr/0.log", "failed to load nvidia-peermem module\n")
    root.file(f"{pod}/other-ctr/0.log", "x")
    root.file("var/log/pods/customer_job_2/main/0.log", "x")
    bundle = collected()

    assert bundle.manifest["folders"]["var/log/pods"]["names"] == [pod.rpartition("/")[2]]
    assert bundle.text(f"{pod}/nvidia-peermem-ctr/0.log") == "failed to load nvidia-peermem module\n"
    assert b"customer" not in bundle.everything()


@pytest.mark.parametrize(
    ("target", "kept"),
    [
        ("nvidia/carol77/a.conf", "nvidia/{name}/a.conf"),
        ("/etc/carol77/a.conf", "/etc/{name}/a.conf"),
        ("../carol77/a.conf", "../{name}/a.conf"),
        ("../carol/a.conf", "../carol/a.conf"),
        ("./carol/a.conf", "./carol/a.conf"),
    ],
)
def test_a_link_leads_to_the_new_name_and_stays_as_it_is_where_nothing_is_renamed(target, kept):
    stream = io.BytesIO()
    anonymizer = Anonymizer([("user", "carol77")])
    bundle = bundles.Bundle(stream, "top", anonymizer)
    bundle.link("etc/a.conf", target)
    bundle.close()
    stream.seek(0)
    with tarfile.open(fileobj=stream) as archive:
        link = archive.getmember("top/etc/a.conf").linkname
    assert link == kept.format(name=anonymizer.path("carol77")) and "carol77" not in link


def test_a_bundle_holds_512_mib_and_no_file_beyond(monkeypatch):
    assert bundles.TOTAL_LIMIT_BYTES == 512 << 20
    monkeypatch.setattr(bundles, "TOTAL_LIMIT_BYTES", 10)
    bundle = bundles.Bundle(io.BytesIO(), "top", None)
    for name, size in (("a", 6), ("b", 5), ("c", 4)):
        bundle.file(name, bytes(size))
    assert {name: note["status"] for name, note in bundle.files.items()} == {
        "a": "found", "b": "truncated", "c": "found",
    }  # fmt: skip


def test_what_a_path_leads_to_is_recorded_for_the_path_too():
    bundle = bundles.Bundle(io.BytesIO(), "top", Anonymizer([("user", "carol77")]))
    bundle.note("etc/carol77/a", "denied", "why")
    bundle.also("lib/a", "etc/carol77/a")
    bundle.also("lib/b", "etc/none")
    bundle.also("lib/c", "lib/c")
    note = {"status": "denied", "why": "why"}
    assert bundle.files == {"etc/user001/a": note, "lib/a": note}


@pytest.mark.parametrize(("before", "begins"), [(0, True), (4096 - 14, True), (4096 - 13, False)])
def test_a_log_that_begins_at_boot_says_so_in_its_first_lines(before, begins):
    bundle = bundles.Bundle(io.BytesIO(), "top", None)
    bundle.file("a", b"x" * before + b"Linux version 6.1.0\n")
    assert [bundle.begins_at_boot(name) for name in ("a", "b")] == [begins, False]
    bundle.file("c", b"[99.0] late\n")
    assert not bundle.begins_at_boot("c")


@pytest.mark.parametrize(
    ("path", "text", "kept"),
    [
        ("etc/a", True, b"(dropped)"),
        ("etc/a", False, b"x"),
        ("lib/modules/6.1/modules.dep", True, b"x"),
        ("proc/modules", True, b"x"),
        ("proc/modules2", True, b"(dropped)"),
    ],
)
def test_secrets_are_removed_from_text_that_is_no_table_of_modules(path, text, kept):
    stream = io.BytesIO()
    bundle = bundles.Bundle(stream, "top", None)
    bundle.file(path, b"wm_key.ko: \npassword=x\n", 17, text=text, why="", size=0, digests={}, head="ab")
    bundle.file(path, b"a second time")
    bundle.link(path, "elsewhere")
    bundle.close(scope="host")
    stream.seek(0)
    with tarfile.open(fileobj=stream) as archive:
        first, manifest = archive.getmembers()
        found = archive.extractfile(first)
        assert found is not None and found.read() == b"wm_key.ko: \npassword=" + kept + b"\n"
    assert (first.name, first.mtime, first.mode, first.uid) == (f"top/{path}", 17, 0o644, 0)
    assert (manifest.name, manifest.mode) == ("top/gdr_manifest.json", 0o644)
    assert bundle.files == {path: {"status": "found", "head": "ab"}}


def test_the_first_reason_counts_and_a_folder_has_its_names_or_a_reason():
    bundle = bundles.Bundle(io.BytesIO(), "top", Anonymizer([("user", "carol77")]))
    bundle.note("a", "absent")
    bundle.note("a", "denied", "why")
    bundle.folder("home", "listed", ["carol77", "root"])
    bundle.folder("etc/carol77", "denied", why="why")
    bundle.folder("b", "listed", [])
    assert bundle.files == {"a": {"status": "absent"}}
    assert bundle.folders == {
        "home": {"status": "listed", "names": ["user001", "root"]}, "b": {"status": "listed", "names": []},
        "etc/user001": {"status": "denied", "why": "why"},
    }  # fmt: skip
