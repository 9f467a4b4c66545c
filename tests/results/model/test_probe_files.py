"""Files of probes, read again beside the runs that they are of."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from paragraphs import fails_in_one_paragraph
from probed import corruption_rows, outside_rows, overlap_rows, write_corruption_probe

from augbench.bench.common.errors import UserError
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.results.model.corruptions import BENCHMARKS, COLUMNS, probe_file
from augbench.results.model.frame import KEYS, Runs, load_runs
from augbench.results.model.outside import PROBE_FILE as OUTSIDE_FILE
from augbench.results.model.overlap import PROBE_FILE as OVERLAP_FILE
from augbench.results.model.probe_files import with_probes

PROBE_FILE = probe_file("corruptions")

CommandLine = Callable[..., tuple[int, str, str]]
WriteRun = Callable[..., RunFolder]


@pytest.fixture
def runs(write_run: WriteRun, tmp_path: Path) -> Runs:
    """Two methods with two seeds, and a run without a result."""
    for method in ("none", "scale"):
        for seed in (0, 1):
            write_run(method, seed=seed, root=tmp_path / "out")
    write_run("scale", seed=2, state=RunState.FAILED, root=tmp_path / "out")
    return load_runs(tmp_path / "out")


def test_a_probe_that_was_written_is_read(runs: Runs, tmp_path: Path) -> None:
    assert runs.corruptions.empty and list(runs.corruptions) == list(COLUMNS)
    folder = write_corruption_probe(runs, tmp_path / "probes")
    probed = with_probes(runs, [folder])
    expected = corruption_rows(runs.finished().to_dict("records"))
    pd.testing.assert_frame_equal(probed.corruptions, expected, check_dtype=False)
    assert probed.outside.empty
    assert probed.probes == (folder,)
    assert with_probes(runs, []) is runs


def test_names_and_order_are_those_of_the_runs(runs: Runs, tmp_path: Path) -> None:
    path = write_corruption_probe(runs, tmp_path / "probes") / PROBE_FILE
    backwards = pd.read_csv(path).iloc[::-1]
    other = backwards.assign(folder="another_run")
    pd.concat([other, backwards]).assign(label="a former name", comparison="", added="later").to_csv(path, index=False)
    probed = with_probes(runs, [tmp_path / "probes"]).corruptions
    keys = probed[list(KEYS)].drop_duplicates().reset_index(drop=True)
    pd.testing.assert_frame_equal(keys, runs.finished()[list(KEYS)].reset_index(drop=True))


def test_runs_may_be_probed_one_after_the_other(runs: Runs, tmp_path: Path) -> None:
    for method, inside in runs.finished().groupby("method"):
        (tmp_path / str(method)).mkdir()
        corruption_rows(inside.to_dict("records")).to_csv(tmp_path / str(method) / PROBE_FILE, index=False)
    probed = with_probes(runs, [tmp_path / "scale", tmp_path / "none"])
    assert list(dict.fromkeys(probed.corruptions["label"])) == ["none", "scale"]


def test_files_of_earlier_versions_name_neither_set_nor_source(runs: Runs, tmp_path: Path) -> None:
    path = write_corruption_probe(runs, tmp_path / "probes") / PROBE_FILE
    pd.read_csv(path).drop(columns=["corruptions", "images"]).to_csv(path, index=False)
    expected = corruption_rows(runs.finished().to_dict("records"))
    pd.testing.assert_frame_equal(with_probes(runs, [path.parent]).corruptions, expected, check_dtype=False)


def test_a_probe_takes_the_place_of_what_runs_recorded_of_its_set(runs: Runs, tmp_path: Path) -> None:
    probed = corruption_rows(runs.finished().to_dict("records"))
    bar = probed.assign(corruptions="corruptions-bar")
    recorded = replace(runs, corruptions=pd.concat([probed.assign(accuracy=0.5), bar], ignore_index=True))
    folder = write_corruption_probe(runs, tmp_path / "probes")
    found = with_probes(recorded, [folder]).corruptions
    for name, expected in (("corruptions", probed), ("corruptions-bar", bar)):
        of_set = found[found["corruptions"] == name].reset_index(drop=True)
        pd.testing.assert_frame_equal(of_set, expected, check_dtype=False)
    assert list(dict.fromkeys(found["folder"])) == list(runs.finished()["folder"])
    (tmp_path / "bar").mkdir()
    bar.to_csv(tmp_path / "bar" / probe_file("corruptions-bar"), index=False)
    assert set(with_probes(runs, [tmp_path / "bar", folder]).corruptions["corruptions"]) == {*BENCHMARKS}


def changed(**values: object) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """Change the first line of a probe."""
    return lambda frame: pd.concat([frame.iloc[:1].assign(**values), frame.iloc[1:]])


WRONG: dict[str, tuple[Callable[[pd.DataFrame], pd.DataFrame], tuple[str, ...]]] = {
    "a percentage": (changed(accuracy=90), ("line 2, column accuracy", "less than or equal to 1")),
    "no number": (changed(nll="nan"), ("line 2, column nll",)),
    "a severity of clean images": (changed(severity=1), ("severities are 1 to 5, and 0 of clean",)),
    "a missing column": (lambda frame: frame.drop(columns="ece"), ("column ece", "Field required")),
    "no lines": (lambda frame: frame.iloc[:0], ("it has no lines",)),
    "other runs": (lambda frame: frame.assign(folder="mine"), ("are of other runs. Give", "--out PROBES")),
    "lines twice": (lambda frame: pd.concat([frame, frame.iloc[:1]]), ("given twice",)),
    "cut off": (lambda frame: frame[frame["severity"] < 5], ("cut off", "fog, snow, speckle-noise")),
    "no clean images": (lambda frame: frame[frame["severity"] > 0], ("cut off", "severities of clean")),
    "fewer corruptions of one run": (
        lambda frame: frame.iloc[:-5],
        ("of the same corruptions of the same test images",),
    ),
    "original images of one run": (changed(images="original"), ("of the same corruptions of the same test images",)),
    "another set": (changed(corruptions="mine"), ("line 2, column corruptions", "'corruptions' or 'corruptions-bar'")),
    "other images of one run": (changed(test_dataset="letters"), ("of the same corruptions of the same test images",)),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_files_are_refused_in_a_paragraph(what: str, runs: Runs, tmp_path: Path, augbench: CommandLine) -> None:
    change, words = WRONG[what]
    path = write_corruption_probe(runs, tmp_path / "probes") / PROBE_FILE
    change(pd.read_csv(path)).to_csv(path, index=False)
    outcome = augbench("tables", "--from", tmp_path / "out", "--probes", tmp_path / "probes")
    outcome = (outcome[0], outcome[1], "\n".join(line for line in outcome[2].splitlines() if "Note:" not in line))
    assert fails_in_one_paragraph(outcome, *words)


@pytest.mark.parametrize("content", (b"\xff\xfe\x00", b'"folder\n', b"PK\x03\x04"))
def test_what_is_no_probe_is_refused(content: bytes, runs: Runs, tmp_path: Path, augbench: CommandLine) -> None:
    (tmp_path / "probes").mkdir()
    (tmp_path / "probes" / PROBE_FILE).write_bytes(content)
    for command in (("report", "--out", tmp_path / "page.html"), ("figures", "--out", tmp_path / "figures")):
        code, _, said = augbench(*command, "--from", tmp_path / "out", "--probes", tmp_path / "probes")
        assert code == 2 and f"{tmp_path / 'probes' / PROBE_FILE} cannot be read as a probe" in said


def test_a_folder_without_probes_is_refused(runs: Runs, tmp_path: Path, augbench: CommandLine) -> None:
    code, _, said = augbench("tables", "--from", tmp_path / "out", "--probes", tmp_path / "nowhere")
    assert code == 2 and f"{tmp_path / 'nowhere'} has neither probe-corruptions.csv nor probe-" in said


def test_probes_of_other_images(runs: Runs, tmp_path: Path, augbench: CommandLine) -> None:
    expected = outside_rows(runs.finished().to_dict("records"))
    path = tmp_path / "probes" / OUTSIDE_FILE
    path.parent.mkdir()
    expected.to_csv(path, index=False)
    probed = with_probes(runs, [tmp_path / "probes"])
    pd.testing.assert_frame_equal(probed.outside, expected, check_dtype=False)
    assert probed.corruptions.empty
    for change, words in ((changed(auroc=50), "column auroc"), (changed(against_images=7), "not against the same")):
        change(expected).to_csv(path, index=False)
        code, _, said = augbench("tables", "--from", tmp_path / "out", "--probes", tmp_path / "probes")
        assert code == 2 and words in said


def test_distances_stand_beside_scores(runs: Runs, tmp_path: Path) -> None:
    expected = overlap_rows(runs.finished().to_dict("records"))
    path = tmp_path / "probes" / OVERLAP_FILE
    path.parent.mkdir()
    expected.to_csv(path, index=False)
    with pytest.raises(UserError, match=r"which these runs lack.* --kind corruptions --out PROBES"):
        with_probes(runs, [tmp_path / "probes"])
    probed = with_probes(runs, [write_corruption_probe(runs, tmp_path / "probes")])
    pd.testing.assert_frame_equal(probed.overlap, expected, check_dtype=False)
    for change, words in (
        (changed(severity=0), "line 2, column severity"),
        (changed(distance=-1), "line 2, column distance"),
        (changed(transforms=7), "not of distances to the same corruptions"),
        (lambda frame: frame[frame["severity"] < 5], "cut off"),
    ):
        change(expected).to_csv(path, index=False)
        with pytest.raises(UserError, match=words):
            with_probes(runs, [tmp_path / "probes"])
