"""The report in a real browser: sorting, filtering, pointing, the keyboard, dark mode, paper, and no network."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import HOSTILE, ROTATED, luminance
from probed import corruption_rows, outside_rows, overlap_rows

from augbench.bench.runs.run_folder import RunFolder
from augbench.bench.training.examples import Examples, write_examples
from augbench.results.model.frame import Runs, load_runs
from augbench.results.report import report_page, write_report

WriteRun = Callable[..., RunFolder]

METHOD, DATASET, DRAWS, SEEDS, ACCURACY = range(1, 6)  # columns of the table of methods

pytestmark = pytest.mark.slow


def number(text: str) -> float:
    """The number that a cell begins with."""
    return float(text.split()[0])


def test_nothing_is_asked_of_any_network_and_nothing_goes_wrong(look: Callable[..., Any], page_file: Path) -> None:
    seen = look(page_file, offline=True)
    seen.page.locator("section").last.scroll_into_view_if_needed()
    seen.painted()
    assert [url for url in seen.requests if not url.startswith("data:")] == [page_file.as_uri()]
    assert seen.errors == []


def test_mark_up_in_names_is_text(seen: Any, compared: Runs, look: Callable[..., Any], tmp_path: Path) -> None:
    assert HOSTILE in seen.column("methods", METHOD)
    assert HOSTILE in [text.strip() for text in seen.texts("#results .legend button")]
    assert ROTATED in seen.column("runs", DATASET)
    assert seen.page.evaluate("document.scripts.length") == 2
    path = tmp_path / "titled.html"
    path.write_text(report_page(compared, "</title><img src=x onerror=alert(1)>"))
    titled = look(path)
    assert titled.page.inner_text("h1") == titled.page.title() == "</title><img src=x onerror=alert(1)>"
    assert titled.errors == []


def test_tables_are_sorted_by_any_column(seen: Any) -> None:
    heading = seen.page.locator("#methods th", has_text="Accuracy")
    assert heading.get_attribute("aria-sort") == "none"
    heading.locator("button").click()
    falling = [number(text) for text in seen.column("methods", ACCURACY)]
    assert heading.get_attribute("aria-sort") == "descending"
    assert falling == sorted(falling, reverse=True)
    heading.locator("button").click()
    rising = [number(text) for text in seen.column("methods", ACCURACY)]
    assert heading.get_attribute("aria-sort") == "ascending"
    assert rising == sorted(falling)
    assert seen.page.inner_text("#results [role=status]") == "Sorted by Accuracy (%), ascending."
    # sorting by another column forgets the first one and keeps rows whole
    before = sorted(zip(seen.column("methods", METHOD), seen.column("methods", ACCURACY), strict=True))
    seen.page.locator("#methods th button", has_text="Method").click()
    sorts = [heading.get_attribute("aria-sort") for heading in seen.page.locator("#methods thead th").all()]
    assert sorts == ["ascending", *["none"] * (len(sorts) - 1)]
    names = seen.column("methods", METHOD)
    assert names == sorted(names)
    assert sorted(zip(names, seen.column("methods", ACCURACY), strict=True)) == before
    # rows without a number come last either way
    button = seen.page.locator("#runs th button", has_text="Accuracy")
    for _ in range(2):
        button.click()
        column = seen.column("runs", 6)
        assert column[-2:] == ["–", "–"]
        assert "–" not in column[:-2]


def test_filters_leave_what_was_asked_for(seen: Any) -> None:
    page = seen.page
    controls = page.locator("#results .controls")
    assert page.inner_text("#results [role=status]") == "Shown: 12 of 12 rows of means, 36 of 36 rows of runs."
    controls.get_by_label("Data set").select_option("mnist5k")
    assert set(seen.column("methods", DATASET)) == {"mnist5k"}
    controls.get_by_label("Test-time draws").select_option("4")
    assert set(seen.column("methods", DRAWS)) == {"4"}
    assert page.inner_text("#results [role=status]") == "Shown: 2 of 12 rows of means, 6 of 36 rows of runs."
    page.locator("#results .legend button", has_text="augerino").click()
    assert seen.column("methods", METHOD) == ["scale"]
    for label in ("Data set", "Test-time draws"):
        controls.get_by_label(label).select_option("")
    controls.get_by_label("State").select_option("failed")
    assert seen.column("runs", METHOD) == [HOSTILE]
    controls.get_by_label("State").select_option("")
    controls.get_by_label("Search").fill("scale seed1")
    assert set(seen.column("runs", 3)) == {"1"}
    assert len(seen.column("runs", 1)) == 4  # two data sets with none and four draws


def test_a_method_that_is_hidden_is_hidden_everywhere(seen: Any) -> None:
    page = seen.page
    before = page.locator("#pareto .point").count()
    page.locator("#results .legend button", has_text="scale").click()
    pressed = page.locator(".legend button", has_text="scale").evaluate_all(
        "buttons => buttons.map(button => button.getAttribute('aria-pressed'))"
    )
    assert pressed == ["false"] * 4
    assert page.locator("#pareto .point").count() == before - 1
    assert "scale" not in [text.strip() for text in seen.texts("#learned h4")]
    page.locator("#results .legend button", has_text="Hide all").click()
    assert page.locator("#pareto .point").count() == 0
    assert page.inner_text("#pareto [role=status]") == "There is nothing to show for this choice."
    page.locator("#results .legend button", has_text="Show all").click()
    assert page.locator("#pareto .point").count() == before
    assert seen.errors == []


def test_the_explorer_shows_the_run_that_is_pointed_at(seen: Any) -> None:
    page = seen.page
    page.locator("#pareto").get_by_label("Test-time draws").select_option("4")
    assert page.locator("#pareto .point").count() == 2
    page.locator("#pareto .point").last.hover()
    tip = page.inner_text("#pareto .tip")
    assert tip.splitlines()[0] == "scale"
    assert "Accuracy (%): 93.80 ± 1.00" in tip
    assert "Search and training (seconds): 41" in tip
    assert "3 seeds" in tip
    page.locator("#pareto").get_by_label("Points").select_option("runs")
    assert page.locator("#pareto .point").count() == 6
    page.locator("#pareto .point").first.hover()
    assert re.search(r"seed 0, run augerino_mnist5k_tiny_seed0_[0-9a-f]{12}", page.inner_text("#pareto .tip"))


def test_the_front_is_what_no_other_point_beats_and_never_who_lacks_seeds(seen: Any) -> None:
    page = seen.page
    page.locator("#pareto").get_by_label("Data set").select_option(ROTATED)
    assert page.inner_text("#pareto [role=status]") == (
        "4 points. The Pareto front, the cheapest first: none, augerino, scale."
    )
    name = str(page.locator("#pareto .lacking").get_attribute("aria-label"))
    assert name.startswith(HOSTILE)
    assert "1 of 3 seeds, so not in the front" in name
    assert page.locator("#pareto .lacking").evaluate("point => getComputedStyle(point).opacity") == "0.45"
    page.locator("#pareto").get_by_label("Points").select_option("runs")
    assert page.locator("#pareto .lacking").count() == 0
    page.locator("#pareto").get_by_label("Points").select_option("groups")
    expected = {"accuracy": "none, augerino, scale", "nll": "none"}  # NLL is the same for all: the cheapest is best
    for metric, names in expected.items():
        page.locator("#pareto").get_by_label("Metric").select_option(metric)
        assert page.inner_text("#pareto [role=status]").endswith(f"the cheapest first: {names}.")
    page.locator("#pareto").get_by_label("Metric").select_option("accuracy")
    page.locator("#pareto").get_by_label("Cost").select_option("passes")  # the same for all: the best is alone
    assert page.inner_text("#pareto [role=status]").endswith("the cheapest first: scale.")


def test_charts_are_one_stop_of_the_tab_key_each(seen: Any) -> None:
    page = seen.page
    for chart in ("#pareto", "#reliability"):
        stops = page.locator(f"{chart} .point[tabindex='0']")
        assert stops.count() == 1
        stops.focus()
        first = page.evaluate("document.activeElement.getAttribute('aria-label')")
        assert page.locator(f"{chart} .tip").is_visible()
        page.keyboard.press("ArrowRight")
        second = page.evaluate("document.activeElement.getAttribute('aria-label')")
        assert second != first
        assert page.locator(f"{chart} .tip").inner_text().splitlines()[0] in second
        page.keyboard.press("Home")
        assert page.evaluate("document.activeElement.getAttribute('aria-label')") == first
        page.keyboard.press("Escape")
        assert page.locator(f"{chart} .tip").is_hidden()


def test_arrow_keys_read_off_the_epochs(seen: Any) -> None:
    page = seen.page
    texts = page.locator("#learned svg text[text-anchor=middle]").all_text_contents()
    assert {text for text in texts if text[:1].isdigit()} == {"1", "2", "3"}
    panel = page.locator("#learned .panel").first
    panel.focus()
    assert [line for line in page.inner_text("#learned .tip").splitlines() if line] == [
        "augerino, epoch 3",
        "rotation: 4 % (3 to 5 over 3 seeds)",
    ]
    page.keyboard.press("Home")
    assert "epoch 1, rotation: 2 % (1 to 3 over 3 seeds)" in str(panel.get_attribute("aria-label"))
    assert page.inner_text("#learned .tip").splitlines()[0] == "augerino, epoch 1"


def test_everything_can_be_reached_by_the_keyboard(seen: Any) -> None:
    page = seen.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the results"
    assert page.locator("a.skip").bounding_box()["x"] >= 0
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('section').id") == "results"
    page.locator("#methods th button").first.focus()
    page.keyboard.press("Enter")
    assert page.locator("#methods th").first.get_attribute("aria-sort") == "ascending"
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.locator("#results .legend button").first.focus()
    page.keyboard.press("Space")
    assert page.locator("#results .legend button").first.get_attribute("aria-pressed") == "false"


def test_a_screen_reader_finds_names_for_everything(seen: Any) -> None:
    page = seen.page
    for selector in ("select", "input"):
        for control in page.locator(selector).all():
            assert control.evaluate("control => control.labels.length") == 1
    for image in page.locator("img").all():
        assert "training images" in str(image.get_attribute("alt"))
    for image in page.locator("[role=img], [role=group], [role=region]").all():
        assert image.get_attribute("aria-label")
    levels = [int(level[1]) for level in page.eval_on_selector_all("h1, h2, h3, h4", "all => all.map(h => h.tagName)")]
    assert levels[0] == 1
    assert all(after <= before + 1 or (before, after) == (2, 4) for before, after in pairwise(levels))
    tree = page.locator("#methods").aria_snapshot()
    assert "columnheader" in tree
    assert "rowheader" in tree


def lightness(colour: str) -> float:
    """Luminance of a colour such as `rgb(0, 0, 0)`."""
    return luminance(map(int, re.findall(r"\d+", colour)[:3]))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_can_be_read_in_light_and_dark(look: Callable[..., Any], page_file: Path, scheme: str) -> None:
    page = look(page_file, color_scheme=scheme).page
    style = "element => [getComputedStyle(element).color, getComputedStyle(element).fill]"
    paper = lightness(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert (paper < 0.05) == (scheme == "dark")
    for selector in ("body", ".quiet", "nav a", ".warnings h2", "#pareto svg text"):
        text, fill = page.locator(selector).first.evaluate(style)
        ink = lightness(fill if "svg" in selector else text)
        assert (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05) >= 4.5, selector


def test_a_narrow_window_scrolls_in_one_direction_only(look: Callable[..., Any], page_file: Path) -> None:
    from playwright.sync_api import expect

    page = look(page_file, viewport={"width": 360, "height": 700}).page
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    chart = page.locator("#pareto [data-chart] svg")
    assert chart.bounding_box()["width"] <= 360
    page.set_viewport_size({"width": 1000, "height": 700})
    # not `wait_for_function`: it evaluates a string in the page, whose security policy forbids that
    expect(chart).to_have_attribute("width", re.compile(r"[789]\d\d"))


def test_names_of_any_length_stay_within_a_narrow_window(
    look: Callable[..., Any], write_run: WriteRun, tmp_path: Path
) -> None:
    folder = write_run("m" * 100, gpu=False, learned=[{"number/" + "n" * 80: 1.0, "probability/" + "b" * 80: 0.5}])
    write_examples(folder, Examples(np.zeros((2, 1, 5, 5), np.uint8), np.zeros((2, 3, 1, 5, 5), np.uint8)))
    narrow = {"width": 360, "height": 700}
    page = look(write_report(load_runs(tmp_path), tmp_path / "report.html"), viewport=narrow).page
    assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_means_without_a_time_are_explained(look: Callable[..., Any], write_run: WriteRun, tmp_path: Path) -> None:
    for seed in (0, 1):
        write_run("none", seed=seed, device=f"device {seed}")
    page = look(write_report(load_runs(tmp_path), tmp_path / "report.html")).page
    assert "look at single runs" in page.inner_text("#pareto [role=status]")
    page.locator("#pareto").get_by_label("Points").select_option("runs")
    assert page.inner_text("#pareto [role=status]").startswith("1 point. ")


def test_without_javascript_tables_and_texts_are_there(look: Callable[..., Any], page_file: Path) -> None:
    seen = look(page_file, java_script_enabled=False)
    assert seen.page.locator("#methods tbody tr").count() == 12
    assert seen.page.locator("#methods tbody tr").first.is_visible()
    assert seen.page.locator("select").count() == 0
    assert seen.page.locator("#pareto .legend").is_hidden()
    said = [text for text in seen.texts("noscript") if text]
    assert [text.removeprefix("This chart needs JavaScript. ").split(";")[0] for text in said] == [
        "Its numbers are in the tables of results and of costs.",
        "Its numbers are in no table",
        "The numbers at the end of training are in the table below",
    ]
    assert seen.page.locator("img").first.is_visible()


def test_the_page_prints(seen: Any, tmp_path: Path) -> None:
    page = seen.page
    pdf = page.pdf(path=tmp_path / "report.pdf", format="A4")
    assert pdf.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 20
    page.emulate_media(media="print")
    assert page.locator("#pareto .controls select").first.is_visible()  # which data set a chart is about
    assert page.locator("input").is_hidden()
    assert page.locator(".legend button", has_text="Hide all").first.is_hidden()
    assert page.locator("#runs tbody tr").last.is_visible()
    assert page.locator("#learned-numbers").is_visible()  # though it is folded up on the screen
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_nothing_moves_for_whom_that_is_too_much(look: Callable[..., Any], page_file: Path) -> None:
    behaviour = "getComputedStyle(document.documentElement).scrollBehavior"
    assert look(page_file, reduced_motion="no-preference").page.evaluate(behaviour) == "smooth"
    assert look(page_file, reduced_motion="reduce").page.evaluate(behaviour) == "auto"


def test_reliability_follows_the_choice(seen: Any, page_text: str) -> None:
    page = seen.page
    assert page.inner_text("#reliability [role=status]") == "4 of 4 methods shown."
    page.locator("#reliability .legend button", has_text="none").click()
    assert page.inner_text("#reliability [role=status]") == "3 of 4 methods shown."
    data = json.loads(page.evaluate("document.getElementById('data').textContent"))
    assert data["reliability"]["few"] == 10
    label = page.locator("#reliability .point").first.get_attribute("aria-label")
    assert re.fullmatch(r"augerino, bin \d+ of 15: 15 images, confidence [\d.]+ %, accuracy [\d.]+ %", str(label))


def test_corruptions_are_chosen_and_read_off(compared: Runs, look: Callable[..., Any], tmp_path: Path) -> None:
    finished = compared.finished().to_dict("records")
    probed = replace(compared, corruptions=corruption_rows(finished), outside=outside_rows(finished))
    seen = look(write_report(probed, tmp_path / "report.html"))
    points = seen.page.locator("#shift .point")
    assert points.count() == 4 * 6
    assert points.nth(1).get_attribute("aria-label") == ("none, severity 1, accuracy 78 %, 77 to 79 % over 3 seeds")
    seen.page.locator("#shift select").nth(1).select_option("snow")
    assert points.nth(1).get_attribute("aria-label") == "none, severity 1, accuracy 77 %, 76 to 78 % over 3 seeds"
    assert points.first.get_attribute("aria-label").startswith("none, clean images, accuracy 81 %")
    seen.page.locator("#shift .legend button").first.click()
    assert points.count() == 3 * 6
    seen.page.locator("#table-ood th button", has_text="Measure").click()
    assert seen.column("table-ood", 1)[0] == "AUROC, confidence, against clothes (%)"
    assert "3 of 4 methods shown" in seen.page.inner_text("#shift [role=status]")
    assert seen.errors == []


def test_gains_and_distances_are_read_off(compared: Runs, look: Callable[..., Any], tmp_path: Path) -> None:
    finished = compared.finished().to_dict("records")
    probed = replace(compared, corruptions=corruption_rows(finished), overlap=overlap_rows(finished))
    seen = look(write_report(probed, tmp_path / "report.html"))
    points = seen.page.locator("#overlap .point")
    assert points.count() == 3 * 3
    said = [points.nth(index).get_attribute("aria-label") for index in range(9)]
    assert "scale, fog, distance 60 %, gain 10 points, 3 seeds" in said
    seen.page.locator("#overlap .legend button", has_text="scale").click()
    assert points.count() == 2 * 3
    assert seen.page.inner_text("#overlap [role=status]") == "2 of 3 methods shown."
    assert seen.errors == []
