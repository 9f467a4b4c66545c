"""The comparison of the kernel with float64 and with what memory allows, on a CPU."""

import pytest
import torch
from torch import Tensor

from augbench.bench.augmentation.affine_space import shared_space
from augbench.bench.augmentation.fused_resampling import Crops
from benchmarks import gpu_kernel
from benchmarks.gpu_kernel import Case, errors, fractions, plain, source_of

CPU = torch.device("cpu")
CASE = Case(3, 8, 5, 2, torch.float32)


def test_bytes_are_counted_as_by_hand() -> None:
    # 4 images of 3·8·8 bytes with an index of 8; 8 copies of as many values of 2 bytes, offsets and matrix of 16 each
    assert Case(3, 8, 4, 2, torch.bfloat16).bytes == 4 * (192 + 8) + 8 * (2 * 192 + 32)


def test_shares_are_of_each_pass_alone() -> None:
    found = {"forward, graph": [0.02, 0.01, 0.03], "forward, backward, graph": [0.06, 0.06, 0.06]}
    limit = CASE.bytes / 1e6
    assert fractions(found, CASE, 1e6) == {
        "forward": pytest.approx(limit / 0.02),
        "backward": pytest.approx(limit / 0.04),
    }


@pytest.mark.parametrize("gathered", [True, False])
def test_plain_is_what_the_space_does(gathered: bool) -> None:
    source = source_of(Case(3, 8, 5, 2, torch.bfloat16, gathered), CPU)
    state = source.generator.get_state()
    crops, matrices = source.batch()
    source.generator.set_state(state)
    space = shared_space(8)
    draw = space.sample(10, source.probabilities, space.maxima(), source.generator)
    indices = torch.randint(len(source.images), (5,), generator=source.generator) if gathered else None
    expected = space.apply(source.images, draw, indices=indices, network_input=source.form)
    torch.testing.assert_close(plain(crops, matrices), expected)


def test_the_plain_way_agrees_with_float64() -> None:
    found = errors(CASE, plain, CPU)
    assert 0 < found["values"] < gpu_kernel.VALUES_AGREE[torch.float32].bound
    assert 0 < found["gradient of most draws"] < gpu_kernel.AGREE["gradient of most draws"].bound
    assert not torch.are_deterministic_algorithms_enabled()


def test_a_wrong_way_does_not_agree() -> None:
    def neighbour(crops: Crops, matrices: Tensor) -> Tensor:
        return plain(crops, matrices.roll(1, 0))

    def incomplete(crops: Crops, matrices: Tensor) -> Tensor:
        output = torch.empty_like(plain(crops, matrices))
        output[1:] = plain(crops, matrices)[1:]
        return output

    assert errors(CASE, neighbour, CPU)["values"] > 0.1
    assert errors(CASE, neighbour, CPU)["gradients"] > 0.1
    assert not gpu_kernel.VALUES_AGREE[torch.float32].met(errors(CASE, incomplete, CPU)["values"])


def test_images_to_gather_from_do_not_fit_a_cache() -> None:
    gathered, not_gathered = (source_of(Case(3, 8, 5, 2, torch.float32, each), CPU) for each in (True, False))
    assert len(gathered.images) == 256 * 5
    assert len(not_gathered.images) == 5
    assert not_gathered.batch()[0].indices is None
    assert set(gathered.batch()[0].offsets.flatten().tolist()) <= {0, 1, 2}
