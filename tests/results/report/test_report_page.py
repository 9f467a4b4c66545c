"""The report as a file: complete, self-contained, and nothing in it but text."""

import base64
import hashlib
import json
import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import HOSTILE, ROTATED, Page, luminance
from probed import corruption_rows, outside_rows, overlap_rows

from augbench.bench.common.errors import UserError
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.results.model.frame import Runs, load_runs
from augbench.results.report import check_page, report_page, write_report
from augbench.results.report.failed import failed_groups
from augbench.results.report.grid import grid_of, number_cell, only_device, plain_grid, significant
from augbench.results.report.learning import MOST_EPOCHS, kept_epochs, learned_data, thinned_means
from augbench.results.report.looks import DARK_PAPER, colour_styles, for_dark_pages
from augbench.results.report.origin import commits, run_commands
from augbench.results.report.pictures import Gallery, gallery, montage
from augbench.results.tables.ensembles import ensembles_table

WriteRun = Callable[..., RunFolder]


@pytest.fixture(scope="module")
def read(page_text: str) -> Page:
    page = Page(page_text)
    assert page.open == []
    return page


@pytest.fixture(scope="module")
def data(read: Page) -> dict[str, Any]:
    """What the charts are drawn from."""
    loaded: dict[str, Any] = json.loads(read.texts["script"][0])
    return loaded


def test_nothing_from_a_record_becomes_mark_up(read: Page, page_text: str) -> None:
    assert HOSTILE not in page_text
    assert HOSTILE in read.text
    assert ROTATED in read.text
    assert [attributes.get("type") for tag, attributes in read.tags if tag == "script"] == ["application/json", None]
    assert "alert(1)" not in read.texts["script"][1]


def test_the_page_refers_to_nothing_outside_itself(read: Page) -> None:
    addresses = [
        value
        for _, attributes in read.tags
        for name, value in attributes.items()
        if name in ("src", "href", "action", "data", "poster", "srcset") and value is not None
    ]
    assert len(addresses) > 10
    assert all(address.startswith(("#", "data:")) for address in addresses)
    assert not re.search(r"url\(|@import", read.texts["style"][0])


def test_no_script_or_style_but_its_own_can_run(read: Page) -> None:
    (policy,) = [given["content"] for tag, given in read.tags if tag == "meta" and "http-equiv" in given]
    for text, kind in ((read.texts["script"][1], "script-src"), (read.texts["style"][0], "style-src")):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in str(policy)
    assert str(policy).startswith("default-src 'none'")
    assert not any(name.startswith("on") or name == "style" for _, attributes in read.tags for name in attributes)


def test_every_link_within_the_page_leads_somewhere(read: Page) -> None:
    ids = [attributes["id"] for _, attributes in read.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = {str(given["href"])[1:] for tag, given in read.tags if tag == "a"}
    assert links <= set(ids)
    assert {"subject", "results", "pareto", "reliability", "learned", "images", "failures", "origin"} <= links
    described = {given["aria-labelledby"] for _, given in read.tags if "aria-labelledby" in given}
    assert described <= set(ids)


def test_tables_are_real_ones(read: Page) -> None:
    scopes = [given.get("scope") for tag, given in read.tags if tag == "th"]
    assert set(scopes) == {"col", "row"}
    tables = [given for tag, given in read.tags if tag == "table"]
    assert sum(tag == "caption" for tag, _ in read.tags) == len(tables) >= 6


def test_the_same_runs_make_the_same_page(compared: Runs, page_text: str) -> None:
    assert report_page(compared) == page_text


def test_means_of_the_charts_are_those_of_numpy(compared: Runs, data: dict[str, Any]) -> None:
    groups = {(group["label"], group["comparison"]): group for group in data["pareto"]["groups"]}
    lacking = groups[HOSTILE, ROTATED]
    assert (lacking["n"], lacking["asked"], lacking["scores"]["0"]["accuracy"]) == (1, 3, [0.7, None])
    group = groups["scale", ROTATED]
    values = np.array([0.92, 0.93, 0.94]) + 0.008
    assert group["scores"]["4"]["accuracy"] == pytest.approx([values.mean(), values.std(ddof=1)], abs=1e-6)
    assert group["costs"]["work"] == pytest.approx(41)  # 40, 41 and 42 seconds of training, none of search
    assert group["costs"]["passes"] == 8000
    assert (group["n"], group["asked"], group["device"]) == (3, 3, "a CPU")


def test_failures_come_with_cause_and_command(compared: Runs, read: Page) -> None:
    groups = {group.title: group for group in failed_groups(compared)}
    assert set(groups) == {"exception: 1 run", "planned: 1 run"}
    (source,) = compared.sources
    assert groups["exception: 1 run"].command == f"augbench retry --out {source} --cause exception"
    assert groups["planned: 1 run"].command == f"augbench retry --out {source} --cause missing"
    assert groups["exception: 1 run"].reasons == ((f"ValueError: {HOSTILE}", 1),)
    assert f"augbench retry --out {source} --cause exception" in read.text
    # a folder that is gone is not named
    elsewhere = replace(compared, runs=compared.runs.assign(source="runs.parquet"))
    group = failed_groups(elsewhere)[0]
    assert not group.folder_is_known
    assert "--out OUT" in group.command
    waiting = failed_groups(replace(compared, runs=compared.runs.assign(state="submitted", cause="")))[0]
    assert (waiting.command, waiting.meaning) == ("", "They were in a queue when this page was made.")


def test_the_page_says_how_to_make_it_again(compared: Runs, read: Page) -> None:
    (source,) = compared.sources
    for command in ("augbench run suite.toml --out out", f"augbench report --from {source} --out report.html"):
        assert command in read.text
    assert "git checkout 0123456789abcdef" in read.text
    assert "3.11.7" in read.text


def test_commands_of_records_are_one_command_to_a_shell(write_run: WriteRun, tmp_path: Path) -> None:
    code, command = {"commit": "1; id"}, "augbench run a.toml --out 'b c'; id > `x` | $(y) \""
    write_run("none", code=code, gpu=False, environment={"command": command})
    runs = load_runs(tmp_path)
    assert commits(runs) == [("git checkout '1; id'", 1)]
    ((text, _),) = run_commands(runs)
    assert shlex.split(text) == [command]
    write_run("none", code=code, gpu=False, environment={"command": command.removesuffix('"')})
    ((text, _),) = run_commands(load_runs(tmp_path))
    assert text == "augbench run a.toml --out 'b c;' id '>' '`x`' '|' '$(y)'"


def test_what_is_bold_is_explained_once_beside_the_results_and_warnings_stand_on_top(
    compared: Runs, page_text: str
) -> None:
    bold = "that no other one significantly beats"
    assert page_text.count(bold) == 1
    assert page_text.index('id="methods"') < page_text.index(bold) < page_text.index('id="runs"')
    (unfinished,) = [text for text in compared.warnings() if "have no result" in text]
    assert page_text.index("Before you compare") < page_text.index(unfinished) < page_text.index('id="subject"')


def test_what_stands_in_tables_is_not_said_again(write_run: WriteRun, tmp_path: Path) -> None:
    write_run("scale", settings={"copies": 2})
    write_run("scale", settings={"copies": 2}, seed=1, state=RunState.FAILED)
    read = Page(report_page(load_runs(tmp_path)))
    assert "copies=2" in read.text
    for sentence in ("Not at their defaults", "Runs without a result so far", "evaluated on"):
        assert sentence not in read.text


def test_without_finished_runs_there_is_a_report_of_failures(write_run: WriteRun, tmp_path: Path) -> None:
    write_run("scale", state=RunState.FAILED, status={"cause": "out of memory", "reason": "all is full"})
    read = Page(report_page(load_runs(tmp_path)))
    assert "all is full" in read.text
    assert "augbench report --from" in read.text
    assert "augbench tables --from" not in read.text  # there is nothing that it could write
    assert set(json.loads(read.texts["script"][0])) == {"looks"}


def test_one_run_without_draws_learned_numbers_or_one_metric_is_enough(write_run: WriteRun, tmp_path: Path) -> None:
    path = write_run("none").path / "result.json"
    result = json.loads(path.read_text())
    del result["metrics"]["0"]["ece_equal_mass"]
    path.write_text(json.dumps(result))
    data = json.loads(Page(report_page(load_runs(tmp_path))).texts["script"][0])
    (group,) = data["pareto"]["groups"]
    assert group["scores"]["0"]["accuracy"] == [0.9, None]  # of a single seed there is no deviation
    assert [panel["kind"] for panel in data["learned"]["panels"]] == ["training"]


def test_times_of_different_devices_are_never_averaged(write_run: WriteRun, tmp_path: Path) -> None:
    write_run("none", seed=0, device="a CPU")
    write_run("none", seed=1, device="a GPU")
    write_run("none", seed=2, device="a CPU + a GPU")
    text = report_page(load_runs(tmp_path))
    data = json.loads(Page(text).texts["script"][0])
    (group,) = data["pareto"]["groups"]
    assert group["costs"] == {"work": None, "whole": None, "passes": 8000}
    assert [run["costs"]["work"] for run in data["pareto"]["runs"]] == [10, 10, None]
    assert "several devices" in text


def test_lines_are_thinned_to_means_over_seeds(write_run: WriteRun, tmp_path: Path) -> None:
    epochs = 3 * MOST_EPOCHS
    for seed in (0, 1):
        learned = [{"probability/flip": (1 + seed) * epoch / 1000} for epoch in range(1, epochs + 1)]
        write_run("scale", seed=seed, epochs=epochs, learned=learned)
    runs = load_runs(tmp_path)
    thinned = thinned_means(runs)
    flips = thinned[thinned["block"] == "flip"].set_index("epoch")
    raw = runs.trajectories[runs.trajectories["quantity"] == "probability/flip"].groupby("epoch")["value"]
    assert len(flips) == MOST_EPOCHS
    assert flips.index[[0, -1]].tolist() == [1, epochs]
    for column, expected in (("mean", raw.mean()), ("low", raw.min()), ("high", raw.max())):
        assert flips[column].to_numpy() == pytest.approx(100 * expected[flips.index].to_numpy())
    data = learned_data(runs)
    assert data is not None
    assert len(json.dumps(data)) < 40_000


def test_ranges_are_shares_of_their_maximum(compared: Runs) -> None:
    thinned = thinned_means(compared)
    rotation = thinned[(thinned["kind"] == "range") & (thinned["label"] == "scale")].set_index(["comparison", "epoch"])
    assert rotation.loc[("mnist5k", 3), "mean"] == pytest.approx(100 * 0.3 / np.pi)


@pytest.mark.parametrize("last", [1, 2, MOST_EPOCHS, MOST_EPOCHS + 1, 1000])
def test_first_and_last_epoch_are_always_kept(last: int) -> None:
    kept = kept_epochs(last)
    assert kept[0] == 1
    assert kept[-1] == last
    assert len(kept) == min(last, MOST_EPOCHS)


@pytest.mark.parametrize("colour", ["#44228c", "#0173b2", "#7a4a1e", "#56b4e9", "#ffffff", "#010101"])
def test_colours_stand_out_from_a_dark_page(colour: str) -> None:
    before, paper, after = (
        luminance(int(shade[place : place + 2], 16) for place in (1, 3, 5))
        for shade in (colour, DARK_PAPER, for_dark_pages(colour))
    )
    assert (after + 0.05) / (paper + 0.05) >= 3.4
    assert after == before if before > 0.2 else after >= before


def test_black_is_drawn_as_texts_are(page_text: str) -> None:
    styles = colour_styles(["000000", "0173b2"])
    assert ".look-000000 { --look: var(--ink); }" in styles
    assert (styles.count("look-000000"), styles.count("look-0173b2")) == (1, 2)
    assert f"--paper: {DARK_PAPER};" in page_text


def test_pictures_hold_the_images_as_they_are() -> None:
    images = np.arange(2 * 3 * 1 * 2 * 2, dtype=np.uint8).reshape(2, 3, 1, 2, 2)
    shown = montage(images)
    assert shown.shape == (2 * 2 + 1, 3 * 2 + 2 + 3, 4)
    np.testing.assert_array_equal(shown[:2, :2, 0], [[0, 1], [2, 3]])
    np.testing.assert_array_equal(shown[:2, 6:8, 1], images[0, 1, 0])
    np.testing.assert_array_equal(shown[3:, 9:, 2], images[1, 2, 0])
    assert (shown[:2, :2, 3] == 255).all()
    assert (shown[2, :, 3] == 0).all()


@pytest.mark.parametrize(
    ("channels", "shown"), [([10, 20, 30], [10, 20, 30]), ([10, 20], [10, 10, 10]), ([10, 20, 30, 40], [10, 20, 30])]
)
def test_the_first_three_channels_are_colours_and_of_two_the_first_is_grey(
    channels: list[int], shown: list[int]
) -> None:
    image = np.array(channels, dtype=np.uint8).reshape(1, 1, -1, 1, 1)
    assert montage(image)[0, 0].tolist() == [*shown, 255]


def test_pictures_keep_to_their_budget(compared: Runs) -> None:
    everything = gallery(compared).pictures
    assert len(everything) == 8
    assert {picture.seed for picture in everything} == {0}
    assert all(picture.images == 2 and picture.draws == 3 for picture in everything)
    whole = sum(len(picture.address) for picture in everything)
    smaller = gallery(compared, budget=whole - 1).pictures
    assert len(smaller) == 8
    assert {picture.draws for picture in smaller} == {2}
    assert len(gallery(compared, budget=len(smaller[0].address)).pictures) == 1
    assert gallery(compared, budget=0) == Gallery((), left_out=8)


@pytest.mark.parametrize(("value", "expected"), [(None, None), (float("nan"), None), (float("inf"), None), (2, 2.0)])
def test_what_is_no_number_becomes_nothing(value: Any, expected: float | None) -> None:
    assert significant(value) == expected
    assert number_cell(value, 100, 1).text == ("–" if expected is None else "200.0")


def test_one_device_is_named_and_several_are_not() -> None:
    assert only_device(["a", "a"]) == "a"
    assert only_device(["a", "b"]) == "several devices"
    assert only_device(["a + b"]) == "several devices"
    assert only_device([None, float("nan")]) == ""


def test_columns_of_numbers_are_known_by_their_texts() -> None:
    grid = plain_grid("x", "X", "rows", ("a", "b", "c"), [("1,000", "1", ""), ("2", "b", 3)])
    assert [column.numbers for column in grid.columns] == [True, False, False]
    assert grid.rows[0][2].text == "–"


def test_wrong_names_of_pages_are_refused(compared: Runs, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=re.escape(f"such as {tmp_path / 'page.html'}.")):
        check_page(tmp_path / "page")
    with pytest.raises(UserError, match="is a folder"):
        write_report(compared, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_shift_is_shown_where_it_was_probed(compared: Runs, data: dict[str, Any], read: Page) -> None:
    assert "shift" not in data and "recomputed" not in read.text
    rows = corruption_rows(compared.finished().to_dict("records"))
    probed = replace(compared, corruptions=rows.replace({"corruption": {"snow": HOSTILE}}), probes=(Path("my probes"),))
    text = report_page(probed)
    page = Page(text)
    assert HOSTILE not in text and page.open == []
    for words in ("Under shift", "recomputed", f"{HOSTILE} (%)", "--probes 'my probes'", "mCE (%)"):
        assert words in page.text
    assert {"shift", "table-corruptions"} <= {str(given.get("id")) for _, given in page.tags}
    lines = json.loads(page.texts["script"][0])["shift"]["lines"]
    found = {(line["label"], line["comparison"], line["corruption"]): line for line in lines}
    assert len(found) == len(lines) == 4 * 2 * 4
    mean, snow = found["none", ROTATED, ""], found["none", ROTATED, HOSTILE]
    assert mean["severities"] == snow["severities"] == [0, 1, 2, 3, 4, 5]
    for line, step in ((mean, 3), (snow, 4), (found["none", ROTATED, "speckle-noise"], 2)):
        for name, start in (("mean", 81), ("low", 80), ("high", 82)):
            assert line[name] == pytest.approx([start - step * severity for severity in range(6)])
    assert (mean["seeds"], found[HOSTILE, ROTATED, ""]["seeds"]) == (3, 1)


def test_distances_are_shown_beside_gains(compared: Runs, read: Page) -> None:
    rows = compared.finished().to_dict("records")
    frames = {"corruptions": corruption_rows(rows), "overlap": overlap_rows(rows)}
    hostile = {name: frame.replace({"corruption": {"snow": HOSTILE}}) for name, frame in frames.items()}
    text = report_page(replace(compared, **hostile, probes=(Path("probes"),)))
    page = Page(text)
    assert HOSTILE not in text and page.open == []
    assert f"Distance, {HOSTILE} (%)" in page.text and "Trained on the test?" in page.text
    assert "#overlap" in {given.get("href") for _, given in page.tags}
    points = json.loads(page.texts["script"][0])["overlap"]["points"]
    (found,) = [
        point
        for point in points
        if (point["label"], point["comparison"], point["corruption"]) == ("scale", ROTATED, HOSTILE)
    ]
    assert (found["set"], found["seeds"], len(points)) == ("CIFAR-10-C", 3, 3 * 2 * 3)
    assert (found["distance"], found["gain"]) == (pytest.approx(90), pytest.approx(10))
    assert "Trained on the test?" not in read.text


def test_images_of_other_data_sets_are_shown_alone(compared: Runs) -> None:
    rows = outside_rows(compared.finished().to_dict("records")).replace({"against": {"letters": HOSTILE}})
    text = report_page(replace(compared, outside=rows, probes=(Path("probes"),)))
    page = Page(text)
    assert HOSTILE not in text and page.open == []
    assert f"AUROC, energy, against {HOSTILE} (%)" in page.text and "recomputed" not in page.text
    assert {"shift", "table-ood"} <= {given.get("id") for _, given in page.tags}
    assert "#shift" in {given.get("href") for _, given in page.tags}


def test_ensembles_are_shown_where_they_are_asked_for(compared: Runs, read: Page) -> None:
    assert "after" not in {given.get("id") for _, given in read.tags}
    page = Page(report_page(compared, calibrate=True))
    assert {"after", "table-ensembles"} <= {given.get("id") for _, given in page.tags}
    assert "#after" in {given.get("href") for _, given in page.tags}
    (source,) = compared.sources
    assert f"augbench report --from {source} --calibrate --out report.html" in page.text
    assert page.texts["th"].count("Disagreement (%)") == 1
    # 3 seeds of 7 methods on data sets, and 1 of the eighth: single networks, 2 and 3, with and without a temperature
    assert len(grid_of(ensembles_table(compared)).rows) == 7 * 6 + 2
