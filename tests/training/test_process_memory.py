"""How much memory there is, what the kernel killed for want of it, and that freed memory stays with the process."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from augbench.bench.training.process_memory import kills_for_memory, usable_memory

# Page faults of making 100 MB again and again, as it is and with freed memory kept.
CODE = """
import resource, torch
from augbench.bench.training.process_memory import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(3):
        torch.ones(25_000_000)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

given_back = min(faults() for _ in range(3))
print(keep_freed_memory(), given_back, min(faults() for _ in range(9)))  # other blocks may be in the way at first
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_memory_that_was_freed_is_used_again() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    kept, before, after = done.stdout.split()
    assert kept == "True"
    assert int(after) < int(before) / 10


def test_kills_are_those_of_the_own_group(tmp_path: Path) -> None:
    own, group = tmp_path / "cgroup", tmp_path / "groups" / "jobs" / "one"
    group.mkdir(parents=True)
    (group / "memory.events").write_text("low 0\nhigh 3\nmax 7\noom 2\noom_kill 5\noom_group_kill 0\n")
    for content, count in ((None, 0), ("12:memory:/old\n", 0), ("0::/gone\n", 0), ("0::/jobs/one\n", 5)):
        if content is not None:
            own.write_text(content)
        assert kills_for_memory(tmp_path / "groups", own) == count


def test_memory_is_what_the_smallest_group_around_allows(tmp_path: Path) -> None:
    own, groups = tmp_path / "cgroup", tmp_path / "groups"
    inside = groups / "jobs" / "one"
    inside.mkdir(parents=True)
    machine = usable_memory(groups, own)
    own.write_text("0::/jobs/one\n")
    assert usable_memory(groups, own) == machine > 2e9
    for folder, limit, expected in (
        (inside, "max", machine),
        (inside.parent, "2000000000", 2e9),
        (inside, "1000000000", 1e9),
    ):
        (folder / "memory.max").write_text(f"{limit}\n")
        assert usable_memory(groups, own) == expected
