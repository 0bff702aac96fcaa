"""The real program: its start, its signals, its log, and wrong uses."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import tomli_w
from tests.kernels import require_kernels
from tests.patience import PATIENCE_SECONDS, wait_until

from allyouneed.cli.program import app
from allyouneed.serve.access import ServerSettings
from allyouneed.serve.process import DecodingThreads
from allyouneed.storage.checkpoint import load_checkpoint, save_checkpoint
from allyouneed.storage.run_directory import resolve_model

SLOW: dict[str, Any] = {"text": ["sun moon star " * 100] * 8, "source": "en", "target": "de", "beam_size": 16}

FIELDS = {"time", "level", "client", "method", "path", "status", "host", "protocol", "direction", "model"}
FIELDS |= {"characters", "error", "milliseconds", "bytes", "id"}


class Program:
    """A running `allyouneed serve`."""

    def __init__(self, *arguments: str | Path, stdin: int = subprocess.DEVNULL) -> None:
        command = [sys.executable, "-m", "allyouneed", "serve", *map(str, arguments), "--port", "0"]
        self.process = subprocess.Popen(command, stdin=stdin, stderr=subprocess.PIPE)
        assert self.process.stderr is not None
        first = self.process.stderr.readline().decode()
        found = re.search(r"serving on (http://127\.0\.0\.1:\d+) \(Ctrl-C stops\)", first)
        assert found, first
        self.address = found[1]
        self._said = b""
        self._reading = threading.Thread(target=self._read)  # a full pipe would stop the program
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._said += line

    @property
    def said(self) -> str:
        """The rest of standard error so far."""
        return self._said.decode(errors="replace")

    def end(self) -> tuple[int, str]:
        """The exit code and the rest of standard error."""
        code = self.process.wait(PATIENCE_SECONDS)
        self._reading.join()
        assert self.process.stderr is not None
        self.process.stderr.close()
        return code, self._said.decode()


@contextmanager
def program(*arguments: str | Path, stdin: int = subprocess.DEVNULL) -> Iterator[Program]:
    running = Program(*arguments, stdin=stdin)
    try:
        yield running
    finally:
        running.process.kill()
        running.end()


def test_it_answers_logs_no_text_and_stops(toy_model: Path) -> None:
    with program("--direction", f"en-de={toy_model}", "--log-format", "json") as running:
        asked = {"text": "moon star", "source": "en"}
        answer = httpx.post(f"{running.address}/api/translate", json=asked).json()
        assert answer["results"][0]["translations"][0]["text"] == "noomo ratso"
        httpx.get(f"{running.address}/moon/star?secret=moon")
        refused = httpx.post(f"{running.address}/api/translate?secret=moon", json=asked)
        assert refused.status_code == 422
        os.kill(running.process.pid, signal.SIGTERM)
        code, said = running.end()
    assert code == 0
    lines = [json.loads(line) for line in said.strip().split("\n")]
    assert [(line["method"], line["path"], line["status"]) for line in lines[:-1]] == [
        ("POST", "/api/translate", 200),
        ("GET", "other", 404),
        ("POST", "/api/translate", 422),
    ]
    assert set(lines[0]) == set(lines[1]) == FIELDS
    about = [lines[0][name] for name in ("client", "protocol", "direction", "model", "characters", "error")]
    assert about == ["127.0.0.1", "own", "en-de", toy_model.name, 9, None]
    assert lines[-1]["message"].startswith("stopped by SIGTERM after 0:00:")
    assert lines[-1]["message"].endswith(": 3 requests answered")
    assert "moon" not in said
    assert "star" not in said.replace("start", "")


def test_what_was_asked_before_the_end_is_answered_and_what_comes_after_is_refused(toy_model: Path) -> None:
    """Promise: Stopping."""
    direction = f"en-de={toy_model}"
    with ThreadPoolExecutor(1) as threads, program("--direction", direction) as running:
        asking = threads.submit(
            httpx.post, f"{running.address}/api/translate", json=SLOW, timeout=PATIENCE_SECONDS
        )
        with httpx.Client(base_url=running.address, timeout=PATIENCE_SECONDS) as client:
            wait_until(lambda: "queue_tokens 0.0" not in client.get("/metrics").text)
            os.kill(running.process.pid, signal.SIGTERM)
            wait_until(lambda: client.get("/readyz").status_code != 200)
            readiness = client.get("/readyz")
            late = client.post("/api/translate", json=SLOW)
        answer = asking.result()
        code, _ = running.end()
    assert answer.status_code == 200
    assert len(answer.json()["results"]) == 8
    assert (readiness.status_code, readiness.json()) == (503, {"status": "stopping"})
    assert (late.status_code, late.json()["error"]["label"]) == (503, "stopping")
    assert late.headers["connection"] == "close"
    assert code == 0


@pytest.mark.parametrize(("second", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_second_signal_ends_it_at_once(toy_model: Path, second: signal.Signals, code: int) -> None:
    with program("--direction", f"en-de={toy_model}") as running, connected(running) as connection:
        body = json.dumps({**SLOW, "text": SLOW["text"] * 4}).encode()  # not done before it is looked for
        connection.sendall(
            b"POST /api/translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        )
        wait_until(lambda: "queue_tokens 0.0" not in httpx.get(f"{running.address}/metrics").text)
        os.kill(running.process.pid, signal.SIGTERM)
        wait_until(lambda: httpx.get(f"{running.address}/readyz").status_code == 503)
        os.kill(running.process.pid, second)
        ended, said = running.end()
    assert ended == code
    assert said.endswith(f"info ended at once by {second.name}, the second signal\n")


def options(model: Path, token: Path) -> dict[str, list[str]]:
    """A value of every option, different from the others and from the default."""
    return {
        **{
            "direction": [f"en-de={model}"],
            "languages": ["de", "fr"],
            "host": ["0.0.0.0"],
            "port": ["8123"],
            "token-file": [str(token)],
        },
        **{"keep": ["true"], "files": ["true"], "glossaries": [str(token.parent)]},
        **{"insecure": ["true"], "allowed-host": ["one.example", "two.example"]},
        "allowed-origin": ["https://three.example", "https://four.example"],
        **{"trusted-proxy": ["10.0.0.1", "fd00::/8"], "max-characters": ["11"], "max-wait": ["12"]},
        **{"request-timeout": ["13"], "drain-timeout": ["14"], "max-rate": ["17"]},
        **{"precision": ["int8", f"{model.name}=bfloat16"], "beam-size": [f"{model.name}=3"]},
        **{"workers": ["15"], "batch-tokens": ["16"], "device": ["cpu"], "log-format": ["json"]},
    }


def on_the_command_line(given: dict[str, list[str]], _: Path, __: pytest.MonkeyPatch) -> list[str]:
    del given["insecure"], given["keep"], given["files"]
    return [
        *("--insecure", "--keep", "--files"),
        *(word for name, each in given.items() for value in each for word in (f"--{name}", value)),
    ]


def in_a_file(given: dict[str, list[str]], folder: Path, _: pytest.MonkeyPatch) -> list[str]:
    path = folder / "serve.toml"
    path.write_bytes(
        tomli_w.dumps({name: each if len(each) > 1 else each[0] for name, each in given.items()}).encode()
    )
    return ["--config", str(path)]


def in_variables(given: dict[str, list[str]], _: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    for name, each in given.items():
        monkeypatch.setenv(f"ALLYOUNEED_SERVE_{name.upper().replace('-', '_')}", " ".join(each))
    return []


@pytest.mark.parametrize(
    "place", [on_the_command_line, in_a_file, in_variables], ids=lambda each: each.__name__
)
def test_every_option_reaches_the_server(
    run_command: Callable[..., tuple[int, bytes, str]],
    toy_model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: Callable[[dict[str, list[str]], Path, pytest.MonkeyPatch], list[str]],
) -> None:
    """The server itself is not started."""
    started: list[tuple[Any, ...]] = []
    monkeypatch.setattr("allyouneed.serve.process.run", lambda *given: started.append(given))
    token = write_token(tmp_path / "token", b"abc\n")
    given = options(toy_model, token)
    names = {each.name for each in app["serve"].assemble_argument_collection() if each.show}
    assert {f"--{name}" for name in given} | {"MODELS", "--config"} == names
    del given["languages"]  # which are refused here; see below
    code, _, said = run_command("serve", *place(given, tmp_path, monkeypatch))
    assert code == 0, said
    [(models, made, settings, log_format)] = started
    assert [(model.path, model.source, model.target) for model in models] == [(toy_model, "en", "de")]
    assert (models[0].precision, models[0].loaded.config.search.beam_size) == ("bfloat16", 3)
    assert settings == ServerSettings(
        host="0.0.0.0",
        port=8123,
        token="abc",
        token_file=token,
        allowed_hosts=("one.example", "two.example"),
        allowed_origins=("https://three.example", "https://four.example"),
        most_characters=11,
        most_wait_seconds=12.0,
        request_seconds=13.0,
        drain_seconds=14.0,
        trusted_proxies=("10.0.0.1", "fd00::/8"),
        requests_per_second=17.0,
        keep=True,
        glossaries=token.parent,
        files=True,
    )
    assert made == DecodingThreads(15, 16, "cpu")
    assert log_format == "json"


@pytest.mark.parametrize(
    "place", [on_the_command_line, in_a_file, in_variables], ids=lambda each: each.__name__
)
def test_the_languages_of_a_model_of_any_two_reach_the_server(
    run_command: Callable[..., tuple[int, bytes, str]],
    told_both_model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: Callable[[dict[str, list[str]], Path, pytest.MonkeyPatch], list[str]],
) -> None:
    """The server itself is not started."""
    started: list[tuple[Any, ...]] = []
    monkeypatch.setattr("allyouneed.serve.process.run", lambda *given: started.append(given))
    given = {"languages": ["de", "fr"], "insecure": ["true"], "keep": ["true"], "files": ["true"]}
    words = place(given, tmp_path, monkeypatch)
    code, _, said = run_command("serve", told_both_model, *words)
    assert code == 0, said
    [([model], *_)] = started
    assert model.languages == ("de", "fr")


def status_with(running: Program, token: str | None) -> int:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return httpx.get(f"{running.address}/metrics", headers=headers, timeout=PATIENCE_SECONDS).status_code


def test_only_those_with_the_token_are_served_and_sighup_reads_it_and_the_models_again(
    toy_run: Path, toy_model: Path, tmp_path: Path
) -> None:
    token = write_token(tmp_path / "token", b"a former token\n")
    shutil.copytree(toy_model, path := tmp_path / "replaced")
    with program("--direction", f"en-de={path}", "--token-file", token) as running:
        statuses = [status_with(running, each) for each in (None, "another token", "a former token")]
        assert statuses == [401, 401, 200]
        token.write_bytes(b"a later token\n")
        assert status_with(running, "a later token") == 401  # not before the signal
        os.kill(running.process.pid, signal.SIGHUP)
        wait_until(lambda: status_with(running, "a later token") == 200)
        assert status_with(running, "a former token") == 401
        token.write_bytes(b"two\nlines\n")
        shutil.rmtree(path)
        shutil.copytree(toy_run / "checkpoints" / "step-00000120", path)
        os.kill(running.process.pid, signal.SIGHUP)
        wait_until(lambda: "replaced: replaced, loaded and verified" in running.said)
        wait_until(lambda: "the token is not read again" in running.said)
        assert status_with(running, "a later token") == 200
        os.kill(running.process.pid, signal.SIGTERM)
        code, said = running.end()
    assert code == 0
    assert said.count("the token has been read again") == 1
    assert f"the former one still counts: --token-file {token}: is not one line" in said
    assert "er token" not in said


_LATER = """
import sys, threading
from pathlib import Path
from allyouneed.serve.access import ServerSettings
from allyouneed.serve.models import ModelSource, load_models, newer
from allyouneed.serve.process import DecodingThreads, serving

served, later = map(Path, sys.argv[1:])
[model] = load_models([ModelSource(served, ("en", "de"))], "cpu")
with serving([model], DecodingThreads(1, 1_000, "cpu"), ServerSettings()):
    assert "torch" not in sys.modules
    served.unlink()
    served.symlink_to(later)
    engine = newer(model, "cpu").loaded.engine
    import torch

    thread = threading.Thread(target=lambda: print(type(engine).__name__, torch.get_num_threads()))
    thread.start()
    thread.join()
"""


def test_a_model_that_comes_later_and_needs_pytorch_has_one_of_its_threads(
    toy_model: Path, tmp_path: Path
) -> None:
    """Each decoding thread would else start as many as there are cores."""
    require_kernels()
    checkpoint = load_checkpoint(resolve_model(toy_model))
    config = checkpoint.config.replace(model={"attention": "unscaled"})  # which the kernels do not know
    save_checkpoint(tmp_path / "later", config, checkpoint.weights, checkpoint.attachments, {})
    (tmp_path / "served").symlink_to(toy_model)
    command = [sys.executable, "-c", _LATER, str(tmp_path / "served"), str(tmp_path / "later")]
    environment = os.environ | {"OMP_NUM_THREADS": "3"}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert ended.stdout == "TorchEngine 1\n", ended.stderr


def test_a_server_ends_with_its_terminal(toy_model: Path) -> None:
    terminal, inner = os.openpty()
    with program("--direction", f"en-de={toy_model}", stdin=inner) as running:
        os.close(inner)
        os.kill(running.process.pid, signal.SIGHUP)
        assert httpx.get(f"{running.address}/healthz").status_code == 200
        os.close(terminal)
        os.kill(running.process.pid, signal.SIGHUP)
        code, _ = running.end()
    assert code == 0


def connected(running: Program) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(running.address.rpartition(":")[2])))


def write_token(path: Path, content: bytes, mode: int = 0o600) -> Path:
    path.write_bytes(content)
    path.chmod(mode)
    return path


WRONG: list[tuple[Callable[[Path, Path], list[str | Path]], int, str]] = [
    (lambda model, _: [], 2, "no model is named"),
    (lambda model, _: [model], 2, "the model does not know its languages; name them: --direction en-de="),
    (lambda model, _: ["--direction", f"ende={model}"], 2, "not of the form SOURCE-TARGET=MODEL"),
    (lambda model, _: ["--direction", "en-de=/nothing"], 4, "/nothing: no such model"),
    (
        lambda model, _: ["--direction", f"en-de={model}", "--host", "0.0.0.0"],
        2,
        "add --token-file FILE, or --insecure",
    ),
    (
        lambda model, _: ["--direction", f"en-de={model}", "--host", "no.such.invalid", "--insecure"],
        2,
        "no such host",
    ),
    (
        lambda model, _: ["--direction", f"en-de={model}", "--host", "a..b", "--insecure"],
        2,
        "--host a..b --port 8000: no such host",
    ),
    (lambda model, _: ["--direction", f"en-de={model}", "--port", "70000"], 2, "port"),
    (lambda model, at: ["--direction", f"en-de={model}", "--token-file", at / "none"], 2, "No such file"),
    (
        lambda model, at: [
            "--direction",
            f"en-de={model}",
            "--token-file",
            write_token(at / "t", b"x", 0o644),
        ],
        2,
        "others can read it; run: chmod 600",
    ),
    (
        lambda model, at: ["--direction", f"en-de={model}", "--token-file", write_token(at / "t", b"a\nb\n")],
        2,
        "is not one line of printable ASCII",
    ),
    (lambda model, at: ["--direction", f"en-de={model}", "--token-file", at], 2, "is no file"),
    (lambda model, _: ["--direction", f"en-de={model}", "--max-wait", "-1"], 2, "max-wait"),
    (
        lambda model, _: ["--direction", f"en-de={model}", "--beam-size", "17"],
        2,
        "--beam-size 17: choose from 1, 2, 3, ",
    ),
    (
        lambda model, _: ["--direction", f"en-de={model}", "--precision", f"{model.name}=half"],
        2,
        "=half: choose from float32, bfloat16, int8; MODEL=VALUE is for one model",
    ),
    (
        lambda model, _: ["--direction", f"en-de={model}", "--beam-size", "other=1"],
        2,
        "--beam-size other=1: no such model; the models are model",
    ),
    (
        lambda model, _: ["--direction", f"en-de={model}", "--trusted-proxy", "proxy.example"],
        2,
        "--trusted-proxy: 'proxy.example' does not appear to be an IPv4 or IPv6 network; name an address",
    ),
    (
        lambda model, _: ["--direction", f"en-de={model}", "--trusted-proxy", "172.17.0.1/16"],
        2,
        "172.17.0.1/16 has host bits set; name an address, or a network such as 172.30.0.0/24",
    ),
]


@pytest.mark.parametrize(("arguments", "code", "message"), WRONG, ids=[each[2][:30] for each in WRONG])
def test_wrong_uses_are_one_line(
    run_command: Callable[..., tuple[int, bytes, str]],
    toy_model: Path,
    tmp_path: Path,
    arguments: Callable[[Path, Path], list[str | Path]],
    code: int,
    message: str,
) -> None:
    ended, _, said = run_command("serve", *arguments(toy_model, tmp_path))
    assert ended == code, said
    assert message in said
    assert said.count("\n") == 1


def test_a_port_that_is_taken_is_one_line(
    run_command: Callable[..., tuple[int, bytes, str]], toy_model: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, said = run_command("serve", "--direction", f"en-de={toy_model}", "--port", str(port))
    assert code == 2
    assert "cannot listen (Address already in use" in said
    assert said.count("\n") == 1
