"""Whole runs of Augerino's variants, SCALE's norm ablation and RandAugment; an interruption changes no bit of them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from augbench.bench.launchers.launcher import Placement
from augbench.bench.run_folder import RunFolder, RunState
from augbench.bench.spec import RunSpec
from augbench.bench.worker import StopSignal, execute

pytestmark = pytest.mark.usefixtures("few_digits")

MakeSpec = Callable[..., RunSpec]
MakeFolder = Callable[[RunSpec], RunFolder]


def _outcome(folder: RunFolder) -> dict[str, Any]:
    """Everything about a finished run that must repeat bit for bit."""
    result = folder.read_result()
    assert result is not None
    with np.load(folder.predictions, allow_pickle=False) as arrays:
        predictions = {name: array.tobytes() for name, array in arrays.items()}
    model = torch.load(folder.model, weights_only=True)
    tensors = model["network"] | model["method"]["learnable"]
    kept = {name: result[name] for name in ("metrics", "rotation_probe", "learned", "image_passes")}
    return {
        "result": kept,
        "predictions": predictions,
        "tensors": {name: tensor.numpy().tobytes() for name, tensor in tensors.items()},
        "rows": folder.read_metrics(),
    }


@pytest.mark.parametrize("method", ["augerino+flips", "augerino-pb", "scale-norm", "randaugment"])
def test_a_run_ends_alike_whether_it_was_interrupted_or_not(
    method: str,
    make_spec: MakeSpec,
    make_folder: MakeFolder,
    placement: Placement,
    stop: StopSignal,
    stop_after: Callable[[int], StopSignal],
) -> None:
    spec = make_spec(method, epochs=2)
    whole, parts = make_folder(spec), make_folder(spec)
    assert execute(whole, placement, stop) is RunState.DONE
    for steps in (3, 5):  # in the middle of the first epoch, at the start of the second
        assert execute(parts, placement, stop_after(steps)) is RunState.CANCELLED
        torch.manual_seed(1)  # another process would not have this one's global generator
    assert execute(parts, placement, stop) is RunState.DONE
    outcome = _outcome(whole)
    assert _outcome(parts) == outcome
    assert set(outcome["result"]["metrics"]) == {"0", "1", "2"}
    first, last = (row["learned"] for row in outcome["rows"])
    assert (first != last) is (method != "randaugment")
