"""Who may use the page: the browser that opened the address with the token, on this machine, and nobody else."""

from __future__ import annotations

import secrets
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

HOST = "127.0.0.1"
HEADERS = {
    # everything comes from this process: the browser refuses addresses elsewhere
    "content-security-policy": "default-src 'self' data: blob: 'unsafe-inline' 'unsafe-eval'; connect-src 'self' "
    "ws://127.0.0.1:*; frame-ancestors 'none'; form-action 'self'",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
}
REFUSED = (
    b"surveysynth: this page is for the browser that opened the address with the token. The address is printed where "
    b"the page was started, and works once. To get another, stop the page and start it again: the plan is saved."
)


class Access:
    """An ASGI application that lets one browser use another application.

    The address holds a token that works once.  The browser that opens it gets a cookie, and every other request needs
    this cookie.  Requests with another host's name, and web sockets that another page opens, are refused, so that no
    page elsewhere can use the browser to read this one.

    Parameters
    ----------
    app : ASGI application
    port : int
    """

    def __init__(self, app: Any, port: int) -> None:
        self.app, self.hosts = app, {f"{HOST}:{port}", f"localhost:{port}"}
        self.token: str | None = secrets.token_urlsafe(32)
        self._key, self._cookie = secrets.token_urlsafe(32), f"surveysynth_{port}"

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if headers.get("host") in self.hosts and _same_origin(headers):
            if self._has_cookie(headers.get("cookie", "")):
                await self.app(scope, receive, _with_headers(send))
                return
            if scope["type"] == "http" and self._redeemed(scope["query_string"].decode("latin-1")):
                cookie = f"{self._cookie}={self._key}; HttpOnly; SameSite=Lax; Path=/"
                await _answer(send, 303, b"", {"location": "/", "set-cookie": cookie})
                return
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
        else:
            await _answer(send, 403, REFUSED, {"content-type": "text/plain"})

    def _has_cookie(self, text: str) -> bool:
        try:
            found = SimpleCookie(text).get(self._cookie)
        except CookieError:
            return False
        return found is not None and secrets.compare_digest(found.value.encode(), self._key.encode())

    def _redeemed(self, query: str) -> bool:
        """Return True if the query has the token, which then does not work again."""
        given = parse_qs(query).get("token", [""])[0]
        right = self.token is not None and secrets.compare_digest(given.encode(), self.token.encode())
        self.token = None if right else self.token
        return right


def _same_origin(headers: dict[str, str]) -> bool:
    origin = headers.get("origin")
    return origin is None or origin == f"http://{headers.get('host')}"


async def _answer(send: Any, status: int, body: bytes, headers: dict[str, str]) -> None:
    listed = [(name.encode(), value.encode()) for name, value in (HEADERS | headers).items()]
    await send({"type": "http.response.start", "status": status, "headers": listed})
    await send({"type": "http.response.body", "body": body})


def _with_headers(send: Any) -> Any:
    async def sent(message: Any) -> None:
        if message["type"] == "http.response.start":
            ours = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
            theirs = [each for each in message["headers"] if each[0] not in dict(ours)]
            message = message | {"headers": [*theirs, *ours]}
        await send(message)

    return sent
