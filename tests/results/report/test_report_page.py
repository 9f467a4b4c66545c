"""The report as a file: complete, self-contained, and nothing in it but text."""

import base64
import hashlib
import json
import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from augbench.bench.common.errors import UserError
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.results.model.frame import Runs, load_runs
from augbench.results.report import check_page, report_page, write_report
from augbench.results.report.failed import failed_groups
from augbench.results.report.grid import number_cell, only_device, plain_grid, significant
from augbench.results.report.learning import MOST_EPOCHS, kept_epochs, learned_data, thinned_means
from augbench.results.report.looks import DARK_PAPER, colour_styles, for_dark_pages
from augbench.results.report.origin import commits, run_commands
from augbench.results.report.pictures import Gallery, gallery, montage

WriteRun = Callable[..., RunFolder]
HOSTILE = "<script>alert(1)"
ROTATED = "rotmnist5k (note=</script>)"


class Reader(HTMLParser):
    """Reads a page as a browser does, and keeps tags with their attributes and what is in scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inside: dict[str, list[str]] = {"script": [], "style": []}
        self.text = ""
        self._open = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep a tag."""
        self.tags.append((tag, dict(attrs)))
        self._open = tag
        if tag in self.inside:
            self.inside[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        """Leave a script or style."""
        self._open = ""

    def handle_data(self, data: str) -> None:
        """Keep a text where it belongs."""
        if self._open in self.inside:
            self.inside[self._open][-1] += data
        else:
            self.text += data


@pytest.fixture(scope="module")
def read(page_text: str) -> Reader:
    return Reader(page_text)


@pytest.fixture(scope="module")
def data(read: Reader) -> dict[str, Any]:
    """What the charts are drawn from."""
    loaded: dict[str, Any] = json.loads(read.inside["script"][0])
    return loaded


def test_nothing_from_a_record_becomes_mark_up(read: Reader, page_text: str) -> None:
    assert HOSTILE not in page_text
    assert HOSTILE in read.text
    assert ROTATED in read.text
    assert [attributes.get("type") for tag, attributes in read.tags if tag == "script"] == ["application/json", None]
    assert "alert(1)" not in read.inside["script"][1]


def test_the_page_refers_to_nothing_outside_itself(read: Reader) -> None:
    addresses = [
        value
        for _, attributes in read.tags
        for name, value in attributes.items()
        if name in ("src", "href", "action", "data", "poster", "srcset") and value is not None
    ]
    assert len(addresses) > 10
    assert all(address.startswith(("#", "data:")) for address in addresses)
    assert not re.search(r"url\(|@import", read.inside["style"][0])


def test_no_script_or_style_but_its_own_can_run(read: Reader) -> None:
    (policy,) = [given["content"] for tag, given in read.tags if tag == "meta" and "http-equiv" in given]
    for text, kind in ((read.inside["script"][1], "script-src"), (read.inside["style"][0], "style-src")):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in str(policy)
    assert str(policy).startswith("default-src 'none'")
    assert not any(name.startswith("on") or name == "style" for _, attributes in read.tags for name in attributes)


def test_every_link_within_the_page_leads_somewhere(read: Reader) -> None:
    ids = [attributes["id"] for _, attributes in read.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = {str(given["href"])[1:] for tag, given in read.tags if tag == "a"}
    assert links <= set(ids)
    assert {"subject", "results", "pareto", "reliability", "learned", "images", "failures", "origin"} <= links
    described = {given["aria-labelledby"] for _, given in read.tags if "aria-labelledby" in given}
    assert described <= set(ids)


def test_tables_are_real_ones(read: Reader) -> None:
    scopes = [given.get("scope") for tag, given in read.tags if tag == "th"]
    assert set(scopes) == {"col", "row"}
    tables = [given for tag, given in read.tags if tag == "table"]
    assert sum(tag == "caption" for tag, _ in read.tags) == len(tables) >= 6


def test_the_same_runs_make_the_same_page(compared: Runs, page_text: str) -> None:
    assert report_page(compared) == page_text


def test_means_of_the_charts_are_those_of_numpy(compared: Runs, data: dict[str, Any]) -> None:
    (group,) = [
        group
        for group in data["pareto"]["groups"]
        if group["label"] == "scale" and group["comparison"].startswith("mnist5k")
    ]
    values = np.array([0.92, 0.93, 0.94]) + 0.008
    assert group["scores"]["4"]["accuracy"] == pytest.approx([values.mean(), values.std(ddof=1)], abs=1e-6)
    assert group["costs"]["work"] == pytest.approx(41)  # 40, 41 and 42 seconds of training, none of search
    assert group["costs"]["passes"] == 8000
    assert (group["n"], group["asked"], group["device"]) == (3, 3, "a CPU")


def test_who_lacks_seeds_says_so(data: dict[str, Any]) -> None:
    groups = {(group["label"], group["comparison"]): group for group in data["pareto"]["groups"]}
    assert groups[HOSTILE, ROTATED]["n"] == 1
    assert groups[HOSTILE, ROTATED]["asked"] == 3
    assert groups[HOSTILE, ROTATED]["scores"]["0"]["accuracy"] == [0.7, None]


def test_failures_come_with_cause_and_command(compared: Runs, read: Reader) -> None:
    groups = {group.title: group for group in failed_groups(compared)}
    assert set(groups) == {"exception: 1 run", "planned: 1 run"}
    (source,) = compared.sources
    assert groups["exception: 1 run"].command == f"augbench retry --out {source} --cause exception"
    assert groups["planned: 1 run"].command == f"augbench retry --out {source} --cause missing"
    assert groups["exception: 1 run"].reasons == ((f"ValueError: {HOSTILE}", 1),)
    assert f"augbench retry --out {source} --cause exception" in read.text


def test_a_folder_that_is_gone_is_not_named_in_a_command(compared: Runs) -> None:
    elsewhere = replace(compared, runs=compared.runs.assign(source="runs.parquet"))
    group = failed_groups(elsewhere)[0]
    assert not group.folder_is_known
    assert "--out OUT" in group.command


def test_the_page_says_how_to_make_it_again(compared: Runs, read: Reader) -> None:
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


def test_what_is_bold_is_said_once_and_beside_the_results(page_text: str) -> None:
    bold = "that no other one is shown to beat"
    assert page_text.count(bold) == 1
    assert page_text.index('id="methods"') < page_text.index(bold) < page_text.index('id="runs"')


def test_what_stands_in_tables_is_not_said_again(write_run: WriteRun, tmp_path: Path) -> None:
    write_run("scale", settings={"copies": 2})
    write_run("scale", settings={"copies": 2}, seed=1, state=RunState.FAILED)
    read = Reader(report_page(load_runs(tmp_path)))
    assert "copies=2" in read.text
    for sentence in ("Not at their defaults", "Runs without a result so far", "evaluated on"):
        assert sentence not in read.text


def test_warnings_stand_on_top(compared: Runs, page_text: str) -> None:
    (unfinished,) = [text for text in compared.warnings() if "have no result" in text]
    assert page_text.index("Before you compare") < page_text.index(unfinished) < page_text.index('id="subject"')


def test_without_finished_runs_there_is_a_report_of_failures(write_run: WriteRun, tmp_path: Path) -> None:
    write_run("scale", state=RunState.FAILED, status={"cause": "out of memory", "reason": "all is full"})
    read = Reader(report_page(load_runs(tmp_path)))
    assert "all is full" in read.text
    assert "augbench report --from" in read.text
    assert "augbench tables --from" not in read.text  # there is nothing that it could write
    assert set(json.loads(read.inside["script"][0])) == {"looks"}


def test_one_run_without_draws_or_learned_numbers_is_enough(write_run: WriteRun, tmp_path: Path) -> None:
    write_run("none")
    data = json.loads(Reader(report_page(load_runs(tmp_path))).inside["script"][0])
    (group,) = data["pareto"]["groups"]
    assert group["scores"]["0"]["accuracy"] == [0.9, None]  # of a single seed there is no deviation
    assert [panel["kind"] for panel in data["learned"]["panels"]] == ["training"]


def test_times_of_different_devices_are_never_averaged(write_run: WriteRun, tmp_path: Path) -> None:
    write_run("none", seed=0, device="a CPU")
    write_run("none", seed=1, device="a GPU")
    write_run("none", seed=2, device="a CPU + a GPU")
    text = report_page(load_runs(tmp_path))
    data = json.loads(Reader(text).inside["script"][0])
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


def _wcag(colour: str) -> float:
    """Relative luminance, written out from the definition."""
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("colour", ["#44228c", "#0173b2", "#7a4a1e", "#56b4e9", "#ffffff", "#010101"])
def test_colours_stand_out_from_a_dark_page(colour: str) -> None:
    lighter = for_dark_pages(colour)
    assert (_wcag(lighter) + 0.05) / (_wcag("#15171b") + 0.05) >= 3.4
    assert _wcag(lighter) >= _wcag(colour)
    if _wcag(colour) > 0.2:
        assert lighter == colour


def test_black_is_drawn_as_texts_are() -> None:
    styles = colour_styles(["000000", "0173b2"])
    assert ".look-000000 { --look: var(--ink); }" in styles
    assert styles.count("look-000000") == 1
    assert styles.count("look-0173b2") == 2


def test_the_dark_paper_is_that_of_the_style_sheet(page_text: str) -> None:
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


def test_a_metric_that_a_run_lacks_is_an_empty_cell(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("none")
    folder = write_run("scale")
    result = json.loads((folder.path / "result.json").read_text())
    del result["metrics"]["0"]["ece_equal_mass"]
    (folder.path / "result.json").write_text(json.dumps(result))
    assert "scale" in report_page(load_runs(tmp_path), "A page")
