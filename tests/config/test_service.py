"""How the service runs, by service.yaml; and that its secrets show up nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.config.hidden import HIDDEN
from app.config.model import Client, Config, Service
from app.config.quantities import size, size_text
from tests.config.support import EXAMPLE, SERVICE, example, load, problems

KEY, OTHER = "0a1b2c3d4e5f60718293", "ffeeddccbbaa99887766"
SETTINGS = """workers: 2
memory: 2GiB
drain: 5s
admission: {limit: 32, wait: 5ms}
clients:
  web: {key: "${WEB_KEY:-}", rate: 200, burst: 400}
  app: {key: "${APP_KEY:-}", rate: 0.5}
push: {watch: false, canary: 2s, share: 0.5}
extensions: []"""


def service(folder: Path, text: str = SETTINGS, **env: str) -> Config:
    return load(example(folder, (SERVICE, "extensions: []", text)), env)


def refused(folder: Path, text: str, **env: str) -> list[str]:
    return problems(example(folder, (SERVICE, "extensions: []", text)), env)


def test_settings_are_numbers_in_base_units(tmp_path: Path) -> None:
    found = service(tmp_path, WEB_KEY=KEY, APP_KEY=OTHER).service
    assert (found.workers, found.memory, found.drain) == (2, 2 << 30, 5.0)
    assert (found.admission_limit, found.admission_wait) == (32, 0.005)
    assert (found.push_watch, found.push_canary, found.push_share) == (False, 2.0, 0.5)
    assert found.clients == {"web": Client("web", KEY, 200.0, 400), "app": Client("app", OTHER, 0.5, 1)}
    assert all(type(value) is not bool and type(value) in (int, float) for value in (found.memory, found.drain))


def test_a_file_without_them_means_what_the_model_has_as_defaults(tmp_path: Path) -> None:
    written, default = load(EXAMPLE).service, Service()
    names = ("workers", "memory", "drain", "admission_limit", "admission_wait", "clients")
    pushes = ("push_watch", "push_canary", "push_share")
    assert [getattr(written, name) for name in names + pushes] == [getattr(default, name) for name in names + pushes]
    assert (default.workers, default.memory, default.clients) == (None, None, {})


def test_without_burst_a_client_may_ask_as_much_at_once_as_in_a_second(tmp_path: Path) -> None:
    found = service(tmp_path, f"clients: {{web: {{key: {KEY}, rate: 12.5}}}}").service
    assert found.clients["web"].burst == 13


def test_a_client_with_an_empty_key_is_off(tmp_path: Path) -> None:
    assert set(service(tmp_path, APP_KEY=OTHER).service.clients) == {"app"}


def test_two_clients_that_are_off_do_not_share_a_key(tmp_path: Path) -> None:
    assert service(tmp_path).service.clients == {}


def test_keys_are_not_in_documents_or_representations(tmp_path: Path) -> None:
    text = SETTINGS + "\ntoken: ${TOKEN}"
    env = {"WEB_KEY": KEY, "TOKEN": "s3cret-token", "REDIS_URL": "redis://me:hunter2@host:1/0"}
    config = service(tmp_path, text, **env)
    shown = f"{config!r} {config.documents!r} {config.service!r} {config.service.clients!r}"
    assert not any(secret in shown for secret in (KEY, "s3cret-token", "hunter2"))
    assert config.documents[SERVICE]["clients"] == {
        "web": {"key": HIDDEN, "rate": 200, "burst": 400},
        "app": {"key": "", "rate": 0.5},
    }


def test_the_id_follows_neither_keys_nor_how_the_service_runs(tmp_path: Path) -> None:
    base = load(EXAMPLE).id
    assert service(tmp_path / "a").id == base
    assert service(tmp_path / "b", WEB_KEY=KEY).id == base
    assert service(tmp_path / "c", "extensions: [email]").id != base


@pytest.mark.parametrize(
    "line",
    [
        "clients: {web: '$K'}",
        "clients: '$K'",
        "clients: ['$K']",
        "clients: {web: {key: ['$K'], rate: 5}}",
        "clients: {web: {key: {a: '$K'}, rate: 5}}",
        "clients: {web: {key: a, rate: '$K'}}",
        "clients: {web: {key: '$K $K', rate: 5}}",
        "clients: {web: {key: '$K', rate: 5}, app: {key: '$K', rate: 5}}",
        "clients: {web: {key: '$Ké', rate: 5}}",
        "clients: {web: {key: '${KEY}é', rate: 5}}",
        "clients: {web: {key: 0123456789012345, rate: 5}}",
        "clients: {web: {key: 12345678901234567, rate: 5}}",
        "clients: {web: {key: 0x12345678901234567, rate: 5}}",
        "clients: {web: {key: '${KEY', rate: 5}}",
        "token: 0123456789012345",
        "token: 12345678901234567",
        "token: [$K]",
        "token: {$K: 0123}",
        "token: *$K",
        "token: !$K x",
        "token: !$K!x y",
        "clients: {*$K : {key: a}}",
        "clients: {$K: {rate: 5}}",
        "clients: {$K: {rate: 0}}",
        "clients: {$K: x}",
        "clients: {a$K: {rate: 5}}",
        "clients: {a$K: {key: '${OTHER}', rate: 5}, web: {key: '${OTHER}', rate: 5}}",
        "clients: {a$K: {key: 0123, rte: 5}}",
        "clients: {web: {$K: 5, rate: 5}}",
        "clients: {web: {a$K: 5, rate: 5}}",
        "clients: {web: {key: *$K, rate: 5}}",
        "clients: {$K: {key: '${OTHER}', rate: 5}, web: {key: '${OTHER}', rate: 5}}",
        "releases: ${NUMBER}",
        "drain: {a: b}\ntoken: ${NUMBER}",
    ],
)
def test_no_message_repeats_a_secret(tmp_path: Path, line: str) -> None:
    text = line.replace("$K", KEY)
    found = refused(
        tmp_path, text if "releases" in line else f"{text}\nextensions: []", KEY=KEY, OTHER=OTHER, NUMBER="0" + KEY
    )
    assert found
    assert not any(secret in "\n".join(found) for secret in (KEY, "123456789012345"))


def test_the_password_of_a_misplaced_url_is_in_no_message(tmp_path: Path) -> None:
    for number, store in enumerate(('"redis://:hunter2@host"', '{url: ["hunter2"]}')):
        (line,) = problems(example(tmp_path / str(number), (SERVICE, '{url: "${REDIS_URL:-}"}', store)))
        assert "hunter2" not in line
        assert line.startswith("service.yaml:2 store")


@pytest.mark.parametrize(
    "url",
    [
        *("redis:/me:hunter2@host:1", "redis:me:hunter2@host", "//me:hunter2@host", "me:hunter2@host:6379", "redis://"),
        *("redis:///0", "redis://me:hunter2@", "redis://me:hunter2@:1", "redis://me:1/hunter2@host", "unix:hunter2"),
        *(
            "redis://me:1?hunter2@host",
            "redis://me:1#hunter2@host",
            "unix://hunter2/x",
            "unix://me:hunter2@/",
            "unix://",
        ),
        *(" redis://me:hunter2@host", "redis://me:hunter2@ho st", "REDIS://me:hunter2@host", "redis://h:hunter2"),
    ],
)
def test_a_url_that_names_no_store_is_refused_unseen(tmp_path: Path, url: str) -> None:
    (line,) = problems(example(tmp_path, (SERVICE, '"${REDIS_URL:-}"', f'"{url}"')))
    assert "hunter2" not in line
    assert line.startswith("service.yaml:2 store.url: Not a store's URL. Expected redis://host:port/0 or")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://host:1/0", "redis://host:1/0"),
        ("valkeys://me:hun%40ter2@[::1]:1/0", f"valkeys://{HIDDEN}@[::1]:1/0"),
        ("redis://me:hunter2@x@host", f"redis://{HIDDEN}@host"),
        ("redis://host?password=hunter2", f"redis://host?{HIDDEN}"),
        ("unix:///run/valkey@1.sock", "unix:///run/valkey@1.sock"),
        ("unix://me:hunter2@/run/valkey.sock?db=1", f"unix://{HIDDEN}@/run/valkey.sock?{HIDDEN}"),
    ],
)
def test_a_store_is_shown_without_its_password(tmp_path: Path, url: str, shown: str) -> None:
    config = load(example(tmp_path, (SERVICE, '"${REDIS_URL:-}"', f'"{url}"')))
    assert config.service.store_url == url
    assert config.documents[SERVICE]["store"]["url"] == shown


def test_a_key_in_the_clients_place_is_named_by_what_it_is(tmp_path: Path) -> None:
    assert refused(tmp_path, f"clients: {{web: {KEY}}}") == [
        "service.yaml:4 clients.web: Got text. Expected a mapping with key, rate or burst."
    ]


def test_a_number_as_key_is_asked_to_be_quoted(tmp_path: Path) -> None:
    assert refused(tmp_path, "clients:\n  web:\n    rate: 5\n    key: ${KEY}", KEY="12345678901234567") == [
        "service.yaml:7 clients.web.key: Got a number. Expected text. Quote it."
    ]


def test_a_variable_that_could_be_misread_is_not_repeated(tmp_path: Path) -> None:
    assert refused(tmp_path, "drain: ${DRAIN}", DRAIN="0123") == [
        "service.yaml:4 drain: The value could be misread as a number or a bool. Put it in quotes."
    ]


@given(st.integers(1, 10**12 - 1) | st.integers(1, 1 << 20).map(lambda count: count << 20))
def test_any_size_survives_being_written(value: int) -> None:
    assert size(size_text(value)) == value
