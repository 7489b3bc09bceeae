"""What the words of `recserve bootstrap` mean, without running it."""

from __future__ import annotations

import pytest

from app.cli import parser
from app.cli.bootstrap import LARGEST_SEED, next_step


@pytest.mark.parametrize(
    ("words", "command"),
    [
        ([], "recserve serve --config configs"),
        (["--var", "var/"], "recserve serve --config configs"),
        (["--config", "my configs", "--var", "/data/var"], "recserve serve --config 'my configs' --var /data/var"),
    ],
)
def test_the_next_command_serves_what_was_built(words: list[str], command: str) -> None:
    assert next_step(parser("bootstrap").parse_args(["bootstrap", "--demo", *words])) == command


@pytest.mark.parametrize("seed", ["-1", "1.5", "many", str(LARGEST_SEED + 1)])
def test_a_seed_that_cannot_be_used_is_refused(seed: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser("bootstrap").parse_args(["bootstrap", "--demo", f"--seed={seed}"])
    assert f"--seed: '{seed}' is no seed. Expected a whole number from 0 to 2147483647." in capsys.readouterr().err


def test_any_other_seed_is_taken() -> None:
    for seed in (0, LARGEST_SEED):
        assert parser("bootstrap").parse_args(["bootstrap", "--demo", "--seed", str(seed)]).seed == seed
