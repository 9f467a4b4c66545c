"""The fused resampling: the same as the plain path, interpreted on a CPU, compiled without a GPU, and run on one."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from augbench.bench.augmentation import fused_resampling
from augbench.bench.augmentation.affine_space import Draw, resample, shared_space, to_unit_interval
from augbench.bench.augmentation.fused_resampling import Crops, Launch, backend_name, usable
from augbench.bench.augmentation.network_input import NetworkInput
from augbench.bench.augmentation.resampling import crop, normalised

CPU, GPU = torch.device("cpu"), torch.device("cuda")
with_triton = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed here")
CASES: dict[str, dict[str, Any]] = {
    "grey": {"channels": 1, "indexed": False, "copies": 1, "dtype": None},
    "grey, two copies, bfloat16": {"channels": 1, "indexed": False, "copies": 2, "dtype": torch.bfloat16},
    "colour, indices, two copies": {"channels": 3, "indexed": True, "copies": 2, "dtype": None},
    "colour, indices, two copies, float32": {"channels": 3, "indexed": True, "copies": 2, "dtype": torch.float32},
    "colour, bfloat16": {"channels": 3, "indexed": False, "copies": 1, "dtype": torch.bfloat16},
}
TOLERANCES = {None: 1e-5, torch.float32: 1e-4, torch.bfloat16: 0.05}  # values in [−5, 5] are rounded to 2⁻⁶

# interpreted are only kernels that are decorated where the variable is set, so in a process of their own
INTERPRETED = """
import sys, torch
from augbench.bench.augmentation.fused_resampling import Launch, compile_kernels, resample
torch.set_num_threads(1)
outcomes = {}
for name, (crops, matrices, weights) in torch.load(sys.argv[1], weights_only=False).items():
    compile_kernels(crops.images, crops.padding, crops.form)
    output = resample(crops, matrices.requires_grad_(), Launch(block=32))
    (output * weights).sum().backward()
    outcomes[name] = output.detach(), matrices.grad
torch.save(outcomes, sys.argv[2])
"""
Given = tuple[Crops, Tensor, Tensor]
Outcome = tuple[Tensor, Tensor]


def _given(
    channels: int, indexed: bool, copies: int, dtype: torch.dtype | None, size: int = 6, batch: int = 2
) -> Given:
    """Crops at all edges, matrices that reach far outside, and weights of the output; on the CPU."""
    source = torch.Generator().manual_seed(channels + 10 * copies)
    images = torch.randint(256, (batch + 1, channels, size, size), dtype=torch.uint8, generator=source)
    indices = torch.randint(len(images), (batch, 2), generator=source)[:, 0] if indexed else None  # not in one piece
    count = copies * (batch if indexed else len(images))
    offsets = 2 * torch.randint(3, (count, 2), generator=source)
    offsets[:3] = torch.tensor([[0, 4], [4, 0], [2, 2]])
    level, width = (torch.linspace(low, high, channels) for low, high in ((0.3, 0.5), (0.2, 0.3)))
    form = None if dtype is None else NetworkInput(level, width, dtype)
    matrices = torch.randn(count, 2, 2, generator=source)
    weights = torch.randn(count, channels, size, size, generator=source)
    return Crops(images, indices, offsets, 2, form), matrices, weights


def _plain(crops: Crops, matrices: Tensor, weights: Tensor) -> Outcome:
    """Output and gradient of the plain path."""
    matrices = matrices.detach().clone().requires_grad_()
    images = crops.images if crops.indices is None else crops.images[crops.indices]
    output = resample(to_unit_interval(crop(images, crops.offsets, crops.padding)), matrices)
    output = output if crops.form is None else normalised(output, crops.form)
    (gradient,) = torch.autograd.grad((output * weights).sum(), matrices)
    return output.detach(), gradient


def _assert_equal(found: Outcome, expected: Outcome, dtype: torch.dtype | None) -> None:
    assert found[0].dtype == expected[0].dtype == (dtype or torch.float32)
    assert found[0].stride() == expected[0].stride()
    torch.testing.assert_close(found[0], expected[0], atol=TOLERANCES[dtype], rtol=0)
    tolerance = float(expected[1].abs().max()) * (1e-2 if dtype is torch.bfloat16 else 1e-4)
    # where rounding moves a place across a whole pixel, the gradient of the image jumps
    differs = ((found[1] - expected[1]).abs() > tolerance).flatten(1).any(1)
    assert differs.sum() <= len(differs) // 20


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """What Triton's interpreter makes of every case."""
    folder = tmp_path_factory.mktemp("interpreted")
    torch.save({name: _given(**case) for name, case in CASES.items()}, folder / "given.pt")
    command = [sys.executable, "-c", INTERPRETED, str(folder / "given.pt"), str(folder / "outcomes.pt")]
    subprocess.run(command, check=True, env=os.environ | {"TRITON_INTERPRET": "1"})
    outcomes: dict[str, Outcome] = torch.load(folder / "outcomes.pt")
    return outcomes


@pytest.mark.slow
@with_triton
@pytest.mark.parametrize("name", CASES)
def test_interpreted_kernels_equal_the_plain_path(name: str, interpreted: dict[str, Outcome]) -> None:
    given = _given(**CASES[name])
    expected = _plain(*given)
    assert expected[0].std() > 0.1
    assert expected[1].abs().min() > 0
    _assert_equal(interpreted[name], expected, CASES[name]["dtype"])


def _signature(kernel: Any, channels: int, output: str, in_full: bool) -> tuple[dict[str, str], dict[str, Any]]:
    """Types of a kernel's arguments, and those that are constants."""
    constants: dict[str, Any] = {"padding": 4, "size": 32, "channels": channels, "block": Launch().block}
    constants |= {"pixel_stride": channels, "channel_stride": 1}
    constants |= (
        {} if in_full else {name: None for name in ("indices", "mean", "deviation") if name in kernel.arg_names}
    )
    types = {
        "images": "*u8",
        "indices": "*i64",
        "offsets": "*i64",
        "batch": "i32",
        "output": output,
        "gradient": output,
    }
    signature = {name: types.get(name, "*fp32") for name in kernel.arg_names}
    return signature | dict.fromkeys(constants, "constexpr"), constants


@with_triton
@pytest.mark.parametrize("kernel", ["resample_kernel", "matrix_gradient_kernel"])
@pytest.mark.parametrize(
    ("channels", "output", "in_full"),
    [pytest.param(1, "*fp32", False, marks=pytest.mark.slow), (3, "*bf16", True)],
)
def test_kernels_compile_for_a_gpu_that_is_not_here_and_spill_no_register(
    kernel: str, channels: int, output: str, in_full: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from augbench.bench.augmentation import resampling_kernels

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    function = getattr(resampling_kernels, kernel)
    source = ASTSource(function, *_signature(function, channels, output, in_full))
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": Launch().warps})
    (tmp_path / "kernel.ptx").write_text(compiled.asm["ptx"])
    assembler = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "ptxas"
    command = [assembler, "-v", "--gpu-name=sm_90a", tmp_path / "kernel.ptx", "-o", tmp_path / "kernel.cubin"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    assert re.findall(r"(\d+) bytes spill", said) == ["0", "0"]


# Where it is used


def test_a_cpu_has_the_plain_path() -> None:
    assert not usable(CPU)
    assert backend_name(CPU) == "torch"


@with_triton
def test_a_gpu_has_the_fused_one_where_triton_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "cc")
    usable.cache_clear()
    assert usable(GPU)
    assert backend_name(GPU) == f"fused (triton {version('triton')})"
    monkeypatch.setattr(fused_resampling, "find_spec", lambda name: None)
    assert not usable.__wrapped__(GPU)


@with_triton
@pytest.mark.parametrize(("found", "expected"), [("gcc", True), ("clang", True), (None, False)])
def test_a_gpu_without_a_c_compiler_has_the_plain_path(
    found: str | None, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr("shutil.which", lambda name: name if name == found else None)
    assert usable.__wrapped__(GPU) is expected


def _draw(count: int) -> Draw:
    space = shared_space(14)
    return space.sample(count, torch.full((7,), 0.7), space.maxima(), torch.Generator().manual_seed(0))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Crops, Tensor]]:
    """What the fused resampling is asked for, were it usable here."""
    asked: list[tuple[Crops, Tensor]] = []

    def resampled(crops: Crops, matrices: Tensor) -> Tensor:
        asked.append((crops, matrices))
        return torch.zeros(len(matrices), *crops.images.shape[1:])

    monkeypatch.setattr(fused_resampling, "usable", lambda device: True)
    monkeypatch.setattr(fused_resampling, "resample", resampled)
    return asked


def test_the_shared_space_hands_all_of_it_to_the_kernel(asked: list[tuple[Crops, Tensor]]) -> None:
    space, draw, indices = shared_space(14), _draw(6), torch.tensor([4, 0, 2])
    images = torch.zeros(5, 3, 14, 14, dtype=torch.uint8)
    form = NetworkInput(torch.zeros(3), torch.ones(3), torch.bfloat16)
    space.apply(images, draw, indices=indices, network_input=form)
    ((crops, matrices),) = asked
    assert (crops.images, crops.indices, crops.form, crops.padding) == (images, indices, form, 2)
    assert torch.equal(crops.offsets, space.crop_offsets(draw))
    assert torch.equal(matrices, space.inverse_matrices(draw))


def test_the_kernels_of_training_and_of_test_time_draws_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, gradients = list[Crops](), list[Tensor]()

    def resampled(crops: Crops, matrices: Tensor) -> Tensor:
        asked.append(crops)
        own = matrices * 1
        own.register_hook(gradients.append)
        return resample(to_unit_interval(crop(crops.images[:1], crops.offsets, crops.padding)), own)

    monkeypatch.setattr(fused_resampling, "resample", resampled)
    form, before = NetworkInput(torch.zeros(3), torch.ones(3), torch.bfloat16), torch.get_rng_state()
    fused_resampling.compile_kernels(torch.zeros(5, 3, 14, 14, dtype=torch.uint8), 2, form)
    assert torch.equal(torch.get_rng_state(), before)
    assert [(crops.indices is None, crops.form, crops.padding) for crops in asked] == [
        (False, form, 2),
        (True, None, 2),
    ]
    assert len(gradients) == 2


def test_float_images_take_the_plain_path(asked: list[tuple[Crops, Tensor]]) -> None:
    assert shared_space(14).apply(torch.ones(6, 1, 14, 14), _draw(6)).sum() > 0
    assert not asked


# On a GPU


def _moved(given: Given, device: torch.device) -> Given:
    crops, matrices, weights = given
    indices = None if crops.indices is None else crops.indices.to(device)
    form = crops.form and NetworkInput(crops.form.mean.to(device), crops.form.deviation.to(device), crops.form.dtype)
    there = Crops(crops.images.to(device), indices, crops.offsets.to(device), crops.padding, form)
    return there, matrices.to(device), weights.to(device)


def _fused(crops: Crops, matrices: Tensor, weights: Tensor, launch: Launch | None = None) -> Outcome:
    matrices = matrices.detach().clone().requires_grad_()
    output = fused_resampling.resample(crops, matrices, launch)
    (gradient,) = torch.autograd.grad((output * weights).sum(), matrices)
    return output.detach(), gradient


def on_a_gpu(test: Callable[..., None]) -> Callable[..., None]:
    """Mark what needs a GPU."""
    skipped = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")(test)
    marked: Callable[..., None] = pytest.mark.gpu(skipped)
    return marked


@on_a_gpu
@pytest.mark.parametrize("size", [14, 28, 32])
@pytest.mark.parametrize("name", CASES)
def test_kernels_equal_the_plain_path_on_the_cpu(name: str, size: int) -> None:
    given = _given(**CASES[name], size=size, batch=64)
    output, gradient = _fused(*_moved(given, GPU))
    _assert_equal((output.cpu(), gradient.cpu()), _plain(*given), CASES[name]["dtype"])


@on_a_gpu
@pytest.mark.parametrize("launch", [Launch(64, 1), Launch(1024, 4), Launch(512, 8)])
def test_blocks_and_warps_change_no_value(launch: Launch) -> None:
    given = _moved(_given(3, True, 2, torch.float32, size=32, batch=64), GPU)
    found, expected = _fused(*given, launch), _fused(*given)
    assert torch.equal(found[0], expected[0])
    torch.testing.assert_close(found[1], expected[1], atol=1e-3, rtol=1e-4)


@on_a_gpu
def test_the_same_twice_is_the_same_bit_for_bit() -> None:
    given = _moved(_given(3, True, 2, torch.bfloat16, size=32, batch=256), GPU)
    assert all(map(torch.equal, _fused(*given), _fused(*given)))


@on_a_gpu
def test_nothing_waits_for_the_device() -> None:
    given = _moved(_given(3, True, 2, torch.bfloat16, size=32), GPU)
    _fused(*given)  # compiled here
    torch.cuda.set_sync_debug_mode("error")
    try:
        _fused(*given)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@on_a_gpu
def test_the_shared_space_uses_it() -> None:
    space, draw = shared_space(14), _draw(6)
    images = torch.randint(256, (6, 1, 14, 14), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    parts = (draw.active, draw.magnitudes, draw.half_turn, draw.flip, draw.offsets)
    there = Draw(*(part.to(GPU).requires_grad_(part.is_floating_point()) for part in parts))
    output = space.apply(images.to(GPU), there)
    assert "FusedResampling" in type(output.grad_fn).__name__
    torch.testing.assert_close(output.detach().cpu(), space.apply(images, draw), atol=1e-5, rtol=0)
