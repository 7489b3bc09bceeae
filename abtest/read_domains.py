"""The domains of a scene, checked and compiled: first what they are, then, with the layers, who is in them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from abtest.hashing import SLOTS, salt_prefix
from abtest.plan import UNITS, Bucket, Domain, Domains, Experiment, Layer
from abtest.problems import Path, Report, described
from abtest.read_values import NAME, NAME_FORM, read_slots
from abtest.slots import check_disjoint, check_overlaps, slot_table

_FREE: Final[tuple[Experiment | None, ...]] = (None,) * SLOTS


def read_domains(report: Report, scene: str, value: object, path: Path) -> Domains:
    """Return a scene's domains, still without experiments."""
    entries = report.mapping(value, path, f"the domains of {scene}")
    units: dict[str, str] = {}
    domains: list[Domain] = []
    for name, entry in sorted(entries.items()):
        where = (*path, name)
        report.name(name, where, "a domain", NAME, NAME_FORM)
        fields = report.fields(entry, where, f"the domain {name}", ("slots",), ("exclusive", "unit"))
        slots = (
            read_slots(report, fields["slots"], (*where, "slots"), f"the domain {name}") if "slots" in fields else ()
        )
        exclusive = fields.get("exclusive", False)
        if not isinstance(exclusive, bool):
            report.add((*where, "exclusive"), f"exclusive is {described(exclusive)}", "Expected true or false.")
        if "unit" in fields:
            unit = report.choice(fields["unit"], (*where, "unit"), f"the unit of the domain {name}", UNITS)
            units[name] = unit or UNITS[0]
        salt = f"{scene}/domains/{name}/1"
        domains.append(Domain(scene, name, slots, exclusive is True, salt, salt_prefix(salt), _FREE))
    if isinstance(value, Mapping) and not entries:
        report.add(path, f"{scene} has no domains", "Expected at least one, or no `domains`.")
    check_disjoint(report, [(domain.slots, domain.name, domain.place) for domain in domains], f"the scene {scene}")
    _check_kinds(report, domains, path)
    unit = _one_unit(report, units, path)
    salt = f"{scene}/domains/1"
    return Domains(unit, salt, salt_prefix(salt), tuple(domains), (None,) * SLOTS, MappingProxyType({}))


def _check_kinds(report: Report, domains: Sequence[Domain], path: Path) -> None:
    overlapping = [domain.name for domain in domains if not domain.exclusive]
    if len(overlapping) > 1:
        wrong = f"{' and '.join(overlapping)} are both overlapping"
        report.add((*path, overlapping[1]), wrong, "Expected `exclusive: true` in all but one domain.")


def _one_unit(report: Report, units: Mapping[str, str], path: Path) -> str:
    different = sorted(set(units.values()))
    if len(different) > 1:
        name = next(name for name, unit in units.items() if unit != units[next(iter(units))])
        wrong = f"the domains are split by {' and '.join(different)}"
        report.add((*path, name, "unit"), wrong, "Expected one unit: a request is in one domain.")
    return different[0] if different else UNITS[0]


def with_experiments(report: Report, domains: Domains, layers: Sequence[Layer]) -> Domains:
    """Return the domains with what the layers say of them."""
    each = []
    for domain in domains.each:
        inside = [e for layer in layers for e in layer.experiments if domain.exclusive and e.domain == domain.name]
        check_overlaps(report, inside, f"the domain {domain.name}")
        _check_units(report, inside, domains, layers)
        each.append(replace(domain, table=slot_table(inside)) if inside else domain)
    table: list[Domain | None] = [None] * SLOTS
    for domain in each:
        for low, high in domain.slots:
            table[low:high] = [domain] * (high - low)
    testers = _testers(report, domains.unit, each, layers)
    return replace(domains, each=tuple(each), table=tuple(table), testers=testers)


def _check_units(report: Report, inside: Sequence[Experiment], domains: Domains, layers: Sequence[Layer]) -> None:
    units = {layer.name: layer.unit for layer in layers}
    for experiment in inside:
        unit = units[experiment.layer]
        if unit != domains.unit:
            wrong = f"the unit of the layer {experiment.layer} is {unit}, and that of the domains {domains.unit}"
            fix = f"Expected the same for {experiment.key}: else the domain couldn't be exclusive."
            report.add((*experiment.place, "domain"), wrong, fix)


def _testers(
    report: Report, unit: str, domains: Sequence[Domain], layers: Sequence[Layer]
) -> Mapping[bytes, tuple[Domain, tuple[Experiment, Bucket] | None]]:
    """Return the domain of every unit that a whitelist names: that of its experiment."""
    places = {domain.name if domain.exclusive else None: domain for domain in domains}
    testers: dict[bytes, tuple[Domain, tuple[Experiment, Bucket] | None]] = {}
    holders: dict[bytes, Experiment] = {}
    for layer in layers:
        for key, (experiment, bucket) in layer.testers.items() if layer.unit == unit else ():
            domain = places.get(experiment.domain)
            if domain is None:
                continue
            first = holders.setdefault(key, experiment)
            if first is not experiment and (first.domain is not None or domain.exclusive):
                wrong = f"{key.decode()!r} is in the whitelists of {first.key} and {experiment.key}"
                where = (*experiment.place, "whitelist", bucket.name)
                report.add(where, wrong, "Expected one experiment: one of them is in an exclusive domain.")
            testers[key] = domain, (experiment, bucket) if domain.exclusive else None
    return MappingProxyType(testers)
