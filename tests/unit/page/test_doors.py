"""Signing in and out: cookies, forms of other sites, and addresses that lead elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from http.client import HTTPConnection
from pathlib import Path
from typing import NoReturn

import httpx
import pytest

from controller.api.certificate import own_certificate, tls_of
from controller.api.options import ApiOptions
from controller.api.rates import Rate
from controller.contracts.records import Scope
from controller.metrics.exporter import LOOPBACK
from controller.page.doors import FORM_TYPE, own_address
from controller.page.kept import Kept
from controller.page.sessions import Sessions
from controller.page.site import Site
from controller.store.sqlite import SqliteStore
from tests.support.api import SECRETS, UNLIMITED, Served, digest_of, prepared, served
from tests.support.page import browser, form_key_of, page_served, sign_in
from tests.support.store_examples import sweep_record
from tests.support.waiting import PATIENCE_S

SWEEP = sweep_record(repeats=12).sweep_id
PAGES = ("/", "/sweeps", f"/sweeps/{SWEEP}", "/results", "/live/fleet", f"/live/sweeps/{SWEEP}")


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with page_served(prepared(tmp_path_factory.mktemp("doors") / "home")) as found:
        yield found


@pytest.mark.parametrize("path", PAGES)
def test_who_has_not_signed_in_is_led_to_the_form_and_back(api: Served, path: str) -> None:
    with browser(api, None) as stranger:
        led = stranger.get(path)
        assert led.status_code == 303
        form = stranger.get(led.headers["Location"])
        assert form.status_code == 200
        assert f'name="to" value="{path}"' in form.text
        back = sign_in(stranger, SECRETS[Scope.VIEWER], path)
        assert (back.status_code, back.headers["Location"]) == (303, path)
        assert stranger.get(path).status_code == 200


def test_a_cookie_is_for_this_server_alone_and_for_no_script(api: Served) -> None:
    with browser(api, None) as stranger:
        set_ = sign_in(stranger, SECRETS[Scope.VIEWER]).headers["Set-Cookie"]
    words = {word.strip() for word in set_.split(";")[1:]}
    assert words == {"HttpOnly", "Path=/", "SameSite=Strict"}
    assert SECRETS[Scope.VIEWER] not in set_
    assert set_.startswith(f"benchfarm-{api.url.rpartition(':')[2]}=")


def test_over_tls_a_cookie_is_sent_only_so(tmp_path: Path) -> None:
    home = prepared(tmp_path / "home", sweeps=1)
    tls = tls_of(own_certificate(home.path, LOOPBACK, datetime.now(UTC)))
    options = ApiOptions(LOOPBACK, 0, tls=tls, strangers=UNLIMITED, front=Site(tls=True))
    with served(home, options, "https") as api, httpx.Client(verify=False) as client:
        form = {"token": SECRETS[Scope.VIEWER], "to": "/"}
        set_ = client.post(f"{api.url}/sign-in", data=form).headers["Set-Cookie"]
    assert set_.startswith("__Host-benchfarm-")
    assert "Secure" in {word.strip() for word in set_.split(";")}


@pytest.mark.parametrize(
    ("method", "address", "headers", "body", "status"),
    [
        ("GET", "/sign-in?to=//[", {}, b"", 200),
        ("GET", "/sign-in?to=%2F%2F%5B", {}, b"", 200),
        ("GET", "//[", {}, b"", 303),
        ("POST", "/sign-in", {"Origin": "http://["}, b"token=x", 403),
        ("POST", "/sign-in", {"Origin": "http://[", "Host": ""}, b"token=x", 403),
        ("POST", "/sign-in", {}, b"token=x&to=//[", 401),
        ("POST", "/sign-in", {}, b"\xff", 401),
        ("POST", "/sign-in", {}, b"token=\xed\xa0\x80", 401),
        ("POST", "/sign-in", {}, b"token=%ed%a0%80", 401),
        ("POST", "/sign-in", {"Content-Type": f"{FORM_TYPE}; charset=x"}, b"token=x", 401),
        ("POST", "/sign-in", {"Content-Type": f"{FORM_TYPE}; charset*=x''y"}, b"token=x", 401),
        ("POST", "/sign-in", {"Content-Type": f"{FORM_TYPE}; charset=utf-7"}, b"token=+2AA-", 401),
        (
            "POST",
            "/sign-in",
            {"Transfer-Encoding": "chunked"},
            b"1001\r\n%b\r\n0\r\n\r\n" % (b"x" * 4097),
            422,
        ),
    ],
)
def test_nothing_that_a_stranger_sends_is_a_fault_of_the_server(
    api: Served,
    caplog: pytest.LogCaptureFixture,
    method: str,
    address: str,
    headers: dict[str, str],
    body: bytes,
    status: int,
) -> None:
    length = {} if "Transfer-Encoding" in headers else {"Content-Length": str(len(body))}
    sent = {"Host": "x", "Content-Type": FORM_TYPE, **length, **headers}
    host, port = api.url.rpartition("/")[2].split(":")
    with closing(HTTPConnection(host, int(port), timeout=PATIENCE_S)) as connection:
        connection.putrequest(method, address, skip_host=True)
        for name, value in sent.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        assert connection.getresponse().status == status
    assert "failed" not in caplog.text


def test_a_fault_of_the_server_is_logged_once_a_minute(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Kept):
        def get(self, *_: object, **__: object) -> NoReturn:
            raise RuntimeError("planted")

    site = Site(tls=False, kept=Broken())
    with page_served(prepared(tmp_path / "home", sweeps=1), site) as api, browser(api) as one:
        assert [one.get("/").status_code for _ in range(9)] == [500] * 9
    assert caplog.text.count("GET / failed") == 1
    assert caplog.text.count("RuntimeError: planted") == 1


@pytest.mark.parametrize("token", ["", "x", SECRETS[Scope.VIEWER][:-1], "é" * 9, "x" * 999])
def test_a_token_that_is_not_valid_opens_nothing(api: Served, token: str) -> None:
    with browser(api, None) as stranger:
        refused = sign_in(stranger, token)
        assert refused.status_code == 401
        assert "This token is not valid." in refused.text
        assert "Set-Cookie" not in refused.headers
        assert stranger.get("/").status_code == 303


def test_a_mistyped_token_loses_no_deep_link(api: Served) -> None:
    with browser(api, None) as stranger:
        refused = sign_in(stranger, "x", "/results?stack=torch&x=1")
        assert refused.status_code == 401
        assert 'name="to" value="/results?stack=torch&amp;x=1"' in refused.text
        assert 'name="to" value="/"' in sign_in(stranger, "x", "//elsewhere.example").text


def test_who_guesses_tokens_waits(tmp_path: Path) -> None:
    options = ApiOptions(LOOPBACK, 0, strangers=Rate(0.001, 2), front=Site(tls=False))
    with served(prepared(tmp_path / "home", sweeps=1), options) as api, browser(api, None) as one:
        assert [sign_in(one, "x").status_code for _ in range(3)] == [401, 401, 429]
        assert one.get("/").status_code == 303, "who only looks guesses nothing"
        assert sign_in(one, SECRETS[Scope.VIEWER]).status_code == 303


def test_signing_out_ends_the_session_and_not_only_the_cookie(api: Served) -> None:
    with browser(api) as one, browser(api, None) as copy:
        copy.cookies.update(one.cookies)
        key = form_key_of(one.get("/").text)
        assert copy.get("/").status_code == 200
        left = one.post("/sign-out", data={"form_key": key})
        assert (left.status_code, left.headers["Location"]) == (303, "/sign-in")
        assert one.get("/").status_code == 303
        assert copy.get("/").status_code == 303


def test_a_revoked_token_opens_nothing_though_its_session_lasts(tmp_path: Path) -> None:
    home = prepared(tmp_path / "home", sweeps=1)
    with page_served(home) as api, browser(api) as one:
        assert one.get("/").status_code == 200
        store = SqliteStore.open(home.store)
        (token,) = [each for each in store.tokens() if each.name == Scope.VIEWER]
        store.save_token(token.model_copy(update={"revoked_at": 5.0}))
        store.close()
        assert one.get("/").status_code == 303


@pytest.mark.parametrize("path", ["/", "/live/fleet", "/sign-out"])
def test_whose_token_is_replaced_signs_in_again_with_the_new_one(tmp_path: Path, path: str) -> None:
    home, newer = prepared(tmp_path / "home", sweeps=1), "7e" * 32
    with page_served(home) as api, browser(api) as one:
        key = form_key_of(one.get("/").text)
        with closing(SqliteStore.open(home.store)) as store:
            (token,) = [each for each in store.tokens() if each.name == Scope.VIEWER]
            store.save_token(token.model_copy(update={"digest": digest_of(newer)}))
        is_out = path == "/sign-out"
        led = one.post(path, data={"form_key": key}) if is_out else one.get(path)
        assert led.status_code == 303
        assert led.headers["Location"].startswith("/sign-in?to=")
        assert one.get("/session").json() == {"signed_in": False}, "or the form leads back at once"
        assert sign_in(one, newer).status_code == 303
        assert one.get("/").status_code == 200


def test_a_request_without_its_cookie_ends_no_session(api: Served) -> None:
    """As browsers send it that follow a link elsewhere: the cookie is SameSite=Strict."""
    with browser(api) as one:
        led = one.get("/", headers={"Cookie": ""})
        assert (led.status_code, "Set-Cookie" in led.headers) == (303, False)
        assert one.get("/session").json() == {"signed_in": True}


@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("/sign-out", {"x": "y"}),
        (f"/sweeps/{SWEEP}/cancel", {"form_key": ""}),
        (f"/sweeps/{SWEEP}/cancel", {"form_key": "x"}),
    ],
)
def test_a_form_without_the_key_of_the_session_is_refused(
    api: Served, path: str, form: dict[str, str]
) -> None:
    with browser(api, Scope.SUBMITTER) as one:
        refused = one.post(path, data=form)
        assert refused.status_code == 403
        assert "not of your session" in refused.text


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://elsewhere.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_form_of_another_site_is_refused(api: Served, headers: dict[str, str]) -> None:
    with browser(api, Scope.SUBMITTER) as one:
        key = form_key_of(one.get("/").text)
        for path in (f"/sweeps/{SWEEP}/cancel", "/sign-out", "/sign-in"):
            refused = one.post(path, data={"form_key": key, "token": "x"}, headers=headers)
            assert refused.status_code == 403, path


def test_the_key_of_another_session_is_refused(api: Served) -> None:
    with browser(api, Scope.SUBMITTER) as one, browser(api, Scope.SUBMITTER) as other:
        key = form_key_of(other.get("/").text)
        refused = one.post(f"/sweeps/{SWEEP}/cancel", data={"form_key": key})
        assert refused.status_code == 403


def test_a_cookie_opens_no_address_of_the_api(api: Served) -> None:
    with browser(api, Scope.ADMINISTRATOR) as one:
        assert one.get("/api/v1/sweeps").status_code == 401
        assert one.delete(f"/api/v1/sweeps/{SWEEP}").status_code == 401


@pytest.mark.parametrize(
    "given",
    [
        *("//elsewhere.example", "https://elsewhere.example/", "/\\elsewhere.example", "x"),
        *("javascript:alert(1)", "/\n/x", "", "/x" * 999, "/é", "///x", "//[", "http://["),
    ],
)
def test_nobody_is_led_elsewhere(given: str) -> None:
    assert own_address(given) == "/"


@pytest.mark.parametrize(
    "given", ["/", "/sweeps/a-1", "/results?stack=torch&cursor=x%3D", "/compare#a"]
)
def test_deep_links_are_kept(given: str) -> None:
    assert own_address(given) == given


def test_sessions_end_when_idle_and_are_so_many_at_most() -> None:
    now = [0.0]
    sessions = Sessions(lambda: now[0], idle_s=10.0, most=2)
    first, second = sessions.begin("a"), sessions.begin("b")
    now[0] = 6.0
    assert sessions.find(first) is not None
    now[0] = 12.0
    assert sessions.find(second) is None, "it was idle for too long"
    assert sessions.find(first) is not None
    third = sessions.begin("c")
    now[0] = 13.0
    assert sessions.find(first) is not None
    fourth = sessions.begin("d")
    assert sessions.find(third) is None, "of too many, the one that was idle longest ends"
    assert sessions.find(first) is not None
    assert sessions.find(fourth) is not None
    assert "token" not in repr(sessions.find(first))


def test_one_token_ends_no_session_of_another() -> None:
    now = [0.0]
    sessions = Sessions(lambda: now[0], most=100, most_of_token=3)
    others = [sessions.begin(f"of {number}") for number in range(50)]
    now[0] = 1.0
    own = [sessions.begin("a") for _ in range(200)]
    assert all(sessions.find(other) for other in others)
    assert [id_ for id_ in own if sessions.find(id_)] == own[-3:]
    assert sessions.find(own[-3]) is not None
    sessions.begin("a")
    assert sessions.find(own[-3]) is not None
    assert sessions.find(own[-2]) is None, "the one of the token's own that was idle longest"
