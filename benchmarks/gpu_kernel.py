"""The fused resampling on a GPU: its agreement with the plain path, and its speed relative to the memory bound."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import torch
from torch import Tensor

from augbench.bench.augmentation import fused_resampling
from augbench.bench.augmentation.affine_space import resample, shared_space
from augbench.bench.augmentation.fused_resampling import Crops, Launch
from augbench.bench.augmentation.network_input import NetworkInput
from augbench.bench.augmentation.resampling import crop, normalised
from benchmarks import machine
from benchmarks.gpu_parts import Work, attempt
from benchmarks.rows import Goal
from benchmarks.timing import Contestant, device_clock, spread, take_turns

ROUNDS, ROUNDS_OF_LAUNCHES = 20, 5
MOST = "gradient of most draws"
BANDWIDTH, PEAK = "bytes per second", "floating-point operations per second"
LARGEST_BATCH = 16_384
COPIED_BYTES = 4 * 2**30
SIDE_OF_MATRICES = 8192
IMAGES = 50_000
ROTATED_BYTES = 300e6  # several times the largest cache: as much is written before anything is written again
MOST_BATCHES = 64
# Continuous blocks are in every draw: where a map takes pixels to pixels exactly, the slope of bilinear interpolation
# has two values, and it depends on rounding which of them is taken.
PROBABILITIES = (1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.5)

VALUES_AGREE = {torch.float32: Goal(1e-5), torch.bfloat16: Goal(4e-3)}  # bfloat16 rounds by up to 2⁻⁹
# A coordinate that rounds to another cell has another slope, in one or two draws of a thousand.
AGREE = {"gradients": Goal(1e-2), MOST: Goal(1e-5)}
SHARE_OF_LIMIT = Goal(0.6, at_least=True)
LAUNCHES = [
    Launch(block, warps) for block in (128, 256, 512, 1024) for warps in (2, 4, 8) if 32 <= block / warps <= 128
]

Way = Callable[[Crops, Tensor], Tensor]


@dataclass(frozen=True)
class Case:
    """Shapes and type of a batch.

    Attributes:
        channels: Channels C of the images.
        size: Their side S.
        batch: Images B of the batch.
        copies: Copies M of each of them.
        dtype: Type of the normalised output.
        gathered: Whether they are chosen by their indices from many more.
    """

    channels: int
    size: int
    batch: int
    copies: int
    dtype: torch.dtype
    gathered: bool = True

    def __str__(self) -> str:
        kind = str(self.dtype).removeprefix("torch.")
        how = "" if self.gathered else ", not gathered"
        return f"{self.copies} copies of {self.batch}, {self.size}×{self.size}×{self.channels}, {kind}{how}"

    @property
    def draws(self) -> int:
        """Images that are made."""
        return self.copies * self.batch

    @property
    def bytes(self) -> int:
        """The least that has to be moved, in either direction of the pass.

        Each image of the batch is read once, and so are its index and the offsets and matrix of each copy (16 bytes
        each); each copy, or its gradient, is moved once.
        """
        pixels = self.channels * self.size**2
        return self.batch * (pixels + 8) + self.draws * (pixels * self.dtype.itemsize + 16 + 16)


SHAPES = ((1, 28), (3, 32))
TIMED = [Case(*shape, batch, 4, torch.bfloat16) for shape, batch in product(SHAPES, (128, 1024, LARGEST_BATCH))]
TIMED += [Case(3, 32, LARGEST_BATCH, 4, torch.float32)]
SWEPT = [Case(3, 32, 1024, 4, torch.bfloat16), Case(3, 32, LARGEST_BATCH, 4, torch.bfloat16)]
COMPARED = [
    Case(*shape, 256, copies, dtype, gathered)
    for shape, copies, dtype, gathered in product(SHAPES, (1, 4), VALUES_AGREE, (True, False))
]
QUICK = Case(3, 8, 4, 2, torch.bfloat16)


def measure_machine(work: Work) -> None:
    """Describe the machine and measure its two limits: bytes moved and products computed per second."""
    clock = device_clock(work.device)
    rounds = 2 if work.quick else ROUNDS
    work.add("about", machine.describe(work.device))
    source = torch.randint(256, (4096 if work.quick else COPIED_BYTES,), dtype=torch.uint8, device=work.device)
    target = torch.empty_like(source)
    seconds = take_turns({"copy": partial(target.copy_, source)}, rounds, clock)["copy"]
    work.add(BANDWIDTH, 2 * source.nbytes / spread(seconds).median)  # read and written
    del source, target
    torch.set_float32_matmul_precision("high")  # TF32, in which convolutions are computed by default
    side = 16 if work.quick else SIDE_OF_MATRICES
    for name, dtype in (("bfloat16", torch.bfloat16), ("float32", torch.float32)):
        first, second = (torch.randn(side, side, device=work.device).to(dtype) for _ in range(2))
        seconds = take_turns({"product": partial(torch.mm, first, second)}, rounds, clock)["product"]
        work.add(f"{PEAK}, {name}", 2 * side**3 / spread(seconds).median)


def measure(work: Work) -> None:
    """Compare the ways of resampling with float64, then time them."""
    ways = ways_of_resampling(work.device)
    for (name, way), dtype in product(ways.items(), VALUES_AGREE):
        cases = [case for case in ([QUICK] if work.quick else COMPARED) if case.dtype is dtype]
        _compare(work, cases, f"{name}, {str(dtype).removeprefix('torch.')}", way)
    for case, name in product([QUICK] if work.quick else TIMED, ways):
        found = attempt(partial(times, case, ways[name], work))
        work.add(f"{name}, {case}", found)
        if name == "fused" and "failed" not in found:
            _add_shares(work, case, found)


def _compare(work: Work, cases: Sequence[Case], name: str, way: Way) -> None:
    """Add the errors of each case; goals are for the worst of them, and NaN is worse than anything."""
    found = []
    for case in cases:
        apart = attempt(partial(errors, case, way, work.device))
        work.add(f"{name} against float64, {case}", apart)
        if "failed" not in apart:
            found.append(apart)
    for kind, goal in (AGREE | {"values": VALUES_AGREE[cases[0].dtype]}).items() if found else ():
        work.add_goal(f"{name} against float64: {kind}", float(torch.tensor([one[kind] for one in found]).max()), goal)


def measure_launches(work: Work) -> None:
    """Time other launches of the kernels, to see whether the one that is used is the best."""
    for case, launch in product(SWEPT, LAUNCHES):
        way = partial(fused_resampling.resample, launch=launch)
        found = attempt(partial(times, case, way, work, ROUNDS_OF_LAUNCHES))
        work.add(f"block {launch.block}, warps {launch.warps}, {case}", found)


def _add_shares(work: Work, case: Case, found: Mapping[str, list[float]]) -> None:
    """Add the fraction of the time that memory needs; only batches that fill a device have a goal."""
    bandwidth = work.earlier.get("machine", {}).get(BANDWIDTH)
    if bandwidth is None:
        return
    for passes, fraction in fractions(found, case, bandwidth).items():
        name = f"share of what memory allows, {passes}, {case}"
        if case.batch == LARGEST_BATCH:
            work.add_goal(name, fraction, SHARE_OF_LIMIT)
        else:
            work.add(name, fraction)


def ways_of_resampling(device: torch.device) -> Mapping[str, Way]:
    """Return the ways of resampling on a device."""
    return {"fused": fused_resampling.resample, "plain": plain} if fused_resampling.usable(device) else {"plain": plain}


def plain(crops: Crops, matrices: Tensor) -> Tensor:
    """Do the same as the kernel with operations of torch, in the type of the matrices."""
    images = crops.images if crops.indices is None else crops.images[crops.indices]
    output = resample(crop(images, crops.offsets, crops.padding).to(matrices.dtype) / 255, matrices)
    return output if crops.form is None else normalised(output, crops.form)


@dataclass(frozen=True)
class Source:
    """A source of batches of one case.

    Attributes:
        case: Shapes and type.
        images: Images that those of a batch are chosen from; (·, C, S, S), uint8.
        form: A normalisation that is another one for each channel.
        probabilities: Of each block of the shared space; (7,).
        generator: Source of randomness.
    """

    case: Case
    images: Tensor
    form: NetworkInput
    probabilities: Tensor
    generator: torch.Generator

    def batch(self) -> tuple[Crops, Tensor]:
        """Draw crops and matrices from the shared space, as training does."""
        case, space, device = self.case, shared_space(self.case.size), self.images.device
        draw = space.sample(case.draws, self.probabilities, space.maxima(device), self.generator)
        numbers = (len(self.images), (case.batch,))
        indices = torch.randint(*numbers, generator=self.generator, device=device) if case.gathered else None
        offsets, matrices = space.crop_offsets(draw), space.inverse_matrices(draw)
        return Crops(self.images, indices, offsets, space.padding, self.form), matrices


def source_of(case: Case, device: torch.device) -> Source:
    """Make up images; if they are gathered, more than fit in a cache."""
    generator = torch.Generator(device).manual_seed(0)
    count = min(IMAGES, 256 * case.batch) if case.gathered else case.batch
    shape = (count, case.channels, case.size, case.size)
    images = torch.randint(256, shape, generator=generator, dtype=torch.uint8, device=device)
    mean = torch.linspace(0.3, 0.5, case.channels, device=device)
    form = NetworkInput(mean, mean / 2, case.dtype)
    return Source(case, images, form, torch.tensor(PROBABILITIES, device=device), generator)


def errors(case: Case, way: Way, device: torch.device) -> dict[str, float]:
    """Compare images and the gradient of the matrices with those in float64: ‖difference‖ / ‖those in float64‖.

    What nobody has written is NaN, which never agrees.
    """
    source = source_of(case, device)
    crops, matrices = source.batch()
    shape = (case.draws, case.channels, case.size, case.size)
    weights = torch.randn(shape, generator=source.generator, device=device).to(case.dtype)
    with _unwritten_is_nan():
        output, gradient = _with_gradient(way, crops, matrices, weights)
    exact, exact_gradient = _with_gradient(plain, _in_float64(crops), matrices.double(), weights.double())
    apart = gradient - exact_gradient
    of_draws = apart.flatten(1).norm(dim=1) / exact_gradient.flatten(1).norm(dim=1)
    return {
        "values": float((output - exact).norm() / exact.norm()),
        "gradients": float(apart.norm() / exact_gradient.norm()),
        MOST: float(of_draws.quantile(0.9)),
        "largest difference of values": float((output - exact).abs().max()),
    }


def _in_float64(crops: Crops) -> Crops:
    form = crops.form
    if form is None:
        return crops
    return replace(crops, form=NetworkInput(form.mean.double(), form.deviation.double(), torch.float64))


def _with_gradient(way: Way, crops: Crops, matrices: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    matrices = matrices.detach().requires_grad_()
    output = way(crops, matrices)
    return output.detach(), torch.autograd.grad(output, matrices, weights)[0]


@contextmanager
def _unwritten_is_nan() -> Iterator[None]:
    """Fill new tensors with NaN, so that values that a kernel leaves out are seen."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def times(case: Case, way: Way, work: Work, rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Time a batch: forwards, forwards and backwards, and forwards with drawing and composing before.

    Started from Python and, without drawing, as a CUDA graph, where there are no gaps between kernels. Batches change,
    so that more is moved before anything is moved again than caches hold.
    """
    source = source_of(case, work.device)
    count = 1 if work.quick else max(1, min(MOST_BATCHES, math.ceil(ROTATED_BYTES / case.bytes)))
    batches = [source.batch() for _ in range(count)]
    weights = torch.randn_like(way(*batches[0]))
    passes: dict[str, Contestant] = {
        "forward": lambda: [way(crops, matrices) for crops, matrices in batches],
        "forward, backward": lambda: [_with_gradient(way, *batch, weights) for batch in batches],
    }
    contestants = passes | {"draw, compose, forward": lambda: [way(*source.batch()) for _ in batches]}
    if work.device.type == "cuda" and way is not plain:
        contestants |= {f"{name}, graph": graphed(one) for name, one in passes.items()}
    seconds = take_turns(contestants, 2 if work.quick else rounds, device_clock(work.device))
    return {name: [one / count for one in each] for name, each in seconds.items()}


def graphed(function: Contestant) -> Contestant:
    """Record the GPU work of a function as a graph and return a function that repeats it."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        function()  # compiles and fills caches
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()
    return graph.replay


def fractions(found: Mapping[str, list[float]], case: Case, bandwidth: float) -> dict[str, float]:
    """Divide the least time that memory allows by the time of each pass."""
    forward, both = (spread(found[f"{name}, graph"]).median for name in ("forward", "forward, backward"))
    limit = case.bytes / bandwidth
    return {"forward": limit / forward, "backward": limit / (both - forward)}
