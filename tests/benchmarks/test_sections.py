"""What the sections measure, on the smallest shapes, and what is shown and written of it."""

import json
import math
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from rich.console import Console
from torch.nn import functional as F

from augbench.bench.augmentation.affine_space import to_unit_interval
from augbench.bench.experiment.protocol import Budget
from benchmarks import epoch, machine, memory, overhead, step
from benchmarks.__main__ import main
from benchmarks.file_calls import read_trace
from benchmarks.made_up import made_up_data, new_run
from benchmarks.rows import Goal, Row, Settings
from benchmarks.sections import SECTIONS, section
from benchmarks.showing import bound, measured, tables, verdict
from benchmarks.timing import Spread

QUICK = Settings(repeats=2, threads=1, quick=True)
CPU = torch.device("cpu")


@pytest.mark.slow
@pytest.mark.parametrize("name", SECTIONS)
def test_every_section_is_measured(name: str) -> None:
    told: list[tuple[int, int, str]] = []
    settings = Settings(repeats=2, threads=1, quick=True, progress=lambda *words: told.append(words))
    rows = section(name)(settings)
    assert told[0][0] == 0
    assert all(done < total for done, total, _ in told)
    assert rows
    for row in rows:
        assert row.section == name
        assert all(math.isfinite(value) for value in row.values)
        assert row.reference in {"", *(other.contestant for other in rows if other.case == row.case)}
        assert (row.ratio is None) == (row.reference == "")
    json.dumps([row.as_json() for row in rows])


@pytest.mark.slow
def test_the_program_shows_a_table_and_writes_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "benchmarks.json"
    arguments = ["--quick", "--device", "cpu", "--threads", "1", "--repeats", "2", "--out", str(out)]
    monkeypatch.setattr("sys.argv", ["benchmarks", "step", "seeds", *arguments])
    main()
    written = json.loads(out.read_text())
    assert [row["section"] for row in written["rows"]] == ["step", "step", "seeds", "seeds"]
    assert written["command"].startswith("python -m benchmarks step seeds --quick")
    assert written["settings"] == {"repeats": 2, "threads": 1, "quick": True, "processor_time": False}
    assert written["about"]["packages"]["torch"].startswith(torch.__version__.partition("+")[0])
    shown = capsys.readouterr().out
    assert SECTIONS["step"] in shown
    assert "× none" in shown


def test_an_unknown_section_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["benchmarks", "step", "stride"])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert f"no section stride; choose from {', '.join(SECTIONS)}" in capsys.readouterr().err


def test_processor_time_is_for_a_cpu(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert Settings(processor_time=True).clock is time.process_time
    monkeypatch.setattr("benchmarks.__main__.choose_device", lambda name: torch.device("cuda"))
    monkeypatch.setattr("sys.argv", ["benchmarks", "step", "--processor-time"])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert "--processor-time leaves out what cuda does; add --device cpu" in capsys.readouterr().err


@pytest.mark.slow
def test_sections_do_without_what_a_machine_that_only_measures_lacks() -> None:
    code = (
        "import sys; sys.modules['rich'] = sys.modules['kornia'] = sys.modules['mlxtend'] = None\n"
        "from benchmarks import augmentation, epoch, machine, memory, seeds, step\n"
        "from benchmarks.rows import Settings\n"
        "step.measure(Settings(repeats=1, threads=1, quick=True))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(step.__file__).parents[1]
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_an_epoch_is_an_epoch_again_and_again() -> None:
    data = made_up_data(20, 1, 14)
    trainer = new_run("scale", "tiny", data, CPU, Budget(epochs=100, batch_size=8))
    for number in (1, 2):
        epoch.one_epoch(trainer)
        assert trainer.step == number * 3
        assert len(trainer.rows) == number


def test_the_bare_network_gets_what_the_network_of_an_epoch_gets() -> None:
    data = made_up_data(20, 1, 14)
    trainer = new_run("none", "tiny", data, CPU, Budget(epochs=100, batch_size=8, baseline_copies=2))
    bare = epoch.bare_network(trainer, data, with_optimizer=False)
    assert [len(images) for images, _ in bare.batches] == [16, 16, 8]
    whole = trainer.network
    bare.network.load_state_dict(whole.network.state_dict())
    images, labels = bare.batches[0]
    given = to_unit_interval(data.train.images[:8]).repeat(2, 1, 1, 1)
    torch.testing.assert_close(bare.network(images), whole(given))
    assert labels.tolist() == data.train.labels[:8].tolist() * 2
    before = [weights.clone() for weights in bare.network.parameters()]
    bare.epoch()
    assert all(torch.equal(old, new) for old, new in zip(before, bare.network.parameters(), strict=True))
    assert all(weights.grad is not None and weights.grad.any() for weights in bare.network.parameters())
    epoch.bare_network(trainer, data, with_optimizer=True).epoch()
    assert F.cross_entropy(bare.network(images), labels).isfinite()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")
def test_the_peak_of_memory_is_at_least_the_images_and_what_the_network_makes_of_them() -> None:
    case = memory.Case("tiny", 1, 14, 2000)
    found = memory.measured_apart("none", case, QUICK)
    images = 2000 * 14 * 14 * 4
    assert case.bytes == images
    assert 16 * images < found < 400 * images, "the first layer alone makes 16 times as much of them"


def test_clocks_of_all_phases_and_devices_are_taken_off() -> None:
    seconds = {"CPU": {"search": 1.0, "training": 2.0}, "GPU": {"training": 0.5, "compilation": 0.25}}
    assert overhead.clocked({"seconds": seconds}) == 3.75


def test_calls_of_the_worker_that_name_its_folder_are_counted() -> None:
    trace = """\
7 10.0 openat(AT_FDCWD, "/o/runs/a/spec.json", O_RDONLY) = 3
8 10.5 openat(AT_FDCWD, "/usr/lib/libc.so", O_RDONLY) = 3
8 11.0 openat(AT_FDCWD, "/o/runs/a/claim-1.json", O_WRONLY|O_CREAT|O_EXCL, 0666) = 4
8 12.0 rename("/o/runs/a/.checkpoint.pt.1.tmp", "/o/runs/a/checkpoint.pt") = 0
8 12.0 fsync(4) = 0
7 12.5 openat(AT_FDCWD, "/o/runs/a/status.json", O_RDONLY) = 3
8 14.0 unlink("/o/runs/a/.checkpoint.pt.1.tmp") = 0
8 15.0 +++ exited with 0 +++"""
    found = read_trace(trace.splitlines())
    assert found.times == (11.0, 12.0, 12.0, 14.0)
    assert found.per_second == 3 / 2
    with pytest.raises(ValueError, match="no run"):
        read_trace([])


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0123, "s", "12.3 ms"),
        (4.5e-6, "s", "4.5 µs"),
        (1234.0, "s", "1,234 s"),
        (0.99996, "s", "1e+03 ms"),
        (153.6e6, "B", "154 MB"),
        (-2.5e6, "B", "-2.5 MB"),
        (0.0, "B", "0 kB"),
        (87.0, "", "87"),
        (0.734, "", "0.734"),
    ],
)
def test_numbers_have_three_digits_and_a_unit_that_suits_them(value: float, unit: str, text: str) -> None:
    assert measured(value, unit) == text


def test_goals_in_words() -> None:
    ratio = Spread(1.2, 1.1, 1.3)
    assert verdict(Row("s", "c", "who", [1.0], ratio=ratio, goal=Goal(1.25))) == "≤ 1.25 met"
    assert verdict(Row("s", "c", "who", [1.0], ratio=ratio, goal=Goal(2.5, at_least=True))) == "≥ 2.50 missed"
    assert verdict(Row("s", "c", "who", [0.5], goal=Goal(0.4))) == "≤ 400 ms missed"
    assert verdict(Row("s", "c", "who", [0.5])) == ""
    assert bound(Goal(1e9), absolute=True, unit="B") == "≤ 1 GB"


def test_a_table_has_every_case_and_contestant() -> None:
    rows = [
        Row("s", "case one", "floor", [0.001], images=100),
        Row("s", "case one", "ours", [0.002], images=100, reference="floor", ratio=Spread(2.0, 1.9, 2.1)),
        Row("s", "case two", "alone", [3e6], unit="B"),
    ]
    console = Console(width=120, record=True, file=sys.stderr)
    console.print(tables("The title", rows))
    shown = console.export_text()
    for words in ("The title", "case one", "case two", "100,000", "2.00 × floor", "1.90 to 2.10", "3 MB"):
        assert words in shown, words
    assert shown.count("case one") == 1


def test_the_machine_is_described() -> None:
    found = machine.describe(CPU)
    assert found["device"] == found["processor"]
    assert found["cores"] >= 1
    assert found["memory_bytes"] is None or found["memory_bytes"] > 1e8
    assert set(found["packages"]) == set(machine.PACKAGES)
    json.dumps(found)
