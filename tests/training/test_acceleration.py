"""Options that make a step faster: declared, part of the identity, and the same training up to rounding."""

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from short_runs import Runs, result_of
from torch import Tensor, nn

from augbench.bench.augmentation import fused_resampling
from augbench.bench.augmentation.network_input import NetworkInput
from augbench.bench.common.errors import RetryableError, UserError
from augbench.bench.contract.method import AugmentedBatch, Hyperparameters, Method
from augbench.bench.data.dataset import ImageData
from augbench.bench.experiment.acceleration import Acceleration
from augbench.bench.experiment.catalogues import methods
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.experiment.suite import parse_suite
from augbench.bench.registry.registry import Entry
from augbench.bench.runs.run_folder import RunState
from augbench.bench.training.evaluation import predict
from augbench.bench.training.forward_pass import ForwardPass
from augbench.bench.training.trainer import Trainer, new_trainer

MakeSpec = Callable[..., RunSpec]
CPU = torch.device("cpu")
COMPILE = torch.compile
OTHERS: list[dict[str, Any]] = [
    {"precision": "bfloat16"},
    {"channels_last": False},
    {"fused_optimizer": True},
    {"compiled": True},
    {"cuda_graphs": True},
]
LEVELLED = """
name = "fast"
title = "Fast"
seeds = [0]
[[comparisons]]
network = "wrn-28-10"
level = "smoke"
acceleration = { precision = "bfloat16", compiled = true }
datasets = [{ name = "cifar10" }]
methods = [{ name = "none" }]
"""
OF_ITS_OWN = LEVELLED.replace('level = "smoke"', "budget = { epochs = 1 }")
IN_THE_TABLE = OF_ITS_OWN.replace("acceleration =", "#").replace(
    "epochs = 1", 'epochs = 1, acceleration = { precision = "bfloat16", compiled = true }'
)


def accelerated(spec: RunSpec, **options: Any) -> RunSpec:
    budget = spec.budget.model_copy(update={"acceleration": Acceleration(**options)})
    return spec.model_copy(update={"budget": budget})


@pytest.fixture
def digits(runs: Runs) -> ImageData:
    """Load a few digits."""
    return runs.data()


@pytest.fixture
def quick_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have torch.compile trace the passes and their gradients, and run what it traced without a C++ compiler."""
    monkeypatch.setattr(
        torch, "compile", lambda module, mode, **options: COMPILE(module, backend="aot_eager", **options)
    )


def smooth(spec: RunSpec) -> RunSpec:
    """Train with plain gradient steps; the first steps of Adam make all of a gradient's rounding if it is near 0."""
    return spec.model_copy(update={"budget": spec.budget.model_copy(update={"optimizer": "sgd", "momentum": 0.0})})


def after_steps(spec: RunSpec, data: ImageData, steps: int = 3) -> Trainer:
    trainer = new_trainer(spec, data, CPU)
    trainer.compile()
    trainer.method.start_epoch(0)
    trainer.network.train()
    for step in range(steps):
        trainer.train_step(torch.arange(64) + step)
    return trainer


def numbers(trainer: Trainer) -> Tensor:
    """Weights, buffers and learned parameters in one vector."""
    tensors = [*trainer.network.state_dict().values(), *trainer.method.learnable.values()]
    return torch.cat([tensor.detach().flatten().double() for tensor in tensors])


def assert_same_training(one: Trainer, other: Trainer, tolerance: float) -> None:
    torch.testing.assert_close(numbers(one), numbers(other), rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(one.sums.loss, other.sums.loss, rtol=tolerance, atol=0)
    for mine, theirs in zip(one.network.parameters(), other.network.parameters(), strict=True):
        assert mine.grad is not None
        assert mine.dtype == mine.grad.dtype == torch.float32
        assert theirs.grad is not None
        # of the whole: rounding alone turns a unit on or off here and there, and with it a few numbers
        assert (mine.grad - theirs.grad).norm() <= 100 * tolerance * theirs.grad.norm()
    assert torch.equal(one.augmentation.get_state(), other.augmentation.get_state())


def test_options_that_change_a_result_change_the_identity_and_defaults_do_not(make_spec: MakeSpec) -> None:
    plain = make_spec()
    assert accelerated(plain, precision="float32", channels_last=True, compiled=False).identity == plain.identity
    identities = {accelerated(plain, **options).identity for options in OTHERS}
    assert len({plain.identity, *identities}) == 1 + len(OTHERS)
    assert RunSpec.model_validate_json(accelerated(plain, **OTHERS[0]).model_dump_json()).identity in identities


def test_specifications_from_before_there_were_options_mean_the_same(make_spec: MakeSpec) -> None:
    content = make_spec().model_dump(mode="json")
    del content["budget"]["acceleration"]
    assert RunSpec.model_validate(content) == make_spec()


@pytest.mark.parametrize("text", [LEVELLED, IN_THE_TABLE])
def test_a_suite_declares_them_beside_a_level_or_in_its_budget(text: str) -> None:
    (spec,) = parse_suite(text, "a test").specs()
    assert spec.budget.acceleration == Acceleration(precision="bfloat16", compiled=True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (OF_ITS_OWN, ["`acceleration` belongs into [comparisons.budget]"]),
        (LEVELLED.replace("bfloat16", "float16"), ["comparisons[1].acceleration.precision", "'float32' or 'bfloat16'"]),
        (LEVELLED.replace("compiled", "compile"), ["'comparisons[1].acceleration.compile'", "fused_optimizer"]),
        (LEVELLED.replace("true", "1"), ["comparisons[1].acceleration.compiled", "valid boolean"]),
    ],
)
def test_mistakes_are_explained(text: str, words: list[str]) -> None:
    with pytest.raises(UserError) as error:
        parse_suite(text, "a test").specs()
    assert all(word in str(error.value) for word in words), str(error.value)


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_the_fused_optimiser_takes_the_same_steps(optimizer: str, make_spec: MakeSpec, digits: ImageData) -> None:
    spec = make_spec("scale")
    budget = spec.budget.model_copy(update={"optimizer": optimizer, "weight_decay": 0.01})
    plain, fused = (
        after_steps(accelerated(spec.model_copy(update={"budget": budget}), fused_optimizer=option), digits)
        for option in (False, True)
    )
    assert fused.optimizer.defaults["fused"]
    assert not plain.optimizer.defaults["fused"]
    assert_same_training(fused, plain, 1e-5)


def test_memory_order_changes_nothing_but_rounding(make_spec: MakeSpec, digits: ImageData) -> None:
    last, first = (
        after_steps(accelerated(smooth(make_spec("scale")), channels_last=option), digits) for option in (True, False)
    )
    for trainer, memory_format in ((last, torch.channels_last), (first, torch.contiguous_format)):
        weights = [weight for weight in trainer.network.parameters() if weight.ndim == 4 and min(weight.shape[:2]) > 1]
        assert weights
        assert all(weight.is_contiguous(memory_format=memory_format) for weight in weights)
    assert_same_training(first, last, 1e-4)


def test_bfloat16_is_for_the_passes_in_training_alone(make_spec: MakeSpec, digits: ImageData) -> None:
    spec = accelerated(make_spec("scale"), precision="bfloat16")
    trainer, plain = after_steps(spec, digits, 1), after_steps(make_spec("scale"), digits, 1)
    images = digits.train.images[:32] / 255
    exact, logits = plain.network(images), trainer.forward_pass(AugmentedBatch(images))
    assert logits.dtype == torch.float32
    assert not torch.equal(logits, trainer.network(images)), "it is used"
    assert trainer.sums.loss.item() == pytest.approx(plain.sums.loss.item(), rel=2**-7)  # 8 bits of a bfloat16
    assert all(value.dtype == torch.float32 for value in trainer.method.learnable.values())
    assert all(weight.dtype == torch.float32 for weight in trainer.network.parameters())
    trainer.network.load_state_dict(plain.network.state_dict())
    assert torch.equal(trainer.network(images), exact)
    assert predict(trainer.network.eval(), digits.test.images[:8]).dtype == torch.float32


@pytest.mark.slow
@pytest.mark.usefixtures("quick_compiler")
def test_compilation_leaves_no_trace_but_its_time(make_spec: MakeSpec, digits: ImageData) -> None:
    spec = accelerated(make_spec("scale"), compiled=True)
    trainer, untouched = new_trainer(spec, digits, CPU), new_trainer(spec, digits, CPU)
    before, start = torch.get_rng_state(), numbers(trainer)
    trainer.compile()
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(numbers(trainer), start)
    assert all(weight.grad is None for weight in trainer.network.parameters())
    assert all(value.grad is None or not value.grad.any() for value in trainer.method.learnable.values())
    assert torch.equal(trainer.augmentation.get_state(), untouched.augmentation.get_state())
    (seconds,) = trainer.cost.seconds.values()
    assert seconds["compilation"] > 0
    assert seconds["training"] == 0
    assert set(trainer.cost.image_passes.values()) == {0}


@pytest.mark.parametrize(("method", "usable"), [("scale", True), ("scale", False), ("none", True)])
def test_kernels_of_the_resampling_are_compiled_on_the_same_clock(
    method: str, usable: bool, make_spec: MakeSpec, digits: ImageData, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = method == "scale" and usable
    asked = list[tuple[Tensor, int, NetworkInput | None]]()
    monkeypatch.setattr(fused_resampling, "usable", lambda device: usable)
    monkeypatch.setattr(fused_resampling, "compile_kernels", lambda *arguments: asked.append(arguments))
    trainer = new_trainer(make_spec(method), digits, CPU)
    trainer.compile()
    context = trainer.method.context
    assert asked == [(trainer.data.train.images, context.space.padding, context.network_input)] * expected
    assert trainer.compiles == expected
    assert [seconds["compilation"] > 0 for seconds in trainer.cost.seconds.values()] == [True] * expected


@pytest.mark.slow
@pytest.mark.usefixtures("quick_compiler")
def test_nothing_is_compiled_again_where_transforms_are_not_learned_any_more(
    make_spec: MakeSpec, digits: ImageData
) -> None:
    trainer = after_steps(accelerated(make_spec("scale"), compiled=True), digits, 1)
    with torch._dynamo.config.patch(error_on_recompile=True):
        trainer.method.start_epoch(trainer.spec.budget.epochs)
        assert not trainer.method.augment(digits.train.images[:2], trainer.augmentation).images.requires_grad
        trainer.train_step(torch.arange(64))


@pytest.mark.usefixtures("quick_compiler")
def test_a_gradient_that_was_not_prepared_for_is_not_lost() -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
    forward_pass, images = ForwardPass(network, Acceleration(compiled=True), CPU), torch.rand(6, 1, 2, 2)
    forward_pass.prepare(AugmentedBatch(images))
    forward_pass._prepared = {key: (_without_gradient, learned) for key, (_, learned) in forward_pass._prepared.items()}
    assert torch.equal(forward_pass(AugmentedBatch(images)), torch.zeros(6, 3))
    torch.testing.assert_close(forward_pass(AugmentedBatch(images.requires_grad_())), network(images))


def test_a_batch_of_one_image_that_cannot_be_normalised_is_explained() -> None:
    network = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.BatchNorm2d(1), nn.Flatten(), nn.Linear(1, 3)).train()
    forward_pass = ForwardPass(network, Acceleration(), CPU)
    assert forward_pass(AugmentedBatch(torch.rand(2, 1, 4, 4))).shape == (2, 3)
    with pytest.raises(UserError, match=r"single image: .*more than 1 value per channel.* Choose a batch_size"):
        forward_pass(AugmentedBatch(torch.rand(1, 1, 4, 4)))


def test_other_errors_of_a_network_stay_as_they_are() -> None:
    network = nn.Sequential(nn.Flatten(), nn.BatchNorm2d(1))  # which takes images alone
    with pytest.raises(ValueError, match="expected 4D input"):
        ForwardPass(network, Acceleration(), CPU)(AugmentedBatch(torch.rand(2, 1, 4, 4)))


def _without_gradient(images: Tensor) -> Tensor:
    """Stand in for a CUDA graph."""
    return torch.zeros(len(images), 3)


@pytest.mark.usefixtures("quick_compiler")
def test_a_compiled_step_is_the_same_step(make_spec: MakeSpec, digits: ImageData) -> None:
    compiled = after_steps(accelerated(make_spec("scale"), compiled=True), digits)
    assert_same_training(compiled, after_steps(make_spec("scale"), digits), 1e-4)
    with torch._dynamo.config.patch(error_on_recompile=True):
        compiled.train_step(torch.arange(64))
        compiled.train_step(torch.arange(16))  # the last batch of an epoch is smaller, and goes the plain way


@pytest.mark.slow
@pytest.mark.usefixtures("quick_compiler")
def test_a_compiled_run_can_be_interrupted_and_is_counted_apart(runs: Runs) -> None:
    spec = accelerated(runs.spec("scale"), compiled=True)
    whole, parts = runs.done(spec), runs.folder_of(spec)
    assert runs.execute(parts, 4) is RunState.CANCELLED
    assert runs.execute(parts) is RunState.DONE
    one, other = map(result_of, (whole, parts))
    assert one["metrics"] == other["metrics"]
    assert one["learned"] == other["learned"]
    assert all(seconds["compilation"] > 0 for result in (one, other) for seconds in result["seconds"].values())


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler here")
def test_what_torch_compiles_equals_what_it_does_by_itself(make_spec: MakeSpec, digits: ImageData) -> None:
    spec = smooth(make_spec("scale"))
    assert_same_training(after_steps(accelerated(spec, compiled=True), digits), after_steps(spec, digits), 1e-4)


def test_cuda_graphs_without_a_gpu_are_explained(make_spec: MakeSpec, digits: ImageData) -> None:
    trainer = new_trainer(accelerated(make_spec(), cuda_graphs=True), digits, CPU)  # as a finished run is loaded
    with pytest.raises(RetryableError, match=r"need a GPU, .* placed on cpu\. Repeat .* --device cuda, or take"):
        trainer.compile()


def test_a_blank_where_the_compiler_works_is_explained(
    make_spec: MakeSpec, digits: ImageData, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = new_trainer(accelerated(make_spec(), compiled=True), digits, CPU)
    monkeypatch.setattr(tempfile, "tempdir", "/tmp/a b")  # noqa: S108 - nothing is written there
    with pytest.raises(RetryableError, match=r"compiler fails in '/tmp/a b', .* TMPDIR"):
        trainer.compile()


def test_whole_batches_alone_go_through_a_cuda_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    network, sizes = nn.Sequential(nn.Flatten(), nn.Linear(4, 3)), list[int]()

    def graphed(module: nn.Module, samples: tuple[Tensor], allow_unused_input: bool) -> nn.Module:
        plain = module.forward

        def replay(images: Tensor) -> Tensor:
            assert images.shape == samples[0].shape
            sizes.append(len(images))
            return plain(images)

        module.forward = replay
        return module

    monkeypatch.setattr(torch.cuda, "make_graphed_callables", graphed)
    forward_pass = ForwardPass(network, Acceleration(cuda_graphs=True), CPU)
    forward_pass.device = SimpleNamespace(type="cuda")  # type: ignore[assignment]
    images = torch.rand(6, 1, 2, 2, requires_grad=True)
    forward_pass.prepare(AugmentedBatch(images * 1))
    assert images.grad is None
    sizes.clear()
    for count in (6, 2):
        torch.testing.assert_close(forward_pass(AugmentedBatch(images[:count])), network(images[:count]))
    assert sizes == [6]


def test_normalised_images_pass_the_normalisation_by(make_spec: MakeSpec, digits: ImageData) -> None:
    spec = make_spec("scale")
    trainer, plain = new_trainer(spec, digits, CPU), after_steps(spec, digits, 1)
    normalising = NetworkInput(*digits.mean_and_deviation, torch.float32)
    trainer.method.context = replace(trainer.method.context, network_input=normalising)
    trainer.method.start_epoch(0)
    trainer.network.train()
    trainer.train_step(torch.arange(64))
    assert_same_training(trainer, plain, 1e-4)


class Wrapping(Method[Hyperparameters]):
    """Has a network of its own, which takes images in [0, 1]."""

    name = "wrapping"

    def wrap_network(self, network: nn.Module) -> nn.Module:
        """Wrap it."""
        return nn.Sequential(network)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_images_are_normalised_in_one_go_where_the_network_takes_that(
    precision: str, make_spec: MakeSpec, digits: ImageData, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(methods().entries, "wrapping", Entry("wrapping", Wrapping, "a test"))
    assert new_trainer(make_spec("scale"), digits, CPU).method.context.network_input is None
    monkeypatch.setattr(fused_resampling, "usable", lambda device: True)
    assert new_trainer(make_spec("wrapping"), digits, CPU).method.context.network_input is None
    found = new_trainer(accelerated(make_spec("scale"), precision=precision), digits, CPU).method.context.network_input
    assert found is not None
    assert found.dtype == getattr(torch, precision)
    assert torch.equal(torch.stack([found.mean, found.deviation]), torch.stack(digits.mean_and_deviation))
