"""Signing in and out: cookies, forms of other sites, and addresses that lead elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from controller.api.certificate import own_certificate, tls_of
from controller.api.options import ApiOptions
from controller.api.rates import Rate
from controller.contracts.records import Scope
from controller.metrics.exporter import LOOPBACK
from controller.page.doors import own_address
from controller.page.sessions import Sessions
from controller.page.site import Site
from controller.store.sqlite import SqliteStore
from tests.support.api import SECRETS, UNLIMITED, Served, prepared, served
from tests.support.page import browser, form_key_of, page_served, sign_in
from tests.support.store_examples import sweep_record

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


@pytest.mark.parametrize("token", ["", "x", SECRETS[Scope.VIEWER][:-1], "é" * 9, "x" * 999])
def test_a_token_that_is_not_valid_opens_nothing(api: Served, token: str) -> None:
    with browser(api, None) as stranger:
        refused = sign_in(stranger, token)
        assert refused.status_code == 401
        assert "This token is not valid." in refused.text
        assert "Set-Cookie" not in refused.headers
        assert stranger.get("/").status_code == 303


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
        *("javascript:alert(1)", "/\n/x", "", "/x" * 999, "/é", "///x"),
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
