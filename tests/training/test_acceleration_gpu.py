"""What makes a step faster on a GPU: the same training up to rounding, and evaluation in large batches."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from augbench.bench.experiment.acceleration import Acceleration
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.runs.execution_settings import ExecutionSettings
from augbench.bench.training import evaluation
from augbench.bench.training.evaluation import predict_with_draws
from augbench.bench.training.trainer import Trainer, new_trainer
from augbench.bench.training.worker import load_dataset

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here"),
    pytest.mark.usefixtures("few_digits"),
    pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores"),  # advice of the compiler
    # what adds up the gradients of a CUDA graph was made on the stream of its recording, which torch minds once
    pytest.mark.filterwarnings("ignore:The AccumulateGrad node's stream"),
]

MakeSpec = Callable[..., RunSpec]
CUDA = torch.device("cuda")
OPTIONS: list[dict[str, Any]] = [
    {"precision": "bfloat16"},
    {"channels_last": False},
    {"fused_optimizer": True},
    {"compiled": True},
    {"cuda_graphs": True},
    {"compiled": True, "cuda_graphs": True},
    {"precision": "bfloat16", "fused_optimizer": True, "cuda_graphs": True},
]


def after_steps(make_spec: MakeSpec, settings: ExecutionSettings, **options: Any) -> Trainer:
    spec = make_spec("scale")
    changes = {"optimizer": "sgd", "momentum": 0.0, "acceleration": Acceleration(**options)}
    spec = spec.model_copy(update={"budget": spec.budget.model_copy(update=changes)})
    trainer = new_trainer(spec, load_dataset(spec.dataset, settings.data), CUDA)
    trainer.compile()
    trainer.method.start_epoch(0)
    trainer.network.train()
    for size in (64, 64, 64, 16):  # whole batches and the last one
        trainer.train_step(torch.arange(size, device=CUDA))
    return trainer


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options))
def test_steps_are_the_same_up_to_rounding(
    options: dict[str, Any], make_spec: MakeSpec, settings: ExecutionSettings
) -> None:
    plain, fast = after_steps(make_spec, settings), after_steps(make_spec, settings, **options)
    tolerance = 2**-6 if "precision" in options else 2**-9  # of bfloat16 and TF32, after some operations
    torch.testing.assert_close(fast.sums.loss, plain.sums.loss, rtol=tolerance, atol=0)
    for mine, theirs in zip(fast.network.parameters(), plain.network.parameters(), strict=True):
        assert (mine - theirs).norm() <= tolerance * (1 + theirs.norm())
    for name, value in plain.method.learnable.items():
        torch.testing.assert_close(fast.method.learnable[name], value, rtol=tolerance, atol=tolerance / 10)
    assert torch.equal(fast.augmentation.get_state(), plain.augmentation.get_state())


def test_kernels_are_compiled_before_the_first_step(
    make_spec: MakeSpec, settings: ExecutionSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    triton = pytest.importorskip("triton")
    spec = make_spec("scale")
    trainer = new_trainer(spec, load_dataset(spec.dataset, settings.data), CUDA)
    trainer.compile()
    again = list[str]()
    monkeypatch.setattr(triton.knobs.runtime, "jit_cache_hook", lambda repr, **details: again.append(repr))
    trainer.method.start_epoch(0)
    trainer.network.train()
    for size in (64, 16):
        trainer.train_step(torch.arange(size, device=CUDA))
    policy = trainer.method.test_policy()
    assert policy is not None
    policy(trainer.data.test.images[:30], trainer.augmentation)
    assert not again


def test_chunks_together_give_what_they_give_alone(
    make_spec: MakeSpec, settings: ExecutionSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = after_steps(make_spec, settings)
    policy, network = trainer.method.test_policy(), trainer.network.eval()
    assert policy is not None
    monkeypatch.setattr(evaluation, "CHUNK", 30)
    found = []
    for together in (1, 16):
        monkeypatch.setattr(evaluation, "chunks_at_once", lambda device, together=together: together)
        source = torch.Generator(CUDA).manual_seed(0)
        found.append(predict_with_draws(network, trainer.data.test.images, policy, (1, 4), source))
    for count in (1, 4):
        torch.testing.assert_close(found[0][count], found[1][count], rtol=0, atol=2e-3)
