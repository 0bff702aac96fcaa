"""The reference of the HTTP API is what the server answers: `python -m tests.docs.test_http_page`."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from tests.docs.test_settings_page import default_of, values_of

from allyouneed.serve import prometheus
from allyouneed.serve.access import ServerSettings
from allyouneed.serve.application import PROTOCOLS
from allyouneed.serve.process import DecodingThreads, serving

PAGE = Path(__file__).parents[2] / "docs" / "http.md"
_INTRODUCTION = """\
# HTTP reference

Every path that `allyouneed serve` answers. [Serving](serving.md) is the guide: models and directions, clients
of other servers, tokens and limits. Bodies are JSON in UTF-8; unknown fields and wrong values are refused by
name. `GET /api/openapi.json` has the same for programs.
"""
_TITLES = {
    "libretranslate": "LibreTranslate",
    "deepl": "DeepL, version 2",
    "marian": "Marian's web socket",
    "openai": "OpenAI chat",
    "state": "state of the server",
}
_ANY_PATH = "{path:path}"
"""The end of paths that answer only that they are not supported."""


def page() -> str:
    """The whole page."""
    threads = DecodingThreads(number=1, batch_tokens=64, device="cpu")
    with serving([], threads, ServerSettings()) as service:
        routers = {each.name: each.routes(service) for each in PROTOCOLS}
        routers["state"] = prometheus.routes(service.metrics, lambda: False)
    app = FastAPI()
    app.include_router(routers.pop("own"))
    lines = [*_INTRODUCTION.split("\n"), *_own(app.openapi())]
    lines += ["## Other protocols", "", "| protocol | request |", "|---|---|"]
    for name, router in routers.items():
        lines += [f"| {_TITLES[name]} | `{request}` |" for request in map(_request, router.routes) if request]
    return "\n".join(lines) + "\n"


def _request(route: object) -> str:
    """Methods and path of an endpoint; "" for one that only refuses what is not supported."""
    path = str(getattr(route, "path", ""))
    if path.endswith(_ANY_PATH):
        return ""
    methods = sorted(getattr(route, "methods", None) or ["web socket"])
    return f"{' '.join(methods)} {path.replace(':path', '')}"


def _own(schema: Mapping[str, Any]) -> Iterator[str]:
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            yield from (f"## {method.upper()} {path}", "", operation["description"], "")
            if "requestBody" in operation:
                reference = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
                yield from _fields(schema["components"]["schemas"][reference.rpartition("/")[2]])


def _fields(body: Mapping[str, Any]) -> Iterator[str]:
    yield from ("| field | default | values | meaning |", "|---|---|---|---|")
    required = body.get("required", ())
    for name, field in sorted(body["properties"].items(), key=lambda each: each[0] not in required):
        default = "required" if name in required else default_of(field)
        told = " ".join(field.get("description", "").split())
        yield f"| `{name}` | {default} | {values_of(field)} | {told} |"
    yield ""


def test_the_page_has_every_path_and_field_as_the_server_explains_it() -> None:
    assert PAGE.read_bytes().decode() == page(), "run python -m tests.docs.test_http_page"


def test_every_field_of_a_request_is_explained() -> None:
    assert re.findall(r"^\| `\w+` .*\|  \|$", page(), re.MULTILINE) == []


if __name__ == "__main__":
    PAGE.write_bytes(page().encode())
