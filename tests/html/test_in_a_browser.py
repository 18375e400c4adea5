"""Every kind of report in a real browser: quiet, within the window, usable by keyboard, on paper."""

from __future__ import annotations

import re

import pytest

from gdrkit.cli import main
from gdrkit.html.fleet_page import fleet_page
from tests.evidence_nodes import laid_down
from tests.html import gallery, test_fleet_page, test_job_page, test_node_page
from tests.html.browser import answered_late, cut_on_paper, overflow, violations

NODES = ("rail-down", "spark-two-cables", "h200-vm", "sixteen")


def comparison(folder):
    page = folder / "both.html"
    targets = [str(laid_down(name)) for name in ("rail-down", "nic-x4")]
    main(["report", *targets, "-o", str(page)])
    return page


def fleet(folder, size=40):
    page = folder / "fleet.html"
    racks = {f"gpu{number:03d}": f"r{number // 8}" for number in range(size)}
    page.write_text(fleet_page(test_fleet_page.run_of(size, {7, 8}), "bundles/", racks))
    return page


def mixed(folder):
    """A fleet of 400 nodes with several faults at once."""
    return gallery.fleet_of(gallery.incident_rows(20, folder), 400, lambda number: f"gpu{number:03d}")


def hostile_node(folder):
    page = folder / "hostile.html"
    page.write_text(test_node_page.hostile_page())
    return page


def hostile_fleet(folder):
    page = folder / "hostile.html"
    page.write_text(test_fleet_page.hostile_page())
    return page


def job(folder):
    (folder / "job").mkdir()
    test_job_page.written(test_job_page.BY_NAME[test_job_page.BOUNCED].text, folder / "job")
    return folder / "job" / "job.html"


KINDS = {
    "two nodes": comparison, "job": job, "fleet": fleet, "hostile node": hostile_node,
    "hostile fleet": hostile_fleet,
}  # fmt: skip


@pytest.mark.parametrize("kind", [*NODES, *KINDS])
def test_a_report_is_quiet_fits_every_window_and_paper_and_axe_finds_nothing_serious(
    kind, browser, node_file, tmp_path
):
    file = node_file(kind) if kind in NODES else KINDS[kind](tmp_path)
    with browser.opened(file) as page:
        for part in page.query_selector_all("details:not([open])"):
            part.evaluate("part => { part.open = true }")
        assert not violations(page)
        page.emulate_media(color_scheme="dark")
        assert not violations(page, rules=("color-contrast",))
        assert not overflow(page) and not answered_late(page)
        assert not cut_on_paper(page)
        assert page.evaluate("typeof hacked") == "undefined"


def chosen(page):
    return page.locator(".pair h3.on").all_text_contents()


def test_hover_and_keys_choose_a_pair_and_its_way_in_the_picture(browser, node_file):
    with browser.opened(node_file("rail-down")) as page:
        assert chosen(page) == ["GPU 7 (0000:df:00.0) to mlx5_7"]
        before = page.locator(".pic svg.wide .r-d").get_attribute("d")
        page.hover('a[href="#pair-0-0"]')
        assert chosen(page) == ["GPU 0 (0000:1b:00.0) to mlx5_0"]
        assert page.locator(".pic svg.wide .r-d").get_attribute("d") != before
        page.mouse.move(0, 0)
        assert chosen(page) == ["GPU 7 (0000:df:00.0) to mlx5_7"]
        page.focus('a[href="#pair-0-0"]')
        page.keyboard.press("ArrowDown")
        assert chosen(page) == ["GPU 1 (0000:43:00.0) to mlx5_0"] and page.url.endswith("#pair-1-0")
        page.keyboard.press("ArrowUp")
        page.keyboard.press("ArrowUp")
        assert page.url.endswith("#pair-0-0"), "the matrix ends there"


def test_a_device_is_reached_by_keyboard_and_shows_its_pair(browser, node_file):
    with browser.opened(node_file("rail-down")) as page:
        page.focus('.pic svg.wide [data-device="0000:1b:00.0"]')
        assert chosen(page) == ["GPU 0 (0000:1b:00.0) to mlx5_0"]
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        assert chosen(page) == ["GPU 1 (0000:43:00.0) to mlx5_1"]
        page.keyboard.press("Enter")
        page.focus(".skip")
        assert chosen(page) == ["GPU 1 (0000:43:00.0) to mlx5_1"]


def test_without_scripts_one_pair_is_shown_and_a_link_shows_another(browser, node_file):
    file = node_file("rail-down")
    for link, shown in (
        ("", "GPU 7 (0000:df:00.0) to mlx5_7"),
        ("#pair-0-0", "GPU 0 (0000:1b:00.0) to mlx5_0"),
    ):
        with browser.opened(file, link, java_script_enabled=False) as page:
            visible = [name.inner_text() for name in page.locator(".pair h3").all() if name.is_visible()]
            assert visible == [shown]


def test_the_map_is_filtered_and_walked_by_keyboard_and_a_link_leads_to_its_state(browser, tmp_path):
    file = fleet(tmp_path)
    with browser.opened(file, "#q=standing:blocked&node=gpu007") as page:
        assert page.inner_text("#matches") == "2 of 40 nodes"
        drawer = page.inner_text("#drawer")
        assert "gpu007" in drawer and "570.172.08" in drawer and "gdr report 7.tar.gz" in drawer
        page.keyboard.press("Escape")
        assert page.is_hidden("#drawer")
        page.keyboard.press("/")
        page.keyboard.press("Control+A")
        page.keyboard.type("rack:r2")
        assert page.inner_text("#matches") == "8 of 40 nodes"
        page.focus("#map")
        for key, node in (("ArrowRight", "gpu000"), ("ArrowDown", "gpu001"), ("ArrowRight", "gpu009")):
            page.keyboard.press(key)
            assert page.inner_text("#drawer h3") == node
        page.click("text=Layers")
        assert page.url.endswith("#q=rack%3Ar2&node=gpu009&view=layers")


def test_the_map_is_on_the_first_screen_and_a_chosen_node_is_beside_it(browser, tmp_path):
    where = "(part) => { const { left, top, right, bottom } = part.getBoundingClientRect(); return "
    with browser.opened(gallery.fleet_file(mixed(tmp_path), tmp_path / "fleet.html")) as page:
        assert page.eval_on_selector("#map", f"{where}bottom; }}") <= 800
        assert page.eval_on_selector(".next", f"{where}top; }}") < 100
        page.focus("#map")
        page.keyboard.press("ArrowRight")
        beside = page.eval_on_selector("#drawer", f"{where}left; }}")
        assert beside > page.eval_on_selector("#map", f"{where}right; }}")
        page.set_viewport_size({"width": 360, "height": 740})
        tops = [
            page.eval_on_selector(part, f"{where}top; }}") for part in ("h1", ".next", "#map", "#drawer")
        ]
        assert tops == sorted(tops), "one below the other"


def test_a_link_to_a_node_shows_what_stands_about_it(browser, tmp_path):
    """A drawer that is below the screen at first; without a node the page begins at its top."""
    shown = (
        "() => { const { top, bottom } = document.getElementById('drawer').getBoundingClientRect();"
        " return top >= 0 && bottom < innerHeight + 1; }"
    )
    file = fleet(tmp_path)
    with browser.opened(file, "#node=gpu007") as page:
        assert page.evaluate(shown)
    with browser.opened(file, "#q=gpu007") as page:
        assert page.evaluate("scrollY") == 0


def test_paper_has_no_map_and_no_filter_but_every_list_whole(browser, tmp_path):
    with browser.opened(fleet(tmp_path)) as page:
        assert page.is_visible("#map") and page.is_visible("#filter")
        page.emulate_media(media="print")
        assert page.is_hidden("#map") and page.is_hidden("#filter")
        assert page.is_visible("#groups .cmd.list")


def test_the_policy_refuses_a_script_a_style_and_a_request_that_evidence_could_smuggle_in(browser, tmp_path):
    with browser.opened(fleet(tmp_path)) as page:
        page.evaluate(
            """async () => {
              for (const attack of [
                () => { document.body.innerHTML = "<img src=x onerror='hacked = 1'>"; },
                () => {
                  const made = document.createElement("script");
                  made.text = "hacked = 1";
                  document.body.append(made);
                },
                () => document.body.setAttribute("onclick", "hacked = 1"),
                () => document.body.setAttribute("style", "display:none"),
                () => setTimeout("hacked = 1"),
                () => fetch("https://report.invalid/"),
              ]) { try { await attack(); } catch { } }
              document.body.click();
            }"""
        )
        assert page.evaluate("typeof hacked") == "undefined"
        assert page.is_visible("h1")
        refused = " ".join(browser.problems)
        assert not re.search("ERR_CONNECTION", refused) and "connect-src" in refused
        browser.problems.clear()
