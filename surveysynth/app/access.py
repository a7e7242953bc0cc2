"""Access control of the web page: it serves only the browser on this machine that opened the address with the token."""

from __future__ import annotations

import secrets
from typing import Any
from urllib.parse import parse_qs

from starlette.requests import cookie_parser

HOST = "127.0.0.1"
COOKIE = "surveysynth"
DAY = 86_400  # seconds: a browser that was closed finds the page again, as long as it runs
HEADERS = {
    # everything comes from this process: the browser refuses addresses elsewhere
    "content-security-policy": "default-src 'self' data: blob: 'unsafe-inline' 'unsafe-eval'; "
    "connect-src 'self' {sockets}; frame-ancestors 'none'; form-action 'self'; base-uri 'none'; object-src 'none'",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
}
REFUSED = (
    b"surveysynth: this page is for the browser that opened the address with the token. The address is printed where "
    b"the page was started, and works once. To get another, stop the page and start it again: the plan is saved."
)


class Access:
    """An ASGI web application that passes requests of a single browser to another application, and refuses all others.

    The address holds a token that works once.  The browser that opens it gets a cookie, and every other request needs
    this cookie.  A browser sends the cookies of one port to all others of the machine, so the cookie is for a secret
    path alone.  Requests with another host's name, and web sockets that another page opens, are refused, so that no
    page elsewhere can use the browser to read this one.

    Parameters
    ----------
    app : ASGI application
    port : int

    Attributes
    ----------
    token : str or None
        The token, until it is used.
    path : str
        The path of the page, which begins and ends with a slash.
    """

    def __init__(self, app: Any, port: int) -> None:
        self.app, self.hosts = app, (f"{HOST}:{port}", f"localhost:{port}")
        sockets = " ".join(f"ws://{host}" for host in self.hosts)
        self.headers = {name: value.format(sockets=sockets) for name, value in HEADERS.items()}
        self.token: str | None = secrets.token_urlsafe(32)
        self.path, self._key = f"/{secrets.token_urlsafe(16)}/", secrets.token_urlsafe(32)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass on a request that has the cookie, exchange a valid token for the cookie, and refuse other requests."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if headers.get("host") in self.hosts and _same_origin(headers) and scope["path"].startswith(self.path):
            if self._has_cookie(headers.get("cookie", "")):
                inside = {**scope, "root_path": self.path.rstrip("/")}
                await self.app(inside, receive, self._with_headers(send))
                return
            if scope["type"] == "http" and self._redeemed(scope["query_string"].decode("latin-1")):
                cookie = f"{COOKIE}={self._key}; HttpOnly; SameSite=Lax; Path={self.path}; Max-Age={DAY}"
                await self._answer(send, 303, b"", {"location": self.path, "set-cookie": cookie})
                return
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self._answer(send, 403, REFUSED, {"content-type": "text/plain"})

    def _has_cookie(self, text: str) -> bool:
        found = cookie_parser(text).get(COOKIE, "")  # cookies of other programs, however odd, do no harm
        return secrets.compare_digest(found.encode(), self._key.encode())

    def _redeemed(self, query: str) -> bool:
        """Return True if the query string has the valid token, and make the token invalid for later requests."""
        given = parse_qs(query).get("token", [""])[0]
        right = self.token is not None and secrets.compare_digest(given.encode(), self.token.encode())
        self.token = None if right else self.token
        return right

    async def _answer(self, send: Any, status: int, body: bytes, headers: dict[str, str]) -> None:
        listed = [(name.encode(), value.encode()) for name, value in (self.headers | headers).items()]
        await send({"type": "http.response.start", "status": status, "headers": listed})
        await send({"type": "http.response.body", "body": body})

    def _with_headers(self, send: Any) -> Any:
        async def sent(message: Any) -> None:
            if message["type"] == "http.response.start":
                ours = [(name.encode(), value.encode()) for name, value in self.headers.items()]
                theirs = [each for each in message["headers"] if each[0] not in dict(ours)]
                message = message | {"headers": [*theirs, *ours]}
            await send(message)

        return sent


def _same_origin(headers: dict[str, str]) -> bool:
    origin = headers.get("origin")
    return origin is None or origin == f"http://{headers.get('host')}"
