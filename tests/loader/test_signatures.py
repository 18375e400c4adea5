"""Predicted refusals because of signatures and lockdown, and lines about digests."""

from __future__ import annotations

import pytest

from gdrkit.evidence import Confidence
from gdrkit.node import Node
from tests.facts.test_trust import MOK, OTHER, PLAIN, altered, secured
from tests.kernel_tree import KernelTree
from tests.known_answers import modprobe
from tests.loader.shared import could_not
from tests.memory_host import MemoryHost
from tests.module_builder import RELEASE, append_signature, sign


@pytest.mark.parametrize(
    ("content", "error", "line", "reason"),
    [
        (PLAIN, "Key was rejected by service", "Loading of unsigned module is rejected", "module-unsigned"),
        (
            sign(PLAIN, OTHER),
            "Key was rejected by service",
            "Loading of module with unavailable key is rejected",
            "module-unknown-key",
        ),
        (altered(sign(PLAIN, MOK)), "Key was rejected by service", "", "module-signature-broken"),
        (append_signature(PLAIN, b"x", length=10**6), "Bad message", "", "module-signature-broken"),
        (
            append_signature(PLAIN, b"x", algorithm=1),
            "Bad message",
            "module: PKCS#7 signature info has unexpected non-zero params",
            "module-signature-broken",
        ),
        (
            b"garbage " * 50,
            "Key was rejected by service",
            "Loading of unsigned module is rejected",
            "module-unsigned",
        ),
    ],
)
def test_enforced_signatures_are_checked_first(content: bytes, error: str, line: str, reason: str) -> None:
    found = modprobe(secured().module("x", content=content).node(), "x")
    assert (found.stderr, found.kernel_log) == (could_not(error), (line,) if line else ())
    assert (found.reason, found.exit_code) == (reason, 1)


def test_an_unsupported_kind_of_signature_has_one_more_line() -> None:
    content = append_signature(PLAIN, b"x" * 40, id_type=1)
    found = modprobe(secured().module("x", content=content).node(), "x")
    assert found.kernel_log == (
        "module: not signed with expected PKCS#7 message",
        "Loading of module with unsupported crypto is rejected",
    )


def aged(tree: KernelTree) -> Node:
    """The same machine with Linux 5.3: only its release, of equal length, is another."""
    host = tree.node().host
    assert isinstance(host, MemoryHost)

    new = RELEASE.replace("6.1", "5.3")
    files = {
        path.replace(RELEASE, new): content.replace(RELEASE.encode(), new.encode())
        for path, content in host.files.items()
    }
    return Node(MemoryHost(files, complete=True))


@pytest.mark.parametrize(
    ("content", "error", "reason"),
    [
        (PLAIN, "Required key not available", "module-unsigned"),
        (sign(PLAIN, OTHER), "Required key not available", "module-unknown-key"),
        (append_signature(PLAIN, b"x" * 40, id_type=1), "Package not installed", "module-unknown-key"),
        (append_signature(PLAIN, b"x", length=10**6), "Bad message", "module-signature-broken"),
    ],
)
def test_before_5_4_the_error_of_the_check_is_returned_and_nothing_logged(
    content: bytes, error: str, reason: str
) -> None:
    """Linux 49fcf732bdae ("lockdown: Enforce module signatures if the kernel is locked down")."""
    found = modprobe(aged(secured().module("x", content=content)), "x")
    assert (found.stderr, found.kernel_log, found.reason) == (could_not(error), (), reason)
    likely = Confidence.CERTAIN if error == "Bad message" else Confidence.LIKELY
    assert found.confidence is likely


def test_before_5_4_an_unsupported_signature_is_open_where_none_is_enforced() -> None:
    tree = KernelTree().module("x", content=append_signature(PLAIN, b"x" * 40, id_type=1))
    assert "module-unknown-key" in modprobe(aged(tree), "x").unless
    assert "module-unknown-key" not in modprobe(tree.node(), "x").unless


def test_a_broken_signature_of_a_trusted_key_is_refused_without_enforcement() -> None:
    tree = secured().module("x", content=altered(sign(PLAIN, MOK)))
    tree.put("sys/module/module/parameters/sig_enforce", "N\n")
    found = modprobe(tree.node(), "x")
    assert (found.stderr, found.reason) == (
        could_not("Key was rejected by service"),
        "module-signature-broken",
    )


def test_lockdown_alone_gives_another_error() -> None:
    tree = KernelTree().module("x").put("sys/kernel/security/lockdown", "none [integrity] confidentiality\n")
    found = modprobe(tree.node(), "x")
    assert found.stderr == could_not("Operation not permitted")
    assert found.kernel_log == (
        "Lockdown: modprobe: unsigned module loading is restricted; see man kernel_lockdown.7",
    )


UNTESTED = "alg: No test for pkcs1pad(rsa,sha1) (pkcs1pad(rsa-generic,sha1))"


@pytest.mark.parametrize(("digest", "said"), [("sha1", True), ("sha256", False)])
def test_the_first_check_of_a_digest_without_a_test_is_logged(digest: str, said: bool) -> None:
    tree = secured().module("x", content=sign(PLAIN, MOK, digest=digest))
    assert (UNTESTED in modprobe(tree.node(), "x").kernel_log) is said


def test_it_is_logged_once_per_boot() -> None:
    tree = secured().module("x", content=sign(PLAIN, MOK, digest="sha1"))
    tree.commands[("dmesg",)] = f"[    0.0] Linux version\n[   10.0] {UNTESTED}\n"
    assert UNTESTED not in modprobe(tree.node(), "x").kernel_log


def test_a_signature_of_an_unknown_signer_is_never_checked() -> None:
    tree = secured().module("x", content=sign(PLAIN, OTHER, digest="sha1"))
    assert UNTESTED not in modprobe(tree.node(), "x").kernel_log


def test_a_kernel_built_without_self_tests_logs_nothing_about_them() -> None:
    tree = secured().module("x", content=sign(PLAIN, MOK, digest="sha1"))
    config = f"boot/config-{RELEASE}"
    tree.put(config, f"{tree.files[config]}CONFIG_CRYPTO_MANAGER_DISABLE_TESTS=y\n")
    assert UNTESTED not in modprobe(tree.node(), "x").kernel_log
