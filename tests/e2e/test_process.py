"""Starting and stopping: ports, what is missing, and a drain that answers what it has taken."""

from __future__ import annotations

import http.client
import json
import signal
import socket
from collections.abc import Callable, Iterator

import pytest

from tests.e2e.shop import Shop
from tests.service import Place, alive, recserve, serving
from tests.waiting import until

IN_FLIGHT = 30


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that another process listens on."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


def refused(place: Place, *words: str | int, env: dict[str, str] | None = None) -> str:
    done = recserve("serve", *place.words, *map(str, words), env=env, seconds=30)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    return done.stderr


def test_a_taken_port_is_named_with_the_way_out(built: Place, taken: int) -> None:
    said = refused(built, "--port", taken, "--operator-port", 0)
    assert f"port {taken} on 127.0.0.1 is taken" in said
    assert "PORT=" in said


def test_the_environment_sets_the_ports(built: Place, taken: int) -> None:
    assert f"port {taken} " in refused(built, "--operator-port", 0, env={"PORT": str(taken)})
    said = refused(built, "--port", 0, env={"OPERATOR_PORT": str(taken)})
    assert f"port {taken} " in said
    assert "OPERATOR_PORT=" in said


@pytest.mark.parametrize("port", ["eighty", "65536"])
def test_a_port_that_is_none_is_refused(built: Place, port: str) -> None:
    said = refused(built, "--operator-port", 0, env={"PORT": port})
    assert port in said
    assert "0 to 65535" in said
    assert "PORT" in said


def test_one_port_for_both_listeners_is_refused_as_that(built: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    said = refused(built, "--port", port, "--operator-port", port)
    assert "both the public and the operator's" in said
    assert "--operator-port" in said


def test_an_empty_host_is_the_default(built: Place, taken: int) -> None:
    assert f"port {taken} on 127.0.0.1 " in refused(built, "--port", taken, "--operator-port", 0, env={"HOST": ""})


def test_a_file_as_var_is_named(built: Place, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("file") / "var"
    file.write_text("")
    said = refused(Place(built.configs, file), "--port", 0, "--operator-port", 0)
    assert f"--var {file}: a file" in said


def test_a_reload_asked_for_while_starting_is_done_once_it_is_ready(fresh: Callable[[], Place]) -> None:
    place = fresh()
    with serving(place, ready=False) as service:
        # The private store is started after the signal's handler was installed.
        until(lambda: _has_child(service.process.pid), "a start")
        service.process.send_signal(signal.SIGHUP)
        until(lambda: "recserve 0" in service.text() or service.process.poll() is not None, "readiness")
        assert service.process.poll() is None


def test_without_a_release_it_says_how_to_make_one(built: Place, tmp_path_factory: pytest.TempPathFactory) -> None:
    place = Place(built.configs, tmp_path_factory.mktemp("empty"))
    assert "recserve bootstrap" in refused(place, "--port", 0, "--operator-port", 0)


@pytest.mark.parametrize(
    ("file", "harm"),
    [
        ("manifest.json", "cut"),
        ("home_ranker.onnx", "changed"),
        ("item_vectors.faiss", "gone"),
        ("items.title.codes.npy", "cut"),
    ],
)
def test_a_damaged_release_is_not_served_and_the_file_is_named(
    fresh: Callable[[], Place], file: str, harm: str
) -> None:
    place = fresh()
    [path] = place.var.glob(f"releases/*/{file}")
    content = path.read_bytes()
    half = len(content) // 2
    path.write_bytes(content[:half] if harm == "cut" else content[:half] + b"!" + content[half + 1 :])
    if harm == "gone":
        path.unlink()
    assert file in refused(place, "--port", 0, "--operator-port", 0)


def test_a_missing_configuration_is_named(tmp_path_factory: pytest.TempPathFactory) -> None:
    place = Place.under(tmp_path_factory.mktemp("nothing"))
    assert str(place.configs) in refused(place, "--port", 0, "--operator-port", 0)


def test_two_services_do_not_share_a_store_and_the_second_says_so(fresh: Callable[[], Place]) -> None:
    place = fresh()
    with serving(place) as first:
        said = refused(place, "--port", 0, "--operator-port", 0)
        assert f"in use by process {first.process.pid}" in said
        assert len(first.ask()["items"]) == 10


def test_sigterm_answers_what_was_taken_and_ends_with_zero(fresh: Callable[[], Place], shop: Shop) -> None:
    body = json.dumps({"scene": "home", "user_id": shop.user_ids[0], "size": 10}).encode()
    head = b"POST /recommend HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    with serving(fresh()) as service:
        store = service.valkey
        held = [socket.create_connection(("127.0.0.1", service.port)) for _ in range(IN_FLIGHT)]
        for connection in held:
            connection.sendall(head % len(body) + body[:10])
        until(lambda: service.figure("recserve_bodies") == IN_FLIGHT, "requests in flight")
        service.process.send_signal(signal.SIGTERM)
        until(lambda: refuses_connections(service.port), "the end of listening")
        assert service.process.poll() is None
        for connection in held:
            connection.sendall(body[10:])
        for connection in held:
            response = http.client.HTTPResponse(connection)
            response.begin()
            assert response.status == 200
            assert len(json.loads(response.read())["items"]) == 10
            connection.close()
        assert service.process.wait(15) == 0
        assert store is not None
        assert not alive(store)


def refuses_connections(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except ConnectionRefusedError:
        return True
    return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_starting_ends_it(fresh: Callable[[], Place], number: signal.Signals) -> None:
    with serving(fresh(), ready=False) as service:
        until(lambda: service.output.exists() and _has_child(service.process.pid), "a start")
        service.process.send_signal(number)
        assert service.process.wait(20) in (0, 130, -number)
        assert "Traceback" not in service.text()


def _has_child(pid: int) -> bool:
    from tests.service import children

    return bool(children(pid))
