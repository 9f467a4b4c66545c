"""Exported files: they compile, need no augbench, and draw what augbench draws."""

import io
import json
import os
import subprocess
import sys
import tokenize
import tomllib
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from described import AFFINE, DESCRIBED, learned_method
from method_factories import seeded, some_images
from PIL import Image
from scipy.stats import ks_2samp
from torch import Tensor, nn
from torchvision import tv_tensors
from torchvision.transforms import v2

from augbench.bench.augmentation.affine_space import resample
from augbench.bench.augmentation.image_operations import MAGNITUDES, OPERATIONS
from augbench.bench.augmentation.policy_description import (
    AffinePolicy,
    BlockLaw,
    OperationLaw,
    OperationPolicy,
    PolicyDescription,
    read_description,
)
from augbench.bench.augmentation.policy_draws import AffineDraws, draws_of
from augbench.bench.augmentation.resampling import crop
from augbench.bench.augmentation.transform_distribution import decompose
from augbench.bench.common.errors import UserError
from augbench.bench.training.evaluation import predict_with_draws
from augbench.results.export.files import policy_text, usage

CPU = torch.device("cpu")
ORIGIN = {"method": "a test"}
HOSTILE = [
    "x\nimport os; os.abort()",
    'x"""\nraise SystemExit\n"""',
    "x\r\nraise SystemExit",
    "{{ 7 * 7 }}{% raw %}",
    "\u2028raise SystemExit",
    "\x00\x1b[31m\x0craise SystemExit",
    "\u202eevil\\",
    "a" * 10_000,
]
LAWS = {
    "none of several": AffinePolicy(compositions=((BlockLaw(block="rotation", range=0.5, levels=7),), ())),
    "nothing": AffinePolicy(),
    "only a crop": AffinePolicy(compositions=((BlockLaw(block="crop", probability=0.7),),), padding_divisor=4),
}


def described(name: str) -> PolicyDescription:
    policy = learned_method(name).describe_policy()
    assert policy is not None
    return policy


def load(text: str) -> dict[str, Any]:
    """Execute an exported file."""
    assert "augbench." not in text.partition('"""')[2]
    names: dict[str, Any] = {"__name__": "exported"}
    exec(compile(text, "exported.py", "exec"), names)  # noqa: S102 - what we have just written
    return names


def apart(first: Tensor, second: Tensor) -> Tensor:
    """Largest difference in each image."""
    return (first - second).abs().amax((1, 2, 3))


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("side", [14, 32, 64])
@pytest.mark.parametrize("name", [*DESCRIBED, *LAWS])
def test_torchvision_makes_the_images_of_augbench_from_the_same_random_numbers(
    name: str, side: int, channels: int
) -> None:
    policy = LAWS[name] if name in LAWS else described(name)
    images, names = some_images(100, channels, side), load(policy_text(policy, "torchvision", ORIGIN))
    expected = draws_of(policy, side, CPU).transform(images, seeded(5))
    learned = names["LearnedPolicy"]
    of_floats = apart(learned(seeded(5))(images / 255), expected)
    # 2e-5 is 1/200 of a grey level; one image in fifty may get another level where its value lies between two
    assert (of_floats > 2e-5).float().mean() <= (0.02 if isinstance(policy, OperationPolicy) else 0)
    assert of_floats.max() < 1.01 / 255
    of_bytes = learned(seeded(5))(images)
    assert of_bytes.dtype == torch.uint8
    assert (of_bytes - 255 * expected).abs().max() <= 1.01
    single, alone = learned(seeded(6)), draws_of(policy, side, CPU)
    source = seeded(6)
    for image in images[:10]:
        made = single(image / 255)
        assert made.shape == image.shape
        assert apart(made[None], alone.transform(image[None], source)).max() < 1.01 / 255


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
@pytest.mark.parametrize("channels", [1, 3])
def test_every_operation_of_torchvision_files_is_that_of_augbench(channels: int, interpolation: Any) -> None:
    stage = tuple(
        OperationLaw(operation=name, low=LOWS[name], high=HIGHS[name], levels=7, mirrored=MAGNITUDES[name].mirrored)
        if name in MAGNITUDES
        else OperationLaw(operation=name)
        for name in OPERATIONS
    )
    policy = OperationPolicy(sub_policies=((stage,), (stage, stage)), interpolation=interpolation)
    names = load(policy_text(policy, "torchvision", ORIGIN))
    for images in (some_images(600, channels, 16), _smooth(600, channels, 16)):
        expected = draws_of(policy, 16, CPU).transform(images, seeded(3))
        differences = apart(names["LearnedPolicy"](seeded(3)).floats(images), expected)
        assert (differences > 1e-5).float().mean() < 0.01
        assert differences.median() < 1e-6


LOWS = {"ShearX": 0.0, "ShearY": 0.0, "TranslateX": 0.0, "TranslateY": 0.0, "Rotate": 0.0, "Brightness": 1.0}
LOWS |= {"Color": 1.0, "Contrast": 1.0, "Sharpness": 1.0, "Posterize": 8.0, "Solarize": 1.0, "Cutout": 0.0}
HIGHS = {"ShearX": 0.4, "ShearY": 0.3, "TranslateX": 0.45, "TranslateY": 0.3, "Rotate": 135.0, "Brightness": 1.9}
HIGHS |= {"Color": 1.9, "Contrast": 1.8, "Sharpness": 1.7, "Posterize": 2.0, "Solarize": 0.0, "Cutout": 0.6}


def _smooth(count: int, channels: int, side: int) -> Tensor:
    coarse = torch.rand(count, channels, 4, 4, generator=seeded(2))
    return (255 * nn.functional.interpolate(coarse, size=side, mode="bilinear")).to(torch.uint8)


def test_a_strength_may_stay_the_same_on_several_levels() -> None:
    policy = OperationPolicy(sub_policies=(((OperationLaw(operation="TranslateX", low=0.1, levels=3),),),))
    images, names = some_images(20, 1, 16), load(policy_text(policy, "torchvision", ORIGIN))
    expected = draws_of(policy, 16, CPU).transform(images, seeded(3))
    assert apart(names["LearnedPolicy"](seeded(3)).floats(images), expected).max() < 1e-5


def test_torchvision_files_take_what_transforms_of_torchvision_take() -> None:
    learned = load(policy_text(described("scale"), "torchvision", ORIGIN))["LearnedPolicy"]
    image = some_images(1, 3, 14)[0]
    expected = learned(seeded(1))(image)
    wrapped = learned(seeded(1))(tv_tensors.Image(image))
    assert isinstance(wrapped, tv_tensors.Image)
    assert torch.equal(wrapped, expected)
    picture = Image.fromarray(image.permute(1, 2, 0).numpy())
    made = learned(seeded(1))(picture)
    assert isinstance(made, Image.Image)
    assert np.array_equal(np.asarray(made), expected.permute(1, 2, 0).numpy())
    composed = v2.Compose([learned(seeded(1)), v2.ToDtype(torch.float32, scale=True)])
    torch.testing.assert_close(composed(image), expected / 255)
    half = learned(seeded(1))((image / 255).half())
    assert half.dtype == torch.float16
    with pytest.raises(TypeError, match="uint8 or float"):
        learned()(image.long())
    with pytest.raises(TypeError, match="grey or RGB, not P"):
        learned()(picture.convert("P"))
    with pytest.raises(ValueError, match="square"):
        learned()(image[:, :10])


def test_torchvision_files_average_over_draws_as_augbench_does() -> None:
    policy = described("augerino+flips")
    names = load(policy_text(policy, "torchvision", ORIGIN))
    network = nn.Sequential(nn.Flatten(), nn.Linear(14 * 14, 5)).eval()
    images = some_images(30)
    transform = draws_of(policy, 14, CPU).transform
    expected = predict_with_draws(network, images, transform, (4,), seeded(3))[4]
    averaged = names["AveragedOverDraws"](network, draws=4, policy=names["LearnedPolicy"](seeded(3)))
    torch.testing.assert_close(averaged(images), expected, atol=1e-5, rtol=0)
    doubled = names["AveragedOverDraws"](network, 4, names["LearnedPolicy"](seeded(3)), prepare=lambda x: 2 * x)
    assert apart(doubled(images)[:, :, None, None], expected[:, :, None, None]).max() > 1e-3
    with pytest.raises(ValueError, match="At least 1 draw is needed, not 0"):
        names["AveragedOverDraws"](network, draws=0)


def test_files_are_sound_to_linters_and_short(tmp_path: Path) -> None:
    policies = LAWS | {name: described(name) for name in DESCRIBED}
    for target, (name, policy) in product(("torchvision", "kornia", "albumentations"), policies.items()):
        if isinstance(policy, OperationPolicy) and target != "torchvision":
            with pytest.raises(UserError, match="--to torchvision or --to json"):
                policy_text(policy, target, ORIGIN)
            continue
        text = policy_text(policy, target, ORIGIN)
        (tmp_path / f"{target} of {name}.py").write_text(text)
        compile(text, "policy.py", "exec")
        code = text.partition("class LearnedPolicy")[2]
        assert len(code.splitlines()) < 180, name
    rules = ["--isolated", "--select", "F,E4,E7,E9,W,I", "--ignore", "E731", "--target-version", "py311"]
    done = subprocess.run([sys.executable, "-m", "ruff", "check", *rules, tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_a_torchvision_file_needs_no_augbench(tmp_path: Path) -> None:
    (tmp_path / "policy.py").write_text(policy_text(described("autoaugment"), "torchvision", ORIGIN))
    program = (
        "import sys; sys.modules['augbench'] = None\nimport torch, policy\n"
        "print(policy.LearnedPolicy()(torch.zeros(4, 3, 32, 32, dtype=torch.uint8)).shape)\n"
        "print(sorted(name for name in sys.modules if name.startswith('augbench.')))"
    )
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["torch.Size([4, 3, 32, 32])", "[]"], done.stderr


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("target", ["torchvision", "kornia", "albumentations", "json"])
def test_nothing_of_a_record_breaks_out_of_the_header(text: str, target: str) -> None:
    origin, policy = {"data set": text, text: "name"}, described("fixed")
    made = policy_text(policy, target, origin)
    if target == "json":
        assert json.loads(made)["origin"] == origin
        assert read_description(json.loads(made)) == policy
        return
    plain = policy_text(policy, target, {})
    header, plain_header = (each.partition('\n"""')[0] for each in (made, plain))
    assert made.removeprefix(header) == plain.removeprefix(plain_header)  # the code is the same
    assert all(line.startswith("#") and line.isprintable() for line in header.split("\n"))
    assert len(header) < 10_000
    compile(made, "policy.py", "exec")


@pytest.mark.parametrize("target", ["torchvision", "kornia", "albumentations"])
def test_a_record_does_not_choose_the_encoding_of_a_file(target: str) -> None:
    origin = {"coding": "unicode_escape", "note": "\\u000araise SystemExit#"}
    made = policy_text(described("fixed"), target, origin).encode()
    assert tokenize.detect_encoding(io.BytesIO(made).readline)[0] == "utf-8"


@pytest.mark.parametrize("name", ["policy.py", "my-policy.py", "class.py", "policy.v1.py", "it's.py"])
def test_what_is_printed_can_be_pasted(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path(name).write_text("LearnedPolicy = 1\n")
    names: dict[str, Any] = {}
    exec(usage(Path(name), "torchvision").removeprefix("In Python: "), names)  # noqa: S102
    assert names["LearnedPolicy"] == 1
    quoted = usage(Path('a"b.json'), "json").removeprefix("In a suite: ")
    assert tomllib.loads(quoted)["methods"][0]["hyperparameters"]["policy"] == 'a"b.json'


def matrices_in_space(pixels: Any, side: int) -> Any:
    """Write maps between pixels, (N, 2, 3), in the coordinates of `affine_grid`; (N, 2, 3)."""
    normal = np.array([[2 / side, 0, 1 / side - 1], [0, 2 / side, 1 / side - 1], [0, 0, 1]])
    square = np.concatenate([pixels, np.broadcast_to([[[0.0, 0.0, 1.0]]], (len(pixels), 1, 3))], 1)
    return (normal @ square @ np.linalg.inv(normal))[:, :2]


def same_law(first: Tensor, second: Tensor) -> None:
    """Check that affine maps (N, 2, 3) have the same law: in each coordinate, and in what is changed together."""
    columns = [decompose(maps) for maps in (first, second)]
    for one, other in zip(columns[0].T, columns[1].T, strict=True):
        assert ks_2samp(one.round(4), other.round(4)).pvalue > 1e-6
    changed = [(abs(values) > 1e-4) @ (2 ** np.arange(7)) for values in columns]
    for pattern in range(128):
        counts = [int((each == pattern).sum()) for each in changed]
        assert abs(counts[0] - counts[1]) <= 6 * np.sqrt(sum(counts) + 1)


@pytest.mark.parametrize(
    "name", ["scale", *(pytest.param(name, marks=pytest.mark.slow) for name in (*AFFINE, *LAWS) if name != "scale")]
)
def test_kornia_draws_the_images_and_maps_of_augbench(name: str) -> None:
    pytest.importorskip("kornia", reason="kornia is not installed")
    policy = LAWS[name] if name in LAWS else described(name)
    learned = load(policy_text(policy, "kornia", ORIGIN))["LearnedPolicy"]
    for side, channels in ((14, 1), (32, 3), (64, 3)):
        images, draws = some_images(50, channels, side) / 255, draws_of(policy, side, CPU)
        torch.manual_seed(5)
        assert apart(learned()(images), draws.transform(images, seeded(5))).max() < 5e-5
    augmentation, draws = learned(), draws_of(policy, 16, CPU)
    augmentation(torch.zeros(20_000, 1, 16, 16))
    maps = matrices_in_space(augmentation.transform_matrix[:, :2].double().numpy(), 16)
    own = draws.sample_transforms(20_000, seeded(8))
    assert own is not None
    same_law(torch.from_numpy(maps), own)


def test_kornia_containers_transform_masks_alike() -> None:
    kornia = pytest.importorskip("kornia", reason="kornia is not installed")
    learned = load(policy_text(described("scale"), "kornia", ORIGIN))["LearnedPolicy"]
    both = kornia.augmentation.AugmentationSequential(learned(), data_keys=["input", "mask"])
    images = (_smooth(20, 1, 32) / 255).round()
    torch.manual_seed(2)
    made, masks = both(images, images.clone())
    assert ((made > 0.5) == (masks > 0.5)).float().mean() > 0.97  # pixels at edges apart


@pytest.fixture
def albumentations(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The library, without its question for a newer version. CI installs it; it is too large for the extra `test`."""
    monkeypatch.setenv("NO_ALBUMENTATIONS_UPDATE", "1")
    if os.environ.get("CI") == "true":
        return
    pytest.importorskip("albumentations", reason="albumentations is not installed: pip install albumentations")
    cv2 = pytest.importorskip("cv2")
    if int(cv2.__version__.split(".")[0]) < 5:
        pytest.skip("OpenCV 4 does not resample exactly")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["scale", "augerino+flips", "none of several"])
def test_albumentations_draws_the_images_and_maps_of_augbench(name: str, albumentations: Any) -> None:
    policy = LAWS[name] if name in LAWS else described(name)
    assert isinstance(policy, AffinePolicy)
    transform = load(policy_text(policy, "albumentations", ORIGIN))["LearnedPolicy"]()
    transform.set_random_seed(3)
    drawn = [transform.get_params_dependent_on_data({"shape": (32, 32)}, {}) for _ in range(20_000)]
    inverse = torch.from_numpy(matrices_in_space(np.stack([one["matrix"] for one in drawn]), 32))
    shift = torch.tensor(np.stack([one["shift"] for one in drawn]))
    linear = torch.linalg.inv(torch.nn.functional.pad(inverse, (0, 0, 0, 1)) + torch.diag(torch.tensor([0.0, 0, 1])))
    before = torch.eye(3, dtype=torch.float64).repeat(len(drawn), 1, 1)
    before[:, :2, 2] = -shift.flip(1) * 2 / 32
    own = AffineDraws(policy, 32, CPU).sample_transforms(20_000, seeded(8))
    same_law((linear @ before)[:, :2], own)
    for channels, scale in ((1, 255), (3, 1)):
        images = some_images(200, channels, 32)
        expected = resample(crop(images / 255, shift[:200] + 10, 10), inverse[:200].float()) * scale
        pictures = (images if scale == 255 else images / 255).permute(0, 2, 3, 1).numpy()
        made = [transform.apply(picture, **one) for picture, one in zip(pictures, drawn, strict=False)]
        found = torch.from_numpy(np.stack(made)).float().permute(0, 3, 1, 2)
        assert apart(found, expected).max() < (0.51 if scale == 255 else 2e-5)


@pytest.mark.slow
def test_albumentations_composes_and_takes_masks(albumentations: Any) -> None:
    import albumentations as library  # type: ignore[import-not-found]

    learned = load(policy_text(described("scale"), "albumentations", ORIGIN))["LearnedPolicy"]
    composed = library.Compose([learned()], seed=1)
    image = some_images(1, 3, 32)[0].permute(1, 2, 0).numpy()
    made = composed(image=image, mask=np.ones((32, 32), np.uint8))
    assert made["image"].shape == image.shape
    assert set(np.unique(made["mask"])) <= {0, 1}
    again = library.Compose([learned()], seed=1)(image=image)["image"]
    assert np.array_equal(again, made["image"])


def test_unknown_targets_are_refused() -> None:
    with pytest.raises(UserError, match="There is no target 'kornya'"):
        policy_text(described("fixed"), "kornya", ORIGIN)
