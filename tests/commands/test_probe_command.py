"""`augbench probe`: its numbers are those of the runs, and wrong input gets one paragraph."""

import csv
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from short_runs import written

from augbench.bench.augmentation.corruptions.corrupt import corrupt
from augbench.bench.commands.probing import MOST_VALUES, read_values
from augbench.bench.common.errors import UserError
from augbench.bench.experiment.spec import RunSpec, dataset_component
from augbench.bench.runs.execution_settings import ExecutionSettings
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.training.evaluation import predict
from augbench.bench.training.probe_kinds import KINDS
from augbench.bench.training.stopping import StopSignal
from augbench.bench.training.trained import load_network
from augbench.bench.training.worker import execute
from augbench.datasets.digits import DigitOptions
from augbench.datasets.mnist5k import Mnist5k

CommandLine = Callable[..., tuple[int, str, str]]
MakeSpec = Callable[..., RunSpec]


@pytest.fixture
def out(few_digits: None, make_spec: MakeSpec, kept: Path, settings: ExecutionSettings, stop: StopSignal) -> Path:
    """Make an output folder with three finished runs, and one that was killed."""
    if not list(kept.iterdir()):
        for method, seed in (("scale", 0), ("none", 0), ("none", 1)):
            assert execute(written(kept, make_spec(method, seed=seed)), settings, stop) is RunState.DONE
        written(kept, make_spec("none", seed=2)).write_status(RunState.KILLED)
    return kept


def rows(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as lines:
        return list(csv.DictReader(lines))


def result(out: Path, folder: str) -> dict[str, Any]:
    found = RunFolder(out / "runs" / folder).read_result()
    assert found is not None
    return found


def test_the_recorded_probe_and_the_other_kinds(out: Path, tmp_path: Path, augbench: CommandLine) -> None:
    to = tmp_path / "probes"
    options = ("--kind", "rotation", "--values=-180:60:120", "--kind", "scale", "--values", "0.5,1,2")
    code, text, errors = augbench("probe", out, "--out", to, *options, "--device", "cpu")
    assert (code, errors) == (0, "")
    files = {f"probe-{kind}.{ending}" for kind in ("rotation", "scale") for ending in ("csv", "png", "pdf", "svg")}
    assert {path.name for path in to.iterdir()} == files
    assert all(str(to / file) in text for file in files)
    found = rows(to / "probe-rotation.csv")
    assert [(row["label"], row["seed"]) for row in found[::3]] == [("none", "0"), ("none", "1"), ("scale", "0")]
    for row in found:
        recorded = result(out, row["folder"])["rotation_probe"]
        assert float(row["accuracy"]) == recorded["accuracy"][recorded["degrees"].index(float(row["value"]))]
        expected = {"dataset": "mnist5k (size=14)", "kind": "rotation", "draws": "0", "test_images": "100"}
        assert expected.items() <= row.items()
    scales = rows(to / "probe-scale.csv")
    assert [row["value"] for row in scales] == ["0.5", "1.0", "2.0"] * 3
    for row in scales[1::3]:
        assert float(row["accuracy"]) == pytest.approx(result(out, row["folder"])["metrics"]["0"]["accuracy"]["mean"])
    assert len({row["accuracy"] for row in scales}) > 3


def test_the_table_sums_up(out: Path, tmp_path: Path, augbench: CommandLine) -> None:
    to = tmp_path / "probes"
    code, text, _ = augbench("probe", out, "--out", to, "--values", "30,90", "--device", "cpu")
    assert code == 0
    found = rows(to / "probe-rotation.csv")
    assert {row["value"] for row in found} == {"30.0", "90.0"}
    for label in ("none", "scale"):
        (line,) = [line for line in text.splitlines() if line.startswith(f"│ {label} ")]
        cells = [cell.strip() for cell in line.strip("│").split("│")]
        of_label = [row for row in found if row["label"] == label]
        means = {
            value: sum(accuracies) / len(accuracies)
            for value in ("30.0", "90.0")
            if (accuracies := [float(row["accuracy"]) for row in of_label if row["value"] == value])
        }
        folders = {row["folder"] for row in of_label}
        plain = [result(out, folder)["metrics"]["0"]["accuracy"]["mean"] for folder in folders]
        worst = min(means, key=lambda value: means[value])
        percents = [sum(plain) / len(plain), sum(means.values()) / 2, means[worst]]
        shown = [str(len(folders)), *(f"{100 * fraction:.1f}" for fraction in percents), f"{float(worst):g}°"]
        assert cells == [label, *shown]


@pytest.mark.slow
def test_corruptions_are_scored_on_the_images_of_the_network(out: Path, tmp_path: Path, augbench: CommandLine) -> None:
    to = tmp_path / "probes"
    code, text, errors = augbench("probe", out, "--out", to, "--kind", "corruptions", "--device", "cpu")
    assert (code, errors) == (0, "")
    assert {path.name for path in to.iterdir()} == {f"probe-corruptions.{end}" for end in ("csv", "png", "pdf", "svg")}
    found = rows(to / "probe-corruptions.csv")
    assert len(found) == 3 * (1 + 5 * 16)
    for clean in found[::81]:
        recorded = result(out, clean["folder"])["metrics"]["0"]
        assert (clean["corruption"], clean["severity"]) == ("clean", "0")
        for metric in ("accuracy", "nll", "ece"):
            assert float(clean[metric]) == pytest.approx(recorded[metric]["mean"], rel=1e-5)
    last = next(row for row in found if (row["corruption"], row["severity"]) == ("fog", "5"))
    trained = load_network(RunFolder(out / "runs" / last["folder"]), tmp_path, torch.device("cpu"))
    predicted = predict(trained.network, corrupt(trained.data.test.images, "fog", 5)).argmax(-1)
    expected = (predicted == trained.data.test.labels).float().mean().item()
    assert (float(last["accuracy"]), last["extra"]) == (pytest.approx(expected), "False")
    assert "gaussian-blur (extra)" in text
    lines = [line.strip("│ ").split("│") for line in text.splitlines() if line.startswith("│ none ")]
    none, ends = ([cell.strip() for cell in line] for line in lines)
    main = [float(row["accuracy"]) for row in found if row["label"] == "none" and row["extra"] == "False"]
    corrupted = [accuracy for index, accuracy in enumerate(main) if index % 71]
    assert (none[3], none[6]) == (f"{100 * sum(corrupted) / 140:.1f}", "100.0")
    for measure, interval in zip(none[3:6], ends[1:4], strict=True):
        low, high = map(float, interval.split("…"))
        assert low <= float(measure) <= high
    assert ends[4] == "–"


@pytest.mark.slow
def test_corruptions_with_draws(out: Path, tmp_path: Path, augbench: CommandLine) -> None:
    (run,) = (out / "runs").glob("scale_*")
    options = ("--kind", "corruptions", "--draws", "2", "--device", "cpu")
    assert augbench("probe", run, "--out", tmp_path / "probes", *options)[0] == 0
    clean, *corrupted = rows(tmp_path / "probes" / "probe-corruptions.csv")
    recorded = result(out, run.name)["metrics"]["2"]["accuracy"]["values"][0]
    assert float(clean["accuracy"]) == pytest.approx(recorded)
    assert {row["draws"] for row in corrupted} == {"2"}


def test_draws_are_those_that_were_recorded(out: Path, tmp_path: Path, augbench: CommandLine) -> None:
    to = tmp_path / "probes"
    options = ("--values", "0", "--draws", "2", "--device", "cpu")
    runs = sorted((out / "runs").glob("*_seed0_*"))
    code, text, _ = augbench("probe", *runs, runs[0], "--out", to, *options)  # one that is given twice counts once
    assert code == 0
    assert "averaged over 2 test-time draws" in " ".join(text.split())
    none, scale = rows(to / "probe-rotation.csv")
    assert (none["label"], none["draws"]) == ("none", "0")  # which has no policy to draw from
    assert (scale["label"], scale["draws"]) == ("scale", "2")
    recorded = {row["label"]: result(out, row["folder"])["metrics"] for row in (none, scale)}
    assert float(none["accuracy"]) == pytest.approx(recorded["none"]["0"]["accuracy"]["mean"])
    assert float(scale["accuracy"]) == pytest.approx(recorded["scale"]["2"]["accuracy"]["values"][0])


@pytest.mark.slow
def test_images_of_another_data_set(out: Path, tmp_path: Path, augbench: CommandLine) -> None:
    to, run = tmp_path / "probes", next((out / "runs").glob("scale_*"))
    options = ("--values", "0,90", "--device", "cpu", "--on")
    code, text, _ = augbench("probe", run, "--out", to, *options, "rotmnist5k")
    assert code == 0
    assert "on the test images of rotmnist5k" in " ".join(text.split())
    found = rows(to / "probe-rotation.csv")
    named = {(row["dataset"], row["test_dataset"]) for row in found}
    assert named == {("mnist5k (size=14)", "untransformed rotmnist5k (size=14)")}
    assert augbench("probe", run, "--out", to, *options[:-1])[0] == 0
    own = rows(to / "probe-rotation.csv")
    assert [row["accuracy"] for row in own] == [row["accuracy"] for row in found], "both have the same upright digits"
    assert {row["test_dataset"] for row in own} == {"mnist5k (size=14)"}
    said = one_paragraph(augbench("probe", run, "--out", to, *options, "planted"))
    assert "takes images of 1 × 14 × 14 values and 10 classes; those of planted have 1 × 28 × 28 values" in said


def one_paragraph(outcome: tuple[int, str, str]) -> str:
    code, printed, errors = outcome
    assert (code, printed) == (2, "")
    assert errors.startswith("Error: ")
    assert "\n" not in errors.strip(), "more than one paragraph"
    return errors


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ("--kind", "rotatoin"),
            "no kind of transforms 'rotatoin'. Did you mean 'rotation'? Valid choices: corruptions, corruptions-bar,",
        ),
        (("--kind", "scale", "--kind", "scale"), "--kind scale --kind scale names a kind twice"),
        (("--kind", "scale", "--values", "0"), "0 is out of range for scale. Give factors from 0.01 to 100"),
        (("--kind", "x-scale", "--values", "-1:1:0.5"), "-1 is out of range for x-scale"),
        (("--values", "0,10,ten"), "--values '0,10,ten' cannot be read: 'ten' is no number"),
        (("--values", "0:90"), "'0:90' is no number and no range"),
        (("--values", " "), "cannot be read"),
        (("--values", "snan"), "sNaN is out of range for rotation"),
        (("--values", "0:1e400:1"), "1E+400 is out of range for rotation. Give degrees from -360 to 360"),
        (("--values", "0:90:nan"), "needs a positive step"),
        (("--values", "1e99999999999999999999"), "is no number and no range"),
        (("--values", "90:-90:10"), "needs a positive step"),
        (("--values", "0:90:0.01"), "has more than 1000 values"),
        (("--kind", "scale", "--kind", "rotation", "--values", "1"), "once for each --kind"),
        (("--kind", "corruptions", "--values", "1,2"), "--kind corruptions takes no --values"),
        (("--kind", "ood", "--against", "svhn", "--values", "1"), "--kind ood takes no --values"),
        (("--kind", "ood"), "--kind ood needs --against DATASET"),
        (("--against", "svhn"), "Add --kind ood, or omit --against"),
        (("--kind", "ood", "--against", "svhn", "--against", "svhn"), "--against names a data set twice: svhn, svhn"),
        (("--kind", "ood", "--against", "svhn", "--draws", "2"), "takes neither --draws nor --on"),
        (("--kind", "ood", "--against", "svhn", "--on", "svhn"), "takes neither --draws nor --on"),
        (("--kind", "overlap", "--draws", "2"), "--kind overlap takes neither --draws nor --on"),
        (("--kind", "overlap", "--values", "1"), "--kind overlap takes no --values"),
        (("--kind", "ood", "--against", "svnh"), "no data set 'svnh'. Did you mean 'svhn'?"),
        (("--kind", "corruption"), "Did you mean 'corruptions'?"),
        (("--draws", "-1"), "--draws must be from 0 to 1024, not -1"),
        (("--on", "rotmnits"), "no data set 'rotmnits'. Did you mean 'rotmnist'?"),
        (("--device", "cuda:9"), "no device 'cuda:9'"),
    ],
)
def test_wrong_options(options: tuple[str, ...], words: str, tmp_path: Path, augbench: CommandLine) -> None:
    assert words in one_paragraph(augbench("probe", tmp_path, "--out", tmp_path / "probes", *options))
    assert not (tmp_path / "probes").exists()


def test_folders_without_finished_runs(tmp_path: Path, make_spec: MakeSpec, augbench: CommandLine) -> None:
    to = ("--out", tmp_path / "probes")
    assert "does not exist" in one_paragraph(augbench("probe", tmp_path / "nowhere", *to))
    assert "cannot be read" in one_paragraph(augbench("probe", tmp_path / ("x" * 300), *to))
    folder = written(tmp_path / "out", make_spec())
    folder.write_status(RunState.FAILED)
    assert "None of the 1 runs in" in one_paragraph(augbench("probe", tmp_path / "out", *to))
    assert "is failed" in one_paragraph(augbench("probe", folder.path, *to))


def test_copies_of_a_run_and_damage(out: Path, tmp_path: Path, augbench: CommandLine) -> None:
    to = ("--out", tmp_path / "probes", "--device", "cpu")
    run = next((out / "runs").glob("scale_*"))
    copy = shutil.copytree(run, tmp_path / "copy" / "runs" / run.name)
    said = one_paragraph(augbench("probe", out, tmp_path / "copy", *to))
    assert f"{copy} holds the same run as {run}" in said
    RunFolder(copy).model.write_bytes(b"")
    assert "model.pt is damaged" in one_paragraph(augbench("probe", tmp_path / "copy", *to))
    (tmp_path / "a file").touch()
    assert "cannot be written" in one_paragraph(augbench("probe", out, "--out", tmp_path / "a file"))


@given(first=st.integers(-300, 300), step=st.integers(1, 60), count=st.integers(1, 30), digits=st.integers(0, 2))
def test_ranges_have_exact_steps_and_both_ends(first: int, step: int, count: int, digits: int) -> None:
    unit = 10**digits
    last = min(first + step * (count - 1), 360)
    text = ":".join(f"{number / unit:.{digits}f}" for number in (first, last, step))
    expected = [number / unit for number in range(first, last + 1, step)]
    assert read_values(text, KINDS["rotation"]) == expected


def test_values_are_sorted_and_counted_once_and_not_too_many() -> None:
    assert read_values("90, 0:30:10,10,-5", KINDS["rotation"]) == [-5, 0, 10, 20, 30, 90]
    assert len(read_values("0:99.9:0.1", KINDS["rotation"])) == MOST_VALUES
    assert read_values("10:20:1e999999", KINDS["rotation"]) == [10]
    for text in ("0:99.9:0.1,100", "0:1:1e-9", "0:1:1e-400"):
        with pytest.raises(UserError, match="more than 1000"):
            read_values(text, KINDS["rotation"])


@given(st.text(max_size=30))
def test_any_text_is_read_or_explained(text: str) -> None:
    kind = KINDS["scale"]
    try:
        found = read_values(text, kind)
    except UserError as error:
        assert str(error).startswith("--values ")
    else:
        assert found
        assert all(kind.lowest <= value <= kind.highest for value in found)


@pytest.mark.slow
def test_networks_of_turned_digits_are_probed_on_upright_ones(
    few_digits: None,
    make_spec: MakeSpec,
    tmp_path: Path,
    settings: ExecutionSettings,
    stop: StopSignal,
    augbench: CommandLine,
) -> None:
    spec = make_spec("none").model_copy(update={"dataset": dataset_component("rotmnist5k", {"size": 14}, "a test")})
    folder = written(tmp_path / "out", spec)
    assert execute(folder, settings, stop) is RunState.DONE
    trained = load_network(folder, tmp_path, torch.device("cpu"))
    upright = Mnist5k().load(DigitOptions(size=14), tmp_path).test
    expected = (predict(trained.network, upright.images).argmax(-1) == upright.labels).float().mean().item()
    recorded = result(tmp_path / "out", folder.path.name)
    probe = recorded["rotation_probe"]
    at_60 = dict(zip(probe["degrees"], probe["accuracy"], strict=True))[-60.0]
    code, _, _ = augbench("probe", folder.path, "--out", tmp_path / "to", "--values=-60,0", "--device", "cpu")
    found = rows(tmp_path / "to" / "probe-rotation.csv")
    turned, plain = (float(row["accuracy"]) for row in found)
    assert code == 0
    assert (turned, plain) == (at_60, expected)
    assert {row["test_dataset"] for row in found} == {"untransformed rotmnist5k (size=14)"}
    assert plain != recorded["metrics"]["0"]["accuracy"]["mean"]
    assert probe["pixels"] == 28
