"""What jobs need of each other is found from names, schemas, past calls and descriptions."""

from __future__ import annotations

import logging

import pytest

from cnp_router.catalog import Api
from cnp_router.exceptions import InputError
from cnp_router.execution import Job, Plan
from cnp_router.planning import data_flow, decompose, with_dependencies
from cnp_router.planning.likely_api import LikelyApi
from cnp_router.prediction import ParameterHints
from cnp_router.trajectories import Step

TEXT, NUMBER = {"type": "string"}, {"type": "number"}


def api(id_, effects="reads", returns=None, description="", optional=(), **inputs):
    required = [each for each in inputs if each not in optional]
    schema = {"type": "object", "properties": inputs, "required": required}
    fields = None if returns is None else {"type": "object", "properties": returns}
    return Api(id_, id_, description, parameters=schema, effects=effects, returns=fields)


PERSON = api("person", name=TEXT, returns={"name": TEXT, "email": TEXT, "city": TEXT})
PLACE = api("place", city=TEXT, returns={"city": TEXT, "lat": NUMBER, "lng": NUMBER})
RAIN = api("rain", latitude=NUMBER, longitude=NUMBER, returns={"sky": TEXT})
SEND = api("send", "writes", to={"type": "string", "format": "email"}, text=TEXT)
ALL = (PERSON, PLACE, RAIN, SEND)


def plan(*jobs):
    return Plan("Do it.", tuple(Job(name, task, who) for name, task, who in jobs))


def after(found):
    return {job.id: set(job.after) for job in found.jobs}


def test_names_other_names_and_kinds_of_fields_are_needs():
    flow = data_flow(
        plan(
            ("sky", "Will it rain there?", "rain"),
            ("where", "Find that city.", "place"),
            ("who", 'Find "Aiko".', "person"),
        ),
        ALL,
    )
    assert after(flow.plan) == {"sky": {"where"}, "where": {"who"}, "who": set()}
    assert {(need.parameter, need.path) for need in flow.needs} == {
        ("city", "/city"),
        ("latitude", "/lat"),
        ("longitude", "/lng"),
    }
    inputs = {job.id: job.inputs for job in flow.plan.jobs}
    assert inputs["where"] == {"city": {"$from": "who", "path": "/city"}}
    assert inputs["who"] is None


def test_an_address_is_one_whatever_it_is_called():
    found = with_dependencies(
        plan(("note", 'Send a note: "Hello"', "send"), ("who", 'Find "Aiko".', "person")), ALL
    )
    note = found.jobs[0]
    assert note.after == ("who",)
    assert note.inputs == {"to": {"$from": "who", "path": "/email"}}


def test_what_the_task_or_the_inputs_say_is_no_need():
    said = plan(
        ("note", 'Send "Hello" to a@example.org', "send"), ("who", 'Find "Aiko".', "person")
    )
    assert data_flow(said, ALL).needs == tuple(
        need for need in data_flow(said, ALL).needs if need.why == "order"
    )
    given = Plan("Do it.", (Job("at", "", "place", {"city": "Nara"}), Job("who", "", "person", {})))
    assert after(with_dependencies(given, ALL)) == {"at": set(), "who": set()}


def test_what_changes_something_waits_for_what_reads_unless_that_needs_it():
    make = api("make", "writes", title=TEXT, returns={"ticket_id": TEXT})
    show = api("show", ticket_id=TEXT, returns={"state": TEXT})
    found = with_dependencies(
        plan(
            ("make", 'Make the ticket "Leak".', "make"),
            ("show", "Show it.", "show"),
            ("who", 'Find "Aiko".', "person"),
        ),
        (make, show, PERSON),
    )
    assert after(found) == {"make": {"who"}, "show": {"make"}, "who": set()}


def test_a_circle_loses_its_weakest_need_and_that_is_said(caplog):
    one = api("one", right=TEXT, returns={"left": TEXT})
    two = api("two", left=TEXT, returns={"id": TEXT, "right_id": TEXT})
    other = api("one", right_id=TEXT, returns={"left": TEXT})
    jobs = plan(("a", "Do one.", "one"), ("b", "Do two.", "two"))
    assert after(with_dependencies(jobs, (one, two))) == {"a": set(), "b": {"a"}}
    hints = ParameterHints()  # past calls are stronger than names
    hints.observe_step([Step("one", {}, '{"left": "x"}')], Step("two", {"left": "x"}))
    with caplog.at_level(logging.WARNING):
        found = data_flow(jobs, (other, two), hints=hints)
        with_dependencies(jobs, (other, two), hints=hints)
    assert after(found.plan) == {"a": set(), "b": {"a"}}
    assert [(need.job, need.of) for need in found.dropped] == [("a", "b")]
    assert "'a' does not wait for 'b'" in caplog.text
    assert found.plan.levels  # Plan itself raises for a circle


def test_of_two_that_give_the_same_the_one_that_names_the_same_counts():
    found = with_dependencies(
        plan(
            ("note", 'Send Bo Lind a note: "Hello"', "send"),
            ("aiko", 'Find "Aiko Mori".', "person"),
            ("bo", 'Find "Bo Lind".', "person"),
        ),
        ALL,
    )
    assert found.jobs[0].after == ("bo",)  # not of the other: its address would be in the way too
    assert found.jobs[0].inputs == {"to": {"$from": "bo", "path": "/email"}}


def test_where_nothing_decides_a_job_waits_for_all_and_no_reference_is_made():
    found = with_dependencies(
        plan(
            ("note", 'Send them a note: "Hello"', "send"),
            ("aiko", 'Find "Aiko Mori".', "person"),
            ("bo", 'Find "Bo Lind".', "person"),
        ),
        ALL,
    )
    assert set(found.jobs[0].after) == {"aiko", "bo"}
    assert found.jobs[0].inputs is None


def test_a_field_that_repeats_what_was_asked_gives_way():
    found = with_dependencies(
        plan(
            ("hotel", "Find a hotel in that city.", "hotel"),
            ("map", 'Find the city "Oslo".', "place"),
            ("who", 'Find "Aiko".', "person"),
        ),
        (*ALL, api("hotel", city=TEXT, returns={"hotel_id": TEXT})),
    )
    assert found.jobs[0].after == ("who",)


def test_past_calls_tell_what_names_do_not():
    order = api("order", number=TEXT)
    hints = ParameterHints()
    hints.observe_step([Step("order", {}, '{"customer": "Bo"}')], Step("person", {"name": "Bo"}))
    jobs = plan(("who", "Find who it is.", "person"), ("order", 'Find the order "A1".', "order"))
    (need,) = data_flow(jobs, (order, PERSON), hints=hints).needs
    assert (need.of, need.path, need.why) == ("order", "/customer", "past calls")


def test_past_results_and_descriptions_stand_in_for_schemas():
    silent = api("silent", number=TEXT)
    jobs = plan(("sky", "Rain there?", "rain"), ("at", 'Find "Nara".', "silent"))
    seen = data_flow(jobs, (silent, RAIN), results={"silent": {"geo": {"lat": 1.5, "lng": 2.5}}})
    assert {(need.path, need.why) for need in seen.needs} == {
        ("/geo/lat", "field"),
        ("/geo/lng", "field"),
    }
    told = api("silent", number=TEXT, description="Finds latitude and longitude of a place.")
    assert {need.why for need in data_flow(jobs, (told, RAIN)).needs} == {"description"}
    assert {need.why for need in data_flow(jobs, (silent, RAIN)).needs} == {"unknown"}


def test_items_of_a_list_are_waited_for_and_not_referred_to():
    people = api(
        "people",
        query=TEXT,
        returns={"people": {"type": "array", "items": {"$ref": "#/$defs/Person"}}},
    )
    schema = {**people.returns, "$defs": {"Person": {"properties": {"email": TEXT}}}}
    people = Api("people", "people", parameters=people.parameters, effects="reads", returns=schema)
    found = with_dependencies(
        plan(("note", 'Send a note: "Hello"', "send"), ("all", 'Find "Mori".', "people")),
        (people, SEND),
    )
    assert (found.jobs[0].after, found.jobs[0].inputs) == (("all",), None)


def test_inputs_that_may_be_filled_by_more_are_left_to_be_filled():
    send = api(
        "send", "writes", to={"type": "string", "format": "email"}, date=TEXT, optional=["date"]
    )
    jobs = plan(("note", "Send it on 2027-01-02.", "send"), ("who", 'Find "Aiko".', "person"))
    note = with_dependencies(jobs, (send, PERSON)).jobs[0]
    assert (note.after, note.inputs) == (("who",), None)


def test_a_plan_keeps_what_it_says():
    given = Plan(
        "Do it.",
        (
            Job(
                "note",
                'Send a note: "Hi"',
                "send",
                {"to": {"$from": "bo", "path": "/email"}},
                ("bo",),
            ),
            Job("bo", 'Find "Bo".', "person", after=("aiko",)),
            Job("aiko", 'Find "Aiko".', "person"),
        ),
        "Be kind.",
    )
    found = with_dependencies(given, ALL)
    assert found.guideline == "Be kind."
    assert found.jobs[0].inputs == given.jobs[0].inputs
    assert after(found)["bo"] == {"aiko"}


def test_jobs_without_an_api_wait_as_their_likeliest_api_would():
    jobs = Plan("Do it.", (Job("sky", "Will it rain?"), Job("at", 'Find the place "Nara".')))
    found = with_dependencies(jobs, ALL)
    assert after(found) == {"sky": {"at"}, "at": set()}
    assert all(job.inputs is None for job in found.jobs)  # who it goes to may call them otherwise
    assert after(with_dependencies(jobs, ALL, likely=lambda text: None)) == {
        "sky": set(),
        "at": set(),
    }


def test_a_request_is_cut_where_another_api_begins():
    found = decompose('Send a note: "Hello", and find the person "Aiko" by name.', ALL)
    assert [job.task for job in found.jobs] == [
        'Send a note: "Hello"',
        'find the person "Aiko" by name.',
    ]
    assert found.jobs[0].after == ("job-2",)
    assert [job.id for job in decompose("Will it rain?", ALL).jobs] == ["job-1"]


def test_what_is_to_be_sent_makes_no_jobs():
    text = 'Send a note: "Find the person Aiko, and will it rain in Nara?"'
    assert [job.task for job in decompose(text, ALL).jobs] == [text]
    assert LikelyApi(ALL)(text) == LikelyApi(ALL)("Send a note")


@pytest.mark.parametrize("request_", ["", "  "])
def test_an_empty_request_and_no_api_are_errors(request_):
    with pytest.raises(InputError):
        decompose(request_, ALL)
    with pytest.raises(InputError, match="at least one API"):
        decompose("Rain?", ())
