"""A port that is slower than its sisters, or than the same port of other machines."""

import pytest

from gdrkit.explain.outputs.measured import UNLIKE
from gdrkit.explain.text import text as as_text
from tests.explain.explaining import codes, explained

IBSTAT = "CA '{0}'\n\tCA type: {2}\n\tPort 1:\n\t\tState: {3}\n\t\tRate: {1}\n"
EXCERPT = "CA '{0}'\n\t\tState: {3}\n\t\tRate: {1}\n"
STATUS = "Infiniband device '{0}' port 1 status:\n\tstate:\t\t 4: ACTIVE\n\trate:\t\t {1} Gb/sec (4X NDR)\n"
FILES = (
    "/sys/class/infiniband/{0}/ports/1/state:4: ACTIVE\n"
    "/sys/class/infiniband/{0}/ports/1/rate:{1} Gb/sec (4X NDR)\n"
)
VERBOSE = (
    "hca_id:\t{0}\n\tboard_id:\t\t\t{2}\n\t\tport:\t1\n\t\t\tstate:\t\t\tPORT_ACTIVE (4)\n"
    "\t\t\tactive_width:\t\t4X (2)\n\t\t\tactive_speed:\t\t{4} Gbps (128)\n"
    "\t\t\tphys_state:\t\tLINK_UP (5)\n\t\t\tlink_layer:\t\tInfiniBand\n"
)


def listed(form: str, *rates: int, kind: str = "MT4129", first: str = "Active") -> str:
    """NICs with these rates; the first one is of another kind, or in another state, if given."""
    return "".join(
        form.format(f"mlx5_{n}", rate, "MT4129" if n else kind, "Active" if n else first, f"{rate / 4:.1f}")
        for n, rate in enumerate(rates)
    )


@pytest.mark.parametrize("form", [IBSTAT, EXCERPT, STATUS, FILES])
def test_the_only_slower_port_is_named_and_no_fault_is_claimed(form: str):
    found = explained(listed(form, 100, 400, 400, 400)).answer

    assert (found.kind, found.cause) == ("several", None)
    assert "mlx5_0 has 100 Gbit/s, but the other 3 ports have 400" in found.sentence
    assert [one.code for one in found.others] == ["port-slower-than-others"]
    assert "100" in found.lines[0].text


def test_of_nics_whose_board_is_shown_the_rule_of_a_node_decides():
    assert codes(listed(VERBOSE, 100, 400, 400, 400)) == {"port-slower-than-others"}
    assert codes(listed(VERBOSE, 100, 400, 400, 400, kind="MT_0000000222")) == set()


@pytest.mark.parametrize(
    "text",
    [
        listed(IBSTAT, 400, 400, 400, 400),
        listed(IBSTAT, 100, 100, 400, 400, 400),
        listed(IBSTAT, 100, 400, 400),
        listed(IBSTAT, 100, 400, 400, 400, kind="MT4123"),
        listed(IBSTAT, 10, 400, 400, 400, first="Down"),
    ],
)
def test_equal_ports_two_slower_ones_another_type_and_a_port_that_is_down_are_none(text: str):
    found = explained(text).answer
    assert "slower" not in f"{found.sentence} {[one.code for one in found.others]}"


def test_the_same_port_of_other_machines_is_compared():
    one = "node06 $ ibstat\n" + listed(EXCERPT, 400, 100)
    other = "node07 $ ibstat\n" + listed(EXCERPT, 100, 100)
    found = explained(one + other).answer

    assert "mlx5_0 of node07 has 100 Gbit/s, but mlx5_0 of node06 has 400" in found.sentence


def test_the_same_port_of_another_type_of_nic_is_not_compared():
    one = "node06 $ ibstat\n" + listed(IBSTAT, 400)
    other = "node07 $ ibstat\n" + listed(IBSTAT, 100, kind="MT4123")
    assert explained(one + other).answer.kind == "no-problem"


def test_an_all_clear_of_states_says_that_the_rates_are_not_shown():
    found = explained("link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev eth0\n").answer
    assert (found.kind, "does not show their rates" in found.sentence) == ("no-problem", True)


def test_states_of_two_ports_without_their_numbers_are_of_two_ports():
    text = "CA 'mlx5_0'\n\t\tState: Active\n\t\tRate: 400\n\t\tState: Active\n\t\tRate: 200\n"
    (machine,) = explained(text).machines
    rates = next(fact.value for fact in machine.known if fact.name == "rates of active ports")

    assert rates.startswith("mlx5_0/2 200 Gbit/s; mlx5_0 400 Gbit/s")


NHC = (
    "20261130 06:12:04 [slurm] /usr/libexec/nhc/node-mark-offline n7 NHC: check_hw_ib:  No IB port mlx5_0:1 "
)
NHC += "is ACTIVE (LinkUp 400 Gb/sec).\n"


@pytest.mark.parametrize(
    ("text", "heading"),
    [
        (listed(IBSTAT, 200, 400), "No failure shown"),
        (listed(EXCERPT, 200, 400, 400), "No failure shown"),
        (listed(IBSTAT, 200, 400, kind="MT4123"), "No problem shown"),
        (listed(IBSTAT, 400, 400), "No problem shown"),
    ],
)
def test_unlike_rates_of_ports_that_may_be_of_one_type_are_no_all_clear(text: str, heading: str):
    found = explained(text)
    assert as_text(found).splitlines()[0] == heading
    assert (UNLIKE in found.answer.sentence) is (heading == "No failure shown")


def test_a_health_check_that_misses_a_rate_leaves_the_rate_where_the_port_is_active():
    alone = explained(NHC).answer
    assert [one.code for one in alone.others] == ["port-down", "port-slower-than-others"]

    beside = explained(NHC + listed(EXCERPT, 200)).answer
    assert (beside.cause, beside.sureness) == ("port-slower-than-others", "possible")


def test_a_rate_that_nothing_can_parse_is_no_rate():
    text = FILES.format("mlx5_0", 400).replace("400 Gb/sec", "fast")
    assert "rates of active ports" not in str(explained(text).machines)
