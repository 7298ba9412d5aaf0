from __future__ import annotations

import pytest

from controller.scheduling.leases import Leases


def test_a_lease_runs_out_unless_it_is_renewed() -> None:
    leases = Leases(10.0)
    assert leases.next_end() is None
    leases.begin("a", ["host-1"], 0.0, 0.0)
    leases.begin("b", ["host-2"], 3.0, 3.0)
    assert leases.next_end() == 10.0
    assert leases.expired(9.9) == []
    leases.renew("a", "host-1", 8.0)
    assert leases.next_end() == 13.0
    assert leases.expired(13.0) == [("b", "host-2")]
    leases.end("b")
    leases.end("b")
    assert leases.expired(17.9) == []
    assert leases.expired(18.0) == [("a", "host-1")]


def test_what_was_leased_before_a_restart_has_a_full_term_and_keeps_its_beginning() -> None:
    leases = Leases(10.0)
    leases.begin("a", ["host-1"], -500.0, 0.0)
    leases.renew("a", "host-1", 5.0)
    assert leases.began("a") == -500.0
    assert leases.next_end() == 15.0
    leases.end("a")
    with pytest.raises(KeyError):
        leases.began("a")


def test_a_run_on_several_hosts_expires_with_the_first_that_is_silent() -> None:
    leases = Leases(10.0)
    leases.begin("a", ["host-1", "host-2"], 0.0, 0.0)
    leases.renew("a", "host-1", 8.0)
    assert leases.next_end() == 10.0
    assert leases.expired(10.0) == [("a", "host-2")]
    leases.release("a", "host-2")
    assert leases.expired(10.0) == []
    assert leases.next_end() == 18.0
