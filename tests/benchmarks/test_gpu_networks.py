"""Steps of networks and whole runs, as the prepared script measures them: its arithmetic, on a CPU."""

import statistics
from pathlib import Path
from typing import Any

import pytest
import torch

from augbench.bench.common.errors import UserError
from augbench.bench.data.dataset import ImageData
from augbench.bench.experiment.protocol import Budget
from augbench.bench.training.stopping import StopRequested
from benchmarks import gpu_runs
from benchmarks.gpu_networks import FAST, VARIANTS, budget_of, flops_of_a_step, peak_of, steps
from benchmarks.gpu_parts import Work, attempt
from benchmarks.gpu_runs import OF_A_RUN, Watch, refusing_to_wait, train
from benchmarks.made_up import made_up_data, new_run

CPU = torch.device("cpu")
WORK = Work(CPU, Path(), quick=True)


@pytest.fixture
def data() -> ImageData:
    """Sixteen small images."""
    return made_up_data(16, 1, 14)


def test_operations_of_smallnet_are_counted_as_by_hand() -> None:
    # multiplications and additions of the five convolutions (kernels of 9 pixels) and of the linear layer
    convolutions = [(1, 128, 28), (128, 128, 28), (128, 256, 28), (256, 256, 14), (256, 256, 7)]
    forward = sum(2 * 9 * inputs * outputs * side**2 for inputs, outputs, side in convolutions) + 2 * 256 * 10
    first = 2 * 9 * 128 * 28**2  # nobody asks for the gradient of the images
    assert flops_of_a_step("smallnet", made_up_data(2, 1, 28)) == 3 * forward - first


def test_steps_take_batch_after_batch(data: ImageData, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = new_run("none", "tiny", data, CPU, Budget(epochs=1, batch_size=8))
    taken: list[int] = []
    monkeypatch.setattr(trainer, "train_step", lambda batch: taken.append(int(batch[0])))
    step = steps(trainer, 8)
    for _ in range(3):
        step()
    assert taken == [0, 8, 0]


def test_what_cannot_be_measured_is_said_and_not_raised() -> None:
    def refuse() -> dict[str, Any]:
        raise UserError("There is no room.")

    assert attempt(lambda: {"here": 1}) == {"here": 1}
    assert attempt(refuse) == {"failed": "UserError: There is no room"}


def test_the_peak_is_that_of_the_networks_precision() -> None:
    measured = {
        f"floating-point operations per second, {name}": rate for name, rate in (("bfloat16", 2), ("float32", 1))
    }
    work = Work(CPU, Path(), earlier={"machine": measured})
    assert [peak_of(work, VARIANTS[name]) for name in ("float32", "bfloat16")] == [1, 2]
    assert peak_of(WORK, FAST) is None


def test_budgets_are_the_papers_made_faster() -> None:
    budget = budget_of("smallnet", "rotmnist", FAST, batch_size=8)
    assert (budget.epochs, budget.learning_rate, budget.batch_size, budget.acceleration) == (300, 0.02, 8, FAST)


def test_a_watch_stops_after_its_epochs_and_sees_all_steps_but_the_last_ones(data: ImageData) -> None:
    trainer = new_run("none", "tiny", data, CPU, Budget(epochs=5, batch_size=4))
    seen: list[int] = []
    watch = Watch(2, lambda run: seen.append(run.step))
    train(trainer, watch)
    assert seen == [1, 2, 3, 5, 6, 7]
    assert len(trainer.rows) == 2
    watch.ends[:] = [1.0, 1.5, 3.5]
    assert watch.seconds == [0.5, 2.0]
    with pytest.raises(StopRequested):
        watch.after_phase(trainer)


def test_waiting_is_refused_in_the_middle_of_the_epoch_alone(data: ImageData, monkeypatch: pytest.MonkeyPatch) -> None:
    modes: list[str] = []
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", modes.append)
    found = gpu_runs._wait(WORK, "none", made_up_data(6 * 32, 1, 14))
    # after the steps 1 to 5 of 6, and when all is over: steps 3, 4 and 5 are refused to wait
    assert modes == ["default", "error", "error", "error", "default", "default"]
    assert found == {"steps": 3}
    with pytest.raises(RuntimeError), refusing_to_wait() as refuse:
        refuse(True)
        raise RuntimeError
    assert modes[-1] == "default"


def test_a_run_is_extrapolated_from_its_epochs_without_the_first(
    data: ImageData, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_runs, "_evaluation", lambda trainer: {"seconds": 7.0})
    monkeypatch.setattr(gpu_runs, "QUICK_EPOCHS", 4)
    evaluations: dict[str, float] = {}
    found = gpu_runs._paper_budget(WORK, "scale", FAST, data, evaluations)
    assert evaluations == {"scale": 7.0}
    assert len(found["seconds of epochs"]) == 4
    assert found[OF_A_RUN] == pytest.approx(300 * statistics.median(found["seconds of epochs"][1:]) + 7)


def test_the_goal_is_for_the_fastest_run(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {"bfloat16": 400.0, "compiled": 200.0}

    def made_up(work: Work, method: str, acceleration: object, *_: object) -> dict[str, Any]:
        label = next(name for name, way in gpu_runs.WAYS.items() if way is acceleration)
        return {OF_A_RUN: seconds[label]} if method == "scale" and label in seconds else {"failed": "no memory"}

    found: dict[str, Any] = {}
    monkeypatch.setattr(gpu_runs, "_paper_budget", made_up)
    monkeypatch.setattr(gpu_runs, "read_digits", lambda folder, images: made_up_data(4, 1, 14))
    gpu_runs.measure_paper_budget(Work(CPU, Path(), add=found.__setitem__))
    goal = found["goal: SCALE on rotmnist with the paper's budget, seconds"]
    assert (goal["value"], goal["met"]) == (200.0, True)
    assert found["scale, by default"] == {"failed": "no memory"}
