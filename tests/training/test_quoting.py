"""Requests that quote: read without that where what stands around it asks for something."""

from __future__ import annotations

import numpy as np
import pytest

from cnp_router.catalog import Api, Catalog
from cnp_router.history import History, Mashup
from cnp_router.training import fit_router, load_router

CATALOG = Catalog(
    [
        Api("mail", "mail", "Sends and reads e-mails."),
        Api("containers", "containers", "Starts and stops containers, and shows their logs."),
        Api("database", "database", "Runs queries on the tables of a database."),
        Api("calendar", "calendar", "Invites people to meetings, and moves them."),
    ]
)
MASHUPS = [
    Mashup("1", "Send Ann an e-mail about the party", ("mail",)),
    Mashup("2", "Which containers have been started?", ("containers",)),
    Mashup("3", "Count the rows of the table of invoices", ("database",)),
    Mashup("4", "Move the meeting with Bob to Friday", ("calendar",)),
    Mashup("5", "Restart all containers that have stopped", ("containers",)),
]
QUOTING = 'Send Tom an e-mail: "Please stop the containers, and query the database tables."'
QUOTED = 'My neighbour said: "Please stop all of the containers"'


@pytest.fixture(params=[0, len(MASHUPS)], ids=["no history", "a few"])
def router(request):
    return fit_router(CATALOG, History(MASHUPS[: request.param]))


def test_what_is_to_be_sent_is_not_what_is_asked(router):
    routing = router.route(QUOTING)
    assert routing.recommendation == ("mail",)
    assert routing.request == QUOTING
    other = router.route('Send Tom an e-mail: "Buy bread, milk and some eggs"')
    assert routing.recipients == other.recipients
    assert router.recommend(QUOTING.replace('"', ""))[0] != "mail"


def test_what_is_quoted_may_be_what_is_asked(router):
    assert router.recommend(QUOTED) == ("containers",)
    assert router.recommend(QUOTED[QUOTED.index('"') :]) == ("containers",)


def test_what_was_asked_before_is_read_whole(router):
    router.observe(Mashup("again", QUOTING, ("database",)))
    assert router.recommend(QUOTING)[0] == "database"


def test_many_are_read_like_one_here_and_elsewhere(router, tmp_path):
    requests = [QUOTING, "Move the meeting", QUOTED]
    router.save(tmp_path / "model")
    alone = [router.route(request) for request in requests]
    for n_jobs in (None, 2):
        assert router.route_many(requests, n_jobs=n_jobs) == alone
    loaded = load_router(tmp_path / "model").score_many(requests)
    for one, other in zip(map(router.score, requests), loaded, strict=True):
        assert np.array_equal(one.probabilities, other.probabilities)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_reasons_speak_of_what_is_read(router, n_jobs):
    for routing in router.route_many([QUOTING, QUOTING], n_jobs=n_jobs, explain=True):
        said = [str(reason) for each in routing.recipients for reason in each.reasons]
        assert any("mail" in text for text in said)
        assert not any("containers" in text for text in said)
