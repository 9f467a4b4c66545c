"""The wide space: where single pixels go, worked out by hand."""

import torch

from augbench.bench.augmentation.image_operations import GEOMETRIC, OPERATIONS, ImageSpace, inverse_matrices


def _moved(name: str, magnitude: float, row: int, column: int) -> list[list[int]]:
    image = torch.zeros(1, 1, 8, 8)
    image[0, 0, row, column] = 1
    operation, strength = torch.tensor([OPERATIONS.index(name)]), torch.tensor([magnitude])
    moved = ImageSpace(8).apply(image, operation, strength, torch.Generator())
    places: list[list[int]] = moved[0, 0].nonzero().tolist()
    return places


def test_translations_move_to_the_right_and_down_by_a_share_of_the_side() -> None:
    assert _moved("TranslateX", 0.25, row=3, column=1) == [[3, 3]]
    assert _moved("TranslateX", -0.25, row=3, column=4) == [[3, 2]]
    assert _moved("TranslateY", 0.5, row=1, column=5) == [[5, 5]]
    assert _moved("TranslateX", 1.0, row=3, column=0) == []


def test_shears_keep_the_top_left_corner() -> None:
    # the centre of row r is r + ½ below the corner, so a shear by ½ takes (r + ½) / 2 columns off
    assert _moved("ShearX", 0.5, row=0, column=4) == [[0, 4]]
    assert _moved("ShearX", 0.5, row=6, column=5) == [[6, 2]]
    assert _moved("ShearY", -0.5, row=1, column=6) == [[4, 6]]


def test_rotation_turns_counter_clockwise() -> None:
    assert _moved("Rotate", 90.0, row=0, column=7) == [[0, 0]]


def test_operations_that_are_not_geometric_have_the_identity_as_their_matrix() -> None:
    operations = torch.tensor([index for index, name in enumerate(OPERATIONS) if name not in GEOMETRIC])
    matrices = inverse_matrices(operations, torch.full((len(operations),), 0.7))
    assert torch.equal(matrices, torch.eye(2, 3).expand(len(operations), 2, 3))
