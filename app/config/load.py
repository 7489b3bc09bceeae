"""A directory of YAML -> Config, or ConfigError with every problem in it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from abtest import Experiments
from app.config import features_part, models_part, service_part
from app.config.bind import Binder
from app.config.catalog import Catalog, channel_columns, columns_of
from app.config.catalog import schema_of as _schema_of
from app.config.derived_part import check_derived
from app.config.files import EXPERIMENTS, read_all, read_file, scene_files
from app.config.findings import Findings, mentions_invalid
from app.config.hidden import without_secrets
from app.config.model import Config, Service
from app.config.params import declared_params
from app.config.problems import ConfigError, Mark
from app.config.problems import Path as DocumentPath
from app.config.scene_part import SceneReader
from app.config.yaml_nodes import INVALID
from expression import ExpressionError, names_of
from stages.registry import DuplicateComponentError, Registry, discover
from stages.scene import SceneConfig

Discover = Callable[[Iterable[str]], Registry]


def load_config(directory: Path, *, env: Mapping[str, str], registry: Discover = discover) -> Config:
    """Read and check a whole configuration.

    `registry` finds the components of the extensions that service.yaml names. Raises ConfigError, and
    nothing else, for whatever stands in the files.
    """
    findings = Findings(str(directory))
    read_all(findings, directory, env)
    binder = Binder(findings)
    service = service_part.service_of(binder, _value(findings, service_part.FILE))
    reader = features_part.FeaturesReader(binder)
    features = reader.read(_value(findings, features_part.FILE))
    models = models_part.models_of(binder, _value(findings, models_part.FILE))
    components, complete = _components(findings, service, registry)
    document = _value(findings, EXPERIMENTS)
    catalog = Catalog(
        service=service,
        features=features,
        models=models,
        params=declared_params(document),
        broken=frozenset(reader.broken) | _broken_context(findings, service),
        blind=_blind(findings),
        columns=columns_of(service, features),
        declared={section: frozenset(_keys(findings, section)) for section in models_part.SECTIONS},
    )
    check_derived(findings, catalog)
    scenes = _scenes(findings, SceneReader(findings, catalog, components, complete))
    models_part.check_models(findings, catalog, _all_channels(findings))
    experiments = _experiments(findings, catalog, document)
    if findings.problems or experiments is None:
        raise ConfigError(findings.problems)
    documents = {name: found.value for name, found in findings.documents.items()}
    identity = _identity(documents)
    return Config(
        directory=str(directory),
        service=service,
        features=features,
        models=models,
        scenes=scenes,
        experiments=experiments,
        experiments_document=document,
        id=identity,
        positions=_positions(findings),
        documents={**documents, service_part.FILE: without_secrets(documents[service_part.FILE])},
    )


def components_of(directory: Path, *, env: Mapping[str, str], registry: Discover = discover) -> Registry:
    """The components of the tree and of the extensions that service.yaml names; other files aren't read.

    Raises ConfigError when service.yaml has a problem, or an extension can't be imported.
    """
    findings = Findings(str(directory))
    read_file(findings, directory, service_part.FILE, env)
    service = service_part.service_of(Binder(findings), _value(findings, service_part.FILE))
    components, _ = _components(findings, service, registry)
    if findings.problems:
        raise ConfigError(findings.problems)
    return components


def schema_of(config: Config, scene: str) -> Mapping[str, str]:
    """Types by name of all that an expression of the scene may read, heads of its ranker included."""
    values = {name: config.experiments.values_of(name) for name in config.experiments.params}
    return _schema_of(config.service, config.features, config.models, config.scenes[scene], values)


def _value(findings: Findings, name: str) -> Any:
    return findings.documents[name].value


def _keys(findings: Findings, section: str) -> Iterable[str]:
    declared = findings.raw(models_part.FILE, section)
    return declared if isinstance(declared, dict) else ()


def _broken_context(findings: Findings, service: Service) -> frozenset[str]:
    declared = findings.raw(service_part.FILE, "context")
    names = declared if isinstance(declared, dict) else ()
    return frozenset(f"context.{name}" for name in names if name not in service.context)


def _blind(findings: Findings) -> tuple[str, ...]:
    """Prefixes of names about which nothing can be said, because their file or section can't be read."""
    prefixes: list[str] = []
    sources = (
        (service_part.FILE, "context", ("context.",)),
        (features_part.FILE, "user", ("user.",)),
        (features_part.FILE, "item", ("item.",)),
        (models_part.FILE, "tables", ("tables:",)),
        (models_part.FILE, "indexes", ("indexes:",)),
        (models_part.FILE, "models", ("models:",)),
        (EXPERIMENTS, "params", ("$",)),
    )
    for file, section, names in sources:
        if not findings.readable(file) or not isinstance(findings.raw(file, section), dict):
            prefixes += names
    if len(scene_files(findings)) < sum(name.startswith("scenes/") for name in findings.documents):
        prefixes.append("channel.")
    return tuple(prefixes)


def _components(findings: Findings, service: Service, registry: Discover) -> tuple[Registry, bool]:
    path = (service_part.FILE, "extensions")
    try:
        return registry(service.extensions), True
    except DuplicateComponentError as error:
        findings.add(path, str(error))
    except (Exception, SystemExit) as error:  # noqa: BLE001  # importing a package runs its code: it may do anything
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        findings.add(path, f"An extension can't be imported ({said}). Install it beside recserve, or mend it.")
    return registry(()), False


def _scenes(findings: Findings, reader: SceneReader) -> dict[str, SceneConfig]:
    scenes: dict[str, SceneConfig] = {}
    for file in scene_files(findings):
        scene = reader.read(file, findings.documents[file].value)
        if scene is None:
            continue
        if scene.name in scenes:
            other = scenes[scene.name].path[0]
            findings.add((file, "scene"), f"The scene {scene.name!r} is also in {other}. Rename one.")
        scenes.setdefault(scene.name, scene)
    return scenes


def _all_channels(findings: Findings) -> Mapping[str, str]:
    names: list[str] = []
    for file in scene_files(findings):
        channels = findings.raw(file, "recall")
        names += channels if isinstance(channels, dict) else ()
    return channel_columns(tuple(names))


def _experiments(findings: Findings, catalog: Catalog, document: Any) -> Experiments | None:
    if not isinstance(document, dict):
        if document is not INVALID:
            Binder(findings).wrong(document, (EXPERIMENTS,), "a mapping with version, params and scenes")
        return None
    if "version" not in document:
        findings.add((EXPERIMENTS,), "The key 'version' is missing. Expected 1.")
    names = [findings.raw(file, "scene") for file in scene_files(findings)]
    if catalog.silent("channel."):  # a scene can't be read: it may be any that is named here
        names += document["scenes"] if isinstance(document.get("scenes"), dict) else []
    context = {name: field.type for name, field in catalog.service.context.items()}
    defaults = {name: field.default for name, field in catalog.service.context.items() if field.default is not None}
    scenes = [name for name in names if isinstance(name, str)]
    experiments, problems = Experiments.compile(document, context, scenes, defaults)
    for problem in problems:
        if not mentions_invalid(_at(document, problem.path)) and not _silent(catalog, document, problem.path):
            findings.add((EXPERIMENTS, *problem.path), problem.message)
    return experiments


def _silent(catalog: Catalog, document: Any, path: DocumentPath) -> bool:
    """Whether a condition reads an attribute whose own declaration is reported."""
    text = _at(document, path)
    if path[-1:] != ("when",) or not isinstance(text, str):
        return False
    try:
        return any(map(catalog.silent, names_of(text)))
    except ExpressionError:
        return False


def _at(document: Any, path: DocumentPath) -> Any:
    for key in path:
        inside = key in document if isinstance(document, dict) else isinstance(document, list)
        if not inside or (isinstance(document, list) and not (isinstance(key, int) and key < len(document))):
            return None
        document = document[key]
    return document


def _identity(documents: Mapping[str, Any]) -> str:
    """Of all that decides answers, order included: where the data lie, who may ask and how it runs are left out."""
    content = {name: value for name, value in documents.items() if name != service_part.FILE}
    service = {key: value for key, value in documents[service_part.FILE].items() if key not in service_part.OPERATION}
    canonical = json.dumps([service, content], ensure_ascii=False, separators=(",", ":"))
    return hashlib.blake2b(canonical.encode(), digest_size=6).hexdigest()


def _positions(findings: Findings) -> dict[DocumentPath, Mark]:
    return {
        (name, *path): mark
        for name, document in findings.documents.items()
        for path, mark in document.positions.items()
    }
