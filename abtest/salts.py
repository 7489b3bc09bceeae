"""No salt stands twice: two hashes of one salt would split the units alike."""

from collections.abc import Iterator, Mapping

from abtest.plan import Experiment, ScenePlan
from abtest.problems import Path, Report


def check_salts(report: Report, plans: Mapping[str, ScenePlan]) -> None:
    """Report each salt that is another's already."""
    seen: dict[str, Path] = {}
    for salt, path in _salts(plans):
        if salt in seen:
            wrong = f"the salt {salt!r} is already that of {'.'.join(map(str, seen[salt]))}"
            report.add(path, wrong, "Expected a salt of its own; without the key there is a default.")
        seen.setdefault(salt, path)


def _salts(plans: Mapping[str, ScenePlan]) -> Iterator[tuple[str, Path]]:
    for scene, plan in plans.items():
        if plan.holdout is not None:
            yield plan.holdout.salt, ("scenes", scene, "holdout")
        if plan.domains is not None:
            yield plan.domains.salt, ("scenes", scene, "domains")
            for domain in plan.domains.each:
                yield domain.salt, domain.place
        for layer in plan.layers:
            yield layer.salt, _salted(layer.place, layer.salt, f"{scene}/{layer.name}/1")
            for experiment in layer.experiments:
                yield experiment.salt, _salted_experiment(experiment)


def _salted_experiment(experiment: Experiment) -> Path:
    default = f"{experiment.scene}/{experiment.layer}/{experiment.key.replace('@', '/')}"
    # Where the salt is that of its slices, the parent that stands in the file is named.
    return _salted(experiment.place, experiment.salt, default)


def _salted(path: Path, salt: str, default: str) -> Path:
    return path if salt == default else (*path, "salt")
