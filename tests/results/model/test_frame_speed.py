"""Ten thousand runs are read in seconds."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from augbench.bench.runs.run_folder import RunFolder
from augbench.results.model.frame import Runs, load_runs
from augbench.results.model.packing import pack

WriteRun = Callable[..., RunFolder]
Effort = Callable[[Callable[[], Runs]], tuple[Runs, float]]

SEEDS = 10
MOST_EFFORT = 30.0  # three times what it takes, which is three seconds where the fixed work takes 0.3


def write_folders(example: RunFolder, out: Path, kinds: int) -> None:
    """Write folders like that of a run, for so many settings of its method and ten seeds each."""
    spec, result = example.read_spec(), (example.path / "result.json").read_text()
    texts = {name: (example.path / name).read_bytes() for name in ("status.json", "metrics.jsonl", "environment.json")}
    for kind in range(kinds):
        settings = {**spec.method.settings, "rate": kind / kinds}
        of_kind = spec.model_copy(update={"method": spec.method.model_copy(update={"settings": settings})})
        for seed in range(SEEDS):
            other = of_kind.with_seed(seed)
            folder = out / "runs" / other.folder_name
            folder.mkdir(parents=True)
            content = {"identity": other.identity, "spec": other.model_dump(mode="json")}
            (folder / "spec.json").write_text(json.dumps(content, indent=1))
            (folder / "result.json").write_text(result.replace(spec.identity, other.identity))
            for name, text in texts.items():
                (folder / name).write_bytes(text)
            os.link(example.predictions, folder / "predictions.npz")


@pytest.fixture
def example(tmp_path: Path, write_run: WriteRun) -> RunFolder:
    """Write a run of 20 epochs with 14 learned numbers, and two numbers of test-time draws."""
    numbers = [{f"probability/{block}": 0.5 for block in range(7)} | {f"range/{block}": 0.25 for block in range(7)}]
    metrics = {0: 0.9, 4: 0.91, 8: 0.92}
    drawn = {draws: [[(0.9, 0.1)] * 4] * 5 for draws in (4, 8)}
    return write_run(
        "scale", root=tmp_path / "one", epochs=20, learned=numbers, accuracy=metrics, drawn=drawn, gpu=False
    )


@pytest.mark.slow
def test_ten_thousand_folders_are_read_in_seconds(tmp_path: Path, example: RunFolder, effort: Effort) -> None:
    write_folders(example, tmp_path / "out", kinds=1000)
    runs, taken = effort(lambda: load_runs(tmp_path / "out"))
    assert taken < MOST_EFFORT
    assert (len(runs.runs), runs.warnings()) == (10_000, [])
    assert runs.runs["label"].nunique() == 1000 and set(runs.runs["asked"]) == {SEEDS}


@pytest.mark.slow
def test_a_parquet_file_is_read_as_fast(tmp_path: Path, example: RunFolder, effort: Effort) -> None:
    write_folders(example, tmp_path / "out", kinds=100)
    pack([tmp_path / "out"], tmp_path / "all.parquet")
    runs, taken = effort(lambda: load_runs(tmp_path / "all.parquet"))
    assert taken < MOST_EFFORT / 10
    assert len(runs.table()) == 3000 and len(runs.reliability) == 1000 * 3 * 15
