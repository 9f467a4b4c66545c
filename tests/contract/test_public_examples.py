"""Examples in the docstrings of public names work as they are printed."""

import doctest

import pytest

import augbench

WITH_EXAMPLES = {"ImageSpace", "Method", "NetworkSource", "SharedSpaceMethod", "Space", "small_context", "tunable"}


@pytest.mark.parametrize("name", augbench.__all__)
def test_examples_of_public_names_work(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    tests = doctest.DocTestFinder(recurse=False).find(getattr(augbench, name), name)
    examples = [test for test in tests if test.examples]
    assert examples or name not in WITH_EXAMPLES
    failed = sum(doctest.DocTestRunner().run(test).failed for test in examples)
    assert not failed, capsys.readouterr().out
