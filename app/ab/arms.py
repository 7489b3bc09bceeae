"""What the split of an experiment was meant to be: buckets, weights and the control."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from abtest import Experiment, Experiments
from app.ab.enrolled import Enrolled, Key
from app.ab.errors import AbError
from app.config.problems import suggestion


@dataclass(frozen=True, slots=True)
class Arms:
    """Buckets in the order of their names, the weight of each (any scale), and which one is the control."""

    buckets: Sequence[str]
    weights: Sequence[float]
    control: str

    def of(self, enrolled: Enrolled) -> Enrolled:
        """The exposures with these buckets. Raises AbError for a bucket that isn't among them."""
        strange = sorted(set(enrolled.buckets) - set(self.buckets))
        if strange:
            known = ", ".join(self.buckets)
            raise AbError(
                f"{enrolled.key}: the log has the bucket {strange[0]!r}, and the experiment {known}. "
                "Is it another experiment of this name? Say the log's own with --weights."
            )
        return enrolled.among(self.buckets)


def arms_of(key: Key, weights: str | None, control: str | None, experiments: Experiments | None) -> Arms:
    """The arms that the options tell, else those of the configuration. Raises AbError.

    `weights` is as `--weights` has it: `control=5000,diverse=5000`.
    """
    found = _told(weights) if weights is not None else _configured(key, experiments)
    if control is None:
        if found.control:
            return found
        raise AbError(f"{key}: which bucket is the control? Give --control, one of {', '.join(found.buckets)}.")
    if control not in found.buckets:
        raise AbError(f"{key}: there is no bucket {control!r}. {suggestion(control, found.buckets)}")
    return Arms(found.buckets, found.weights, control)


def all_experiments(experiments: Experiments) -> Iterator[Experiment]:
    """Every version of every experiment of all scenes."""
    for plan in experiments.scenes.values():
        for layer in plan.layers:
            yield from layer.experiments


def one_experiment(experiments: Experiments, named: str) -> Experiment:
    """The experiment that `name`, `name@version` or `scene/layer/name@version` means. Raises AbError."""
    every = {f"{each.scene}/{each.layer}/{each.key}": each for each in all_experiments(experiments)}
    fits = [full for full, each in every.items() if named in (full, each.key, each.name)]
    if len(fits) > 1:
        raise AbError(f"{named!r} could be {', '.join(fits)}. Name one of them.")
    if not fits:
        names = {each.key for each in every.values()} | {each.name for each in every.values()}
        raise AbError(f"There is no experiment {named!r}. {suggestion(named, names)}")
    return every[fits[0]]


def _told(text: str) -> Arms:
    weights: dict[str, float] = {}
    for part in text.split(","):
        name, _, number = (piece.strip() for piece in part.partition("="))
        if name in weights:
            raise AbError(f"--weights {text}: the bucket {name!r} stands there twice. Expected a weight for each.")
        try:
            weights[name] = float(number)
        except ValueError:
            weights[name] = -1.0
        if not name or not 0 <= weights[name] < float("inf"):
            raise AbError(
                f"--weights {text}: {part.strip()!r}. Expected BUCKET=WEIGHT,... as control=5000,diverse=5000."
            )
    if len(weights) < 2 or not sum(weights.values()):
        raise AbError(f"--weights {text}: expected at least two buckets, as control=5000,diverse=5000.")
    names = sorted(weights)
    return Arms(names, [weights[name] for name in names], "control" if "control" in names else "")


def _configured(key: Key, experiments: Experiments | None) -> Arms:
    if experiments is None:
        raise AbError(
            f"{key}: no configuration says how it was split. Give --config DIR, or --weights BUCKET=WEIGHT,..."
        )
    for each in all_experiments(experiments):
        if (each.scene, each.layer, each.key) == (key.scene, key.layer, key.name):
            control = next(bucket.name for bucket in each.buckets if bucket.control)
            return Arms([b.name for b in each.buckets], [float(b.weight) for b in each.buckets], control)
    raise AbError(f"{key} isn't in the configuration any more. Give --weights BUCKET=WEIGHT,... as it was split.")
