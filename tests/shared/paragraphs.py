"""What every mistake of a user ends in."""


def fails_in_one_paragraph(outcome: tuple[int, str, str], *words: str) -> bool:
    """Make sure that a command ended with status 2 and one paragraph that has some words."""
    code, _, errors = outcome
    assert code == 2
    assert "Traceback" not in errors
    assert errors.startswith("Error: ")
    assert "\n" not in errors.strip(), "more than one paragraph"
    missing = [word for word in words if word not in errors]
    assert not missing, errors
    return True
