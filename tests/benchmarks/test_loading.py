"""The measurement of loading, which is also the test of what it may cost, on real photographs."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs Linux")
def test_photographs_are_loaded_fast_and_shared_by_all_workers(
    prepared_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import loading

    out = tmp_path / "loading.json"
    monkeypatch.setattr(sys, "argv", ["loading", "cifar10", "--data", str(prepared_root), "--out", str(out)])
    loading.main()
    workers = json.loads(out.read_text())["workers"]
    assert len(workers) == 2
    for one in workers:
        assert one["images"] == pytest.approx(153.6)
        assert one["resident"] < 250
        assert one["private"] < 60, "the images are not shared"
        assert one["private_training"] < 60, "training has copied the images"
