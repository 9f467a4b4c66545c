"""Published arrays of corrupted images: taken, used in place of recomputed ones, and refused where they do not fit."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from short_runs import written

from augbench.bench.augmentation.corruptions.corrupt import SETS, SEVERITIES, corrupt
from augbench.bench.commands import preparing
from augbench.bench.common.errors import UserError
from augbench.bench.data.array_folder import DamagedDataError
from augbench.bench.data.dataset import Split
from augbench.bench.data.downloads import ProgressCallback
from augbench.bench.data.original_corruptions import original_arrays, original_corruptions, prepare_originals
from augbench.bench.experiment.spec import RunSpec, dataset_component
from augbench.bench.runs.execution_settings import ExecutionSettings
from augbench.bench.runs.run_folder import RunState
from augbench.bench.training.corrupted_images import corrupted_images
from augbench.bench.training.stopping import StopSignal
from augbench.bench.training.worker import execute, load_dataset

CommandLine = Callable[..., tuple[int, str, str]]
COUNT, SIDE = 6, 16
# as in the archives of their authors
FIFTEEN = """
gaussian_noise shot_noise impulse_noise defocus_blur glass_blur motion_blur zoom_blur snow frost fog brightness contrast
elastic_transform pixelate jpeg_compression
""".split()
FOUR = "speckle_noise gaussian_blur spatter saturate".split()
TEN = """
blue_noise_sample checkerboard_cutout inverse_sparkles pinch_and_twirl ripple brownish_noise circular_motion_blur lines
sparkles transverse_chromatic_abberation
""".split()


def some(count: int = COUNT, side: int = SIDE, channels: int = 3) -> Split:
    source = torch.Generator().manual_seed(7)
    images = torch.randint(256, (count, channels, side, side), dtype=torch.uint8, generator=source)
    return Split(images, torch.arange(count) % 3)


def published(folder: Path, names: list[str], test: Split) -> Path:
    """Write arrays as they are published, each of one grey level plus the number of its image."""
    folder.mkdir()
    count, channels, side, _ = test.images.shape
    for level, name in enumerate(names):
        rows = np.arange(5 * count, dtype=np.uint8)[:, None, None, None] + level
        np.save(folder / f"{name}.npy", np.broadcast_to(rows, (5 * count, side, side, channels)))
    np.save(folder / "labels.npy", np.tile(test.labels.numpy(), 5).astype(np.uint8))
    return folder


def prepare(folder: Path, root: Path, test: Split, name: str = "corruptions") -> Path:
    return prepare_originals(name, folder, test, root, ProgressCallback())


def test_they_are_used_in_place_of_recomputed_ones(tmp_path: Path) -> None:
    test, source = some(), published(tmp_path / "CIFAR-10-C", FIFTEEN + FOUR, some())
    assert corrupted_images(test, "corruptions", tmp_path).images == "recomputed"
    folder = prepare(source, tmp_path, test)
    found = corrupted_images(test, "corruptions", tmp_path)
    two = found.of_some(torch.tensor([1, 4]))
    assert two.test.labels.equal(test.labels[[1, 4]])
    assert two.corrupted("fog", 3).equal(found.corrupted("fog", 3)[[1, 4]])
    assert found.images == "original"
    assert sum(found.extra.values()) == 4
    assert list(found.extra) == list(original_corruptions("corruptions"))
    assert (found.extra["frost"], found.extra["spatter"]) == (False, True)
    files = {"fog": "fog", "frost": "frost", "elastic": "elastic_transform", "jpeg": "jpeg_compression"}
    for corruption, file in files.items():
        for severity in SEVERITIES:
            images = found.corrupted(corruption, severity)
            assert (images.shape, images.dtype) == (test.images.shape, torch.uint8)
            expected = [(severity - 1) * COUNT + index + FIFTEEN.index(file) for index in range(COUNT)]
            assert images[:, 0, 0, 0].tolist() == expected
    other = corrupted_images(Split(255 - test.images, test.labels), "corruptions", tmp_path)
    assert other.images == "recomputed", "of other images"
    assert torch.equal(other.corrupted("fog", 2), corrupt(255 - test.images, "fog", 2))
    assert corrupted_images(test, "corruptions-bar", tmp_path).images == "recomputed"
    assert prepare(source, tmp_path, test) == folder, "once more"


def test_the_extra_ones_need_not_be_there_and_the_second_set_has_names_of_its_own(tmp_path: Path) -> None:
    test = some()
    prepare(published(tmp_path / "C", FIFTEEN, test), tmp_path, test)
    assert not any(corrupted_images(test, "corruptions", tmp_path).extra.values())
    prepare(published(tmp_path / "C-bar", TEN, test), tmp_path, test, "corruptions-bar")
    found = corrupted_images(test, "corruptions-bar", tmp_path)
    assert (found.images, set(found.extra)) == ("original", set(SETS["corruptions-bar"]))
    assert found.corrupted("transverse-chromatic-aberration", 1)[0, 0, 0, 0] == 9


def wrong_labels(folder: Path, labels: np.ndarray) -> None:
    np.save(folder / "labels.npy", labels)


RIGHT = np.tile(np.arange(COUNT) % 3, 5)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda folder: (folder / "fog.npy").unlink(), r"has 15 of the 16 files .* missing: fog.npy"),
        (lambda folder: (folder / "labels.npy").unlink(), "missing: labels.npy"),
        (
            lambda folder: np.save(folder / "snow.npy", np.zeros((10, SIDE, SIDE, 3), np.uint8)),
            r"snow.npy has the shape \(10, 16, 16, 3\) .* must be \(30, 16, 16, 3\) and uint8, the 6 test images 5",
        ),
        (
            lambda folder: np.save(folder / "spatter.npy", np.zeros((30, 3, SIDE, SIDE), np.uint8)),
            "spatter.npy has the shape",
        ),
        (
            lambda folder: np.save(folder / "snow.npy", np.zeros((30, SIDE, SIDE, 3))),
            "snow.npy has .* type float64",
        ),
        (lambda folder: np.save(folder / "snow.npy", {}, allow_pickle=True), "snow.npy is no array that can be read"),
        (lambda folder: (folder / "snow.npy").write_bytes(b"<html>"), "snow.npy is no array that can be read"),
        (lambda folder: wrong_labels(folder, RIGHT[:COUNT]), r"labels.npy has the shape \(6,\) .* must be \(30,\)"),
        (lambda folder: wrong_labels(folder, RIGHT.astype(float)), "whole numbers"),
        (lambda folder: wrong_labels(folder, np.repeat(RIGHT[:COUNT], 5)), r"\d+ labels of .* in their order, 5 times"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, spoil: Callable[[Path], object], words: str) -> None:
    folder, test = published(tmp_path / "C", FIFTEEN, some()), some()
    spoil(folder)
    with pytest.raises(UserError, match=words) as raised:
        prepare(folder, tmp_path, test)
    assert "\n" not in str(raised.value)
    assert original_arrays("corruptions", test, tmp_path) is None


def test_damage_names_the_command_that_mends_it(tmp_path: Path) -> None:
    test = some()
    folder = prepare(published(tmp_path / "C", FIFTEEN, test), tmp_path, test)
    (folder / "fog.npy").write_bytes(b"")
    with pytest.raises(DamagedDataError, match=r"data prepare corruptions FOLDER --data .* replaces it"):
        corrupted_images(test, "corruptions", tmp_path)


def test_a_run_and_a_probe_say_that_they_used_them(
    few_digits: None,
    make_spec: Callable[..., RunSpec],
    settings: ExecutionSettings,
    stop: StopSignal,
    tmp_path: Path,
    augbench: CommandLine,
) -> None:
    spec = make_spec("none")
    spec = spec.model_copy(update={"protocol": spec.protocol.model_copy(update={"shift": "corruptions-bar"})})
    test = load_dataset(spec.dataset, settings.data).test
    prepare(published(tmp_path / "C-bar", TEN, test), settings.data, test, "corruptions-bar")
    folder = written(tmp_path / "out", spec)
    assert execute(folder, settings, stop) is RunState.DONE
    shift = (folder.read_result() or {})["shift"]
    assert (shift["images"], len(shift["scores"])) == ("original", 51)
    options = ("--kind", "corruptions-bar", "--device", "cpu", "--data", settings.data)
    code, text, _ = augbench("probe", folder.path, "--out", tmp_path / "probes", *options)
    assert (code, "original corruptions-bar" in " ".join(text.split())) == (0, True)
    lines = (tmp_path / "probes" / "probe-corruptions-bar.csv").read_text().splitlines()
    assert len(lines) == 52
    assert all(line.endswith("corruptions-bar,original") for line in lines[1:])


def test_the_command(few_digits: None, tmp_path: Path, augbench: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    data = ("--data", tmp_path / "data")
    for arguments, words in (
        (("corruptions", tmp_path / "C"), "The data set cifar10 is not prepared"),
        (("corruptions",), "needs one path after it, the folder of the published arrays; none given."),
        (("corruptions", "a", "b"), "2 given."),
        (("corruptions-bar", "a", "--suite", "demo"), "--suite belongs to published data sets"),
        (("corruptions", "a", "--side", "32"), "--side belongs to images of your own, not to `corruptions`."),
    ):
        code, _, errors = augbench("data", "prepare", *arguments, *data)
        assert (code, words in " ".join(errors.split())) == (2, True), errors
    monkeypatch.setattr(preparing, "CORRUPTED_DATASET", "mnist5k")
    code, _, errors = augbench("data", "prepare", "corruptions", tmp_path / "C", *data)
    assert (code, "There is no" in errors) == (2, True)
    digits = Split(torch.zeros(100, 1, 28, 28), torch.zeros(100))
    code, _, errors = augbench("data", "prepare", "corruptions", published(tmp_path / "C", FIFTEEN, digits), *data)
    assert (code, "labels" in errors) == (2, True)
    test = load_dataset(dataset_component("mnist5k", {}, "a test"), tmp_path).test
    code, _, said = augbench("data", "prepare", "corruptions", published(tmp_path / "D", FIFTEEN, test), *data)
    assert (code, "corruptions: ready in" in " ".join(said.split())) == (0, True)
    assert corrupted_images(test, "corruptions", tmp_path / "data").images == "original"
