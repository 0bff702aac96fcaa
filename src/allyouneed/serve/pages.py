"""The page at `/`: files that are read once, under fixed names."""

import hashlib
from importlib.resources import files
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import Response

from allyouneed.serve.server_settings import ServerSettings
from allyouneed.serve.service import Service

_TYPES: Final = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
_INDEX: Final = "index.html"


def routes(service: Service, settings: ServerSettings) -> APIRouter:
    """The page, its modules and style sheets, and those of the explorer of attention."""
    router = APIRouter(include_in_schema=False)
    pages = {f"/web/{name}": content for name, content in _read("allyouneed.serve").items()}
    pages |= {f"/web/explorer/{name}": content for name, content in _read("allyouneed.explorer").items()}
    pages["/"] = pages.pop(f"/web/{_INDEX}")
    for path, (content, media_type) in pages.items():
        router.add_api_route(path, _File(content, media_type), methods=["GET", "HEAD"])
    return router


class _File:
    """Answers with a file, or with 304 if the client has it."""

    def __init__(self, content: bytes, media_type: str) -> None:
        self._content, self._media_type = content, media_type
        self._headers = {
            "ETag": f'"{hashlib.sha256(content).hexdigest()[:32]}"',
            "Cache-Control": "no-cache",  # ask each time, as the next version may have other files
        }

    async def __call__(self, request: Request) -> Response:
        """Answer a request."""
        if request.headers.get("if-none-match") == self._headers["ETag"]:
            return Response(status_code=304, headers=self._headers)
        return Response(self._content, media_type=f"{self._media_type}; charset=utf-8", headers=self._headers)


def _read(package: str) -> dict[str, tuple[bytes, str]]:
    """The files of a package's `web` folder by name, and their media types."""
    found = {}
    for file in files(package).joinpath("web").iterdir():
        ending = file.name.rpartition(".")[2]
        if ending in _TYPES:
            found[file.name] = file.read_bytes(), _TYPES[ending]
    return found
