"""Steps of networks and whole runs, as the prepared script measures them: its arithmetic, on a CPU."""

from pathlib import Path
from typing import Any

import pytest
import torch

from augbench.bench.common.errors import UserError
from augbench.bench.data.dataset import ImageData
from augbench.bench.experiment.protocol import Budget
from augbench.bench.training.stopping import StopRequested
from benchmarks.gpu_networks import FAST, VARIANTS, budget_of, flops_of_a_step, peak_of
from benchmarks.gpu_parts import Work, attempt
from benchmarks.gpu_runs import Watch, train
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
