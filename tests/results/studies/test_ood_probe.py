"""Probes with images of other data sets: scores, numbers, and data sets that do not fit."""

import csv
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from own_images import prepared
from paragraphs import fails_in_one_paragraph
from scipy.special import logsumexp, softmax
from sklearn.metrics import roc_auc_score, roc_curve

from augbench.bench.experiment.spec import RunSpec, predictor_component
from augbench.bench.runs.execution_settings import ExecutionSettings
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.training.stopping import StopSignal
from augbench.bench.training.trained import load_network
from augbench.bench.training.worker import execute
from augbench.datasets.digits import DigitOptions
from augbench.datasets.mnist5k import RotMnist5k
from augbench.results.studies.ood_probe import network_scores

CommandLine = Callable[..., tuple[int, str, str]]
CPU = torch.device("cpu")


def test_scores_are_those_of_scipy_and_do_not_saturate() -> None:
    outputs = torch.randn(200, 10, generator=torch.Generator().manual_seed(0)) * 10
    found = network_scores(outputs)
    values = outputs.double().numpy()
    np.testing.assert_allclose(found["confidence"], softmax(values, axis=1).max(axis=1), rtol=1e-12)
    np.testing.assert_allclose(found["energy"], logsumexp(values, axis=1), rtol=1e-12)
    sure = network_scores(torch.tensor([[20.0, 0.0], [25.0, 0.0]]))["confidence"]
    assert sure[0] < sure[1]  # in single precision both are 1


@pytest.fixture
def run(finished: Callable[..., RunFolder]) -> RunFolder:
    """Execute a short run on digits."""
    return finished("none")


def test_the_numbers_are_those_of_scikit_learn(run: RunFolder, tmp_path: Path, augbench: CommandLine) -> None:
    given = ("--kind", "ood", "--against", "rotmnist5k", "--out", tmp_path / "probes", "--device", "cpu")
    code, text, errors = augbench("probe", run.path, *given)
    assert (code, errors) == (0, "")
    assert "against images of rotmnist5k (size=14)" in text and str(tmp_path / "probes" / "probe-ood.csv") in text
    with (tmp_path / "probes" / "probe-ood.csv").open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert [row["score"] for row in rows] == ["confidence", "energy"]
    _, tables, _ = augbench("tables", "--from", run.path.parent, "--probes", tmp_path / "probes", "--table", "ood")
    trained = load_network(run, tmp_path, CPU)
    turned = RotMnist5k().load(DigitOptions(size=14), tmp_path).test
    with torch.no_grad():
        outputs = [trained.network(images / 255).double() for images in (trained.data.test.images, turned.images)]
    scores = (torch.cat(outputs).softmax(1).amax(1), torch.cat(outputs).logsumexp(1))
    is_inside = np.repeat([1, 0], [100, len(turned)])
    for row, values in zip(rows, scores, strict=True):
        assert float(row["auroc"]) == pytest.approx(roc_auc_score(is_inside, values.numpy()), abs=1e-3)
        false, true, _ = roc_curve(is_inside, values.numpy(), drop_intermediate=False)
        assert float(row["fpr95"]) == pytest.approx(false[np.argmax(true >= 0.95)], abs=0.02)
        shown = f"{100 * float(row['auroc']):.1f}"
        assert shown in text and shown in tables
        assert (row["dataset"], row["test_images"], row["against_images"]) == ("mnist5k (size=14)", "100", "100")


def test_predictors_with_members_have_no_energy(
    run: RunFolder,
    make_folder: Callable[[RunSpec], RunFolder],
    settings: ExecutionSettings,
    stop: StopSignal,
    tmp_path: Path,
    augbench: CommandLine,
) -> None:
    predictor = predictor_component("batch-ensemble", {"members": 2}, "a test")
    other = make_folder(run.read_spec().model_copy(update={"predictor": predictor}))
    assert execute(other, settings, stop) is RunState.DONE
    to = tmp_path / "probes"
    given = ("--kind", "ood", "--against", "rotmnist5k", "--out", to, "--device", "cpu")
    code, text, errors = augbench("probe", run.path, other.path, *given)
    assert (code, errors) == (0, "") and "–" in text
    with (to / "probe-ood.csv").open(newline="") as lines:
        found = [(row["folder"], row["score"]) for row in csv.DictReader(lines)]
    assert found == [(run.path.name, "confidence"), (run.path.name, "energy"), (other.path.name, "confidence")]
    for folder in (run, other):
        shutil.copytree(folder.path, tmp_path / "out" / "runs" / folder.path.name)
    code, tables, errors = augbench("tables", "--from", tmp_path / "out", "--probes", to, "--table", "ood")
    assert code == 0, errors
    (energy,) = [line for line in tables.splitlines() if "AUROC, energy" in line]
    assert "–" in energy


def test_data_sets_that_do_not_fit_are_refused(run: RunFolder, tmp_path: Path, augbench: CommandLine) -> None:
    random = np.random.default_rng(0)
    made = {}
    for name, shape in (("colour", (20, 14, 14, 3)), ("letters", (20, 14, 14)), ("large", (20, 28, 28))):
        np.savez(tmp_path / f"{name}.npz", images=random.integers(0, 256, shape, np.uint8), labels=np.arange(20) % 2)
        made[name] = prepared("arrays", tmp_path / f"{name}.npz", tmp_path).prepared
    wrong = {
        "mnist5k": ("is the data set of the run in", "--against"),
        "fashionmnist": ("fashionmnist is not prepared in", "augbench data prepare fashionmnist"),
        made["colour"]: ("takes images of 1 × 14 × 14 values", "have 3 × 14 × 14 values", "--help"),
        made["large"]: ("takes images of 1 × 14 × 14 values", "have 1 × 28 × 28 values"),
        "pets-0123456789ab": ("no prepared data set 'pets-0123456789ab'", made["letters"]),
        "own": ("needs the option `prepared`",),
    }
    to = ("--out", tmp_path / "probes", "--data", tmp_path, "--device", "cpu")
    for name, words in wrong.items():
        assert fails_in_one_paragraph(augbench("probe", run.path, "--kind", "ood", "--against", name, *to), *words)
    assert not list((tmp_path / "probes").iterdir())
    code, text, _ = augbench("probe", run.path, "--kind", "ood", "--against", made["letters"], *to)
    assert code == 0 and "against images of letters" in " ".join(text.split())
