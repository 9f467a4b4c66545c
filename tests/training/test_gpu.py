"""The same code on a GPU. No machine of the continuous integration has one: run `pytest -m gpu` where there is one."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from augbench.bench.augmentation.affine_space import Draw, shared_space
from augbench.bench.augmentation.image_operations import OPERATIONS, ImageSpace, _Piece
from augbench.bench.conformance import check_method
from augbench.bench.experiment.catalogues import methods
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.runs.execution_settings import ExecutionSettings
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.training.stopping import StopSignal
from augbench.bench.training.trainer import new_trainer
from augbench.bench.training.worker import execute, load_dataset

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here"),
    pytest.mark.usefixtures("few_digits"),
]

MakeSpec = Callable[..., RunSpec]
MakeFolder = Callable[[RunSpec], RunFolder]
METHODS = [entry.name for entry in methods()]


@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains_and_evaluates(
    method: str, make_spec: MakeSpec, make_folder: MakeFolder, settings: ExecutionSettings, stop: StopSignal
) -> None:
    folder = make_folder(make_spec(method, epochs=3, **methods().get(method).quick_hyperparameters))
    assert execute(folder, replace(settings, device="cuda"), stop) is RunState.DONE, folder.read_status()
    result = folder.read_result()
    assert result is not None
    assert list(result["seconds"]) == [torch.cuda.get_device_name()]
    assert all(math.isfinite(value) for value in result["learned"].values())
    rows = folder.read_metrics()
    assert rows[-1]["loss"] < rows[0]["loss"]


@pytest.mark.parametrize("method", METHODS)
def test_every_method_keeps_the_contract(method: str) -> None:
    report = check_method(methods().get(method), device="cuda")
    assert report.passed, [(failure.check, failure.text) for failure in report.failures]


@pytest.mark.parametrize("method", METHODS)
def test_no_step_waits_for_the_gpu(method: str, make_spec: MakeSpec) -> None:
    spec = make_spec(method, epochs=3)
    trainer = new_trainer(spec, load_dataset(spec.dataset, Path()), torch.device("cuda"))
    trainer.method.start_epoch(1)
    trainer.network.train()
    order = torch.arange(len(trainer.data.train), device="cuda")
    for size in (64, 7):  # the first steps may wait, for memory and for what is built once
        trainer.train_step(order[:size])
    torch.cuda.set_sync_debug_mode("error")
    try:
        for size in (64, 7):
            trainer.train_step(order[:size])
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_both_ways_through_the_wide_space_give_the_same_on_a_gpu() -> None:
    source = torch.Generator("cuda").manual_seed(0)
    images = torch.randint(256, (320, 3, 32, 32), dtype=torch.uint8, device="cuda", generator=source)
    operations = torch.arange(320, device="cuda") % len(OPERATIONS)
    magnitudes = torch.rand(320, device="cuda", generator=source)
    magnitudes[operations == OPERATIONS.index("Posterize")] = 4
    batch = _Piece(images, operations, magnitudes, torch.rand(320, 2, device="cuda", generator=source))
    space = ImageSpace(32)
    torch.testing.assert_close(space._apply_everywhere(batch), space._apply_piecewise(batch), atol=1e-6, rtol=0)


def test_images_and_gradients_equal_those_of_the_cpu() -> None:
    space = shared_space(28)
    source = torch.Generator().manual_seed(0)
    images = torch.randint(256, (64, 3, 28, 28), dtype=torch.uint8, generator=source)
    outcomes = []
    draw = space.sample(64, torch.full((7,), 0.7), torch.ones(4), source)
    for device in ("cpu", "cuda"):
        ranges = space.maxima(device).requires_grad_()
        parts = (draw.active, draw.magnitudes, draw.half_turn, draw.flip, draw.offsets)
        active, unit, half_turn, flip, offsets = (part.detach().to(device) for part in parts)
        output = space.apply(images.to(device), Draw(active, ranges * unit, half_turn, flip, offsets))
        weights = torch.linspace(0, 1, output[0].numel(), device=device).view_as(output[0])
        (output * weights).mean().backward()
        assert ranges.grad is not None
        outcomes.append((output.detach().cpu(), ranges.grad.cpu()))
    torch.testing.assert_close(outcomes[0][0], outcomes[1][0], atol=1e-4, rtol=0)
    torch.testing.assert_close(outcomes[0][1], outcomes[1][1], atol=1e-5, rtol=1e-3)
