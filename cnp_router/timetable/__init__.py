"""The timetable of a student: courses with rules, the worked example of plans that hold."""

from cnp_router.timetable.board import Board
from cnp_router.timetable.course import (
    ASSESSMENTS,
    DAYS,
    FORMS,
    PERIODS,
    SLOTS,
    Course,
    check_slot,
    load_courses,
    read_courses,
    slot_in_words,
    slots_of,
)
from cnp_router.timetable.form import Form, Liking
from cnp_router.timetable.proposal import Proposal, propose
from cnp_router.timetable.questions import Question
from cnp_router.timetable.revision import Revision
from cnp_router.timetable.timetable_tools import TimetableTools
from cnp_router.timetable.wishes import Reading, read_wishes

__all__ = [
    "ASSESSMENTS",
    "DAYS",
    "FORMS",
    "PERIODS",
    "SLOTS",
    "Board",
    "Course",
    "Form",
    "Liking",
    "Proposal",
    "Question",
    "Reading",
    "Revision",
    "TimetableTools",
    "check_slot",
    "load_courses",
    "propose",
    "read_courses",
    "read_wishes",
    "slot_in_words",
    "slots_of",
]
