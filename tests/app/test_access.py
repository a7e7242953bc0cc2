"""One browser on this machine may use the page: requests of others are refused."""

import asyncio

import pytest

pytest.importorskip("shiny")

from surveysynth.app.access import Access

HOST = ("host", "127.0.0.1:8000")


async def inner(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"referrer-policy", b"origin")]})
    await send({"type": "http.response.body", "body": b"INCOME 12"})


@pytest.fixture
def access():
    return Access(inner, 8000)


def asked(access, *headers, query="", kind="http", path=None):
    """The messages of an answer."""
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        return {"type": "websocket.connect"}

    scope = {
        "type": kind, "headers": [(name.encode(), value.encode()) for name, value in headers],
        "query_string": query.encode(), "path": access.path if path is None else path,
    }  # fmt: skip
    asyncio.run(access(scope, receive, send))
    return sent


def status(sent):
    return sent[0]["status"]


def cookie_of(access):
    sent = asked(access, HOST, query=f"token={access.token}")
    assert status(sent) == 303
    headers = dict(sent[0]["headers"])
    assert headers[b"location"].decode() == access.path
    given = headers[b"set-cookie"].decode()
    assert "HttpOnly" in given and "SameSite=Lax" in given
    assert f"Path={access.path}" in given and len(access.path) > 20  # no other port gets it
    return ("cookie", given.partition(";")[0])


def test_the_address_with_the_token_works_once(access):
    token = access.token
    cookie = cookie_of(access)
    assert status(asked(access, HOST, query=f"token={token}")) == 403
    assert status(asked(access, HOST, cookie)) == 200


@pytest.mark.parametrize("query", ["", "token=", "token=x", "token=x&token=y", "other=1"])
def test_without_token_and_cookie_nothing_is_shown(access, query):
    sent = asked(access, HOST, query=query)
    assert status(sent) == 403 and b"INCOME" not in sent[1]["body"]
    assert access.token is not None  # a wrong token does not use up the right one


def test_requests_for_another_host_or_from_another_page_are_refused(access):
    cookie = cookie_of(access)
    assert status(asked(access, ("host", "evil.example:8000"), cookie)) == 403
    assert status(asked(access, ("host", "127.0.0.1:8001"), cookie)) == 403
    assert status(asked(access, HOST, cookie, ("origin", "http://evil.example"))) == 403
    assert status(asked(access, HOST, cookie, ("origin", "http://127.0.0.1:8000"))) == 200


def test_web_sockets_need_the_cookie_and_the_same_origin(access):
    cookie = cookie_of(access)
    for headers in ((HOST,), (HOST, cookie, ("origin", "http://evil.example"))):
        assert asked(access, *headers, kind="websocket") == [{"type": "websocket.close", "code": 1008}]
    assert status(asked(access, HOST, cookie, ("origin", "http://127.0.0.1:8000"), kind="websocket")) == 200


def test_other_paths_show_nothing(access):
    cookie = cookie_of(access)
    for path in ("/", "/page/page.css", access.path.rstrip("/"), f"/x{access.path}"):
        assert status(asked(access, HOST, cookie, path=path)) == 403
    assert status(asked(access, HOST, cookie, path=f"{access.path}page/page.css")) == 200


@pytest.mark.parametrize("other", ['other={"a":1}', "a[b]=1", "x", "surveysynth_old=1"])
def test_cookies_of_other_programs_do_no_harm(access, other):
    _, cookie = cookie_of(access)
    assert status(asked(access, HOST, ("cookie", f"{other}; {cookie}"))) == 200


@pytest.mark.parametrize("cookie", ["surveysynth=x", "surveysynth=", "=", "a b", "\u00e9"])
def test_a_wrong_cookie_is_refused(access, cookie):
    assert status(asked(access, HOST, ("cookie", cookie))) == 403


def test_every_answer_forbids_the_browser_to_load_from_elsewhere(access):
    cookie = cookie_of(access)
    for sent in (asked(access, HOST), asked(access, HOST, cookie)):
        headers = sent[0]["headers"]
        assert b"default-src 'self'" in dict(headers)[b"content-security-policy"]
        assert [value for name, value in headers if name == b"referrer-policy"] == [b"no-referrer"]
