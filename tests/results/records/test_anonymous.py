"""Archives for anonymous review: nothing in them says who executed the runs, where and from which folders."""

import gzip
import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.results.model.frame import load_runs
from augbench.results.records.anonymous import without_paths

WriteRun = Callable[..., RunFolder]
CommandLine = Callable[..., tuple[int, str, str]]

PRIVATE_COLUMNS = ["folder", "source", "host", "reason"]
PRIVATE = ("smith", "/home", "Linux-6.1", "GPU-7f")
COMMAND = "smith.py --plugin=smith.py run smith.toml --out /home/smith/out --workers 2 --device cuda:0 smith_1"
ATTEMPT = {
    **{"host": "smith-laptop", "command": COMMAND, "platform": "Linux-6.1.0-smith-x86_64", "device_uuid": "GPU-7f"},
    **{"plugins": [{"path": "/home/smith/method.py", "sha256": "a1"}], "plugin_packages": ["smith-lab 1.0"]},
    "added by a later version": "smith",
}
STATUS = {
    "host": "smith-laptop",
    "owner": {"host": "smith-laptop"},
    "traceback": "/home/smith/method.py",
    "cause": "exception",
    "exception": "ValueError",
    "reason": "ValueError: /home/smith is full",
}


@pytest.fixture
def out(tmp_path: Path, write_run: WriteRun) -> Path:
    """Runs whose every file names somebody."""
    for seed in (0, 1):
        folder = write_run("scale", seed=seed, gpu=True, environment=ATTEMPT, status=STATUS, learned=[{"range/x": 1.0}])
        result = json.loads((folder.path / "result.json").read_text())
        (folder.path / "result.json").write_text(json.dumps(result | {"data": "read from /home/smith"}))
        (folder.path / "log.txt").write_text("smith")
    write_run("none", gpu=False, state=RunState.FAILED, environment=ATTEMPT | {"host": "smith-server"}, status=STATUS)
    folder.path.rename(folder.path.with_name("best of smith"))
    (tmp_path / "runs" / "smith").mkdir()
    (tmp_path / "runs" / "smith" / "spec.json").write_text("damaged")
    (tmp_path / "runs" / "smith.txt").touch()
    return tmp_path


def everything(file: Path) -> Iterator[str]:
    """All that a person can read in a file."""
    if file.suffix == ".parquet":
        table = pq.read_table(file)
        yield str(table.schema.metadata)
        yield table.to_pandas().to_json(default_handler=str)
        return
    yield gzip.decompress(file.read_bytes()).decode(errors="replace")
    with tarfile.open(file) as archive:
        yield " ".join(archive.getnames())


@pytest.fixture(params=["all.tar.gz", "all.parquet"])
def packed(request: pytest.FixtureRequest, out: Path, augbench: CommandLine) -> Path:
    """Pack the runs."""
    file = out / "packed" / request.param
    code, _, errors = augbench("archive", "--anonymous", "--skip-damaged", "--from", out, "--out", file)
    assert code == 0 and "Left out: " in errors, errors
    return file


def test_nothing_that_names_anybody_is_packed(packed: Path) -> None:
    for text in everything(packed):
        assert not [word for word in PRIVATE if word in text]


def test_every_number_is_kept_and_names_become_numbers(packed: Path, out: Path) -> None:
    anonymous, named = load_runs(packed), load_runs(out, skip_damaged=True)
    for frame in ("runs", "scores", "learned", "probe", "trajectories", "reliability"):
        one, other = (
            getattr(runs, frame).drop(columns=PRIVATE_COLUMNS, errors="ignore") for runs in (anonymous, named)
        )
        pd.testing.assert_frame_equal(one, other)
    attempts = anonymous.environments
    hosts = dict(zip(attempts["method"] + attempts["seed"].astype(str), attempts["host"], strict=True))
    assert hosts["scale0"] == hosts["scale1"] != hosts["none0"]
    assert set(hosts.values()) == {"machine 1", "machine 2"}
    assert set(attempts["device_uuid"]) == {"GPU 1"}
    assert set(attempts["platform"]) == {"Linux"}
    assert set(attempts["command"]) == {"… --plugin=PLUGIN run SUITE --out OUT --workers 2 --device cuda:0 …"}


def test_settings_that_look_like_paths_are_said(write_run: WriteRun, tmp_path: Path, augbench: CommandLine) -> None:
    write_run("none", settings={"file": "/home/smith/x.npz", "kind": "wide"})
    code, _, errors = augbench("archive", "--anonymous", "--from", tmp_path, "--out", tmp_path / "a.parquet")
    assert code == 0
    assert errors == "Note: part of what a run is, and so not left out: file = '/home/smith/x.npz' of none.\n"


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("augbench run demo --workers 2 -y", "augbench run demo --workers 2 -y"),
        ("augbench tune scale --dataset mnist --out ~/me", "augbench tune scale --dataset mnist --out OUT"),
        (
            "augbench run me.toml --data=/x --profile me --budget quick",
            "augbench run SUITE --data=DATA --profile PROFILE --budget quick",
        ),
        ("me.py 'a b' Me x_y --set rate=0.1", "… … … … --set rate=0.1"),
        ("augbench 'run", ""),
    ],
)
def test_commands_keep_what_is_no_name(command: str, shown: str) -> None:
    assert without_paths(command) == shown
