"""Nothing inside an epoch waits for the device: training steps on a device whose tensors have no values.

Tensors on torch's device `meta` have shapes alone. A step that asks for a value, or for a size that depends on values,
cannot be taken there, just as a GPU would have to be waited for. Operations that need no values on `meta` but wait on a
GPU, and whatever carries numbers between the two devices, are refused by `no_waiting`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from augbench.bench.experiment.catalogues import methods
from augbench.bench.experiment.protocol import Budget
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.training.cost import Cost
from augbench.bench.training.epoch_sums import new_sums
from augbench.bench.training.forward_pass import ForwardPass
from augbench.bench.training.optimizer import network_optimizer
from augbench.bench.training.trainer import Trainer, new_trainer
from augbench.bench.training.worker import load_dataset

META = torch.device("meta")
METHODS = [entry.name for entry in methods()]
WAITING = (
    *("linalg_matrix_exp", "_linalg_check_errors", "linalg_eigh", "multinomial", "bincount", "equal", "nonzero"),
    *("_local_scalar_dense", "masked_select", "_unique2", "unique_dim", "repeat_interleave"),
)
"""Operations that a GPU is waited for."""
MAKERS = (torch.tensor, torch.as_tensor, torch.asarray, torch.from_numpy, Tensor.new_tensor)
"""Functions that carry Python's numbers to a device."""

MakeSpec = Callable[..., RunSpec]


class WaitingError(AssertionError):
    """Something would have waited for a GPU."""


class NoWaitingOperations(TorchDispatchMode):
    """Refuses operations that wait for the device `meta`."""

    def __torch_dispatch__(
        self, operation: Any, types: Any, arguments: Sequence[Any] = (), named: Mapping[str, Any] | None = None
    ) -> Any:
        """Look at what goes in and comes out."""
        outcome = operation(*arguments, **(named or {}))
        leaves = tree_leaves((arguments, dict(named or {}), outcome))
        devices = {leaf.device.type for leaf in leaves if isinstance(leaf, Tensor)}
        name = operation.name().removeprefix("aten::")
        if len(devices) > 1:
            raise WaitingError(f"{name} brings together tensors of two devices")
        if devices == {"meta"} and name.split(".")[0] in WAITING:
            raise WaitingError(f"{name} waits for the device")
        return outcome


class NoCarrying(TorchFunctionMode):
    """Refuses functions that carry Python's numbers to the device `meta`, which dispatch does not see."""

    def __torch_function__(
        self, function: Any, types: Any, arguments: Sequence[Any] = (), named: Mapping[str, Any] | None = None
    ) -> Any:
        """Look at what is called."""
        outcome = function(*arguments, **(named or {}))
        if function in MAKERS and outcome.device == META:
            raise WaitingError(f"{function.__name__} carries numbers to the device")
        if function in (Tensor.__getitem__, Tensor.__setitem__) and arguments[0].device == META:
            index = arguments[1] if isinstance(arguments[1], tuple) else (arguments[1],)
            if any(isinstance(part, list | np.ndarray) for part in index):
                raise WaitingError("an index carries numbers to the device")
        return outcome


@contextmanager
def no_waiting() -> Iterator[None]:
    """Refuse whatever would wait for a GPU."""
    with NoCarrying(), NoWaitingOperations():
        yield


class ExponentialNumbers(TorchDispatchMode):
    """Draws exponential numbers on `meta`, where torch cannot take a generator for them."""

    def __torch_dispatch__(
        self, operation: Any, types: Any, arguments: Sequence[Any] = (), named: Mapping[str, Any] | None = None
    ) -> Any:
        """Draw nothing."""
        if operation is torch.ops.aten.exponential_.default:
            return arguments[0]
        return operation(*arguments, **(named or {}))


class MetaGenerator(torch.Generator):
    """A generator that says it belongs to the device `meta`, which has none."""

    @property
    def device(self) -> torch.device:
        """The device `meta`."""
        return META


def without_values(trainer: Trainer) -> Trainer:
    """Carry a run at its beginning to a device without values; what a search would find stays as it starts."""
    network, spec = trainer.network.to(META), trainer.spec
    made = methods().get(spec.method.name)
    hyperparameters = trainer.method.hyperparameters
    return replace(
        trainer,
        data=trainer.data.to(META),
        network=network,
        forward_pass=ForwardPass(network, spec.budget.acceleration, torch.device("cpu")),
        method=made(hyperparameters, replace(trainer.method.context, device=META)),
        optimizer=network_optimizer(network, spec.budget),
        augmentation=MetaGenerator(),
        base=replace(trainer.base, mean=trainer.base.mean.to(META), source=MetaGenerator()),
        cost=Cost(META),
        sums=new_sums(META),
    )


@pytest.fixture
def steps(make_spec: MakeSpec, few_digits: None) -> Callable[..., None]:
    """Take the first steps of the second epoch of a run without values: a warm one, a watched one and a small one."""

    def take(method: str, budget: Mapping[str, Any] = MappingProxyType({}), **hyperparameters: Any) -> None:
        spec = make_spec(method, **hyperparameters)
        given = Budget.model_validate({"epochs": 3, "batch_size": 64, **budget})
        spec = spec.model_copy(update={"budget": given})
        trainer = without_values(new_trainer(spec, load_dataset(spec.dataset, Path()), torch.device("cpu")))
        trainer.method.start_epoch(1)
        trainer.network.train()
        with ExponentialNumbers():
            trainer.train_step(torch.arange(64, device=META))
            with no_waiting():
                trainer.train_step(torch.arange(64, device=META))
                trainer.train_step(torch.arange(7, device=META))

    return take


@pytest.mark.parametrize("method", METHODS)
def test_no_step_waits_for_the_device(method: str, steps: Callable[..., None]) -> None:
    steps(method)


@pytest.mark.parametrize("method", ["scale", "trivialaugment-wide"])
def test_no_base_waits_for_the_device(method: str, steps: Callable[..., None]) -> None:
    steps(method, {"base": [{"name": "crop", "pixels": 2}, "flip", {"name": "cutout", "pixels": 7}]})


def test_clipping_and_smoothing_do_not_wait_for_the_device(steps: Callable[..., None]) -> None:
    steps("none", {"gradient_clip": 0.1, "label_smoothing": 0.1, "decayed": "weights", "weight_decay": 0.1})


@pytest.mark.parametrize("estimator", ["pooled", "per-image", "rloo", "per-image-zero"])
def test_no_estimator_waits_for_the_device(estimator: str, steps: Callable[..., None]) -> None:
    steps("scale", estimator=estimator)


def _numbers() -> Tensor:
    return torch.arange(6.0, device=META)


WAITERS: dict[str, Callable[[], object]] = {
    "a value": lambda: _numbers()[0].item(),
    "a condition": lambda: bool(_numbers().all()),
    "a list": lambda: _numbers().tolist(),
    "a mask as an index": lambda: _numbers()[_numbers() > 2],
    "where without alternatives": lambda: torch.where(_numbers() > 2),
    "a comparison": lambda: torch.equal(_numbers(), _numbers()),
    "distinct values": lambda: _numbers().unique(),
    "a histogram": lambda: torch.bincount(_numbers().long()),
    "counts of repetitions": lambda: torch.repeat_interleave(_numbers(), _numbers().long()),
    "a matrix exponential": lambda: torch.linalg.matrix_exp(_numbers()[:4].view(2, 2)),
    "an inverse": lambda: torch.linalg.inv(_numbers()[:4].view(2, 2)),
    "a draw by weights": lambda: torch.multinomial(_numbers(), 2),
    "a tensor of numbers": lambda: torch.tensor([1.0, 2.0], device=META),
    "a tensor from the host": lambda: torch.ones(3).to(META),
    "a tensor to the host": lambda: _numbers().to("cpu"),
    "a list as an index": lambda: _numbers()[[1, 2]],
    "an index from the host": lambda: _numbers()[torch.tensor([1, 2])],
    "a number from the host": lambda: _numbers() * torch.tensor(2.0),
}


@pytest.mark.parametrize("name", WAITERS)
def test_whatever_waits_is_noticed(name: str) -> None:
    with pytest.raises((WaitingError, NotImplementedError, RuntimeError)), no_waiting():
        WAITERS[name]()


def test_what_does_not_wait_is_let_through() -> None:
    with no_waiting():
        numbers = torch.rand(6, device=META, generator=MetaGenerator()).requires_grad_()
        torch.where(numbers > 0.5, numbers * 2, 0).clamp(0, 1).sum().backward()
        torch.optim.Adam([numbers]).step()  # which counts its steps on the host


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
@pytest.mark.parametrize("name", [name for name in WAITERS if name != "a number from the host"])
def test_a_gpu_is_waited_for_where_it_is_said_here(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.META", torch.device("cuda"))
    monkeypatch.setattr(f"{__name__}._numbers", partial(torch.arange, 1.0, 7.0, device="cuda"))
    WAITERS[name]()
    torch.cuda.set_sync_debug_mode("error")
    try:
        with pytest.raises(RuntimeError, match="synchroniz"):
            WAITERS[name]()
    finally:
        torch.cuda.set_sync_debug_mode("default")
